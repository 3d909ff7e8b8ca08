//! All strings of a profile in one buffer; id 0 is always the empty string.

use std::collections::hash_map::Entry;
use std::hash::BuildHasher;

use foldhash::HashMap;

use crate::StringId;

/// An append-only table of strings, stored back to back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringTable {
    text: String,
    ends: Vec<u32>,
}

impl Default for StringTable {
    fn default() -> Self {
        StringTable { text: String::new(), ends: vec![0] }
    }
}

impl StringTable {
    /// The string with that id, or `None` when the table has none.
    #[inline]
    pub fn get(&self, id: StringId) -> Option<&str> {
        let end = *self.ends.get(id.index())? as usize;
        let start = if id.0 == 0 { 0 } else { self.ends[id.index() - 1] as usize };
        Some(&self.text[start..end])
    }

    /// Appends a string without looking whether it is there already.
    ///
    /// Returns `None` when the table would pass 4 GiB of text or 2^32 strings.
    pub fn push(&mut self, text: &str) -> Option<StringId> {
        let id = u32::try_from(self.ends.len()).ok()?;
        let end = u32::try_from(self.text.len() + text.len()).ok()?;
        self.text.push_str(text);
        self.ends.push(end);
        Some(StringId(id))
    }

    /// Makes room for `strings` more strings of `bytes` bytes in all.
    pub fn reserve(&mut self, strings: usize, bytes: usize) {
        self.ends.reserve_exact(strings);
        self.text.reserve_exact(bytes);
    }

    /// How many strings there are, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Always false: string 0 exists.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// All strings, in the order of their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.ends.len()).map(|index| self.get(StringId(index as u32)).unwrap_or_default())
    }
}

/// Which texts a [`StringTable`] has, so that equal ones get one id. The texts themselves are kept once, in the table.
#[derive(Clone, Debug, Default)]
pub struct StringIndex {
    /// The first string of each hash.
    first: HashMap<u64, StringId>,
    /// Strings whose hash another one had before, which are few.
    same_hash: Vec<StringId>,
}

impl StringIndex {
    /// The index of a table; of equal strings the first counts.
    pub fn from_table(strings: &StringTable) -> StringIndex {
        let mut index = StringIndex::default();
        for (id, text) in strings.iter().enumerate().skip(1) {
            let hash = index.first.hasher().hash_one(text);
            if index.find(strings, hash, text).is_none() {
                index.add(hash, StringId(id as u32));
            }
        }
        index
    }

    /// The id of a text in the table that this is the index of, which it is appended to if it is not there.
    ///
    /// Returns `None` when the table is full.
    pub fn intern(&mut self, strings: &mut StringTable, text: &str) -> Option<StringId> {
        if text.is_empty() {
            return Some(StringId(0));
        }
        let hash = self.first.hasher().hash_one(text);
        if let Some(id) = self.find(strings, hash, text) {
            return Some(id);
        }
        let id = strings.push(text)?;
        self.add(hash, id);
        Some(id)
    }

    fn find(&self, strings: &StringTable, hash: u64, text: &str) -> Option<StringId> {
        let first = *self.first.get(&hash)?;
        let mut known = std::iter::once(first).chain(self.same_hash.iter().copied());
        known.find(|id| strings.get(*id) == Some(text))
    }

    fn add(&mut self, hash: u64, id: StringId) {
        match self.first.entry(hash) {
            Entry::Vacant(entry) => {
                entry.insert(id);
            }
            Entry::Occupied(_) => self.same_hash.push(id),
        }
    }
}

#[cfg(test)]
mod tests;
