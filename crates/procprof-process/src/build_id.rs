//! The build id of an ELF file or of an ELF image in a process's memory.
//!
//! The linker writes it as a note: name `GNU\0`, type 3, the id (20 bytes of a SHA-1, as a rule)
//! as its content. Notes are in `PT_NOTE` segments (loaded with the image) and `SHT_NOTE` sections
//! (still there in separate debug files, whose segments are empty).
//! Layout: [ELF](https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html), a note being
//! ```text
//! namesz u32, descsz u32, type u32, name (padded to 4), content (padded to 4)
//! 04000000    14000000    03000000  "GNU\0"             6f9b...
//! ```
//! Only the headers and the notes are read, never the whole file.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::str::FromStr;

/// Longest accepted build id, in bytes; linkers write 8 to 20, `--build-id=0x...` may be longer.
const BYTES_MAX: usize = 64;
/// Most program or section headers read of one file.
const HEADERS_MAX: u64 = 65_536;
/// Most bytes read of one note segment or section.
const NOTES_BYTES_MAX: u64 = 64 << 10;
/// Most note segments and sections that are read, each; real files have a handful.
const NOTES_MAX: usize = 64;

const NT_GNU_BUILD_ID: u32 = 3;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const SHT_NOTE: u32 = 7;

/// The identity that a linker gives to a binary: equal bytes mean equal binaries.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// Takes the bytes of a note; `None` if empty or longer than 64.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (1..=BYTES_MAX).contains(&bytes.len()).then(|| Self(bytes.to_vec()))
    }

    /// The id's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Finds the build id of an ELF file that is in memory as a whole; `None` if it has none, or if
    /// it is not a well-formed ELF file.
    pub fn of_bytes(elf: &[u8]) -> Option<Self> {
        let source = |offset, buffer: &mut [u8]| {
            let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
            let end = start.checked_add(buffer.len());
            let bytes = end.and_then(|end| elf.get(start..end));
            buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        };
        // Reading from memory fails in one way only: the file is shorter than its headers state.
        Elf::read(&source).and_then(|elf| elf.build_id()).ok().flatten()
    }

    /// Reads the build id of an open ELF file; `None` if it has none or is no ELF file.
    ///
    /// Errs if the file can't be read.
    pub fn of_file(file: &File) -> io::Result<Option<Self>> {
        let source = |offset, buffer: &mut [u8]| file.read_exact_at(buffer, offset);
        none_if_not_elf(Elf::read(&source).and_then(|elf| elf.build_id()))
    }

    /// Reads the build id of the image whose ELF header is mapped at `start` of `memory`
    /// (`/proc/PID/mem`); `None` if it has none or there is no ELF header there.
    pub(crate) fn of_image(memory: &File, start: u64) -> io::Result<Option<Self>> {
        let source = |offset: u64, buffer: &mut [u8]| {
            let address = start.checked_add(offset);
            let address = address.ok_or(io::ErrorKind::UnexpectedEof)?;
            memory.read_exact_at(buffer, address)
        };
        none_if_not_elf(Elf::read(&source).and_then(|elf| elf.build_id_in_memory()))
    }
}

/// A file that ends early or has no ELF header has no build id; all else is a failure to read.
fn none_if_not_elf(result: io::Result<Option<BuildId>>) -> io::Result<Option<BuildId>> {
    match result {
        Err(error) if is_malformed(&error) => Ok(None),
        other => other,
    }
}

fn is_malformed(error: &io::Error) -> bool {
    // An offset that no file has is an invalid argument to the kernel.
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput)
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// Text that is no build id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("build id {text:?}: expected 1 to 64 bytes in hex digits")]
pub struct ParseBuildIdError {
    text: String,
}

impl FromStr for BuildId {
    type Err = ParseBuildIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        let digits: Option<Vec<u32>> = text.as_bytes().iter().map(digit).collect();
        let bytes = digits.filter(|digits| digits.len() % 2 == 0).map(|digits| {
            let pairs = digits.chunks_exact(2);
            pairs.map(|pair| (pair[0] << 4 | pair[1]) as u8).collect::<Vec<u8>>()
        });
        let id = bytes.and_then(|bytes| Self::new(&bytes));
        id.ok_or_else(|| ParseBuildIdError { text: text.chars().take(2 * BYTES_MAX + 1).collect() })
    }
}

/// Fills the buffer with the bytes at an offset, or errs.
type ReadAt<'a> = &'a dyn Fn(u64, &mut [u8]) -> io::Result<()>;

/// The headers of an ELF file with the places of its notes.
struct Elf<'a> {
    source: ReadAt<'a>,
    class64: bool,
    little: bool,
    header: [u8; 64],
}

/// A segment or section: kind, place in the file, place in memory, size in the file.
struct Part {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl<'a> Elf<'a> {
    fn read(source: ReadAt<'a>) -> io::Result<Self> {
        let mut header = [0; 64];
        // A 32-bit header has 52 bytes; nothing of use is shorter than 64 with what follows.
        source(0, &mut header)?;
        let class64 = header[4] == 2;
        let little = header[5] == 1;
        if !header.starts_with(b"\x7fELF") || !(1..=2).contains(&header[4]) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { source, class64, little, header })
    }

