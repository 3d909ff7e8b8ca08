//! Bytes of the message to a [`Profile`].
//!
//! A first pass over the outermost fields counts entries, so that every table is reserved once; then strings, functions and mappings, then
//! locations, then samples are read, each resolving ids of those before. What is allocated stays below 64 times the input.

use crate::format::Limits;
use crate::format::pprof::id_table::{IdTable, IdTableBuilder};
use crate::format::pprof::{NAME, captured, malformed, sampling};
use crate::format::protobuf::{Field, Reader};
use crate::{
    Addr, Addresses, Error, FileOffset, Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId, Nanos,
    Parts, Profile, Result, Sampling, StringId, ValueType,
};

pub(super) fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let counts = Counts::of(bytes)?;
    let mut tables = Tables::new(&counts);
    tables.read(bytes)?;
    let mut decoder = Decoder {
        functions: tables.functions.finish("function")?,
        mappings: tables.mappings.finish("mapping")?,
        locations: IdTable::Dense(0),
        strings: counts.strings,
        depth: limits.depth,
        parts: tables.parts,
        raw_is_whole: true,
        oddities: tables.oddities,
    };
    decoder.read_locations(bytes)?;
    decoder.reserve_samples(&counts);
    decoder.read_samples(bytes)?;
    decoder.finish(warnings)
}

/// How much of what there is.
#[derive(Default)]
struct Counts {
    sample_types: usize,
    samples: usize,
    sample_bytes: usize,
    mappings: usize,
    locations: usize,
    functions: usize,
    strings: usize,
    string_bytes: usize,
}

impl Counts {
    fn of(bytes: &[u8]) -> Result<Counts> {
        let mut counts = Counts::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field.number {
                1 => counts.sample_types += 1,
                2 => {
                    counts.samples += 1;
                    counts.sample_bytes += field.bytes()?.rest().len();
                }
                3 => counts.mappings += 1,
                4 => counts.locations += 1,
                5 => counts.functions += 1,
                6 => {
                    counts.strings += 1;
                    counts.string_bytes += field.bytes()?.rest().len();
                }
                _ => {}
            }
        }
        // A message without a string table may still say "the empty string".
        counts.strings = counts.strings.max(1);
        Ok(counts)
    }
}

