//! `/p/<id>`: one profile: what is known about it, its top functions and its flame graph; with `format=`, a report.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use procprof_report::REPORTS;
use procprof_store::{Entry, Format};

use super::frame::Frame;
use super::list::known_class;
use super::operate::profile_forms;
use super::{amount, moment, size};
use crate::app::App;
use crate::auth::Principal;
use crate::http::api::profiles::find;
use crate::http::params::Params;
use crate::http::problem::Answer;
use crate::http::starrocks::view;
use crate::ingest::SHOWN;
use crate::nodes::Node;

/// `GET /p/{id}?format=`
pub(in crate::http) async fn profile(
    State(app): State<Arc<App>>,
    principal: Principal,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer<Response> {
    let entry = find(&app, &id).await?;
    let params = Params::parse(&query.unwrap_or_default())?;
    if params.get("format").is_some() {
        let pairs: Vec<(&str, &str)> = params.except(&["format"]).collect();
        return view(&app, &entry, params.get("format"), &pairs, &headers).await;
    }
    params.only(&[])?;
    let node = app.registry.by_id(entry.node);
    let title = format!("{} · {}", entry.profile_type.label(), entry.file_name);
    Ok(Frame { title: &title, live: false, status: None }.page(body(&entry, node.as_deref(), &principal)).into_response())
}

fn body(entry: &Entry, node: Option<&Node>, principal: &Principal) -> Markup {
    let label = node.map_or_else(|| format!("node {}", entry.node), Node::label);
    let own = entry.format == Format::Pprof;
    html! {
        main class="one" {
            p class="crumbs" { a href=(format!("/proc_profile?node={}", entry.node)) { (label) } " / " (entry.file_name) }
            h1 { span class=(format!("type {}", known_class(entry.profile_type.name()))) { (entry.profile_type.label()) } " " (moment(entry.completed.0))
                @if entry.pinned { " " span class="tag pin" { "pinned" } } }
            @if principal.operates() { (profile_forms(entry)) }
            p class="filters" {
                @if own {
                    @for report in REPORTS { a href=(format!("/p/{}?format={}", entry.id, report.name)) target="_blank" title=(report.help) { (report.name) } }
                }
                a href=(format!("/api/profiles/{}/download", entry.id)) title="The stored file; go tool pprof opens it" { "download" }
            }
            iframe class="graph" src=(format!("/p/{}?format={}", entry.id, if own { "html&layout=icicle" } else { "page" })) title="Flame graph" sandbox="allow-scripts" {}
            div class="columns" { (facts(entry)) @if own { (top(entry)) } }
        }
    }
}

fn facts(entry: &Entry) -> Markup {
    let meta = &entry.meta;
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            rows.push((name.to_owned(), value));
        }
    };
    add("Means", meta.means.clone());
    add("Length", if entry.duration.0 > 0 { amount(entry.duration.0, "nanoseconds") } else { "a moment".to_owned() });
    add("File", format!("{}, {}", entry.file_name, size(entry.bytes)));
    add("Trigger", meta.trigger.clone());
    add("Engine", meta.engine.clone());
    for total in &entry.summary.totals {
        add(&format!("Total {}", total.kind), amount(total.value, &total.unit));
    }
    add("Lost samples", meta.lost.map(|count| count.to_string()).unwrap_or_default());
    add("Cut stacks", meta.truncated.map(|count| count.to_string()).unwrap_or_default());
    add("CPU time no sample saw", meta.unsampled.map(|nanos| amount(nanos.cast_signed(), "nanoseconds")).unwrap_or_default());
    add("Version", meta.instance_version.clone());
    add("Build id", meta.instance_build_id.clone());
    for (key, value) in &meta.labels {
        add(&format!("Label {key}"), value.clone());
    }
    for (key, value) in meta.more.iter().filter(|(key, _)| *key != SHOWN) {
        let name = if key.starts_with("wanted-file.") { "Symbols wanted from" } else { key };
        add(name, value.clone());
    }
    add("Stored by", meta.tool.clone());
    html! {
        section class="card" {
            h2 { "What is known" }
            dl { @for (name, value) in &rows { dt { (name) } dd { (value) } } }
        }
    }
}

fn top(entry: &Entry) -> Markup {
    let shown = entry.meta.more.get(SHOWN);
    let found = entry.summary.totals.iter().find(|total| Some(&total.kind) == shown).or(entry.summary.totals.last());
    let (total, unit) = found.map_or((1, "count"), |total| (total.value.max(1), total.unit.as_str()));
    let most = entry.summary.top.first().map_or(1, |row| row.value.max(1));
    html! {
        section class="card top" {
            h2 { "Top functions" }
            table { tbody {
                @for row in &entry.summary.top {
                    tr { td class="number" { (format!("{:.1} %", 100.0 * row.value as f64 / total as f64)) }
                        td class="number muted" { (amount(row.value, unit)) }
                        td { meter min="0" max=(most) value=(row.value.max(0)) {} }
                        td class="function" { (row.name) } }
                }
            } }
        }
    }
}
