//! The process of a node whose kind finds it by itself: what records it, what it runs on, what is not recorded of it.

use maud::{Markup, html};
use procprof_core::nodes::Node;

use super::clock;
use crate::Web;
use crate::texts::t;

/// The facts about the process; nothing for nodes of other kinds.
pub(super) fn card(web: &Web, node: &Node) -> Markup {
    let health = web.registry.health(node.id);
    html! {
        @if let Some(state) = web.captures.source_state(node) {
            section class="card process" {
                h2 { (t!("Process")) }
                dl class="schedule" {
                    dt { (t!("Recorded by")) } dd { (state.engine) }
                    @if !state.runtime.is_empty() { dt { (t!("Runs on")) } dd { (state.runtime) } }
                    @if let Some(pid) = state.pid { dt { (t!("Process id")) } dd { (pid) } }
                    @if let Some(retry) = health.retry_at() { dt { (t!("Next try")) } dd { (clock(retry)) } }
                }
                @for limit in &state.limits { p class="muted" { (limit) } }
            }
        }
    }
}
