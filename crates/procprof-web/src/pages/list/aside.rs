//! Beside the list: the schedule of a node, and how much of it is kept.

use maud::{Markup, html};
use procprof_core::nodes::{Node, Planned, TypeHealth};
use procprof_store::Usage;

use crate::Web;
use crate::pages::{ago, clock, size};

/// What is collected when.
pub(super) fn schedule(web: &Web, node: &Node) -> Markup {
    let health = web.registry.health(node.id);
    html! {
        @if !node.schedule.is_empty() {
            section class="card" {
                h2 { "Schedule" }
                dl class="schedule" {
                    @for planned in &node.schedule {
                        @let own = health.types.get(&planned.profile_type).cloned().unwrap_or_default();
                        dt class=(if planned.on && own.unavailable.is_none() { "" } else { "off" }) { (planned.profile_type.label()) }
                        @if let Some(why) = &own.unavailable { dd { "not available: " (why) } }
                        @else { dd { (rhythm(node, planned)) " " (state(&own, planned, web.captures.is_paused())) } }
                    }
                }
            }
        }
    }
}

/// What is stored of a node, within which limits, and what goes next.
pub(super) fn retention(web: &Web, node: &Node, usage: &Usage) -> Markup {
    let config = web.config();
    let own = usage.nodes.iter().find(|usage| usage.node == node.id);
    let (profiles, bytes) = own.map_or((0, 0), |usage| (usage.profiles, usage.bytes));
    let limit = config.proc_profile_file_retained_size_bytes;
    let days = config.proc_profile_file_retained_days;
    let oldest = own.map(|usage| usage.oldest.0);
    html! {
        section class="card" {
            h2 { "Retention" }
            p { (profiles) (if profiles == 1 { " profile, " } else { " profiles, " }) (size(bytes)) " of " (size(limit)) }
            meter min="0" max=(limit.max(1)) value=(bytes.min(limit)) aria-label="Bytes used" { (size(bytes)) }
            @if let Some(oldest) = oldest { p { "Oldest: " (ago(oldest)) " of " (days) (if days == 1 { " day" } else { " days" }) } }
            p class="muted" { "The newest profile of each type and pinned profiles are never deleted. " a href="/settings" { "Settings" } }
        }
    }
}

fn rhythm(node: &Node, planned: &Planned) -> String {
    match (planned.on, planned.seconds, planned.every) {
        (false, ..) => "off".to_owned(),
        (true, _, every) if node.kind().is_continuous(&planned.profile_type) => {
            format!("continuously, a profile every {every} s")
        }
        (true, 0, every) => format!("a snapshot every {every} s"),
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