    fn build_id(&self) -> io::Result<Option<BuildId>> {
        for part in self.segments()?.into_iter().chain(self.sections()?) {
            if let Some(id) = self.build_id_in(part.offset, part.size)? {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// As `build_id`, for an image laid out as the loader does: what the file has at `offset` is at
    /// `address` less the address of the first loaded segment.
    fn build_id_in_memory(&self) -> io::Result<Option<BuildId>> {
        let parts = self.headers_at(&PROGRAM_HEADERS)?;
        let first = parts.iter().find(|part| part.kind == PT_LOAD);
        let base = first.map_or(0, |part| part.address.wrapping_sub(part.offset));
        for part in parts.iter().filter(|part| part.kind == PT_NOTE).take(NOTES_MAX) {
            let place = part.address.wrapping_sub(base);
            if let Some(id) = self.build_id_in(place, part.size)? {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    fn segments(&self) -> io::Result<Vec<Part>> {
        let mut parts = self.headers_at(&PROGRAM_HEADERS)?;
        parts.retain(|part| part.kind == PT_NOTE);
        parts.truncate(NOTES_MAX);
        Ok(parts)
    }

    /// The note sections. A file cut after its segments, or stripped of section headers, has none.
    fn sections(&self) -> io::Result<Vec<Part>> {
        let mut parts = match self.headers_at(&SECTION_HEADERS) {
            Err(error) if is_malformed(&error) => return Ok(Vec::new()),
            result => result?,
        };
        parts.retain(|part| part.kind == SHT_NOTE);
        parts.truncate(NOTES_MAX);
        Ok(parts)
    }

    fn build_id_in(&self, place: u64, size: u64) -> io::Result<Option<BuildId>> {
        let mut notes = vec![0; size.min(NOTES_BYTES_MAX) as usize];
        match (self.source)(place, &mut notes) {
            Err(error) if is_malformed(&error) => Ok(None),
            result => result.map(|()| self.build_id_of_notes(&notes)),
        }
    }

    fn build_id_of_notes(&self, mut notes: &[u8]) -> Option<BuildId> {
        while notes.len() >= 12 {
            let name_size = self.number(notes, 0, 4)? as usize;
            let content_size = self.number(notes, 4, 4)? as usize;
            let kind = self.number(notes, 8, 4)? as u32;
            let content_start = 12usize.checked_add(name_size.checked_next_multiple_of(4)?)?;
            let content_end = content_start.checked_add(content_size)?;
            let name = notes.get(12..12usize.checked_add(name_size)?)?;
            if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
                return BuildId::new(notes.get(content_start..content_end)?);
            }
            notes = notes.get(content_end.checked_next_multiple_of(4)?..)?;
        }
        None
    }

    fn headers_at(&self, table: &HeaderTable) -> io::Result<Vec<Part>> {
        let fields = &table.fields[usize::from(self.class64)];
        let header = |(at, size)| self.number(&self.header, at, size).unwrap_or(0);
        let start = header(fields.table_offset);
        let count = header(fields.count).min(HEADERS_MAX);
        let mut parts = Vec::new();
        if start == 0 {
            return Ok(parts);
        }
        let mut entry = vec![0; fields.entry_size];
        for index in 0..count {
            let place = start.checked_add(index * fields.entry_size as u64);
            (self.source)(place.ok_or(io::ErrorKind::InvalidData)?, &mut entry)?;
            let field = |(at, size)| self.number(&entry, at, size).unwrap_or(0);
            parts.push(Part {
                kind: field(fields.kind) as u32,
                offset: field(fields.offset),
                address: field(fields.address),
                size: field(fields.size),
            });
        }
        Ok(parts)
    }

    /// The unsigned number of `size` bytes at `at`; `None` past the end.
    fn number(&self, bytes: &[u8], at: usize, size: usize) -> Option<u64> {
        let bytes = bytes.get(at..at + size)?;
        let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.little { bytes.iter().rev().fold(0, push) } else { bytes.iter().fold(0, push) })
    }
}

/// The places of the fields of a header table: `(offset, size)` in bytes, for 32 and 64 bit.
struct HeaderTable {
    fields: [HeaderFields; 2],
}

struct HeaderFields {
    table_offset: (usize, usize),
    count: (usize, usize),
    entry_size: usize,
    kind: (usize, usize),
    offset: (usize, usize),
    address: (usize, usize),
    size: (usize, usize),
}

const PROGRAM_HEADERS: HeaderTable = HeaderTable {
    fields: [
        HeaderFields {
            table_offset: (28, 4),
            count: (44, 2),
            entry_size: 32,
            kind: (0, 4),
            offset: (4, 4),
            address: (8, 4),
            size: (16, 4),
        },
        HeaderFields {
            table_offset: (32, 8),
            count: (56, 2),
            entry_size: 56,
            kind: (0, 4),
            offset: (8, 8),
            address: (16, 8),
            size: (32, 8),
        },
    ],
};

const SECTION_HEADERS: HeaderTable = HeaderTable {
    fields: [
        HeaderFields {
            table_offset: (32, 4),
            count: (48, 2),
            entry_size: 40,
            kind: (4, 4),
            offset: (16, 4),
            address: (12, 4),
            size: (20, 4),
        },
        HeaderFields {
            table_offset: (40, 8),
            count: (60, 2),
            entry_size: 64,
            kind: (4, 4),
            offset: (24, 8),
            address: (16, 8),
            size: (32, 8),
        },
    ],
};

#[cfg(test)]
mod tests;
