//! The callers of an allocation, by unwind tables and frame pointers.
//!
//! A walk starts in the sampler's own frame and reads [`words`](super::words) of the stack it is on. Tables are renewed
//! by the sampled thread when the walk meets code they do not know; another thread that does so at the same time is not
//! waited for.

use super::words::{Page, Words};
use crate::countdown::ThreadState;
use crate::cpu::regions::Regions;
use crate::cpu::tables::Tables;
use crate::spin::{Claim, Spin};
use procprof_unwind::{Architecture, Cache, End, Frame, Lost, Space, Stack, Walker};
use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames left out: that of `note` and of who calls it.
const OWN_FRAMES: u32 = 2;

/// Frames kept of one stack.
const MAX_DEPTH: usize = 512;

/// Walks at once; more wait.
const WALKS: usize = 8;

/// Samples after which it is looked whether libraries came or went.
const LOOK_EVERY: u64 = 64;

/// Walks of one sample: each after tables were compiled that the one before has missed.
const ATTEMPTS: u32 = 4;

static TABLES: Spin<Option<Tables>> = Spin::new(None, || None);

static SPACE: Spin<Option<Arc<Space>>> = Spin::new(None, || None);

static WALK: [Walk; WALKS] = [const { Walk::new() }; WALKS];

/// Memory of a walk that is too large for a thread's stack.
struct Walk {
    /// One that a thread of a parent's has is free in a forked child.
    claim: Claim,
    cache: Cache,
    addresses: UnsafeCell<[u64; MAX_DEPTH]>,
    page: UnsafeCell<Page>,
}

// SAFETY: `addresses` and `page` are reached only by the thread that has the claim.
unsafe impl Sync for Walk {}

impl Walk {
    const fn new() -> Self {
        Self {
            claim: Claim::new(),
            cache: Cache::new(),
            addresses: UnsafeCell::new([0; MAX_DEPTH]),
            page: UnsafeCell::new([const { Cell::new(0) }; 512]),
        }
    }

    fn take() -> &'static Self {
        loop {
            let free = WALK.iter().find(|walk| walk.claim.take().is_some());
            match free {
                Some(walk) => return walk,
                None => std::thread::yield_now(),
            }
        }
    }
}

/// Marks an unknown stack: its address is a sample's only frame.
#[cold]
#[inline(never)]
extern "C" fn unknown_stack() {
    // Its own code, so that no other function is folded into it.
    std::hint::black_box(UNKNOWN_STACK);
}

/// The name of that frame where a profile's frames have names.
pub(super) const UNKNOWN_STACK: &str = "[unknown stack]";

/// The return address that marks an unknown stack.
pub(super) fn unknown() -> u64 {
    // Readers take a byte off return addresses.
    unknown_stack as extern "C" fn() as usize as u64 + 1
}

/// The completeness of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// All of it.
    Whole,
    /// As much as is kept.
    Truncated,
    /// Not up to the thread's first frame.
    Part,
    /// No caller was found; [`unknown`] is used instead.
    Nothing,
}

/// Hands the return addresses above the caller of `frame`, leaf first, and what they are of the stack; there is at
/// least one.
///
/// `frame` is one of a function that has not returned. The thread is busy.
pub(super) fn capture(thread: &ThreadState, frame: Frame, record: impl FnOnce(&[u64], Found)) {
    static SAMPLES: AtomicU64 = AtomicU64::new(0);
    if SAMPLES.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_EVERY) {
        renew_if_stale();
    }
    let walk = Walk::take();
    // SAFETY: taken above, given back below.
    let (addresses, page) = unsafe { (&mut *walk.addresses.get(), &*walk.page.get()) };
    let mut words = Words::from(frame.sp, thread, page);
    let (mut depth, mut end) = (0, End::Full);
    for _ in 0..ATTEMPTS {
        (depth, end) = callers(frame, &mut words, &walk.cache, addresses);
        let is_worth_more = match end {
            End::Lost(Lost::Pending) => {
                ask_for_all(frame.sp, &words);
                renew()
            }
            End::Lost(Lost::NotCode) => renew_if_stale(),
            _ => false,
        };
        if !is_worth_more {
            break;
        }
    }
    match (depth, end) {
        (0, _) => record(&[unknown()], Found::Nothing),
        (_, End::Root) => record(&addresses[..depth], Found::Whole),
        (_, End::Full) => record(&addresses[..depth], Found::Truncated),
        (_, End::Lost(_)) => record(&addresses[..depth], Found::Part),
    }
    walk.claim.give_back();
}

/// One walk; how many addresses it found, and how it ended.
fn callers(frame: Frame, words: &mut Words<'_>, cache: &Cache, addresses: &mut [u64; MAX_DEPTH]) -> (usize, End) {
    let (space, architecture) = (SPACE.lock().clone(), Architecture::native());
    let (Some(space), Some(architecture)) = (space, architecture) else { return (0, End::Full) };
    let (mut seen, mut depth) = (0, 0);
    let walker = Walker { architecture, space: &space, cache };
    let end = walker.walk(
        frame,
        |_| None,
        words,
        |address| {
            seen += 1;
            if seen <= OWN_FRAMES {
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

/// Requests the tables of all code that words of the stack point to.
#[cold]
fn ask_for_all(sp: u64, words: &Words<'_>) {
    const WORDS: u64 = 1024;
    let Some(space) = SPACE.lock().clone() else { return };
    for word in (0..WORDS).map_while(|word| words.read(sp.wrapping_add(8 * word))) {
        // A look-up requests the rule's table.
        let _ = space.rule(word);
    }
}

/// Compiles the requested tables and reads the memory map; false if another thread is doing so. The caller is busy.
pub(super) fn renew() -> bool {
    let Some(mut tables) = TABLES.try_lock() else { return false };
    let tables = tables.get_or_insert_default();
    tables.compile_wanted();
    let space = Regions::of_this_process(tables).space;
    let former = SPACE.lock().replace(space);
    drop(former);
    true
}

/// Forgets what is known of the code.
#[cfg(test)]
pub(super) fn forget() {
    drop(SPACE.lock().take());
}

fn renew_if_stale() -> bool {
    let is_stale = TABLES.try_lock().is_some_and(|tables| tables.as_ref().is_none_or(Tables::are_stale));
    is_stale && renew()
}
