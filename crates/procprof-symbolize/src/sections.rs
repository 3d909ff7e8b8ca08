//! The DWARF sections of a file, decompressed within limits.

use std::borrow::Cow;

use gimli::{DwarfPackageSections, DwarfSections, RunTimeEndian, SectionId};
use object::{CompressedData, CompressionFormat, File, Object, ObjectSection};

use crate::workers;

/// Most that a compressed section may claim to grow, in times its compressed size.
const GROWTH_MAX: u64 = 64;

/// Why sections can't be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SectionError {
    #[error("{section}: claims {claimed} bytes, more than is allowed")]
    TooLarge { section: &'static str, claimed: u64 },
    #[error("{section}: {what}")]
    Damaged { section: &'static str, what: String },
    #[error(transparent)]
    Index(#[from] gimli::Error),
}

/// What sections are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed<'w> {
    /// Functions and lines.
    All,
    /// Functions only.
    Functions,
    /// Functions at these addresses, which ascend. Of a compressed `.debug_info` only the beginning is
    /// decompressed, as far as the last unit that `.debug_aranges` has for one of them.
    FunctionsAt(&'w [u64]),
}

/// Loads the sections that looking up addresses needs; the others stay empty. Compressed ones are
/// decompressed by all processors.
pub(crate) fn load<'data>(file: &File<'data>, bytes_max: u64) -> Result<DwarfSections<Cow<'data, [u8]>>, SectionError> {
    load_needed(file, bytes_max, Needed::All)
}

/// As [`load`], for those that a purpose needs.
pub(crate) fn load_needed<'data>(
    file: &File<'data>,
    bytes_max: u64,
    needed: Needed<'_>,
) -> Result<DwarfSections<Cow<'data, [u8]>>, SectionError> {
    let is_needed = |id: &SectionId| needed == Needed::All || !matches!(id, SectionId::DebugLine | SectionId::DebugLineStr);
    let mut left = bytes_max;
    let mut raw = Vec::new();
    for id in NEEDED.into_iter().filter(is_needed) {
        raw.push((id, section(file, id.name(), &mut left)?));
    }
    let mut info_bytes = None;
    if let Needed::FunctionsAt(wanted) = needed {
        info_bytes = needed_info_bytes(&raw, file.is_little_endian(), wanted)?;
    }
    // The largest first: that one takes the longest.
    raw.sort_by_key(|(_, data)| std::cmp::Reverse(data.as_ref().map_or(0, |data| data.uncompressed_size)));
    let loaded = workers::run(raw.len(), workers::threads(), Vec::new, |loaded, index| {
        let (id, data) = raw[index];
        let section = match info_bytes.filter(|_| id == SectionId::DebugInfo).zip(data) {
            Some((bytes, data)) => decompress_beginning(id.name(), data, bytes),
            None => decompress(id.name(), data),
        };
        loaded.push((id, section));
    });
    let mut loaded: Vec<_> = loaded.into_iter().flatten().collect();
    DwarfSections::load(|id| match loaded.iter().position(|(loaded, _)| *loaded == id) {
        Some(position) => loaded.swap_remove(position).1,
        None => Ok(Cow::Borrowed(&[][..])),
    })
}

/// Loads all sections of a package (`.dwp`) of split off debug information: its index tells the part
/// of each that belongs to a unit, so none may be left out.
pub(crate) fn load_package<'data>(file: &File<'data>, bytes_max: u64) -> Result<DwarfPackageSections<Cow<'data, [u8]>>, SectionError> {
    let mut left = bytes_max;
    DwarfPackageSections::load(|id| match id.dwo_name() {
        Some(name) => decompress(name, section(file, name, &mut left)?),
        None => Ok(Cow::Borrowed(&[][..])),
    })
}

