//! The positions of stacks by hash.

/// Fewest slots of a table that is not empty.
const SLOTS_MIN: usize = 1 << 10;

/// Positions by hash: a slot holds the position and half of the hash, or 0.
///
/// The upper bits of a hash give the place where the search for it begins, so that a table that grows is gone through
/// in order, old and new.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// None, or a power of two of them.
    slots: Vec<u64>,
    used: usize,
}

impl Table {
    /// The position with that hash that `is_it` accepts; otherwise `new` is stored for it, and the result is `None`.
    #[inline]
    pub(super) fn find_or_insert(&mut self, hash: u64, new: usize, is_it: impl FnMut(usize) -> bool) -> Option<usize> {
        if self.used >= self.slots.len() / 4 * 3 {
            self.grow();
        }
        let slot = match self.search(hash, is_it) {
            Ok(position) => return Some(position),
            Err(slot) => slot,
        };
        // A stack takes 16 bytes and more, so that memory ends before 32 bits do.
        self.slots[slot] = hash >> 32 << 32 | (new as u64 + 1);
        self.used += 1;
        None
    }

    /// The position with that hash that `is_it` accepts.
    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(usize) -> bool) -> Option<usize> {
        if self.slots.is_empty() { None } else { self.search(hash, is_it).ok() }
    }

    /// The position, or the slot to put it in; there is an empty one.
    #[inline]
    fn search(&self, hash: u64, mut is_it: impl FnMut(usize) -> bool) -> Result<usize, usize> {
        let mut slot = self.first_slot(hash);
        loop {
            match self.slots[slot] {
                0 => return Err(slot),
                found if found >> 32 == hash >> 32 && is_it((found as u32 - 1) as usize) => {
                    return Ok((found as u32 - 1) as usize);
                }
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    #[inline]
    fn first_slot(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - self.slots.len().trailing_zeros())) as usize
    }

    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(SLOTS_MIN);
        for old in std::mem::replace(&mut self.slots, vec![0; len]).into_iter().filter(|old| *old != 0) {
            if let Err(slot) = self.search(old, |_| false) {
                self.slots[slot] = old;
            }
        }
    }
}
