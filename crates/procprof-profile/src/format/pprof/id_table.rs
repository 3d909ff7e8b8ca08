//! From the ids a file gives its mappings, functions and locations to their positions.
//!
//! Nearly every writer numbers from 1; then nothing is stored. Ids that are merely permuted or have gaps get a table,
//! wild ones a sorted list: no input can make a look-up slower than a binary search.

use crate::Error;
use crate::format::pprof::malformed;

const ABSENT: u32 = u32::MAX;

/// Collects ids in the order of their entries.
#[derive(Default)]
pub(super) struct IdTableBuilder {
    count: u32,
    sparse: Vec<Entry>,
}

struct Entry {
    id: u64,
    position: u32,
    offset: usize,
}

/// Positions by id.
pub(super) enum IdTable {
    /// Position is id - 1, below this count.
    Dense(u64),
    /// Positions by id; [`ABSENT`] where there is none.
    Table(Vec<u32>),
    /// Sorted by id.
    Sorted(Vec<(u64, u32)>),
}

impl IdTableBuilder {
    /// Adds the id of the next entry, found at `offset`.
    pub(super) fn push(&mut self, id: u64, offset: usize) -> Result<(), Error> {
        if id == 0 {
            return Err(malformed(offset, "id 0 is reserved"));
        }
        let position = self.count;
        if position == ABSENT {
            return Err(malformed(offset, "more than 2^32 entries in a table"));
        }
        self.count += 1;
        if self.sparse.is_empty() && id == u64::from(self.count) {
            return Ok(());
        }
        if self.sparse.is_empty() {
            self.sparse.extend((0..position).map(|position| Entry {
                id: u64::from(position) + 1,
                position,
                offset: 0,
            }));
        }
        self.sparse.push(Entry { id, position, offset });
        Ok(())
    }

    /// The finished table, in which the first of equal ids counts; `repeated` is called with the offset of each other.
    pub(super) fn finish(mut self, mut repeated: impl FnMut(usize)) -> IdTable {
        if self.sparse.is_empty() {
            return IdTable::Dense(u64::from(self.count));
        }
        self.sparse.sort_unstable_by_key(|entry| (entry.id, entry.offset));
        self.sparse.dedup_by(|entry, before| {
            let is_repeated = entry.id == before.id;
            if is_repeated {
                repeated(entry.offset);
            }
            is_repeated
        });
        let largest = self.sparse.last().map_or(0, |entry| entry.id);
        if largest > 4 * self.sparse.len() as u64 {
            return IdTable::Sorted(self.sparse.iter().map(|entry| (entry.id, entry.position)).collect());
        }
        let mut table = vec![ABSENT; largest as usize + 1];
        for entry in &self.sparse {
            table[entry.id as usize] = entry.position;
        }
        IdTable::Table(table)
    }
}

impl IdTable {
    /// The position of an id, or `None` when there is no such entry.
    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<u32> {
        match self {
            IdTable::Dense(count) => (id.wrapping_sub(1) < *count).then(|| (id - 1) as u32),
            IdTable::Table(table) => {
                table.get(usize::try_from(id).ok()?).copied().filter(|position| *position != ABSENT)
            }
            IdTable::Sorted(entries) => {
                entries.binary_search_by_key(&id, |entry| entry.0).ok().map(|found| entries[found].1)
            }
        }
    }
}
