//! One step by all that an entry states: every register, every expression. For the frames whose rule a compact table
//! can't express.
//!
//! It reads the sections again at each step, so it takes about a microsecond; it allocates, and is not for signal
//! handlers.

use crate::entry::Cie;
use crate::evaluate::{Context, evaluate};
use crate::instruction::Prepared;
use crate::source::Source;
use crate::state::{Column, Definition, Row};
use crate::step::{Lost, aarch64_signal};
use crate::{Architecture, entry};

/// The registers of x86-64, with the return address, and of AArch64, with the stack pointer.
const REGISTERS: usize = 32;

/// The registers of a frame as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The interrupted instruction, or where the callee will return to.
    pub pc: u64,
    /// Whether `pc` is a return address: the call is the instruction before it.
    pub is_return: bool,
    known: u32,
    values: [u64; REGISTERS],
}

/// A caller found by all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its registers.
    pub registers: Registers,
    /// The first address of the callee's function.
    pub function: u64,
    /// Whether the callee is a signal frame: the caller was interrupted, and may have another stack.
    pub is_signal: bool,
}

/// Why there is no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCaller {
    /// The thread started in this frame.
    Root,
    /// No entry covers the address.
    NoEntry,
    /// The caller can't be found.
    Lost(Lost),
}

impl Registers {
    /// Registers of which the program counter alone is known.
    pub fn new(pc: u64, is_return: bool) -> Self {
        Self { pc, is_return, ..Self::default() }
    }

    /// A register by its DWARF number; `None` if it is not known.
    pub fn get(&self, number: u64) -> Option<u64> {
        let place = usize::try_from(number).ok()?;
        self.values.get(place).filter(|_| self.known >> place & 1 != 0).copied()
    }

    /// Sets a register by its DWARF number; `None` makes it unknown.
    pub fn set(&mut self, number: u64, value: Option<u64>) {
        let place = usize::try_from(number).unwrap_or(REGISTERS);
        if let Some(kept) = self.values.get_mut(place) {
            *kept = value.unwrap_or(0);
            self.known = self.known & !(1 << place) | u32::from(value.is_some()) << place;
        }
    }

    /// The stack pointer.
    pub fn sp(&self, architecture: Architecture) -> Option<u64> {
        self.get(architecture.stack_pointer())
    }

    /// The frame pointer; any value in code that uses the register for data.
    pub fn fp(&self, architecture: Architecture) -> Option<u64> {
        self.get(architecture.frame_pointer())
    }

    /// The registers of a caller of which no table tells: stack and frame pointer, and what callees keep.
    pub fn caller(&self, architecture: Architecture, pc: u64, sp: u64, fp: Option<u64>) -> Self {
        let mut caller = Self::new(pc, true);
        for number in (0..REGISTERS as u64).filter(|number| architecture.is_callee_saved(*number)) {
            caller.set(number, self.get(number));
        }
        caller.set(architecture.frame_pointer(), fp);
        caller.set(architecture.stack_pointer(), Some(sp));
        caller
    }

    /// The address whose rule is the frame's: of a return address the byte before.
    pub fn lookup(&self) -> u64 {
        self.pc.wrapping_sub(u64::from(self.is_return))
    }
}

/// A row with all columns.
#[derive(Clone, Copy)]
struct FullRow<'a> {
    cfa: Definition<'a>,
    return_register: u64,
    columns: [Column<'a>; REGISTERS],
}

impl<'a> Row<'a> for FullRow<'a> {
    fn new(_: Architecture, return_register: u64) -> Self {
        Self { cfa: Definition::Undefined, return_register, columns: [Column::Default; REGISTERS] }
    }

    fn cfa_mut(&mut self) -> &mut Definition<'a> {
        &mut self.cfa
    }

    fn column_mut(&mut self, register: u64) -> Option<&mut Column<'a>> {
        self.columns.get_mut(usize::try_from(register).ok()?)
    }
}

