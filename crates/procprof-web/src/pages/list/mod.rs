//! `/proc_profile`: the profiles of a node: a timeline, a table with filters, its schedule and its errors.

mod aside;
mod filters;
pub(super) mod picker;
mod query;
mod select;
pub(super) mod table;
mod timeline;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::nodes::Node;
use procprof_profile::ProfileType;
use procprof_store::{Cursor, Entry, ErrorEntry, Page, PageRequest, Usage};

pub(crate) use select::select;

use super::commands::{Command, commands, quoted};
use super::frame::Frame;
use super::operate::{collect_form, node_menu, paused_chip, running};
use super::{errors, heap, host, process, type_label, wanted};
use crate::Web;
use crate::blocking::on_store;
use crate::caller::Caller;
use crate::params::{Params, encode};
use crate::problem::ApiResult;
use crate::server_url::ServerUrl;
use crate::texts::t;
use query::{KNOWN, ListQuery};
use table::Table;
use timeline::Timeline;

const ROWS: usize = 40;
/// Most labels to choose from.
const LABELS_MAX: usize = 200;

struct View {
    web: Arc<Web>,
    principal: Principal,
    query: ListQuery,
    page: Page<Entry, Cursor>,
    timeline: Option<Timeline>,
    is_first: bool,
    errors: Page<ErrorEntry, u64>,
    usage: Arc<Usage>,
    base: ServerUrl,
}

/// `GET /proc_profile?node=&type=&last=&from=&to=&label=&text=&trigger=&cursor=`
pub(crate) async fn list(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: ServerUrl,
    RawQuery(query): RawQuery,
) -> ApiResult<Markup> {
    let params = Params::parse(&query.unwrap_or_default())?.only(KNOWN)?;
    let query = ListQuery::new(&web, &params)?;
    let after = params.get("cursor").map(str::parse::<Cursor>).transpose()?;
    let is_first = after.is_none();
    let (store, wanted) = (Arc::clone(&web.store), query.clone());
    let read = on_store(move || {
        let page = store.list(&wanted.filter(), &PageRequest { limit: ROWS, after })?;
        Ok((page, Timeline::read(&store, &wanted)?))
    });
    let (page, timeline) = read.await?;
    let errors = errors::newest(&web, &query.node);
    let usage = web.usage.get(&web.store).await?;
    let view = View { web, principal, query, page, timeline, is_first, errors, usage, base };
    let title = t!("{0}: profiles", view.query.node.label());
    Ok(Frame {
        place: "/proc_profile",
        title: &title,
        node: Some(view.query.node.id),
        live: view.is_first,
        status: Some(view.status()),
    }
    .page(view.body()))
}

/// Where else the node's profiles are.
fn elsewhere(web: &Web, node: &Node) -> Markup {
    let url = web.servers.as_ref().and_then(|servers| servers.url_of_other(node));
    html! {
        @if let Some(url) = url {
            p class="notice" {
                (t!("{0} captures this node on schedule; its newest profiles are there.").fill(&[html! {
                    a href=(format!("{url}/proc_profile?node={}", node.id)) { (url) }
                }]))
            }
        }
    }
}

impl View {
    fn body(&self) -> Markup {
        let (web, node) = (&self.web, &self.query.node);
        html! {
            (picker::picker(web, node.id, &self.usage, |node| format!("/proc_profile?node={}", node.id)))
            main class="list" {
                div class="head" {
                    (self.heading())
                    div class="of-node" {
                        @if self.principal.operates() && !node.schedule.is_empty() {
                            (collect_form(web, node, &self.query.href()))
                        }
                        (node_menu(web, &self.principal, node, t!("More").get(), &self.query.href()))
                    }
                }
                div id="failing" data-refresh { (self.failure()) (host::notices(web, node)) (elsewhere(web, node)) }
                div id="jobs" data-refresh { (running(web, &self.principal, Some(node), &self.query.href())) }
                div id="timeline" data-refresh {
                    @if let Some(timeline) = &self.timeline { (timeline.markup(&self.query)) }
                }
                (filters::filters(&self.query, &self.types(), &self.labels()))
                section aria-labelledby="heading" {
                    (table::forms(&self.query.href(), &self.principal))
                    div id="profiles" data-refresh { (self.table()) }
                }
                div id="aside" class="cards" {
                    div id="schedule" data-refresh { (aside::schedule(web, node)) }
                    div id="process" data-refresh {
                        (process::card(web, node))
                        (host::card(web, node, &self.principal, &self.query.href()))
                    }
                    div id="kept" data-refresh { (aside::retention(web, node, &self.usage)) }
                    @if heap::has_card(web, node, &self.principal) { (heap::later_elsewhere(node)) }
                    div id="wanted" data-refresh { (wanted::beside(web, &self.page.rows, &self.base)) }
                    div id="errors" data-refresh { (errors::card(node, &self.errors)) }
                }
                (commands(&self.as_commands()))
            }
        }
    }

