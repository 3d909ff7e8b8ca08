//! The parts of an ELF file that unwinding needs: where its code is loaded, its `.eh_frame` and `.debug_frame`
//! sections, and Go's own table.
//!
//! Files are read, never mapped: a file that is cut short while it is mapped would end the reader by a signal. Sizes are
//! those that the file states, so each read has a limit, and `.eh_frame` is read as look-ups need it.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection, ReadCache, ReadRef};
use procprof_process::{BuildId, Process};
use procprof_symbolize::GoTable;
use procprof_unwind::{Architecture, MAX_CODE_BYTES, Section, Source, search_table};

use super::debug_frame;
use super::go_frames::{self, GoCode};
use super::limited_reads::LimitedReads;
use super::section_bytes::{PartialSection, SectionBytes};

/// Largest `.eh_frame` and `.eh_frame_hdr`, in bytes, of which parts are read as look-ups need them.
pub const SECTION_BYTES_MAX: u64 = 256 << 20;
/// Largest `.eh_frame` without a search table, in bytes: all its entries are read once to make one.
const UNINDEXED_BYTES_MAX: u64 = 32 << 20;
/// Most bytes of entries that are made of other sections, Go's and `.debug_frame`, and kept whole.
const MADE_BYTES_MAX: usize = 16 << 20;
/// Most bytes of headers of a file that are read, and most bytes of Go's table and of what leads to it.
const HEADER_BYTES_MAX: u64 = 1 << 20;
const TABLE_BYTES_MAX: u64 = 48 << 20;
/// Bytes of a function of Go that are read to find where it saves the frame pointer.
const PROLOGUE_BYTES: u64 = 256;
/// Most bytes of a function of Go that changes the stack.
const SWITCH_BYTES_MAX: u64 = 64 << 10;
/// Bytes of code that are read at once.
const CODE_BYTES: usize = 256 << 10;
/// Longest entry of an `.eh_frame`, and of one that others share, in bytes.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Most functions at the addresses of one look-up.
const FUNCTIONS_MAX: usize = 1 << 17;
/// Bytes of an `.eh_frame_hdr` before its table.
const EH_FRAME_HDR_START: u64 = 32;
/// Largest vdso, in bytes.
const VDSO_BYTES_MAX: u64 = 1 << 20;

/// The bytes of an image.
#[derive(Debug)]
pub(super) enum Content {
    File(File),
    Memory(Vec<u8>),
}

/// Where an image's parts are.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) architecture: Option<Architecture>,
    pub(super) code: Vec<CodeSegment>,
    eh_frame: Part,
    eh_frame_hdr: Part,
    has_debug_frame: bool,
    has_go_table: bool,
}

/// A loaded segment with code.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeSegment {
    /// Its place in the file.
    pub(super) offset: u64,
    /// Its address in the image.
    pub(super) address: u64,
    /// Its bytes in the file.
    pub(super) size: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    offset: u64,
    address: u64,
    size: u64,
}

/// The sections with unwind information.
#[derive(Debug)]
pub(super) struct Sections {
    eh_frame: SectionBytes,
    eh_frame_address: u64,
    eh_frame_hdr: SectionBytes,
    eh_frame_hdr_address: u64,
    /// When they were used last, by the count of uses, and the bytes that were counted for them then.
    pub(super) used: u64,
    pub(super) counted: usize,
}

/// A search table that was made of the entries of a file, and its address.
pub(super) type MadeTable = (Arc<[u8]>, u64);

