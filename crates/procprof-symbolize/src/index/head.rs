//! The head of an index: the file that it describes, and the places of its parts.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write as _};

use procprof_process::BuildId;

use super::encode::RawPart;
use crate::Error;
use crate::elf::{LayoutKey, Segment};
use crate::leb::{Malformed, Read, Write};

type Result<T, E = Error> = std::result::Result<T, E>;

const MAGIC: &[u8; 8] = b"procsyms";
const VERSION: u32 = 1;
/// Magic, version, bytes of the head, checksum of the head.
const FIXED_BYTES: usize = 20;
/// Largest part, decompressed, in bytes. Those made here have 2 MiB, more only for one function.
const PART_BYTES_MAX: u64 = 64 << 20;
/// Largest size of a part, in multiples of its stored bytes.
const GROWTH_MAX: u64 = 256;
/// The level of compression: higher ones take much longer and save a few per cent.
const ZSTD_LEVEL: i32 = 6;

/// The encoding of a stored part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Raw,
    Zstd,
}

/// The place of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartEntry {
    pub(super) begin: u64,
    /// Behind the last address it covers.
    pub(super) end: u64,
    codec: Codec,
    /// Its place in the file.
    place: usize,
    stored_bytes: usize,
    bytes: usize,
    checksum: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) is_complete: bool,
    pub(super) build_id: Option<BuildId>,
    pub(super) layout_key: LayoutKey,
    pub(super) file_name: String,
    pub(super) segments: Vec<Segment>,
    pub(super) parts: Vec<PartEntry>,
}

/// Most bytes of the head for a part.
const ENTRY_BYTES_MAX: usize = 4 * 10 + 1 + 4;

/// Writes an index part by part, so that none is kept in memory: space is reserved for the head, which is written last.
pub(super) struct IndexWriter<'f> {
    file: &'f mut File,
    head: Head,
    room: usize,
    parts_max: usize,
}

impl<'f> IndexWriter<'f> {
    /// Begins an index with that head and at most that many parts.
    pub(super) fn new(file: &'f mut File, head: Head, parts_max: usize) -> io::Result<Self> {
        let room = head.before(&[], 0).len() + ENTRY_BYTES_MAX * (parts_max + 1);
        file.seek(SeekFrom::Start(room as u64))?;
        Ok(Self { file, head, room, parts_max })
    }

    /// Adds a part; false when there are as many as there may be.
    pub(super) fn add(&mut self, part: &StoredPart<'_>) -> io::Result<bool> {
        if self.head.parts.len() == self.parts_max {
            return Ok(false);
        }
        part.pieces().try_for_each(|piece| self.file.write_all(piece))?;
        self.head.parts.push(part.entry.clone());
        Ok(true)
    }

    /// Writes the head; how many parts there are.
    pub(super) fn finish(self) -> io::Result<usize> {
        self.file.rewind()?;
        self.file.write_all(&self.head.before(&self.head.parts, self.room))?;
        Ok(self.head.parts.len())
    }
}

/// A part as it is stored.
pub(super) struct StoredPart<'p> {
    entry: PartEntry,
    pieces: Vec<Cow<'p, [u8]>>,
}

impl<'p> StoredPart<'p> {
    /// The bytes in the file, one piece behind the other.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| &**piece)
    }

    /// Stores a part as it is.
    pub(super) fn raw(part: &'p RawPart) -> Self {
        Self::new(part, Codec::Raw, part.pieces.iter().map(|piece| Cow::Borrowed(&**piece)).collect())
    }

    /// Stores a part compressed.
    pub(super) fn compressed(part: &'p RawPart) -> Result<Self> {
        let bytes = part.pieces.concat();
        let stored =
            zstd::bulk::compress(&bytes, ZSTD_LEVEL).map_err(|error| Error::Index { what: error.to_string() })?;
        // A part of nearly only repetitions is stored uncompressed, so that no valid part is refused.
        if bytes.len() as u64 / GROWTH_MAX >= stored.len() as u64 {
            return Ok(Self::raw(part));
        }
        Ok(Self::new(part, Codec::Zstd, vec![Cow::Owned(stored)]))
    }

    fn new(part: &RawPart, codec: Codec, pieces: Vec<Cow<'p, [u8]>>) -> Self {
        let mut checksum = crc32fast::Hasher::new();
        pieces.iter().for_each(|piece| checksum.update(piece));
        let entry = PartEntry {
            begin: part.begin,
            end: part.end,
            codec,
            place: 0,
            stored_bytes: pieces.iter().map(|piece| piece.len()).sum(),
            bytes: part.pieces.iter().map(Vec::len).sum(),
            checksum: checksum.finalize(),
        };
        Self { entry, pieces }
    }
}

