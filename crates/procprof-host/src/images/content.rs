//! The parts of an ELF file that unwinding needs: where its code is loaded, its `.eh_frame` and `.debug_frame`
//! sections, and Go's own table.
//!
//! Files are read, never mapped: a file that is cut short while it is mapped would end the reader by a signal.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection, ReadCache, ReadRef};
use procprof_process::{BuildId, Process};
use procprof_symbolize::GoTable;
use procprof_unwind::{Architecture, MAX_CODE_BYTES, Section, Source, search_table};

use super::debug_frame;
use super::go_frames::{self, GoCode};

/// Largest section that is read, in bytes.
const SECTION_BYTES_MAX: u64 = 512 << 20;
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
    eh_frame: Vec<u8>,
    eh_frame_address: u64,
    eh_frame_hdr: Vec<u8>,
    eh_frame_hdr_address: u64,
}

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
            Self::File(file) => Layout::read(&ReadCache::new(file)),
            Self::Memory(bytes) => Layout::read(&**bytes),
        }
    }

    /// Reads the unwind sections; one that can't be read is empty.
    pub(super) fn sections(&self, layout: &Layout) -> Sections {
        let mut sections = Sections {
            eh_frame: self.read(layout.eh_frame),
            eh_frame_address: layout.eh_frame.address,
            eh_frame_hdr: self.read(layout.eh_frame_hdr),
            eh_frame_hdr_address: layout.eh_frame_hdr.address,
        };
        // Of two entries for a function the first counts.
        if let Some(entries) = self.go_frames(layout) {
            sections.add(entries);
        }
        if layout.has_debug_frame {
            let entries = match self {
                Self::File(file) => debug_frame_of(&ReadCache::new(file)),
                Self::Memory(bytes) => debug_frame_of(&**bytes),
            };
            sections.add(debug_frame::as_eh_frame(entries.unwrap_or_default()));
        }
        sections.index();
        sections
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

    /// The entries of Go's code.
    fn go_frames(&self, layout: &Layout) -> Option<Vec<u8>> {
        self.with_go_table(layout, |table| {
            let text = table.text();
            let code = layout.code.iter().find_map(|segment| segment.part(&text)).map(|part| self.read(part));
            go_frames::as_eh_frame(table, &code.unwrap_or_default())
        })
    }

    fn with_go_table<T>(&self, layout: &Layout, with: impl FnOnce(&GoTable<'_>) -> T) -> Option<T> {
        if !layout.has_go_table {
            return None;
        }
        match self {
            Self::File(file) => {
                let data = ReadCache::new(file);
                let object = object::File::parse(&data).ok()?;
                GoTable::read(&object).map(|table| with(&table))
            }
            Self::Memory(_) => None,
        }
    }

    fn read(&self, part: Part) -> Vec<u8> {
        let read = match self {
            Self::File(file) => {
                let length = file.metadata().map_or(0, |metadata| metadata.len());
                let fits = part.size <= SECTION_BYTES_MAX && part.offset.saturating_add(part.size) <= length;
                let mut bytes = vec![0; if fits { part.size as usize } else { 0 }];
                file.read_exact_at(&mut bytes, part.offset).ok().map(|()| bytes)
            }
            Self::Memory(bytes) => {
                let start = usize::try_from(part.offset).ok();
                let end = usize::try_from(part.offset.saturating_add(part.size)).ok();
                start.zip(end).and_then(|(start, end)| bytes.get(start..end)).map(<[u8]>::to_vec)
            }
        };
        read.unwrap_or_default()
    }
}

impl Layout {
    fn read<'data>(data: impl ReadRef<'data>) -> Option<Self> {
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
    if range.uncompressed_size > SECTION_BYTES_MAX {
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
    /// Adds entries. The search table knows nothing of them; distances and absolute addresses stay true at another
    /// place.
    fn add(&mut self, entries: Vec<u8>) {
        self.eh_frame.truncate(debug_frame::entries_end(&self.eh_frame));
        self.eh_frame.extend(entries);
        self.eh_frame_hdr.clear();
    }

    pub(super) fn source(&self, architecture: Architecture) -> Source<'_> {
        Source::new(
            architecture,
            Section { bytes: &self.eh_frame, address: self.eh_frame_address },
            Section { bytes: &self.eh_frame_hdr, address: self.eh_frame_hdr_address },
        )
    }

    /// Makes the search table unless there is one: without it, each source would read all entries.
    fn index(&mut self) {
        let header = Section { bytes: &self.eh_frame_hdr, address: self.eh_frame_hdr_address };
        if header.has_search_table() {
            return;
        }
        let eh_frame = Section { bytes: &self.eh_frame, address: self.eh_frame_address };
        if let Some(table) = search_table(eh_frame, self.eh_frame_address) {
            (self.eh_frame_hdr, self.eh_frame_hdr_address) = (table, self.eh_frame_address);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.eh_frame.len() + self.eh_frame_hdr.len()
    }
}
