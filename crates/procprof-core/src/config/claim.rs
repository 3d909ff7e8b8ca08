//! Names and ids that nodes claim: each identifies one node.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::NodeConfig;
use crate::error::{Error, Result};

/// Id of the server itself.
pub const THIS_SERVER_ID: u64 = 1;
/// Name of the server itself.
pub(crate) const THIS_SERVER_NAME: &str = "procprof";

/// The name and id a node is to have, and where it is configured.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: Option<u64>,
    pub(crate) place: &'a str,
}

impl Claim<'_> {
    /// The claim of a configured node.
    pub(crate) fn from_node(node: &NodeConfig) -> Claim<'_> {
        Claim { name: &node.name, id: node.id, place: &node.place }
    }
}

/// Rejects names and given ids that identify two nodes.
pub(crate) fn distinct<'a>(nodes: impl Iterator<Item = Claim<'a>>) -> Result<()> {
    let mut known = vec![Claim { name: THIS_SERVER_NAME, id: Some(THIS_SERVER_ID), place: "" }];
    for node in nodes {
        for other in &known {
            let what = match () {
                () if other.name == node.name => format!("name {:?}", node.name),
                () if node.id.is_some() && other.id == node.id => format!("id {}", node.id.unwrap_or_default()),
                () => continue,
            };
            let holder = match other.place {
                "" if other.id == Some(THIS_SERVER_ID) => "the server itself".to_owned(),
                "" => format!("node {:?}", other.name),
                place => format!("the node at {place}"),
            };
            let place = if node.place.is_empty() { "configuration" } else { node.place };
            return Err(Error::Duplicate { place: place.to_owned(), what, holder });
        }
        known.push(node);
    }
    Ok(())
}

/// A sentence for each further node of a kind at the same address: the same profiles are collected twice.
pub(super) fn shared_addresses(nodes: &[NodeConfig]) -> Vec<String> {
    let mut known = BTreeMap::new();
    let mut warnings = Vec::new();
    for node in nodes.iter().filter(|node| node.kind.is_over_http()) {
        match known.entry((node.kind.name(), &node.http, &node.brpc, &node.urls)) {
            Entry::Vacant(place) => drop(place.insert(&node.place)),
            Entry::Occupied(first) => warnings.push(format!(
                "{}: {} is the address of the node at {}, too: its profiles are collected twice",
                node.place,
                node.address(),
                first.get()
            )),
        }
    }
    warnings
}
