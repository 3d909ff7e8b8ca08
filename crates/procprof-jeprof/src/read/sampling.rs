//! Estimates from samples.

use super::line::Counts;
use crate::HeapIndex;

/// The conversion of sampled counts to estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sampling {
    Exact,
    /// The older rule, with the mean distance of samples in bytes.
    Linear(f64),
    /// With the rate in bytes.
    Poisson(f64),
}

impl Sampling {
    pub(super) fn estimate(self, counts: Counts, index: HeapIndex) -> f64 {
        let [objects, bytes, allocated_objects, allocated_bytes] = counts;
        match index {
            HeapIndex::InuseObjects => objects * self.factor(objects, bytes),
            HeapIndex::InuseSpace => bytes * self.factor(objects, bytes),
            HeapIndex::AllocObjects => allocated_objects * self.factor(allocated_objects, allocated_bytes),
            HeapIndex::AllocSpace => allocated_bytes * self.factor(allocated_objects, allocated_bytes),
        }
    }

    fn factor(self, objects: f64, bytes: f64) -> f64 {
        if objects == 0.0 || bytes == 0.0 {
            return 1.0;
        }
        match self {
            Sampling::Exact => 1.0,
            Sampling::Poisson(rate) => 1.0 / (1.0 - (-(bytes / objects / rate)).exp()),
            Sampling::Linear(distance) => 1.0 / (bytes / objects / distance).min(1.0),
        }
    }
}
