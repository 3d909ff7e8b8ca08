//! The layer of each node: edges are at least as long as required, and otherwise as short as possible, heavy ones
//! first.

use super::Graph;
use super::simplex::Problem;
use crate::{Budget, Result};

/// Nodes and edges that may be visited; beyond, each node is placed as far up as possible.
const EFFORT: usize = 100_000_000;

/// A layer for each node, from 0; `turned` edges go up.
///
/// # Errors
/// [`crate::Error::Stopped`].
pub(super) fn ranks(graph: &Graph, turned: &[bool], budget: &Budget) -> Result<Vec<usize>> {
    let mut problem = Problem::new(graph.nodes.len());
    for (edge, turned) in graph.edges.iter().zip(turned).filter(|(edge, _)| edge.from != edge.to) {
        let (upper, lower) = if *turned { (edge.to, edge.from) } else { (edge.from, edge.to) };
        problem.keep_apart(upper as u32, lower as u32, edge.length_min.max(1));
        problem.pull_together(upper as u32, lower as u32, edge.weight.max(1));
    }
    let found = problem.solve(EFFORT, budget)?.unwrap_or_else(|| longest_paths(graph, turned));
    Ok(from_the_top(graph, &found))
}

/// Moves each connected part so that it begins in the first layer.
fn from_the_top(graph: &Graph, found: &[i64]) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..graph.nodes.len()).collect();
    for edge in &graph.edges {
        let (a, b) = (part(&mut parts, edge.from), part(&mut parts, edge.to));
        parts[a.max(b)] = a.min(b);
    }
    let mut tops = vec![i64::MAX; graph.nodes.len()];
    for (node, rank) in found.iter().enumerate() {
        let part = part(&mut parts, node);
        tops[part] = tops[part].min(*rank);
    }
    let rank = |(node, rank): (usize, &i64)| usize::try_from(rank - tops[part(&mut parts, node)]).unwrap_or(0);
    found.iter().enumerate().map(rank).collect()
}

/// The first node of the part that a node belongs to.
fn part(parts: &mut [usize], mut node: usize) -> usize {
    while parts[node] != node {
        parts[node] = parts[parts[node]];
        node = parts[node];
    }
    node
}

/// Each node as far down as the longest path to it.
fn longest_paths(graph: &Graph, turned: &[bool]) -> Vec<i64> {
    let mut leaving: Vec<Vec<(usize, i64)>> = vec![Vec::new(); graph.nodes.len()];
    let mut waiting = vec![0usize; graph.nodes.len()];
    for (edge, turned) in graph.edges.iter().zip(turned).filter(|(edge, _)| edge.from != edge.to) {
        let (upper, lower) = if *turned { (edge.to, edge.from) } else { (edge.from, edge.to) };
        leaving[upper].push((lower, edge.length_min.max(1)));
        waiting[lower] += 1;
    }
    let mut ranks = vec![0; graph.nodes.len()];
    let mut ready: Vec<usize> = (0..graph.nodes.len()).filter(|node| waiting[*node] == 0).collect();
    while let Some(node) = ready.pop() {
        for (lower, length) in &leaving[node] {
            ranks[*lower] = ranks[*lower].max(ranks[node] + length);
            waiting[*lower] -= 1;
            if waiting[*lower] == 0 {
                ready.push(*lower);
            }
        }
    }
    ranks
}
