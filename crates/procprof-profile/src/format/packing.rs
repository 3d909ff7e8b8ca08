//! Packed profiles: gzip, zstd, xz or bzip2, recognized by the first bytes, one layer of it; and recordings of perf
//! with packed records, or in several files.
//!
//! Several members, frames or streams back to back are one text, as their tools read them; skippable frames of zstd are
//! skipped. The unpacked size is bounded, and so is the memory that a file can require: windows of zstd up to 128 MiB,
//! dictionaries of xz up to 64 MiB, as their tools write them by default.

mod perf_records;

pub(super) use self::perf_records::join as join_perf_files;

use std::cell::Cell;
use std::io::{self, BufRead, ErrorKind, Read};

use crate::{Error, Place, Result};

/// How much [`Packing::unpack_first`] unpacks.
const FIRST_BYTES: u64 = 64 << 10;
/// gzip packs no better than this.
const GZIP_RATIO_BEST: usize = 1032;
/// Most memory that unpacking xz may take, in KiB: its largest level takes 64 MiB and a little.
#[cfg(feature = "unpack")]
const XZ_MEMORY_MAX: u32 = 66 << 10;

/// A way to pack bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    /// A recording of `perf record -z`.
    PerfRecords,
}

impl Packing {
    /// How bytes are packed; `None` if they are not.
    pub(crate) fn from_first_bytes(bytes: &[u8]) -> Option<Packing> {
        match bytes {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            // A frame, or one to skip before it.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
            // The level, then the magic of a block or of the end.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, ..] => Some(Packing::Bzip2),
            _ if perf_records::is_packed(bytes) => Some(Packing::PerfRecords),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
            Packing::Xz => "xz",
            Packing::Bzip2 => "bzip2",
            Packing::PerfRecords => "perf-data",
        }
    }

    /// Unpacks everything, at most `limit` bytes.
    pub(crate) fn unpack(self, bytes: &[u8], limit: u64) -> Result<Vec<u8>> {
        if self == Packing::PerfRecords {
            return perf_records::unpack(bytes, limit);
        }
        let format = self.name();
        let mut out = Vec::with_capacity(self.expected_size(bytes, limit));
        let left = Cell::new(bytes.len());
        let mut unpacker = self.reader(Input { rest: bytes, left: &left })?;
        let read = unpacker.by_ref().take(limit.saturating_add(1)).read_to_end(&mut out);
        drop(unpacker);
        let place = Place::Offset(bytes.len() - left.get());
        match read {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(Error::Truncated { format, place, what: "packed data" });
            }
            Err(error) => return Err(Error::Malformed { format, place, what: error.to_string() }),
            Ok(_) => {}
        }
        if out.len() as u64 > limit {
            return Err(Error::TooLarge { format, what: "the unpacked size in bytes", limit });
        }
        if let Some(inner) = Packing::from_first_bytes(&out) {
            return Err(Error::Malformed {
                format,
                place: Place::Offset(0),
                what: format!("{} within {format}", inner.name()),
            });
        }
        Ok(out)
    }

    /// Unpacks the first 64 KiB, or as much of them as is there and sound.
    pub(crate) fn unpack_first(self, bytes: &[u8]) -> Vec<u8> {
        if self == Packing::PerfRecords {
            return bytes[..bytes.len().min(FIRST_BYTES as usize)].to_vec();
        }
        let mut out = Vec::new();
        let mut chunk = [0; 4096];
        let left = Cell::new(bytes.len());
        let Ok(unpacker) = self.reader(Input { rest: bytes, left: &left }) else { return out };
        let mut unpacker = unpacker.take(FIRST_BYTES);
        while let Ok(count @ 1..) = unpacker.read(&mut chunk) {
            out.extend_from_slice(&chunk[..count]);
        }
        out
    }

    #[cfg(feature = "unpack")]
    fn reader<'a>(self, input: Input<'a>) -> Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Packing::Zstd => Box::new(zstd::Frames::new(input)),
            Packing::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(input, true, XZ_MEMORY_MAX)),
            Packing::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
            // Not a packing of whole files.
            Packing::PerfRecords => Box::new(input),
        })
    }

    #[cfg(not(feature = "unpack"))]
    fn reader<'a>(self, input: Input<'a>) -> Result<Box<dyn Read + 'a>> {
        match self {
            Packing::Gzip => Ok(Box::new(flate2::bufread::MultiGzDecoder::new(input))),
            _ => Err(Error::Malformed {
                format: self.name(),
                place: Place::Offset(0),
                what: "built without a way to unpack this".to_owned(),
            }),
        }
    }

    /// The size that the last member of gzip has by its own word, as far as it is believable; of others nothing.
    fn expected_size(self, bytes: &[u8], limit: u64) -> usize {
        if self != Packing::Gzip {
            return 0;
        }
        let stated = bytes.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size) as usize);
        let believable = stated.min(bytes.len().saturating_mul(GZIP_RATIO_BEST));
        // One byte more lets the reader see the end without growing.
        believable.min(usize::try_from(limit).unwrap_or(usize::MAX)).saturating_add(1)
    }
}

/// The packed bytes; how many are left can be seen from outside.
struct Input<'a> {
    rest: &'a [u8],
    left: &'a Cell<usize>,
}

impl Read for Input<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(out)?;
        self.left.set(self.rest.len());
        Ok(count)
    }
}

impl BufRead for Input<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.rest)
    }

    fn consume(&mut self, count: usize) {
        self.rest.consume(count);
        self.left.set(self.rest.len());
    }
}

#[cfg(feature = "unpack")]
mod zstd {
    //! Frames of zstd, one behind the other.

    use std::io::{self, BufRead, Read};

    use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
    use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

    use super::Input;

    /// The unpacked content of all frames.
    pub(super) struct Frames<'a> {
        input: Input<'a>,
        decoder: FrameDecoder,
        is_open: bool,
    }

    impl<'a> Frames<'a> {
        pub(super) fn new(input: Input<'a>) -> Frames<'a> {
            Frames { input, decoder: FrameDecoder::new(), is_open: false }
        }

        /// Begins the next frame; false at the end of the input.
        fn open(&mut self) -> io::Result<bool> {
            while !self.input.rest.is_empty() {
                match self.decoder.reset(&mut self.input) {
                    Ok(()) => {
                        self.is_open = true;
                        return Ok(true);
                    }
                    Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                        length, ..
                    })) => {
                        let length = usize::try_from(length).unwrap_or(usize::MAX);
                        if length > self.input.rest.len() {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                        self.input.consume(length);
                    }
                    Err(error) => return Err(io::Error::other(error)),
                }
            }
            Ok(false)
        }

        /// Ends a frame whose bytes have all been read.
        fn close(&mut self) -> io::Result<()> {
            self.is_open = false;
            match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
                (Some(stated), Some(found)) if stated != found => {
                    Err(io::Error::other("the checksum does not fit the content"))
                }
                _ => Ok(()),
            }
        }
    }

    impl Read for Frames<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            loop {
                if !self.is_open && !self.open()? {
                    return Ok(0);
                }
                while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                    let blocks = BlockDecodingStrategy::UptoBlocks(1);
                    if let Err(error) = self.decoder.decode_blocks(&mut self.input, blocks) {
                        let is_at_end = self.input.rest.is_empty();
                        return Err(if is_at_end {
                            io::ErrorKind::UnexpectedEof.into()
                        } else {
                            io::Error::other(error)
                        });
                    }
                }
                match self.decoder.read(out)? {
                    0 if !out.is_empty() => self.close()?,
                    count => return Ok(count),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
