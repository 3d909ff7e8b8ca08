//! When to try again after failures: after 5 seconds, doubling to the interval of the schedule. A pure state machine;
//! the caller waits and logs.
//!
//! So a process that was restarted has its profiles again within seconds, and one that was away for long within an
//! interval of its return.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(5);

/// The failures in a row of one node and profile type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

/// The change by an outcome. Log [`Transition::Entering`] and [`Transition::Leaving`], and nothing in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// All was well and is.
    None,
    /// The first failure; try again after this.
    Entering(Duration),
    /// One more failure; try again after this.
    Within(Duration),
    /// The first success after so many failures.
    Leaving(u32),
}

impl Backoff {
    /// The state before the first attempt.
    pub fn new() -> Backoff {
        Backoff::default()
    }

    /// Counts a failure of what is collected once in `interval`; the delay is never longer than that.
    pub fn failed(&mut self, interval: Duration) -> Transition {
        self.failures = self.failures.saturating_add(1);
        let doubled = FIRST.saturating_mul(1 << (self.failures - 1).min(20));
        let delay = doubled.min(interval);
        if self.failures == 1 { Transition::Entering(delay) } else { Transition::Within(delay) }
    }

    /// Counts a success, which ends the waiting.
    pub fn succeeded(&mut self) -> Transition {
        match std::mem::take(&mut self.failures) {
            0 => Transition::None,
            failures => Transition::Leaving(failures),
        }
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

impl Transition {
    /// How long to wait before the next attempt, after a failure.
    pub fn delay(self) -> Option<Duration> {
        match self {
            Transition::Entering(delay) | Transition::Within(delay) => Some(delay),
            Transition::None | Transition::Leaving(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_the_interval_and_reports_each_turn_once() {
        let minute = Duration::from_secs(60);
        let mut backoff = Backoff::new();
        assert_eq!(backoff.succeeded(), Transition::None);
        assert_eq!(backoff.failed(minute), Transition::Entering(Duration::from_secs(5)));
        let delays: Vec<u64> =
            (0..6).filter_map(|_| backoff.failed(minute).delay()).map(|delay| delay.as_secs()).collect();
        assert_eq!(delays, [10, 20, 40, 60, 60, 60]);
        assert_eq!(backoff.succeeded(), Transition::Leaving(7));
        assert_eq!(backoff.succeeded(), Transition::None);
        assert_eq!(
            backoff.failed(Duration::from_secs(2)).delay(),
            Some(Duration::from_secs(2)),
            "never longer than the interval"
        );
        for _ in 0..100 {
            assert!(backoff.failed(minute).delay().unwrap() <= minute);
        }
    }
}