impl Content {
    /// The vdso of this process: the same code as in every process of 64 bits.
    pub(super) fn own_vdso() -> Option<Self> {
        let maps = Process::current().ok()?.maps().ok()?;
        let range = maps.into_iter().find(|range| range.path.as_os_str() == "[vdso]")?;
        let length = range.limit.0.checked_sub(range.start.0).filter(|length| *length <= VDSO_BYTES_MAX)?;
        let mut bytes = vec![0; length as usize];
        File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, range.start.0).ok()?;
        Some(Self::Memory(bytes))
    }

    pub(super) fn build_id(&self) -> Option<BuildId> {
        match self {
            Self::File(file) => BuildId::of_file(file).ok().flatten(),
            Self::Memory(bytes) => BuildId::of_bytes(bytes),
        }
    }

    pub(super) fn file(&self) -> Option<&File> {
        match self {
            Self::File(file) => Some(file),
            Self::Memory(_) => None,
        }
    }

    pub(super) fn into_file(self) -> Option<File> {
        match self {
            Self::File(file) => Some(file),
            Self::Memory(_) => None,
        }
    }

    /// Reads the headers; `None` if it is no ELF file of 64 bits, or broken.
    pub(super) fn layout(&self) -> Option<Layout> {
        match self {
            Self::File(file) => {
                let (cache, left) = (ReadCache::new(file), Cell::new(HEADER_BYTES_MAX));
                let length = file.metadata().ok()?.len();
                Layout::read(LimitedReads::new(&cache, &left), length)
            }
            Self::Memory(bytes) => Layout::read(&**bytes, bytes.len() as u64),
        }
    }

    /// The unwind sections; one that can't be read is empty. A search table that was made before is used.
    pub(super) fn sections(&self, layout: &Layout, made: &mut Option<MadeTable>) -> Sections {
        let mut sections = Sections {
            eh_frame: self.section(layout.eh_frame),
            eh_frame_address: layout.eh_frame.address,
            eh_frame_hdr: self.section(layout.eh_frame_hdr),
            eh_frame_hdr_address: layout.eh_frame_hdr.address,
            used: 0,
            counted: 0,
        };
        sections.eh_frame_hdr.require_start(self.file(), EH_FRAME_HDR_START as usize);
        let entries = self.made_entries(layout);
        if !entries.is_empty()
            && let Some(eh_frame) = self.read(layout.eh_frame, (MADE_BYTES_MAX - entries.len()) as u64)
        {
            sections.eh_frame = SectionBytes::Whole(eh_frame);
            sections.add(entries);
        }
        sections.index(self, layout, made);
        sections
    }

    /// Entries made of Go's table and of `.debug_frame`, at most [`MADE_BYTES_MAX`].
    fn made_entries(&self, layout: &Layout) -> Vec<u8> {
        // Of two entries for a function the first counts.
        let mut entries = self.go_frames(layout).unwrap_or_default();
        if layout.has_debug_frame {
            let found = match self {
                Self::File(file) => {
                    let (cache, left) = (ReadCache::new(file), Cell::new(TABLE_BYTES_MAX));
                    debug_frame_of(LimitedReads::new(&cache, &left))
                }
                Self::Memory(bytes) => debug_frame_of(&**bytes),
            };
            let found = debug_frame::as_eh_frame(found.unwrap_or_default());
            if entries.len() + found.len() <= MADE_BYTES_MAX {
                entries.extend(found);
            }
        }
        entries
    }

    /// A section that is read as look-ups need it; empty if it is too large or beyond the end of the file.
    fn section(&self, part: Part) -> SectionBytes {
        match self {
            Self::File(file) => {
                let length = file.metadata().map_or(0, |metadata| metadata.len());
                let fits = part.size <= SECTION_BYTES_MAX && part.offset.saturating_add(part.size) <= length;
                let section = fits.then(|| PartialSection::new(part.offset, part.size as usize).ok());
                section.flatten().map_or_else(SectionBytes::default, SectionBytes::Partial)
            }
            Self::Memory(_) => SectionBytes::Whole(self.read(part, VDSO_BYTES_MAX).unwrap_or_default()),
        }
    }

    /// Reads up to so many bytes at a place in the image; their number.
    pub(super) fn read_at(&self, offset: u64, into: &mut [u8]) -> Option<usize> {
        match self {
            Self::File(file) => file.read_at(into, offset).ok(),
            Self::Memory(bytes) => {
                let rest = bytes.get(usize::try_from(offset).ok()?..)?;
                let length = rest.len().min(into.len());
                into.get_mut(..length)?.copy_from_slice(rest.get(..length)?);
                Some(length)
            }
        }
    }

    /// The code of Go; `None` if there is none of this machine whose table can be read.
    pub(super) fn go_code(&self, layout: &Layout) -> Option<GoCode> {
        self.with_go_table(layout, GoCode::new)
    }

    /// The bytes of code at an address.
    pub(super) fn code_bytes<const BYTES: usize>(&self, layout: &Layout, address: u64) -> Option<[u8; BYTES]> {
        let addresses = address..address.checked_add(BYTES as u64)?;
        let part = layout.code.iter().find_map(|segment| segment.part(&addresses))?;
        let mut bytes = [0; BYTES];
        self.file()?.read_exact_at(&mut bytes, part.offset).ok()?;
        Some(bytes)
    }

    /// The entries of Go's code; `None` if they are too many.
    fn go_frames(&self, layout: &Layout) -> Option<Vec<u8>> {
        let file = self.file()?;
        self.with_go_table(layout, |table| {
            let mut window = CodeWindow { start: 0, bytes: Vec::new() };
            let mut code = |function: &Range<u64>, is_whole: bool| {
                let most = if is_whole { SWITCH_BYTES_MAX } else { PROLOGUE_BYTES };
                let part = function.start..function.end.min(function.start.saturating_add(most));
                let place = layout.code.iter().find_map(|segment| segment.part(&part))?;
                window.read(file, place).map(<[u8]>::to_vec)
            };
            go_frames::as_eh_frame(table, MADE_BYTES_MAX, &mut code)
        })?
    }

    fn with_go_table<T>(&self, layout: &Layout, with: impl FnOnce(&GoTable<'_>) -> T) -> Option<T> {
        if !layout.has_go_table {
            return None;
        }
        match self {
            Self::File(file) => {
                let (cache, left) = (ReadCache::new(file), Cell::new(TABLE_BYTES_MAX));
                let object = object::File::parse(LimitedReads::new(&cache, &left)).ok()?;
                GoTable::read(&object).map(|table| with(&table))
            }
            Self::Memory(_) => None,
        }
    }

    /// All bytes of a part, if these are at most so many.
    fn read(&self, part: Part, bytes_max: u64) -> Option<Vec<u8>> {
        if part.size > bytes_max {
            return None;
        }
        match self {
            Self::File(file) => {
                let length = file.metadata().ok()?.len();
                let fits = part.offset.saturating_add(part.size) <= length;
                let mut bytes = vec![0; if fits { part.size as usize } else { 0 }];
                file.read_exact_at(&mut bytes, part.offset).ok().map(|()| bytes)
            }
            Self::Memory(bytes) => {
                let start = usize::try_from(part.offset).ok()?;
                let end = usize::try_from(part.offset.saturating_add(part.size)).ok()?;
                bytes.get(start..end).map(<[u8]>::to_vec)
            }
        }
    }
}

