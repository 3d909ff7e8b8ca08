//! Building a profile piece by piece, with strings, functions and locations interned.

use foldhash::HashMap;

use crate::{
    Addr, Error, Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId, Nanos, Parts,
    Profile, Result, StringId, StringIndex, ValueType,
};

/// Collects a profile. Ids that it returns belong to this builder; the first failure is kept and returned by
/// [`ProfileBuilder::finish`].
#[derive(Debug, Default)]
pub struct ProfileBuilder {
    parts: Parts,
    strings: StringIndex,
    functions: HashMap<Function, FunctionId>,
    locations: HashMap<(Option<MappingId>, Addr, bool), LocationId>,
    frames: HashMap<StringId, LocationId>,
    failure: Option<Error>,
}

impl ProfileBuilder {
    /// A builder for samples with these types, each a name and a unit.
    pub fn new(sample_types: &[(&str, &str)]) -> ProfileBuilder {
        let mut builder = ProfileBuilder::default();
        for (kind, unit) in sample_types {
            let kind = builder.value_type(kind, unit);
            builder.parts.sample_types.push(kind);
        }
        builder
    }

    /// The id of a string, the same for equal strings.
    pub fn intern(&mut self, text: &str) -> StringId {
        let id = self.strings.intern(&mut self.parts.strings, text);
        id.unwrap_or_else(|| {
            self.failure.get_or_insert(Error::invalid("more than 4 GiB of strings"));
            StringId(0)
        })
    }

    /// A value type of these two interned strings.
    pub fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.intern(kind), unit: self.intern(unit) }
    }

    /// Adds a mapping.
    pub fn mapping(&mut self, mapping: Mapping) -> MappingId {
        self.parts.mappings.push(mapping);
        MappingId(self.parts.mappings.len() as u32 - 1)
    }

    /// The id of a function, the same for equal functions.
    pub fn function(&mut self, function: Function) -> FunctionId {
        *self.functions.entry(function).or_insert_with(|| {
            self.parts.functions.push(function);
            FunctionId(self.parts.functions.len() as u32 - 1)
        })
    }

    /// The id of the location without lines at that address, the same for equal ones.
    pub fn address(&mut self, mapping: Option<MappingId>, address: Addr) -> LocationId {
        if let Some(id) = self.locations.get(&(mapping, address, false)) {
            return *id;
        }
        let id = self.location(Location { mapping, address, ..Location::default() }, &[]);
        self.locations.insert((mapping, address, false), id);
        id
    }

    /// Adds a location with lines; equal ones are not joined.
    pub fn location(&mut self, location: Location, lines: &[Line]) -> LocationId {
        let added = self.parts.push_location(location, lines);
        self.kept(added).unwrap_or_default()
    }

    /// The location of a frame that is only a name, the same for equal names.
    pub fn frame(&mut self, name: &str) -> LocationId {
        let name = self.intern(name);
        if let Some(id) = self.frames.get(&name) {
            return *id;
        }
        let function = self.function(Function { name, system_name: name, ..Function::default() });
        let id = self.location(Location::default(), &[Line { function, ..Line::default() }]);
        self.frames.insert(name, id);
        id
    }

    /// A label with a text.
    pub fn text_label(&mut self, key: &str, value: &str) -> Label {
        Label { key: self.intern(key), value: LabelValue::Text(self.intern(value)) }
    }

    /// A label with a number; `unit` may be empty.
    pub fn number_label(&mut self, key: &str, value: i64, unit: &str) -> Label {
        Label { key: self.intern(key), value: LabelValue::Number(value, self.intern(unit)) }
    }

    /// Adds a sample: the stack leaf first, one value per sample type.
    pub fn sample(&mut self, stack: &[LocationId], values: &[i64], labels: &[Label]) {
        let added = self.parts.push_sample(stack, values, labels);
        self.kept(added);
    }

    /// Sets what one period counts, and its length.
    pub fn period(&mut self, kind: &str, unit: &str, period: i64) {
        self.parts.period_type = self.value_type(kind, unit);
        self.parts.period = period;
    }

    /// Sets when the capture began and how long it took.
    pub fn time(&mut self, start: Nanos, duration: Nanos) {
        self.parts.time = start;
        self.parts.duration = duration;
    }

    /// Names the sample type shown by default.
    pub fn default_sample_type(&mut self, kind: &str) {
        self.parts.default_sample_type = self.intern(kind);
    }

    /// Adds a comment.
    pub fn comment(&mut self, text: &str) {
        let text = self.intern(text);
        self.parts.comments.push(text);
    }

    /// The tables collected so far, for what has no method of its own.
    pub fn parts_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }

    /// Checks and gives the profile.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the first thing that could not be added, or an id that was not this builder's.
    pub fn finish(self) -> Result<Profile> {
        match self.failure {
            Some(failure) => Err(failure),
            None => self.parts.finish(),
        }
    }

    fn kept<T>(&mut self, added: Result<T>) -> Option<T> {
        match added {
            Ok(value) => Some(value),
            Err(error) => {
                self.failure.get_or_insert(error);
                None
            }
        }
    }
}
