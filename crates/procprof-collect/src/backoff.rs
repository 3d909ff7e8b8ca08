//! When to try again after failures: 2 minutes, doubling to 15, until a success. A pure state machine; the caller waits and logs.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(120);
const LONGEST: Duration = Duration::from_secs(900);

/// The failures in a row of one node and profile type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

/// What an outcome changed. Log [`Transition::Entering`] and [`Transition::Leaving`], and nothing in between.
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

    /// Counts a failure.
    pub fn failed(&mut self) -> Transition {
        self.failures = self.failures.saturating_add(1);
        let doubled = FIRST.saturating_mul(1 << (self.failures - 1).min(8));
        let delay = doubled.min(LONGEST);
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
    fn doubles_to_the_longest_and_tells_each_turn_once() {
        let mut backoff = Backoff::new();
        assert_eq!(backoff.succeeded(), Transition::None);
        assert_eq!(backoff.failed(), Transition::Entering(Duration::from_secs(120)));
        let delays: Vec<u64> = (0..5).filter_map(|_| backoff.failed().delay()).map(|delay| delay.as_secs()).collect();
        assert_eq!(delays, [240, 480, 900, 900, 900]);
        assert_eq!(backoff.succeeded(), Transition::Leaving(6));
        assert_eq!(backoff.succeeded(), Transition::None);
        for _ in 0..100 {
            assert!(backoff.failed().delay().unwrap() <= LONGEST);
        }
    }
}
