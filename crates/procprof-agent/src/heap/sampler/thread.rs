//! A thread's way to its next sample.
//!
//! The distance to the next sampling point is drawn from the exponential distribution, which forgets: it may be drawn anew at any moment without
//! bias. A thread counts down to a stop at most 64 KiB away, looks there whether the rate has changed, and goes on.

use super::{DEFAULT_SAMPLE_BYTES, INSTALLED, record};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes after which a thread looks whether the rate has changed.
const LEAP: u64 = 64 << 10;

/// Where a thread that must not be sampled counts down from: no process allocates as much.
const NEVER: i64 = i64::MAX / 2;

static RATE: AtomicU64 = AtomicU64::new(DEFAULT_SAMPLE_BYTES);

/// Counts changes of the rate; a new thread's 0 is none of them.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Makes threads draw differently.
static SEED: AtomicU64 = AtomicU64::new(0);

/// What a thread keeps. Constant at first and without a destructor, so that reaching it is one instruction in a program.
struct Thread {
    /// Bytes to the next stop; negative behind it.
    left: Cell<i64>,
    /// Bytes from the next stop to the next sampling point.
    beyond: Cell<u64>,
    generation: Cell<u32>,
    is_busy: Cell<bool>,
    random: Cell<u64>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread { left: Cell::new(0), beyond: Cell::new(0), generation: Cell::new(0), is_busy: Cell::new(false), random: Cell::new(0) }
    };
}

pub(super) fn rate() -> u64 {
    RATE.load(Ordering::Relaxed)
}

pub(super) fn set_rate(bytes: u64) {
    RATE.store(bytes, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Counts an allocation, and samples it if its turn has come.
#[inline(always)]
pub(super) fn note(pointer: *mut u8, size: usize) {
    let is_stop = THREAD.with(|thread| {
        let left = thread.left.get().wrapping_sub(size as i64);
        thread.left.set(left);
        left < 0
    });
    if is_stop {
        stop(pointer, size as u64);
    }
}

#[cold]
#[inline(never)]
fn stop(pointer: *mut u8, size: u64) {
    if THREAD.with(|thread| thread.go_on(size)) && !pointer.is_null() {
        record(super::stack::here(), pointer as usize, size);
    }
}

impl Thread {
    /// Sets the next stop; true if a sampling point lies in the allocation of `size` bytes that led here.
    fn go_on(&self, size: u64) -> bool {
        let generation = GENERATION.load(Ordering::Relaxed);
        let past_stop = self.left.get().unsigned_abs();
        let distance = if self.generation.replace(generation) == generation {
            self.beyond.get().checked_sub(past_stop)
        } else {
            INSTALLED.store(true, Ordering::Relaxed);
            self.draw().checked_sub(size)
        };
        let (is_sampled, distance) = match distance {
            Some(distance) => (false, distance),
            None => (true, self.draw()),
        };
        let left = distance.min(LEAP);
        self.left.set(left as i64);
        self.beyond.set(distance - left);
        is_sampled
    }

    /// Whole bytes before the next sampling point.
    fn draw(&self) -> u64 {
        let rate = RATE.load(Ordering::Relaxed);
        if rate <= 1 {
            return 0;
        }
        // 53 random bits as a number in (0, 1].
        let uniform = ((self.next_random() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * rate as f64) as u64
    }

    /// SplitMix64: a counter, mixed.
    fn next_random(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut state = self.random.get();
        if state == 0 {
            state = (std::ptr::from_ref(self) as u64) ^ SEED.fetch_add(STEP, Ordering::Relaxed).rotate_left(32);
        }
        state = state.wrapping_add(STEP);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// While it lives, what this thread allocates and frees is the sampler's own and not looked at.
pub(super) struct Busy {
    /// Where the countdown stood; `None` if the thread was busy before.
    left: Option<i64>,
}

impl Busy {
    pub(super) fn enter() -> Self {
        THREAD.with(|thread| Self { left: (!thread.is_busy.replace(true)).then(|| thread.left.replace(NEVER)) })
    }

    pub(super) fn is_entered() -> bool {
        THREAD.with(|thread| thread.is_busy.get())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(left) = self.left {
            THREAD.with(|thread| {
                thread.left.set(left);
                thread.is_busy.set(false);
            });
        }
    }
}
