//! Programs for the kernel's BPF machine, written instruction by instruction.
//!
//! An instruction has 8 bytes: the operation, two registers of 4 bits (destination low, source high), an offset of 16
//! bits and a value of 32 bits (`Documentation/bpf/standardization/instruction-set.rst` of the kernel). `r6 += 2` is
//! `07 06 00 00 02 00 00 00`. Values of 64 bits take two instructions. Registers 1 to 5 are arguments of calls and lost
//! in them, 6 to 9 are kept, 10 is the end of the stack.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Most instructions of a program without loops that every kernel takes.
const INSTRUCTIONS_MAX: usize = 4096;

const LOAD_64: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE_VALUE: u8 = 0x62;
const STORE: u8 = 0x63;
const ATOMIC: u8 = 0xc3;
const ALU_32: u8 = 0x04;
const ALU_64: u8 = 0x07;
const JUMP: u8 = 0x05;
const JUMP_32: u8 = 0x06;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The source is a register, not the value.
const BY_REGISTER: u8 = 0x08;

/// The value is a descriptor of a map; the second part is the map, or the address of a value of it.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

/// The atomic operation.
const ATOMIC_COMPARE_EXCHANGE: i32 = 0xf1;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The end of the stack; can't be changed.
    R10,
}

/// The bytes of a load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Width {
    Word = 0x00,
    Byte = 0x10,
    Double = 0x18,
}

/// What is done with two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    Add = 0x00,
    Subtract = 0x10,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// When a jump is made, by the first value and the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Condition {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    /// They have a bit in common.
    Intersects = 0x40,
    Differs = 0x50,
    Below = 0xa0,
}

/// A function of the kernel, by its number in `linux/bpf.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Helper {
    KtimeGetNs = 5,
    GetSmpProcessorId = 8,
    PerfEventOutput = 25,
    TaskPtRegs = 175,
}

/// The second value of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Register(Register),
    /// Of 32 bits, extended by its sign.
    Value(i32),
}

impl From<Register> for Source {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Source {
    fn from(value: i32) -> Self {
        Self::Value(value)
    }
}

/// A place in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Why a program can't be assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AssemblyError {
    #[error("a jump to a place that is not in the program")]
    Unplaced,
    #[error("the offset {0} does not fit into 16 bits")]
    Offset(i64),
    #[error("{0} instructions are more than {INSTRUCTIONS_MAX}")]
    TooLong(usize),
}

/// A program being written.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<[u8; 8]>,
    /// The instruction at each label.
    labels: Vec<Option<usize>>,
    /// Instructions that jump, and where to.
    jumps: Vec<(usize, Label)>,
    /// The first error.
    error: Option<AssemblyError>,
}

impl Assembler {
    /// A label that is not placed yet.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label at the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// `destination = destination OPERATION source`, in 64 bits.
    pub(crate) fn compute(&mut self, operation: Operation, destination: Register, source: impl Into<Source>) {
        self.with_source(ALU_64 | operation as u8, destination, source.into());
    }

    /// The same in 32 bits; the upper half becomes 0.
    pub(crate) fn compute_32(&mut self, operation: Operation, destination: Register, source: impl Into<Source>) {
        self.with_source(ALU_32 | operation as u8, destination, source.into());
    }

    /// `destination = source`.
    pub(crate) fn set(&mut self, destination: Register, source: impl Into<Source>) {
        self.compute(Operation::Move, destination, source);
    }

    /// `destination = value`, of 64 bits.
    pub(crate) fn set_64(&mut self, destination: Register, value: u64) {
        self.pair(destination, 0, value as u32 as i32, (value >> 32) as u32 as i32);
    }

    /// `destination = map`, for a call.
    pub(crate) fn set_map(&mut self, destination: Register, map: BorrowedFd<'_>) {
        self.pair(destination, MAP, map.as_raw_fd(), 0);
    }

