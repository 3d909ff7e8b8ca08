//! `/`: every node with its health, its newest profiles, its load and coverage of the last day; captures of several
//! nodes.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::Redirect;
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::nodes::{Health, Node, Planned};
use procprof_profile::ProfileType;
use procprof_store::Usage;

use super::commands::{Command, commands};
use super::frame::Frame;
use super::list::picker::{name, state_in_words};
use super::operate::{back, form, pause_form, running};
use super::{ago, quantity, share, size, tick};
use crate::Web;
use crate::activity::{Activity, Collected, PIECES};
use crate::api;
use crate::base::Base;
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::{ApiResult, Problem};

/// Most captures that one form starts.
const CAPTURES_MAX: usize = 64;
/// Moments named above the loads.
const TICKS: i64 = 3;

struct View {
    web: Arc<Web>,
    principal: Principal,
    nodes: Vec<(Arc<Node>, Health)>,
    /// All nodes, before the search.
    all: usize,
    search: String,
    activity: Arc<Activity>,
    usage: Arc<Usage>,
    base: Base,
}

/// `GET /?q=`
pub(crate) async fn overview(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: Base,
    RawQuery(query): RawQuery,
) -> ApiResult<Markup> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["q"])?;
    let search = params.get("q").unwrap_or_default().to_lowercase();
    let usage = web.usage.get(&web.store).await?;
    let activity = web.activity.get(&web.store).await?;
    let has_profiles = |node: &Node| usage.nodes.iter().any(|usage| usage.node == node.id);
    let all: Vec<Arc<Node>> = web.registry.all().into_iter().filter(|node| !node.past || has_profiles(node)).collect();
    let count = all.len();
    let found = all.into_iter().filter(|node| is_found(node, &search));
    let nodes = found.map(|node| (Arc::clone(&node), web.registry.health(node.id))).collect();
    let view = View { web, principal, nodes, all: count, search, activity, usage, base };
    Ok(Frame { place: "/", title: "Overview", live: true, status: Some(view.status()) }.page(view.body()))
}

fn is_found(node: &Node, search: &str) -> bool {
    let labels = node.config.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let known = [node.label(), node.address.clone(), node.kind().name().to_owned(), node.cluster.clone()];
    known.into_iter().chain(labels).any(|text| text.to_lowercase().contains(search))
}

/// `POST /captures`: starts a capture of each node and type of the form.
pub(crate) async fn start(State(web): State<Arc<Web>>, Caller(principal): Caller, body: Bytes) -> ApiResult<Redirect> {
    let params = form(&body, &["node", "type", "seconds", "back"])?;
    let seconds = params.number("seconds", 1, web.config().capture_seconds_max)?;
    let types: Vec<ProfileType> = params.all("type").map(str::parse).collect::<Result<_, _>>()?;
    let mut wanted = Vec::new();
    for name in params.all("node") {
        let node = web.registry.find(name).ok_or_else(|| Problem::bad_request("no such node is registered"))?;
        let given = types.iter().filter(|kind| node.planned(kind).is_some());
        wanted.extend(given.map(|kind| (Arc::clone(&node), kind.clone())));
    }
    if wanted.is_empty() {
        return Err(Problem::bad_request("choose at least one node, and a type of profiles that it gives"));
    }
    if wanted.len() > CAPTURES_MAX {
        return Err(Problem::bad_request(format!(
            "{} captures are chosen; at most {CAPTURES_MAX} start at once",
            wanted.len()
        )));
    }
    for (node, kind) in wanted {
        api::captures::begin(&web, node, kind.name(), seconds, &principal)?;
    }
    Ok(back(&params, "/"))
}

impl View {
    fn status(&self) -> Markup {
        let paused = self.web.captures.is_paused();
        html! {
            @if paused { span class="chip warn" { "Schedule paused" } }
            @if self.principal.operates() { (pause_form(None, paused)) }
            @else { span class="chip" { (self.principal.name) " · viewer" } }
        }
    }

    fn body(&self) -> Markup {
        html! {
            main class="list overview" {
                div class="head" {
                    div {
                        h1 { "Nodes" }
                        p class="about" id="counts" data-refresh { (self.counts()) }
                    }
                    form class="search" action="/" role="search" {
                        input type="search" name="q" value=(self.search) placeholder="Name, address, label" aria-label="Find nodes"
                            data-filter="#nodes tbody tr";
                        button type="submit" { "Find" }
                    }
                }
                div id="jobs" data-refresh { (running(&self.web, &self.principal, None, "/")) }
                @if self.principal.operates() { (self.capture()) }
                div id="nodes" data-refresh { (self.table()) }
                div class="cards" { div id="storage" data-refresh { (storage(&self.web, &self.usage)) } }
                (commands(&self.as_commands()))
            }
        }
    }

