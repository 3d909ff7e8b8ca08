//! An image opened for looking up: headers parsed, sections decompressed, units indexed.

use gimli::EndianSlice;

use crate::dwarf::{DebugInfo, Guides, SplitFiles};
use crate::elf::{ParsedImage, SectionError, mini_debug, sections};
use crate::options::Room;
use crate::{Image, Reason, workers};

/// An image with the headers of its files parsed.
pub(crate) struct Opened<'o, 'data, 'a> {
    pub(crate) main: &'o object::File<'data>,
    /// All files that have symbols.
    pub(crate) files: &'o [&'o object::File<'data>],
    pub(crate) info: Option<&'o DebugInfo<'a>>,
    /// Why existing debug information can't be read.
    pub(crate) unread: Option<Reason>,
}

/// Opens an image and calls the function with it; `None` if the binary itself is broken. All units of the debug
/// information are known, or those that cover one of `wanted`, which ascend.
pub(crate) fn with_opened<T>(
    image: &Image,
    wanted: Option<&[u64]>,
    guides: Guides<'_>,
    read: impl FnOnce(Option<Opened<'_, '_, '_>>) -> T,
) -> T {
    let Ok(parsed) = image.parsed() else {
        return read(None);
    };
    let (with_dwarf, endian) = (parsed.with_dwarf(), parsed.endian());
    let ParsedImage { main, debug, shared, package } = &parsed;
    let mut room = Room::new(image.memory.as_ref(), image.decompressed_bytes_max);
    let mini = if debug.is_none() { mini_debug::decompress(main, room.left()) } else { None };
    room.add(mini.as_ref().map_or(0, Vec::len));
    let mini = mini.as_deref().and_then(|bytes| object::File::parse(bytes).ok());
    let files: Vec<&object::File<'_>> = debug.iter().chain(&mini).chain([main]).collect();

    let sections = with_dwarf.map(|file| sections::load(file, room.left()));
    room.add(sections.iter().flatten().map(sections::owned_bytes).sum());
    let shared_sections = shared.as_ref().and_then(|file| sections::load(file, room.left()).ok());
    room.add(shared_sections.iter().map(sections::owned_bytes).sum());
    let package_sections = package.as_ref().and_then(|file| sections::load_package(file, room.left()).ok());
    room.add(package_sections.iter().map(sections::owned_package_bytes).sum());
    let split_files = SplitFiles::new(&image.split_folders, room.left());
    let mut info = match &sections {
        Some(Ok(sections)) => {
            Some(DebugInfo::new(sections, shared_sections.as_ref(), &split_files, endian, wanted, workers::threads()))
        }
        _ => None,
    };
    if let (Some(info), Some(sections)) = (&mut info, &package_sections) {
        info.package = sections.borrow(|section| EndianSlice::new(section, endian), EndianSlice::new(&[], endian)).ok();
    }
    if let Some(info) = &mut info {
        info.guides = guides;
    }
    room.add(info.as_ref().map_or(0, |info| info.units.held_bytes()));
    let unread = match &sections {
        Some(Err(SectionError::TooLarge { .. })) if image.memory.is_some() => Some(Reason::OverMemory),
        Some(Err(_)) => Some(Reason::Damaged),
        _ => None,
    };
    read(Some(Opened { main, files: &files, info: info.as_ref(), unread }))
}
