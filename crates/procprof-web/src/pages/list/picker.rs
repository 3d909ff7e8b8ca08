//! The choice of a node: tabs while there are few; with many, those that need attention and a searchable list of all.

use std::sync::Arc;

use maud::{Markup, html};
use procprof_core::nodes::{Health, Node, Role};
use procprof_store::Usage;

use crate::Web;
use crate::texts::{Text, t};

/// Most nodes that are shown as tabs.
const TABS_MAX: usize = 8;

/// A node with its health.
struct Choice {
    node: Arc<Node>,
    health: Health,
}

/// The tabs of a page about one node; `href` gives the page of a node.
pub(in crate::pages) fn picker(web: &Web, chosen: u64, usage: &Usage, href: impl Fn(&Node) -> String) -> Markup {
    let has_profiles = |node: &Node| usage.nodes.iter().any(|usage| usage.node == node.id);
    let nodes = web.registry.all().into_iter();
    let shown = nodes.filter(|node| !node.past || has_profiles(node) || node.id == chosen);
    let choices: Vec<Choice> = shown.map(|node| Choice { health: web.registry.health(node.id), node }).collect();
    let tabs = tabs(&choices, chosen);
    html! {
        nav class="tabs" aria-label=(t!("Nodes")) id="tabs" data-refresh {
            @if choices.len() > tabs.len() { (all(&choices, chosen, &href)) }
            @for choice in tabs { (tab(choice, chosen, &href)) }
        }
    }
}

/// The chosen node, those that fail and those of its host come first; what is shown keeps the order of the configuration.
fn tabs(choices: &[Choice], chosen: u64) -> Vec<&Choice> {
    let of_host = |choice: &Choice| choice.node.pushed_by.as_ref().map(|pushed_by| pushed_by.host.clone());
    let host = choices.iter().find(|choice| choice.node.id == chosen).and_then(of_host);
    if choices.len() <= TABS_MAX {
        return choices.iter().collect();
    }
    let mut ranked: Vec<(usize, &Choice)> = choices.iter().enumerate().collect();
    let is_of_host = |choice: &Choice| host.is_some() && of_host(choice) == host;
    ranked.sort_by_key(|(place, choice)| (rank(choice, chosen), !is_of_host(choice), *place));
    ranked.truncate(TABS_MAX - 1);
    ranked.sort_by_key(|(place, choice)| (choice.node.id != chosen, *place));
    ranked.into_iter().map(|(_, choice)| choice).collect()
}

fn rank(choice: &Choice, chosen: u64) -> u8 {
    match choice.health.summary() {
        _ if choice.node.id == chosen => 0,
        _ if choice.node.past => 4,
        "failing" => 1,
        "degraded" => 2,
        _ => 3,
    }
}

fn tab(choice: &Choice, chosen: u64, href: &impl Fn(&Node) -> String) -> Markup {
    let Choice { node, health } = choice;
    html! {
        a href=(href(node)) aria-current=[(node.id == chosen).then_some("page")] title=(title(node, health)) {
            (name(node, health))
        }
    }
}

/// Dot, role and name.
pub(in crate::pages) fn name(node: &Node, health: &Health) -> Markup {
    let state = if node.past { "past" } else { health.summary() };
    html! {
        span class=(format!("dot {state}")) role="img" aria-label=(state_in_words(state)) {}
        span class="role" { (node.role().name()) }
        span class="name" { (node.name()) }
        @if node.demo { span class="tag" { (t!("demo")) } }
    }
}

/// The same for a service below its host: dot and its own name.
pub(in crate::pages) fn service_name(node: &Node, service: &str, health: &Health) -> Markup {
    let state = if node.past { "past" } else { health.summary() };
    html! {
        span class=(format!("dot {state}")) role="img" aria-label=(state_in_words(state)) {}
        span class="name" { (service) }
    }
}

/// A state of a node in words.
pub(in crate::pages) fn state_in_words(state: &str) -> Text {
    match state {
        "ok" => t!("works"),
        "degraded" => t!("some types fail"),
        "failing" => t!("fails"),
        "past" => t!("not collected"),
        "in-host" => t!("part of the profiles of its host"),
        _ => t!("not tried yet"),
    }
}

/// All nodes by group, with a box to search them.
fn all(choices: &[Choice], chosen: u64, href: &impl Fn(&Node) -> String) -> Markup {
    let group = |role: Role| match role {
        Role::Fe => 0,
        Role::Be | Role::Cn => 1,
        Role::Host => 2,
        _ => 3,
    };
    let failing = choices.iter().filter(|choice| !choice.node.past && choice.health.summary() == "failing").count();
    html! {
        details class="picker" {
            summary {
                (t!("All {0} nodes", choices.len()))
                @if failing > 0 { " " span class="tag bad" { (t!("{0} failing", failing)) } }
            }
            div class="panel" {
                form action="/" role="search" {
                    input type="search" name="q" placeholder=(t!("Find a node")) aria-label=(t!("Find a node"))
                        data-filter="#all-nodes li";
                }
                div id="all-nodes" {
                    @for (number, label) in [t!("Frontends"), t!("Backends"), t!("Hosts"), t!("Others")].into_iter().enumerate() {
                        @let of_group: Vec<&Choice> = choices.iter().filter(|choice| group(choice.node.role()) == number).collect();
                        @if !of_group.is_empty() {
                            section { h2 { (label) " (" (of_group.len()) ")" } ul {
                                @for choice in of_group { li { (tab(choice, chosen, href)) } }
                            } }
                        }
                    }
                }
            }
        }
    }
}

fn title(node: &Node, health: &Health) -> String {
    match health.last_failure() {
        _ if node.past => t!("{0}: not collected", node.label()),
        Some((kind, failure)) => format!("{}: {kind}: {}", node.label(), failure.reason),
        None => format!("{}: {}", node.label(), state_in_words(health.summary())),
    }
}
