//! Which waits are sampled: all while they are few, else those that contain a sampling point on a scale of time.
//!
//! All waits are laid end to end on one scale, which is divided into equal parts; each part has one point, at a random
//! place in it. A wait is sampled if it contains points, and represents as many parts: long waits nearly always, short
//! ones seldom. So each nanosecond of waiting has the same chance, and all samples together represent the time waited,
//! to within one part. A part is 0 ns long, which samples everything, as long as there are fewer than
//! [`SAMPLES_A_TICK`] waits a tick; its length is recomputed each tick, and doubled in between when the tick's share is
//! used up.

use std::sync::atomic::{AtomicU64, Ordering};

/// How long a tick is, milliseconds.
pub(super) const TICK_MILLIS: u64 = 100;

/// Samples that each kind may cost a tick: 1,000 a second, as brpc allows itself.
const SAMPLES_A_TICK: u64 = 100;

/// Waits.
pub(super) static WAITS: Budget = Budget::new();

/// Locks that were let go while others waited.
pub(super) static HOLDS: Budget = Budget::new();

/// Decides for one kind of samples.
pub(super) struct Budget {
    /// Nanoseconds of a part; 0 when all are sampled.
    part: AtomicU64,
    /// The end of the scale so far, in parts and 2^-32 of them.
    scale: AtomicU64,
    /// Events since the tick, and how many of them were sampled.
    events: AtomicU64,
    nanos: AtomicU64,
    samples: AtomicU64,
}

impl Budget {
    const fn new() -> Self {
        Self {
            part: AtomicU64::new(0),
            scale: AtomicU64::new(0),
            events: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            samples: AtomicU64::new(0),
        }
    }

    /// The number of events of that length that this one represents; `None` if it is not sampled.
    pub(super) fn draw(&self, nanos: u64) -> Option<f64> {
        let events = self.events.fetch_add(1, Ordering::Relaxed) + 1;
        let all_nanos = self.nanos.fetch_add(nanos, Ordering::Relaxed).saturating_add(nanos);
        let part = self.part.load(Ordering::Relaxed);
        let weight = if part == 0 { 1.0 } else { self.points(nanos, part) as f64 * part as f64 / nanos.max(1) as f64 };
        if weight == 0.0 {
            return None;
        }
        let samples = self.samples.fetch_add(1, Ordering::Relaxed) + 1;
        if samples.is_multiple_of(SAMPLES_A_TICK) {
            self.part.fetch_max((2 * part).max(all_nanos / events), Ordering::Relaxed);
        }
        Some(weight)
    }

    /// Lays an event on the scale; the points in it.
    fn points(&self, nanos: u64, part: u64) -> u64 {
        let length = ((u128::from(nanos) << 32) / u128::from(part)).min(u128::from(u64::MAX >> 1)) as u64;
        let start = self.scale.fetch_add(length, Ordering::Relaxed);
        points_before(start.wrapping_add(length)).wrapping_sub(points_before(start)) & (u64::MAX >> 32)
    }

    /// A tick is over: sets the length of parts by what happened in it.
    pub(super) fn tick(&self) {
        let (events, nanos) = (self.events.swap(0, Ordering::Relaxed), self.nanos.swap(0, Ordering::Relaxed));
        self.samples.store(0, Ordering::Relaxed);
        self.part.store(if events <= SAMPLES_A_TICK { 0 } else { nanos / SAMPLES_A_TICK }, Ordering::Relaxed);
    }
}

/// Points before a place on the scale: one in each part before, and that of its own part if it lies before it.
fn points_before(place: u64) -> u64 {
    let (part, within) = (place >> 32, place & (u64::MAX >> 32));
    part + u64::from(random(part) >> 32 < within)
}

/// SplitMix64.
fn random(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_events_are_all_sampled() {
        let budget = Budget::new();
        for _ in 0..10 {
            (0..SAMPLES_A_TICK - 1).for_each(|index| assert_eq!(budget.draw(index), Some(1.0)));
            budget.tick();
        }
    }

    /// A million waits a second, most of them short: the samples stay within the budget, and their weighted sums match
    /// the true ones.
    #[test]
    fn many_events_are_sampled_within_the_budget_and_their_sums_are_kept() {
        let budget = Budget::new();
        let (mut samples, mut exact, mut estimate, mut counted) = (0, [0.0; 2], [0.0; 2], 0.0);
        let (ticks, events) = (100, 20_000);
        for _ in 0..ticks {
            for index in 0..events {
                let is_long = index % 1000 == 0;
                let nanos = if is_long { 3_000_000 } else { 2_000 + index % 7 * 100 };
                exact[usize::from(is_long)] += nanos as f64;
                if let Some(weight) = budget.draw(nanos) {
                    samples += 1;
                    estimate[usize::from(is_long)] += nanos as f64 * weight;
                    counted += weight;
                }
            }
            budget.tick();
        }
        assert!(samples < ticks * 4 * SAMPLES_A_TICK, "{samples}");
        for (estimate, exact, tolerance) in [
            (estimate[0], exact[0], 0.05),
            (estimate[1], exact[1], 0.05),
            (estimate[0] + estimate[1], exact[0] + exact[1], 0.002),
        ] {
            assert!((estimate / exact - 1.0).abs() < tolerance, "{estimate} of {exact}");
        }
        let all = (ticks * events) as f64;
        assert!((counted / all - 1.0).abs() < 0.1, "{counted} of {all}");
    }
}
