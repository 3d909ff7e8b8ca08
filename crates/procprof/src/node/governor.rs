//! The rate of samples, so that the agent keeps within its share of a CPU. Costs that the rate does not change lower it to
//! 10 samples a second at most.

use std::time::Duration;

/// CPU time of the kernel for a sample with a copy of the stack: 16 to 24 microseconds, measured on Linux 6.18 in a
/// virtual machine.
pub(super) const KERNEL_NANOS_OF_SAMPLE: u64 = 20_000;
/// Part of the limit that is aimed at.
const AIM: f64 = 0.8;
/// Part of the limit below which the rate may rise.
const LOW: f64 = 0.6;

/// The rate below which nothing but the cost of samples themselves lowers it.
pub(super) const LOWEST_FOR_OTHER_COSTS: u32 = 10;

/// Intervals with enough memory after which the rate may rise.
const QUIET_INTERVALS: u32 = 10;

/// The cost of an interval, in thousandths of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CostMilli {
    /// CPU time of the agent and of the kernel for its samples, in proportion to the rate.
    pub(super) samples: f64,
    /// All other CPU time of the agent: for opening files, making unwind tables, looking at processes, sending.
    pub(super) fixed: f64,
}

impl CostMilli {
    /// The cost of an interval in which the agent used so much CPU time, `sampling` of it for its samples, and took so
    /// many of them.
    pub(super) fn new(used: Duration, sampling: Duration, samples: u64, elapsed: Duration) -> Self {
        let sampling = sampling.min(used);
        let kernel = Duration::from_nanos(samples.saturating_mul(KERNEL_NANOS_OF_SAMPLE));
        let milli = |time: Duration| 1000.0 * time.as_secs_f64() / elapsed.as_secs_f64().max(0.001);
        Self { samples: milli(sampling + kernel), fixed: milli(used.saturating_sub(sampling)) }
    }

    /// Both together.
    pub(super) fn total(self) -> f64 {
        self.samples + self.fixed
    }
}

/// Chooses the rate.
#[derive(Clone, Debug)]
pub(super) struct Governor {
    /// The rate that is asked for.
    pub(super) wanted: u32,
    /// The rate now.
    pub(super) hz: u32,
    milli_max: u64,
    /// The highest rate, while the memory that more samples take is not there, and for how many intervals it was.
    ceiling: Option<(u32, u32)>,
}

impl Governor {
    pub(super) fn new(wanted: u32, milli_max: u64) -> Self {
        Self { wanted, hz: wanted, milli_max, ceiling: None }
    }

    /// The rate from now on, after an interval at this cost.
    pub(super) fn next(&mut self, cost: CostMilli) -> u32 {
        let limit = self.milli_max as f64;
        let aimed = |limit: f64| f64::from(self.hz) * AIM * limit.max(0.0) / cost.samples.max(0.001);
        let (alone, beside_others) = (aimed(limit), aimed(limit - cost.fixed));
        if cost.total() > limit {
            // Fewer samples do not lower the other costs.
            let least = f64::from(self.lowest()).min(alone);
            self.hz = (beside_others.max(least) as u32).clamp(1, self.hz.max(self.lowest()));
        } else if cost.total() < LOW * limit && self.hz < self.wanted {
            let most = (self.hz * 2).min(self.wanted);
            self.hz = (beside_others as u32).clamp((self.hz + 1).min(most), most);
        }
        let highest = self.ceiling.map_or(self.wanted, |(hz, _)| hz.min(self.wanted));
        self.hz = self.hz.min(highest);
        self.hz
    }

    /// The rate that is kept whatever else costs.
    fn lowest(&self) -> u32 {
        LOWEST_FOR_OTHER_COSTS.min(self.wanted)
    }

