//! The binary file of gperftools' CPU profiler.
//!
//! Words of 32 or 64 bits, of either byte order, known by the first eight bytes: a header of
//! `0, 3, 0, PERIOD, 0`, then records of `COUNT, DEPTH, PC…` up to one with pc 0, then text.

use super::ReadError;
use crate::stacks::{Pcs, Stacks};

/// Deepest stack.
pub(super) const DEPTH_MAX: u64 = 1 << 16;

/// Reads the records, with 1 subtracted from every address, and returns the memory map.
pub(super) fn read(bytes: &[u8], stacks: &mut Stacks, pcs: &mut Pcs) -> Result<String, ReadError> {
    let words = Words::new(bytes)?;
    let header = words.get(1).ok_or(ReadError::NotAProfile)?;
    if words.get(0) != Some(0) || !(3..=1 << 32).contains(&header) {
        return Err(ReadError::NotAProfile);
    }
    let mut at = 2 + header as usize;
    let mut stack = Vec::new();
    while let (Some(count), Some(depth)) = (words.get(at), words.get(at + 1)) {
        if depth > DEPTH_MAX {
            return Err(ReadError::TooDeep { depth, word: at + 1 });
        }
        at += 2;
        let end = at + depth as usize;
        if words.get(at) == Some(0) {
            at = end;
            break;
        }
        stack.clear();
        stack.extend((at..end).filter_map(|index| words.get(index)).map(|pc| pcs.id(pc.wrapping_sub(1))));
        stacks.add(&stack, count as f64);
        at = end;
    }
    let map = bytes.get(at.saturating_mul(words.size)..).unwrap_or_default();
    Ok(String::from_utf8_lossy(map).replace('\r', ""))
}

struct Words<'a> {
    bytes: &'a [u8],
    size: usize,
    is_big_endian: bool,
}

impl<'a> Words<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, ReadError> {
        let (first, second) = (bytes.get(..8).ok_or(ReadError::NotAProfile)?, bytes.get(8..16));
        let (size, is_big_endian) = match (first, second) {
            ([0, 0, 0, 0, 0, 0, 0, 0], Some([.., 0, 0, 0, 0])) => (8, false),
            ([0, 0, 0, 0, 0, 0, 0, 0], Some([0, 0, 0, 0, ..])) => (8, true),
            ([0, 0, 0, 0, 0, 0, 0, 0], _) => return Err(ReadError::NotAProfile),
            ([.., 0, 0], _) => (4, false),
            ([_, _, _, _, 0, 0, ..], _) => (4, true),
            _ => return Err(ReadError::NotAProfile),
        };
        Ok(Words { bytes, size, is_big_endian })
    }

    fn get(&self, index: usize) -> Option<u64> {
        let start = index.checked_mul(self.size)?;
        let word = self.bytes.get(start..start.checked_add(self.size)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.is_big_endian { word.iter().fold(0, add) } else { word.iter().rev().fold(0, add) })
    }
}