impl Source<'_> {
    /// Steps from a frame to its caller by the entry of its function; `bias` is the distance of the process's addresses
    /// from those of the module. `read` returns the word at an address of the process.
    ///
    /// The caller's stack pointer may be any: the caller of this function checks that it rises.
    ///
    /// # Errors
    /// Why there is no caller.
    pub fn caller(
        &self,
        registers: &Registers,
        bias: u64,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<Caller, NoCaller> {
        let address = registers.lookup().wrapping_sub(bias);
        let (fde, cie) = self.function_at(address).ok_or(NoCaller::NoEntry)?;
        let function = fde.range.start.wrapping_add(bias);
        let row =
            Prepared::<FullRow<'_>>::new(cie, self.architecture).and_then(|prepared| prepared.state_at(&fde, address));
        let row = row.ok_or(NoCaller::Lost(Lost::Unsupported))?;
        let mut frame = Frame { architecture: self.architecture, registers, read };
        let registers = frame.caller(&row, cie.is_signal).map_err(NoCaller::Lost)?.ok_or(NoCaller::Root)?;
        Ok(Caller { registers, function, is_signal: cie.is_signal })
    }

    /// The addresses, in the module, of the function at an address of the module.
    pub fn function(&self, address: u64) -> Option<std::ops::Range<u64>> {
        self.function_at(address).map(|(fde, _)| fde.range)
    }

    /// The entry of the function at an address of the module, and its CIE.
    fn function_at(&self, address: u64) -> Option<(entry::Fde<'_>, Cie<'_>)> {
        let (_, offset) = self.entries_from(address).next()?;
        let (fde, cie) = self.entry_at(offset)?;
        fde.range.contains(&address).then_some((fde, cie))
    }
}

/// A frame whose caller is looked for.
struct Frame<'r> {
    architecture: Architecture,
    registers: &'r Registers,
    read: &'r mut dyn FnMut(u64) -> Option<u64>,
}

impl Context for Frame<'_> {
    fn register(&self, number: u64) -> Option<u64> {
        match self.architecture {
            Architecture::X86_64 if number == self.architecture.return_address() => Some(self.registers.pc),
            _ => self.registers.get(number),
        }
    }

    fn read(&mut self, address: u64) -> Option<u64> {
        (self.read)(address)
    }
}

