//! The rows of a profile's tables, and what its values and addresses mean.
//!
//! Names follow `profile.proto` of google/pprof. Samples, stacks, labels and lines are kept flat, so that a profile of
//! a million frames is a handful of allocations.

use crate::{Addr, FileOffset, FunctionId, MappingId, StringId};

/// The quantity of a value and its unit, for example `cpu` / `nanoseconds`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// The measured quantity: `samples`, `cpu`, `inuse_space`, …
    pub kind: StringId,
    /// Its unit: `count`, `nanoseconds`, `bytes`, …
    pub unit: StringId,
}

/// A range of the process's address space backed by one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// First address of the range.
    pub start: Addr,
    /// First address past the range; 0 when unknown.
    pub limit: Addr,
    /// Offset in the file that `start` maps to.
    pub file_offset: FileOffset,
    /// Path of the file, or a bracketed name such as `[vdso]`; may be empty.
    pub filename: StringId,
    /// Build id as lower-case hexadecimal digits; may be empty.
    pub build_id: StringId,
    /// Whether locations of this mapping carry function names.
    pub has_functions: bool,
    /// Whether locations of this mapping carry file names.
    pub has_filenames: bool,
    /// Whether locations of this mapping carry line numbers.
    pub has_line_numbers: bool,
    /// Whether locations of this mapping carry inlined frames.
    pub has_inline_frames: bool,
}

/// A function as named by symbols or by the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// Name for people: demangled where possible.
    pub name: StringId,
    /// Name in the symbol table; may equal `name`.
    pub system_name: StringId,
    /// Source file; may be empty.
    pub filename: StringId,
    /// First source line; 0 when unknown.
    pub start_line: i64,
}

/// One source position of a location; several are inlined calls, innermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function at this position.
    pub function: FunctionId,
    /// Line number; 0 when unknown.
    pub line: i64,
    /// Column number; 0 when unknown.
    pub column: i64,
}

/// A place in the program. Its lines are read by [`Profile::lines`](crate::Profile::lines).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// The mapping that contains the address, where known.
    pub mapping: Option<MappingId>,
    /// The address; [`Profile::addresses`](crate::Profile::addresses) is what it points at.
    pub address: Addr,
    /// Set after adjusting when the captured address was one more than `address` (a return address).
    pub is_return: bool,
    /// Whether several symbols share this place (identical code folding).
    pub is_folded: bool,
    pub(crate) lines_start: u32,
    pub(crate) lines_end: u32,
}

impl Location {
    /// A location at that address; its lines are given when it is added.
    pub fn new(mapping: Option<MappingId>, address: Addr) -> Location {
        Location { mapping, address, ..Location::default() }
    }
}

/// The value of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelValue {
    /// A text.
    Text(StringId),
    /// A number and its unit (the empty string when none is given).
    Number(i64, StringId),
}

/// A key with its value, attached to a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// The label's name.
    pub key: StringId,
    /// Its value.
    pub value: LabelValue,
}

/// How measured counts relate to the quantity they were sampled from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// Values are exact.
    #[default]
    Exact,
    /// An allocation is sampled with probability 1 - exp(-size / rate) (`heap_v2`); the rate in bytes.
    Poisson(i64),
    /// The older linear rule of `heap/RATE` and untyped heap profiles; the mean distance of samples in bytes, which is
    /// half of that RATE.
    Linear(i64),
}

/// The meaning of locations' addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// At or into the instruction that was executing or calling: ready to be looked up.
    #[default]
    CallSite,
    /// Stacks of a CPU sampler, as captured: the leaf is the interrupted instruction, callers are return addresses.
    RawCpu,
    /// Stacks walked from a function inside the profiler (heap, contention, counts), as captured: all are return
    /// addresses.
    RawReturn,
}
