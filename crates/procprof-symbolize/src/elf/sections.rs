//! The DWARF sections of a file, decompressed within limits.

use std::borrow::Cow;
use std::ops::Range;

use gimli::{DwarfPackageSections, DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::{CompressedData, CompressionFormat, File, Object, ObjectSection};

use crate::elf::inflate;
use crate::workers;

/// Largest size that a compressed section may have, in multiples of its compressed size.
const GROWTH_MAX: u64 = 64;
/// Decompressed bytes that are worth a thread: it takes about a millisecond for them.
const THREAD_BYTES: usize = 1 << 20;

/// Why sections can't be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SectionError {
    #[error("{section}: claims {claimed} bytes, more than is allowed")]
    TooLarge { section: &'static str, claimed: u64 },
    #[error("{section}: {what}")]
    Damaged { section: &'static str, what: String },
    #[error(transparent)]
    Index(#[from] gimli::Error),
}

/// The purpose of loading sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed<'w> {
    /// Functions and lines.
    All,
    /// Functions only.
    Functions,
    /// Functions at these addresses, which ascend. Of a compressed `.debug_info` only the units are
    /// decompressed that `.debug_aranges` has for them.
    FunctionsAt(&'w [u64]),
}

/// Sections that were loaded for a purpose.
#[derive(Default)]
pub(crate) struct Loaded<'data> {
    pub(crate) sections: DwarfSections<Cow<'data, [u8]>>,
    /// The starts of the units that are in `.debug_info`, ascending; `None` if all are.
    pub(crate) units: Option<Vec<usize>>,
}

/// Loads the sections that looking up addresses needs; the others stay empty. Compressed ones are
/// decompressed by all processors.
pub(crate) fn load<'data>(file: &File<'data>, bytes_max: u64) -> Result<DwarfSections<Cow<'data, [u8]>>, SectionError> {
    load_needed(file, bytes_max, Needed::All).map(|loaded| loaded.sections)
}

/// As [`load`], for those that a purpose needs.
pub(crate) fn load_needed<'data>(
    file: &File<'data>,
    bytes_max: u64,
    needed: Needed<'_>,
) -> Result<Loaded<'data>, SectionError> {
    let is_needed =
        |id: &SectionId| needed == Needed::All || !matches!(id, SectionId::DebugLine | SectionId::DebugLineStr);
    let mut left = bytes_max;
    let mut raw = Vec::new();
    for id in NEEDED.into_iter().filter(is_needed) {
        raw.push((id, section(file, id.name(), &mut left)?));
    }
    let mut units = None;
    if let Needed::FunctionsAt(wanted) = needed {
        units = needed_units(&raw, file.is_little_endian(), wanted)?;
    }
    // The largest first, since it takes the longest.
    raw.sort_by_key(|(_, data)| std::cmp::Reverse(data.as_ref().map_or(0, |data| data.uncompressed_size)));
    let compressed = raw.iter().filter_map(|(_, data)| data.filter(|data| data.format != CompressionFormat::None));
    let bytes = compressed.map(|data| data.uncompressed_size).sum::<u64>();
    let threads = workers::threads_for(usize::try_from(bytes).unwrap_or(usize::MAX), THREAD_BYTES);
    let loaded = workers::run(raw.len(), threads, Vec::new, |loaded, index| {
        let (id, data) = raw[index];
        let section = match units.as_deref().filter(|_| id == SectionId::DebugInfo).zip(data) {
            Some((units, data)) => decompress_units(id.name(), data, units),
            None => decompress(id.name(), data),
        };
        loaded.push((id, section));
    });
    let mut loaded: Vec<_> = loaded.into_iter().flatten().collect();
    let sections = DwarfSections::load(|id| match loaded.iter().position(|(loaded, _)| *loaded == id) {
        Some(position) => loaded.swap_remove(position).1,
        None => Ok(Cow::Borrowed(&[][..])),
    })?;
    Ok(Loaded { sections, units: units.map(|units| units.into_iter().map(|unit| unit.start).collect()) })
}

/// Loads all sections of a package (`.dwp`) of split off debug information: its index contains the part of each that
/// belongs to a unit, so none may be left out.
pub(crate) fn load_package<'data>(
    file: &File<'data>,
    bytes_max: u64,
) -> Result<DwarfPackageSections<Cow<'data, [u8]>>, SectionError> {
    let mut left = bytes_max;
    DwarfPackageSections::load(|id| match id.dwo_name() {
        Some(name) => decompress(name, section(file, name, &mut left)?),
        None => Ok(Cow::Borrowed(&[][..])),
    })
}

/// Copies the sections of a split off unit's file (`.dwo`) that looking up addresses needs; also returns their size.
/// Errs if that is more than `bytes_max`.
pub(crate) fn load_dwo(file: &File<'_>, bytes_max: u64) -> Result<(DwarfSections<Vec<u8>>, u64), SectionError> {
    let mut left = bytes_max;
    let sections = DwarfSections::load(|id| {
        let Some(name) = id.dwo_name().filter(|_| NEEDED.contains(&id)) else {
            return Ok(Vec::new());
        };
        let compressed_left = left;
        let data = section(file, name, &mut left)?;
        // Sections that are not compressed are also copied.
        left = left.min(compressed_left.saturating_sub(data.as_ref().map_or(0, |data| data.uncompressed_size)));
        if left == 0 && bytes_max > 0 {
            return Err(SectionError::TooLarge { section: name, claimed: bytes_max });
        }
        decompress(name, data).map(Cow::into_owned)
    })?;
    Ok((sections, bytes_max - left))
}

