//! Omits nodes and edges that are too light.

use procprof_profile::Profile;

use super::{Graph, Order, Places, Shape};
use crate::{Budget, Result};

/// Labels that a drawn node shows at most.
pub(crate) const TAGS_MAX: usize = 4;

/// The limits below which parts of a graph are omitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most nodes; 0 for all.
    pub(crate) nodes: usize,
    /// Nodes whose cum is below this share of the total are left out.
    pub(crate) node_share: f64,
    /// Edges below this share of the total are left out.
    pub(crate) edge_share: f64,
}

/// A graph, and the numbers of omitted parts.
pub(crate) struct Trimmed<'a> {
    pub(crate) graph: Graph<'a>,
    /// Nodes that were heavy enough.
    pub(crate) passed: usize,
    /// Nodes that were too light.
    pub(crate) dropped_nodes: usize,
    /// Edges that were too light.
    pub(crate) dropped_edges: usize,
}

impl<'a> Trimmed<'a> {
    pub(crate) fn new(
        profile: &Profile,
        places: &Places<'a>,
        shape: &Shape<'_>,
        limits: Limits,
        order: Order,
    ) -> Result<Trimmed<'a>> {
        // If nodes may be too light, calls are counted afterwards, without them.
        let weighs_first = !shape.call_tree && limits.node_share > 0.0;
        let mut graph =
            if weighs_first { Graph::of_weights(profile, places, shape)? } else { Graph::new(profile, places, shape)? };
        let total = graph.shown_nodes().fold(0i64, |sum, node| sum.saturating_add(node.flat.sum));
        let cutoff = |share: f64| ((total as f64 * share) as i64).saturating_abs();
        let (node_cutoff, edge_cutoff) = (cutoff(limits.node_share), cutoff(limits.edge_share));
        let keep = |graph: &mut Graph<'a>, kept: &[u32]| -> Result<()> {
            let mut is_kept = vec![false; graph.nodes.len()];
            kept.iter().for_each(|id| is_kept[*id as usize] = true);
            if shape.call_tree {
                return graph.cut_out(&is_kept, shape.budget);
            }
            graph.count(profile, places, shape, Some(&is_kept))
        };

        let heavy: Vec<u32> =
            graph.shown.iter().copied().filter(|id| graph.node(*id).cum.sum.saturating_abs() >= node_cutoff).collect();
        let dropped_nodes = graph.shown.len() - heavy.len();
        if dropped_nodes > 0 {
            keep(&mut graph, &heavy)?;
        } else if weighs_first {
            graph.count(profile, places, shape, None)?;
        }
        let passed = graph.shown.len();

        graph.sort(order);
        if limits.nodes > 0 {
            graph.trim_tags(node_cutoff);
            graph.trim_edges(edge_cutoff);
            let top = graph.top(limits.nodes, order).to_vec();
            if top.len() < graph.shown.len() {
                keep(&mut graph, &top)?;
                graph.sort(order);
            }
        }
        graph.trim_tags(node_cutoff);
        let dropped_edges = graph.trim_edges(edge_cutoff);
        if order == Order::Picture {
            graph.remove_redundant_edges(shape.budget)?;
        }
        Ok(Trimmed { graph, passed, dropped_nodes, dropped_edges })
    }
}

