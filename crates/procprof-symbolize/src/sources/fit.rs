//! Whether an index fits mappings without a known build id: by name, and by the place and length of its code in the
//! file.
//!
//! Whole pages are compared. A debug file no longer contains where in the binary its code was, but linkers leave three
//! choices: as far behind the first byte as in memory (GNU ld), or straight behind what is loaded before it, on the
//! same page (LLD) or the next (mold).
//!
//! Readers of memory maps widen a mapping of code to the beginning of the file (see `procprof_profile::maps`); such a
//! mapping fits by its end.

use procprof_profile::{FileOffset, Mapping, SymbolAddr};

use crate::elf::Segment;

/// Sizes of a page, in bytes: of x86 and most others, and the further ones of AArch64.
const PAGES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

/// The places of mappings in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fit(Vec<Place>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// The start of the mapping in the file.
    offset: FileOffset,
    /// The address in the image of its first byte.
    begin: u64,
    /// Its segment.
    code: Segment,
}

impl Fit {
    /// Places the mappings in a file with these segments; `None` if any of them does not fit exactly one, or if there
    /// are none.
    pub(crate) fn find(segments: &[Segment], mappings: &[&Mapping]) -> Option<Self> {
        let mut places: Vec<Place> = Vec::new();
        for mapping in mappings {
            let place = place(segments, mapping)?;
            match places.iter().find(|known| known.offset == place.offset) {
                Some(known) if *known != place => return None,
                Some(_) => {}
                None => places.push(place),
            }
        }
        (!places.is_empty()).then_some(Self(places))
    }

    /// The byte `distance` behind the first of the mapping that begins at `start` in the file; `None` if it is not in
    /// the code.
    pub(crate) fn symbol_addr(&self, start: FileOffset, distance: u64) -> Option<SymbolAddr> {
        let place = self.0.iter().find(|place| place.offset == start)?;
        let address = place.begin.checked_add(distance)?;
        let is_code = address >= place.code.address && address - place.code.address < place.code.memory_bytes;
        is_code.then_some(SymbolAddr(address))
    }
}

/// The only place where a mapping fits.
fn place(segments: &[Segment], mapping: &Mapping) -> Option<Place> {
    let mut places: Vec<Place> = Vec::new();
    for page in PAGES {
        let is_aligned = [mapping.start.0, mapping.limit.0, mapping.file_offset.0].iter().all(|edge| edge % page == 0);
        for code in segments.iter().filter(|segment| is_aligned && segment.executable && segment.memory_bytes > 0) {
            let begin = begin(segments, code, mapping, page);
            let place = begin.map(|begin| Place { offset: mapping.file_offset, begin, code: *code });
            places.extend(place.filter(|place| !places.contains(place)));
        }
    }
    if let [place] = places[..] { Some(place) } else { None }
}

/// The address in the image of a mapping's first byte, if it is of this segment.
fn begin(segments: &[Segment], code: &Segment, mapping: &Mapping, page: u64) -> Option<u64> {
    let in_front = code.address % page;
    let code_page = code.address - in_front;
    let code_bytes = in_front.checked_add(code.memory_bytes)?.checked_next_multiple_of(page)?;
    let bytes = mapping.limit.0.checked_sub(mapping.start.0)?;
    let widened_by = match bytes.checked_sub(code_bytes)? {
        more if more > 0 && mapping.file_offset.0 != 0 => return None,
        more => more,
    };
    let offset = mapping.file_offset.0 + widened_by;
    offsets(segments, code, page).contains(&Some(offset)).then_some(())?;
    code_page.checked_sub(widened_by)
}

/// The file offsets that the code's first page may have.
fn offsets(segments: &[Segment], code: &Segment, page: u64) -> [Option<u64>; 3] {
    // Removed code has fewer bytes in the file than in memory; other code never has.
    if code.file_bytes >= code.memory_bytes {
        let is_mappable = code.offset % page == code.address % page;
        return [is_mappable.then(|| code.offset - code.offset % page), None, None];
    }
    let before = || segments.iter().filter(|segment| segment.address < code.address);
    let packed = before().try_fold(0_u64, |sum, segment| sum.checked_add(segment.memory_bytes));
    let first = before().map(|segment| segment.address).min().unwrap_or(code.address);
    let as_in_memory = (code.address - code.address % page).checked_sub(first - first % page);
    [
        as_in_memory,
        packed.map(|bytes| bytes - bytes % page),
        packed.and_then(|bytes| bytes.checked_next_multiple_of(page)),
    ]
}

/// The name of the binary that a file of that name is, or is the debug file of: without the suffixes of compression and
/// of debug files.
pub fn binary_name(file_name: &str) -> &str {
    let packed = [".gz", ".xz", ".zst"].iter().find_map(|ending| file_name.strip_suffix(ending));
    let name = packed.unwrap_or(file_name);
    [".debug", ".debuginfo"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

#[cfg(test)]
mod tests;
