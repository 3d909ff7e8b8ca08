//! When heap profilers that were switched on for a while end.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// The ends, by node.
#[derive(Default)]
pub(super) struct HeapEnds(Mutex<BTreeMap<u64, Timestamp>>);

impl HeapEnds {
    /// Notes the end of a node's, or that it has none.
    pub(super) fn set(&self, node: u64, end: Option<Timestamp>) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            Some(end) => ends.insert(node, end),
            None => ends.remove(&node),
        };
    }

    /// The end of a node's, if it is noted.
    pub(super) fn get(&self, node: u64) -> Option<Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied()
    }
}