impl Frame<'_> {
    /// The caller; `None` if there is none.
    fn caller(&mut self, row: &FullRow<'_>, is_signal: bool) -> Result<Option<Registers>, Lost> {
        let return_column = row.columns.get(row.return_register as usize).copied().unwrap_or(Column::Undefined);
        if return_column == Column::Undefined {
            return Ok(None);
        }
        if is_signal && self.architecture == Architecture::Aarch64 {
            return self.interrupted().map(Some).ok_or(Lost::OutsideStack);
        }
        let cfa = self.cfa(row)?;
        let mut caller = Registers::new(0, !is_signal);
        for (number, column) in (0_u64..).zip(row.columns) {
            caller.set(number, self.value(number, column, cfa, row).unwrap_or(None));
        }
        let sp = self.architecture.stack_pointer();
        if row.columns.get(sp as usize).is_none_or(|column| *column == Column::Default) {
            caller.set(sp, Some(cfa));
        }
        let pc = self.value(row.return_register, return_column, cfa, row)?.ok_or(Lost::Unsupported)?;
        caller.pc = self.architecture.code_address(pc);
        Ok(Some(caller))
    }

    fn cfa(&mut self, row: &FullRow<'_>) -> Result<u64, Lost> {
        match row.cfa {
            Definition::Undefined => Err(Lost::Unsupported),
            Definition::Offset(register, offset) => {
                self.register(register).map(|value| value.wrapping_add_signed(offset)).ok_or(Lost::Unsupported)
            }
            Definition::Expression(block) => self.evaluated(block, None),
        }
    }

    /// The value of a register in the caller; `None` if it is not known there.
    fn value(&mut self, number: u64, column: Column<'_>, cfa: u64, row: &FullRow<'_>) -> Result<Option<u64>, Lost> {
        let load = |frame: &mut Self, address| frame.read(address).map(Some).ok_or(Lost::OutsideStack);
        match column {
            Column::Undefined => Ok(None),
            Column::Default => Ok(self.registers.get(number).filter(|_| self.keeps(number))),
            Column::Same => Ok(self.registers.get(number)),
            Column::BelowCfa(offset) if is_popped(row.cfa, offset, self.architecture) && self.keeps(number) => {
                Ok(self.registers.get(number))
            }
            Column::BelowCfa(offset) => load(self, cfa.wrapping_add_signed(offset)),
            Column::CfaPlus(offset) => Ok(Some(cfa.wrapping_add_signed(offset))),
            Column::Register(other) => Ok(self.registers.get(other)),
            Column::At(block) => {
                let address = self.evaluated(block, Some(cfa))?;
                load(self, address)
            }
            Column::Value(block) => self.evaluated(block, Some(cfa)).map(Some),
        }
    }

    /// Whether a register of which nothing is stated has the same value in the caller.
    fn keeps(&self, number: u64) -> bool {
        let is_link = self.architecture == Architecture::Aarch64 && number == self.architecture.return_address();
        self.architecture.is_callee_saved(number) || (is_link && !self.registers.is_return)
    }

    fn evaluated(&mut self, block: &[u8], initial: Option<u64>) -> Result<u64, Lost> {
        let mut misses = Noting { frame: self, has_missed: false };
        let value = evaluate(block, initial, &mut misses);
        let lost = if misses.has_missed { Lost::OutsideStack } else { Lost::Unsupported };
        value.ok_or(lost)
    }

    /// The registers that the kernel of AArch64 saved when it called a signal handler; its table does not state all.
    fn interrupted(&mut self) -> Option<Registers> {
        let sp = self.registers.sp(self.architecture)?;
        let mut word = |offset: u64| (self.read)(sp.wrapping_add(offset));
        let mut registers = Registers::new(word(aarch64_signal::PC)?, false);
        for number in 0..REGISTERS as u64 {
            registers.set(number, Some(word(aarch64_signal::FIRST + 8 * number)?));
        }
        Some(registers)
    }
}

/// Notes whether an expression failed because of memory.
struct Noting<'f, 'r> {
    frame: &'f mut Frame<'r>,
    has_missed: bool,
}

impl Context for Noting<'_, '_> {
    fn register(&self, number: u64) -> Option<u64> {
        self.frame.register(number)
    }

    fn read(&mut self, address: u64) -> Option<u64> {
        let value = self.frame.read(address);
        self.has_missed |= value.is_none();
        value
    }
}

