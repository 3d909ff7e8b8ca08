//! The code in the address space of a process, as records tell of it.

use std::ops::Range;

/// The number of an image: a file with code, or memory of a process that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageId(pub u32);

/// Addresses with the code of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedCode {
    /// The addresses.
    pub range: Range<u64>,
    /// Place in the file of the first address.
    pub file_offset: u64,
    /// Whose code it is.
    pub image: ImageId,
}

impl MappedCode {
    /// The place in the file of an address in the range.
    pub fn place_of(&self, address: u64) -> u64 {
        address.wrapping_sub(self.range.start).wrapping_add(self.file_offset)
    }
}

/// The code of a process, by address and without overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSpace {
    code: Vec<MappedCode>,
}

impl AddressSpace {
    /// Most ranges of a process; the kernel's default limit of all its mappings.
    const MAX_RANGES: usize = 65_530;

    /// Adds a mapping, which replaces what was at its addresses. False if there are too many.
    pub fn insert(&mut self, new: MappedCode) -> bool {
        if new.range.is_empty() || self.find(new.range.start) == Some(&new) {
            return true;
        }
        let first = self.code.partition_point(|code| code.range.end <= new.range.start);
        let last = self.code.partition_point(|code| code.range.start < new.range.end);
        let mut parts = Vec::with_capacity(3);
        for old in &self.code[first..last] {
            if old.range.start < new.range.start {
                parts.push(MappedCode { range: old.range.start..new.range.start, ..old.clone() });
            }
            if old.range.end > new.range.end {
                let file_offset = old.place_of(new.range.end);
                parts.push(MappedCode { range: new.range.end..old.range.end, file_offset, ..old.clone() });
            }
        }
        if self.code.len() + parts.len() + 1 - (last - first) > Self::MAX_RANGES {
            return false;
        }
        let place = parts.iter().filter(|part| part.range.start < new.range.start).count();
        parts.insert(place, new);
        self.code.splice(first..last, parts);
        true
    }

    /// The code at an address.
    pub fn find(&self, address: u64) -> Option<&MappedCode> {
        let place = self.code.partition_point(|code| code.range.start <= address).checked_sub(1)?;
        self.code.get(place).filter(|code| address < code.range.end)
    }

    /// All code, by address.
    pub fn code(&self) -> &[MappedCode] {
        &self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(range: Range<u64>, file_offset: u64, image: u32) -> MappedCode {
        MappedCode { range, file_offset, image: ImageId(image) }
    }

    fn space(all: &[MappedCode]) -> AddressSpace {
        let mut space = AddressSpace::default();
        all.iter().for_each(|code| assert!(space.insert(code.clone())));
        space
    }

    #[test]
    fn a_later_mapping_replaces_what_was_there() {
        let base = code(100..200, 1000, 1);
        for (new, expected) in [
            (code(0..50, 0, 2), vec![code(0..50, 0, 2), base.clone()]),
            (code(50..150, 0, 2), vec![code(50..150, 0, 2), code(150..200, 1050, 1)]),
            (code(120..150, 0, 2), vec![code(100..120, 1000, 1), code(120..150, 0, 2), code(150..200, 1050, 1)]),
            (code(150..250, 0, 2), vec![code(100..150, 1000, 1), code(150..250, 0, 2)]),
            (code(100..200, 0, 2), vec![code(100..200, 0, 2)]),
            (code(50..250, 0, 2), vec![code(50..250, 0, 2)]),
            (code(150..150, 0, 2), vec![base.clone()]),
        ] {
            assert_eq!(space(&[base.clone(), new]).code(), expected);
        }
    }

    #[test]
    fn any_order_of_mappings_leaves_ranges_without_overlaps() {
        let mut state = 1_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut owner = [None; 256];
        let mut space = AddressSpace::default();
        for image in 0..2000 {
            let start = next(256);
            let end = (start + next(40)).min(256);
            let new = code(start..end, start * 10, image);
            owner[start as usize..end as usize].fill(Some(image));
            space.insert(new);
            assert!(space.code().windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
            for (address, owner) in owner.iter().enumerate() {
                let found = space.find(address as u64).map(|code| code.image.0);
                assert_eq!(found, *owner);
            }
        }
    }
}
