//! The field of a form that chooses a node: a list while there are few nodes, else a text with suggestions.

use maud::{Markup, html};

use crate::Web;
use crate::subjects::ALL_NODES;
use crate::texts::t;

/// Most nodes that the list has, and most suggestions.
const LISTED_MAX: usize = 100;

/// A choice in the list beside the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtraChoice {
    /// No value: the field may be left empty, which is all nodes.
    Empty,
    /// [`ALL_NODES`], and names that this server does not know.
    AllNodes,
}

/// The field, with the node that `chosen` names: an id, a name or [`ALL_NODES`].
pub(super) fn node_field(web: &Web, chosen: Option<&str>, beside: ExtraChoice) -> Markup {
    let nodes = web.registry.all();
    let known = chosen.and_then(|name| web.registry.find(name));
    if nodes.len() > LISTED_MAX {
        let value = known.as_ref().map(|node| node.name()).or(chosen).unwrap_or_default();
        let placeholder = match beside {
            ExtraChoice::Empty => t!("all").get().to_owned(),
            ExtraChoice::AllNodes => t!("Name or id; {0} for all nodes", ALL_NODES),
        };
        return html! {
            input name="node" value=(value) placeholder=(placeholder) required[beside == ExtraChoice::AllNodes]
                list="node-names" autocomplete="off" data-suggest="/api/nodes?limit=20&q=";
            datalist id="node-names" {
                @for node in nodes.iter().take(LISTED_MAX) { option value=(node.name()) {} }
            }
        };
    }
    html! {
        select name="node" {
            @if beside == ExtraChoice::Empty { option value="" { (t!("all")) } }
            @for node in nodes.iter() {
                option value=(node.id) selected[known.as_ref().is_some_and(|known| known.id == node.id)] {
                    (node.label())
                }
            }
            @if beside == ExtraChoice::AllNodes {
                @if let Some(name) = chosen.filter(|name| *name != ALL_NODES && known.is_none()) {
                    option value=(name) selected { (name) }
                }
                option value=(ALL_NODES) selected[chosen == Some(ALL_NODES)] { (t!("All nodes")) }
            }
        }
    }
}