    /// `destination = &value[offset]` of a map with one value.
    pub(crate) fn set_map_value(&mut self, destination: Register, map: BorrowedFd<'_>, offset: u32) {
        self.pair(destination, MAP_VALUE, map.as_raw_fd(), offset as i32);
    }

    /// `destination = base[offset]`, extended by zeros.
    pub(crate) fn load(&mut self, width: Width, destination: Register, base: Register, offset: impl Into<i64>) {
        let offset = self.offset(offset.into());
        self.push(LOAD | width as u8, destination as u8 | (base as u8) << 4, offset, 0);
    }

    /// `base[offset] = source`.
    pub(crate) fn store(&mut self, width: Width, base: Register, offset: impl Into<i64>, source: impl Into<Source>) {
        let offset = self.offset(offset.into());
        match source.into() {
            Source::Register(source) => self.push(STORE | width as u8, base as u8 | (source as u8) << 4, offset, 0),
            Source::Value(value) => self.push(STORE_VALUE | width as u8, base as u8, offset, value),
        }
    }

    /// If `base[offset]` equals register 0, `base[offset] = source`, for all CPUs at once; register 0 becomes what was
    /// there.
    pub(crate) fn compare_exchange(&mut self, width: Width, base: Register, offset: u32, source: Register) {
        let offset = self.offset(offset.into());
        self.push(ATOMIC | width as u8, base as u8 | (source as u8) << 4, offset, ATOMIC_COMPARE_EXCHANGE);
    }

    /// Jumps.
    pub(crate) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP, 0, 0, 0);
    }

    /// Jumps if the values meet a condition, as 64 bits.
    pub(crate) fn jump_if(&mut self, first: Register, condition: Condition, second: impl Into<Source>, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.with_source(JUMP | condition as u8, first, second.into());
    }

    /// Jumps if the lower halves of the values meet a condition.
    pub(crate) fn jump_if_32(
        &mut self,
        first: Register,
        condition: Condition,
        second: impl Into<Source>,
        label: Label,
    ) {
        self.jumps.push((self.code.len(), label));
        self.with_source(JUMP_32 | condition as u8, first, second.into());
    }

    /// Calls a function of the kernel; its result is in register 0.
    pub(crate) fn call(&mut self, helper: Helper) {
        self.push(CALL, 0, 0, helper as i32);
    }

    /// Ends the program with the result 0.
    pub(crate) fn end(&mut self) {
        self.set(Register::R0, 0);
        self.push(EXIT, 0, 0, 0);
    }

    /// The instructions, with all jumps resolved.
    pub(crate) fn finish(mut self) -> Result<Vec<[u8; 8]>, AssemblyError> {
        for (from, label) in std::mem::take(&mut self.jumps) {
            let place = self.labels[label.0].ok_or(AssemblyError::Unplaced)?;
            let offset = self.offset(place as i64 - from as i64 - 1);
            self.code[from][2..4].copy_from_slice(&offset.to_le_bytes());
        }
        if self.code.len() > INSTRUCTIONS_MAX {
            return Err(AssemblyError::TooLong(self.code.len()));
        }
        self.error.map_or(Ok(self.code), Err)
    }

    fn with_source(&mut self, operation: u8, destination: Register, source: Source) {
        match source {
            Source::Register(source) => {
                self.push(operation | BY_REGISTER, destination as u8 | (source as u8) << 4, 0, 0);
            }
            Source::Value(value) => self.push(operation, destination as u8, 0, value),
        }
    }

    fn pair(&mut self, destination: Register, kind: u8, low: i32, high: i32) {
        self.push(LOAD_64, destination as u8 | kind << 4, 0, low);
        self.push(0, 0, 0, high);
    }

    fn offset(&mut self, offset: i64) -> i16 {
        i16::try_from(offset).unwrap_or_else(|_| {
            self.error.get_or_insert(AssemblyError::Offset(offset));
            0
        })
    }

    fn push(&mut self, operation: u8, registers: u8, offset: i16, value: i32) {
        let ([low, high], [a, b, c, d]) = (offset.to_le_bytes(), value.to_le_bytes());
        self.code.push([operation, registers, low, high, a, b, c, d]);
    }
}

