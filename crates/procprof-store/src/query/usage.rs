//! The usage of a store.

use procprof_profile::Nanos;

/// The usage of a store, and the free space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Per node that has profiles, ascending by node.
    pub nodes: Vec<NodeUsage>,
    /// Profiles of all nodes.
    pub profiles: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of them that are pinned.
    pub pinned_bytes: u64,
    /// Bytes of cached renderings.
    pub cache_bytes: u64,
    /// Bytes of the file system that are free for this process.
    pub free_bytes: u64,
    /// Error rows that wait in memory for space on the disk.
    pub errors_waiting: u64,
    /// Error rows that will not survive this process, because too many waited.
    pub errors_lost: u64,
}

/// The usage of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeUsage {
    /// The node.
    pub node: u64,
    /// Its profiles.
    pub profiles: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest was completed.
    pub oldest: Nanos,
    /// When the newest was completed.
    pub newest: Nanos,
}

impl Usage {
    /// The usage of a node; `None` if it has no profiles.
    pub fn node(&self, node: u64) -> Option<&NodeUsage> {
        let place = self.nodes.binary_search_by_key(&node, |usage| usage.node).ok()?;
        self.nodes.get(place)
    }
}