/// Copies the sections of a split off unit's file (`.dwo`) that looking up addresses needs; gives their
/// size, too. Errs if that is more than `bytes_max`.
pub(crate) fn load_dwo(file: &File<'_>, bytes_max: u64) -> Result<(DwarfSections<Vec<u8>>, u64), SectionError> {
    let mut left = bytes_max;
    let sections = DwarfSections::load(|id| {
        let Some(name) = id.dwo_name().filter(|_| NEEDED.contains(&id)) else {
            return Ok(Vec::new());
        };
        let compressed_left = left;
        let data = section(file, name, &mut left)?;
        // Those that are not compressed are copied, too.
        left = left.min(compressed_left.saturating_sub(data.as_ref().map_or(0, |data| data.uncompressed_size)));
        if left == 0 && bytes_max > 0 {
            return Err(SectionError::TooLarge { section: name, claimed: bytes_max });
        }
        decompress(name, data).map(Cow::into_owned)
    })?;
    Ok((sections, bytes_max - left))
}

/// Variables' places, macros and name tables are of no use here and often the larger part.
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

/// The section as it is in the file; its size, once decompressed, is taken off what is left.
fn section<'data>(file: &File<'data>, name: &'static str, left: &mut u64) -> Result<Option<CompressedData<'data>>, SectionError> {
    let Some(section) = file.section_by_name(name) else {
        return Ok(None);
    };
    let data = section.compressed_data().map_err(|error| SectionError::Damaged { section: name, what: error.to_string() })?;
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

/// How much of `.debug_info` has the units of the addresses; `None` if all of it is to be read.
fn needed_info_bytes(raw: &RawSections<'_>, is_little_endian: bool, wanted: &[u64]) -> Result<Option<usize>, SectionError> {
    let data = |id| raw.iter().find(|(own, _)| *own == id).and_then(|(_, data)| *data);
    let is_compressed = data(SectionId::DebugInfo).is_some_and(|data| data.format == CompressionFormat::Zlib);
    if !is_compressed {
        return Ok(None);
    }
    let tables = decompress(SectionId::DebugAranges.name(), data(SectionId::DebugAranges))?;
    let endian = if is_little_endian { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut units = Vec::new();
    let mut last = vec![None; wanted.len()];
    let tables = gimli::DebugAranges::new(&tables, endian);
    let mut headers = tables.headers();
    while let Ok(Some(header)) = headers.next() {
        let unit = header.debug_info_offset().0;
        units.push(unit);
        let mut entries = header.entries();
        while let Some(entry) = entries.next().transpose() {
            let Some(range) = entry.ok().map(|entry| entry.range()) else { continue };
            let first = wanted.partition_point(|address| *address < range.begin);
            let inside = wanted[first..].iter().take_while(|address| **address < range.end).count();
            last[first..first + inside].iter_mut().for_each(|last| *last = (*last).max(Some(unit)));
        }
    }
    // One that is in no table may be in a unit without one.
    let last = last.into_iter().collect::<Option<Vec<usize>>>().and_then(|units| units.into_iter().max());
    Ok(last.and_then(|last| units.into_iter().filter(|unit| *unit > last).min()))
}

/// The first `bytes` of a section.
fn decompress_beginning<'data>(name: &'static str, data: CompressedData<'data>, bytes: usize) -> Result<Cow<'data, [u8]>, SectionError> {
    let bytes = bytes.min(usize::try_from(data.uncompressed_size).unwrap_or(usize::MAX));
    let mut beginning = Vec::with_capacity(bytes);
    let inflated = flate2::Decompress::new(true).decompress_vec(data.data, &mut beginning, flate2::FlushDecompress::None);
    match inflated {
        Ok(_) if beginning.len() == bytes => Ok(Cow::Owned(beginning)),
        Ok(_) => Err(SectionError::Damaged { section: name, what: "cut short".to_owned() }),
        Err(error) => Err(SectionError::Damaged { section: name, what: error.to_string() }),
    }
}

fn decompress<'data>(name: &'static str, data: Option<CompressedData<'data>>) -> Result<Cow<'data, [u8]>, SectionError> {
    let Some(data) = data else {
        return Ok(Cow::Borrowed(&[]));
    };
    data.decompress().map_err(|error| SectionError::Damaged { section: name, what: error.to_string() })
}
