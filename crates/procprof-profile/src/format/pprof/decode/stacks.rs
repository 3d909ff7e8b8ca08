//! Locations and samples: what looks up ids.

use foldhash::HashSet;

use super::{Counts, Oddities, UnknownFields, narrow};
use crate::format::pprof::id_table::{IdTable, IdTableBuilder};
use crate::format::pprof::{NAME, malformed};
use crate::format::protobuf::{Field, Reader};
use crate::{
    Addr, Error, FunctionId, Label, LabelValue, Line, Location, LocationId, MappingId, Parts, Profile, Result,
    Sampling, StringId,
};

const NO_LOCATION: &str = "samples of a location that does not exist, left out";
const WRONG_VALUES: &str = "samples without a value for each sample type, left out";

/// Reads what looks up ids.
pub(super) struct Decoder {
    pub(super) parts: Parts,
    pub(super) functions: IdTable,
    pub(super) mappings: IdTable,
    pub(super) locations: IdTable,
    pub(super) strings: usize,
    pub(super) depth: usize,
    pub(super) raw_is_whole: bool,
    pub(super) oddities: Oddities,
    pub(super) unknown: UnknownFields,
    /// Positions of labels that have a key and nothing else.
    pub(super) bare_labels: Vec<usize>,
    /// Keys of labels that are numbers.
    pub(super) number_keys: HashSet<StringId>,
}

impl Decoder {
    pub(super) fn read_locations(&mut self, bytes: &[u8]) -> Result<()> {
        let mut ids = IdTableBuilder::default();
        let mut lines = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            if field.number != 4 {
                continue;
            }
            lines.clear();
            let (id, location) = self.location(&field, &mut lines)?;
            if id == 0 {
                self.oddities.note("locations with the id 0, left out", field.offset);
                continue;
            }
            ids.push(id, field.offset)?;
            self.parts.push_location(location, &lines)?;
        }
        let oddities = &mut self.oddities;
        self.locations = ids.finish(|offset| oddities.note("locations whose id another has, left out", offset));
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
                _ => self.unknown.note("Location", &field),
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
                _ => self.unknown.note("Line", &field),
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

    pub(super) fn reserve_samples(&mut self, counts: &Counts) {
        // Every value and every frame is at least one byte of its sample.
        let values = counts.samples.saturating_mul(counts.sample_types).min(counts.sample_bytes);
        self.parts.values.reserve_exact(values);
        self.parts.stacks.reserve(counts.sample_bytes / 2);
        self.parts.stack_ends.reserve_exact(counts.samples);
    }

    pub(super) fn read_samples(&mut self, bytes: &[u8]) -> Result<()> {
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            if field.number == 2 {
                self.sample(&field)?;
            }
        }
        Ok(())
    }

    /// Reads a sample; one that names what is not there is left out.
    fn sample(&mut self, field: &Field<'_>) -> Result<()> {
        let offset = field.offset;
        let mut has_all = true;
        let stack_start = self.parts.stacks.len();
        let value_start = self.parts.values.len();
        let raw_start = self.parts.raw_values.len();
        let label_start = self.parts.labels.len();
        let mut reader = field.bytes()?;
        while let Some(field) = reader.field()? {
            match field.number {
                1 => has_all &= self.stack(&field)?,
                2 => field.numbers(|value| self.parts.values.push(value as i64))?,
                3 => self.label(&field)?,
                1000 => field.numbers(|value| self.parts.raw_values.push(value as i64))?,
                _ => self.unknown.note("Sample", &field),
            }
        }
        let width = self.parts.sample_types.len();
        let values = self.parts.values.len() - value_start;
        if !has_all || values != width {
            let what = if has_all { WRONG_VALUES } else { NO_LOCATION };
            self.oddities.note(what, offset);
            self.parts.stacks.truncate(stack_start);
            self.parts.values.truncate(value_start);
            self.parts.raw_values.truncate(raw_start);
            self.parts.labels.truncate(label_start);
            self.bare_labels.retain(|bare| *bare < label_start);
            return Ok(());
        }
        if self.parts.stacks.len() - stack_start > self.depth {
            return Err(Error::TooLarge { format: NAME, what: "frames of a stack", limit: self.depth as u64 });
        }
        self.raw_is_whole &= self.parts.raw_values.len() - raw_start == width;
        self.parts.end_sample(label_start)
    }

    /// Reads locations of a stack; `false` if one does not exist.
    fn stack(&mut self, field: &Field<'_>) -> Result<bool> {
        let (stacks, locations) = (&mut self.parts.stacks, &self.locations);
        let mut has_all = true;
        field.numbers(|id| match locations.get(id) {
            Some(location) => stacks.push(LocationId(location)),
            None => has_all = false,
        })?;
        Ok(has_all)
    }

    fn label(&mut self, field: &Field<'_>) -> Result<()> {
        let mut key = StringId::default();
        let mut text = None;
        let mut number = None;
        let mut unit = StringId::default();
        let mut has_all = true;
        let mut reader = field.bytes()?;
        let strings = self.strings;
        let mut string = |field: &Field<'_>| {
            let string = narrow(field.varint()?, strings);
            has_all &= string.is_some();
            Ok::<_, Error>(string.unwrap_or_default())
        };
        while let Some(field) = reader.field()? {
            match field.number {
                1 => key = string(&field)?,
                2 => text = Some(string(&field)?),
                3 => number = Some(field.int()?),
                4 => unit = string(&field)?,
                _ => self.unknown.note("Label", &field),
            }
        }
        if !has_all {
            self.oddities.note("labels with a string that does not exist, left out", field.offset);
            return Ok(());
        }
        let value = match (text, number) {
            // Some writers spell out the unused text as string 0.
            (Some(text), number) if text != StringId(0) || number.is_none() => LabelValue::Text(text),
            (None, None) if unit == StringId(0) => {
                self.bare_labels.push(self.parts.labels.len());
                LabelValue::Text(StringId(0))
            }
            (_, number) => LabelValue::Number(number.unwrap_or(0), unit),
        };
        if matches!(value, LabelValue::Number(..)) && !self.number_keys.contains(&key) {
            self.number_keys.insert(key);
        }
        self.parts.labels.push(Label { key, value });
        Ok(())
    }

    pub(super) fn finish(mut self, warnings: &mut Vec<String>) -> Result<Profile> {
        // Writers leave out what is 0 or empty: with a key of numbers it is the number 0, else the empty text.
        for bare in &self.bare_labels {
            let label = &mut self.parts.labels[*bare];
            if self.number_keys.contains(&label.key) {
                label.value = LabelValue::Number(0, StringId(0));
            }
        }
        let sampled = self.parts.sampling != Sampling::Exact && !self.parts.stack_ends.is_empty();
        if !self.raw_is_whole && (sampled || !self.parts.raw_values.is_empty()) {
            warnings
                .push(format!("{NAME}: the measured values are not there for every sample; the estimates stand alone"));
            self.parts.raw_values.clear();
            self.parts.sampling = Sampling::Exact;
        }
        if self.parts.stack_ends.is_empty()
            && let Some((what, offset)) = self.oddities.first_of(&[NO_LOCATION, WRONG_VALUES])
        {
            return Err(malformed(offset, what));
        }
        self.oddities.warn(warnings);
        self.unknown.warn(NAME, warnings);
        self.parts.finish()
    }
}
