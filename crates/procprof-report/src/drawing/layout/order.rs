//! The order within the layers, so that few edges cross.
//!
//! Sweeps down and up put each vertex at the median or the mean of its neighbours in the layer before; then neighbours
//! in a layer are exchanged as long as that removes crossings. This is done from several starting orders, as often as
//! the size of the graph allows, and the best order of all is kept.

use std::collections::VecDeque;

use super::crossings::{Counter, of_two, positions};
use super::layers::Layers;
use crate::{Budget, Result};

/// Vertices and neighbours that all sweeps together may visit, about as many as take a quarter of a second.
const EFFORT: usize = 40_000_000;
/// Sweeps without a better order after which a starting order is abandoned.
const PATIENCE: usize = 8;
/// Most starting orders.
const BEGINNINGS: usize = 48;

/// Sets the order of all layers.
///
/// # Errors
/// [`crate::Error::Stopped`].
pub(super) fn order(layers: &mut Layers, budget: &Budget) -> Result<()> {
    let mut best: Option<(u64, Vec<Vec<u32>>)> = None;
    let mut search = Search::new(layers);
    for beginning in 0..BEGINNINGS {
        search.begin(beginning);
        let mut own = search.crossings();
        search.keep_if_better(&mut best, own);
        let mut idle = 0;
        for sweep in 0.. {
            if own == 0 || idle == PATIENCE || search.effort >= EFFORT {
                break;
            }
            budget.go_on()?;
            search.sweep(sweep + beginning);
            let crossings = search.crossings();
            idle = if crossings < own { 0 } else { idle + 1 };
            own = own.min(crossings);
            search.keep_if_better(&mut best, crossings);
        }
        if search.effort >= EFFORT || best.as_ref().is_some_and(|(crossings, _)| *crossings == 0) {
            break;
        }
    }
    if let Some((_, order)) = best {
        layers.order = order;
    }
    Ok(())
}

struct Search<'l> {
    layers: &'l mut Layers,
    positions: Vec<u32>,
    counter: Counter,
    keys: Vec<Option<f64>>,
    ends: Ends,
    seed: u64,
    /// Vertices and neighbours visited so far.
    effort: usize,
}

/// A traversal of the graph.
#[derive(Clone, Copy)]
struct Walk {
    is_down: bool,
    /// Depth first; else breadth first.
    is_deep: bool,
    is_random: bool,
}

/// Sorted positions of the neighbours of one layer's vertices.
#[derive(Default)]
struct Ends {
    all: Vec<u32>,
    /// By position in the layer: the start of those above, and of those below.
    starts: Vec<(usize, usize)>,
}

impl Ends {
    fn above(&self, slot: usize) -> &[u32] {
        &self.all[self.starts[slot].0..self.starts[slot].1]
    }

    fn below(&self, slot: usize) -> &[u32] {
        &self.all[self.starts[slot].1..self.starts[slot + 1].0]
    }

    /// The number of neighbours of a vertex.
    fn count(&self, slot: usize) -> usize {
        self.starts[slot + 1].0 - self.starts[slot].0
    }
}

