//! Places of allocation: a stack and a class of sizes, with its counts.

use super::live::{ByAddress, Spread};
use crate::countdown as thread;
use crate::spin::Spin;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words kept in stacks (64 MiB); beyond, stacks that are not known are cut to their leaf, so that totals stay right.
const MAX_WORDS: usize = 8 << 20;

/// Words a site takes beside its addresses.
const SITE_WORDS: usize = 16;

/// Sizes of one class differ by an eighth at most: estimated by their mean they are right within 0.2 %.
const CLASS_BITS: u32 = 3;

/// Sites by the hash of their stack and class; one whose key is taken by another is stored under the next number.
struct Sites {
    by_hash: ByAddress<Arc<Site>>,
    words: usize,
}

static SITES: Spin<Sites> = Spin::new(Sites::new(), Sites::new);

/// A stack and a class of sizes. Counts are of samples.
#[derive(Debug)]
pub(super) struct Site {
    /// Return addresses, leaf first.
    pub(super) stack: Box<[u64]>,
    class: u32,
    pub(super) all: Counts,
    pub(super) live: Counts,
}

/// Objects and their bytes.
#[derive(Debug, Default)]
pub(super) struct Counts {
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    fn add(&self, bytes: u64) {
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: u64) {
        self.objects.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> (u64, u64) {
        (self.objects.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl Site {
    /// An object was allocated.
    pub(super) fn allocated(&self, size: u64) {
        self.all.add(size);
    }

    /// An object is in use.
    pub(super) fn came(&self, size: u64) {
        self.live.add(size);
    }

    /// An object is no longer in use.
    pub(super) fn went(&self, size: u64) {
        self.live.subtract(size);
    }
}

impl Sites {
    const fn new() -> Self {
        Self { by_hash: HashMap::with_hasher(BuildHasherDefault::new()), words: 0 }
    }

    fn intern(&mut self, stack: &[u64], size: u64) -> Arc<Site> {
        let class = class(size);
        let is_room = self.words + stack.len() + SITE_WORDS <= MAX_WORDS;
        let mut place = hash(stack, class);
        while let Some(site) = self.by_hash.get(&place) {
            if site.class == class && *site.stack == *stack {
                return site.clone();
            }
            place = place.wrapping_add(1);
        }
        if !is_room && stack.len() > 1 {
            return self.intern(&stack[..1], size);
        }
        self.words += stack.len() + SITE_WORDS;
        let site = Arc::new(Site { stack: stack.into(), class, all: Counts::default(), live: Counts::default() });
        self.by_hash.insert(place, site.clone());
        site
    }
}

/// The site of a stack and a size.
pub(super) fn intern(stack: &[u64], size: u64) -> Arc<Site> {
    SITES.lock().intern(stack, size)
}

/// All sites that have samples.
pub(super) fn all() -> Vec<Arc<Site>> {
    let _busy = thread::current().enter();
    SITES.lock().by_hash.values().cloned().collect()
}

/// Forgets all.
pub(super) fn clear() {
    let former = std::mem::replace(&mut *SITES.lock(), Sites::new());
    drop(former);
}

/// Eight classes between a power of two and the next, each exact below 16.
fn class(size: u64) -> u32 {
    let power = size.max(1).ilog2();
    let shift = power.saturating_sub(CLASS_BITS);
    (power << CLASS_BITS) + (size >> shift) as u32
}

fn hash(stack: &[u64], class: u32) -> u64 {
    let mut spread = Spread::default();
    spread.write_u64(u64::from(class) + 1);
    stack.iter().for_each(|address| spread.write_u64(*address));
    spread.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_class_differ_by_an_eighth_at_most() {
        let (mut first, mut classes) = (1, 0);
        for size in 1..100_000 {
            if class(size) != class(first) {
                (first, classes) = (size, classes + 1);
            }
            assert!((size - first) * 8 <= first, "{first} and {size}");
        }
        assert!(classes < 130, "{classes}");
        assert_ne!(class(u64::MAX), class(u64::MAX / 2));
    }

    #[test]
    fn full_sites_keep_the_leaf() {
        let mut sites = Sites::new();
        let whole = sites.intern(&[1, 2, 3], 10);
        sites.words = MAX_WORDS;
        assert!(Arc::ptr_eq(&whole, &sites.intern(&[1, 2, 3], 10)));
        assert_eq!(*sites.intern(&[1, 2, 4], 10).stack, [1]);
        assert_eq!(sites.intern(&[1], 20).class, class(20));
    }
}
