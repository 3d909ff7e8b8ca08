//! Debug information, read for a batch of addresses: only the units that cover one are opened, and
//! of these only the entries with code are looked at.
//!
//! | file | what it knows |
//! |---|---|
//! | `units` | which units there are, and which cover an address |
//! | `address_tables` | the addresses of units, where they are listed |
//! | `root_ranges` | the addresses of a unit, without the rest of its root entry |
//! | `plan` | how to step over entries |
//! | `walk` | functions and inlined calls of a unit |
//! | `names` | what a function is called, and where it begins |
//! | `guide` | where in a unit functions and lines are described |
//! | `scopes` | the namespaces and types around an entry |
//! | `rows` | lines of a unit |
//! | `split` | the files of units that were split off |
//! | `line_program` | how a line program is run |

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
pub(crate) use names::{Function, Home, Names, Origin, is_mangled};
pub(crate) use rows::{Files, Row, rows};
pub(crate) use split::{SplitFiles, SplitFolders};
pub(crate) use units::{Root, Units};
pub(crate) use walk::{Call, Functions, walk, walk_guided};

pub(crate) type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
pub(crate) type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
pub(crate) type Unit<'a> = gimli::Unit<Reader<'a>>;
pub(crate) type UnitRef<'u, 'a> = gimli::UnitRef<'u, Reader<'a>>;
pub(crate) type UnitHeader<'a> = gimli::UnitHeader<Reader<'a>>;
pub(crate) type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;

/// Something in the debug information can't be. What was read before counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

impl From<gimli::Error> for Broken {
    fn from(_: gimli::Error) -> Self {
        Self
    }
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
    /// What is known of units by their offset.
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
        let reader = |section: &'a Cow<'a, [u8]>| EndianSlice::new(section, endian);
        let mut dwarf: Dwarf<'a> = sections.borrow(reader);
        if let Some(shared) = shared {
            dwarf.set_sup(shared.borrow(reader));
        }
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
