//! Runs a line program for its addresses, files, lines and columns only.
//!
//! Line programs are the larger part of what has to be read for a batch, and nearly every row is
//! thrown away, so they are decoded with as little as that takes: DWARF 5, section 6.2, without
//! statements, blocks, prologues, discriminators and instruction sets. Machines with several
//! operations an instruction (VLIW) are not decoded.

use gimli::LineProgramHeader;

use super::rows::Row;
use super::{Broken, Reader};

/// A program that is being run.
pub(super) struct LineProgram<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
    address_bytes: u8,
    opcode_base: u8,
    /// What each special opcode adds to address and line.
    special: Box<[(u64, i64)]>,
    /// What `DW_LNS_const_add_pc` adds to the address.
    const_add: u64,
    instruction_bytes: u64,
    /// How many operands the opcodes from 10 have.
    operands: &'a [u8],
    address: u64,
    file: u64,
    line: u64,
    column: u64,
    /// The linker took away the code of this sequence.
    is_dead: bool,
}

/// One row: where it begins, and its place in the source; `None` for the end of a sequence.
pub(super) struct LineRow {
    pub(super) address: u64,
    pub(super) place: Option<Row>,
}

impl<'a> LineProgram<'a> {
    /// Starts the program of a header. Errs if it can't be decoded here.
    pub(super) fn new(header: &LineProgramHeader<Reader<'a>>) -> Result<Self, Broken> {
        let line_range = header.line_range();
        if header.maximum_operations_per_instruction() > 1 || line_range == 0 {
            return Err(Broken);
        }
        let instruction_bytes = u64::from(header.minimum_instruction_length());
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
            is_dead: false,
        })
    }

    /// Where what was not run yet begins.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Goes on where a sequence begins.
    pub(super) fn go_to(&mut self, place: usize) {
        self.at = place;
        self.reset();
    }

    /// The next row; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<LineRow>, Broken> {
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
            if let Some(row) = row
                && !self.is_dead
            {
                if row.place.is_none() {
                    self.reset();
                }
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    fn row(&self) -> LineRow {
        let number = |number: u64| u32::try_from(number).unwrap_or(0);
        let place = Row { file: self.file, line: number(self.line), column: number(self.column) };
        LineRow { address: self.address, place: Some(place) }
    }

    fn reset(&mut self) {
        (self.address, self.file, self.line, self.column, self.is_dead) = (0, 1, 1, 0, false);
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
            4 => self.file = self.leb()?,
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
            1 if self.is_dead => self.reset(),
            1 => row = Some(LineRow { address: self.address, place: None }),
            // DW_LNE_set_address
            2 => {
                let address = self.number(self.address_bytes)?;
                let last = u64::MAX >> (64 - 8 * u32::from(self.address_bytes.clamp(1, 8)));
                // Linkers put 0, -1 or -2 where they took code away; 0 may also be an address, but
                // addresses ascend in a sequence.
                self.is_dead = address < self.address || address >= last - 1;
                if !self.is_dead {
                    self.address = address;
                }
            }
            // DW_LNE_define_file is of no use: what it defines has no place in the header.
            _ => {}
        }
        self.at = end;
        Ok(row)
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