/// Bytes of them that were decompressed.
pub(crate) fn owned_bytes(sections: &DwarfSections<Cow<'_, [u8]>>) -> usize {
    let mut bytes = 0;
    sections.borrow(|section| EndianSlice::new(count(section, &mut bytes), RunTimeEndian::default()));
    bytes
}

/// As [`owned_bytes`], of a package.
pub(crate) fn owned_package_bytes(sections: &DwarfPackageSections<Cow<'_, [u8]>>) -> usize {
    let mut bytes = 0;
    let reader = |section| EndianSlice::new(count(section, &mut bytes), RunTimeEndian::default());
    // A broken one has no units, but is decompressed nevertheless.
    let _ = sections.borrow(reader, EndianSlice::new(&[], RunTimeEndian::default()));
    bytes
}

/// Adds the bytes of a section that is not in the file as it is.
#[expect(clippy::ptr_arg, reason = "a slice would not tell whether it was decompressed")]
fn count<'s>(section: &'s Cow<'_, [u8]>, bytes: &mut usize) -> &'s [u8] {
    if let Cow::Owned(owned) = section {
        *bytes += owned.len();
    }
    section
}

/// Places of variables, macros and name tables are not needed here and are often the larger part.
const NEEDED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The section as it is in the file; its size, once decompressed, is subtracted from the remaining bytes.
fn section<'data>(
    file: &File<'data>,
    name: &'static str,
    left: &mut u64,
) -> Result<Option<CompressedData<'data>>, SectionError> {
    let Some(section) = file.section_by_name(name) else {
        return Ok(None);
    };
    let data =
        section.compressed_data().map_err(|error| SectionError::Damaged { section: name, what: error.to_string() })?;
    if data.format != CompressionFormat::None {
        let claimed = data.uncompressed_size;
        let growth = (data.data.len() as u64).saturating_mul(GROWTH_MAX);
        if claimed > growth || claimed > *left {
            return Err(SectionError::TooLarge { section: name, claimed });
        }
        *left -= claimed;
    }
    Ok(Some(data))
}

type RawSections<'data> = [(SectionId, Option<CompressedData<'data>>)];

/// The units of the addresses, each up to the next that has a table; `None` if all are to be read.
fn needed_units(
    raw: &RawSections<'_>,
    is_little_endian: bool,
    wanted: &[u64],
) -> Result<Option<Vec<Range<usize>>>, SectionError> {
    let data = |id| raw.iter().find(|(own, _)| *own == id).and_then(|(_, data)| *data);
    let Some(info) = data(SectionId::DebugInfo).filter(|data| data.format == CompressionFormat::Zlib) else {
        return Ok(None);
    };
    let tables = decompress(SectionId::DebugAranges.name(), data(SectionId::DebugAranges))?;
    let endian = if is_little_endian { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut units = Vec::new();
    let mut needed = Vec::new();
    let mut is_found = vec![false; wanted.len()];
    let tables = gimli::DebugAranges::new(&tables, endian);
    let mut headers = tables.headers();
    while let Ok(Some(header)) = headers.next() {
        let unit = header.debug_info_offset().0;
        units.push(unit);
        let mut entries = header.entries();
        while let Some(entry) = entries.next().transpose() {
            let Some(range) = entry.ok().map(|entry| entry.range()) else { continue };
            let first = wanted.partition_point(|address| *address < range.begin);
            let inside = wanted[first..].partition_point(|address| *address < range.end);
            if inside > 0 {
                is_found[first..first + inside].fill(true);
                needed.push(unit);
            }
        }
    }
    // One that is in no table may be in a unit without one.
    if needed.is_empty() || is_found.contains(&false) {
        return Ok(None);
    }
    let bytes = usize::try_from(info.uncompressed_size).unwrap_or(usize::MAX);
    units.push(bytes);
    units.sort_unstable();
    units.dedup();
    needed.sort_unstable();
    needed.dedup();
    let range = |unit: usize| {
        unit..units.get(units.partition_point(|other| *other <= unit)).copied().unwrap_or(bytes).min(bytes)
    };
    Ok(Some(needed.into_iter().map(range).filter(|range| range.start < range.end).collect()))
}

/// Some units of a section.
fn decompress_units<'data>(
    name: &'static str,
    data: CompressedData<'data>,
    units: &[Range<usize>],
) -> Result<Cow<'data, [u8]>, SectionError> {
    inflate::ranges(data.data, units).map(Cow::Owned).map_err(|what| SectionError::Damaged { section: name, what })
}

fn decompress<'data>(
    name: &'static str,
    data: Option<CompressedData<'data>>,
) -> Result<Cow<'data, [u8]>, SectionError> {
    let Some(data) = data else {
        return Ok(Cow::Borrowed(&[]));
    };
    data.decompress().map_err(|error| SectionError::Damaged { section: name, what: error.to_string() })
}
