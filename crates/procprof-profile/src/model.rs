//! The profile itself: read-only views over tables that were checked when it was made.
//!
//! Names follow `profile.proto` of google/pprof. Samples, stacks, labels and lines are kept flat, so that a profile of a million
//! frames is a handful of allocations.

use crate::{Addr, FileOffset, FunctionId, LocationId, MappingId, Nanos, Parts, StringId};

/// What a value means and its unit, for example `cpu` / `nanoseconds`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// What is measured: `samples`, `cpu`, `inuse_space`, …
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
    /// Name as the linker knows it; may equal `name`.
    pub system_name: StringId,
    /// Source file; may be empty.
    pub filename: StringId,
    /// First source line; 0 when unknown.
    pub start_line: i64,
}

/// One source position of a location; several stand for inlined calls, innermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function at this position.
    pub function: FunctionId,
    /// Line number; 0 when unknown.
    pub line: i64,
    /// Column number; 0 when unknown.
    pub column: i64,
}

/// A place in the program. Its lines are read by [`Profile::lines`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// The mapping that contains the address, where known.
    pub mapping: Option<MappingId>,
    /// The address; what it points at is told by [`Profile::addresses`].
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

/// One sample: a stack, one value per sample type, and labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The stack, leaf first.
    pub stack: &'a [LocationId],
    /// One value per sample type, in their order.
    pub values: &'a [i64],
    /// The values as measured, where `values` are estimates made from them; else empty.
    pub raw_values: &'a [i64],
    /// Labels, in the order of the source.
    pub labels: &'a [Label],
}

/// How measured counts stand to the quantity they were sampled from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// Values are what they say.
    #[default]
    Exact,
    /// An allocation is sampled with probability 1 - exp(-size / rate) (`heap_v2`); the rate in bytes.
    Poisson(i64),
    /// The older linear rule of `heap/RATE` and untyped heap profiles; the mean distance of samples in bytes, which is half of that RATE.
    Linear(i64),
}

/// What the addresses of locations point at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// At or into the instruction that was executing or calling: ready to be looked up.
    #[default]
    CallSite,
    /// Stacks of a CPU sampler, as captured: the leaf is the interrupted instruction, callers are return addresses.
    RawCpu,
    /// Stacks walked from a function inside the profiler (heap, contention, counts), as captured: all are return addresses.
    RawReturn,
}

/// A profile: a value, valid by construction. See the crate's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(crate) parts: Parts,
}

impl Profile {
    /// What each value of a sample means, in order; never empty.
    pub fn sample_types(&self) -> &[ValueType] {
        &self.parts.sample_types
    }

    /// Name and unit of a sample type.
    ///
    /// # Panics
    /// When `index` is not below the number of sample types.
    pub fn sample_type(&self, index: usize) -> (&str, &str) {
        let kind = self.parts.sample_types[index];
        (self.string(kind.kind), self.string(kind.unit))
    }

    /// Index of the sample type with that name.
    pub fn sample_type_index(&self, name: &str) -> Option<usize> {
        self.parts.sample_types.iter().position(|kind| self.string(kind.kind) == name)
    }

    /// Index of the sample type shown when none is asked for: the one the profile names, else the last (as pprof does).
    pub fn default_sample_type(&self) -> usize {
        let named = self.parts.sample_types.iter().position(|kind| kind.kind == self.parts.default_sample_type);
        named.unwrap_or(self.parts.sample_types.len() - 1)
    }

    /// Number of samples.
    pub fn sample_count(&self) -> usize {
        self.parts.stack_ends.len()
    }

    /// The sample at that position.
    ///
    /// # Panics
    /// When `index` is not below [`Profile::sample_count`].
    #[inline]
    pub fn sample(&self, index: usize) -> Sample<'_> {
        let parts = &self.parts;
        let width = parts.sample_types.len();
        let start = |ends: &[u32]| {
            if index == 0 { 0 } else { ends[index - 1] as usize }
        };
        let label_range = if parts.label_ends.is_empty() { 0..0 } else { start(&parts.label_ends)..parts.label_ends[index] as usize };
        Sample {
            stack: &parts.stacks[start(&parts.stack_ends)..parts.stack_ends[index] as usize],
            values: &parts.values[index * width..(index + 1) * width],
            raw_values: if parts.raw_values.is_empty() { &[] } else { &parts.raw_values[index * width..(index + 1) * width] },
            labels: &parts.labels[label_range],
        }
    }

    /// All samples, in the order of the source.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample<'_>> {
        (0..self.sample_count()).map(|index| self.sample(index))
    }

    /// Sum of one sample type over all samples; saturates at the range of `i64`.
    pub fn total(&self, sample_type: usize) -> i64 {
        self.samples().fold(0i64, |sum, sample| sum.saturating_add(sample.values[sample_type]))
    }

    /// All mappings; a [`MappingId`] is a position here.
    pub fn mappings(&self) -> &[Mapping] {
        &self.parts.mappings
    }

    /// The mapping with that id.
    pub fn mapping(&self, id: MappingId) -> &Mapping {
        &self.parts.mappings[id.index()]
    }

    /// All locations; a [`LocationId`] is a position here.
    pub fn locations(&self) -> &[Location] {
        &self.parts.locations
    }

    /// The location with that id.
    #[inline]
    pub fn location(&self, id: LocationId) -> &Location {
        &self.parts.locations[id.index()]
    }

    /// The source positions of a location, innermost inlined call first; empty when it has no symbols.
    #[inline]
    pub fn lines(&self, id: LocationId) -> &[Line] {
        let location = self.location(id);
        &self.parts.lines[location.lines_start as usize..location.lines_end as usize]
    }

    /// All functions; a [`FunctionId`] is a position here.
    pub fn functions(&self) -> &[Function] {
        &self.parts.functions
    }

    /// The function with that id.
    #[inline]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.parts.functions[id.index()]
    }

    /// The text of an id handed out by this profile.
    #[inline]
    pub fn string(&self, id: StringId) -> &str {
        self.parts.strings.get(id).unwrap_or_default()
    }

    /// Moment the capture began.
    pub fn time(&self) -> Nanos {
        self.parts.time
    }

    /// How long the capture took; 0 when unknown or a snapshot.
    pub fn duration(&self) -> Nanos {
        self.parts.duration
    }

    /// What the period counts, for example `cpu` / `nanoseconds`.
    pub fn period_type(&self) -> ValueType {
        self.parts.period_type
    }

    /// Sampling period in the unit of [`Profile::period_type`]; 0 when unknown.
    pub fn period(&self) -> i64 {
        self.parts.period
    }

    /// Free comments, in order.
    pub fn comments(&self) -> impl ExactSizeIterator<Item = &str> {
        self.parts.comments.iter().map(|id| self.string(*id))
    }

    /// How measured counts stand to what they were sampled from.
    pub fn sampling(&self) -> Sampling {
        self.parts.sampling
    }

    /// What the locations' addresses point at.
    pub fn addresses(&self) -> Addresses {
        self.parts.addresses
    }

    /// Whether the values are estimates made from [`Sample::raw_values`].
    pub fn is_estimated(&self) -> bool {
        !self.parts.raw_values.is_empty()
    }

    /// The tables, to change and check again with [`Parts::finish`].
    pub fn into_parts(self) -> Parts {
        self.parts
    }

    /// The tables, to read as a whole.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }
}