/// A piece of a file's code, from which functions that follow each other are read.
struct CodeWindow {
    start: u64,
    bytes: Vec<u8>,
}

impl CodeWindow {
    fn read(&mut self, file: &File, part: Part) -> Option<&[u8]> {
        let end = part.offset.checked_add(part.size)?;
        if part.offset < self.start || end > self.start + self.bytes.len() as u64 {
            self.start = part.offset;
            self.bytes.resize(CODE_BYTES, 0);
            let mut read = 0;
            while let Some(rest) = self.bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
                match file.read_at(rest, self.start.checked_add(read as u64)?).ok()? {
                    0 => break,
                    length => read += length,
                }
            }
            self.bytes.truncate(read);
        }
        let at = usize::try_from(part.offset - self.start).ok()?;
        self.bytes.get(at..at.checked_add(usize::try_from(part.size).ok()?)?)
    }
}

impl Layout {
    /// Reads the headers of a file of that length.
    fn read<'data>(data: impl ReadRef<'data>, length: u64) -> Option<Self> {
        let endian = LittleEndian;
        let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
        let architecture = match header.e_machine(endian) {
            elf::EM_X86_64 => Some(Architecture::X86_64),
            elf::EM_AARCH64 => Some(Architecture::Aarch64),
            _ => None,
        };
        let mut layout = Self { architecture, ..Self::default() };
        for segment in header.program_headers(endian, data).ok()? {
            let (offset, size) = segment.file_range(endian);
            let address = segment.p_vaddr(endian);
            match segment.p_type(endian) {
                elf::PT_LOAD if segment.p_flags(endian).contains(elf::PF_X) => {
                    // No more code than the file has.
                    let size = size.min(length.saturating_sub(offset));
                    layout.code.push(CodeSegment { offset, address, size });
                }
                elf::PT_GNU_EH_FRAME => layout.eh_frame_hdr = Part { offset, address, size },
                _ => {}
            }
        }
        // Without section headers, or where they lie, program headers have the place.
        let sections = header.sections(endian, data).unwrap_or_default();
        if let Some((_, section)) = sections.section_by_name(endian, b".eh_frame")
            && let Some((offset, size)) = section.file_range(endian)
        {
            layout.eh_frame = Part { offset, address: section.sh_addr(endian), size };
        } else {
            layout.eh_frame = eh_frame_by_header(&layout.eh_frame_hdr, header, data).unwrap_or_default();
        }
        layout.has_debug_frame = sections.section_by_name(endian, b".debug_frame").is_some();
        // On other machines the entries of Go's code are not known.
        layout.has_go_table = layout.architecture == Some(Architecture::X86_64)
            && [&b".gopclntab"[..], b".go.buildinfo"]
                .iter()
                .any(|name| sections.section_by_name(endian, name).is_some());
        Some(layout)
    }

    /// From the first to the last address of code, as far as a table covers it; `None` without any.
    pub(super) fn code_range(&self) -> Option<Range<u64>> {
        let start = self.code.iter().map(|segment| segment.address).min()?;
        let end = self.code.iter().map(|segment| segment.address.saturating_add(segment.size)).max()?;
        let has_rules = self.eh_frame.size > 0 || self.has_debug_frame || self.has_go_table;
        (start < end && end - start <= MAX_CODE_BYTES && has_rules).then_some(start..end)
    }
}

