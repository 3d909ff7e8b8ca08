//! Nodes of hosts whose agents send profiles: the host, and each of its services.
//!
//! They are numbered under names that stay when a host is renamed: `host ID` and `host ID/SERVICE`. The names that are
//! shown are `HOST` and `HOST/SERVICE`.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Node, Registry, Role, lock};
use crate::error::Result;

/// The host agent that sends a node's profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedBy {
    /// The host's id.
    pub host: String,
    /// The service; `None` for the host itself.
    pub service: Option<String>,
}

impl PushedBy {
    /// The name under which its node is numbered.
    pub(crate) fn key(&self) -> String {
        match &self.service {
            Some(service) => format!("host {}/{service}", self.host),
            None => format!("host {}", self.host),
        }
    }

    fn role(&self) -> Role {
        if self.service.is_some() { Role::Service } else { Role::Host }
    }
}

impl Registry {
    /// The ids of pushed nodes, former ones or new ones.
    ///
    /// # Errors
    /// The id file cannot be written, or ids are shared and there is no new one.
    pub(crate) fn pushed_ids(&self, nodes: &[PushedBy]) -> Result<Vec<u64>> {
        let named: Vec<(String, Role)> = nodes.iter().map(|node| (node.key(), node.role())).collect();
        self.ids_of(&named)
    }

    /// Forgets pushed nodes that have no profiles.
    ///
    /// # Errors
    /// The id file cannot be written.
    pub(crate) fn forget_pushed(&self, nodes: &[PushedBy]) -> Result<()> {
        let forgotten = lock(&self.ids).forget(&nodes.iter().map(PushedBy::key).collect::<Vec<_>>())?;
        let mut health = lock(&self.health);
        for id in forgotten {
            health.remove(&id);
        }
        Ok(())
    }

    /// Lists these pushed nodes instead of the former ones.
    pub(crate) fn set_pushed(&self, nodes: Vec<Arc<Node>>) {
        let ids = lock(&self.ids);
        *lock(&self.pushed) = nodes;
        self.list_anew(&ids);
    }

    /// The names of nodes that are not pushed and not of the past: no pushed node may be called so.
    pub(crate) fn own_names(&self) -> HashSet<String> {
        self.table().own.iter().map(|node| node.name().to_owned()).collect()
    }

    /// The cluster of nodes that name none.
    pub(crate) fn cluster(&self) -> String {
        self.table().cluster.clone()
    }
}

/// The same node in the cluster of the configuration.
pub(super) fn in_cluster(node: &Arc<Node>, cluster: &str) -> Arc<Node> {
    match node.cluster == cluster {
        true => Arc::clone(node),
        false => Arc::new(Node { cluster: cluster.to_owned(), ..Node::clone(node) }),
    }
}
