//! The addresses that units cover, as the compiler or assembler has listed them in `.debug_aranges`.

use super::Dwarf;
use crate::ranges::Ladder;

/// The ranges of interest.
pub(super) struct Keep<'w> {
    wanted: Option<Ladder<'w>>,
}

impl<'w> Keep<'w> {
    pub(super) fn new(wanted: Option<&'w [u64]>) -> Self {
        Self { wanted: wanted.map(Ladder::new) }
    }

    pub(super) fn has(&self, range: gimli::Range) -> bool {
        range.begin < range.end && self.wanted.as_ref().is_none_or(|wanted| wanted.has_in(range.begin, range.end))
    }
}

/// The content of `.debug_aranges`. Broken tables are left out.
#[derive(Default)]
pub(super) struct AddressTables {
    /// The offsets of the units that have a table with anything in it.
    pub(super) units: Vec<usize>,
    /// The ranges of interest with the offsets of their units.
    pub(super) ranges: Vec<(gimli::Range, usize)>,
}

impl AddressTables {
    pub(super) fn read(dwarf: &Dwarf<'_>, keep: &Keep<'_>) -> Self {
        let mut tables = Self::default();
        let mut headers = dwarf.debug_aranges.headers();
        while let Ok(Some(header)) = headers.next() {
            let offset = header.debug_info_offset().0;
            let mut any = false;
            let mut pairs = header.entries();
            while let Some(pair) = pairs.next().transpose() {
                // One that overflows the address space is an error of its own, not of the table.
                if let Some(pair) = pair.ok().filter(|pair| pair.length() != 0) {
                    any = true;
                    if keep.has(pair.range()) {
                        tables.ranges.push((pair.range(), offset));
                    }
                }
            }
            if any {
                tables.units.push(offset);
            }
        }
        tables
    }
}
