//! The life of a thread that has armed itself when it started, as recorded in its slot.
//!
//! The thread and the sampler both go from stage to stage by one exchange of a word, which also holds the slot's
//! generation: updates for a former thread have no effect any more.
//!
//! ```text
//! sampler: none -> offered                             followed -> none, ended -> none
//! thread:          offered -> starting -> live                   live, followed -> ending -> ended, or offered again
//! sampler:                                live -> followed
//! ```

use super::timer::{self, NO_TIMER, Timer};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a thread is waited for that has begun to arm itself or to end, which takes it a few system calls.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// The stage of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The sampler's.
    None,
    /// For the next thread that is born.
    Offered,
    /// A thread is arming itself.
    Starting,
    /// A thread has armed itself.
    Live,
    /// The sampler follows it.
    Followed,
    /// The thread is removing its timer.
    Ending,
    /// The thread is done with the slot, and has left its final values in it.
    Ended,
}

const STAGES: [Stage; 7] =
    [Stage::None, Stage::Offered, Stage::Starting, Stage::Live, Stage::Followed, Stage::Ending, Stage::Ended];

const STAGE_BITS: u32 = 8;

/// A slot's part in it.
#[derive(Debug)]
pub(crate) struct Life {
    /// Generation and stage.
    word: AtomicU64,
    timer: AtomicI32,
    /// Looks of the sampler's at which it was live.
    looks: AtomicU32,
    /// The thread's CPU clock at its end, nanoseconds.
    cpu: AtomicU64,
    /// Its name then, as the kernel writes it.
    name: [AtomicU64; 2],
}

impl Life {
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            timer: AtomicI32::new(NO_TIMER),
            looks: AtomicU32::new(0),
            cpu: AtomicU64::new(0),
            name: [const { AtomicU64::new(0) }; 2],
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        let word = self.word.load(Ordering::SeqCst);
        STAGES.get((word & ((1 << STAGE_BITS) - 1)) as usize).copied().unwrap_or(Stage::None)
    }

    /// Whether the thread has armed itself and is not followed yet. Async-signal-safe.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.stage(), Stage::Starting | Stage::Live | Stage::Ending)
    }

    /// Goes from one stage to another; false where it is elsewhere. Async-signal-safe.
    pub(crate) fn step(&self, generation: u32, from: Stage, to: Stage) -> bool {
        self.word
            .compare_exchange(word(generation, from), word(generation, to), Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Begins a stage, by the only one who may.
    pub(crate) fn begin(&self, generation: u32, stage: Stage) {
        self.word.store(word(generation, stage), Ordering::SeqCst);
    }

    /// Keeps the timer that the thread has made.
    pub(crate) fn keep_timer(&self, timer: Timer) {
        self.looks.store(0, Ordering::SeqCst);
        self.timer.store(timer.into_id(), Ordering::SeqCst);
    }

    /// Counts a look at it; how many there were.
    pub(crate) fn look(&self) -> u32 {
        1 + self.looks.fetch_add(1, Ordering::SeqCst)
    }

    /// The thread's timer, which it may remove.
    pub(crate) fn timer(&'static self) -> Timer {
        Timer::Shared(&self.timer)
    }

    /// Removes the timer, if it is there.
    pub(crate) fn remove_timer(&self) {
        timer::remove(self.timer.swap(NO_TIMER, Ordering::SeqCst));
    }

    /// Leaves what is to be known of the calling thread, which is ending.
    pub(crate) fn leave(&self, cpu: u64) {
        let mut name = [0_u64; 2];
        // SAFETY: the kernel writes 16 bytes.
        unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_NAME, name.as_mut_ptr()) };
        self.cpu.store(cpu, Ordering::SeqCst);
        self.name.iter().zip(name).for_each(|(place, word)| place.store(word, Ordering::SeqCst));
    }

    /// The thread's final values: its CPU time and its name; `None` before its end.
    pub(crate) fn left(&self) -> Option<(u64, Arc<str>)> {
        if self.stage() != Stage::Ended {
            return None;
        }
        let bytes: Vec<u8> = self.name.iter().flat_map(|word| word.load(Ordering::SeqCst).to_ne_bytes()).collect();
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some((self.cpu.load(Ordering::SeqCst), String::from_utf8_lossy(name).into()))
    }

    /// Waits until the thread is not about to change it; false where that is not so in time.
    pub(crate) fn settle(&self, deadline: Instant) -> bool {
        while matches!(self.stage(), Stage::Starting | Stage::Ending) {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// Makes the slot the sampler's again, whose generation is over: removes the timer. False where the thread is about
    /// to change it and takes too long.
    pub(crate) fn end(&self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if !self.settle(deadline) {
                return false;
            }
            let word = self.word.load(Ordering::SeqCst);
            let is_settled = !matches!(self.stage(), Stage::Starting | Stage::Ending);
            if is_settled && self.word.compare_exchange(word, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                self.remove_timer();
                return true;
            }
        }
    }

    /// After a fork: the thread is the parent's, and so is its timer.
    pub(crate) fn forget_parent(&self) {
        self.word.store(0, Ordering::SeqCst);
        self.timer.store(NO_TIMER, Ordering::SeqCst);
    }
}

fn word(generation: u32, stage: Stage) -> u64 {
    u64::from(generation) << STAGE_BITS | stage as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_threads_steps_have_no_effect() {
        let life = Life::new();
        life.begin(7, Stage::Offered);
        assert!(!life.step(6, Stage::Offered, Stage::Starting) && life.step(7, Stage::Offered, Stage::Starting));
        assert!(life.step(7, Stage::Starting, Stage::Live) && life.step(7, Stage::Live, Stage::Followed));
        assert!(!life.step(7, Stage::Live, Stage::Ending), "it is followed by now");
        assert!(life.left().is_none() && life.end() && life.stage() == Stage::None);
        assert!(!life.step(7, Stage::Followed, Stage::Ending), "it is over");
    }

    #[test]
    fn what_a_thread_leaves_is_found_when_it_has_ended() {
        let life = Life::new();
        life.begin(1, Stage::Ending);
        assert!(!life.end(), "it is about to end, and the caller does not wait for ever");
        let name = std::thread::Builder::new().name("leaving".into());
        std::thread::scope(|scope| name.spawn_scoped(scope, || life.leave(42)).unwrap().join().unwrap());
        assert!(life.left().is_none());
        life.begin(1, Stage::Ended);
        assert_eq!(life.left(), Some((42, "leaving".into())));
        assert!(life.end());
    }
}
