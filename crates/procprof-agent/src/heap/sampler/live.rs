//! Sampled allocations that are in use, by address.
//!
//! Freeing first reads a table of small counters, one for each group of addresses: nearly always zero, and then the
//! block was not sampled. Neighbouring addresses have neighbouring counters, so those of a program's working set stay
//! in its cache.

use super::sites::Site;
use crate::countdown::ThreadState;
use crate::spin::Spin;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Counters: 256 KiB, of which those pages become resident whose addresses are sampled.
const COUNTERS: usize = 1 << 18;

/// Addresses of one cache line share a counter.
const LINE_SHIFT: u32 = 6;

const SHARDS: usize = 64;

/// Samples kept in each shard: with all of them 16 million, about 600 MB; of further ones only the allocation is
/// counted, and that they are missing.
const MAX_IN_SHARD: usize = 1 << 18;

/// Sampled addresses by group; a counter at its highest value stays there.
static COUNTS: [AtomicU8; COUNTERS] = [const { AtomicU8::new(0) }; COUNTERS];

/// Samples that found their shard full.
static LOST: AtomicU64 = AtomicU64::new(0);

static LIVE: [Spin<ByAddress<Sampled>>; SHARDS] = [const { Spin::new(none(), none) }; SHARDS];

/// A map whose keys are spread by a multiplication.
pub(super) type ByAddress<T> = HashMap<u64, T, BuildHasherDefault<Spread>>;

const fn none() -> ByAddress<Sampled> {
    HashMap::with_hasher(BuildHasherDefault::new())
}

/// A sampled allocation.
#[derive(Debug)]
pub(super) struct Sampled {
    pub(super) site: Arc<Site>,
    /// Requested size, bytes.
    pub(super) size: u64,
}

/// Multiplies a number and folds the product.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0.rotate_left(5) ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// The counter of an address. Large allocations differ only in upper bits, which are folded down.
#[inline(always)]
fn counter(pointer: usize) -> &'static AtomicU8 {
    &COUNTS[(pointer >> LINE_SHIFT ^ pointer >> 17) % COUNTERS]
}

fn shard(pointer: usize) -> &'static Spin<ByAddress<Sampled>> {
    &LIVE[(pointer >> 4 ^ pointer >> 12) % SHARDS]
}

/// Whether an address may be that of a sampled allocation.
#[inline(always)]
pub(super) fn may_hold(pointer: usize) -> bool {
    counter(pointer).load(Ordering::Relaxed) != 0
}

/// Adds an allocation. One that is known at this address was freed unseen and is no longer live.
pub(super) fn insert(pointer: usize, sampled: Sampled) {
    let (site, size) = (sampled.site.clone(), sampled.size);
    let mut live = shard(pointer).lock();
    if live.len() >= MAX_IN_SHARD {
        LOST.fetch_add(1, Ordering::Relaxed);
        return;
    }
    site.came(size);
    match live.insert(pointer as u64, sampled) {
        Some(former) => former.site.went(former.size),
        None => count(pointer, |counts| counts.checked_add(1)),
    }
}

/// Takes an allocation out that is about to be freed, if it was sampled.
pub(super) fn take(thread: &ThreadState, pointer: usize) -> Option<Sampled> {
    if thread.is_busy() {
        return None;
    }
    let _busy = thread.enter();
    let taken = shard(pointer).lock().remove(&(pointer as u64))?;
    taken.site.went(taken.size);
    count(pointer, |counts| (counts < u8::MAX).then(|| counts - 1));
    Some(taken)
}

/// Counts a sample whose use is not followed.
pub(super) fn lose() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

/// Samples whose use is not followed, since the last reset.
pub(super) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Forgets all.
pub(super) fn clear() {
    LOST.store(0, Ordering::Relaxed);
    for shard in &LIVE {
        let former = std::mem::take(&mut *shard.lock());
        for pointer in former.keys() {
            count(*pointer as usize, |counts| (counts < u8::MAX).then(|| counts - 1));
        }
    }
}

fn count(pointer: usize, change: impl Fn(u8) -> Option<u8>) {
    // A counter that can't be changed stays at its highest value.
    let _ = counter(pointer).fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
}
