//! Runs a line program for its addresses, files, lines, columns and discriminators only: the one line reader, for our
//! own rules ([`rows`](super::rows())) and for those of binutils.
//!
//! Line programs are the largest part of what is read for a batch, and nearly every row is discarded, so only what is
//! needed is decoded: DWARF 5, section 6.2, without statements, blocks, prologues and instruction sets. Machines with
//! several operations per instruction (VLIW) are not supported.

use gimli::LineProgramHeader;

use super::rows::Row;
use super::{Broken, Reader};

/// A program that is being run.
pub(crate) struct LineProgram<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
    address_bytes: u8,
    opcode_base: u8,
    /// The advance of address and line by each special opcode.
    special: Box<[(u64, i64)]>,
    /// The advance of the address by `DW_LNS_const_add_pc`.
    const_add: u64,
    instruction_bytes: u64,
    /// The numbers of operands of the opcodes from 10.
    operands: &'a [u8],
    address: u64,
    file: u64,
    line: u64,
    column: u64,
    discriminator: u64,
    /// Whether a file was named in this sequence; otherwise, before version 5, it is the first one.
    is_file_set: bool,
    is_file_implied: bool,
    /// Whether this sequence has had a row.
    has_rows: bool,
    /// The linker removed the code of this sequence, or of the rest of it.
    is_dead: bool,
    /// The address that a sequence had reached before the removed rest of its code.
    reached: u64,
}

/// One row: where it begins, and its place in the source; `None` for the end of a sequence.
pub(crate) struct LineRow {
    pub(crate) address: u64,
    pub(crate) place: Option<Row>,
}

impl<'a> LineProgram<'a> {
    /// Starts the program of a header. Errs if it can't be decoded here.
    pub(crate) fn new(header: &LineProgramHeader<Reader<'a>>) -> Result<Self, Broken> {
        let line_range = header.line_range();
        if header.maximum_operations_per_instruction() > 1 || line_range == 0 {
            return Err(Broken);
        }
        let instruction_bytes = u64::from(header.minimum_instruction_length());
        let is_file_implied = header.version() < 5;
        let opcode_base = header.opcode_base();
        let special = |opcode: u8| {
            let adjusted = opcode - opcode_base;
            let address = u64::from(adjusted / line_range) * instruction_bytes;
            (address, i64::from(header.line_base()) + i64::from(adjusted % line_range))
        };
        let special: Box<[(u64, i64)]> = (opcode_base..=u8::MAX).map(special).collect();
        let program = header.raw_program_buf();
        Ok(Self {
            bytes: program.slice(),
            at: 0,
            big_endian: gimli::Reader::endian(&program) == gimli::RunTimeEndian::Big,
            address_bytes: header.address_size(),
            opcode_base,
            const_add: special.last().map_or(0, |(address, _)| *address),
            special,
            instruction_bytes,
            operands: header.standard_opcode_lengths().slice(),
            address: 0,
            file: 1,
            line: 1,
            column: 0,
            discriminator: 0,
            is_file_set: is_file_implied,
            is_file_implied,
            has_rows: false,
            is_dead: false,
            reached: 0,
        })
    }

    /// The start of the part that was not run yet.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Continues at the beginning of a sequence.
    pub(super) fn go_to(&mut self, place: usize) {
        self.at = place;
        self.reset();
    }

