//! The callers of an allocation, by unwind tables and frame pointers.
//!
//! A walk starts in the sampler's own frame and reads words of the thread's own stack only. Tables are renewed by the sampled thread when the
//! walk meets code they do not know; another thread that does so at the same time is not waited for.

use super::spin::Spin;
use super::thread::Busy;
use crate::cpu::regions::Regions;
use crate::cpu::tables::Tables;
use procprof_unwind::{Architecture, Cache, End, Frame, Lost, Space, Stack, Walker};
use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Frames kept of one stack.
const MAX_DEPTH: usize = 512;

/// Walks at once; more wait.
const WALKS: usize = 8;

/// Samples after which it is looked whether libraries came or went.
const LOOK_EVERY: u64 = 64;

/// Walks of one sample: each after tables were compiled that the one before has missed.
const ATTEMPTS: u32 = 4;

static TABLES: Spin<Option<Tables>> = Spin::new(None);

static SPACE: Spin<Option<Arc<Space>>> = Spin::new(None);

static WALK: [Walk; WALKS] = [const { Walk::new() }; WALKS];

/// What a walk needs and is too large for a thread's stack.
struct Walk {
    is_taken: AtomicBool,
    cache: Cache,
    addresses: UnsafeCell<[u64; MAX_DEPTH]>,
}

// SAFETY: `addresses` is reached only by the thread that has set `is_taken`.
unsafe impl Sync for Walk {}

impl Walk {
    const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), cache: Cache::new(), addresses: UnsafeCell::new([0; MAX_DEPTH]) }
    }

    fn take() -> &'static Self {
        loop {
            let free = WALK.iter().find(|walk| !walk.is_taken.swap(true, Ordering::Acquire));
            match free {
                Some(walk) => return walk,
                None => std::thread::yield_now(),
            }
        }
    }
}

/// The frame this is inlined into.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn here() -> Frame {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads three registers.
    unsafe {
        std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp, options(nomem, nostack, preserves_flags));
    }
    Frame { pc, sp, fp, lr: 0, is_return: false }
}

/// The frame this is inlined into.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(super) fn here() -> Frame {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads three registers.
    unsafe {
        std::arch::asm!("adr {}, .", "mov {}, sp", "mov {}, x29", out(reg) pc, out(reg) sp, out(reg) fp, options(nomem, nostack, preserves_flags));
    }
    Frame { pc, sp, fp, lr: 0, is_return: false }
}

/// This thread's stack from a live frame upwards.
struct OwnStack {
    start: u64,
    end: u64,
}

impl Stack for OwnStack {
    #[inline(always)]
    fn read(&self, address: u64) -> Option<u64> {
        let is_within = address >= self.start && address.is_multiple_of(8) && address.checked_add(8).is_some_and(|end| end <= self.end);
        // SAFETY: between the stack pointer of a frame that is alive and the end of the stack it is on.
        is_within.then(|| unsafe { (address as *const u64).read_volatile() })
    }

    fn switch(&mut self, sp: u64) -> bool {
        (self.start..self.end).contains(&sp)
    }
}

/// Hands the return addresses above `frame`, leaf first, and whether they reach the thread's first frame.
///
/// `frame` is one of a function that has not returned. The caller is busy.
pub(super) fn capture(frame: Frame, record: impl FnOnce(&[u64], bool)) {
    static SAMPLES: AtomicU64 = AtomicU64::new(0);
    if SAMPLES.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_EVERY) {
        renew_if_stale();
    }
    let walk = Walk::take();
    // SAFETY: taken above, given back below.
    let addresses = unsafe { &mut *walk.addresses.get() };
    let (mut depth, mut end) = (0, End::Full);
    for _ in 0..ATTEMPTS {
        (depth, end) = callers(frame, &walk.cache, addresses);
        let is_worth_more = match end {
            End::Lost(Lost::Pending) => {
                ask_for_all(frame.sp);
                renew()
            }
            End::Lost(Lost::NotCode) => renew_if_stale(),
            _ => false,
        };
        if !is_worth_more {
            break;
        }
    }
    record(&addresses[..depth], end == End::Root);
    walk.is_taken.store(false, Ordering::Release);
}

/// One walk; how many addresses it found, and how it ended.
fn callers(frame: Frame, cache: &Cache, addresses: &mut [u64; MAX_DEPTH]) -> (usize, End) {
    let (space, Some(architecture)) = (SPACE.lock().clone(), Architecture::native()) else {
        return (0, End::Full);
    };
    let Some(space) = space else { return (0, End::Full) };
    let mut stack = OwnStack { start: frame.sp, end: stack_end(frame.sp) };
    let (mut depth, mut is_own) = (0, true);
    let walker = Walker { architecture, space: &space, cache };
    let end = walker.walk(
        frame,
        |_| None,
        &mut stack,
        |address| {
            if std::mem::replace(&mut is_own, false) {
                return true;
            }
            let slot = addresses.get_mut(depth);
            slot.is_some_and(|slot| {
                *slot = address;
                depth += 1;
                true
            })
        },
    );
    (depth, end)
}

/// Asks for the tables of all code that words of the stack point to.
#[cold]
fn ask_for_all(sp: u64) {
    const WORDS: u64 = 1024;
    let Some(space) = SPACE.lock().clone() else { return };
    let stack = OwnStack { start: sp, end: stack_end(sp) };
    for word in (0..WORDS).map_while(|word| stack.read(sp.wrapping_add(8 * word))) {
        // Looking a rule up asks for it.
        let _ = space.rule(word);
    }
}

/// Compiles what was asked for and reads the memory map; false if another thread is at it. The caller is busy.
pub(super) fn renew() -> bool {
    let Some(mut tables) = TABLES.try_lock() else { return false };
    let tables = tables.get_or_insert_default();
    tables.compile_wanted();
    let space = Regions::of_this_process(tables).space;
    let former = SPACE.lock().replace(space);
    drop(former);
    true
}

fn renew_if_stale() -> bool {
    let is_stale = TABLES.try_lock().is_some_and(|tables| tables.as_ref().is_none_or(Tables::are_stale));
    is_stale && renew()
}

/// The end of the thread's stack; of another stack (a coroutine's) nothing is known, and it is not read.
fn stack_end(sp: u64) -> u64 {
    thread_local! {
        static STACK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }
    if STACK.get() == (0, 0) {
        STACK.set(own_stack().unwrap_or((1, 1)));
    }
    let (start, end) = STACK.get();
    if (start..end).contains(&sp) { end } else { sp }
}

fn own_stack() -> Option<(u64, u64)> {
    debug_assert!(Busy::is_entered(), "the C library may allocate");
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut length) = (std::ptr::null_mut(), 0_usize);
    // SAFETY: fills `attributes` for the calling thread, reads them, and gives them back.
    let known = unsafe {
        let known = libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0;
        if known {
            libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut length);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
        known
    };
    known.then_some((start as u64, start as u64 + length as u64))
}

pub(super) fn hold() {
    TABLES.acquire();
    SPACE.acquire();
}

pub(super) fn free() {
    SPACE.release();
    TABLES.release();
}

/// In a forked child: walks of the parent's other threads do not end here.
pub(super) fn forget_other_threads() {
    WALK.iter().for_each(|walk| walk.is_taken.store(false, Ordering::Relaxed));
}