/// The `.eh_frame` that an `.eh_frame_hdr` names: up to the end of its segment, as its own end is not known.
fn eh_frame_by_header<'data>(
    eh_frame_hdr: &Part,
    header: &FileHeader64<LittleEndian>,
    data: impl ReadRef<'data>,
) -> Option<Part> {
    let bytes = data.read_bytes_at(eh_frame_hdr.offset, eh_frame_hdr.size.min(EH_FRAME_HDR_START)).ok()?;
    let address = Section { bytes, address: eh_frame_hdr.address }.eh_frame_address()?;
    header.program_headers(LittleEndian, data).ok()?.iter().find_map(|segment| {
        let (offset, size) = segment.file_range(LittleEndian);
        let distance = address.checked_sub(segment.p_vaddr(LittleEndian)).filter(|distance| *distance < size)?;
        let is_loaded = segment.p_type(LittleEndian) == elf::PT_LOAD;
        is_loaded.then_some(Part { offset: offset.checked_add(distance)?, address, size: size - distance })
    })
}

/// The `.debug_frame` section, decompressed.
fn debug_frame_of<'data>(data: impl ReadRef<'data>) -> Option<Vec<u8>> {
    let file = object::File::parse(data).ok()?;
    let section = file.section_by_name(".debug_frame")?;
    let range = section.compressed_file_range().ok()?;
    if range.uncompressed_size > MADE_BYTES_MAX as u64 {
        return None;
    }
    section.uncompressed_data().ok().map(std::borrow::Cow::into_owned)
}

impl CodeSegment {
    /// The part of the file with these addresses, if they are all in the segment.
    fn part(&self, addresses: &Range<u64>) -> Option<Part> {
        let into = addresses.start.checked_sub(self.address)?;
        let size = addresses.end.checked_sub(addresses.start)?;
        let is_inside = into.checked_add(size)? <= self.size;
        is_inside.then_some(Part { offset: self.offset + into, address: addresses.start, size })
    }
}

impl Sections {
    /// Adds entries to a section that is in memory as a whole. The search table knows nothing of them; distances and
    /// absolute addresses stay true at another place.
    fn add(&mut self, entries: Vec<u8>) {
        if let SectionBytes::Whole(eh_frame) = &mut self.eh_frame {
            eh_frame.truncate(debug_frame::entries_end(eh_frame));
            eh_frame.extend(entries);
            self.eh_frame_hdr = SectionBytes::default();
        }
    }

