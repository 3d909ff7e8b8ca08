//! How a thread's time divides into computing and waiting, by the kernel's own account.
//!
//! ```text
//! /proc/self/task/TID/schedstat   123456789 2345678 90      ran, was ready and had no processor (nanoseconds), times
//! /proc/self/task/TID/stat        4711 (worker) S 1 …       S: its state
//! ```
//!
//! A thread that is ready to run counts as computing: one that had to leave its processor, and one that was woken and
//! has none yet. The kernel reports both as one sum, and both lack a processor.

use std::fs;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On a processor, or ready to run.
    Computing,
    /// Asleep.
    Waiting,
}

/// A thread's clocks at one moment, nanoseconds; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clocks {
    /// Wall time since some moment.
    pub(super) wall: u64,
    /// CPU time.
    pub(super) cpu: u64,
    /// Time it was ready and had no processor, counted when it gets one; 0 where the kernel doesn't report it.
    ready: u64,
}

impl Clocks {
    /// Reads a thread's files in `/proc`, and where the thread is; `None` when it has ended.
    pub(super) fn read(tid: i32, wall: u64, cpu: u64) -> Option<(Self, Place)> {
        let state = fs::read(format!("/proc/self/task/{tid}/stat")).ok()?;
        let scheduled = fs::read(format!("/proc/self/task/{tid}/schedstat")).unwrap_or_default();
        Some((Self { wall, cpu, ready: ready(&scheduled) }, place(&state)))
    }

    /// Wall time since `before`, divided into computing and waiting. What was computed and does not fit, because it was
    /// counted late, is left in `late` and comes first in the next division.
    pub(super) fn since(&self, before: &Self, late: &mut u64) -> (u64, u64) {
        let past = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        let wall = past(|clocks| clocks.wall);
        let all = past(|clocks| clocks.cpu).saturating_add(past(|clocks| clocks.ready)).saturating_add(*late);
        let computing = all.min(wall);
        *late = all - computing;
        (computing, wall - computing)
    }
}

/// The second number.
fn ready(scheduled: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(scheduled);
    text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// By the letter after the name, which is in parentheses and may contain some itself.
fn place(state: &[u8]) -> Place {
    let name_end = state.iter().rposition(|byte| *byte == b')').unwrap_or(0);
    if state.get(name_end + 2) == Some(&b'R') { Place::Computing } else { Place::Waiting }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_states_of_the_kernel_are_parsed() {
        assert_eq!([ready(b"123456 2345 90\n"), ready(b""), ready(b"1")], [2345, 0, 0]);
        assert_eq!(place(b"4711 (worker) R 1 2"), Place::Computing);
        assert_eq!(place(b"4711 (a) R (b)) S 1 2"), Place::Waiting);
        assert_eq!(place(b""), Place::Waiting);
    }

    #[test]
    fn what_is_counted_late_is_made_up_for() {
        let clocks = |wall, cpu, ready| Clocks { wall, cpu, ready };
        let (start, mut late) = (clocks(1000, 100, 50), 0);
        let queued = clocks(1100, 130, 50);
        assert_eq!(queued.since(&start, &mut late), (30, 70));
        let running = clocks(1200, 190, 120);
        assert_eq!((running.since(&queued, &mut late), late), ((100, 0), 30));
        let asleep = clocks(1300, 190, 120);
        assert_eq!((asleep.since(&running, &mut late), late), ((30, 70), 0));
    }

    #[test]
    fn this_thread_computes() {
        // SAFETY: takes no argument and can't fail.
        let own = unsafe { libc::gettid() };
        assert_eq!(Clocks::read(own, 0, 0).unwrap().1, Place::Computing);
        assert!(Clocks::read(i32::MAX, 0, 0).is_none());
    }
}
