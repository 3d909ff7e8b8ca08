//! Call frame instructions (`DW_CFA_*`), run one by one over the state of a row.
//!
//! A [`Row`] says which columns are kept: those of a compact rule, or all. The rest is decoded and dropped.
//! Source: DWARF 5, 6.4.2 and 7.24; `DW_CFA_GNU_*` from the Linux Standard Base; `DW_CFA_AARCH64_*` from the AArch64
//! DWARF ABI.

use crate::Architecture;
use crate::entry::{Cie, Fde};
use crate::pointer;
use crate::reader::Reader;
use crate::rule::Packed;
use crate::state::{Column, Definition, Row, State};

/// States that may be remembered at once; compilers use one or two.
const MAX_REMEMBERED: usize = 16;

/// A CIE with its initial instructions run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared<'a, R = State<'a>> {
    pub(crate) cie: Cie<'a>,
    initial: R,
    architecture: Architecture,
}

impl<'a, R: Row<'a>> Prepared<'a, R> {
    pub(crate) fn new(cie: Cie<'a>, architecture: Architecture) -> Option<Self> {
        let mut prepared = Self { cie, initial: R::new(architecture, cie.return_register), architecture };
        let mut machine = Machine::new(&prepared);
        let mut reader = cie.instructions;
        while !reader.is_empty() {
            // A CIE applies to every address, so an advance in it has no meaning.
            if machine.run(&mut reader)? != Effect::State {
                return None;
            }
        }
        prepared.initial = machine.state;
        Some(prepared)
    }

    /// Hands each row of a function to `row`: where it begins, by rising address from the function's start; `row`
    /// returns whether it takes more.
    ///
    /// When an instruction can't be understood, the last row is `None`; the rows up to there are right, and the rest of
    /// the function is unsupported.
    pub(crate) fn states(&self, fde: &Fde<'a>, mut row: impl FnMut(u64, Option<&R>) -> bool) {
        let mut machine = Machine::new(self);
        machine.at = fde.range.start;
        let mut reader = fde.instructions;
        let mut begin = machine.at;
        while !reader.is_empty() {
            match machine.run(&mut reader) {
                Some(Effect::State) => {}
                Some(Effect::Advance) if machine.at > begin => {
                    if !row(begin, Some(&machine.state)) {
                        return;
                    }
                    begin = machine.at;
                    if begin >= fde.range.end {
                        return;
                    }
                }
                Some(Effect::Advance) => {}
                None => {
                    row(begin, None);
                    return;
                }
            }
        }
        row(begin, Some(&machine.state));
    }

    /// The row at an address of a function; `None` if an instruction before it can't be understood.
    pub(crate) fn state_at(&self, fde: &Fde<'a>, address: u64) -> Option<R> {
        let mut found = None;
        self.states(fde, |begin, state| {
            if begin <= address {
                found = state.copied();
            }
            begin <= address
        });
        found
    }
}

impl<'a> Prepared<'a> {
    /// Hands each row of a function to `row`: where it begins and its rule, by rising address from the function's
    /// start.
    ///
    /// False when an instruction can't be understood; the rows up to there are right, and the rest of the function is
    /// unsupported.
    pub(crate) fn rows(&self, fde: &Fde<'a>, mut row: impl FnMut(u64, Packed)) -> bool {
        let mut is_whole = true;
        self.states(fde, |begin, state| {
            is_whole = state.is_some();
            row(begin, state.map_or(Packed::UNSUPPORTED, |state| state.packed(&self.cie, self.architecture)));
            true
        });
        is_whole
    }
}

/// The effect of an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    State,
    Advance,
}

struct Machine<'p, 'a, R> {
    prepared: &'p Prepared<'a, R>,
    state: R,
    at: u64,
    remembered: [R; MAX_REMEMBERED],
    depth: usize,
}

