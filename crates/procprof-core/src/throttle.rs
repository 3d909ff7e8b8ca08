//! A bound on how often the same thing is logged: the first at once, the rest counted.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lets so many lines through in a window of time.
pub struct Throttle {
    lines: u32,
    window: Duration,
    state: Mutex<State>,
}

struct State {
    began: Instant,
    passed: u32,
    held: u64,
}

/// The number of lines that were not written since the last one; shown behind the next, nothing for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held(u64);

impl Throttle {
    /// So many lines in any window that begins with a line.
    pub fn new(lines: u32, window: Duration) -> Throttle {
        Throttle { lines, window, state: Mutex::new(State { began: Instant::now(), passed: 0, held: 0 }) }
    }

    /// Whether a line may be written now; the next one contains the number of those that were not.
    pub fn pass(&self) -> Option<Held> {
        self.pass_at(Instant::now())
    }

    /// Counts lines that were not written elsewhere.
    fn hold(&self, lines: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).held += lines;
    }

    fn pass_at(&self, now: Instant) -> Option<Held> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(state.began) >= self.window || state.passed == 0 {
            (state.began, state.passed) = (now, 0);
        }
        if state.passed >= self.lines {
            state.held += 1;
            return None;
        }
        state.passed += 1;
        Some(Held(std::mem::take(&mut state.held)))
    }
}

/// Requesters whose lines are counted apart; beyond it they are forgotten together.
const REQUESTERS_MAX: usize = 10_000;

/// A throttle of which one requester has a quarter of the lines.
pub struct SharedThrottle<K> {
    all: Throttle,
    own_lines: u32,
    own: Mutex<HashMap<K, Throttle>>,
}

impl<K: Clone + Eq + Hash> SharedThrottle<K> {
    /// So many lines of all requesters in any window that begins with a line.
    pub fn new(lines: u32, window: Duration) -> SharedThrottle<K> {
        SharedThrottle { all: Throttle::new(lines, window), own_lines: lines.div_ceil(4), own: Mutex::default() }
    }

    /// Whether a line of a requester may be written now. The next one of that requester contains the number of its
    /// lines that were not; where lines of others are the reason, the next one of all does.
    pub fn pass(&self, requester: &K) -> Option<Held> {
        self.pass_at(requester, Instant::now())
    }

    fn pass_at(&self, requester: &K, now: Instant) -> Option<Held> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if own.len() >= REQUESTERS_MAX && !own.contains_key(requester) {
            own.clear();
        }
        let throttle = own.entry(requester.clone()).or_insert_with(|| Throttle::new(self.own_lines, self.all.window));
        let Held(own_held) = throttle.pass_at(now)?;
        let Some(Held(held)) = self.all.pass_at(now) else {
            self.all.hold(own_held);
            return None;
        };
        Some(Held(own_held + held))
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            held => write!(f, " ({held} more like it were not logged)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_counted_and_reported_with_the_next() {
        let throttle = Throttle::new(2, Duration::from_secs(60));
        let now = Instant::now();
        let at = |seconds| throttle.pass_at(now + Duration::from_secs(seconds)).map(|held| held.to_string());
        assert_eq!((at(0), at(1)), (Some(String::new()), Some(String::new())));
        assert_eq!((at(2), at(3), at(59)), (None, None, None));
        assert_eq!(at(61).as_deref(), Some(" (3 more like it were not logged)"));
        assert_eq!(at(62).as_deref(), Some(""));
    }

    #[test]
    fn one_requester_has_a_quarter_of_the_lines() {
        let throttle = SharedThrottle::new(8, Duration::from_secs(60));
        let now = Instant::now();
        let at = |requester, seconds| {
            throttle.pass_at(&requester, now + Duration::from_secs(seconds)).map(|held| held.to_string())
        };
        let passed = |requester| (0..100).filter(|_| at(requester, 0).is_some()).count();
        assert_eq!(["a", "b", "c", "d", "e"].map(passed), [2, 2, 2, 2, 0]);
        assert_eq!(at("a", 61).as_deref(), Some(" (100 more like it were not logged)"));
        assert_eq!(at("b", 62).as_deref(), Some(" (98 more like it were not logged)"));
    }
}
