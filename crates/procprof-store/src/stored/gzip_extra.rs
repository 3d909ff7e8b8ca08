//! Facts in the header of a gzip file, which every reader of gzip skips (RFC 1952, section 2.3.1, FEXTRA).
//!
//! ```text
//! 1f 8b 08 FLG MTIME(4) XFL OS [XLEN(2) (SI1 SI2 LEN(2) data)*] [name 0] [comment 0] [crc(2)] deflate…
//! ```
//! The store writes two fields, `pf` (facts as JSON) and `ps` (the thumbnail). So a catalog is rebuilt from the first
//! few KiB of every file. They repeat the profile's comments, and add values computed from its samples.

use std::ops::Range;

use crate::{Error, Result};

/// Largest sum of the extra fields: XLEN has 16 bits.
pub(crate) const EXTRA_MAX: usize = 60_000;
const FACTS: [u8; 2] = *b"pf";
const THUMBNAIL: [u8; 2] = *b"ps";
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
const FIXED: usize = 10;
const FLAG_CRC: u8 = 2;
const FLAG_EXTRA: u8 = 4;
const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;

/// Facts and thumbnail of a file's first bytes; `None` if they are missing or truncated.
pub(crate) fn read(head: &[u8]) -> Option<(&[u8], &[u8])> {
    let extra = head.get(header(head)?.extra)?;
    Some((field(extra, FACTS)?, field(extra, THUMBNAIL).unwrap_or(&[])))
}

/// The number of first bytes of the file that [`read`] needs, from at least 12 of them.
pub(crate) fn needed(head: &[u8]) -> Option<usize> {
    if !head.starts_with(&MAGIC) || head.get(3)? & FLAG_EXTRA == 0 {
        return None;
    }
    Some(FIXED + 2 + usize::from(u16_at(head, FIXED)?))
}

/// A header that carries the facts, to be followed by [`body`] of the same file.
pub(crate) fn compose(facts: &[u8], thumbnail: &[u8]) -> Result<Vec<u8>> {
    let size = facts.len() + thumbnail.len() + 8;
    if size > EXTRA_MAX {
        return Err(Error::TooLarge {
            what: "facts and summary of the profile".to_owned(),
            bytes: size as u64,
            limit: EXTRA_MAX as u64,
        });
    }
    let mut header = Vec::with_capacity(FIXED + 2 + size);
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&[FLAG_EXTRA, 0, 0, 0, 0, 0, 255]);
    header.extend_from_slice(&(size as u16).to_le_bytes());
    for (id, data) in [(FACTS, facts), (THUMBNAIL, thumbnail)] {
        header.extend_from_slice(&id);
        header.extend_from_slice(&(data.len() as u16).to_le_bytes());
        header.extend_from_slice(data);
    }
    Ok(header)
}

/// The part after the header of a gzip file.
pub(crate) fn body(file: &[u8]) -> Option<&[u8]> {
    file.get(header(file)?.len..)
}

struct Header {
    len: usize,
    extra: Range<usize>,
}

fn header(file: &[u8]) -> Option<Header> {
    let flags = *file.get(3).filter(|_| file.starts_with(&MAGIC))?;
    let mut len = FIXED;
    let mut extra = FIXED..FIXED;
    if flags & FLAG_EXTRA != 0 {
        extra = FIXED + 2..FIXED + 2 + usize::from(u16_at(file, FIXED)?);
        len = extra.end;
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            len += file.get(len..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    if flags & FLAG_CRC != 0 {
        len += 2;
    }
    Some(Header { len, extra })
}

fn field(mut extra: &[u8], id: [u8; 2]) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16_at(extra, 2)?);
        let data = extra.get(4..4 + len)?;
        if extra.starts_with(&id) {
            return Some(data);
        }
        extra = &extra[4 + len..];
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

#[cfg(test)]
mod tests;
