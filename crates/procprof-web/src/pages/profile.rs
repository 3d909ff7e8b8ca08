//! `/p/<id>`: one profile in the flame graph viewer, and what is known about it; with `format=`, a report.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::nodes::Node;
use procprof_core::shares::Requester;
use procprof_profile::{Nanos, ProfileId};
use procprof_report::{REPORTS, Report};
use procprof_store::{Entry, Filter, Format, PageRequest};

use super::facts;
use super::frame::Frame;
use super::list::known_class;
use super::operate::profile_forms;
use super::scaling::{Extent, Extents};
use super::wanted;
use super::{moment, type_label};
use crate::Web;
use crate::blocking::on_store;
use crate::caller::{Caller, ShareRequester};
use crate::params::Params;
use crate::problem::ApiResult;
use crate::profile_document::render;
use crate::server_url::ServerUrl;
use crate::subjects::compared;
use crate::subjects::open;
use crate::texts::t;
use crate::time::rfc3339;
use crate::viewer::{Command, PLAIN, VIEW_STATE, ViewerConfig, joined, options_of, viewer};

/// Bytes of the table that the page without JavaScript shows.
const PLAIN_BYTES_MAX: usize = 256 << 10;

/// Profiles among which the one before is looked for: pages made elsewhere have no samples to compare.
const PREVIOUS_READ: usize = 16;

/// `GET /p/{id}?format=`
pub(crate) async fn profile(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: ServerUrl,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    ShareRequester(requester): ShareRequester,
) -> ApiResult<Response> {
    let entry = open(&web, &id).await?;
    let query = query.unwrap_or_default();
    let params = Params::parse(&query)?;
    if params.get("format").is_some() {
        let subject = compared(&web, &entry, &params).await?;
        let pairs: Vec<(&str, &str)> = params.except(&["format", "base"]).collect();
        return render(&web, &subject, params.get("format"), &pairs, &requester).await;
    }
    let known: Vec<&str> = VIEW_STATE.iter().copied().chain(["base", PLAIN]).chain(options_of()).collect();
    let params = params.only(&known)?;
    let node = web.registry.by_id(entry.node);
    let compared = match params.get("base") {
        Some(id) => Some(open(&web, id).await?),
        None => None,
    };
    let extents = compared.as_ref().and_then(|other| extents(&entry, other));
    if params.get("normalize").is_none()
        && let Some(scaling) = extents.and_then(Extents::default).filter(|scaling| *scaling == "time")
    {
        return Ok(Redirect::temporary(&format!("/p/{}?{query}&normalize={scaling}", entry.id)).into_response());
    }
    let page = Page {
        web: &web,
        entry: &entry,
        compared: compared.as_ref(),
        extents,
        node: node.as_deref(),
        principal: &principal,
        base: &base,
        params: &params,
    };
    let graph = page.graph(&requester).await?;
    let (previous, day_before) = (previous(&web, &entry).await?, day_before(&web, &entry).await?);
    let title = format!("{} · {}", entry.profile_type.label(), entry.file_name);
    Ok(Frame { place: "/proc_profile", title: &title, node: Some(entry.node), live: false, status: None }
        .page(page.body(&graph, previous, day_before.as_deref()))
        .into_response())
}

/// The profile of the same node and type that was completed last before this one.
async fn previous(web: &Arc<Web>, entry: &Entry) -> ApiResult<Option<ProfileId>> {
    if entry.format != Format::Pprof {
        return Ok(None);
    }
    let filter = Filter {
        nodes: vec![entry.node],
        types: vec![entry.profile_type.clone()],
        to: Some(entry.completed),
        ..Filter::default()
    };
    let store = Arc::clone(&web.store);
    let before = on_store(move || store.list(&filter, &PageRequest::first(PREVIOUS_READ))).await?;
    Ok(before.rows.iter().find(|before| before.format == Format::Pprof).map(|before| before.id))
}