    /// What this page shows and starts, as SQL and commands.
    fn as_commands(&self) -> Vec<Command> {
        let base = &self.base.0;
        let mut rows = vec![
            Command::sql("SELECT id, name, role, kind, health, last_success, failure FROM nodes".to_owned()),
            Command::shell(format!("curl '{base}/api/nodes'")),
        ];
        let planned = self.nodes.iter().filter(|(node, _)| !node.past).find_map(|(node, _)| {
            let cpu = node.planned(&ProfileType::Cpu).or(node.schedule.first());
            cpu.map(|planned| (node.id, &planned.profile_type))
        });
        if let Some((id, kind)) = planned {
            let body = format!("{{\"node\": {id}, \"type\": \"{kind}\", \"seconds\": 10}}");
            rows.push(Command::sql(format!("COLLECT {} ON {id} FOR 10 SECONDS", kind.name().to_uppercase())));
            rows.push(Command::shell(format!("curl -X POST '{base}/api/captures' -d '{body}'")));
        }
        let switch = if self.web.captures.is_paused() { "resume" } else { "pause" };
        rows.push(Command::shell(format!("curl -X POST '{base}/api/{switch}'")));
        rows
    }

    fn counts(&self) -> Markup {
        let count =
            |state: &str| self.nodes.iter().filter(|(node, health)| !node.past && health.summary() == state).count();
        html! {
            strong { (self.nodes.len()) @if self.nodes.len() != self.all { " of " (self.all) } (if self.all == 1 { " node" } else { " nodes" }) }
            @for (state, words) in [("ok", "work"), ("degraded", "with types that fail"), ("failing", "fail"), ("unknown", "not tried yet")] {
                @if count(state) > 0 { span { span class=(format!("dot inline {state}")) {} " " (count(state)) " " (words) } }
            }
        }
    }

    /// The form that captures of the nodes ticked in the table.
    fn capture(&self) -> Markup {
        let mut types: Vec<&ProfileType> =
            self.nodes.iter().flat_map(|(node, _)| node.schedule.iter().map(|planned| &planned.profile_type)).collect();
        types.sort();
        types.dedup();
        let limit = self.web.config().capture_seconds_max;
        html! {
            form id="capture" class="selection capture-form" method="post" action="/captures" {
                span class="count" { "Capture now of the ticked nodes:" }
                @for kind in types {
                    label class="tick" { input type="checkbox" name="type" value=(kind.name()) checked[*kind == ProfileType::Cpu]; (kind.label()) }
                }
                label class="tick" { input type="number" name="seconds" value="10" min="1" max=(limit) inputmode="numeric" aria-label="Seconds"; "seconds" }
                button type="submit" class="primary" { "Capture" }
            }
        }
    }

    fn table(&self) -> Markup {
        html! {
            @if self.nodes.is_empty() {
                div class="empty" { p class="head" { "No node is called so" } p { a href="/" { "Show all" } } }
            } @else {
                div class="table nodes-table" { table {
                    thead { tr {
                        th scope="col" { span class="hidden" { "Select" } }
                        th scope="col" { "Node" }
                        th scope="col" class="wide" { "Kind" }
                        th scope="col" { "Health" }
                        th scope="col" { "Newest profiles" }
                        th scope="col" class="load-head" { span class="hidden" { "Load of the last day" } (self.axis()) }
                        th scope="col" class="number wide" title="Captured time over elapsed time, since the first profile of the last day" { "Coverage" }
                        th scope="col" class="number wide" { "Stored" }
                    } }
                    tbody { @for (node, health) in &self.nodes { (self.row(node, health)) } }
                } }
            }
        }
    }

    fn axis(&self) -> Markup {
        let Activity { from, to, .. } = *self.activity;
        html! { span class="axis" { @for number in 0..TICKS { (tick(from + (to - from) / (TICKS - 1) * number, to - from)) } } }
    }

    fn row(&self, node: &Node, health: &Health) -> Markup {
        let types = self.activity.nodes.get(&node.id);
        let usage = self.usage.nodes.iter().find(|usage| usage.node == node.id);
        let href = format!("/proc_profile?node={}", node.id);
        let can_capture = !node.past && !node.schedule.is_empty();
        html! {
            tr {
                td { @if self.principal.operates() && can_capture {
                    input type="checkbox" name="node" value=(node.id) form="capture" aria-label=(format!("Select {}", node.label()));
                } }
                td { a class="node" href=(href) { (name(node, health)) } }
                td class="wide" { (node.kind().name()) @if !node.address.is_empty() { br; code class="muted" { (node.address) } } }
                td class="state" { (state(node, health)) }
                td class="newest" { (self.newest(node)) }
                td class="load" { @if let Some((kind, load)) = types.and_then(|types| main_type(types.iter())) { (loads(&href, kind, load)) } @else { span class="muted" { "–" } } }
                td class="number wide" { (coverage(node, types.and_then(|types| main_type(types.iter())), self.activity.to)) }
                td class="number wide" { (size(usage.map_or(0, |usage| usage.bytes))) }
            }
        }
    }

