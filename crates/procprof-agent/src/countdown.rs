//! A thread's way to the heap sampler's next sample.
//!
//! The distance to the next sampling point is drawn from the exponential distribution, which forgets: it may be drawn
//! anew at any moment without bias. A thread counts down to a stop at most 64 KiB away, looks there whether the rate
//! has changed, and goes on.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Default mean number of bytes between samples: 512 KiB.
pub const DEFAULT_SAMPLE_BYTES: u64 = 512 << 10;

/// Whether this program allocates through the sampler: set by the first allocation of each thread.
pub(crate) static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Bytes after which a thread looks whether the rate has changed.
const LEAP: u64 = 64 << 10;

/// The countdown's start in a thread that must not be sampled: no process allocates as much.
const NEVER: i64 = i64::MAX / 2;

static RATE: AtomicU64 = AtomicU64::new(DEFAULT_SAMPLE_BYTES);

/// Counts changes of the rate; a new thread's 0 is none of them.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Makes threads draw differently.
static SEED: AtomicU64 = AtomicU64::new(0);

/// The [`StateOfThread`] of a library that keeps threads' states; null for this module's own.
static OF_THREAD: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Whether threads whose state is new make no system calls: they may have inherited a filter.
static ARE_NEW_ONES_QUIET: AtomicBool = AtomicBool::new(false);

/// Whether no thread makes any.
static ARE_ALL_QUIET: AtomicBool = AtomicBool::new(false);

/// Gives the calling thread's state; called outside of the fast path only.
pub type StateOfThread = extern "C" fn() -> *const ThreadState;

/// The sampler's state of a thread.
///
/// A new thread's is all zero bytes, and nothing need be done when the thread ends: it may lie in `.tbss`.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadState {
    /// Bytes to the next stop; negative behind it.
    left: Cell<i64>,
    /// Bytes from the next stop to the next sampling point.
    beyond: Cell<u64>,
    random: Cell<u64>,
    /// The bounds of the thread's stack; zeros until they are looked up.
    pub(crate) stack: Cell<(u64, u64)>,
    generation: Cell<u32>,
    is_busy: Cell<bool>,
    is_quiet: Cell<bool>,
}

thread_local! {
    // Constant at first and without a destructor, so that reaching it is one instruction in a program.
    static OWN: ThreadState = const { ThreadState::new() };
}

pub(crate) fn rate() -> u64 {
    RATE.load(Ordering::Relaxed)
}

pub(crate) fn set_rate(bytes: u64) {
    RATE.store(bytes, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn keep_states_by(of_thread: StateOfThread) {
    OF_THREAD.store(of_thread as *mut (), Ordering::Release);
}

/// Makes all threads quiet, or those that are not quiet by themselves loud again.
pub(crate) fn keep_all_quiet(are_quiet: bool) {
    ARE_ALL_QUIET.store(are_quiet, Ordering::Relaxed);
}

/// This module's own state of the calling thread.
#[inline(always)]
pub(crate) fn own<'a>() -> &'a ThreadState {
    // SAFETY: without a destructor it is there as long as the thread, which the reference can't leave: a `Cell` is not
    // `Sync`.
    OWN.with(|state| unsafe { &*std::ptr::from_ref(state) })
}

/// The calling thread's state, from this module or from the library that keeps it.
pub(crate) fn current<'a>() -> &'a ThreadState {
    let of_thread = OF_THREAD.load(Ordering::Acquire);
    if of_thread.is_null() {
        return own();
    }
    // SAFETY: stored from a function of this type.
    let of_thread = unsafe { std::mem::transmute::<*mut (), StateOfThread>(of_thread) };
    // SAFETY: by the promise made to `keep_thread_states`; and as in `own`.
    unsafe { &*of_thread() }
}

impl ThreadState {
    /// A new thread's.
    pub const fn new() -> Self {
        Self {
            left: Cell::new(0),
            beyond: Cell::new(0),
            random: Cell::new(0),
            stack: Cell::new((0, 0)),
            generation: Cell::new(0),
            is_busy: Cell::new(false),
            is_quiet: Cell::new(false),
        }
    }

    /// One that draws the same numbers each time.
    #[cfg(test)]
    pub(crate) fn with_seed(seed: u64) -> Self {
        let thread = Self::new();
        thread.random.set(seed);
        thread
    }

    /// Counts `size` bytes; true when the thread has to stop.
    #[inline(always)]
    pub(crate) fn count_down(&self, size: usize) -> bool {
        let (left, _) = self.left.get().overflowing_sub(size as i64);
        self.left.set(left);
        left < 0
    }

    /// The bytes left to the next sampling point.
    pub(crate) fn position(&self) -> i64 {
        self.left.get()
    }

    /// Sets the next stop; true if a sampling point lies in the allocation of `size` bytes that led here.
    pub(crate) fn go_on(&self, size: u64) -> bool {
        let Some(past_stop) = self.left.get().checked_neg().filter(|past| *past > 0) else {
            // The allocator has allocated by itself meanwhile, and that has stopped here already.
            return false;
        };
        let generation = GENERATION.load(Ordering::Relaxed);
        let former = self.generation.replace(generation);
        if former == 0 && ARE_NEW_ONES_QUIET.load(Ordering::Relaxed) {
            self.is_quiet.set(true);
        }
        let distance = if former == generation {
            self.beyond.get().checked_sub(past_stop.unsigned_abs())
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

    /// Samples nothing of what this thread allocates until the guard is dropped; what it frees is taken out as any
    /// other's.
    pub(crate) fn overlook(&self) -> Overlooked<'_> {
        Overlooked { state: self, left: self.left.replace(NEVER) }
    }

    /// Makes the thread, and those that it may start, quiet for good.
    pub(crate) fn keep_quiet(&self) {
        self.is_quiet.set(true);
        ARE_NEW_ONES_QUIET.store(true, Ordering::Relaxed);
    }

    /// Whether nothing of the sampler's may make a system call in this thread.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet.get() || ARE_ALL_QUIET.load(Ordering::Relaxed)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.get()
    }

    /// While the guard lives, what this thread allocates and frees is the sampler's own and not looked at.
    pub(crate) fn enter(&self) -> Busy<'_> {
        Busy { state: self, left: (!self.is_busy.replace(true)).then(|| self.left.replace(NEVER)) }
    }
}

impl Default for ThreadState {
    fn default() -> Self {
        Self::new()
    }
}

/// While it lives, nothing that the thread allocates is sampled.
pub(crate) struct Overlooked<'a> {
    state: &'a ThreadState,
    left: i64,
}

impl Drop for Overlooked<'_> {
    fn drop(&mut self) {
        self.state.left.set(self.left);
    }
}

/// While it lives, the thread is busy.
pub(crate) struct Busy<'a> {
    state: &'a ThreadState,
    /// The bytes left before; `None` if the thread was busy before.
    left: Option<i64>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if let Some(left) = self.left {
            self.state.left.set(left);
            self.state.is_busy.set(false);
        }
    }
}
