//! The profile itself: read-only views over tables that were checked when it was made.

use crate::{
    Addresses, Function, FunctionId, Label, Line, Location, LocationId, Mapping, MappingId, Nanos, Parts, ProfileType,
    Result, Sampling, StringId, ValueType,
};

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

/// A profile: a value, valid by construction. See the crate's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(crate) parts: Parts,
}

impl Profile {
    /// The type of each value of a sample, in order; never empty.
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

    /// Index of the sample type shown by default: the one the profile names, else the last (as pprof does).
    pub fn default_sample_type(&self) -> usize {
        let named = self.parts.sample_types.iter().position(|kind| kind.kind == self.parts.default_sample_type);
        named.unwrap_or(self.parts.sample_types.len() - 1)
    }

    /// The type of a profile that does not tell it, by its sample types; `None` if they are unknown.
    pub fn guess_type(&self) -> Option<ProfileType> {
        let rules = [
            ("cpu", ProfileType::Cpu),
            ("wall", ProfileType::Wall),
            ("off_cpu", ProfileType::OffCpu),
            ("inuse_space", ProfileType::Heap),
            ("alloc_space", ProfileType::Alloc),
            ("contentions", ProfileType::Contention),
            ("goroutine", ProfileType::Goroutine),
            ("goroutineleak", ProfileType::GoroutineLeak),
        ];
        rules.into_iter().find(|(name, _)| self.sample_type_index(name).is_some()).map(|(_, found)| found)
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
        let label_range =
            if parts.label_ends.is_empty() { 0..0 } else { start(&parts.label_ends)..parts.label_ends[index] as usize };
        Sample {
            stack: &parts.stacks[start(&parts.stack_ends)..parts.stack_ends[index] as usize],
            values: &parts.values[index * width..(index + 1) * width],
            raw_values: if parts.raw_values.is_empty() {
                &[]
            } else {
                &parts.raw_values[index * width..(index + 1) * width]
            },
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

    /// The quantity that the period counts, for example `cpu` / `nanoseconds`.
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

    /// How measured counts relate to the quantity they were sampled from.
    pub fn sampling(&self) -> Sampling {
        self.parts.sampling
    }

    /// The meaning of the locations' addresses.
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

impl Parts {
    /// Checks every id and range once.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) with the first thing that points at nothing.
    pub fn finish(mut self) -> Result<Profile> {
        self.check()?;
        Ok(Profile { parts: self })
    }
}
