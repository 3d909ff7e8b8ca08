//! Switching for a time: what was switched goes back by itself.
//!
//! A thread, `procprof-heap`, exists only while something is to go back.

use crate::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Sets the switch.
type Apply = Box<dyn Fn(bool) -> Result<()> + Send>;

/// The change that is due when the time is over.
#[derive(Clone, Copy, Debug)]
struct Back {
    at: Instant,
    until: SystemTime,
    /// The state from before.
    active: bool,
}

#[derive(Debug, Default)]
struct State {
    back: Option<Back>,
    has_thread: bool,
}

/// A switch with a memory of where to go back to.
#[derive(Debug, Default)]
pub(crate) struct TimedSwitch {
    state: Mutex<State>,
    changed: Condvar,
}

impl TimedSwitch {
    /// Switches to `active`, for good or for a time; a time that is running ends with it. `was` is the state now; where
    /// a time is running, the state to go back to stays that from before it.
    pub(crate) fn set(self: &Arc<Self>, active: bool, was: bool, length: Option<Duration>, apply: Apply) -> Result<()> {
        let mut state = self.lock();
        apply(active)?;
        let before = state.back.map_or(was, |back| back.active);
        state.back = length.filter(|_| before != active).map(|length| {
            let (at, until) = (Instant::now() + length, SystemTime::now() + length);
            Back { at, until, active: before }
        });
        if state.back.is_some() && !state.has_thread {
            let switch = Arc::clone(self);
            let thread = crate::aside::spawn("procprof-heap", move || switch.run(&apply));
            if let Err(source) = thread {
                state.back = None;
                return Err(Error::System { what: "start the thread that switches back", source });
            }
            state.has_thread = true;
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// When it goes back, if it does.
    pub(crate) fn until(&self) -> Option<SystemTime> {
        self.lock().back.map(|back| back.until)
    }

    /// Goes back now.
    pub(crate) fn end(&self) {
        if let Some(back) = &mut self.lock().back {
            back.at = Instant::now();
        }
        self.changed.notify_all();
    }

    fn run(&self, apply: &Apply) {
        let mut state = self.lock();
        while let Some(back) = state.back {
            let left = back.at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.back = None;
                // Switching succeeded before, so it can be undone; a refusal has no caller to be reported to, and the
                // status shows it.
                let _ = apply(back.active);
            } else {
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        state.has_thread = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn it_goes_back_to_where_it_was_before_the_first_time() {
        let switch = Arc::new(TimedSwitch::default());
        let light = Arc::new(AtomicBool::new(false));
        let apply = || -> Apply {
            let light = light.clone();
            Box::new(move |active| {
                light.store(active, Ordering::SeqCst);
                Ok(())
            })
        };
        let is = |active| {
            let end = Instant::now() + Duration::from_secs(300);
            while light.load(Ordering::SeqCst) != active {
                assert!(Instant::now() < end);
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let hour = Some(Duration::from_secs(3600));
        switch.set(true, false, hour, apply()).unwrap();
        assert!(light.load(Ordering::SeqCst) && switch.until().is_some());
        switch.set(true, true, Some(Duration::from_millis(20)), apply()).unwrap();
        is(false);
        switch.set(true, false, hour, apply()).unwrap();
        switch.end();
        is(false);
        switch.set(true, false, hour, apply()).unwrap();
        switch.set(true, true, None, apply()).unwrap();
        assert!(switch.until().is_none(), "for good");
        switch.set(true, true, hour, apply()).unwrap();
        assert!(switch.until().is_none(), "it was on before");
    }
}
