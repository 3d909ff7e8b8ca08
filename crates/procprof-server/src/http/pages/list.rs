//! `/proc_profile`: a tab for every node, its profiles, its schedule and what went wrong.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use maud::{Markup, html};
use procprof_profile::ProfileType;
use procprof_store::{Cursor, Entry, ErrorEntry, Filter, Page, PageRequest, Usage};

use super::frame::Frame;
use super::operate::{collect_form, pause_form, running};
use super::{clock, errors, moment, size, strip, wanted};
use crate::app::App;
use crate::auth::Principal;
use crate::http::base::Base;
use crate::http::params::{Params, encode};
use crate::http::problem::Answer;
use crate::http::starrocks::{node as node_of, on_store};
use crate::nodes::{Health, Kind, Node, Planned, TypeHealth};

const ROWS: usize = 50;

struct View {
    app: Arc<App>,
    principal: Principal,
    node: Arc<Node>,
    profile_type: Option<ProfileType>,
    page: Page<Entry, Cursor>,
    is_first: bool,
    errors: Page<ErrorEntry, u64>,
    usage: Arc<Usage>,
    base: Base,
}

/// `GET /proc_profile?node=&type=&cursor=`
pub(in crate::http) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    base: Base,
    RawQuery(query): RawQuery,
) -> Answer<Markup> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node", "type", "cursor"])?;
    let node = node_of(&app, &params)?;
    let profile_type = params.profile_type("type")?;
    let after = params.get("cursor").map(str::parse::<Cursor>).transpose()?;
    let is_first = after.is_none();
    let filter = Filter { nodes: vec![node.id], types: profile_type.iter().cloned().collect(), ..Filter::default() };
    let store = Arc::clone(&app.store);
    let page = on_store(move || store.list(&filter, &PageRequest { limit: ROWS, after })).await?;
    let errors = errors::newest(&app, &node);
    let usage = app.usage.get(&app.store).await?;
    let view = View { app, principal, node, profile_type, page, is_first, errors, usage, base };
    let title = format!("{} profiles", view.node.label());
    Ok(Frame { title: &title, live: view.is_first, status: Some(view.status()) }.page(view.body()))
}

impl View {
    fn body(&self) -> Markup {
        html! {
            (self.tabs())
            main class="list" {
                section class="profiles" aria-labelledby="heading" {
                    (self.heading())
                    (self.filters())
                    div id="profiles" data-refresh { (self.table()) }
                }
                aside { div id="aside" {
                    @if self.principal.operates() && !self.node.schedule.is_empty() { (collect_form(&self.app, &self.node)) }
                    div id="jobs" data-refresh { (running(&self.app, &self.node)) }
                    div id="schedule" data-refresh { (self.schedule()) }
                    div id="wanted" data-refresh { (wanted::beside(&self.app, &self.page.rows, &self.base)) }
                    div id="errors" data-refresh { (errors::card(&self.node, &self.errors)) }
                    div id="kept" data-refresh { (self.kept()) }
                } }
            }
        }
    }

    fn status(&self) -> Markup {
        let paused = self.app.is_paused();
        html! {
            @if paused { span class="chip warn" { "Schedule paused" } }
            @if self.principal.operates() { (pause_form(&self.node, paused)) }
            @else { span class="chip" title="Viewers read; operators also capture, pause, pin and delete" { (self.principal.name) " · viewer" } }
        }
    }

    fn tabs(&self) -> Markup {
        let has_profiles = |node: &Node| self.usage.nodes.iter().any(|usage| usage.node == node.id);
        html! {
            nav class="tabs" aria-label="Nodes" id="tabs" data-refresh {
                @for node in self.app.registry.all().iter().filter(|node| !node.past || has_profiles(node) || node.id == self.node.id) {
                    @let health = self.app.registry.health(node.id);
                    a href=(format!("/proc_profile?node={}", node.id)) aria-current=[(node.id == self.node.id).then_some("page")]
                      title=(tab_title(node, &health)) {
                        span class=(format!("dot {}", if node.past { "past" } else { health.summary() })) {}
                        span class="role" { (node.role().name()) }
                        span class="name" { (node.name()) }
                        @if node.demo { span class="tag" { "demo" } }
                    }
                }
            }
        }
    }

