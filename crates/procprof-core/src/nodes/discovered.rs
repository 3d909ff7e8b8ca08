//! Nodes that the frontends of StarRocks clusters name.
//!
//! A node keeps the id its cluster gives it. Clusters count alike, so this holds for the first configured one; nodes of
//! the others are numbered here and named with their cluster.

use std::sync::Arc;

use super::{Node, NodeIds, Registry, Role, configured, lock};
use crate::config::{Config, NodeConfig};
use crate::error::Result;

/// A backend or compute node, as a frontend names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered {
    /// Its id in the cluster.
    pub fe_id: u64,
    /// How it is collected, and under which name; without an id.
    pub config: NodeConfig,
}

impl Discovered {
    /// Whether a node is this one: the same id or address in the same cluster.
    fn is(&self, node: &Node) -> bool {
        let addresses = [&self.config.http, &self.config.brpc];
        let is_there = addresses.into_iter().any(|address| !address.is_empty() && node.answers_at(address));
        node.cluster == self.config.cluster
            && node.kind() == self.config.kind
            && (node.config.id == Some(self.fe_id) || is_there)
    }
}

impl Registry {
    /// Takes note of all nodes of a cluster; whether anything is different from what was known.
    pub fn discover(&self, cluster: &str, nodes: Vec<Discovered>) -> bool {
        let mut discovered = lock(&self.discovered);
        if discovered.get(cluster) == Some(&nodes) {
            return false;
        }
        discovered.insert(cluster.to_owned(), nodes);
        true
    }

    /// Adds the nodes of the configured clusters, to those `waiting` if they cannot have an id now; those that are
    /// configured themselves get their ids.
    pub(super) fn add_discovered(
        &self,
        nodes: &mut Vec<Arc<Node>>,
        ids: &mut NodeIds,
        config: &Config,
        waiting: &mut Vec<(String, Role)>,
    ) -> Result<()> {
        let discovered = lock(&self.discovered);
        for (index, fe) in config.fe_queries.iter().enumerate() {
            for found in discovered.get(fe.cluster(config)).into_iter().flatten() {
                if let Some(node) = nodes.iter_mut().find(|node| node.fe_id.is_none() && found.is(node)) {
                    Arc::make_mut(node).fe_id = Some(found.fe_id);
                    continue;
                }
                let mut own = found.config.clone();
                // Whichever cluster answers first, a name identifies the same node.
                if index > 0 {
                    own.name = format!("{} ({})", own.name, own.cluster);
                }
                if nodes.iter().any(|node| node.name() == own.name) {
                    own.name = format!("{} #{}", own.name, found.fe_id);
                }
                let wanted = (index == 0 && is_free(found, &own.name, nodes, ids)).then_some(found.fe_id);
                let Some(id) = ids.id_unless_away(&own.name, own.role, wanted)? else {
                    waiting.push((own.name, own.role));
                    continue;
                };
                own.id = Some(id);
                nodes.push(Arc::new(Node { fe_id: Some(found.fe_id), ..configured(&own, id, config) }));
            }
        }
        Ok(())
    }
}

/// Whether a node may have its cluster's id: no other node has it, except the same node under an older address.
fn is_free(found: &Discovered, name: &str, nodes: &[Arc<Node>], ids: &NodeIds) -> bool {
    let role = found.config.role;
    let renamed = |holder: &str| holder.starts_with(&format!("{role} "));
    let held_by_another =
        ids.all().any(|(holder, id, of)| id == found.fe_id && holder != name && !(of == role && renamed(holder)));
    !held_by_another && nodes.iter().all(|node| node.id != found.fe_id)
}