impl<'p, 'a, R: Row<'a>> Machine<'p, 'a, R> {
    fn new(prepared: &'p Prepared<'a, R>) -> Self {
        let state = prepared.initial;
        Self { prepared, state, at: 0, remembered: [state; MAX_REMEMBERED], depth: 0 }
    }

    /// Runs the next instruction; `None` when it is unknown, cut short, or makes no sense here.
    #[inline]
    fn run(&mut self, reader: &mut Reader<'a>) -> Option<Effect> {
        let byte = reader.u8()?;
        let operand = u64::from(byte & 0x3f);
        match byte >> 6 {
            1 => return self.advance(operand),
            2 => {
                let offset = self.unsigned_factored(reader)?;
                self.set(operand, Column::BelowCfa(offset));
            }
            3 => self.restore(operand),
            _ => return self.extended(byte, reader),
        }
        Some(Effect::State)
    }

    fn extended(&mut self, operation: u8, reader: &mut Reader<'a>) -> Option<Effect> {
        match operation {
            0x00 => {} // nop
            0x01 => return self.set_location(reader),
            0x02 => return self.advance(u64::from(reader.u8()?)),
            0x03 => return self.advance(u64::from(reader.u16()?)),
            0x04 => return self.advance(u64::from(reader.u32()?)),
            0x05 => self.set_from(reader, |machine, reader| machine.unsigned_factored(reader).map(Column::BelowCfa))?,
            0x06 => self.restore(reader.unsigned()?),
            0x07 => self.set_from(reader, |_, _| Some(Column::Undefined))?,
            0x08 => self.set_from(reader, |_, _| Some(Column::Same))?,
            0x09 => self.set_from(reader, |_, reader| reader.unsigned().map(Column::Register))?,
            0x0a => self.remember()?,
            0x0b => self.recall()?,
            0x0c => {
                let register = reader.unsigned()?;
                *self.state.cfa_mut() = Definition::Offset(register, i64::try_from(reader.unsigned()?).ok()?);
            }
            0x0d => self.redefine(|_, offset, reader| Some((reader.unsigned()?, offset)), reader)?,
            0x0e => {
                self.redefine(|register, _, reader| Some((register, i64::try_from(reader.unsigned()?).ok()?)), reader)?
            }
            0x0f => *self.state.cfa_mut() = Definition::Expression(reader.block()?),
            0x10 => self.set_from(reader, |_, reader| reader.block().map(Column::At))?,
            0x11 => self.set_from(reader, |machine, reader| machine.signed_factored(reader).map(Column::BelowCfa))?,
            0x12 => {
                let register = reader.unsigned()?;
                *self.state.cfa_mut() = Definition::Offset(register, self.signed_factored(reader)?);
            }
            0x13 => {
                let offset = self.signed_factored(reader)?;
                self.redefine(|register, _, _| Some((register, offset)), reader)?;
            }
            0x14 => self.set_from(reader, |machine, reader| machine.unsigned_factored(reader).map(Column::CfaPlus))?,
            0x15 => self.set_from(reader, |machine, reader| machine.signed_factored(reader).map(Column::CfaPlus))?,
            0x16 => self.set_from(reader, |_, reader| reader.block().map(Column::Value))?,
            // Return addresses are signed or not from here on: a step strips the signature from whatever it finds.
            0x2c | 0x2d if self.prepared.architecture == Architecture::Aarch64 => {}
            0x2e => drop(reader.unsigned()?), // size of pushed arguments, for exceptions
            0x2f => self.set_from(reader, |machine, reader| {
                Some(Column::BelowCfa(machine.unsigned_factored(reader)?.wrapping_neg()))
            })?,
            _ => return None,
        }
        Some(Effect::State)
    }

    #[inline]
    fn advance(&mut self, units: u64) -> Option<Effect> {
        self.at = self.at.checked_add(units.checked_mul(self.prepared.cie.code_alignment)?)?;
        Some(Effect::Advance)
    }

    fn set_location(&mut self, reader: &mut Reader<'a>) -> Option<Effect> {
        self.at =
            pointer::read(reader, self.prepared.cie.pointer_encoding, None).filter(|location| *location >= self.at)?;
        Some(Effect::Advance)
    }

    #[inline]
    fn unsigned_factored(&self, reader: &mut Reader<'a>) -> Option<i64> {
        Some((reader.unsigned()? as i64).wrapping_mul(self.prepared.cie.data_alignment))
    }

    fn signed_factored(&self, reader: &mut Reader<'a>) -> Option<i64> {
        Some(reader.signed()?.wrapping_mul(self.prepared.cie.data_alignment))
    }

    #[inline]
    fn set(&mut self, register: u64, column: Column<'a>) {
        if let Some(kept) = self.state.column_mut(register) {
            *kept = column;
        }
    }

    fn set_from(
        &mut self,
        reader: &mut Reader<'a>,
        column: impl Fn(&Self, &mut Reader<'a>) -> Option<Column<'a>>,
    ) -> Option<()> {
        let register = reader.unsigned()?;
        let column = column(self, reader)?;
        self.set(register, column);
        Some(())
    }

    fn restore(&mut self, register: u64) {
        let mut initial = self.prepared.initial;
        if let Some(column) = initial.column_mut(register) {
            self.set(register, *column);
        }
    }

    fn remember(&mut self) -> Option<()> {
        *self.remembered.get_mut(self.depth)? = self.state;
        self.depth += 1;
        Some(())
    }

    fn recall(&mut self) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        self.state = *self.remembered.get(self.depth)?;
        Some(())
    }

    /// Changes half of a CFA that is a register and an offset.
    fn redefine(
        &mut self,
        change: impl Fn(u64, i64, &mut Reader<'a>) -> Option<(u64, i64)>,
        reader: &mut Reader<'a>,
    ) -> Option<()> {
        let Definition::Offset(register, offset) = *self.state.cfa_mut() else { return None };
        let (register, offset) = change(register, offset, reader)?;
        *self.state.cfa_mut() = Definition::Offset(register, offset);
        Some(())
    }
}