    fn heading(&self) -> Markup {
        let node = &self.node;
        html! {
            h1 id="heading" { "Process Profiles" }
            p class="about" {
                strong { (node.label()) }
                @if node.past { span { "not collected: imported, or configured no more" } }
                @else {
                    span { (node.kind().name()) }
                    @if !node.address.is_empty() { span { code { (node.address) } } }
                }
                @if node.cluster != "default" { span { "cluster " (node.cluster) } }
                @for (key, value) in &node.config.labels { span class="label" { (key) "=" (value) } }
                span class="muted" { "id " (node.id) }
            }
        }
    }

    fn filters(&self) -> Markup {
        let health = self.app.registry.health(self.node.id);
        let on = self.node.offered(&health).filter(|planned| planned.on).map(|planned| planned.profile_type.clone());
        let listed = self.page.rows.iter().map(|entry| entry.profile_type.clone());
        let mut types: Vec<ProfileType> = on.chain(listed).chain(self.profile_type.clone()).collect();
        types.sort();
        types.dedup();
        let link = |kind: Option<&ProfileType>, label: &str| {
            let mut href = format!("/proc_profile?node={}", self.node.id);
            if let Some(kind) = kind {
                href.push_str(&format!("&type={}", encode(kind.name())));
            }
            html! { a href=(href) aria-current=[(self.profile_type.as_ref() == kind).then_some("true")] { (label) } }
        };
        html! {
            @if types.len() > 1 {
                p class="filters" {
                    (link(None, "All"))
                    @for kind in &types { (link(Some(kind), kind.label())) }
                }
            }
        }
    }

    fn table(&self) -> Markup {
        html! {
            @if self.page.rows.is_empty() { (self.nothing_yet()) }
            @else {
                div class="table" { table {
                    thead { tr { th scope="col" { "Type" } th scope="col" { "Timestamp" } th scope="col" class="number" { "File Size" } th scope="col" { "View" } } }
                    tbody { @for entry in &self.page.rows { (self.row(entry)) } }
                } }
                (self.pages())
            }
        }
    }

    fn row(&self, entry: &Entry) -> Markup {
        let href = format!("/proc_profile/file?filename={}&node={}", encode(&entry.file_name), entry.node);
        let kind = entry.profile_type.name();
        html! {
            tr {
                td { a class=(format!("type {}", known_class(kind))) href=(format!("/p/{}", entry.id)) title=(about(entry)) { (entry.profile_type.label()) }
                    @if entry.pinned { " " span class="tag pin" title="Kept from retention" { "pinned" } }
                    @if entry.meta.trigger == "manual" { " " span class="tag" { "manual" } }
                    (wanted::tag(entry)) }
                td class="when" { (moment(entry.completed.0)) }
                td class="number" { (size(entry.bytes)) }
                td { a class="view" href=(href) target="_blank" title=(entry.file_name) { (strip::picture(&entry.summary.strip)) span { "View" } } }
            }
        }
    }

    fn pages(&self) -> Markup {
        let mut base = format!("/proc_profile?node={}", self.node.id);
        if let Some(kind) = &self.profile_type {
            base.push_str(&format!("&type={}", encode(kind.name())));
        }
        html! {
            @if !self.is_first || self.page.next.is_some() {
                p class="pages" {
                    @if !self.is_first { a href=(base) { "← Newest" } }
                    @if let Some(next) = &self.page.next { a href=(format!("{base}&cursor={}", encode(&next.to_string()))) { "Older →" } }
                }
            }
        }
    }

    /// Why the list is empty, and what to do.
    fn nothing_yet(&self) -> Markup {
        let health = self.app.registry.health(self.node.id);
        let (head, why) = if self.profile_type.is_some() {
            ("No profiles of this type", "Others may be listed under All.".to_owned())
        } else if let Some((kind, failure)) = health.last_failure() {
            ("No profiles yet", format!("The last try ({kind}) failed: {}", failure.reason))
        } else if self.app.is_paused() {
            ("No profiles yet", "Scheduled captures are paused.".to_owned())
        } else if self.node.schedule.iter().any(|planned| planned.on) {
            ("No profiles yet", "The first is on its way; this page shows it when it is there.".to_owned())
        } else {
            ("No profiles", "Nothing is collected from this node on schedule.".to_owned())
        };
        html! { div class="empty" { p class="head" { (head) } p { (why) } } }
    }