/// The address of the comparison with the profiles of the same type that were completed within half an hour of the same
/// time of the day before; `None` without any.
async fn day_before(web: &Arc<Web>, entry: &Entry) -> ApiResult<Option<String>> {
    const DAY: i64 = 86_400_000_000_000;
    const HALF_AN_HOUR: i64 = 1_800_000_000_000;
    let [from, to] = [-HALF_AN_HOUR, HALF_AN_HOUR].map(|by| entry.completed.0.saturating_sub(DAY).saturating_add(by));
    let filter = Filter {
        nodes: vec![entry.node],
        types: vec![entry.profile_type.clone()],
        from: Some(Nanos(from)),
        to: Some(Nanos(to)),
        ..Filter::default()
    };
    let store = Arc::clone(&web.store);
    let found = on_store(move || store.list(&filter, &PageRequest::first(1))).await?;
    let is_there = entry.format == Format::Pprof && !found.rows.is_empty();
    let (id, node) = (entry.id.to_string(), entry.node.to_string());
    let (from, to) = (rfc3339(from), rfc3339(to));
    let query = [
        ("id", id.as_str()),
        ("node", &node),
        ("type", entry.profile_type.name()),
        ("base_from", &from),
        ("base_to", &to),
    ];
    Ok(is_there.then(|| joined("/merge", &query)))
}

/// How much two profiles have measured, if they can be compared.
fn extents(entry: &Entry, base: &Entry) -> Option<Extents> {
    let extent = |entry: &Entry| Extent { profiles: 1, duration: entry.duration.0, has_time: entry.duration.0 > 0 };
    let is_profile = |entry: &Entry| entry.format == Format::Pprof;
    (is_profile(entry) && is_profile(base)).then(|| Extents { own: extent(entry), base: extent(base) })
}

/// Everything that the page shows.
struct Page<'a> {
    web: &'a Arc<Web>,
    entry: &'a Entry,
    /// What it is compared with.
    compared: Option<&'a Entry>,
    /// How much both have measured; `None` where there is no difference to be scaled.
    extents: Option<Extents>,
    node: Option<&'a Node>,
    principal: &'a Principal,
    base: &'a ServerUrl,
    params: &'a Params,
}

