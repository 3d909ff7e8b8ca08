//! The entries of `.eh_frame`: a CIE has the common part of many functions, an FDE belongs to one function.
//!
//! ```text
//! entry  length u32 (0: end; 0xffffffff: a u64 follows), then so many bytes:
//! CIE    0 u32, version u8 (1 or 3), augmentation "zPLR\0" and the like, code alignment ULEB, data alignment SLEB,
//!        return address register (u8 in version 1, else ULEB), with 'z' a block for the letters, initial instructions
//! FDE    distance from here back to its CIE u32, first address and length in the CIE's encoding 'R', with 'z' a block, instructions
//! ```
//! Source: Linux Standard Base Core 5.0, 10.6 "Exception Frames".

use crate::pointer;
use crate::reader::Reader;
use std::ops::Range;

/// The common part of the functions of one CIE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cie<'a> {
    pub(crate) code_alignment: u64,
    pub(crate) data_alignment: i64,
    /// The column of the return address.
    pub(crate) return_register: u64,
    /// `DW_EH_PE_*` of code addresses.
    pub(crate) pointer_encoding: u8,
    /// The frames are made by the kernel for a signal: their caller's program counter is exact.
    pub(crate) is_signal: bool,
    has_augmentation: bool,
    pub(crate) instructions: Reader<'a>,
}

/// One function's entry.
#[derive(Clone, Debug)]
pub(crate) struct Fde<'a> {
    /// The addresses it covers; never empty.
    pub(crate) range: Range<u64>,
    pub(crate) instructions: Reader<'a>,
}

/// An entry before its kind is known: its body, and where in the section its first word after the length lies.
pub(crate) struct Body<'a> {
    pub(crate) reader: Reader<'a>,
    id_at: usize,
    /// The start of the next entry.
    pub(crate) next: usize,
}

/// The body of the entry at `offset`; `None` at the terminator and past the end.
pub(crate) fn body(section: &[u8], address: u64, offset: usize) -> Option<Body<'_>> {
    let mut reader = Reader::new(section.get(offset..)?, address.wrapping_add(offset as u64));
    let (mut length, mut header) = (u64::from(reader.u32()?), 4);
    if length == u64::from(u32::MAX) {
        (length, header) = (reader.u64()?, 12);
    }
    if length == 0 {
        return None;
    }
    let reader = reader.take(usize::try_from(length).ok()?)?;
    let id_at = offset + header;
    Some(Body { reader, id_at, next: id_at + reader.bytes().len() })
}

/// The start of the CIE of an FDE; `None` for a CIE.
pub(crate) fn cie_of(body: &mut Body<'_>) -> Option<Option<usize>> {
    let distance = body.reader.u32()? as usize;
    if distance == 0 {
        return Some(None);
    }
    body.id_at.checked_sub(distance).map(Some)
}

impl<'a> Cie<'a> {
    /// Parses the CIE at `offset`.
    pub(crate) fn parse(section: &'a [u8], address: u64, offset: usize) -> Option<Self> {
        let mut body = body(section, address, offset)?;
        if cie_of(&mut body)?.is_some() {
            return None;
        }
        let reader = &mut body.reader;
        let version = reader.u8()?;
        if !matches!(version, 1 | 3) {
            return None;
        }
        let length = reader.bytes().iter().position(|byte| *byte == 0)?;
        let letters = reader.take(length)?.bytes();
        reader.u8()?;
        let code_alignment = reader.unsigned()?;
        let data_alignment = reader.signed()?;
        let return_register = if version == 1 { u64::from(reader.u8()?) } else { reader.unsigned()? };
        let mut cie = Self {
            code_alignment,
            data_alignment,
            return_register,
            pointer_encoding: 0,
            is_signal: false,
            has_augmentation: false,
            instructions: *reader,
        };
        cie.augment(letters)?;
        Some(cie)
    }

    /// Applies the letters of the augmentation; an unknown one can't be skipped.
    fn augment(&mut self, letters: &[u8]) -> Option<()> {
        let Some((first, letters)) = letters.split_first() else { return Some(()) };
        if *first != b'z' {
            return None;
        }
        self.has_augmentation = true;
        let length = usize::try_from(self.instructions.unsigned()?).ok()?;
        let mut data = self.instructions.take(length)?;
        for letter in letters {
            match letter {
                b'R' => self.pointer_encoding = data.u8()?,
                b'S' => self.is_signal = true,
                b'L' => drop(data.u8()?),
                b'P' => {
                    let encoding = data.u8()?;
                    if encoding != pointer::OMIT {
                        pointer::raw(&mut data, encoding)?;
                    }
                }
                // AArch64: signed with key B; memory tagging. Neither changes where things are.
                b'B' | b'G' => {}
                _ => return None,
            }
        }
        Some(())
    }

    /// Parses the rest of an FDE of this CIE.
    pub(crate) fn fde(&self, mut reader: Reader<'a>) -> Option<Fde<'a>> {
        let start = pointer::read(&mut reader, self.pointer_encoding, None)?;
        let length = pointer::raw(&mut reader, self.pointer_encoding)?;
        let end = start.checked_add(length).filter(|end| *end > start)?;
        if self.has_augmentation {
            reader.block()?;
        }
        Some(Fde { range: start..end, instructions: reader })
    }
}
