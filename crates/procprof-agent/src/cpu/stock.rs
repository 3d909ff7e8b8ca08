//! Slots that no thread has, with memory and without.

use super::slab::Slab;
use super::slot::Slot;
use std::collections::BTreeMap;

/// Slots to be given to threads; what is not needed any more goes back to the kernel by [`Stock::shrink`].
#[derive(Debug, Default)]
pub(crate) struct Stock {
    furnished: Vec<&'static Slot>,
    bare: Vec<&'static Slot>,
}

impl Stock {
    /// Takes slots back that were made before and have no handler in them.
    pub(crate) fn from_slots(slots: impl IntoIterator<Item = &'static Slot>) -> Self {
        let (furnished, bare) = slots.into_iter().partition(|slot| slot.is_furnished());
        Self { furnished, bare }
    }

    /// A slot with memory, which is mapped for `wanted` slots where there is none; `None` where there is no room.
    pub(crate) fn take(&mut self, wanted: usize) -> Option<&'static Slot> {
        if self.furnished.is_empty() {
            self.furnish(wanted);
        }
        self.furnished.pop()
    }

    /// Takes a slot back that no handler is in and no valid ticket leads to.
    pub(crate) fn put(&mut self, slot: &'static Slot) {
        self.furnished.push(slot);
    }

    /// All slots in it.
    pub(crate) fn slots(&mut self) -> impl Iterator<Item = &'static Slot> {
        std::mem::take(&mut self.furnished).into_iter().chain(std::mem::take(&mut self.bare))
    }

    fn furnish(&mut self, wanted: usize) {
        let Some(slab) = Slab::map(wanted) else { return };
        let before = self.furnished.len();
        for unit in slab.units() {
            let Some(slot) = self.bare.pop().or_else(Slot::create_bare) else { break };
            slot.furnish(unit);
            self.furnished.push(slot);
        }
        if self.furnished.len() == before {
            // SAFETY: no slot got any of it.
            unsafe { slab.unmap() };
        }
    }

    /// Gives the memory of slabs back whose slots are all here.
    pub(crate) fn shrink(&mut self) {
        let mut slabs: BTreeMap<Slab, Vec<&'static Slot>> = BTreeMap::new();
        for slot in std::mem::take(&mut self.furnished) {
            match slot.slab() {
                Some(slab) => slabs.entry(slab).or_default().push(slot),
                None => self.bare.push(slot),
            }
        }
        for (slab, slots) in slabs {
            let are_idle = slots.len() == slab.len() && slots.iter().all(|slot| !slot.is_busy());
            if !are_idle {
                self.furnished.extend(slots);
                continue;
            }
            slots.iter().for_each(|slot| slot.clear_out());
            self.bare.extend(slots);
            // SAFETY: all its slots are without memory now; no ticket leads to them, and no handler is in one.
            unsafe { slab.unmap() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::Entry;
    use super::*;

    #[test]
    fn memory_is_mapped_for_many_and_given_back_when_all_are_there() {
        let mut stock = Stock::default();
        let first = stock.take(3).unwrap();
        let slab = first.slab().unwrap();
        assert_eq!(slab.len(), 3);
        let others: Vec<_> = (0..2).map(|_| stock.take(100).unwrap()).collect();
        assert!(others.iter().all(|slot| slot.slab() == Some(slab)));
        others.into_iter().for_each(|slot| stock.put(slot));
        stock.shrink();
        assert!(first.is_furnished(), "it is in use");
        let ticket = first.assign(1);
        let visit = Slot::enter(ticket);
        first.revoke();
        stock.put(first);
        stock.shrink();
        assert!(first.is_furnished(), "a handler is in it");
        drop(visit);
        stock.shrink();
        assert!(!first.is_furnished());
        assert!(matches!(Slot::enter(ticket), Entry::Void), "a late signal finds no memory");
        assert!(stock.take(1).unwrap().is_furnished());
    }
}
