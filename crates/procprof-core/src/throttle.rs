//! A bound on how often the same thing is logged: the first at once, the rest counted.

use std::fmt;
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
}
