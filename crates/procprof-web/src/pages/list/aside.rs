//! Beside the list: the schedule of a node, and how much of it is kept.

use maud::{Markup, html};
use procprof_core::nodes::{Node, Planned, TypeHealth};
use procprof_store::Usage;

use crate::Web;
use crate::pages::{ago, clock, size, type_label};
use crate::texts::t;

/// The node's schedule.
pub(super) fn schedule(web: &Web, node: &Node) -> Markup {
    let health = web.registry.health(node.id);
    html! {
        @if !node.schedule.is_empty() {
            section class="card" {
                h2 { (t!("Schedule")) }
                dl class="schedule" {
                    @for planned in &node.schedule {
                        @let own = health.types.get(&planned.profile_type).cloned().unwrap_or_default();
                        dt class=(if planned.on && own.unavailable.is_none() { "" } else { "off" }) {
                            (type_label(&planned.profile_type))
                        }
                        @if let Some(why) = &own.unavailable { dd { (t!("not available: {0}", why)) } }
                        @else { dd { (rhythm(node, planned)) " " (state(&own, planned, web.captures.is_paused())) } }
                    }
                }
            }
        }
    }
}

/// The stored profiles of a node, their limits, and those that are deleted next.
pub(super) fn retention(web: &Web, node: &Node, usage: &Usage) -> Markup {
    let config = web.config();
    let own = usage.nodes.iter().find(|usage| usage.node == node.id);
    let (profiles, bytes) = own.map_or((0, 0), |usage| (usage.profiles, usage.bytes));
    let limit = config.proc_profile_file_retained_size_bytes;
    let days = config.proc_profile_file_retained_days;
    let oldest = own.map(|usage| usage.oldest.0);
    html! {
        section class="card" {
            h2 { (t!("Retention")) }
            p {
                @if profiles == 1 {
                    (t!("1 profile, {0} of {1}", size(bytes), size(limit)))
                } @else {
                    (t!("{0} profiles, {1} of {2}", profiles, size(bytes), size(limit)))
                }
            }
            meter min="0" max=(limit.max(1)) value=(bytes.min(limit)) aria-label=(t!("Bytes used")) { (size(bytes)) }
            @if let Some(oldest) = oldest {
                p {
                    @if days == 1 {
                        (t!("Oldest: {0} of 1 day", ago(oldest)))
                    } @else {
                        (t!("Oldest: {0} of {1} days", ago(oldest), days))
                    }
                }
            }
            p class="muted" {
                (t!("The newest profile of each type and pinned profiles are never deleted."))
                " "
                a href="/settings" { (t!("Settings")) }
            }
        }
    }
}

fn rhythm(node: &Node, planned: &Planned) -> String {
    match (planned.on, planned.seconds, planned.every) {
        (false, ..) if node.kind().is_pushed() => t!("on request").to_string(),
        (false, ..) => t!("off").to_string(),
        (true, _, every) if node.kind().is_continuous(&planned.profile_type) => {
            t!("continuously, a profile every {0} s", every)
        }
        (true, 0, every) => t!("a snapshot every {0} s", every),
        (true, seconds, every) if every <= seconds => t!("{0} s, without gaps", seconds),
        (true, seconds, every) => t!("{0} s every {1} s", seconds, every),
    }
}

fn state(health: &TypeHealth, planned: &Planned, paused: bool) -> Markup {
    html! {
        @if health.capturing { span class="tag live" { (t!("capturing")) } }
        @else if planned.on && paused { span class="tag" { (t!("paused")) } }
        @else if let Some(retry) = health.retry_at.filter(|_| health.failing()) {
            span class="tag bad"
                title=(health.last_failure.as_ref().map(|failure| failure.reason.clone()).unwrap_or_default())
            {
                (t!("failing"))
            }
            " " span class="muted" { (t!("next try {0}").fill(&[clock(retry)])) }
        }
        @else if health.failing() { span class="tag bad" { (t!("failing")) } }
    }
}
