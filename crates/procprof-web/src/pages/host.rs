//! What the host agent of a node reports: of its host and itself, or of a service; and the rate that operators set.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Redirect;
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::hosts::protocol::ServiceFacts;
use procprof_core::hosts::{HostState, HostWarning, RATE_MAX};
use procprof_core::nodes::Node;

use super::operate::{back, form};
use super::{ago, grouped, significant, size};
use crate::Web;
use crate::api;
use crate::caller::Caller;
use crate::params::encode;
use crate::problem::ApiResult;
use crate::texts::t;

/// `POST /proc_profile/rate`: an empty rate is that of the agent's configuration.
pub(crate) async fn set_rate(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    body: Bytes,
) -> ApiResult<Redirect> {
    let params = form(&body, &["node", "hz", "back"])?;
    let hz = match params.get("hz") {
        None | Some("") => None,
        Some(_) => params.number("hz", 1, u64::from(RATE_MAX))?.and_then(|hz| u32::try_from(hz).ok()),
    };
    let id = api::hosts::set_rate(&web, &principal, params.need("node")?, hz).await?;
    Ok(back(&params, &format!("/proc_profile?node={id}")))
}

/// The facts that the agent reports; nothing for nodes without one.
pub(super) fn card(web: &Web, node: &Node, principal: &Principal, back: &str) -> Markup {
    let Some(state) = web.hosts.state(node) else { return html! {} };
    html! {
        @match &state.service {
            Some(service) => {
                section class="card process" {
                    h2 { (t!("Processes")) }
                    (service_facts(&service.facts, ago(nanos(service.seen))))
                    p { a href=(format!("/proc_profile?node={}", state.node)) { (t!("Host {0}", state.facts.name)) } }
                }
            }
            None => {
                section class="card process" {
                    h2 { (t!("Host")) }
                    (host_facts(&state))
                    p { a href=(format!("/?q={}", encode(&state.facts.name))) { (t!("Its services")) } }
                    @if principal.operates() && !node.past { (rate_form(node, &state, back)) }
                }
            }
        }
    }
}

/// What users should know of the host, above everything else on its pages.
pub(super) fn notices(web: &Web, node: &Node) -> Markup {
    let Some(state) = web.hosts.state(node).filter(|_| !node.past) else { return html! {} };
    html! {
        @for warning in state.warnings().iter().filter(|warning| **warning != HostWarning::Late) {
            p class="notice" { (in_words(warning)) }
        }
    }
}

/// A warning in the page's language; what the agent reports stays as it is.
pub(super) fn in_words(warning: &HostWarning) -> String {
    match warning {
        HostWarning::Late => t!("No heartbeat for 3 minutes or longer").to_string(),
        HostWarning::Skew(seconds @ 0..) => t!("The host's clock is {0} s ahead of the server's.", seconds),
        HostWarning::Skew(seconds) => t!("The host's clock is {0} s behind the server's.", seconds.unsigned_abs()),
        HostWarning::Rate(hz, wanted) => {
            t!("The agent samples at {0} Hz instead of {1} Hz to keep within its limits.", hz, wanted)
        }
        HostWarning::Missing(what) => what.clone(),
        HostWarning::SpoolLost(profiles) => {
            t!("Profiles removed from the agent's full spool, never sent: {0}", grouped(*profiles))
        }
        HostWarning::LeftOut(services) => t!("Services without a node, since there are too many: {0}", services),
    }
}

/// What stands below the kind of a node in the list of nodes.
pub(super) fn summary(state: &HostState) -> String {
    match &state.service {
        Some(service) => {
            let facts = &service.facts;
            t!("Processes: {0}, CPUs: {1}", facts.processes, significant(facts.cpu_milli as f64 / 1e3))
        }
        None => t!("{0} CPUs, {1}", state.facts.cpus, size(state.facts.memory_bytes)),
    }
}

fn host_facts(state: &HostState) -> Markup {
    let facts = &state.facts;
    let (waiting, bytes) = facts.spooled;
    html! {
        dl class="schedule" {
            dt { (t!("Heartbeat")) }
            dd { @if let Some(at) = state.heartbeat { (ago(nanos(at))) } @else { (t!("none yet")) } }
            dt { (t!("Kernel")) } dd { (facts.kernel) }
            dt { (t!("CPUs")) } dd { (facts.cpus) }
            dt { (t!("Memory")) } dd { (size(facts.memory_bytes)) }
            dt { (t!("Services")) } dd {
                (state.services)
                @if state.services_gone > 0 { " " span class="muted" { (t!("{0} gone", state.services_gone)) } }
            }
            dt { (t!("Agent")) } dd { (facts.version) }
            dt { (t!("Rate")) } dd { (rate(state)) }
            dt { (t!("Agent's CPU time")) } dd { (super::quantity(saturated(facts.cpu_nanos), "nanoseconds")) }
            dt { (t!("Agent's memory")) } dd { (size(facts.resident_bytes)) }
            dt { (t!("Spool")) } dd { (t!("{0} profiles, {1}", grouped(waiting), size(bytes))) }
            dt { (t!("Lost samples")) } dd { (grouped(facts.samples_lost)) }
            @if let Some(token) = &state.token { dt { (t!("Token")) } dd { (token) } }
        }
    }
}

fn rate(state: &HostState) -> String {
    let (hz, wanted) = (state.facts.hz, state.facts.hz_wanted);
    let now = if hz == wanted { format!("{hz} Hz") } else { t!("{0} of {1} Hz", hz, wanted) };
    match state.rate_asked {
        Some(asked) => t!("{0}; {1} Hz is asked for", now, asked),
        None => now,
    }
}

fn service_facts(facts: &ServiceFacts, seen: String) -> Markup {
    html! {
        dl class="schedule" {
            @if !facts.program.is_empty() { dt { (t!("Program")) } dd { code { (facts.program) } } }
            dt { (t!("Processes")) } dd { (facts.processes) }
            @if facts.process.0 > 0 { dt { (t!("Process id")) } dd { (facts.process.0) } }
            dt { (t!("CPU of the last minute")) } dd { (t!("{0} cores", significant(facts.cpu_milli as f64 / 1e3))) }
            dt { (t!("Seen")) } dd { (seen) }
        }
        @if facts.in_host {
            p class="muted" { (t!("It uses too little CPU time for profiles of its own: its samples are in those of its host.")) }
        }
        @for hint in &facts.hints { p class="muted" { (hint) } }
    }
}

fn rate_form(node: &Node, state: &HostState, back: &str) -> Markup {
    html! {
        @let hidden = html! {
            input type="hidden" name="node" value=(node.id);
            input type="hidden" name="back" value=(back);
        };
        div class="rate" {
            form method="post" action="/proc_profile/rate" {
                (hidden)
                label { (t!("Rate in Hz"))
                    input type="number" name="hz" value=(state.facts.hz_wanted) min="1" max=(RATE_MAX)
                        inputmode="numeric";
                }
                button type="submit" { (t!("Set")) }
            }
            form method="post" action="/proc_profile/rate" {
                (hidden)
                button type="submit" { (t!("As configured")) }
            }
        }
    }
}

fn nanos(time: jiff::Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

fn saturated(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}
