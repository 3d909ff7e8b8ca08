//! The parts of an ELF file that unwinding needs: where its code is loaded, and its `.eh_frame` and `.debug_frame`
//! sections.
//!
//! Files are read, never mapped: a file that is cut short while it is mapped would end the reader by a signal.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection, ReadCache, ReadRef};
use procprof_process::{BuildId, Process};
use procprof_unwind::{Architecture, MAX_CODE_BYTES, Section, Source, search_table};

use super::debug_frame;

/// Largest section that is read, in bytes.
const SECTION_BYTES_MAX: u64 = 512 << 20;
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
        if layout.has_debug_frame {
            let entries = match self {
                Self::File(file) => debug_frame_of(&ReadCache::new(file)),
                Self::Memory(bytes) => debug_frame_of(&**bytes),
            };
            // The search table knows nothing of them. Distances and absolute addresses stay true at another place.
            sections.eh_frame.truncate(debug_frame::entries_end(&sections.eh_frame));
            sections.eh_frame.extend(debug_frame::as_eh_frame(entries.unwrap_or_default()));
            sections.eh_frame_hdr.clear();
        }
        sections.index();
        sections
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
        let sections = header.sections(endian, data).ok()?;
        if let Some((_, section)) = sections.section_by_name(endian, b".eh_frame")
            && let Some((offset, size)) = section.file_range(endian)
        {
            layout.eh_frame = Part { offset, address: section.sh_addr(endian), size };
        }
        layout.has_debug_frame = sections.section_by_name(endian, b".debug_frame").is_some();
        Some(layout)
    }

    /// From the first to the last address of code, as far as a table covers it; `None` without any.
    pub(super) fn code_range(&self) -> Option<Range<u64>> {
        let start = self.code.iter().map(|segment| segment.address).min()?;
        let end = self.code.iter().map(|segment| segment.address.saturating_add(segment.size)).max()?;
        let has_rules = self.eh_frame.size > 0 || self.has_debug_frame;
        (start < end && end - start <= MAX_CODE_BYTES && has_rules).then_some(start..end)
    }
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

impl Sections {
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
