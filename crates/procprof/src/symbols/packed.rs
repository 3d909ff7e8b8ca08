//! Files as they are distributed: plain, or compressed with gzip, xz or zstd.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Largest file that comes out of a compressed one, in bytes.
const UNPACKED_MAX: u64 = 32 << 30;
/// Most memory that unpacking xz may take, in KiB.
const XZ_MEMORY_MAX: u32 = 1 << 20;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// It is not.
    Plain,
    Gzip,
    Xz,
    Zstd,
}

impl Packing {
    /// By the file's first bytes.
    pub(super) fn detect(path: &Path) -> io::Result<Packing> {
        let mut head = Vec::new();
        File::open(path)?.take(6).read_to_end(&mut head)?;
        Ok(match head.as_slice() {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            _ => Packing::Plain,
        })
    }

    /// The content of the file.
    pub(super) fn reader(self, file: File) -> io::Result<Box<dyn Read>> {
        let file = io::BufReader::new(file);
        Ok(match self {
            Packing::Plain => Box::new(file),
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
            Packing::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(file, true, XZ_MEMORY_MAX)),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(file)?),
        })
    }
}

/// A file open for reading: itself, or what came out of it, in a file without a name that goes away when it is closed.
pub(super) struct Unpacked {
    pub(super) file: File,
    /// The file's path, without the ending of what it was compressed with.
    pub(super) path: PathBuf,
}

/// Opens a file, compressed or not.
pub(super) fn open(path: &Path) -> Result<Unpacked> {
    let opening = || format!("open {}", path.display());
    let packing = Packing::detect(path).with_context(opening)?;
    let file = File::open(path).with_context(opening)?;
    if packing == Packing::Plain {
        return Ok(Unpacked { file, path: path.to_owned() });
    }
    let mut unpacked = tempfile::tempfile().context("make a file to unpack into")?;
    let unpacking = || format!("unpack {}", path.display());
    let copied = io::copy(&mut packing.reader(file).with_context(unpacking)?.take(UNPACKED_MAX + 1), &mut unpacked)
        .with_context(unpacking)?;
    ensure!(copied <= UNPACKED_MAX, "{}: more than {UNPACKED_MAX} bytes come out of it", path.display());
    unpacked.seek(SeekFrom::Start(0)).with_context(unpacking)?;
    let is_ending = path.extension().is_some_and(|ending| ["gz", "xz", "zst"].iter().any(|known| ending == *known));
    Ok(Unpacked { file: unpacked, path: if is_ending { path.with_extension("") } else { path.to_owned() } })
}