#[cfg(test)]
mod tests {
    use super::Register::*;
    use super::*;

    fn assembled(write: impl FnOnce(&mut Assembler)) -> Vec<[u8; 8]> {
        let mut assembler = Assembler::default();
        write(&mut assembler);
        assembler.finish().unwrap()
    }

    #[test]
    fn instructions_are_those_of_the_kernels_tables() {
        let check = |write: &dyn Fn(&mut Assembler), expected: &[[u8; 8]]| assert_eq!(assembled(write), expected);
        check(&|it| it.compute(Operation::Add, R6, 2), &[[0x07, 6, 0, 0, 2, 0, 0, 0]]);
        check(&|it| it.compute(Operation::Subtract, R3, R9), &[[0x1f, 0x93, 0, 0, 0, 0, 0, 0]]);
        check(&|it| it.compute_32(Operation::And, R2, -1), &[[0x54, 2, 0, 0, 0xff, 0xff, 0xff, 0xff]]);
        check(&|it| it.set(R6, R1), &[[0xbf, 0x16, 0, 0, 0, 0, 0, 0]]);
        check(&|it| it.load(Width::Double, R7, R6, 0x108), &[[0x79, 0x67, 8, 1, 0, 0, 0, 0]]);
        check(&|it| it.load(Width::Word, R1, R7, 4), &[[0x61, 0x71, 4, 0, 0, 0, 0, 0]]);
        check(&|it| it.load(Width::Byte, R1, R7, 4), &[[0x71, 0x71, 4, 0, 0, 0, 0, 0]]);
        check(&|it| it.store(Width::Double, R8, 16, R0), &[[0x7b, 0x08, 16, 0, 0, 0, 0, 0]]);
        check(&|it| it.store(Width::Word, R8, 16, 7), &[[0x62, 8, 16, 0, 7, 0, 0, 0]]);
        check(&|it| it.compare_exchange(Width::Word, R1, 0, R2), &[[0xc3, 0x21, 0, 0, 0xf1, 0, 0, 0]]);
        check(&|it| it.call(Helper::TaskPtRegs), &[[0x85, 0, 0, 0, 175, 0, 0, 0]]);
        check(&|it| it.set_64(R1, 0x1_0000_0002), &[[0x18, 1, 0, 0, 2, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0]]);
        check(&Assembler::end, &[[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]]);
    }

    #[test]
    fn jumps_count_from_the_instruction_behind_them() {
        let code = assembled(|it| {
            let (back, ahead) = (it.label(), it.label());
            it.place(back);
            it.jump_if(R1, Condition::Equal, 5, ahead);
            it.set_64(R2, 0);
            it.jump_if_32(R1, Condition::Below, R2, back);
            it.place(ahead);
            it.end();
        });
        assert_eq!(code[0], [0x15, 1, 3, 0, 5, 0, 0, 0]);
        assert_eq!(code[3], [0xae, 0x21, 0xfc, 0xff, 0, 0, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let failed = |write: &dyn Fn(&mut Assembler)| {
            let mut assembler = Assembler::default();
            write(&mut assembler);
            assembler.finish()
        };
        assert_eq!(failed(&|it| it.load(Width::Word, R1, R2, 40_000)), Err(AssemblyError::Offset(40_000)));
        let unplaced = |it: &mut Assembler| {
            let label = it.label();
            it.jump(label);
        };
        assert_eq!(failed(&unplaced), Err(AssemblyError::Unplaced));
        assert_eq!(failed(&|it| (0..4097).for_each(|_| it.set(R0, 0))), Err(AssemblyError::TooLong(4097)));
    }
}
