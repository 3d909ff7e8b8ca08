//! `/`: every node with its health, its newest profiles, its load of the last hour, its coverage of the last day;
//! captures of several nodes. The table has pages of 100 rows.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::Redirect;
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::hosts::HostWarning;
use procprof_core::nodes::{Health, Node, Planned};
use procprof_profile::{Meta, ProfileType};
use procprof_store::Usage;

use super::commands::{Command, commands};
use super::frame::Frame;
use super::host;
use super::list::picker::{name, service_name, state_in_words};
use super::numbered::NumberedPage;
use super::operate::{back, form, node_menu, paused_chip, running};
use super::{ago, quantity, share, size, span, tick, type_label};
use crate::Web;
use crate::activity::{Activity, Collected, HOUR, PIECES};
use crate::api;
use crate::caller::Caller;
use crate::node_search::{NodeSearch, shown_nodes};
use crate::params::{Params, encode};
use crate::problem::{ApiResult, Problem};
use crate::server_url::ServerUrl;
use crate::texts::t;

/// Most captures that one form starts.
const CAPTURES_MAX: usize = 64;
/// Moments named above the loads, to the minute, as those of two hours are.
const TICKS: i64 = 3;
const AXIS: i64 = 2 * HOUR;
/// Time from which on coverage is that of a day: the first profile of the day is seldom from its first minute.
const ALMOST_A_DAY: i64 = 23 * HOUR;

struct View {
    web: Arc<Web>,
    principal: Principal,
    /// The nodes that the search finds.
    nodes: Vec<Arc<Node>>,
    /// All nodes, before the search.
    all: usize,
    search: NodeSearch,
    /// Whether hosts and services that are gone are listed.
    with_gone: bool,
    /// The rows of the page.
    page: NumberedPage<TableRow>,
    activity: Arc<Activity>,
    usage: Arc<Usage>,
    base: ServerUrl,
}

/// `GET /?q=&gone=&page=`
pub(crate) async fn overview(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: ServerUrl,
    RawQuery(query): RawQuery,
) -> ApiResult<Markup> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["q", "gone", "page"])?;
    let search = NodeSearch::new(params.get("q").unwrap_or_default());
    let usage = web.usage.get(&web.store).await?;
    let activity = web.activity.get(&web.store).await?;
    let mut nodes = shown_nodes(&web, &usage);
    let all = nodes.len();
    nodes.retain(|node| search.finds(node));
    // What is searched for is shown, gone or not.
    let with_gone = params.get("gone") == Some("yes") || !search.text().is_empty();
    let page = NumberedPage::new(table_rows(&nodes, with_gone), &params)?;
    let view = View { web, principal, nodes, all, search, with_gone, page, activity, usage, base };
    Ok(Frame { place: "/", title: t!("Overview").get(), node: None, live: true, status: Some(view.status()) }
        .page(view.body()))
}

/// A row of the table of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableRow {
    /// The node at a place.
    Node(usize),
    /// Services of the host above that are gone.
    ServicesGone(usize),
    /// Hosts that are gone, at the end.
    HostsGone(usize),
}

/// A row for each node: services below their host, those that are gone in one row.
fn table_rows(nodes: &[Arc<Node>], with_gone: bool) -> Vec<TableRow> {
    let is_folded = |node: &Node| node.past && node.pushed_by.is_some() && !with_gone;
    let (mut rows, mut hosts_gone, mut services_gone, mut is_host_gone) = (Vec::new(), 0, 0, false);
    for (place, node) in nodes.iter().enumerate() {
        if is_host(node) {
            is_host_gone = is_folded(node);
            hosts_gone += usize::from(is_host_gone);
        }
        match is_folded(node) {
            true => services_gone += usize::from(!is_host(node) && !is_host_gone),
            false => rows.push(TableRow::Node(place)),
        }
        if nodes.get(place + 1).and_then(|next| host_id(next)) != host_id(node) {
            if services_gone > 0 {
                rows.push(TableRow::ServicesGone(services_gone));
            }
            services_gone = 0;
        }
    }
    if hosts_gone > 0 {
        rows.push(TableRow::HostsGone(hosts_gone));
    }
    rows
}

/// The id of the host of a host or service.
fn host_id(node: &Node) -> Option<&str> {
    node.pushed_by.as_ref().map(|pushed_by| pushed_by.host.as_str())
}

