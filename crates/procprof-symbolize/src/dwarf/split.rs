//! Units that the compiler has split off into files of their own (`.dwo`).
//!
//! The remaining unit contains the file's name and the compilation folder. The binary's folder is also searched, in
//! case files were moved. A file is used if it has the unit's id; its sections are copied when the unit is first
//! needed.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gimli::{DwarfSections, EndianSlice, Reader as _};
use procprof_process::open_regular;

use super::{Dwarf, Reader, Root, UnitHeader};
use crate::elf::sections;
use crate::elf::{FileBytes, SplitFolders};

/// The split off units of one image, by the number of the unit they were split off from.
#[derive(Debug)]
pub(crate) struct SplitFiles {
    /// Folders to search besides the folder of compilation; none if no file may be opened.
    folders: Vec<PathBuf>,
    file_bytes_max: u64,
    /// The bytes of sections that may still be copied.
    bytes_left: AtomicU64,
    slots: OnceLock<Box<[Slot]>>,
}

/// `None` inside if there is no such file.
type Slot = OnceLock<Option<DwarfSections<Vec<u8>>>>;

impl SplitFiles {
    /// No file is opened yet; at most `bytes_max` bytes of sections are copied.
    pub(crate) fn new(folders: &SplitFolders, bytes_max: u64) -> Self {
        let SplitFolders { folders, file_bytes_max } = folders.clone();
        Self { folders, file_bytes_max, bytes_left: AtomicU64::new(bytes_max), slots: OnceLock::new() }
    }

    /// Reserves space for that many units.
    pub(super) fn prepare(&self, units: usize) {
        let wanted = if self.folders.is_empty() { 0 } else { units };
        // The second time, the space is there.
        let _ = self.slots.set((0..wanted).map(|_| Slot::new()).collect());
    }

    /// The debug information split off from `root`, the unit with that number of `main`.
    pub(super) fn open<'a>(&'a self, main: &Dwarf<'a>, root: &Root<'a>, unit: usize) -> Option<Dwarf<'a>> {
        let slot = self.slots.get()?.get(unit)?;
        let name = root.dwo_name?;
        let endian = name.endian();
        let sections = slot.get_or_init(|| self.read(main, root, &path_of(name))).as_ref()?;
        let mut dwarf: Dwarf<'a> = sections.borrow(|section| EndianSlice::new(section, endian));
        dwarf.make_dwo(main);
        Some(dwarf)
    }

    fn read(&self, main: &Dwarf<'_>, root: &Root<'_>, name: &Path) -> Option<DwarfSections<Vec<u8>>> {
        let compiled = root.unit.comp_dir.map(path_of);
        let places = compiled.iter().chain(&self.folders).map(|folder| folder.join(name));
        let last = name.file_name()?;
        places
            .chain(self.folders.iter().map(|folder| folder.join(last)))
            .find_map(|place| self.read_one(main, root, &place))
    }

    /// The sections of a file, if it has the unit.
    fn read_one(&self, main: &Dwarf<'_>, root: &Root<'_>, path: &Path) -> Option<DwarfSections<Vec<u8>>> {
        let file = open_regular(path).ok()?;
        let bytes = FileBytes::map(&file, path, self.file_bytes_max).ok()?;
        let object = object::File::parse(&*bytes).ok()?;
        let left = self.bytes_left.load(Ordering::Relaxed);
        let (sections, size) = sections::load_dwo(&object, left).ok()?;
        let endian = root.dwo_name?.endian();
        let mut dwarf: Dwarf<'_> = sections.borrow(|section| EndianSlice::new(section, endian));
        dwarf.make_dwo(main);
        find_unit(&dwarf, root)?;
        // Several threads may take the last of it at once: the bound is not exact.
        self.bytes_left.fetch_sub(size.min(left), Ordering::Relaxed);
        Some(sections)
    }
}

/// The unit of split off debug information that belongs to `root`, read.
pub(super) fn find_unit<'a>(dwarf: &Dwarf<'a>, root: &Root<'_>) -> Option<Root<'a>> {
    let wanted = root.unit.dwo_id?;
    let mut headers = dwarf.units();
    // Units of types may come first.
    while let Some(header) = headers.next().ok()? {
        let split = read_compilation(dwarf, header);
        if let Some(split) = split.filter(|split| split.unit.dwo_id == Some(wanted)) {
            return Some(split);
        }
    }
    None
}

fn read_compilation<'a>(dwarf: &Dwarf<'a>, header: UnitHeader<'a>) -> Option<Root<'a>> {
    let is_type = matches!(header.type_(), gimli::UnitType::Type { .. } | gimli::UnitType::SplitType { .. });
    if is_type { None } else { Root::read(dwarf, header).ok() }
}

fn path_of(text: Reader<'_>) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(text.slice()))
}