impl Head {
    /// An index in one piece.
    pub(super) fn write(&self, parts: &[StoredPart<'_>]) -> Vec<u8> {
        let entries: Vec<PartEntry> = parts.iter().map(|part| part.entry.clone()).collect();
        let mut file = self.before(&entries, 0);
        parts.iter().flat_map(StoredPart::pieces).for_each(|piece| file.extend_from_slice(piece));
        file
    }

    /// The beginning of an index, padded with zeros to `least` bytes; the parts follow.
    fn before(&self, parts: &[PartEntry], least: usize) -> Vec<u8> {
        let mut head = Vec::new();
        head.number(u64::from(self.is_complete));
        head.bytes(self.build_id.as_ref().map_or(&[][..], BuildId::as_bytes));
        head.extend_from_slice(&self.layout_key.0);
        head.bytes(self.file_name.as_bytes());
        head.number(self.segments.len() as u64);
        for segment in &self.segments {
            for number in [
                segment.offset,
                segment.file_bytes,
                segment.address,
                segment.memory_bytes,
                u64::from(segment.executable),
            ] {
                head.number(number);
            }
        }
        head.number(parts.len() as u64);
        for entry in parts {
            let codec = u64::from(entry.codec == Codec::Zstd);
            for number in [entry.begin, entry.end - entry.begin, codec, entry.stored_bytes as u64, entry.bytes as u64] {
                head.number(number);
            }
            head.extend_from_slice(&entry.checksum.to_le_bytes());
        }
        head.resize(head.len().max(least.saturating_sub(FIXED_BYTES)), 0);
        let mut file = MAGIC.to_vec();
        for number in [VERSION, head.len() as u32, crc32fast::hash(&head)] {
            file.extend_from_slice(&number.to_le_bytes());
        }
        file.extend_from_slice(&head);
        file
    }

    /// The parts as they are stored in a file, less those that are broken.
    pub(super) fn stored<'p>(&self, file: &'p [u8]) -> impl Iterator<Item = StoredPart<'p>> {
        let stored = |part: &PartEntry| {
            Some(StoredPart { entry: part.clone(), pieces: vec![Cow::Borrowed(part.stored(file).ok()?)] })
        };
        self.parts.iter().filter_map(stored)
    }

    /// Reads the head of an index.
    pub(super) fn read(file: &[u8]) -> Result<Self> {
        let mut fixed = Read(file);
        if fixed.array::<8>().as_ref() != Ok(MAGIC) {
            return Err(error("not a symbol index"));
        }
        let mut number = || fixed.array().map(u32::from_le_bytes).map_err(|Malformed| error("cut short"));
        let (version, length, checksum) = (number()?, number()?, number()?);
        if version != VERSION {
            return Err(Error::Index { what: format!("version {version}; this procprof reads up to {VERSION}") });
        }
        let head = fixed.take(length as usize).map_err(|Malformed| error("cut short"))?;
        if crc32fast::hash(head) != checksum {
            return Err(error("wrong checksum of the head"));
        }
        let place = FIXED_BYTES + head.len();
        Self::parse(Read(head), place, file.len()).map_err(|Malformed| error("malformed head"))
    }

    fn parse(mut read: Read<'_>, first_place: usize, file_bytes: usize) -> Result<Self, Malformed> {
        let is_complete = read.number()? & 1 != 0;
        let build_id = BuildId::new(read.bytes()?);
        let layout_key = LayoutKey(read.array()?);
        let file_name = String::from_utf8_lossy(read.bytes()?).into_owned();
        let segment_count = read.count()?;
        let mut segments = Vec::with_capacity(segment_count);
        for _ in 0..segment_count {
            let mut next = || read.number();
            let (offset, file_bytes, address, memory_bytes) = (next()?, next()?, next()?, next()?);
            segments.push(Segment { offset, file_bytes, address, memory_bytes, executable: next()? != 0 });
        }
        let part_count = read.count()?;
        let mut parts = Vec::with_capacity(part_count);
        let mut place = first_place;
        for _ in 0..part_count {
            let part = PartEntry::parse(&mut read, place)?;
            place = place.checked_add(part.stored_bytes).filter(|end| *end <= file_bytes).ok_or(Malformed)?;
            parts.push(part);
        }
        Ok(Self { is_complete, build_id, layout_key, file_name, segments, parts })
    }
}