fn is_host(node: &Node) -> bool {
    node.pushed_by.as_ref().is_some_and(|pushed_by| pushed_by.service.is_none())
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
            @if paused { (paused_chip()) }
            @if !self.principal.operates() { span class="chip" { (t!("{0} · viewer", self.principal.name)) } }
        }
    }

    fn body(&self) -> Markup {
        html! {
            main class="list overview" {
                div class="head" {
                    div {
                        h1 { (t!("Nodes")) }
                        p class="about" id="counts" data-refresh { (self.counts()) }
                    }
                    form class="search" action="/" role="search" {
                        // Typing filters what is there; a search is of all pages.
                        input type="search" name="q" value=(self.search.text()) placeholder=(t!("Name, address, label"))
                            aria-label=(t!("Find nodes"))
                            data-filter=[self.page.is_whole().then_some("#nodes tbody tr")];
                        button type="submit" { (t!("Find")) }
                    }
                }
                @if let Some(waiting) = self.web.registry.waiting() {
                    p class="notice bad" { (t!("Not captured yet:")) " " (waiting) }
                }
                div id="jobs" data-refresh { (running(&self.web, &self.principal, None, "/")) }
                @if self.principal.operates() { (self.capture()) }
                div id="nodes" data-refresh { (self.table()) }
                div class="cards" { div id="storage" data-refresh { (storage(&self.web, &self.usage, "/")) } }
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
        let planned = self.nodes.iter().filter(|node| !node.past).find_map(|node| {
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
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let summaries = self.web.registry.summaries(&self.nodes);
        for (node, summary) in self.nodes.iter().zip(summaries).filter(|(node, _)| !node.past) {
            let is_untried = matches!(summary, "unknown" | "in-host") && self.web.servers.is_some();
            let is_elsewhere = is_untried && self.elsewhere(node, &self.web.registry.health(node.id)).is_some();
            *counts.entry(if is_elsewhere { "elsewhere" } else { summary }).or_default() += 1;
        }
        let grouped = |count: usize| super::grouped(count as u64);
        let count = |state: &str| counts.get(state).copied().unwrap_or_default();
        html! {
            strong {
                @if self.nodes.len() != self.all { (t!("{0} of {1} nodes", grouped(self.nodes.len()), grouped(self.all))) }
                @else if self.all == 1 { (t!("1 node")) } @else { (t!("{0} nodes", grouped(self.all))) }
            }
            @for (state, words) in [
                ("ok", t!("{0} healthy")),
                ("degraded", t!("{0} with types that fail")),
                ("failing", t!("{0} fail")),
                ("in-host", t!("{0} part of the profiles of their hosts")),
                ("elsewhere", t!("{0} captured by other servers")),
                ("unknown", t!("{0} not tried yet")),
            ] {
                @if count(state) > 0 {
                    span { span class=(format!("dot inline {state}")) {} " " (words.with(&[&grouped(count(state))])) }
                }
            }
        }
    }

    /// The form that captures of the nodes ticked in the table.
    fn capture(&self) -> Markup {
        let mut types: Vec<&ProfileType> =
            self.page_nodes().flat_map(|node| node.schedule.iter().map(|planned| &planned.profile_type)).collect();
        types.sort();
        types.dedup();
        let limit = self.web.config().capture_seconds_max;
        html! {
            form id="capture" class="selection capture-form" method="post" action="/captures" {
                span class="count" { (t!("Capture now of the ticked nodes:")) }
                @for kind in types {
                    label class="tick" {
                        input type="checkbox" name="type" value=(kind.name()) checked[*kind == ProfileType::Cpu];
                        (type_label(kind))
                    }
                }
                label class="tick" {
                    input type="number" name="seconds" value="10" min="1" max=(limit) inputmode="numeric"
                        aria-label=(t!("Seconds"));
                    (t!("seconds"))
                }
                button type="submit" class="primary" { (t!("Capture")) }
            }
        }
    }

    fn table(&self) -> Markup {
        html! {
            @if self.nodes.is_empty() {
                div class="empty" {
                    p class="head" { (t!("No node matches")) } p { a href="/" { (t!("Show all")) } }
                }
            } @else {
                div class="table nodes-table" { table {
                    thead { tr {
                        th scope="col" { span class="hidden" { (t!("Select")) } }
                        th scope="col" { (t!("Node")) }
                        th scope="col" class="wide" { (t!("Kind")) }
                        th scope="col" { (t!("Health")) }
                        th scope="col" { (t!("Newest profiles")) }
                        th scope="col" class="load-head" { (t!("Load of the last hour")) (self.axis()) }
                        th scope="col" class="number wide" title=(t!("Captured time over elapsed time, since the first profile of the last day")) { (t!("Coverage")) }
                        th scope="col" class="number wide" { (t!("Stored")) }
                        th scope="col" { span class="hidden" { (t!("More")) } }
                    } }
                    tbody { (self.rows()) }
                } }
                (self.page.links(|number| self.page_url(number)))
            }
        }
    }

    fn axis(&self) -> Markup {
        let from = self.activity.to.saturating_sub(HOUR);
        html! { span class="axis" { @for number in 0..TICKS { (tick(from.saturating_add(HOUR / (TICKS - 1) * number), AXIS)) } } }
    }

    /// The nodes of the page.
    fn page_nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.page.rows.iter().filter_map(|row| match row {
            TableRow::Node(place) => self.nodes.get(*place),
            TableRow::ServicesGone(_) | TableRow::HostsGone(_) => None,
        })
    }

    fn rows(&self) -> Markup {
        // A service has its whole name unless the row of its host is on the page.
        let hosts: HashSet<&str> =
            self.page_nodes().filter(|node| is_host(node)).filter_map(|node| host_id(node)).collect();
        let is_below_host = |node: &Node| host_id(node).is_some_and(|host| hosts.contains(host));
        html! {
            @for row in &self.page.rows {
                @match row {
                    TableRow::Node(place) => {
                        @if let Some(node) = self.nodes.get(*place) {
                            (self.row(node, &self.web.registry.health(node.id), is_below_host(node)))
                        }
                    }
                    TableRow::ServicesGone(count) => { (fold("fold service", t!("{0} services are gone", count))) }
                    TableRow::HostsGone(count) => { (fold("fold", t!("{0} hosts are gone", count))) }
                }
            }
        }
    }

    /// The URL of a page of the same rows.
    fn page_url(&self, number: usize) -> String {
        let mut query = vec![format!("page={number}")];
        if !self.search.text().is_empty() {
            query.push(format!("q={}", encode(self.search.text())));
        } else if self.with_gone {
            query.push("gone=yes".to_owned());
        }
        format!("/?{}", query.join("&"))
    }

    /// The URL of the other server that captures a node of which this one has nothing.
    fn elsewhere(&self, node: &Node, health: &Health) -> Option<String> {
        let is_untried = !node.past && health.last_success().is_none() && health.last_failure().is_none();
        self.web.servers.as_ref().filter(|_| is_untried)?.url_of_other(node)
    }

    fn row(&self, node: &Node, health: &Health, is_below_host: bool) -> Markup {
        let host = self.web.hosts.state(node);
        let service = node.pushed_by.as_ref().and_then(|pushed_by| pushed_by.service.as_deref());
        let is_service = service.is_some();
        let service = service.filter(|_| is_below_host);
        let types = self.activity.nodes.get(&node.id);
        let usage = self.usage.node(node.id);
        let href = format!("/proc_profile?node={}", node.id);
        let can_capture = !node.past && !node.schedule.is_empty();
        html! {
            tr class=[service.map(|_| "service")] {
                td { @if self.principal.operates() && can_capture {
                    input type="checkbox" name="node" value=(node.id) form="capture"
                        aria-label=(t!("Select {0}", node.label()));
                } }
                td {
                    a class="node" href=(href) {
                        @if let Some(service) = service { (service_name(node, service, health)) }
                        @else { (name(node, health)) }
                    }
                }
                td class="wide" {
                    @if service.is_none() { (node.kind().name()) @if host.is_some() { br; } }
                    @if let Some(host) = &host { span class="muted" { (host::summary(host)) } }
                    @if !node.address.is_empty() { br; code class="muted" { (node.address) } }
                }
                td class="state" {
                    @match self.elsewhere(node, health) {
                        Some(url) => {
                            (t!("captured by {0}").fill(&[html! { a href=(format!("{url}{href}")) { (url) } }]))
                        }
                        None => (state(node, health)),
                    }
                    @if let Some(host) = host.as_ref().filter(|_| !is_service && !node.past) {
                        @for warning in host.warnings().iter().filter(|warning| **warning != HostWarning::Late) {
                            br; span class="reason" { (host::in_words(warning)) }
                        }
                    }
                }
                td class="newest" { (self.newest(node)) }
                td class="load" {
                    @if let Some((kind, load)) = types.and_then(|types| main_type(types.iter())) {
                        (loads(&href, kind, load))
                    } @else {
                        span class="muted" { "–" }
                    }
                }
                td class="number wide" {
                    (coverage(node, types.and_then(|types| main_type(types.iter())), self.activity.to))
                }
                td class="number wide" { (size(usage.map_or(0, |usage| usage.bytes))) }
                td class="more-cell" {
                    @let label = t!("More for {0}", node.label());
                    (node_menu(&self.web, &self.principal, node, &label, "/"))
                }
            }
        }
    }

    fn newest(&self, node: &Node) -> Markup {
        html! {
            @if let Some(types) = self.activity.nodes.get(&node.id) {
                @for (kind, collected) in types {
                    span class="one" {
                        a class=(format!("type {}", super::list::known_class(kind.name())))
                            href=(format!("/p/{}", collected.newest.0))
                        {
                            (type_label(kind))
                        }
                        " " span class="muted ago" { (ago(collected.newest.1)) }
                    } " "
                }
            } @else { span class="muted" { (t!("none within a day")) } }
        }
    }
}

/// The line of what is not listed, which leads to the list with it.
fn fold(class: &str, text: String) -> Markup {
    html! { tr class=(class) { td {} td colspan="8" { a class="muted" href="/?gone=yes" { (text) } } } }
}

fn state(node: &Node, health: &Health) -> Markup {
    html! {
        @if node.past { span class="muted" { (t!("not collected")) } }
        @else if let Some((kind, failure)) = health.last_failure() {
            span class="bad" { (state_in_words(health.summary())) } ": "
            span class="reason" title=(failure.reason) { (type_label(kind)) ": " (failure.reason) }
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

/// The load over the hour as one path, as high as its largest value.
fn loads(href: &str, kind: &ProfileType, collected: &Collected) -> Markup {
    let largest = collected.load.iter().copied().fold(0.0_f32, f32::max);
    if largest <= 0.0 {
        return html! { span class="muted" { (t!("none within an hour")) } };
    }
    let path: String = (0..PIECES)
        .filter(|piece| collected.load[*piece] > 0.0)
        .map(|piece| format!("M{piece} 24v-{:.1}", (collected.load[piece] / largest * 22.0 + 2.0).min(24.0)))
        .collect();
    let most = match kind.name() {
        "cpu" if collected.counts.as_deref() == Some(Meta::JAVA_CODE) => {
            t!("{0} cores of Java code", super::significant(f64::from(largest)))
        }
        "cpu" => t!("{0} cores", super::significant(f64::from(largest))),
        "heap" | "alloc" => quantity(largest as i64, "bytes"),
        _ => String::new(),
    };
    html! {
        a href=(format!("{href}&last=1h")) title=(t!("{0} within the last hour, the largest at full height", type_label(kind))) {
            svg class=(format!("load {}", super::list::known_class(kind.name()))) viewBox=(format!("0 0 {PIECES} 24")) preserveAspectRatio="none" aria-hidden="true" {
                path d=(path) {}
            }
            span class="most muted" { @if *kind != ProfileType::Cpu { (type_label(kind)) " " } @if !most.is_empty() { (t!("max {0}", most)) } }
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
    let known = collected.map_or(0, |(_, collected)| collected.known(to));
    html! {
        span class=[is_low.then_some("bad")] {
            @if known >= ALMOST_A_DAY { (t!("{0} of the last day", percent(share_of_day))) }
            @else { (t!("{0} of the last {1}", percent(share_of_day), span(known))) }
        }
        @if let Some(expected) = expected { br; span class="muted" { (t!("scheduled: {0}", percent(expected))) } }
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

/// What is stored, of what may be, on the page of that place.
pub(super) fn storage(web: &Web, usage: &Usage, place: &str) -> Markup {
    let config = web.config();
    let days = config.proc_profile_file_retained_days;
    let last = web.retention.last();
    let oldest = usage.nodes.iter().map(|node| node.oldest.0).min();
    html! {
        section class="card" {
            h2 { (t!("Storage")) }
            p {
                (t!(
                    "{0} profiles, {1} of {2}; {3} free", super::grouped(usage.profiles), size(usage.bytes),
                    size(config.data_bytes_max), size(usage.free_bytes),
                ))
            }
            meter min="0" max=(config.data_bytes_max.max(1)) value=(usage.bytes.min(config.data_bytes_max))
                aria-label=(t!("Bytes used"))
            {
                (size(usage.bytes))
            }
            p {
                @let of_each = size(config.proc_profile_file_retained_size_bytes);
                @if days == 1 { (t!("Profiles are kept for 1 day, at most {0} of each node.", of_each)) }
                @else { (t!("Profiles are kept for {0} days, at most {1} of each node.", days, of_each)) }
                @if let Some(oldest) = oldest { " " (t!("The oldest is from {0}.", ago(oldest))) }
            }
            @if usage.pinned_bytes > 0 {
                p { (t!("Pinned: {0} of {1}", size(usage.pinned_bytes), size(config.pinned_bytes_max))) }
            }
            @if let Some(at) = last.at {
                @let when = ago(i64::try_from(at.as_nanosecond()).unwrap_or(0));
                p class="muted" {
                    @if let Some(error) = &last.error {
                        (t!("Last clean-up {0}: {1}").fill(&[html! { (when) }, html! { span class="bad" { (error) } }]))
                    }
                    @else if last.deleted == 0 { (t!("Last clean-up {0}: nothing to delete.", when)) }
                    @else {
                        (t!(
                            "Last clean-up {0}: {1} profiles deleted, {2}.", when, last.deleted,
                            size(last.deleted_bytes),
                        ))
                    }
                }
            }
            p class="more" {
                a href="/archive" { (t!("Archive →")) }
                @if place != "/settings" { " · " a href="/settings" { (t!("All settings →")) } }
            }
        }
    }
}
