//! The DWARF sections of a file, decompressed within limits.

use std::borrow::Cow;

use gimli::{DwarfPackageSections, DwarfSections, SectionId};
use object::{CompressionFormat, File, Object, ObjectSection};

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

/// Loads the sections that looking up addresses needs; the others stay empty.
pub(crate) fn load<'data>(file: &File<'data>, bytes_max: u64) -> Result<DwarfSections<Cow<'data, [u8]>>, SectionError> {
    let mut left = bytes_max;
    DwarfSections::load(|id| if is_needed(id) { section(file, id.name(), &mut left) } else { Ok(Cow::Borrowed(&[][..])) })
}

/// Loads all sections of a package (`.dwp`) of split off debug information: its index tells the part
/// of each that belongs to a unit, so none may be left out.
pub(crate) fn load_package<'data>(file: &File<'data>, bytes_max: u64) -> Result<DwarfPackageSections<Cow<'data, [u8]>>, SectionError> {
    let mut left = bytes_max;
    DwarfPackageSections::load(|id| match id.dwo_name() {
        Some(name) => section(file, name, &mut left),
        None => Ok(Cow::Borrowed(&[][..])),
    })
}

/// Variables' places, macros and name tables are of no use here and often the larger part.
fn is_needed(id: SectionId) -> bool {
    matches!(
        id,
        SectionId::DebugAbbrev
            | SectionId::DebugAddr
            | SectionId::DebugAranges
            | SectionId::DebugInfo
            | SectionId::DebugLine
            | SectionId::DebugLineStr
            | SectionId::DebugRanges
            | SectionId::DebugRngLists
            | SectionId::DebugStr
            | SectionId::DebugStrOffsets
            | SectionId::DebugTypes
    )
}

fn section<'data>(file: &File<'data>, name: &'static str, left: &mut u64) -> Result<Cow<'data, [u8]>, SectionError> {
    let damaged = |error: object::Error| SectionError::Damaged { section: name, what: error.to_string() };
    let Some(section) = file.section_by_name(name) else {
        return Ok(Cow::Borrowed(&[]));
    };
    let compressed = section.compressed_data().map_err(damaged)?;
    if compressed.format != CompressionFormat::None {
        let claimed = compressed.uncompressed_size;
        let growth = (compressed.data.len() as u64).saturating_mul(GROWTH_MAX);
        if claimed > growth || claimed > *left {
            return Err(SectionError::TooLarge { section: name, claimed });
        }
        *left -= claimed;
    }
    compressed.decompress().map_err(damaged)
}
