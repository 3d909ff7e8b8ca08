//! `/heap`: the heap profilers of nodes: on for a while, off, dumps, and growth between two of them; and the card of
//! one beside its profiles.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::Redirect;
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::captures::HeapProfiler;
use procprof_core::nodes::Node;
use procprof_profile::ProfileType;
use procprof_store::{Entry, Filter, PageRequest};

use super::commands::{Command, commands};
use super::frame::Frame;
use super::list::picker::picker;
use super::operate::{back, form, running, yes_or_no};
use super::{clock, moment, quantity, share};
use crate::Web;
use crate::api;
use crate::api::heap::Switch;
use crate::blocking::on_store;
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::server_url::ServerUrl;
use crate::subjects::parse_id;
use crate::texts::t;

/// Time for a node's answer about its heap profiler.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it is switched on unless another length is chosen, in minutes.
const MINUTES: u64 = 30;
/// The longest it is switched on for a while, in minutes: what agents take.
const MINUTES_MAX: u64 = 1440;
const SECOND: i64 = 1_000_000_000;
/// Dumps shown.
const DUMPS: usize = 30;

/// `POST /proc_profile/heap`
pub(crate) async fn switch_heap(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    body: Bytes,
) -> ApiResult<Redirect> {
    let params = form(&body, &["node", "active", "minutes", "back"])?;
    let node = params.node(&web)?;
    let minutes = params.number("minutes", 0, MINUTES_MAX)?.unwrap_or(MINUTES);
    let length = (minutes > 0).then(|| Duration::from_secs(minutes * 60));
    let to = if yes_or_no(&params, "active")? { Switch::On(length) } else { Switch::Off };
    drop(api::heap::switch(&web, &node, to, &principal).await?);
    Ok(back(&params, &format!("/proc_profile?node={}", node.id)))
}

/// `GET /heap/growth?from=&to=`: to the difference of two dumps.
pub(crate) async fn growth(RawQuery(query): RawQuery) -> ApiResult<Redirect> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["from", "to"])?;
    let (from, to) = (parse_id(params.need("from")?)?, parse_id(params.need("to")?)?);
    if from == to {
        return Err(Problem::bad_request("A and B are the same dump; choose two"));
    }
    Ok(Redirect::to(&format!("/p/{to}?base={from}")))
}

struct View {
    web: Arc<Web>,
    principal: Principal,
    node: Arc<Node>,
    /// Its profiler, if the page is to show it without a script.
    profiler: Option<Markup>,
    dumps: Vec<Entry>,
    base: ServerUrl,
}

/// `GET /heap?node=&state=`
pub(crate) async fn heap(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: ServerUrl,
    RawQuery(query): RawQuery,
) -> ApiResult<Markup> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node", "state"])?;
    let node = match params.get("node") {
        Some(_) => params.node(&web)?,
        None => first(&web),
    };
    let profiler = match params.get("state") {
        Some(_) if yes_or_no(&params, "state")? => Some(profiler(&web, &node, &principal, false).await),
        _ => None,
    };
    let (store, filter) =
        (Arc::clone(&web.store), Filter { nodes: vec![node.id], types: vec![ProfileType::Heap], ..Filter::default() });
    let dumps = on_store(move || store.list(&filter, &PageRequest::first(DUMPS))).await?.rows;
    let usage = web.usage.get(&web.store).await?;
    let view = View { web, principal, node, profiler, dumps, base };
    let body = html! {
        (picker(&view.web, view.node.id, &usage, |node| format!("/heap?node={}", node.id)))
        (view.body())
    };
    let title = t!("Heap of {0}", view.node.label());
    Ok(Frame { place: "/heap", title: &title, node: Some(view.node.id), live: true, status: None }.page(body))
}

/// The node that is shown unless one is named: the first whose heap profiler can be switched.
fn first(web: &Arc<Web>) -> Arc<Node> {
    let nodes = web.registry.all();
    let has_switch = |node: &&Arc<Node>| HeapProfiler::new(&web.captures, node).has_switch();
    let polled = |node: &&Arc<Node>| !node.kind().is_pushed();
    nodes.iter().filter(polled).find(has_switch).cloned().unwrap_or_else(|| web.registry.default_node())
}

impl View {
    fn body(&self) -> Markup {
        let here = format!("/heap?node={}", self.node.id);
        html! {
            main class="list" {
                div class="head" { div {
                    h1 { (t!("Heap")) }
                    p class="about" { strong { (self.node.label()) } span { (self.node.kind().name()) }
                        a href=(format!("/proc_profile?node={}&type=heap", self.node.id)) { (t!("All heap profiles")) }
                    }
                } }
                div id="jobs" data-refresh { (running(&self.web, &self.principal, Some(&self.node), &here)) }
                div class="cards first" {
                    (self.profiler())
                    (self.dump(&here))
                }
                div id="dumps" data-refresh { (self.dumps()) }
                (commands(&self.as_commands()))
            }
        }
    }