/// Whether a place is below the stack pointer: in epilogues compilers move the CFA, but often do not emit that the
/// popped register is restored.
fn is_popped(cfa: Definition<'_>, offset: i64, architecture: Architecture) -> bool {
    matches!(cfa, Definition::Offset(register, distance)
        if register == architecture.stack_pointer() && offset.saturating_add(distance) < 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Section, StackCopy};

    /// An `.eh_frame` with one function at 0x1000, of 16 bytes, with these instructions.
    fn eh_frame(instructions: &[u8]) -> Vec<u8> {
        let cie = [0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0];
        let code = [0x1000_u64.to_le_bytes(), 16_u64.to_le_bytes()].concat();
        let fde = [&24_u32.to_le_bytes()[..], &code, instructions].concat();
        let lengths = [cie.len() as u32, fde.len() as u32].map(u32::to_le_bytes);
        [&lengths[0][..], &cie, &lengths[1], &fde, &[0; 4]].concat()
    }

    const START: u64 = 0x7000;

    /// The caller of an interrupted frame at 0x1008, whose registers are 100 times their numbers and whose stack has
    /// these words.
    fn caller(instructions: &[u8], words: &[u64]) -> Result<Registers, NoCaller> {
        let bytes = eh_frame(instructions);
        let section = Section { bytes: &bytes, address: 0x4000 };
        let source = Source::new(Architecture::X86_64, section, Section::default());
        let mut registers = Registers::new(0x9_1008, false);
        (0..16).for_each(|number| registers.set(number, Some(100 * number)));
        registers.set(7, Some(START));
        registers.set(3, Some(START + 8));
        let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let stack = StackCopy { start: START - 8, bytes: &stack };
        let found = source.caller(&registers, 0x9_0000, &mut |address| crate::Stack::read(&stack, address));
        found.map(|caller| {
            assert_eq!((caller.function, caller.is_signal), (0x9_1000, false));
            caller.registers
        })
    }

    fn check(instructions: &[u8], words: &[u64], pc: u64, sp: u64, others: &[(u64, Option<u64>)]) {
        let found = caller(instructions, words).unwrap();
        assert_eq!((found.pc, found.sp(Architecture::X86_64), found.is_return), (pc, Some(sp), true));
        for (number, value) in others {
            assert_eq!(found.get(*number), *value, "{instructions:x?}: register {number}");
        }
    }

    #[test]
    fn every_register_and_rule_is_followed() {
        let words = [START + 8, 0x51, 0x52, 0x53, 0x54];
        // Ordinary: callee-saved registers stay, others are not known.
        check(&[], &words, 0x51, START + 8, &[(3, Some(START + 8)), (12, Some(1200)), (0, None), (9, None)]);
        // The CFA's place is in the red zone: [rsp - 8] + 8.
        check(&[0x0f, 5, 0x77, 0x78, 0x06, 0x23, 8], &words, 0x52, START + 16, &[(3, Some(START + 8))]);
        // The same in a register: rbx + 16, and by an expression.
        check(&[0x0c, 3, 16], &words, 0x53, START + 24, &[]);
        check(&[0x0f, 4, 0x73, 8, 0x38, 0x22], &words, 0x53, START + 24, &[]);
        // The return address in rdi (glibc's vfork, which has popped it).
        check(&[0x0e, 0, 0x09, 16, 5], &words, 500, START, &[]);
        // Registers saved below the CFA, at an address, as a value, relative to the CFA, in another, and lost.
        let rules = [0x0e, 32, 0x8c, 2, 0x10, 13, 2, 0x77, 8, 0x16, 14, 2, 0x77, 8, 0x14, 15, 1, 0x09, 6, 8, 0x07, 3];
        let others = [
            (12, Some(0x53)),
            (13, Some(0x52)),
            (14, Some(START + 8)),
            (15, Some(START + 24)),
            (6, Some(800)),
            (3, None),
        ];
        check(&rules, &words, 0x54, START + 32, &others);
        // A register saved below the stack pointer was popped.
        check(&[0x83, 3], &words, 0x51, START + 8, &[(3, Some(START + 8))]);
        // Behind the address a row does not apply.
        check(&[0x49, 0x0e, 16], &words, 0x51, START + 8, &[]);
    }

    #[test]
    fn what_has_no_caller_says_why() {
        assert_eq!(caller(&[0x07, 16], &[]), Err(NoCaller::Root));
        assert_eq!(caller(&[], &[]), Err(NoCaller::Lost(Lost::OutsideStack)));
        for unsupported in [&[0x3f][..], &[0x0f, 1, 0xe0], &[0x0c, 40, 0], &[0x09, 16, 40]] {
            assert_eq!(caller(unsupported, &[1, 2]), Err(NoCaller::Lost(Lost::Unsupported)), "{unsupported:x?}");
        }
        assert_eq!(caller(&[0x0f, 3, 0x77, 64, 0x06], &[1, 2]), Err(NoCaller::Lost(Lost::OutsideStack)));
        let (bytes, mut none) = (eh_frame(&[]), |_| None);
        let source = Source::new(Architecture::X86_64, Section { bytes: &bytes, address: 0 }, Section::default());
        for pc in [0xfff, 0x1010] {
            assert_eq!(source.caller(&Registers::new(pc, false), 0, &mut none), Err(NoCaller::NoEntry));
        }
        assert!(Registers::new(0x1010, true).lookup() == 0x100f);
    }
}
