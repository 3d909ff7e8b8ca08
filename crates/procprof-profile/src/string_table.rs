//! All strings of a profile in one buffer; id 0 is always the empty string.

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
    pub(crate) fn reserve(&mut self, strings: usize, bytes: usize) {
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