    /// The next row; `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<LineRow>, Broken> {
        self.discriminator = 0;
        while let Some(opcode) = self.bytes.get(self.at).copied() {
            self.at += 1;
            let row = if let Some(special) = opcode.checked_sub(self.opcode_base) {
                let (address, line) = self.special[usize::from(special)];
                self.address = self.address.wrapping_add(address);
                self.line = self.line.saturating_add_signed(line);
                Some(self.row())
            } else {
                self.standard(opcode)?
            };
            let Some(row) = row else { continue };
            if row.place.is_none() {
                self.reset();
                return Ok(Some(row));
            }
            if !self.is_dead {
                self.has_rows = true;
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The line of the last row, as wide as the program has it.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The discriminator of the last row; 0 for none.
    pub(crate) fn discriminator(&self) -> u64 {
        self.discriminator
    }

    /// Whether the program has named the file of the last row, and not left it to the default.
    pub(crate) fn is_file_set(&self) -> bool {
        self.is_file_set
    }

    fn row(&self) -> LineRow {
        let number = |number: u64| u32::try_from(number).unwrap_or(0);
        let place = Row { file: self.file, line: number(self.line), column: number(self.column) };
        LineRow { address: self.address, place: Some(place) }
    }

    fn reset(&mut self) {
        (self.address, self.file, self.line, self.column, self.is_dead) = (0, 1, 1, 0, false);
        (self.discriminator, self.is_file_set, self.has_rows) = (0, self.is_file_implied, false);
    }

    fn standard(&mut self, opcode: u8) -> Result<Option<LineRow>, Broken> {
        match opcode {
            0 => return self.extended(),
            // DW_LNS_copy
            1 => return Ok(Some(self.row())),
            // DW_LNS_advance_pc
            2 => {
                let advance = self.leb()?.wrapping_mul(self.instruction_bytes);
                self.address = self.address.wrapping_add(advance);
            }
            // DW_LNS_advance_line
            3 => {
                let advance = self.signed_leb()?;
                self.line = self.line.saturating_add_signed(advance);
            }
            // DW_LNS_set_file
            4 => {
                self.file = self.leb()?;
                self.is_file_set = true;
            }
            // DW_LNS_set_column
            5 => self.column = self.leb()?,
            // DW_LNS_negate_stmt, DW_LNS_set_basic_block, DW_LNS_set_prologue_end, DW_LNS_set_epilogue_begin
            6 | 7 | 10 | 11 => {}
            // DW_LNS_const_add_pc
            8 => self.address = self.address.wrapping_add(self.const_add),
            // DW_LNS_fixed_advance_pc
            9 => {
                let advance = self.number(2)?;
                self.address = self.address.wrapping_add(advance);
            }
            // DW_LNS_set_isa, and what later versions may add
            _ => {
                let operands = self.operands.get(usize::from(opcode) - 1).copied().unwrap_or(0);
                for _ in 0..operands {
                    self.leb()?;
                }
            }
        }
        Ok(None)
    }

    fn extended(&mut self) -> Result<Option<LineRow>, Broken> {
        let length = usize::try_from(self.leb()?).map_err(|_| Broken)?;
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len()).ok_or(Broken)?;
        let Some(opcode) = self.bytes[self.at..end].first().copied() else {
            return Ok(None);
        };
        self.at += 1;
        let mut row = None;
        match opcode {
            // DW_LNE_end_sequence
            // Rows before the removed code end where it begins.
            1 if self.is_dead && !self.has_rows => self.reset(),
            1 => row = Some(LineRow { address: self.reached(), place: None }),
            // DW_LNE_set_address
            2 => {
                let address = self.number(self.address_bytes)?;
                let last = u64::MAX >> (64 - 8 * u32::from(self.address_bytes.clamp(1, 8)));
                // Linkers write 0, -1 or -2 for removed code; 0 may also be an address, but addresses ascend in a
                // sequence.
                self.reached = self.reached();
                self.is_dead = address < self.reached || address >= last - 1;
                if !self.is_dead {
                    self.address = address;
                }
            }
            // DW_LNE_set_discriminator
            4 => self.discriminator = self.leb()?,
            // DW_LNE_define_file is ignored: what it defines has no place in the header.
            _ => {}
        }
        self.at = end;
        Ok(row)
    }

    /// The last address of the code that was not removed.
    fn reached(&self) -> u64 {
        if self.is_dead { self.reached } else { self.address }
    }

    fn number(&mut self, bytes: u8) -> Result<u64, Broken> {
        let end = self.at + usize::from(bytes);
        let bytes = self.bytes.get(self.at..end).filter(|bytes| bytes.len() <= 8).ok_or(Broken)?;
        self.at = end;
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(if self.big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
    }

    #[inline]
    fn leb(&mut self) -> Result<u64, Broken> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = *self.bytes.get(self.at).ok_or(Broken)?;
            self.at += 1;
            if shift < 64 {
                number |= u64::from(byte & 0x7f) << shift;
            }
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    #[inline]
    fn signed_leb(&mut self) -> Result<i64, Broken> {
        let (mut number, mut shift) = (0i64, 0);
        loop {
            let byte = *self.bytes.get(self.at).ok_or(Broken)?;
            self.at += 1;
            if shift < 64 {
                number |= i64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                let is_negative = byte & 0x40 != 0 && shift < 64;
                return Ok(if is_negative { number | (-1 << shift) } else { number });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gimli::{DebugLine, DebugLineOffset, EndianSlice, RunTimeEndian};

    use super::*;

    /// A header of version 4 with one file, as compilers write it, before a program.
    fn with_header(program: &[u8]) -> Vec<u8> {
        let lengths = [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
        let mut rest = vec![1, 1, 1, 0xfb, 14, 13];
        rest.extend(lengths);
        rest.extend(b"\0a.c\0\0\0\0\0");
        let mut unit = 4_u16.to_le_bytes().to_vec();
        unit.extend((rest.len() as u32).to_le_bytes());
        unit.extend(rest);
        unit.extend(program);
        [&(unit.len() as u32).to_le_bytes()[..], &unit].concat()
    }

    fn set_address(address: u64) -> Vec<u8> {
        [&[0, 9, 2][..], &address.to_le_bytes()].concat()
    }

    const COPY: u8 = 1;
    const END: [u8; 3] = [0, 1, 1];

    /// Address, line and discriminator of each row; `None` for the end of a sequence.
    fn rows(program: &[u8]) -> Vec<(u64, Option<(u64, u64)>)> {
        let bytes = with_header(program);
        let section = DebugLine::from(EndianSlice::new(&bytes, RunTimeEndian::Little));
        let program = section.program(DebugLineOffset(0), 8, None, None).unwrap();
        let mut program = LineProgram::new(program.header()).unwrap();
        let mut rows = Vec::new();
        while let Some(LineRow { address, place }) = program.next().unwrap() {
            rows.push((address, place.map(|_| (program.line(), program.discriminator()))));
        }
        rows
    }

    #[test]
    fn a_discriminator_is_of_one_row() {
        let discriminator = [0, 2, 4, 7];
        // Opcode 0x4b: four bytes and one line on.
        let program = [&set_address(0x1000)[..], &discriminator, &[COPY, 0x4b], &END].concat();
        assert_eq!(rows(&program), [(0x1000, Some((1, 7))), (0x1004, Some((2, 0))), (0x1004, None)]);
    }

    #[test]
    fn a_sequence_ends_where_its_code_was_taken_away() {
        let live = [&set_address(0x1000)[..], &[COPY, 0x4b], &set_address(0), &[COPY, 0x4b], &END].concat();
        let dead = [&set_address(u64::MAX)[..], &[COPY], &END].concat();
        let next = [&set_address(0x2000)[..], &[COPY], &END].concat();
        let expected = [(0x1000, Some((1, 0))), (0x1004, Some((2, 0))), (0x1004, None)];
        assert_eq!(rows(&live), expected);
        let all = rows(&[live, dead, next].concat());
        assert_eq!(all[..3], expected);
        assert_eq!(all[3..], [(0x2000, Some((1, 0))), (0x2000, None)]);
    }
}
