//! Strings, sample types, functions, mappings and single fields: what can be read without looking up any id.

use super::{Counts, Oddities, UnknownFields, narrow, string};
use crate::format::pprof::id_table::IdTableBuilder;
use crate::format::pprof::{NAME, captured, malformed, sampling};
use crate::format::protobuf::{Field, Reader};
use crate::{Addr, Addresses, Error, FileOffset, Function, Mapping, Nanos, Parts, Result, Sampling, ValueType};

/// The tables that can be read without looking up any id.
pub(super) struct Tables {
    pub(super) parts: Parts,
    pub(super) functions: IdTableBuilder,
    pub(super) mappings: IdTableBuilder,
    strings: usize,
    strings_seen: usize,
    pub(super) oddities: Oddities,
    pub(super) unknown: UnknownFields,
}

impl Tables {
    pub(super) fn new(counts: &Counts) -> Tables {
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
            unknown: UnknownFields::default(),
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<()> {
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
                7 => self.parts.drop_frames = string(&field, self.strings, &mut self.oddities)?,
                8 => self.parts.keep_frames = string(&field, self.strings, &mut self.oddities)?,
                9 => self.parts.time = Nanos(field.int()?),
                10 => self.parts.duration = Nanos(field.int()?),
                11 => self.parts.period_type = self.value_type(&field)?,
                12 => self.parts.period = field.int()?,
                13 => self.comments(&field)?,
                14 => self.parts.default_sample_type = string(&field, self.strings, &mut self.oddities)?,
                15 => self.parts.doc_url = string(&field, self.strings, &mut self.oddities)?,
                1000 => sampling_kind = field.int()?,
                1001 => sampling_rate = field.int()?,
                1002 => self.parts.captured = captured_addresses(&field)?,
                // Samples and locations come later.
                2 | 4 => {}
                _ => self.unknown.note("Profile", &field),
            }
        }
        self.parts.sampling = match sampling_kind {
            sampling::POISSON => Sampling::Poisson(sampling_rate),
            sampling::LINEAR => Sampling::Linear(sampling_rate),
            _ => Sampling::Exact,
        };
        Ok(())
    }

    fn value_type(&mut self, field: &Field<'_>) -> Result<ValueType> {
        let mut kind = ValueType::default();
        let mut reader = field.bytes()?;
        while let Some(field) = reader.field()? {
            match field.number {
                1 => kind.kind = string(&field, self.strings, &mut self.oddities)?,
                2 => kind.unit = string(&field, self.strings, &mut self.oddities)?,
                _ => self.unknown.note("ValueType", &field),
            }
        }
        Ok(kind)
    }

    fn text(&mut self, field: &Field<'_>) -> Result<()> {
        let bytes = field.bytes()?.rest();
        self.strings_seen += 1;
        if self.strings_seen == 1 {
            return if bytes.is_empty() {
                Ok(())
            } else {
                Err(malformed(field.offset, "string 0 is not the empty string"))
            };
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
        let (comments, oddities) = (&mut self.parts.comments, &mut self.oddities);
        let strings = self.strings;
        field.numbers(|index| match narrow(index, strings) {
            Some(id) => comments.push(id),
            None => oddities.note("comments whose string does not exist, left out", field.offset),
        })?;
        Ok(())
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
                5 => mapping.filename = string(&field, self.strings, &mut self.oddities)?,
                6 => mapping.build_id = string(&field, self.strings, &mut self.oddities)?,
                7 => mapping.has_functions = field.varint()? != 0,
                8 => mapping.has_filenames = field.varint()? != 0,
                9 => mapping.has_line_numbers = field.varint()? != 0,
                10 => mapping.has_inline_frames = field.varint()? != 0,
                _ => self.unknown.note("Mapping", &field),
            }
        }
        if id == 0 {
            self.oddities.note("mappings with the id 0, left out", field.offset);
            return Ok(());
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
                2 => function.name = string(&field, self.strings, &mut self.oddities)?,
                3 => function.system_name = string(&field, self.strings, &mut self.oddities)?,
                4 => function.filename = string(&field, self.strings, &mut self.oddities)?,
                5 => function.start_line = field.int()?,
                _ => self.unknown.note("Function", &field),
            }
        }
        if id == 0 {
            self.oddities.note("functions with the id 0, left out", field.offset);
            return Ok(());
        }
        self.functions.push(id, field.offset)?;
        self.parts.functions.push(function);
        Ok(())
    }
}

fn captured_addresses(field: &Field<'_>) -> Result<Addresses> {
    Ok(match field.int()? {
        captured::RAW_CPU => Addresses::RawCpu,
        captured::RAW_RETURN => Addresses::RawReturn,
        _ => Addresses::CallSite,
    })
}