/// Oddities that are told once each, with how often and where first.
#[derive(Default)]
struct Oddities(Vec<(&'static str, usize, usize)>);

impl Oddities {
    fn note(&mut self, what: &'static str, offset: usize) {
        match self.0.iter_mut().find(|oddity| oddity.0 == what) {
            Some(oddity) => oddity.1 += 1,
            None => self.0.push((what, 1, offset)),
        }
    }

    fn tell(self, warnings: &mut Vec<String>) {
        for (what, count, offset) in self.0 {
            warnings.push(format!("{NAME}: {what}: {count}, the first at offset {offset}"));
        }
    }
}

/// What can be read without looking up any id.
struct Tables {
    parts: Parts,
    functions: IdTableBuilder,
    mappings: IdTableBuilder,
    strings: usize,
    strings_seen: usize,
    oddities: Oddities,
}

impl Tables {
    fn new(counts: &Counts) -> Tables {
        let mut parts = Parts::default();
        parts.strings.reserve(counts.strings, counts.string_bytes);
        parts.functions.reserve_exact(counts.functions);
        parts.mappings.reserve_exact(counts.mappings);
        parts.locations.reserve_exact(counts.locations);
        Tables {
            parts,
            functions: IdTableBuilder::default(),
            mappings: IdTableBuilder::default(),
            strings: counts.strings,
            strings_seen: 0,
            oddities: Oddities::default(),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<()> {
        let mut sampling_kind = 0;
        let mut sampling_rate = 0;
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field.number {
                1 => {
                    let kind = self.value_type(&field)?;
                    self.parts.sample_types.push(kind);
                }
                3 => self.mapping(&field)?,
                5 => self.function(&field)?,
                6 => self.text(&field)?,
                7 => self.parts.drop_frames = string(&field, self.strings)?,
                8 => self.parts.keep_frames = string(&field, self.strings)?,
                9 => self.parts.time = Nanos(field.int()?),
                10 => self.parts.duration = Nanos(field.int()?),
                11 => self.parts.period_type = self.value_type(&field)?,
                12 => self.parts.period = field.int()?,
                13 => self.comments(&field)?,
                14 => self.parts.default_sample_type = string(&field, self.strings)?,
                15 => self.parts.doc_url = string(&field, self.strings)?,
                1000 => sampling_kind = field.int()?,
                1001 => sampling_rate = field.int()?,
                1002 => self.parts.captured = captured_addresses(&field)?,
                _ => {}
            }
        }
        self.parts.sampling = match sampling_kind {
            sampling::POISSON => Sampling::Poisson(sampling_rate),
            sampling::LINEAR => Sampling::Linear(sampling_rate),
            _ => Sampling::Exact,
        };
        Ok(())
    }

    fn value_type(&self, field: &Field<'_>) -> Result<ValueType> {
        let mut kind = ValueType::default();
        let mut reader = field.bytes()?;
        while let Some(field) = reader.field()? {
            match field.number {
                1 => kind.kind = string(&field, self.strings)?,
                2 => kind.unit = string(&field, self.strings)?,
                _ => {}
            }
        }
        Ok(kind)
    }

    fn text(&mut self, field: &Field<'_>) -> Result<()> {
        let bytes = field.bytes()?.rest();
        self.strings_seen += 1;
        if self.strings_seen == 1 {
            return if bytes.is_empty() { Ok(()) } else { Err(malformed(field.offset, "string 0 is not the empty string")) };
        }
        let added = match std::str::from_utf8(bytes) {
            Ok(text) => self.parts.strings.push(text),
            Err(_) => {
                self.oddities.note("strings that are not UTF-8, read with replacement characters", field.offset);
                self.parts.strings.push(&String::from_utf8_lossy(bytes))
            }
        };
        match added {
            Some(_) => Ok(()),
            None => Err(Error::TooLarge { format: NAME, what: "text", limit: u64::from(u32::MAX) }),
        }
    }

    fn comments(&mut self, field: &Field<'_>) -> Result<()> {
        let (comments, strings) = (&mut self.parts.comments, self.strings);
        let mut outside = false;
        field.numbers(|index| match narrow(index, strings) {
            Some(id) => comments.push(id),
            None => outside = true,
        })?;
        if outside { Err(no_string(field)) } else { Ok(()) }
    }

    fn mapping(&mut self, field: &Field<'_>) -> Result<()> {
        let mut id = 0;
        let mut mapping = Mapping::default();
        let mut reader = field.bytes()?;
        while let Some(field) = reader.field()? {
            match field.number {
                1 => id = field.varint()?,
                2 => mapping.start = Addr(field.varint()?),
                3 => mapping.limit = Addr(field.varint()?),
                4 => mapping.file_offset = FileOffset(field.varint()?),
                5 => mapping.filename = string(&field, self.strings)?,
                6 => mapping.build_id = string(&field, self.strings)?,
                7 => mapping.has_functions = field.varint()? != 0,
                8 => mapping.has_filenames = field.varint()? != 0,
                9 => mapping.has_line_numbers = field.varint()? != 0,
                10 => mapping.has_inline_frames = field.varint()? != 0,
                _ => {}
            }
        }
        self.mappings.push(id, field.offset)?;
        self.parts.mappings.push(mapping);
        Ok(())
    }

    fn function(&mut self, field: &Field<'_>) -> Result<()> {
        let mut id = 0;
        let mut function = Function::default();
        let mut reader = field.bytes()?;
        while let Some(field) = reader.field()? {
            match field.number {
                1 => id = field.varint()?,
                2 => function.name = string(&field, self.strings)?,
                3 => function.system_name = string(&field, self.strings)?,
                4 => function.filename = string(&field, self.strings)?,
                5 => function.start_line = field.int()?,
                _ => {}
            }
        }
        self.functions.push(id, field.offset)?;
        self.parts.functions.push(function);
        Ok(())
    }
}

/// Reads what looks up ids.
struct Decoder {
    parts: Parts,
    functions: IdTable,
    mappings: IdTable,
    locations: IdTable,
    strings: usize,
    depth: usize,
    raw_is_whole: bool,
    oddities: Oddities,
}

impl Decoder {
    fn read_locations(&mut self, bytes: &[u8]) -> Result<()> {
        let mut ids = IdTableBuilder::default();
        let mut lines = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            if field.number != 4 {
                continue;
            }
            lines.clear();
            let (id, location) = self.location(&field, &mut lines)?;
            ids.push(id, field.offset)?;
            self.parts.push_location(location, &lines)?;
        }
        self.locations = ids.finish("location")?;
        Ok(())
    }

    fn location(&mut self, field: &Field<'_>, lines: &mut Vec<Line>) -> Result<(u64, Location)> {
        let mut id = 0;
        let mut location = Location::default();
        let mut reader = field.bytes()?;
        while let Some(field) = reader.field()? {
            match field.number {
                1 => id = field.varint()?,
                2 => location.mapping = self.mapping_id(&field)?,
                3 => location.address = Addr(field.varint()?),
                4 => lines.extend(self.line(&field)?),
                5 => location.is_folded = field.varint()? != 0,
                1000 => location.is_return = field.varint()? != 0,
                _ => {}
            }
        }
        Ok((id, location))
    }

    fn mapping_id(&mut self, field: &Field<'_>) -> Result<Option<MappingId>> {
        let id = field.varint()?;
        let mapping = self.mappings.get(id).map(MappingId);
        if id != 0 && mapping.is_none() {
            self.oddities.note("locations in a mapping that does not exist, kept without one", field.offset);
        }
        Ok(mapping)
    }

    fn line(&mut self, field: &Field<'_>) -> Result<Option<Line>> {
        let mut id = 0;
        let mut line = Line::default();
        let mut reader = field.bytes()?;
        while let Some(field) = reader.field()? {
            match field.number {
                1 => id = field.varint()?,
                2 => line.line = field.int()?,
                3 => line.column = field.int()?,
                _ => {}
            }
        }
        match self.functions.get(id) {
            Some(function) => Ok(Some(Line { function: FunctionId(function), ..line })),
            None => {
                self.oddities.note("lines without a function, left out", field.offset);
                Ok(None)
            }
        }
    }

    fn reserve_samples(&mut self, counts: &Counts) {
        // Every value and every frame is at least one byte of its sample.
        let values = counts.samples.saturating_mul(counts.sample_types).min(counts.sample_bytes);
        self.parts.values.reserve_exact(values);
        self.parts.stacks.reserve(counts.sample_bytes / 2);
        self.parts.stack_ends.reserve_exact(counts.samples);
    }

    fn read_samples(&mut self, bytes: &[u8]) -> Result<()> {
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            if field.number == 2 {
                self.sample(&field)?;
            }
        }
        Ok(())
    }

    fn sample(&mut self, field: &Field<'_>) -> Result<()> {
        let offset = field.offset;
        let stack_start = self.parts.stacks.len();
        let value_start = self.parts.values.len();
        let raw_start = self.parts.raw_values.len();
        let label_start = self.parts.labels.len();
        let mut reader = field.bytes()?;
        while let Some(field) = reader.field()? {
            match field.number {
                1 => self.stack(&field)?,
                2 => field.numbers(|value| self.parts.values.push(value as i64))?,
                3 => self.label(&field)?,
                1000 => field.numbers(|value| self.parts.raw_values.push(value as i64))?,
                _ => {}
            }
        }
        let width = self.parts.sample_types.len();
        let values = self.parts.values.len() - value_start;
        if values != width {
            return Err(malformed(offset, format!("a sample has {values} values for {width} sample types")));
        }
        if self.parts.stacks.len() - stack_start > self.depth {
            return Err(Error::TooLarge { format: NAME, what: "frames of a stack", limit: self.depth as u64 });
        }
        self.raw_is_whole &= self.parts.raw_values.len() - raw_start == width;
        self.parts.end_sample(label_start)
    }

    fn stack(&mut self, field: &Field<'_>) -> Result<()> {
        let (stacks, locations) = (&mut self.parts.stacks, &self.locations);
        let mut missing = None;
        field.numbers(|id| match locations.get(id) {
            Some(location) => stacks.push(LocationId(location)),
            None => missing = Some(id),
        })?;
        match missing {
            Some(id) => Err(malformed(field.offset, format!("a sample names location {id}, which does not exist"))),
            None => Ok(()),
        }
    }

    fn label(&mut self, field: &Field<'_>) -> Result<()> {
        let mut key = StringId::default();
        let mut text = None;
        let mut number = None;
        let mut unit = StringId::default();
        let mut reader = field.bytes()?;
        while let Some(field) = reader.field()? {
            match field.number {
                1 => key = string(&field, self.strings)?,
                2 => text = Some(string(&field, self.strings)?),
                3 => number = Some(field.int()?),
                4 => unit = string(&field, self.strings)?,
                _ => {}
            }
        }
        // Some writers spell out the unused text as string 0.
        let value = match text {
            Some(text) if text != StringId(0) || number.is_none() => LabelValue::Text(text),
            _ => LabelValue::Number(number.unwrap_or(0), unit),
        };
        self.parts.labels.push(Label { key, value });
        Ok(())
    }

    fn finish(mut self, warnings: &mut Vec<String>) -> Result<Profile> {
        let sampled = self.parts.sampling != Sampling::Exact && !self.parts.stack_ends.is_empty();
        if !self.raw_is_whole && (sampled || !self.parts.raw_values.is_empty()) {
            warnings.push(format!("{NAME}: the measured values are not there for every sample; the estimates stand alone"));
            self.parts.raw_values.clear();
            self.parts.sampling = Sampling::Exact;
        }
        self.oddities.tell(warnings);
        self.parts.finish()
    }
}

fn captured_addresses(field: &Field<'_>) -> Result<Addresses> {
    Ok(match field.int()? {
        captured::RAW_CPU => Addresses::RawCpu,
        captured::RAW_RETURN => Addresses::RawReturn,
        _ => Addresses::CallSite,
    })
}

#[inline]
fn string(field: &Field<'_>, strings: usize) -> Result<StringId> {
    narrow(field.varint()?, strings).ok_or_else(|| no_string(field))
}

#[inline]
fn narrow(index: u64, strings: usize) -> Option<StringId> {
    if index < strings as u64 { u32::try_from(index).ok().map(StringId) } else { None }
}

fn no_string(field: &Field<'_>) -> Error {
    malformed(field.offset, "names a string that does not exist")
}