    pub(super) fn source(&self, architecture: Architecture) -> Source<'_> {
        Source::new(
            architecture,
            Section { bytes: &self.eh_frame, address: self.eh_frame_address },
            Section { bytes: &self.eh_frame_hdr, address: self.eh_frame_hdr_address },
        )
    }

    /// Makes the search table unless there is one: without it, each source would read all entries.
    fn index(&mut self, content: &Content, layout: &Layout, made: &mut Option<MadeTable>) {
        let header = Section { bytes: &self.eh_frame_hdr, address: self.eh_frame_hdr_address };
        if header.has_search_table() {
            return;
        }
        if made.is_none() {
            let whole = match &self.eh_frame {
                SectionBytes::Whole(_) => None,
                SectionBytes::Partial(_) => content.read(layout.eh_frame, UNINDEXED_BYTES_MAX),
            };
            let bytes = match (&whole, &self.eh_frame) {
                (Some(bytes), _) | (None, SectionBytes::Whole(bytes)) => bytes,
                (None, SectionBytes::Partial(_)) => &Vec::new(),
            };
            let eh_frame = Section { bytes, address: self.eh_frame_address };
            *made = search_table(eh_frame, self.eh_frame_address).map(|table| (table.into(), self.eh_frame_address));
        }
        match made {
            Some((table, address)) => {
                (self.eh_frame_hdr, self.eh_frame_hdr_address) = (SectionBytes::Whole(table.to_vec()), *address);
                // Without entries there is nothing that a source would find by reading all of the section.
                if !(Section { bytes: table, address: *address }).has_search_table() {
                    self.eh_frame = SectionBytes::default();
                }
            }
            None => self.eh_frame = SectionBytes::default(),
        }
    }

    /// Reads from the file what a look-up of functions at these addresses needs: the entries of the search table by
    /// which [`Source`] finds them, their own, and those that they share.
    pub(super) fn prepare(&mut self, file: Option<&File>, addresses: &Range<u64>) {
        if matches!((&self.eh_frame, &self.eh_frame_hdr), (SectionBytes::Whole(_), SectionBytes::Whole(_))) {
            return;
        }
        self.eh_frame.begin_look_up();
        self.eh_frame_hdr.begin_look_up();
        self.eh_frame_hdr.require_start(file, EH_FRAME_HDR_START as usize);
        let header = Section { bytes: &self.eh_frame_hdr, address: self.eh_frame_hdr_address };
        let Some(table) = header.search_table_place() else { return };
        let count = table.len() / 8;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.table_entry(file, &table, middle) {
                Some((start, _)) if start <= addresses.start => low = middle + 1,
                _ => high = middle,
            }
        }
        for position in (low.saturating_sub(1)..count).take(FUNCTIONS_MAX) {
            let Some((start, entry)) = self.table_entry(file, &table, position) else { break };
            if start >= addresses.end {
                break;
            }
            self.prepare_entry(file, entry);
        }
    }

    /// The first address of a function, and the place of its entry, by the search table.
    fn table_entry(&mut self, file: Option<&File>, table: &Range<usize>, position: usize) -> Option<(u64, usize)> {
        let at = table.start + position * 8;
        let [a, b, c, d, e, f, g, h] = *self.eh_frame_hdr.require(file, at..at + 8)?.first_chunk()?;
        let relative =
            |bytes| self.eh_frame_hdr_address.wrapping_add(i64::from(i32::from_le_bytes(bytes)).cast_unsigned());
        let place = relative([e, f, g, h]).wrapping_sub(self.eh_frame_address);
        Some((relative([a, b, c, d]), usize::try_from(place).ok()?))
    }

    /// Reads the entry of a function and the one that it shares with others.
    fn prepare_entry(&mut self, file: Option<&File>, at: usize) -> Option<()> {
        let (id_at, _) = self.require_entry(file, at)?;
        let id = self.eh_frame.require(file, id_at..id_at.checked_add(4)?)?.first_chunk()?;
        let distance = u32::from_le_bytes(*id) as usize;
        self.require_entry(file, id_at.checked_sub(distance)?).map(|_| ())
    }

    /// Reads an entry; the places of its id and of its end.
    fn require_entry(&mut self, file: Option<&File>, at: usize) -> Option<(usize, usize)> {
        let word = |bytes: &[u8]| bytes.first_chunk().map(|word| u32::from_le_bytes(*word));
        let (mut length, mut id_at) =
            (word(self.eh_frame.require(file, at..at.checked_add(4)?)?)? as usize, at.checked_add(4)?);
        if length == u32::MAX as usize {
            let bytes = self.eh_frame.require(file, id_at..id_at.checked_add(8)?)?.first_chunk()?;
            (length, id_at) = (usize::try_from(u64::from_le_bytes(*bytes)).ok()?, id_at.checked_add(8)?);
        }
        let end = id_at.checked_add(length).filter(|_| length <= ENTRY_BYTES_MAX)?;
        self.eh_frame.require(file, id_at..end)?;
        Some((id_at, end))
    }

    pub(super) fn bytes(&self) -> usize {
        self.eh_frame.memory() + self.eh_frame_hdr.memory()
    }
}
