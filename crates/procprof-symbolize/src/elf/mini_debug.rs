//! The symbols that Fedora and related distributions leave in a stripped binary: `.gnu_debugdata`, an ELF file
//! compressed with xz that has the part of `.symtab` that `.dynsym` lacks.

use std::io::Read;

use lzma_rust2::XzReader;
use object::{File, Object, ObjectSection};

/// Most that the section may grow, in times its compressed size. Names and addresses shrink to a
/// third or so.
const GROWTH_MAX: u64 = 64;
/// Most memory for the decompressor, in KiB; it grows with the size of the dictionary in the file.
const DECODER_KILOBYTES_MAX: u32 = 128 << 10;

/// The file in the section; `None` if there is none, it is broken, or it is larger than `bytes_max`.
pub(crate) fn decompress(object: &File<'_>, bytes_max: u64) -> Option<Vec<u8>> {
    let compressed = object.section_by_name(".gnu_debugdata")?.data().ok()?;
    let limit = bytes_max.min((compressed.len() as u64).saturating_mul(GROWTH_MAX));
    let mut bytes = Vec::new();
    let decoder = u32::try_from(bytes_max >> 10).unwrap_or(u32::MAX).min(DECODER_KILOBYTES_MAX);
    let reader = XzReader::new_mem_limit(compressed, false, decoder);
    let read = reader.take(limit + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= limit).then_some(bytes)
}
