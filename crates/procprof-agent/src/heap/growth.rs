//! Growth between two moments: the memory in use, by stack.
//!
//! ```text
//! heap profile:    144:  8498176 [   144:  8498176] @ growthz
//!      1:     9216 [     1:     9216] @ 0xc635c8 0x42ecc3     objects: bytes [the same] @ return addresses, leaf first
//! MAPPED_LIBRARIES:
//! 55d0c0a00000-55d0c0a01000 r-xp 00001000 fd:01 1234 /usr/bin/prog
//! ```
//! This is gperftools' form, which jeprof and pprof read. There growth is what the allocator took from the system since
//! the start; other allocators do not record the stack of that, and users of growth profiles look for memory that is
//! still in use and was not before. Counts are estimates, made for each dump before they are compared.

use crate::error::{Error, Result};
use procprof_profile::format::{Limits, decode};
use procprof_profile::{Grammar, Profile};
use std::collections::HashMap;
use std::fmt::Write;

/// Objects and bytes in use, by return addresses, leaf first.
#[derive(Debug, Default)]
pub(crate) struct InUse(HashMap<Box<[u64]>, [i64; 2]>);

impl InUse {
    /// As estimated from `heap_v2` text.
    pub(crate) fn from_text(text: &[u8]) -> Result<Self> {
        let profile = decode(text, &Limits::default())?.profile.adjusted(Grammar::Pprof)?;
        Ok(Self::of_profile(&profile))
    }

    fn of_profile(profile: &Profile) -> Self {
        let column = |name| profile.sample_type_index(name);
        let (Some(objects), Some(bytes)) = (column("inuse_objects"), column("inuse_space")) else {
            return Self::default();
        };
        let mut all: HashMap<Box<[u64]>, [i64; 2]> = HashMap::new();
        for sample in profile.samples() {
            // What the grammar took off a return address.
            let stack = sample.stack.iter().map(|place| profile.location(*place).address.0.wrapping_add(1)).collect();
            let sums = all.entry(stack).or_default();
            for (sum, value) in sums.iter_mut().zip([sample.values[objects], sample.values[bytes]]) {
                *sum = sum.saturating_add(value);
            }
        }
        Self(all)
    }

    /// The stacks that have more bytes than they had in `before`, and by how many objects and bytes, most bytes first.
    /// Where bytes grew and objects did not, it is one object, as the form has no bytes without objects.
    fn grown_since(mut self, before: &Self) -> Vec<(Box<[u64]>, [i64; 2])> {
        for (stack, [objects, bytes]) in &before.0 {
            if let Some(now) = self.0.get_mut(stack) {
                *now = [now[0].saturating_sub(*objects), now[1].saturating_sub(*bytes)];
            }
        }
        let mut grown: Vec<_> = self.0.into_iter().filter(|(_, [_, bytes])| *bytes > 0).collect();
        grown.iter_mut().for_each(|(_, [objects, _])| *objects = (*objects).max(1));
        grown.sort_by(|a, b| b.1[1].cmp(&a.1[1]).then_with(|| a.0.cmp(&b.0)));
        grown
    }

    /// Growth since `before`, in gperftools' form.
    pub(crate) fn growth_text(self, before: &Self) -> Result<Vec<u8>> {
        let mut text = text_of(&self.grown_since(before)).into_bytes();
        text.extend(
            std::fs::read("/proc/self/maps").map_err(|source| Error::System { what: "read the memory map", source })?,
        );
        Ok(text)
    }
}

/// The form up to where the memory map begins.
fn text_of(rows: &[(Box<[u64]>, [i64; 2])]) -> String {
    let [objects, bytes] =
        [0, 1].map(|column| rows.iter().fold(0_i64, |sum, (_, values)| sum.saturating_add(values[column])));
    let mut text = format!("heap profile: {objects}: {bytes} [{objects}: {bytes}] @ growthz\n");
    for (stack, [objects, bytes]) in rows {
        // Writing to a string can't fail.
        let _ = write!(text, "{objects}: {bytes} [{objects}: {bytes}] @");
        for address in stack {
            let _ = write!(text, " {address:#x}");
        }
        text.push('\n');
    }
    text.push_str("\nMAPPED_LIBRARIES:\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_use(rows: &[(&[u64], [i64; 2])]) -> InUse {
        InUse(rows.iter().map(|(stack, values)| ((*stack).into(), *values)).collect())
    }

    #[test]
    fn stacks_that_grew_are_listed_and_others_are_not() {
        let before = in_use(&[(&[1, 2], [10, 1000]), (&[1, 3], [5, 500]), (&[4], [1, 10]), (&[5], [2, 20])]);
        let after =
            in_use(&[(&[1, 2], [12, 1500]), (&[1, 3], [4, 400]), (&[4], [1, 10]), (&[5], [1, 2000]), (&[6], [3, 30])]);
        let text = text_of(&after.grown_since(&before));
        assert_eq!(
            text,
            "heap profile: 6: 2510 [6: 2510] @ growthz\n1: 1980 [1: 1980] @ 0x5\n2: 500 [2: 500] @ 0x1 0x2\n3: 30 [3: 30] @ 0x6\n\nMAPPED_LIBRARIES:\n"
        );
        let profile = decode(text.as_bytes(), &Limits::default()).unwrap().profile;
        assert_eq!([profile.total(0), profile.total(1)], [6, 2510]);
    }

    #[test]
    fn each_dump_is_estimated_before_they_are_compared() {
        let dump = |rows: &str| {
            InUse::from_text(format!("heap_v2/1000\n  t*: 9: 9 [9: 9]\n{rows}\nMAPPED_LIBRARIES:\n").as_bytes())
                .unwrap()
        };
        let before = dump("@ 0x10 0x20\n  t*: 1: 1000 [0: 0]\n");
        let after = dump("@ 0x10 0x20\n  t*: 2: 2000 [0: 0]\n@ 0x10 0x20\n  t*: 1: 10 [0: 0]\n");
        // One of 1,000 bytes represents 1.58, one of 10 bytes 100.5.
        let [(stack, [objects, bytes])] = <[_; 1]>::try_from(after.grown_since(&before)).unwrap();
        assert_eq!(*stack, [0x10, 0x20]);
        assert!((101..=103).contains(&objects) && (2580..=2600).contains(&bytes), "{objects} {bytes}");
    }
}
