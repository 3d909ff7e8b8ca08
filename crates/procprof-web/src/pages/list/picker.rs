//! The choice of a node: tabs while there are few; with many, those that need attention and a searchable list of all.

use std::sync::Arc;

use maud::{Markup, html};
use procprof_core::nodes::{Health, Node, Role};
use procprof_store::Usage;

use crate::Web;
use crate::node_search::shown_nodes;
use crate::texts::{Text, t};

/// Most nodes that are shown as tabs.
const TABS_MAX: usize = 8;

/// Most nodes in the list of all.
const LISTED_MAX: usize = 100;

/// A node with the summary of its health.
struct Choice {
    node: Arc<Node>,
    summary: &'static str,
}

/// The tabs of a page about one node; `href` gives the page of a node.
pub(in crate::pages) fn picker(web: &Web, chosen: u64, usage: &Usage, href: impl Fn(&Node) -> String) -> Markup {
    let mut nodes = shown_nodes(web, usage);
    if !nodes.iter().any(|node| node.id == chosen) {
        nodes.extend(web.registry.by_id(chosen));
    }
    let summaries = web.registry.summaries(&nodes);
    let choices = nodes.into_iter().zip(summaries).map(|(node, summary)| Choice { node, summary });
    let choices: Vec<Choice> = choices.collect();
    let tabs = tabs(&choices, chosen);
    html! {
        nav class="tabs" aria-label=(t!("Nodes")) id="tabs" data-refresh {
            @if choices.len() > tabs.len() { (all(web, &choices, chosen, &href)) }
            @for choice in tabs { (tab(web, &choice.node, chosen, &href)) }
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
    let is_of_host =
        |choice: &Choice| host.is_some() && choice.node.pushed_by.as_ref().map(|own| &own.host) == host.as_ref();
    let keyed = choices.iter().enumerate();
    let keyed = keyed.map(|(place, choice)| ((rank(choice, chosen), !is_of_host(choice), place), choice));
    let mut ranked: Vec<((u8, bool, usize), &Choice)> = keyed.collect();
    ranked.select_nth_unstable_by_key(TABS_MAX - 1, |(key, _)| *key);
    ranked.truncate(TABS_MAX - 1);
    ranked.sort_by_key(|((.., place), choice)| (choice.node.id != chosen, *place));
    ranked.into_iter().map(|(_, choice)| choice).collect()
}

fn rank(choice: &Choice, chosen: u64) -> u8 {
    match choice.summary {
        _ if choice.node.id == chosen => 0,
        _ if choice.node.past => 4,
        "failing" => 1,
        "degraded" => 2,
        _ => 3,
    }
}

fn tab(web: &Web, node: &Node, chosen: u64, href: &impl Fn(&Node) -> String) -> Markup {
    let health = web.registry.health(node.id);
    html! {
        a href=(href(node)) aria-current=[(node.id == chosen).then_some("page")] title=(title(node, &health)) {
            (name(node, &health))
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

/// The nodes by group, at most [`LISTED_MAX`] of them, with a box to search all.
fn all(web: &Web, choices: &[Choice], chosen: u64, href: &impl Fn(&Node) -> String) -> Markup {
    let group = |role: Role| match role {
        Role::Fe => 0,
        Role::Be | Role::Cn => 1,
        Role::Host => 2,
        _ => 3,
    };
    let failing = choices.iter().filter(|choice| !choice.node.past && choice.summary == "failing").count();
    let (listed, is_cut) = (&choices[..choices.len().min(LISTED_MAX)], choices.len() > LISTED_MAX);
    html! {
        details class="picker" {
            summary {
                (t!("All {0} nodes", choices.len()))
                @if failing > 0 { " " span class="tag bad" { (t!("{0} failing", failing)) } }
            }
            div class="panel" {
                form action="/" role="search" {
                    input type="search" name="q" placeholder=(t!("Find a node")) aria-label=(t!("Find a node"))
                        data-filter=[(!is_cut).then_some("#all-nodes li")];
                }
                @if is_cut { p class="muted" { (t!("The first {0} are listed; search for others.", LISTED_MAX)) } }
                div id="all-nodes" {
                    @for (number, label) in [t!("Frontends"), t!("Backends"), t!("Hosts"), t!("Others")].into_iter().enumerate() {
                        @let is_of_group = |choice: &&Choice| group(choice.node.role()) == number;
                        @let of_group: Vec<&Choice> = listed.iter().filter(is_of_group).collect();
                        @if !of_group.is_empty() {
                            section {
                                h2 { (label) " (" (choices.iter().filter(is_of_group).count()) ")" }
                                ul { @for choice in of_group { li { (tab(web, &choice.node, chosen, href)) } } }
                            }
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