impl Search<'_> {
    fn new(layers: &mut Layers) -> Search<'_> {
        let keys = vec![None; layers.vertices.len()];
        Search {
            layers,
            positions: Vec::new(),
            counter: Counter::default(),
            keys,
            ends: Ends::default(),
            seed: 0x9e37_79b9_7f4a_7c15,
            effort: 0,
        }
    }

    fn crossings(&mut self) -> u64 {
        self.effort += self.layers.segments.len();
        self.counter.all(self.layers, &self.positions)
    }

    fn keep_if_better(&self, best: &mut Option<(u64, Vec<Vec<u32>>)>, crossings: u64) {
        if best.as_ref().is_none_or(|(least, _)| crossings < *least) {
            *best = Some((crossings, self.layers.order.clone()));
        }
    }

    /// The first starting orders are four traversals of the graph; the others are the first one randomized.
    fn begin(&mut self, number: usize) {
        let count = self.layers.vertices.len();
        let mut starts: Vec<u32> = (0..count as u32).collect();
        if number >= 4 {
            self.shuffle(&mut starts);
        }
        let walk = Walk { is_down: number.is_multiple_of(2), is_deep: number % 4 < 2, is_random: number >= 4 };
        let visited = self.walk(&starts, walk);
        for layer in &mut self.layers.order {
            layer.clear();
        }
        for vertex in visited {
            self.layers.order[self.layers.vertices[vertex as usize].layer].push(vertex);
        }
        self.positions = positions(self.layers);
    }

    /// All vertices in the order of a walk from those that nothing leads to.
    fn walk(&mut self, starts: &[u32], walk: Walk) -> Vec<u32> {
        let mut seen = vec![false; starts.len()];
        let mut visited = Vec::with_capacity(starts.len());
        let mut waiting = VecDeque::new();
        for start in starts {
            let before = if walk.is_down { &self.layers.above } else { &self.layers.below };
            if before[*start as usize].is_empty() {
                waiting.push_back(*start);
            }
            while let Some(vertex) = if walk.is_deep { waiting.pop_back() } else { waiting.pop_front() } {
                if !std::mem::replace(&mut seen[vertex as usize], true) {
                    visited.push(vertex);
                    waiting.extend(self.next(vertex, walk));
                }
            }
        }
        visited
    }

    /// The neighbours of a vertex in the order in which they are pushed.
    fn next(&mut self, vertex: u32, walk: Walk) -> Vec<u32> {
        let lists = if walk.is_down { &self.layers.below } else { &self.layers.above };
        let mut next = lists[vertex as usize].clone();
        if walk.is_random {
            self.shuffle(&mut next);
        }
        if walk.is_deep {
            // The vertex pushed last is visited first.
            next.reverse();
        }
        next
    }

    fn shuffle(&mut self, vertices: &mut [u32]) {
        for index in (1..vertices.len()).rev() {
            let other = self.random(index + 1);
            vertices.swap(index, other);
        }
    }

    /// A number below `below`, the same in every run.
    fn random(&mut self, below: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 33) as usize % below
    }

    fn sweep(&mut self, number: usize) {
        let count = self.layers.order.len();
        let downwards = number.is_multiple_of(2);
        let (by_mean, flips) = ((number / 4) % 2 == 1, (number / 2) % 2 == 1);
        for step in 1..count {
            let layer = if downwards { step } else { count - 1 - step };
            self.sort(layer, downwards, by_mean, flips);
            self.exchange(layer);
        }
        for step in 0..count {
            self.exchange(if downwards { count - 1 - step } else { step });
        }
    }

    /// Orders a layer by that above it (below, if upwards). Vertices without neighbours there stay where they are.
    fn sort(&mut self, layer: usize, downwards: bool, by_mean: bool, flips: bool) {
        let mut order = std::mem::take(&mut self.layers.order[layer]);
        let mut ends = Vec::new();
        for vertex in &order {
            let neighbours = if downwards { &self.layers.above } else { &self.layers.below };
            ends.clear();
            ends.extend(neighbours[*vertex as usize].iter().map(|other| self.positions[*other as usize]));
            ends.sort_unstable();
            self.effort += 1 + ends.len();
            self.keys[*vertex as usize] = if by_mean { mean(&ends) } else { median(&ends) };
        }
        let mut moving: Vec<u32> =
            order.iter().copied().filter(|vertex| self.keys[*vertex as usize].is_some()).collect();
        if flips {
            moving.reverse();
        }
        let key = |vertex: &u32| self.keys[*vertex as usize].unwrap_or(0.0);
        moving.sort_by(|a, b| key(a).total_cmp(&key(b)));
        let mut moving = moving.into_iter();
        for slot in &mut order {
            if self.keys[*slot as usize].is_some() {
                *slot = moving.next().unwrap_or(*slot);
            }
        }
        for (position, vertex) in order.iter().enumerate() {
            self.positions[*vertex as usize] = position as u32;
        }
        self.layers.order[layer] = order;
    }

    /// Exchanges neighbours of a layer as long as that removes crossings.
    fn exchange(&mut self, layer: usize) {
        let mut order = std::mem::take(&mut self.layers.order[layer]);
        self.find_ends(&order);
        self.effort += order.len() + self.ends.all.len();
        let mut slots: Vec<usize> = (0..order.len()).collect();
        let mut is_settled = vec![false; order.len()];
        loop {
            let mut is_better = false;
            for index in 1..order.len() {
                if std::mem::replace(&mut is_settled[index], true) {
                    continue;
                }
                let (left, right) = (slots[index - 1], slots[index]);
                self.effort += self.ends.count(left) + self.ends.count(right);
                let above = of_two(self.ends.above(left), self.ends.above(right));
                let below = of_two(self.ends.below(left), self.ends.below(right));
                if above.1 + below.1 < above.0 + below.0 {
                    order.swap(index - 1, index);
                    slots.swap(index - 1, index);
                    is_settled[index - 1] = false;
                    if index + 1 < order.len() {
                        is_settled[index + 1] = false;
                    }
                    is_better = true;
                }
            }
            if !is_better || self.effort >= EFFORT {
                break;
            }
        }
        for (position, vertex) in order.iter().enumerate() {
            self.positions[*vertex as usize] = position as u32;
        }
        self.layers.order[layer] = order;
    }

    fn find_ends(&mut self, order: &[u32]) {
        let Ends { all, starts } = &mut self.ends;
        all.clear();
        starts.clear();
        for vertex in order {
            let start = all.len();
            all.extend(self.layers.above[*vertex as usize].iter().map(|other| self.positions[*other as usize]));
            all[start..].sort_unstable();
            let middle = all.len();
            all.extend(self.layers.below[*vertex as usize].iter().map(|other| self.positions[*other as usize]));
            all[middle..].sort_unstable();
            starts.push((start, middle));
        }
        starts.push((all.len(), all.len()));
    }
}

fn mean(ends: &[u32]) -> Option<f64> {
    let sum: f64 = ends.iter().map(|end| f64::from(*end)).sum();
    (!ends.is_empty()).then(|| sum / ends.len() as f64)
}

/// The median; between two, nearer to the side where the others are closer together.
fn median(ends: &[u32]) -> Option<f64> {
    let middle = ends.len() / 2;
    let at = |index: usize| f64::from(ends[index]);
    match ends.len() {
        0 => None,
        2 => Some((at(0) + at(1)) / 2.0),
        count if count % 2 == 1 => Some(at(middle)),
        count => {
            let (left, right) = (at(middle - 1) - at(0), at(count - 1) - at(middle));
            let spread = left + right;
            Some(if spread == 0.0 {
                (at(middle - 1) + at(middle)) / 2.0
            } else {
                (at(middle - 1) * right + at(middle) * left) / spread
            })
        }
    }
}
