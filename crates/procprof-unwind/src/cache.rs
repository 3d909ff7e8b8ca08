//! Rules of recently met addresses: one load instead of a search.

use crate::rule::Packed;
use crate::space::Space;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SLOTS: usize = 512;

/// A direct-mapped cache of 8 KiB, made for one thread: used by two at once it may give a wrong rule, never more.
///
/// All bytes zero is an empty cache, so one may lie in memory that was just mapped.
#[derive(Debug)]
pub struct Cache {
    slots: [Slot; SLOTS],
    /// Position of the code found last: callers are often in the same.
    recent: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    key: AtomicU64,
    rule: AtomicU64,
}

impl Cache {
    /// An empty cache.
    pub const fn new() -> Self {
        Self {
            slots: [const { Slot { key: AtomicU64::new(0), rule: AtomicU64::new(0) } }; SLOTS],
            recent: AtomicUsize::new(0),
        }
    }

    /// The rule at an address of a space; `None` where there is no code. Async-signal-safe.
    #[inline(always)]
    pub fn rule(&self, space: &Space, address: u64) -> Option<Packed> {
        let slot = &self.slots[(address ^ address >> 10) as usize % SLOTS];
        let key = space.key(address);
        if slot.key.load(Ordering::Relaxed) == key {
            return Some(Packed::from_bits(slot.rule.load(Ordering::Relaxed)));
        }
        slot.fill(key, space.rule_near(address, &self.recent)?)
    }
}

impl Slot {
    #[inline]
    fn fill(&self, key: u64, rule: Packed) -> Option<Packed> {
        if rule != Packed::PENDING {
            self.rule.store(rule.bits(), Ordering::Relaxed);
            self.key.store(key, Ordering::Relaxed);
        }
        Some(rule)
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}
