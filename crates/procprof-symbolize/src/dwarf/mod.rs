//! Debug information, read for a batch of addresses: only the units that cover one are opened, and
//! of these only the entries with code are looked at.
//!
//! | file | content |
//! |---|---|
//! | `units` | the units, and those that cover an address |
//! | `address_tables` | the addresses of units from `.debug_aranges` |
//! | `root_ranges` | the addresses of a unit, without the rest of its root entry |
//! | `plan` | how to step over entries |
//! | `walk` | functions and inlined calls of a unit |
//! | `names` | the name of a function, and where it begins |
//! | `guide` | where a unit describes functions and lines |
//! | `scopes` | the namespaces and types around an entry |
//! | `rows` | lines of a unit |
//! | `split` | the files of units that were split off |
//! | `line_program` | running line programs, for `rows` and the line table of `binutils` |

mod address_tables;
mod guide;
mod line_program;
mod names;
mod plan;
mod root_ranges;
mod rows;
mod scopes;
mod split;
mod units;
mod walk;

use std::borrow::Cow;

use gimli::{DwarfPackage, DwarfSections, EndianSlice, RunTimeEndian};

pub(crate) use guide::{Guide, Guides};
pub(crate) use line_program::{LineProgram, LineRow};
pub(crate) use names::{Function, Home, Names, Origin, needs_linker_name};
pub(crate) use rows::{Files, Row, rows};
pub(crate) use split::SplitFiles;
pub(crate) use units::{Root, Units};
pub(crate) use walk::{Call, Functions, walk, walk_guided};

pub(crate) type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
pub(crate) type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
pub(crate) type Unit<'a> = gimli::Unit<Reader<'a>>;
pub(crate) type UnitRef<'u, 'a> = gimli::UnitRef<'u, Reader<'a>>;
pub(crate) type UnitHeader<'a> = gimli::UnitHeader<Reader<'a>>;
pub(crate) type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;

/// The debug information is damaged. What was read before is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

impl From<gimli::Error> for Broken {
    fn from(_: gimli::Error) -> Self {
        Self
    }
}

/// The debug information in sections, with the parts that it shares with other files.
pub(crate) fn open<'a>(
    sections: &'a Sections<'a>,
    shared: Option<&'a Sections<'a>>,
    endian: RunTimeEndian,
) -> Dwarf<'a> {
    let reader = |section: &'a Cow<'a, [u8]>| EndianSlice::new(section, endian);
    let mut dwarf: Dwarf<'a> = sections.borrow(reader);
    if let Some(shared) = shared {
        dwarf.set_sup(shared.borrow(reader));
    }
    dwarf
}

/// The debug information of one image, indexed.
pub(crate) struct DebugInfo<'a> {
    pub(crate) dwarf: Dwarf<'a>,
    pub(crate) units: Units<'a>,
    /// The units of the file that parts are shared with.
    pub(crate) shared: Option<Units<'a>>,
    /// The parts that were split off, packaged.
    pub(crate) package: Option<DwarfPackage<Reader<'a>>>,
    /// The parts that were split off, each in its file.
    split_files: &'a SplitFiles,
    /// The units by their offset.
    pub(crate) guides: Guides<'a>,
}

impl<'a> DebugInfo<'a> {
    /// Indexes the units, on `threads` threads: all, or those that cover one of the addresses `wanted`,
    /// which ascend.
    pub(crate) fn new(
        sections: &'a Sections<'a>,
        shared: Option<&'a Sections<'a>>,
        split_files: &'a SplitFiles,
        endian: RunTimeEndian,
        wanted: Option<&[u64]>,
        threads: usize,
    ) -> Self {
        let dwarf = open(sections, shared, endian);
        let units = Units::with_ranges(&dwarf, wanted, threads);
        let shared = dwarf.sup.as_deref().map(Units::without_ranges);
        split_files.prepare(units.len());
        Self { dwarf, units, shared, package: None, split_files, guides: Guides::default() }
    }

    /// The unit that was split off from `root`, the unit with that number, if its package or file is
    /// there.
    pub(crate) fn split_off(&self, root: &Root<'a>, unit: usize) -> Option<SplitUnit<'a>> {
        let id = root.unit.dwo_id?;
        let packaged = self.package.as_ref().and_then(|package| package.find_cu(id, &self.dwarf).ok().flatten());
        let dwarf = packaged.or_else(|| self.split_files.open(&self.dwarf, root, unit))?;
        let mut split = split::find_unit(&dwarf, root)?;
        split.unit.copy_relocated_attributes(&root.unit);
        Some(SplitUnit { dwarf, root: split })
    }
}

/// A unit of its own debug information.
pub(crate) struct SplitUnit<'a> {
    pub(crate) dwarf: Dwarf<'a>,
    pub(crate) root: Root<'a>,
}
