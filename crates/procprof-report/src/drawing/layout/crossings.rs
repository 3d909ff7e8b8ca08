//! Counting crossings between neighbouring layers.

use super::layers::Layers;

/// Positions of all vertices in their layers.
pub(super) fn positions(layers: &Layers) -> Vec<u32> {
    let mut positions = vec![0; layers.vertices.len()];
    for layer in &layers.order {
        for (position, vertex) in layer.iter().enumerate() {
            positions[*vertex as usize] = position as u32;
        }
    }
    positions
}

/// Counts in whole layers, with reused buffers.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// Sums of a binary indexed tree over the lower layer.
    sums: Vec<u32>,
    ends: Vec<u32>,
}

impl Counter {
    /// Crossings in the whole drawing.
    pub(super) fn all(&mut self, layers: &Layers, positions: &[u32]) -> u64 {
        (1..layers.order.len()).map(|layer| self.below(layers, positions, layer - 1)).sum()
    }

    /// Crossings between a layer and the next.
    fn below(&mut self, layers: &Layers, positions: &[u32], layer: usize) -> u64 {
        self.sums.clear();
        self.sums.resize(layers.order[layer + 1].len() + 1, 0);
        let (mut crossings, mut before) = (0, 0);
        for vertex in &layers.order[layer] {
            self.ends.clear();
            self.ends.extend(layers.below[*vertex as usize].iter().map(|lower| positions[*lower as usize]));
            // Pieces from one vertex do not cross each other, so they are counted before they are added.
            for end in &self.ends {
                crossings += u64::from(before - upto(&self.sums, *end));
            }
            for end in &self.ends {
                add(&mut self.sums, *end);
            }
            before += self.ends.len() as u32;
        }
        crossings
    }
}

fn add(sums: &mut [u32], position: u32) {
    let mut index = position as usize + 1;
    while index < sums.len() {
        sums[index] += 1;
        index += index & index.wrapping_neg();
    }
}

fn upto(sums: &[u32], position: u32) -> u32 {
    let mut index = position as usize + 1;
    let mut sum = 0;
    while index > 0 {
        sum += sums[index];
        index -= index & index.wrapping_neg();
    }
    sum
}

/// The number of crossings between the pieces of a left vertex and those of a right one, and the number with the two
/// exchanged; by the sorted positions of their ends.
pub(super) fn of_two(left: &[u32], right: &[u32]) -> (u32, u32) {
    let (mut crossings, mut exchanged) = (0, 0);
    let (mut less, mut not_more) = (0, 0);
    for end in left {
        while less < right.len() && right[less] < *end {
            less += 1;
        }
        not_more = not_more.max(less);
        while not_more < right.len() && right[not_more] == *end {
            not_more += 1;
        }
        crossings += less as u32;
        exchanged += (right.len() - not_more) as u32;
    }
    (crossings, exchanged)
}
