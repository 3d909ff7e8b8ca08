//! Machine code that reports show, as the caller reads it from the binary that was profiled.
//!
//! [`Code`] is what one mapping's file has of the functions in question: [`Routine`]s with their bytes, and names for the addresses they jump to.
//! The caller makes it with [`Routine::instruction_addresses`], since only he can tell which source lines those are of.

mod arm64;
mod x86;

use std::collections::BTreeMap;

use procprof_profile::{MappingId, SymbolAddr};

/// Most bytes of one function that are taken apart; the rest is left out, and said.
pub const ROUTINE_BYTES_MAX: usize = 1 << 20;

/// What processor code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// AMD and Intel, 64 bits.
    X86_64,
    /// AMD and Intel, 32 bits.
    X86,
    /// ARM, 64 bits.
    Aarch64,
}

/// How instructions of x86 are spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// As GNU's tools do unless asked: sources first.
    #[default]
    Att,
    /// As Intel does: destinations first.
    Intel,
}

/// Machine code of one mapping's file.
#[derive(Clone, Debug)]
pub struct Code {
    /// The mapping it is of.
    pub mapping: MappingId,
    /// What it is for.
    pub architecture: Architecture,
    /// What an address of the profile has more than the same address in the file, modulo 2^64.
    pub bias: u64,
    /// The functions.
    pub routines: Vec<Routine>,
    /// Names of functions by their first address, to name what is jumped to.
    pub targets: BTreeMap<u64, String>,
}

/// Machine code of one function.
#[derive(Clone, Debug, Default)]
pub struct Routine {
    /// Its names: what it is called by first, others of the same address behind.
    pub names: Vec<String>,
    /// Where it begins, as the file has it.
    pub start: u64,
    /// Its bytes, up to [`ROUTINE_BYTES_MAX`].
    pub bytes: Vec<u8>,
    /// Bytes that are left out.
    pub bytes_left_out: u64,
    /// The source of each instruction, in their order: the innermost function first.
    pub places: Vec<Vec<CodePlace>>,
}

/// A place in the sources that an instruction is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodePlace {
    /// The function's name.
    pub function: String,
    /// The file; empty if unknown.
    pub file: String,
    /// The line; 0 if unknown.
    pub line: i64,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Where it is, as the file has it.
    pub address: SymbolAddr,
    /// Its bytes.
    pub size: usize,
    /// Its text; `(bad)` for what is none.
    pub text: String,
}

impl Routine {
    /// Where its instructions begin.
    pub fn instruction_addresses(&self, architecture: Architecture) -> Vec<SymbolAddr> {
        disassemble(architecture, self.start, &self.bytes, Syntax::Att, &BTreeMap::new()).iter().map(|found| found.address).collect()
    }

    /// Its instructions.
    pub fn instructions(&self, code: &Code, syntax: Syntax) -> Vec<Instruction> {
        disassemble(code.architecture, self.start, &self.bytes, syntax, &code.targets)
    }

    /// The first address behind what is known of it.
    pub(crate) fn end(&self) -> u64 {
        self.start.wrapping_add(self.bytes.len() as u64)
    }
}

/// Takes code apart, from the first byte to the last, as GNU's objdump writes it.
pub fn disassemble(
    architecture: Architecture,
    start: u64,
    bytes: &[u8],
    syntax: Syntax,
    targets: &BTreeMap<u64, String>,
) -> Vec<Instruction> {
    match architecture {
        Architecture::X86_64 => x86::disassemble(64, start, bytes, syntax, targets),
        Architecture::X86 => x86::disassemble(32, start, bytes, syntax, targets),
        Architecture::Aarch64 => arm64::disassemble(start, bytes, targets),
    }
}

/// An address with what is there: `1139 <main+0x10>`.
fn target(address: u64, targets: &BTreeMap<u64, String>) -> String {
    match targets.range(..=address).next_back() {
        Some((start, name)) if *start == address => format!("{address:x} <{name}>"),
        Some((start, name)) => format!("{address:x} <{name}+{:#x}>", address - start),
        None => format!("{address:x}"),
    }
}