    fn profiler(&self) -> Markup {
        match &self.profiler {
            Some(card) => place(&self.node, card, ""),
            None => later(&self.node, ""),
        }
    }

    fn dump(&self, here: &str) -> Markup {
        let can_dump = self.principal.operates() && self.node.planned(&ProfileType::Heap).is_some();
        html! {
            section class="card" {
                h2 { (t!("Dump")) }
                @if can_dump {
                    p { (t!("Stores what is in use now as a heap profile.")) }
                    form method="post" action="/proc_profile/collect" {
                        input type="hidden" name="node" value=(self.node.id);
                        input type="hidden" name="type" value="heap";
                        input type="hidden" name="back" value=(here);
                        button type="submit" { (t!("Dump now")) }
                    }
                } @else if self.node.planned(&ProfileType::Heap).is_none() { p class="muted" { (t!("This node gives no heap profiles.")) } }
                @else { p class="muted" { (t!("Operators take dumps.")) } }
            }
        }
    }

    fn dumps(&self) -> Markup {
        let largest = self.dumps.iter().filter_map(in_use).max().unwrap_or(0).max(1);
        let oldest = self.oldest_of_the_process();
        html! {
            @if self.dumps.is_empty() {
                div class="empty" {
                    p class="head" { (t!("No heap profiles yet")) }
                    p {
                        (t!("Switch the heap profiler on, let the process work for a while, then dump. Two dumps show what grew."))
                    }
                }
            } @else {
                form id="growth" class="selection" action="/heap/growth" {
                    span { (t!("Growth from A to B:")) }
                    button type="submit" { (t!("Show growth")) }
                }
                div class="table" { table {
                    thead { tr {
                        th scope="col" { "A" }
                        th scope="col" { "B" }
                        th scope="col" { (t!("Completed")) }
                        th scope="col" { (t!("In use")) }
                        th scope="col" class="number wide" { (t!("Change")) }
                        th scope="col" { (t!("View")) }
                        th scope="col" class="wide" { (t!("Call graph")) }
                    } }
                    tbody { @for (place, entry) in self.dumps.iter().enumerate() { (self.row(place, entry, largest, oldest)) } }
                } }
            }
        }
    }

    fn row(&self, place: usize, entry: &Entry, largest: i64, oldest: usize) -> Markup {
        let value = in_use(entry);
        let before = self.dumps.get(place + 1).and_then(in_use);
        let change = value.zip(before).map(|(value, before)| value - before);
        let (is_from, is_to) = (place == oldest, place == 0);
        html! {
            tr {
                td {
                    input type="radio" name="from" value=(entry.id) form="growth" checked[is_from]
                        aria-label=(t!("A: dump {0}", place + 1));
                }
                td {
                    input type="radio" name="to" value=(entry.id) form="growth" checked[is_to]
                        aria-label=(t!("B: dump {0}", place + 1));
                }
                td class="when" { (moment(entry.completed.0)) }
                td class="total" {
                    @if let Some(value) = value {
                        strong { (quantity(value, "bytes")) } (share(value, largest))
                    } @else {
                        "–"
                    }
                }
                td class="number wide" {
                    @if let Some(change) = change {
                        (if change < 0 { "−" } else { "+" }) (quantity(change.abs(), "bytes"))
                    } @else {
                        "–"
                    }
                }
                td { a class="view" href=(format!("/p/{}", entry.id)) { (t!("View")) } }
                td class="wide" {
                    a href=(format!("/p/{}?format=svg", entry.id)) target="_blank" { (t!("Call graph")) }
                }
            }
        }
    }

    /// The place of the oldest dump of the process that the newest is of: what leaks shows best between these two.
    fn oldest_of_the_process(&self) -> usize {
        let start = |entry: &Entry| entry.meta.instance_start.map(|start| start.0);
        let is_newer = |pair: &[Entry]| match (start(&pair[0]), start(&pair[1])) {
            // The start of a process is computed from its age, so that it is off by a little each time.
            (Some(newer), Some(older)) => newer.saturating_sub(older) > 2 * SECOND,
            _ => false,
        };
        self.dumps.windows(2).position(is_newer).unwrap_or(self.dumps.len().saturating_sub(1))
    }

    fn as_commands(&self) -> Vec<Command> {
        let (id, base) = (self.node.id, &self.base.0);
        vec![
            Command::sql(format!("ADMIN EXECUTE ON {id} 'System.print(HeapProf.getInstance().enable_prof())'")),
            Command::sql(format!("ADMIN EXECUTE ON {id} 'System.print(HeapProf.getInstance().dump_dot_snapshot())'")),
            Command::sql(format!("ADMIN EXECUTE ON {id} 'System.print(HeapProf.getInstance().disable_prof())'")),
            Command::shell(format!("curl -X POST '{base}/api/nodes/{id}/heap/activate'")),
            Command::shell(format!("curl -X POST '{base}/api/captures' -d '{{\"node\": {id}, \"type\": \"heap\"}}'")),
        ]
    }
}

