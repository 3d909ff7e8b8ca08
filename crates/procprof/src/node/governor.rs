//! The rate of samples, so that the agent keeps within its share of a CPU.

use std::time::Duration;

/// CPU time of the kernel for a sample with a copy of the stack: 16 to 24 microseconds, measured on Linux 6.18 in a
/// virtual machine.
pub(super) const KERNEL_NANOS_OF_SAMPLE: u64 = 20_000;
/// Part of the limit that is aimed at.
const AIM: f64 = 0.8;
/// Part of the limit below which the rate may rise.
const LOW: f64 = 0.6;

/// Intervals with enough memory after which the rate may rise.
const QUIET_INTERVALS: u32 = 10;

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

    /// CPU time of the agent and of the kernel for its samples, in thousandths of a CPU.
    pub(super) fn cost_milli(used: Duration, samples: u64, elapsed: Duration) -> f64 {
        let kernel = Duration::from_nanos(samples.saturating_mul(KERNEL_NANOS_OF_SAMPLE));
        1000.0 * (used + kernel).as_secs_f64() / elapsed.as_secs_f64().max(0.001)
    }

    /// The rate from now on, after an interval at this cost.
    pub(super) fn next(&mut self, cost_milli: f64) -> u32 {
        let limit = self.milli_max as f64;
        let aimed = f64::from(self.hz) * AIM * limit / cost_milli.max(0.001);
        if cost_milli > limit {
            self.hz = (aimed as u32).clamp(1, self.hz);
        } else if cost_milli < LOW * limit && self.hz < self.wanted {
            let most = (self.hz * 2).min(self.wanted);
            self.hz = (aimed as u32).clamp((self.hz + 1).min(most), most);
        }
        let highest = self.ceiling.map_or(self.wanted, |(hz, _)| hz.min(self.wanted));
        self.hz = self.hz.min(highest);
        self.hz
    }

    /// Notes whether the agent uses more memory than it may: the highest rate falls, and rises again a while after.
    pub(super) fn note_memory(&mut self, is_above: bool) {
        self.ceiling = match self.ceiling {
            _ if is_above => Some(((self.hz / 2).max(1), 0)),
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

    #[test]
    fn the_rate_falls_where_the_limit_is_passed_and_rises_again() {
        let mut governor = Governor::new(99, 10);
        assert_eq!(governor.next(9.0), 99);
        assert_eq!(governor.next(20.0), 39);
        assert_eq!(governor.next(8.0), 39);
        assert_eq!(governor.next(4.0), 78);
        assert_eq!(governor.next(5.0), 99);
        assert_eq!(governor.next(100_000.0), 1);
        assert_eq!(governor.next(100_000.0), 1);
        assert_eq!(governor.next(0.0), 2);
        assert_eq!(governor.want(49), 49);
        let cost = Governor::cost_milli(Duration::from_millis(300), 6000, Duration::from_secs(60));
        assert!((cost - 7.0).abs() < 0.01, "{cost}");
    }

    #[test]
    fn the_rate_falls_where_memory_is_short_and_rises_later() {
        let mut governor = Governor::new(80, 10);
        let mut after = |is_above| {
            governor.note_memory(is_above);
            governor.next(0.1)
        };
        assert_eq!([after(true), after(true)], [40, 20]);
        let rates: Vec<u32> = (0..21).map(|_| after(false)).collect();
        let expected = [[20; 9].as_slice(), &[40; 10], &[80; 2]].concat();
        assert_eq!(rates, expected);
        assert_eq!((0..20).map(|_| after(true)).last(), Some(1));
    }

    #[test]
    fn a_cost_in_proportion_to_the_rate_settles_below_the_limit() {
        for cost_of_hz in [0.01, 0.1, 0.5, 1.0, 3.0] {
            let mut governor = Governor::new(997, 10);
            let rates: Vec<u32> = (0..40).map(|_| governor.next(cost_of_hz * f64::from(governor.hz))).collect();
            let settled = &rates[20..];
            assert!(settled.iter().all(|hz| cost_of_hz * f64::from(*hz) <= 10.0), "{cost_of_hz}: {rates:?}");
            assert!(
                settled.iter().all(|hz| *hz == 997 || cost_of_hz * f64::from(*hz) > 5.0),
                "{cost_of_hz}: {rates:?}"
            );
        }
    }
}
