//! The rate of samples, so that the agent keeps within its share of a CPU.

use std::time::Duration;

/// CPU time of the kernel for a sample with a copy of the stack: 16 to 24 microseconds, measured on Linux 6.18 in a
/// virtual machine.
pub(super) const KERNEL_NANOS_OF_SAMPLE: u64 = 20_000;
/// Part of the limit that is aimed at.
const AIM: f64 = 0.8;
/// Part of the limit below which the rate may rise.
const LOW: f64 = 0.6;

/// Chooses the rate.
#[derive(Clone, Debug)]
pub(super) struct Governor {
    /// The rate that is asked for.
    pub(super) wanted: u32,
    /// The rate now.
    pub(super) hz: u32,
    milli_max: u64,
}

impl Governor {
    pub(super) fn new(wanted: u32, milli_max: u64) -> Self {
        Self { wanted, hz: wanted, milli_max }
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
        self.hz = self.hz.min(self.wanted);
        self.hz
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
