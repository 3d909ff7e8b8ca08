//! Nodes found by a text, for pages and the API alike; there may be 105,000 of them, which no page shows at once.

use std::sync::Arc;

use procprof_core::nodes::Node;
use procprof_store::Usage;

use crate::Web;

/// A text in names, addresses, kinds, clusters and labels of nodes, in any case.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeSearch(String);

impl NodeSearch {
    /// The search for a text; an empty one finds all nodes.
    pub(crate) fn new(text: &str) -> NodeSearch {
        NodeSearch(text.trim().to_lowercase())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn finds(&self, node: &Node) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.0);
        let is_label = |(key, value): (&String, &String)| has(&format!("{key}={value}"));
        self.0.is_empty()
            || has(&node.label())
            || has(&node.address)
            || has(node.kind().name())
            || has(&node.cluster)
            || node.config.labels.iter().any(is_label)
    }
}

/// The registered nodes, and those of the past that have profiles.
pub(crate) fn shown_nodes(web: &Web, usage: &Usage) -> Vec<Arc<Node>> {
    let nodes = web.registry.all();
    nodes.iter().filter(|node| !node.past || usage.node(node.id).is_some()).cloned().collect()
}
