//! `/p/<id>`: one profile: its flame graph with the top functions, and what is known about it; with `format=`, a report.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use procprof_report::REPORTS;
use procprof_store::{Entry, Format};

use super::facts;
use super::frame::Frame;
use super::list::known_class;
use super::moment;
use super::operate::profile_forms;
use super::wanted;
use crate::app::App;
use crate::auth::Principal;
use crate::http::api::profiles::open;
use crate::http::base::Base;
use crate::http::params::Params;
use crate::http::problem::Answer;
use crate::http::starrocks::view;
use crate::nodes::Node;

/// Graphs that the page shows in its frame: their queries and labels.
const GRAPHS: [(&str, &str); 2] = [("html&layout=icicle", "Flame graph"), ("svg", "Call graph")];

/// `GET /p/{id}?format=`
pub(in crate::http) async fn profile(
    State(app): State<Arc<App>>,
    principal: Principal,
    base: Base,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer<Response> {
    let entry = open(&app, &id).await?;
    let params = Params::parse(&query.unwrap_or_default())?;
    if params.get("format").is_some() {
        let pairs: Vec<(&str, &str)> = params.except(&["format"]).collect();
        return view(&app, &entry, params.get("format"), &pairs, &headers).await;
    }
    params.only(&[])?;
    let node = app.registry.by_id(entry.node);
    let title = format!("{} · {}", entry.profile_type.label(), entry.file_name);
    Ok(Frame { title: &title, live: false, status: None }.page(body(&app, &entry, node.as_deref(), &principal, &base)).into_response())
}

fn body(app: &App, entry: &Entry, node: Option<&Node>, principal: &Principal, base: &Base) -> Markup {
    let label = node.map_or_else(|| format!("node {}", entry.node), Node::label);
    let own = entry.format == Format::Pprof;
    html! {
        main class="one" {
            p class="crumbs" { a href=(format!("/proc_profile?node={}", entry.node)) { (label) } " / " (entry.file_name) }
            h1 { span class=(format!("type {}", known_class(entry.profile_type.name()))) { (entry.profile_type.label()) } " completed " (moment(entry.completed.0))
                @if entry.pinned { " " span class="tag pin" { "pinned" } } }
            @if principal.operates() { (profile_forms(entry)) }
            p class="filters" {
                @if own {
                    @for report in REPORTS.iter().filter(|report| !report.takes_code()) { a href=(format!("/p/{}?format={}", entry.id, report.name)) target="_blank" title=(report.help) { (report.name) } }
                }
                a href=(format!("/api/profiles/{}/download", entry.id)) title="The stored file; go tool pprof opens it" { "download" }
            }
            (wanted::card(app, entry, base))
            @if own {
                p class="filters" {
                    @for (format, label) in GRAPHS { a href=(format!("/p/{}?format={format}", entry.id)) target="graph" { (label) } }
                }
            }
            iframe class="graph" name="graph" src=(format!("/p/{}?format={}", entry.id, if own { GRAPHS[0].0 } else { "page" })) title="Graph" sandbox="allow-scripts" {}
            div class="columns" { (facts::card(entry)) }
        }
    }
}