impl Page<'_> {
    fn body(&self, graph: &Markup, previous: Option<ProfileId>, day_before: Option<&str>) -> Markup {
        let Page { web, entry, .. } = self;
        let label = self.node.map_or_else(|| t!("node {0}", entry.node), Node::label);
        html! {
            main class="one" {
                p class="crumbs" {
                    a href=(format!("/proc_profile?node={}", entry.node)) { (label) } " / " (entry.file_name)
                }
                div class="subject" {
                    h1 {
                        @let kind = html! {
                            span class=(format!("type {}", known_class(entry.profile_type.name()))) {
                                (type_label(&entry.profile_type))
                            }
                        };
                        (t!("{0} completed {1}").fill(&[kind, moment(entry.completed.0)]))
                        @if entry.pinned { " " span class="tag pin" { (t!("pinned")) } } }
                    div class="actions" {
                        @if entry.format == Format::Pprof { (self.reports()) }
                        @if let Some(previous) = previous.filter(|_| self.compared.is_none()) {
                            a class="button" href=(format!("/p/{}?base={previous}", entry.id))
                                title=(t!("Compare with the profile of this node and type before it"))
                            {
                                (t!("Compare with previous"))
                            }
                        }
                        @if let Some(day_before) = day_before {
                            a class="button" href=(day_before)
                                title=(t!("Compare with the profiles of the same hour of the day before"))
                            {
                                (t!("Compare with day before"))
                            }
                        }
                        a class="button" href=(format!("/api/profiles/{}/download", entry.id))
                            title=(t!("The stored file; go tool pprof opens it"))
                        {
                            (t!("Download"))
                        }
                        @if self.principal.operates() { (profile_forms(entry)) }
                    }
                }
                @if let Some(compared) = self.compared {
                    p class="compared" {
                        @let other = html! { a href=(format!("/p/{}", compared.id)) { (compared.file_name) } };
                        (t!("Compared with {0}, completed {1}").fill(&[other, moment(compared.completed.0)]))
                        " · " a href=(format!("/p/{}?base={}", compared.id, entry.id)) { (t!("Swap")) }
                        " · " a href=(format!("/p/{}", entry.id)) { (t!("End the comparison")) }
                    }
                    @if let Some(extents) = self.extents { (extents.switch(&format!("/p/{}", entry.id), self.params)) }
                }
                (wanted::card(web, entry, self.base))
                (graph)
                div class="columns" { (facts::card(entry)) }
            }
        }
    }

    /// The picture: the viewer; a page made elsewhere in its frame.
    async fn graph(&self, requester: &Requester) -> ApiResult<Markup> {
        let entry = self.entry;
        if entry.format == Format::Recording {
            return Ok(html! {});
        }
        if entry.format != Format::Pprof {
            let source = format!("/p/{}?format=page", entry.id);
            return Ok(
                html! { iframe class="graph" name="graph" src=(source) title=(t!("Flame graph")) sandbox="allow-scripts" {} },
            );
        }
        if self.params.get(PLAIN).is_some() {
            return self.plain(requester).await;
        }
        let subject: Vec<(&str, &str)> = self.params.get("base").map(|base| ("base", base)).into_iter().collect();
        let path = format!("/p/{}", entry.id);
        let report = |name: &str| joined(&path, &[&[("format", name)], subject.as_slice()].concat());
        let data = |name: &str| joined(&format!("{path}/{name}"), &subject);
        let others = [&VIEW_STATE[..], &["base", PLAIN]].concat();
        let options: Vec<(&str, &str)> = self.params.except(&others).collect();
        let has_sources = !self.web.config().source_roots.is_empty();
        let has_report = |name: &str| subject.is_empty() && (name == "svg" || (name == "list" && has_sources));
        let config = ViewerConfig::new(data, &options, |name| has_report(name).then(|| report(name)), report);
        let address = &self.base.0;
        let download = |id: &str| format!("'{address}/api/profiles/{id}/download'");
        let base = self.params.get("base").map_or_else(String::new, |id| format!(" -diff_base={}", download(id)));
        let own = download(&entry.id.to_string());
        let commands = vec![
            Command { label: "curl", text: format!("curl -sS '{address}{}{{query}}'", report("top")) },
            Command { label: "procprof", text: format!("procprof report -top{base}{{flags}} {own}") },
            Command { label: "go tool pprof", text: format!("go tool pprof{base} {own}") },
        ];
        let shown = self.params.except(&VIEW_STATE);
        let plain: Vec<(&str, &str)> = shown.chain([(PLAIN, "true")]).collect();
        Ok(viewer(&config.with_commands(commands), &joined(&path, &plain)))
    }

    /// The functions as a text that needs no script.
    async fn plain(&self, requester: &Requester) -> ApiResult<Markup> {
        let hidden: Vec<&str> = VIEW_STATE.iter().copied().chain(["base", PLAIN]).collect();
        let pairs: Vec<(&str, &str)> = self.params.except(&hidden).collect();
        let top = Report::named("top").map_err(|error| crate::problem::Problem::bad_request(error.to_string()))?;
        let subject = compared(self.web, self.entry, self.params).await?;
        let bytes = self.web.renderer.render(&subject, top, &pairs, requester).await?;
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(PLAIN_BYTES_MAX)]).into_owned();
        let picture =
            joined(&format!("/p/{}", self.entry.id), &[&[("format", "flamegraph")], pairs.as_slice()].concat());
        Ok(html! {
            p class="filters" {
                a href=(picture) { (t!("The flame graph as a picture")) }
                a href=(format!("/p/{}", self.entry.id)) { (t!("With JavaScript")) }
            }
            div class="table" { pre class="report" { (text) } }
        })
    }

    /// All reports behind one button.
    fn reports(&self) -> Markup {
        html! {
            details class="save" {
                summary { (t!("Reports")) }
                ul { @for report in REPORTS.iter().filter(|report| !report.takes_code()) {
                    li {
                        a href=(format!("/p/{}?format={}", self.entry.id, report.name)) target="_blank"
                            title=(report.help)
                        {
                            (report.name)
                        }
                    }
                } }
            }
        }
    }
}