    /// Notes whether the agent uses more memory than it may: the highest rate falls, and rises again a while after.
    pub(super) fn note_memory(&mut self, is_above: bool) {
        self.ceiling = match self.ceiling {
            _ if is_above => Some(((self.hz / 2).max(self.lowest()), 0)),
            Some((hz, quiet)) if quiet + 1 < QUIET_INTERVALS => Some((hz, quiet + 1)),
            Some((hz, _)) if hz * 2 < self.wanted => Some((hz * 2, 0)),
            _ => None,
        };
    }

    /// Asks for another rate.
    pub(super) fn want(&mut self, hz: u32) -> u32 {
        self.wanted = hz;
        self.hz = hz;
        hz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_samples(samples: f64) -> CostMilli {
        CostMilli { samples, fixed: 0.0 }
    }

    #[test]
    fn the_rate_falls_where_the_limit_is_passed_and_rises_again() {
        let mut governor = Governor::new(99, 10);
        let mut next = |cost: f64| governor.next(of_samples(cost));
        assert_eq!([next(9.0), next(20.0), next(8.0), next(4.0), next(5.0)], [99, 39, 39, 78, 99]);
        assert_eq!([next(100_000.0), next(100_000.0), next(0.0)], [1, 1, 2]);
        assert_eq!(governor.want(49), 49);
        let millis = Duration::from_millis;
        let cost = CostMilli::new(millis(300), millis(240), 6000, Duration::from_secs(60));
        assert!((cost.samples - 6.0).abs() < 0.01 && (cost.fixed - 1.0).abs() < 0.01, "{cost:?}");
    }

    #[test]
    fn the_rate_falls_where_memory_is_short_and_rises_later() {
        let mut governor = Governor::new(80, 10);
        let mut after = |is_above| {
            governor.note_memory(is_above);
            governor.next(of_samples(0.1))
        };
        assert_eq!([after(true), after(true)], [40, 20]);
        let rates: Vec<u32> = (0..21).map(|_| after(false)).collect();
        let expected = [[20; 9].as_slice(), &[40; 10], &[80; 2]].concat();
        assert_eq!(rates, expected);
        assert_eq!((0..20).map(|_| after(true)).last(), Some(LOWEST_FOR_OTHER_COSTS));
    }

    #[test]
    fn costs_that_do_not_depend_on_the_rate_are_not_divided_by_it() {
        // A sample a second costs 0.1; files that are opened cost as much at any rate.
        for (fixed, expected) in [(0.0, 19), (5.0, 19), (9.0, 10), (100.0, 10), (100_000.0, 10)] {
            let mut governor = Governor::new(19, 10);
            let cost = |hz: u32| CostMilli { samples: 0.1 * f64::from(hz), fixed };
            let rates: Vec<u32> = (0..40).map(|_| governor.next(cost(governor.hz))).collect();
            assert_eq!(rates.last(), Some(&expected), "{fixed}: {rates:?}");
        }
        // Samples that cost more than the limit lower the rate further.
        let mut governor = Governor::new(99, 10);
        let rates: Vec<u32> =
            (0..40).map(|_| governor.next(CostMilli { samples: 2.0 * f64::from(governor.hz), fixed: 50.0 })).collect();
        assert_eq!(rates.last(), Some(&4), "{rates:?}");
        let mut governor = Governor::new(5, 10);
        assert_eq!(governor.next(CostMilli { samples: 0.5, fixed: 50.0 }), 5, "less is wanted");
    }

    #[test]
    fn a_cost_in_proportion_to_the_rate_settles_below_the_limit() {
        for cost_of_hz in [0.01, 0.1, 0.5, 1.0, 3.0] {
            let mut governor = Governor::new(997, 10);
            let rates: Vec<u32> =
                (0..40).map(|_| governor.next(of_samples(cost_of_hz * f64::from(governor.hz)))).collect();
            let settled = &rates[20..];
            assert!(settled.iter().all(|hz| cost_of_hz * f64::from(*hz) <= 10.0), "{cost_of_hz}: {rates:?}");
            assert!(
                settled.iter().all(|hz| *hz == 997 || cost_of_hz * f64::from(*hz) > 5.0),
                "{cost_of_hz}: {rates:?}"
            );
        }
    }
}
