//! Bytes of the message to a [`Profile`].
//!
//! A first pass over the outermost fields counts entries, so that every table is reserved once; then strings, functions
//! and mappings, then locations, then samples are read, each resolving ids of those before. What is allocated stays
//! below 64 times the input.

mod stacks;
mod tables;

use crate::format::Limits;
use crate::format::pprof::NAME;
use crate::format::pprof::id_table::IdTable;
use crate::format::protobuf::{Field, Reader, UnknownFields};
use crate::{Profile, Result, StringId};
use stacks::Decoder;
use tables::Tables;

pub(super) fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let counts = Counts::count(bytes)?;
    let mut tables = Tables::new(&counts);
    tables.read(bytes)?;
    let oddities = &mut tables.oddities;
    let mut decoder = Decoder {
        functions: tables.functions.finish(|offset| oddities.note("functions whose id another has, left out", offset)),
        mappings: tables.mappings.finish(|offset| oddities.note("mappings whose id another has, left out", offset)),
        locations: IdTable::Dense(0),
        strings: counts.strings,
        depth: limits.depth,
        parts: tables.parts,
        raw_is_whole: true,
        oddities: tables.oddities,
        unknown: tables.unknown,
        bare_labels: Vec::new(),
        number_keys: foldhash::HashSet::default(),
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
    fn count(bytes: &[u8]) -> Result<Counts> {
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
        // A message without a string table may still refer to the empty string.
        counts.strings = counts.strings.max(1);
        Ok(counts)
    }
}

/// Oddities that are reported once each, with how often and where first.
#[derive(Default)]
struct Oddities(Vec<(&'static str, usize, usize)>);

impl Oddities {
    fn note(&mut self, what: &'static str, offset: usize) {
        match self.0.iter_mut().find(|oddity| oddity.0 == what) {
            Some(oddity) => oddity.1 += 1,
            None => self.0.push((what, 1, offset)),
        }
    }

    /// The first oddity of these kinds, and where.
    fn first_of(&self, kinds: &[&str]) -> Option<(&'static str, usize)> {
        self.0.iter().find(|(what, ..)| kinds.contains(what)).map(|(what, _, offset)| (*what, *offset))
    }

    fn warn(self, warnings: &mut Vec<String>) {
        for (what, count, offset) in self.0 {
            warnings.push(format!("{NAME}: {what}: {count}, the first at offset {offset}"));
        }
    }
}

/// The string of a field; the empty one if there is no such string.
#[inline]
fn string(field: &Field<'_>, strings: usize, oddities: &mut Oddities) -> Result<StringId> {
    Ok(narrow(field.varint()?, strings).unwrap_or_else(|| {
        oddities.note("names of a string that does not exist, read as empty", field.offset);
        StringId::default()
    }))
}

#[inline]
fn narrow(index: u64, strings: usize) -> Option<StringId> {
    if index < strings as u64 { u32::try_from(index).ok().map(StringId) } else { None }
}