    /// What this page lists and starts, as SQL and commands.
    fn as_commands(&self) -> Vec<Command> {
        let (id, base, query) = (self.query.node.id, &self.base.0, &self.query);
        let mut wanted = format!("WHERE node = {id}");
        let mut add = |condition: String| wanted.push_str(&format!(" AND {condition}"));
        let range = query.range();
        if let Some(kind) = &query.profile_type {
            add(format!("type = {}", quoted(kind.name())));
        }
        if let Some(trigger) = &query.trigger {
            add(format!("trigger = {}", quoted(trigger)));
        }
        for (key, value) in &query.labels {
            add(format!("labels LIKE {}", quoted(&format!("%{key}={value}%"))));
        }
        if let Some(from) = range.from {
            add(format!("completed_ns >= {}", from.0));
        }
        if let Some(to) = range.to {
            add(format!("completed_ns < {}", to.0));
        }
        let select = "SELECT id, type, completed, seconds, samples, top_function FROM profiles";
        let kind = query.profile_type.as_ref().or(self.query.node.schedule.first().map(|first| &first.profile_type));
        let mut rows = vec![
            Command::sql(format!("{select} {wanted} ORDER BY completed DESC LIMIT {ROWS}")),
            Command::shell(format!("curl '{base}/api/profiles?{}&limit={ROWS}'", query.api_query())),
        ];
        if let Some(kind) = kind.filter(|_| !self.query.node.schedule.is_empty()) {
            let body = format!("{{\"node\": {id}, \"type\": \"{kind}\", \"seconds\": 10}}");
            rows.push(Command::sql(format!("COLLECT {} ON {id} FOR 10 SECONDS", kind.name().to_uppercase())));
            rows.push(Command::shell(format!("curl -X POST '{base}/api/captures' -d '{body}'")));
        }
        if let Some(newest) = self.page.rows.first() {
            rows.push(Command::shell(format!("go tool pprof '{base}/api/profiles/{}/download'", newest.id)));
            rows.push(Command::shell(format!("procprof report -top '{base}/api/profiles/{}/download'", newest.id)));
        }
        rows
    }

    fn status(&self) -> Markup {
        let paused = self.web.captures.is_paused();
        html! {
            @if paused { (paused_chip()) }
            @if !self.principal.operates() {
                span class="chip" title=(t!("Viewers read; operators also capture, pause, pin and delete")) {
                    (t!("{0} · viewer", self.principal.name))
                }
            }
        }
    }

    fn heading(&self) -> Markup {
        let node = &self.query.node;
        html! {
            div {
                h1 id="heading" { (t!("Process Profiles")) }
                p class="about" {
                    strong { (node.label()) }
                    @if node.past { span { (t!("not collected: imported, or no longer configured")) } }
                    @else {
                        span { (node.kind().name()) }
                        @if !node.address.is_empty() { span { code { (node.address) } } }
                    }
                    @if node.cluster != "default" { span { (t!("cluster {0}", node.cluster)) } }
                    @for (key, value) in &node.config.labels { span class="label" { (key) "=" (value) } }
                    span class="muted" { (t!("id {0}", node.id)) }
                }
            }
        }
    }

    /// Why profiles are missing now, above everything else.
    fn failure(&self) -> Markup {
        let health = self.web.registry.health(self.query.node.id);
        html! {
            @if let Some((kind, failure)) = health.last_failure().filter(|_| !self.query.node.past) {
                p class="notice bad" {
                    strong { (t!("{0} fails:", type_label(kind))) " " }
                    (failure.reason)
                    " "
                    a href="#errors" { (t!("All errors")) }
                }
            }
        }
    }