    fn schedule(&self) -> Markup {
        let health = self.app.registry.health(self.node.id);
        html! {
            @if !self.node.schedule.is_empty() {
                section class="card" {
                    h2 { "Schedule" }
                    dl class="schedule" {
                        @for planned in &self.node.schedule {
                            @let own = health.types.get(&planned.profile_type).cloned().unwrap_or_default();
                            dt class=(if planned.on && own.unavailable.is_none() { "" } else { "off" }) { (planned.profile_type.label()) }
                            @if let Some(why) = &own.unavailable { dd { "not available: " (why) } }
                            @else { dd { (rhythm(&self.node, planned)) " " (state(&own, planned, self.app.is_paused())) } }
                        }
                    }
                }
            }
        }
    }

    fn kept(&self) -> Markup {
        let config = self.app.config();
        let own = self.usage.nodes.iter().find(|usage| usage.node == self.node.id);
        let (profiles, bytes) = own.map_or((0, 0), |usage| (usage.profiles, usage.bytes));
        let limit = config.proc_profile_file_retained_size_bytes;
        let days = config.proc_profile_file_retained_days;
        html! {
            section class="card" {
                h2 { "Kept" }
                p { (profiles) (if profiles == 1 { " profile, " } else { " profiles, " }) (size(bytes)) " of " (size(limit)) }
                meter min="0" max=(limit.max(1)) value=(bytes.min(limit)) { (size(bytes)) }
                p class="muted" { "At most " (days) (if days == 1 { " day" } else { " days" }) "; the newest of each type and pinned ones stay." }
            }
        }
    }
}

fn tab_title(node: &Node, health: &Health) -> String {
    match health.last_failure() {
        _ if node.past => format!("{}: not collected", node.label()),
        Some((kind, failure)) => format!("{}: {kind}: {}", node.label(), failure.reason),
        None => format!("{}: {}", node.label(), health.summary()),
    }
}

/// One line about a profile, for hovering.
fn about(entry: &Entry) -> String {
    let mut parts = Vec::new();
    if entry.duration.0 > 0 {
        parts.push(format!("{:.1} s", entry.duration.0 as f64 / 1e9));
    }
    if let Some(top) = entry.summary.top.first() {
        parts.push(format!("most: {}", top.name));
    }
    if let Some(lost) = entry.meta.lost.filter(|lost| *lost > 0) {
        parts.push(format!("{lost} samples lost"));
    }
    parts.push("details".to_owned());
    parts.join(" · ")
}

/// A class the style sheet knows.
pub(super) fn known_class(kind: &str) -> &str {
    match kind {
        "cpu" | "wall" | "alloc" | "heap" | "contention" | "mutex" | "goroutine" => kind,
        _ => "other",
    }
}

fn rhythm(node: &Node, planned: &Planned) -> String {
    match (planned.on, planned.seconds, planned.every) {
        (false, ..) => "off".to_owned(),
        (true, _, every) if node.kind() == Kind::Own && planned.profile_type == ProfileType::Cpu => {
            format!("continuous, cut every {every} s")
        }
        (true, 0, every) => format!("a moment every {every} s"),
        (true, seconds, every) if every <= seconds => format!("{seconds} s, without gaps"),
        (true, seconds, every) => format!("{seconds} s every {every} s"),
    }
}

fn state(health: &TypeHealth, planned: &Planned, paused: bool) -> Markup {
    html! {
        @if health.capturing { span class="tag live" { "capturing" } }
        @else if planned.on && paused { span class="tag" { "paused" } }
        @else if let Some(retry) = health.retry_at.filter(|_| health.failing()) {
            span class="tag bad" title=(health.last_failure.as_ref().map(|failure| failure.reason.clone()).unwrap_or_default()) { "failing" }
            " " span class="muted" { "next try " (clock(retry)) }
        }
        @else if health.failing() { span class="tag bad" { "failing" } }
    }
}
