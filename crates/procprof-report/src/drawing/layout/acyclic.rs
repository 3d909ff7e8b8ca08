//! Chooses the edges that are reversed so that the graph has no cycles.

use super::Graph;

/// For each edge, whether it is reversed: it closes a cycle when all nodes are walked from the roots, heavier edges
/// first. Edges from a node to itself are not reversed; they are not part of the layers.
pub(super) fn turned(graph: &Graph) -> Vec<bool> {
    let count = graph.nodes.len();
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut has_caller = vec![false; count];
    for (index, edge) in graph.edges.iter().enumerate().filter(|(_, edge)| edge.from != edge.to) {
        leaving[edge.from].push(index);
        has_caller[edge.to] = true;
    }
    let mut walk = Walk { graph, leaving, states: vec![State::New; count], turned: vec![false; graph.edges.len()] };
    let roots = (0..count).filter(|node| !has_caller[*node]);
    for start in roots.chain(0..count) {
        walk.from(start);
    }
    walk.turned
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// On the current path.
    Open,
    Done,
}

struct Walk<'g> {
    graph: &'g Graph,
    leaving: Vec<Vec<usize>>,
    states: Vec<State>,
    turned: Vec<bool>,
}

impl Walk<'_> {
    fn from(&mut self, start: usize) {
        if self.states[start] != State::New {
            return;
        }
        self.states[start] = State::Open;
        // Nodes of the path, and the number of their edges that were walked.
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(edge) = self.leaving[*node].get(*next).copied() else {
                self.states[*node] = State::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let to = self.graph.edges[edge].to;
            match self.states[to] {
                State::New => {
                    self.states[to] = State::Open;
                    path.push((to, 0));
                }
                State::Open => self.turned[edge] = true,
                State::Done => {}
            }
        }
    }
}