impl PartEntry {
    fn parse(read: &mut Read<'_>, place: usize) -> Result<Self, Malformed> {
        let begin = read.number()?;
        let end = begin.checked_add(read.number()?).ok_or(Malformed)?;
        let codec = match read.number()? {
            0 => Codec::Raw,
            1 => Codec::Zstd,
            _ => return Err(Malformed),
        };
        let (stored_bytes, bytes) = (read.number()?, read.number()?);
        let checksum = u32::from_le_bytes(read.array()?);
        let is_bounded = match codec {
            Codec::Raw => bytes == stored_bytes,
            Codec::Zstd => bytes <= PART_BYTES_MAX && bytes <= stored_bytes.saturating_mul(GROWTH_MAX),
        };
        let size = |bytes: u64| usize::try_from(bytes).map_err(|_| Malformed);
        let part = Self { begin, end, codec, place, stored_bytes: size(stored_bytes)?, bytes: size(bytes)?, checksum };
        if is_bounded { Ok(part) } else { Err(Malformed) }
    }

    /// The part as it is stored.
    fn stored<'a>(&self, file: &'a [u8]) -> Result<&'a [u8]> {
        let stored = file.get(self.place..).and_then(|rest| rest.get(..self.stored_bytes));
        let stored = stored.ok_or_else(|| error("cut short"))?;
        if crc32fast::hash(stored) == self.checksum { Ok(stored) } else { Err(error("wrong checksum of a part")) }
    }

    /// The part's own bytes.
    pub(super) fn decompressed<'a>(&self, file: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let stored = self.stored(file)?;
        match self.codec {
            Codec::Raw => Ok(Cow::Borrowed(stored)),
            Codec::Zstd => match zstd::bulk::decompress(stored, self.bytes) {
                Ok(bytes) if bytes.len() == self.bytes => Ok(Cow::Owned(bytes)),
                Ok(_) => Err(error("a part has not the size it claims")),
                Err(source) => Err(Error::Index { what: source.to_string() }),
            },
        }
    }
}

pub(super) fn error(what: &str) -> Error {
    Error::Index { what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let segments = vec![Segment { offset: 0, file_bytes: 1, address: 2, memory_bytes: 3, executable: true }];
        let (layout_key, file_name) = (LayoutKey([7; 16]), "server".to_owned());
        Head { is_complete: false, build_id: BuildId::new(b"id"), layout_key, file_name, segments, parts: Vec::new() }
    }

    /// The contents of the parts of an index.
    fn contents(file: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        let head = Head::read(file).unwrap();
        head.parts.iter().map(|part| (part.begin, part.end, part.decompressed(file).unwrap().into_owned())).collect()
    }

    #[test]
    fn written_part_by_part_an_index_has_the_same_parts_up_to_the_most() {
        let part = |number: u64| RawPart {
            begin: number << 56,
            end: u64::MAX - 1,
            pieces: vec![vec![number as u8; 300], vec![1]],
        };
        let parts: Vec<RawPart> = (0..200).map(part).collect();
        let whole = head().write(&parts.iter().map(StoredPart::raw).collect::<Vec<_>>());
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = IndexWriter::new(&mut file, head(), 150).unwrap();
        let added = parts.iter().filter(|part| writer.add(&StoredPart::raw(part)).unwrap()).count();
        assert_eq!((added, writer.finish().unwrap()), (150, 150));
        let mut written = Vec::new();
        file.rewind().unwrap();
        io::Read::read_to_end(&mut file, &mut written).unwrap();
        assert_eq!(contents(&written), contents(&whole)[..150]);
        assert_eq!(Head::read(&written).unwrap().segments, head().segments);
    }
}