    fn newest(&self, node: &Node) -> Markup {
        html! {
            @if let Some(types) = self.activity.nodes.get(&node.id) {
                @for (kind, collected) in types {
                    span class="one" {
                        a class=(format!("type {}", super::list::known_class(kind.name()))) href=(format!("/p/{}", collected.newest.0)) { (kind.label()) }
                        " " span class="muted ago" { (ago(collected.newest.1)) }
                    } " "
                }
            } @else { span class="muted" { "none within a day" } }
        }
    }
}

fn state(node: &Node, health: &Health) -> Markup {
    html! {
        @if node.past { span class="muted" { "not collected" } }
        @else if let Some((kind, failure)) = health.last_failure() {
            span class="bad" { (state_in_words(health.summary())) } ": "
            span class="reason" title=(failure.reason) { (kind.label()) ": " (failure.reason) }
        } @else { (state_in_words(health.summary())) }
    }
}

/// The type whose load stands for the node's: CPU, or what there is most of.
fn main_type<'a>(
    types: impl Iterator<Item = (&'a ProfileType, &'a Collected)> + Clone,
) -> Option<(&'a ProfileType, &'a Collected)> {
    let cpu = types.clone().find(|(kind, _)| **kind == ProfileType::Cpu);
    cpu.or_else(|| types.max_by_key(|(_, collected)| collected.profiles))
}

/// The load over the day as one path, as high as its largest value.
fn loads(href: &str, kind: &ProfileType, collected: &Collected) -> Markup {
    let largest = collected.load.iter().copied().fold(0.0_f32, f32::max);
    let path: String = (0..PIECES)
        .filter(|piece| collected.load[*piece] > 0.0)
        .map(|piece| format!("M{piece} 24v-{:.1}", (collected.load[piece] / largest * 22.0 + 2.0).min(24.0)))
        .collect();
    let most = match kind.name() {
        "cpu" => format!("{} cores", super::significant(f64::from(largest))),
        "heap" | "alloc" => quantity(largest as i64, "bytes"),
        _ => String::new(),
    };
    html! {
        a href=(format!("{href}&last=1d")) title=(format!("{} within the last day, the largest at full height", kind.label())) {
            svg class=(format!("load {}", super::list::known_class(kind.name()))) viewBox=(format!("0 0 {PIECES} 24")) preserveAspectRatio="none" aria-hidden="true" {
                path d=(path) {}
            }
            span class="most muted" { @if !most.is_empty() { "max " (most) } }
        }
    }
}

/// Captured over elapsed time, and what the schedule would give.
fn coverage(node: &Node, collected: Option<(&ProfileType, &Collected)>, to: i64) -> Markup {
    let Some((kind, share_of_day)) = collected.and_then(|(kind, collected)| Some((kind, collected.coverage(to)?)))
    else {
        return html! { span class="muted" { "–" } };
    };
    let planned = node.schedule.iter().find(|planned| planned.on && planned.profile_type == *kind);
    let expected = planned.map(|planned| expected(node, planned));
    let is_low = expected.is_some_and(|expected| share_of_day < expected * 0.8);
    html! {
        span class=[is_low.then_some("bad")] { (percent(share_of_day)) }
        @if let Some(expected) = expected { br; span class="muted" { "of " (percent(expected)) } }
        (share((share_of_day * 1000.0) as i64, 1000))
    }
}

fn expected(node: &Node, planned: &Planned) -> f64 {
    match planned {
        planned if node.kind().is_continuous(&planned.profile_type) => 1.0,
        planned => (planned.seconds as f64 / planned.every.max(1) as f64).min(1.0),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}\u{a0}%", share * 100.0)
}

/// What is stored, of what may be.
pub(super) fn storage(web: &Web, usage: &Usage) -> Markup {
    let config = web.config();
    let days = config.proc_profile_file_retained_days;
    let last = web.retention.last();
    let oldest = usage.nodes.iter().map(|node| node.oldest.0).min();
    html! {
        section class="card" {
            h2 { "Storage" }
            p { (super::grouped(usage.profiles)) " profiles, " (size(usage.bytes)) " of " (size(config.data_bytes_max)) "; " (size(usage.free_bytes)) " free" }
            meter min="0" max=(config.data_bytes_max.max(1)) value=(usage.bytes.min(config.data_bytes_max)) aria-label="Bytes used" { (size(usage.bytes)) }
            p { "Profiles are kept for " (days) (if days == 1 { " day" } else { " days" }) ", at most "
                (size(config.proc_profile_file_retained_size_bytes)) " of each node."
                @if let Some(oldest) = oldest { " The oldest is from " (ago(oldest)) "." } }
            @if usage.pinned_bytes > 0 { p { "Pinned: " (size(usage.pinned_bytes)) " of " (size(config.pinned_bytes_max)) } }
            @if let Some(at) = last.at {
                p class="muted" { "Last clean-up " (ago(i64::try_from(at.as_nanosecond()).unwrap_or(0))) ": "
                    @if let Some(error) = &last.error { span class="bad" { (error) } }
                    @else if last.deleted == 0 { "nothing to delete" } @else { (last.deleted) " profiles deleted, " (size(last.deleted_bytes)) } "." }
            }
            p class="more" { a href="/settings" { "All settings →" } }
        }
    }
}