/// The bytes in use of a dump.
fn in_use(entry: &Entry) -> Option<i64> {
    entry.summary.shown(&entry.meta).filter(|total| total.unit == "bytes").map(|total| total.value)
}

/// `GET /heap/profiler?node=&link=`: the card that pages show once the node has answered.
pub(crate) async fn heap_profiler(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    RawQuery(query): RawQuery,
) -> ApiResult<Markup> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node", "link"])?;
    let node = params.node(&web)?;
    let has_link = params.get("link").is_some() && yes_or_no(&params, "link")?;
    Ok(profiler(&web, &node, &principal, has_link).await)
}

/// The place of that card on a page that does not wait for the node: the script fetches it; without one, a link leads
/// to the page that has it. `more` is added to the address of the card.
fn later(node: &Node, more: &str) -> Markup {
    let link = html! {
        section class="card heap" {
            h2 { (t!("Heap profiler")) }
            p { a href=(format!("/heap?node={}&state=yes", node.id)) { (t!("Show its state")) } }
        }
    };
    place(node, &link, more)
}

/// The same on another page than that of the heap, to which the card leads.
pub(super) fn later_elsewhere(node: &Node) -> Markup {
    later(node, "&link=yes")
}

fn place(node: &Node, card: &Markup, more: &str) -> Markup {
    html! { div id="heap" data-fetch=(format!("/heap/profiler?node={}{more}", node.id)) { (card) } }
}

/// The card of a node's heap profiler, with a link to the page of the heap or without; waits for the node.
async fn profiler(web: &Arc<Web>, node: &Arc<Node>, principal: &Principal, has_link: bool) -> Markup {
    let control = HeapProfiler::new(&web.captures, node);
    let state = match principal.operates() && control.has_switch() {
        false => None,
        true => Some(match tokio::time::timeout(PATIENCE, control.is_active()).await {
            Ok(state) => state.map_err(|error| error.to_string()),
            Err(_) => Err(t!("{0} does not answer within {1} s", node.name(), PATIENCE.as_secs())),
        }),
    };
    html! {
        section class="card heap" {
            h2 { (t!("Heap profiler")) }
            @match &state {
                Some(Ok(active)) => (switch(web, node, *active)),
                Some(Err(why)) => {
                    p class="bad" { (why) }
                    p class="muted" {
                        (t!("The process decides at its start whether its heap can be profiled; jemalloc needs {0}.").fill(&[html! { code { "MALLOC_CONF=prof:true" } }]))
                    }
                }
                None if !principal.operates() => p { (t!("Operators see and switch it.")) },
                None if node.past => p { (t!("The node is not configured, so it is not asked.")) },
                None => p { (t!("A node of kind {0} has no switch: its heap profiler runs as the process was started.", node.kind().name())) },
            }
            @if has_link {
                p class="more" { a href=(format!("/heap?node={}", node.id)) { (t!("Dumps and growth →")) } }
            }
        }
    }
}

/// Whether a page about a node has the card: its profiler can be switched, and by this user.
pub(super) fn has_card(web: &Arc<Web>, node: &Arc<Node>, principal: &Principal) -> bool {
    principal.operates() && HeapProfiler::new(&web.captures, node).has_switch()
}

/// The switch; what it costs is said before it is used.
fn switch(web: &Arc<Web>, node: &Arc<Node>, active: bool) -> Markup {
    let end = HeapProfiler::new(&web.captures, node).ends();
    html! {
        @if active {
            p {
                strong { (t!("On")) } " · "
                @if let Some(end) = end { (t!("allocations are sampled until {0}").fill(&[clock(end)])) }
                @else { (t!("allocations are sampled until it is switched off")) }
            }
        } @else {
            p { strong { (t!("Off")) } }
            p class="muted" {
                (t!("While it is on, each allocation costs a little, and one in about 512 KiB allocated has its stack recorded: usually 1 to 3 % of CPU time, and some memory for each stack."))
            }
        }
        form class="actions" method="post" action="/proc_profile/heap" {
            input type="hidden" name="node" value=(node.id);
            input type="hidden" name="back" value=(format!("/heap?node={}&state=yes", node.id));
            @if active { button type="submit" name="active" value="no" { (t!("Switch off")) } }
            @else {
                select name="minutes" aria-label=(t!("For how long")) {
                    @for (minutes, label) in [
                        (10, t!("for 10 minutes")),
                        (MINUTES, t!("for 30 minutes")),
                        (120, t!("for 2 hours")),
                        (0, t!("until switched off")),
                    ] {
                        option value=(minutes) selected[minutes == MINUTES] { (label) }
                    }
                }
                button type="submit" name="active" value="yes" { (t!("Switch on")) }
            }
        }
    }
}
