//! Ids of new nodes. A new id is a write of the file of all ids, so those who ask meanwhile get theirs by one write.

use std::sync::{Arc, Mutex, PoisonError};

use super::Hosts;
use crate::error::Result;
use crate::nodes::PushedBy;

/// Nodes that wait for their ids.
#[derive(Default)]
pub(super) struct IdQueue {
    waiting: Mutex<Vec<PushedBy>>,
    /// One write at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Hosts {
    /// The ids of nodes, former ones or new ones.
    pub(super) async fn node_ids(&self, nodes: Vec<PushedBy>) -> Result<Vec<u64>> {
        let waiting = || self.numbering.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting().extend(nodes.iter().cloned());
        let _turn = self.numbering.turn.lock().await;
        // They have their ids if the one before has taken them with its own.
        let mut all = nodes;
        let own = all.len();
        all.append(&mut waiting());
        let registry = Arc::clone(&self.ingest.registry);
        let mut ids = self.blocking(move || registry.pushed_ids(&all)).await?;
        ids.truncate(own);
        Ok(ids)
    }
}