    /// The types that can be chosen: those collected, those in the period, and the chosen one.
    fn types(&self) -> Vec<ProfileType> {
        let health = self.web.registry.health(self.query.node.id);
        let on =
            self.query.node.offered(&health).filter(|planned| planned.on).map(|planned| planned.profile_type.clone());
        let listed = self.page.rows.iter().map(|entry| entry.profile_type.clone());
        let shown = self.timeline.iter().flat_map(Timeline::types).cloned();
        let mut types: Vec<ProfileType> =
            on.chain(listed).chain(shown).chain(self.query.profile_type.clone()).collect();
        types.sort();
        types.dedup();
        types
    }

    /// The labels that can be chosen: those of the node, those of the listed profiles, and the chosen ones.
    fn labels(&self) -> Vec<String> {
        let listed = self.page.rows.iter().flat_map(|entry| &entry.meta.labels);
        let known = self.query.node.config.labels.iter().chain(listed);
        let chosen = self.query.labels.iter().map(|(key, value)| (key, value));
        let labels: BTreeSet<String> = known.chain(chosen).map(|(key, value)| format!("{key}={value}")).collect();
        labels.into_iter().take(LABELS_MAX).collect()
    }

    fn table(&self) -> Markup {
        html! {
            @if self.page.rows.is_empty() { (self.nothing_yet()) }
            @else { (Table { rows: &self.page.rows, principal: &self.principal, nodes: false, hits: None }.markup()) }
            (self.pages())
        }
    }

    fn pages(&self) -> Markup {
        let base = self.query.href();
        let searched = self.query.text.is_some() && self.page.rows.len() < ROWS;
        html! {
            @if !self.is_first || self.page.next.is_some() {
                p class="pages" {
                    @if searched && self.page.next.is_some() {
                        span class="muted" { (t!("5,000 profiles were searched")) }
                    }
                    @if !self.is_first { a href=(base) { (t!("← Newest")) } }
                    @if let Some(next) = &self.page.next {
                        a href=(format!("{base}&cursor={}", encode(&next.to_string()))) { (t!("Older →")) }
                    }
                }
            }
        }
    }

    /// Why the list is empty, and what to do.
    fn nothing_yet(&self) -> Markup {
        let node = &self.query.node;
        let health = self.web.registry.health(node.id);
        let (head, why) = if self.query.is_filtered() {
            (t!("No such profiles"), t!("None of this node's profiles pass the filters.").to_string())
        } else if let Some((kind, failure)) = health.last_failure() {
            (t!("No profiles yet"), t!("The last try ({0}) failed: {1}", kind, failure.reason))
        } else if self.web.servers.as_ref().is_some_and(|servers| !servers.captures(node)) {
            (
                t!("No profiles yet"),
                t!("Another server of the archive captures this node; this one has not yet.").to_string(),
            )
        } else if self.web.captures.is_paused() {
            (
                t!("No profiles yet"),
                t!("Scheduled captures are paused; Resume schedule is in the settings.").to_string(),
            )
        } else if node.schedule.iter().any(|planned| planned.on) {
            (
                t!("No profiles yet"),
                t!("The first capture is under way; the page shows its profile once it is complete.").to_string(),
            )
        } else if node.past {
            (t!("No profiles"), t!("The node is not configured; its profiles were deleted.").to_string())
        } else {
            (
                t!("No profiles"),
                t!("Nothing is collected from this node on schedule. Capture one now, or set its schedule in the configuration.").to_string(),
            )
        };
        html! {
            div class="empty" {
                p class="head" { (head) }
                p { (why) }
                @if self.query.is_filtered() {
                    p { a href=(format!("/proc_profile?node={}", node.id)) { (t!("Clear the filters")) } }
                }
            }
        }
    }
}

/// A class the style sheet knows.
pub(super) fn known_class(kind: &str) -> &str {
    match kind {
        "cpu" | "wall" | "alloc" | "heap" | "contention" | "mutex" | "goroutine" => kind,
        _ => "other",
    }
}
