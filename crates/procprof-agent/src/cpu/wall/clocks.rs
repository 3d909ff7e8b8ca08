//! How a thread's time divides into computing and waiting, by the kernel's own account.
//!
//! ```text
//! /proc/self/task/TID/schedstat   123456789 2345678 90      ran, waited for a processor (nanoseconds), times
//! /proc/self/task/TID/status      State:  S (sleeping)
//!                                 voluntary_ctxt_switches:        70
//!                                 nonvoluntary_ctxt_switches:     20
//! ```

use std::fs;

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On a processor, or ready to run where it was interrupted.
    Computing,
    /// Asleep.
    Waiting,
}

/// A thread's clocks at one moment; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clocks {
    /// Wall time since some moment, nanoseconds.
    pub(super) wall: u64,
    /// CPU time, nanoseconds.
    pub(super) cpu: u64,
    /// Time it was ready to run and had no processor, nanoseconds; 0 where the kernel doesn't tell.
    delay: u64,
    /// Times it went to sleep, and times it had to leave its processor.
    slept: u64,
    preempted: u64,
}

impl Clocks {
    /// Reads what `/proc` tells of a thread, and where the thread is; `None` when it has ended.
    pub(super) fn read(tid: i32, wall: u64, cpu: u64) -> Option<(Self, Place)> {
        let status = fs::read(format!("/proc/self/task/{tid}/status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let scheduled = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap_or_default();
        Some(Self::parse(&status, &scheduled, wall, cpu))
    }

    fn parse(status: &str, scheduled: &str, wall: u64, cpu: u64) -> (Self, Place) {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim);
        let number = |name: &str| field(name).parse().unwrap_or_default();
        let delay = scheduled.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
        let place = if field("State:").starts_with('R') { Place::Computing } else { Place::Waiting };
        let (slept, preempted) = (number("voluntary_ctxt_switches:"), number("nonvoluntary_ctxt_switches:"));
        (Self { wall, cpu, delay, slept, preempted }, place)
    }

    /// Wall time since `before`, divided into computing and waiting.
    ///
    /// A thread that had to leave its processor is computing until it has one again; one that slept is waiting until it runs. The kernel
    /// tells both delays as one sum, which is divided by how often each occurred.
    pub(super) fn since(&self, before: &Self) -> (u64, u64) {
        let past = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        let (wall, delay) = (past(|clocks| clocks.wall), past(|clocks| clocks.delay));
        let (slept, preempted) = (past(|clocks| clocks.slept), past(|clocks| clocks.preempted));
        let of_computing = if slept + preempted == 0 { delay } else { scaled(delay, preempted, slept + preempted) };
        let computing = past(|clocks| clocks.cpu).saturating_add(of_computing).min(wall);
        (computing, wall - computing)
    }
}

/// `value * part / whole`.
fn scaled(value: u64, part: u64, whole: u64) -> u64 {
    (u128::from(value) * u128::from(part) / u128::from(whole.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_understood() {
        let status = "Name:\tworker\nState:\tR (running)\nvoluntary_ctxt_switches:\t70\nnonvoluntary_ctxt_switches:\t20\n";
        let clocks = Clocks { wall: 5, cpu: 4, delay: 2345, slept: 70, preempted: 20 };
        assert_eq!(Clocks::parse(status, "123456 2345 90\n", 5, 4), (clocks, Place::Computing));
        let little = Clocks { wall: 5, cpu: 4, ..Clocks::default() };
        assert_eq!(Clocks::parse("State:\tS (sleeping)\n", "", 5, 4), (little, Place::Waiting));
    }

    #[test]
    fn delays_belong_to_what_they_delay() {
        let clocks = |wall, cpu, delay, slept, preempted| Clocks { wall, cpu, delay, slept, preempted };
        let before = clocks(1000, 100, 50, 5, 5);
        for (now, computing) in [
            (clocks(1100, 130, 50, 6, 5), 30),
            (clocks(1100, 130, 70, 5, 5), 50),
            (clocks(1100, 130, 70, 6, 8), 45),
            (clocks(1100, 130, 70, 7, 5), 30),
            (clocks(1100, 190, 90, 5, 7), 100),
            (before, 0),
        ] {
            assert_eq!(now.since(&before), (computing, now.wall - 1000 - computing), "{now:?}");
        }
    }

    #[test]
    fn this_thread_computes_and_a_sleeping_one_waits() {
        // SAFETY: takes no argument and can't fail.
        let own = unsafe { libc::gettid() };
        assert_eq!(Clocks::read(own, 0, 0).unwrap().1, Place::Computing);
        assert!(Clocks::read(i32::MAX, 0, 0).is_none());
    }
}
