//! Which waits are sampled: all while they are few, else those that a point of a random scale of time falls into.
//!
//! Each nanosecond of waiting is a sampling point with probability 1/rate, and a wait with a point in it is sampled: one of `d` nanoseconds with
//! probability `1 - exp(-d / rate)`, so long waits nearly always and short ones seldom. A sample says its rate and stands for `1 / probability`
//! waits: sums over samples are right on average whatever the rate was when, and hardly scatter where time is what counts. The rate is 0, which
//! samples everything, as long as there are fewer than [`SAMPLES_A_TICK`] waits a tick; it is set anew each tick, and doubled in between when the
//! tick's share is used up.

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
    /// Mean nanoseconds between sampling points; 0 when all are sampled.
    rate: AtomicU64,
    /// What happened since the tick, and how much of it was sampled.
    events: AtomicU64,
    nanos: AtomicU64,
    samples: AtomicU64,
}

impl Budget {
    const fn new() -> Self {
        Self { rate: AtomicU64::new(0), events: AtomicU64::new(0), nanos: AtomicU64::new(0), samples: AtomicU64::new(0) }
    }

    /// The rate at which an event of that length is sampled; `None` if it is not.
    pub(super) fn draw(&self, nanos: u64) -> Option<u64> {
        self.decide(nanos, random(nanos))
    }

    fn decide(&self, nanos: u64, random: u64) -> Option<u64> {
        let events = self.events.fetch_add(1, Ordering::Relaxed) + 1;
        let all_nanos = self.nanos.fetch_add(nanos, Ordering::Relaxed).saturating_add(nanos);
        let rate = self.rate.load(Ordering::Relaxed);
        // 53 random bits as a number in [0, 1).
        let uniform = (random >> 11) as f64 / (1_u64 << 53) as f64;
        if uniform >= probability(nanos, rate) {
            return None;
        }
        let samples = self.samples.fetch_add(1, Ordering::Relaxed) + 1;
        if samples.is_multiple_of(SAMPLES_A_TICK) {
            self.rate.fetch_max((2 * rate).max(all_nanos / events), Ordering::Relaxed);
        }
        Some(rate)
    }

    /// A tick is over: sets the rate by what happened in it.
    pub(super) fn tick(&self) {
        let (events, nanos) = (self.events.swap(0, Ordering::Relaxed), self.nanos.swap(0, Ordering::Relaxed));
        self.samples.store(0, Ordering::Relaxed);
        self.rate.store(if events <= SAMPLES_A_TICK { 0 } else { nanos / SAMPLES_A_TICK }, Ordering::Relaxed);
    }
}

/// The probability that an event of that length is sampled at a rate.
pub(super) fn probability(nanos: u64, rate: u64) -> f64 {
    if rate == 0 { 1.0 } else { -(-(nanos.max(1) as f64) / rate as f64).exp_m1() }
}

/// SplitMix64 of a counter that each call moves by what nobody chooses.
fn random(nanos: u64) -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let mut mixed = STATE.fetch_add(0x9e37_79b9_7f4a_7c15 ^ nanos << 1, Ordering::Relaxed);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_events_are_all_sampled() {
        let budget = Budget::new();
        for _ in 0..10 {
            (0..SAMPLES_A_TICK - 1).for_each(|index| assert_eq!(budget.draw(index), Some(0)));
            budget.tick();
        }
    }

    /// A million waits a second, most of them short: the samples stay within the budget, and what they stand for is what happened.
    #[test]
    fn many_events_are_sampled_within_the_budget_and_their_sums_are_kept() {
        let budget = Budget::new();
        let (mut samples, mut exact, mut estimate, mut counted) = (0, 0.0, 0.0, 0.0);
        let (ticks, events) = (100, 20_000);
        for _ in 0..ticks {
            for index in 0..events {
                let nanos = if index % 1000 == 0 { 3_000_000 } else { 2_000 + index % 7 * 100 };
                exact += nanos as f64;
                if let Some(rate) = budget.draw(nanos) {
                    samples += 1;
                    estimate += nanos as f64 / probability(nanos, rate);
                    counted += 1.0 / probability(nanos, rate);
                }
            }
            budget.tick();
        }
        assert!(samples < ticks * 4 * SAMPLES_A_TICK, "{samples}");
        assert!((estimate / exact - 1.0).abs() < 0.02, "{estimate} of {exact}");
        let all = (ticks * events) as f64;
        assert!((counted / all - 1.0).abs() < 0.1, "{counted} of {all}");
    }
}