impl Graph<'_> {
    /// The first nodes; in a picture, labels count as nodes.
    fn top(&self, most: usize, order: Order) -> &[u32] {
        let mut most = most;
        if order == Order::Picture {
            let mut count = 0;
            let full = self.shown_nodes().position(|node| {
                count += node.tags.count().min(TAGS_MAX) + 1;
                count >= most
            });
            most = full.map_or(most, |index| index + 1);
        }
        &self.shown[..most.min(self.shown.len())]
    }

    fn trim_tags(&mut self, cutoff: i64) {
        for id in &self.shown {
            self.nodes[*id as usize].tags.trim(cutoff);
        }
    }

    /// Removes edges to nodes that are shown, and returns their number.
    fn trim_edges(&mut self, cutoff: i64) -> usize {
        let light: Vec<u32> = self
            .shown_nodes()
            .flat_map(|node| &node.incoming)
            .copied()
            .filter(|edge| self.is_light(*edge, cutoff))
            .collect();
        let mut is_light = vec![false; self.edges.len()];
        light.iter().for_each(|edge| is_light[*edge as usize] = true);
        for node in &mut self.nodes {
            node.incoming.retain(|edge| !is_light[*edge as usize]);
            node.outgoing.retain(|edge| !is_light[*edge as usize]);
        }
        light.len()
    }

    fn is_light(&self, edge: u32, cutoff: i64) -> bool {
        self.edges[edge as usize].weight.sum.saturating_abs() < cutoff
    }

    /// Removes nodes from a call tree; their callees are then called by their callers.
    fn cut_out(&mut self, is_kept: &[bool], budget: &Budget) -> Result<()> {
        let mut pace = budget.pace();
        let shown = std::mem::take(&mut self.shown);
        for id in shown.iter().copied().filter(|id| !is_kept[*id as usize]) {
            let above = self.node(id).incoming.first().copied();
            let below = std::mem::take(&mut self.nodes[id as usize].outgoing);
            let Some(above) = above else {
                for edge in below {
                    let target = self.edges[edge as usize].target;
                    self.nodes[target as usize].incoming.clear();
                }
                continue;
            };
            let (parent, inlined) = (self.edges[above as usize].source, self.edges[above as usize].inlined);
            let outgoing = &mut self.nodes[parent as usize].outgoing;
            pace.steps(outgoing.len())?;
            outgoing.retain(|edge| *edge != above);
            for edge in below {
                outgoing.push(edge);
                let edge = &mut self.edges[edge as usize];
                edge.source = parent;
                edge.residual = true;
                edge.inlined &= inlined;
            }
        }
        self.shown = shown.into_iter().filter(|id| is_kept[*id as usize]).collect();
        Ok(())
    }

    /// Removes redundant residual edges: those no heavier than the lightest real call of their target, whose source
    /// reaches it another way too. The lightest go first.
    fn remove_redundant_edges(&mut self, budget: &Budget) -> Result<()> {
        let mut search = Search { stamps: vec![0; self.nodes.len()], stamp: 0, queue: Vec::new() };
        for index in (0..self.shown.len()).rev() {
            let id = self.shown[index];
            for edge in self.sorted(&self.node(id).incoming).into_iter().rev() {
                if !self.edges[edge as usize].residual {
                    break;
                }
                budget.go_on()?;
                if search.finds_another_way(self, edge) {
                    let source = self.edges[edge as usize].source;
                    self.nodes[id as usize].incoming.retain(|one| *one != edge);
                    self.nodes[source as usize].outgoing.retain(|one| *one != edge);
                }
            }
        }
        Ok(())
    }
}

/// A walk against the calls.
struct Search {
    stamps: Vec<u32>,
    stamp: u32,
    queue: Vec<u32>,
}

impl Search {
    fn finds_another_way(&mut self, graph: &Graph<'_>, without: u32) -> bool {
        let edge = &graph.edges[without as usize];
        self.stamp += 1;
        self.stamps[edge.target as usize] = self.stamp;
        self.queue.clear();
        self.queue.push(edge.target);
        while let Some(id) = self.queue.pop() {
            for one in graph.node(id).incoming.iter().copied().filter(|one| *one != without) {
                let caller = graph.edges[one as usize].source;
                if caller == edge.source && self.stamps[caller as usize] != self.stamp {
                    return true;
                }
                if self.stamps[caller as usize] != self.stamp {
                    self.stamps[caller as usize] = self.stamp;
                    self.queue.push(caller);
                }
            }
        }
        false
    }
}
