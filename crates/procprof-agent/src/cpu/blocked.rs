//! Threads that block SIGPROF: no sample of theirs arrives, and their CPU time has a reason of its own.
//!
//! ```text
//! /proc/self/task/TID/status   SigBlk: fffffffe7ffbfeff     bit N - 1 for signal N
//! ```
//!
//! Libraries start threads with all signals blocked so that none of the program's handlers runs there (`lzma`'s coder
//! threads, a server's background threads). Such a mask may be set and cleared at any time. So it is read when a thread
//! has used CPU time without a sample, a period at least, and from then on as long as it is found blocking: what the
//! thread has used since its last sample counts as time for which the signal was blocked.
//!
//! All signals wait while our own handler runs, too, and on a busy machine the processor may be taken away amid it. So
//! a thread that is found blocking for the first time is looked at again when it has used a further period, in which
//! the sample would have arrived.

use super::sampler::{Thread, thread_name};
use std::collections::HashMap;
use std::fs;

/// Threads whose masks are read at one tick: those that have used the most without a sample. The others' time is
/// carried to the next ticks.
const LOOKS: usize = 64;

/// A thread's CPU time without samples, on its own clock; nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    /// Since its last sample, or since its mask was read.
    since: u64,
    found: Found,
}

/// The result of the last look at a thread's mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Found {
    #[default]
    Open,
    /// The signal was found blocked at CPU time `at`, by the thread or by our handler.
    Suspect {
        at: u64,
    },
    Blocking,
}

impl Silence {
    /// Of a thread that is followed from CPU time `cpu` on.
    pub(crate) fn from(cpu: u64) -> Self {
        Self { since: cpu, found: Found::Open }
    }

    /// A sample has arrived that was taken at CPU time `cpu`.
    pub(crate) fn broken(&mut self, cpu: u64) {
        self.since = self.since.max(cpu);
        if self.found != Found::Blocking {
            self.found = Found::Open;
        }
    }

    /// CPU time for which the mask is the likely reason that there is no sample; `None` where no look is due.
    fn length(&self, cpu: u64, period: u64) -> Option<u64> {
        let due = match self.found {
            Found::Open => self.since + period,
            Found::Suspect { at } => at + period,
            Found::Blocking => self.since + 1,
        };
        Some(cpu.saturating_sub(self.since)).filter(|_| cpu >= due)
    }

    /// Notes what a look has found; returns the CPU time for which the signal was blocked, where that is known now.
    fn looked(&mut self, cpu: u64, is_blocking: bool) -> u64 {
        if is_blocking && self.found == Found::Open {
            self.found = Found::Suspect { at: cpu };
            return 0;
        }
        let length = cpu.saturating_sub(self.since);
        *self = Self { since: self.since.max(cpu), found: if is_blocking { Found::Blocking } else { Found::Open } };
        if is_blocking { length } else { 0 }
    }
}

/// Reads the masks of armed threads that use CPU time without samples, `period` nanoseconds apart at most where all is
/// well, and accounts that time.
pub(crate) fn look(threads: &mut HashMap<i32, Thread>, period: u64) {
    let silent = |(tid, thread): (&i32, &Thread)| {
        let length = thread.silence.length(thread.view.cpu, period).filter(|_| thread.sampled.is_some())?;
        Some((length, *tid))
    };
    let mut silent: Vec<(u64, i32)> = threads.iter().filter_map(silent).collect();
    silent.sort_unstable_by(|a, b| b.cmp(a));
    for (_, tid) in silent.into_iter().take(LOOKS) {
        let Some(thread) = threads.get_mut(&tid) else { continue };
        // One that has ended keeps what was found before.
        let Some(is_blocking) = blocks_sigprof(tid) else { continue };
        if is_blocking {
            // Names are often given after birth; of others they are read with their samples.
            thread.view.name = thread_name(tid).unwrap_or_else(|| thread.view.name.clone());
        }
        thread.view.blocked += thread.silence.looked(thread.view.cpu, is_blocking);
    }
}

/// Whether a thread of this process blocks SIGPROF now; `None` for one that has ended.
pub(crate) fn blocks_sigprof(tid: i32) -> Option<bool> {
    fs::read(format!("/proc/self/task/{tid}/status")).ok().map(|text| parse(&text))
}

fn parse(status: &[u8]) -> bool {
    const BIT: u64 = 1 << (libc::SIGPROF - 1);
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"SigBlk:"));
    let mask = line.and_then(|rest| u64::from_str_radix(str::from_utf8(rest).ok()?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & BIT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bit_of_sigprof_is_found_among_those_of_other_signals() {
        let cases: [(&[u8], bool); 6] = [
            (b"Name:\txz\nSigBlk:\tfffffffe7ffbfeff\nSigIgn:\t0000000000000000\n", true),
            (b"SigPnd:\t0000000004000000\nSigBlk:\t0000000000000000\n", false),
            (b"SigBlk:\t0000000004000000\n", true),
            (b"SigBlk:\tfffffffffbffffff\n", false),
            (b"SigBlk:\tnothing\n", false),
            (b"", false),
        ];
        for (status, expected) in cases {
            assert_eq!(parse(status), expected, "{}", String::from_utf8_lossy(status));
        }
    }

    #[test]
    fn a_thread_is_looked_at_after_a_period_and_always_while_it_blocks() {
        let mut silence = Silence::from(100);
        assert_eq!((silence.length(109, 10), silence.length(110, 10)), (None, Some(10)));
        assert_eq!(silence.looked(115, true), 0, "it may be in our handler");
        assert_eq!((silence.length(124, 10), silence.length(125, 10)), (None, Some(25)));
        assert_eq!(silence.looked(125, true), 25, "since it was followed");
        assert_eq!((silence.length(125, 10), silence.length(126, 10)), (None, Some(1)));
        silence.broken(130);
        assert_eq!(silence.looked(140, false), 0, "it takes signals again");
        assert_eq!((silence.length(149, 10), silence.looked(150, true)), (None, 0));
        silence.broken(151);
        assert_eq!((silence.length(160, 10), silence.looked(161, true)), (None, 0), "it was in our handler");
        assert_eq!(silence.looked(171, true), 20);
    }

    #[test]
    fn a_mask_is_seen_while_it_is_set() {
        let own = crate::aside::own_tid();
        assert_eq!((blocks_sigprof(own), blocks_sigprof(i32::MAX)), (Some(false), None));
        // SAFETY: all-zero is a valid `sigset_t` to be filled; the mask is this thread's, which the test ends with.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut()), 0);
        }
        assert_eq!(blocks_sigprof(own), Some(true));
    }
}
