//! The orders of nodes and edges.

use std::cmp::{Ordering, Reverse};

use super::{Graph, Node};

/// The order of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Flat,
    Cum,
    /// The significance of a node in a picture: its weight, and how much its calls fork.
    Picture,
}

impl Graph<'_> {
    /// Orders the nodes shown.
    pub(super) fn sort(&mut self, order: Order) {
        let mut shown = std::mem::take(&mut self.shown);
        let score = |id: &u32| match order {
            Order::Flat => self.node(*id).flat.sum,
            Order::Cum => self.node(*id).cum.sum,
            Order::Picture => self.score(*id),
        };
        let then_by = |id: &u32| if order == Order::Flat { self.node(*id).cum.sum } else { self.node(*id).flat.sum };
        let mut scored: Vec<(u64, u32)> = shown.iter().map(|id| (score(id).unsigned_abs(), *id)).collect();
        scored.sort_by(|(score_a, a), (score_b, b)| {
            let (node_a, node_b) = (self.node(*a), self.node(*b));
            let then = || then_by(b).unsigned_abs().cmp(&then_by(a).unsigned_abs());
            let names = node_a.name.cmp(&node_b.name);
            score_b
                .cmp(score_a)
                .then(names)
                .then_with(then)
                .then_with(|| node_a.tie().cmp(&node_b.tie()))
                .then(a.cmp(b))
        });
        shown.clear();
        shown.extend(scored.iter().map(|(_, id)| *id));
        self.shown = shown;
    }

    /// Edges with the heaviest first, then by the names of caller and callee.
    pub(crate) fn sorted(&self, edges: &[u32]) -> Vec<u32> {
        let mut sorted = edges.to_vec();
        sorted.sort_by(|a, b| self.compare_edges(*a, *b));
        sorted
    }

    fn compare_edges(&self, a: u32, b: u32) -> Ordering {
        let (one, two) = (&self.edges[a as usize], &self.edges[b as usize]);
        let name = |id: u32| &*self.node(id).name;
        let size = |weight: i64| Reverse(weight.unsigned_abs());
        size(one.weight.sum)
            .cmp(&size(two.weight.sum))
            .then_with(|| name(one.source).cmp(name(two.source)))
            .then_with(|| name(one.target).cmp(name(two.target)))
            .then_with(|| self.node(one.source).tie().cmp(&self.node(two.source).tie()))
            .then_with(|| self.node(one.target).tie().cmp(&self.node(two.target).tie()))
            .then(a.cmp(&b))
    }

    /// The weight of a node times how much its calls fork: a node that only passes the weight of a single caller to a
    /// single callee scores nothing.
    fn score(&self, id: u32) -> i64 {
        let node = self.node(id);
        let callers = if node.incoming.is_empty() { 1.0 } else { self.entropy(&node.incoming, 0) };
        let callees = if node.outgoing.is_empty() { 1.0 } else { self.entropy(&node.outgoing, node.flat.sum) };
        (((0.0 + callers + callees) * node.cum.sum as f64) as i64).wrapping_add(node.flat.sum)
    }

    fn entropy(&self, edges: &[u32], own: i64) -> f64 {
        let weights: Vec<i64> = self.sorted(edges).iter().map(|edge| self.edges[*edge as usize].weight.sum).collect();
        let total = weights.iter().filter(|weight| **weight > 0).fold(own, |sum, weight| sum.saturating_add(*weight));
        if total == 0 {
            return 0.0;
        }
        let part = |weight: i64| {
            if weight == 0 {
                return 0.0;
            }
            let share = weight.saturating_abs() as f64 / total as f64;
            -share * log2(share)
        };
        let calls: f64 = weights.iter().map(|weight| part(*weight)).sum();
        if own > 0 { calls + part(own) } else { calls }
    }
}

impl Node<'_> {
    /// Breaks ties between nodes that print alike.
    fn tie(&self) -> String {
        let place = &self.place;
        let line = place.line;
        format!(
            "{}  {} {} {} {line} {} {}",
            place.name, place.address, place.file, place.start_line, place.column, place.mapping
        )
    }
}

/// The logarithm as Go computes it, so that scores near a whole number fall to the same side.
fn log2(value: f64) -> f64 {
    if !value.is_normal() {
        return value.log2();
    }
    let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1022;
    let fraction = f64::from_bits((value.to_bits() & !(0x7ff << 52)) | (1022 << 52));
    if fraction == 0.5 {
        return f64::from(exponent - 1);
    }
    fraction.ln() * (1.0 / std::f64::consts::LN_2) + f64::from(exponent)
}
