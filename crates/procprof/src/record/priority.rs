//! The priority of the thread that records.
//!
//! Beside many runnable threads a recorder of their priority waits for a second each time that it has slept: its buffers
//! overflow meanwhile, and neither the end of the duration nor a signal is seen.

/// Nice value of the thread while it records, which takes CAP_SYS_NICE or RLIMIT_NICE.
const NICE: i32 = -20;

/// The priority of the calling thread, raised until this is dropped, where that is permitted.
pub(super) struct Priority {
    /// The nice value before, if it was changed.
    before: Option<i32>,
}

impl Priority {
    /// Raises the priority of the calling thread; a thread that it starts has the same.
    pub(super) fn raise() -> Self {
        let before = rustix::process::getpriority_process(None).ok();
        Self { before: before.filter(|_| set(NICE)) }
    }

    /// Calls a function at the priority of before, for what it starts.
    pub(super) fn without<T>(&self, function: impl FnOnce() -> T) -> T {
        let Some(before) = self.before else { return function() };
        set(before);
        let result = function();
        set(NICE);
        result
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        // A priority may always be lowered.
        self.before.map(set);
    }
}

fn set(nice: i32) -> bool {
    rustix::process::setpriority_process(None, nice).is_ok()
}
