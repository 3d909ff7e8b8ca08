//! Machine code for reports, which the caller reads from the profiled binary.
//!
//! [`Code`] has the requested functions of one mapping's file: [`Routine`]s with their bytes, and names for the
//! addresses they jump to. The caller makes it with [`Routine::instruction_addresses`], since it has their source
//! lines.

mod arm64;
mod x86;

use std::collections::BTreeMap;
use std::sync::Arc;

use procprof_profile::{MappingId, SymbolAddr};

/// Most bytes of one function that are disassembled; the rest is omitted, which the report states.
pub const ROUTINE_BYTES_MAX: usize = 1 << 20;

/// The processor of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// AMD and Intel, 64 bits.
    X86_64,
    /// AMD and Intel, 32 bits.
    X86,
    /// ARM, 64 bits.
    Aarch64,
}

/// The syntax of x86 instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// The default of GNU's tools: sources first.
    #[default]
    Att,
    /// Intel's: destinations first.
    Intel,
}

/// Machine code of one mapping's file.
#[derive(Clone, Debug)]
pub struct Code {
    /// Its mapping.
    pub mapping: MappingId,
    /// Its processor.
    pub architecture: Architecture,
    /// The difference between an address of the profile and the same address in the file, modulo 2^64.
    pub bias: u64,
    /// The functions.
    pub routines: Vec<Routine>,
    /// Names of functions by their first address, to name the targets of jumps.
    pub targets: Arc<BTreeMap<u64, String>>,
}

/// Machine code of one function.
#[derive(Clone, Debug, Default)]
pub struct Routine {
    /// Its names: the main one first, then others of the same address.
    pub names: Vec<String>,
    /// Its first address in the file.
    pub start: u64,
    /// Its bytes, up to [`ROUTINE_BYTES_MAX`].
    pub bytes: Vec<u8>,
    /// Omitted bytes.
    pub bytes_left_out: u64,
    /// The source of each instruction, in their order: the innermost function first.
    pub places: Vec<Vec<CodePlace>>,
}

/// The source place of an instruction.
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
    /// Its address in the file.
    pub address: SymbolAddr,
    /// Its bytes.
    pub size: usize,
    /// Its text; `(bad)` for an invalid one.
    pub text: String,
}

impl Instruction {
    /// The address behind it.
    pub(crate) fn end(&self) -> u64 {
        self.address.0.wrapping_add(self.size as u64)
    }
}

impl Routine {
    /// The first addresses of its instructions.
    pub fn instruction_addresses(&self, architecture: Architecture) -> Vec<SymbolAddr> {
        disassemble(architecture, self.start, &self.bytes, Syntax::Att, &BTreeMap::new())
            .iter()
            .map(|found| found.address)
            .collect()
    }

    /// Its instructions.
    pub fn instructions(&self, code: &Code, syntax: Syntax) -> Vec<Instruction> {
        disassemble(code.architecture, self.start, &self.bytes, syntax, &code.targets)
    }

    /// The first address behind the known part.
    pub(crate) fn end(&self) -> u64 {
        self.start.wrapping_add(self.bytes.len() as u64)
    }
}

/// Disassembles code from the first byte to the last, in the format of GNU's objdump.
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

/// An address with its symbol: `1139 <main+0x10>`.
fn target(address: u64, targets: &BTreeMap<u64, String>) -> String {
    match targets.range(..=address).next_back() {
        Some((start, name)) if *start == address => format!("{address:x} <{name}>"),
        Some((start, name)) => format!("{address:x} <{name}+{:#x}>", address - start),
        None => format!("{address:x}"),
    }
}
