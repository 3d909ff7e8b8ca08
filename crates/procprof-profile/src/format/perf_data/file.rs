//! The header of a recording: which events it has, where its records are, and what is known besides.

use foldhash::HashMap;

use super::NAME;
use super::attribute::{Attribute, SIZE_MIN};
use super::features::{self, Features};
use crate::format::events::EVENTS_MAX;
use crate::perf_event::{Layout, field};
use crate::{Error, Place, Result};

/// The first bytes.
pub(in crate::format) const MAGIC: &[u8] = b"PERFILE2";

/// The size of the header in a pipe.
pub(in crate::format) const PIPE_HEADER: u64 = 16;
/// The header up to the features, and with them.
const HEADER_MIN: usize = 72;
const HEADER: usize = 104;
/// Bits of features.
const FEATURES: usize = 256;

/// A recording.
#[derive(Debug, Default)]
pub(super) struct File<'a> {
    pub(super) attributes: Vec<Attribute>,
    /// Events by the ids in records.
    by_id: HashMap<u64, usize>,
    pub(super) features: Features<'a>,
    /// The records.
    pub(super) data: &'a [u8],
    /// Where they begin in the file.
    pub(super) data_offset: usize,
    pub(super) is_pipe: bool,
}

/// A part of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Section {
    /// Reads the section at a place of the file; `None` if it is cut off.
    pub(super) fn at(bytes: &[u8], place: usize) -> Option<Self> {
        let word = |place: usize| Some(u64::from_le_bytes(*bytes.get(place..)?.first_chunk()?));
        Some(Self { offset: word(place)?, size: word(place + 8)? })
    }

    /// Its bytes; `None` if it is not all there.
    pub(super) fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        let start = usize::try_from(self.offset).ok()?;
        bytes.get(start..start.checked_add(usize::try_from(self.size).ok()?)?)
    }
}

impl<'a> File<'a> {
    /// Reads all but the records.
    pub(super) fn read(bytes: &'a [u8], warnings: &mut Vec<String>) -> Result<Self> {
        let header_size = word(bytes, 8)?;
        if header_size == PIPE_HEADER {
            let data = bytes.get(PIPE_HEADER as usize..).unwrap_or_default();
            return Ok(Self { data, data_offset: PIPE_HEADER as usize, is_pipe: true, ..Self::default() });
        }
        let section = |place: usize| Section::at(bytes, place).ok_or(truncated(place, "the header"));
        let (attributes, data) = (section(24)?, section(40)?);
        if header_size < HEADER_MIN as u64 {
            return Err(malformed(8, format!("a header of {header_size} bytes")));
        }
        let mut file = Self { data_offset: to_place(data.offset), ..Self::default() };
        file.read_attributes(bytes, word(bytes, 16)?, attributes)?;
        let rest = bytes.get(file.data_offset..).ok_or(truncated(bytes.len(), "the records"))?;
        let end = data.offset.saturating_add(data.size);
        file.data = match usize::try_from(data.size).ok().and_then(|size| rest.get(..size)) {
            Some(data) if !data.is_empty() => data,
            _ => {
                let what = if data.size == 0 { "was not ended properly" } else { "is cut off" };
                warnings.push(format!("{NAME}: the recording {what}; what is there is read"));
                rest
            }
        };
        if header_size >= HEADER as u64 && data.size > 0 {
            file.read_features(bytes, to_place(end));
        }
        Ok(file)
    }

    fn read_attributes(&mut self, bytes: &'a [u8], entry: u64, section: Section) -> Result<()> {
        const IDS: usize = 16;
        let place = to_place(section.offset);
        let all = section.of(bytes).ok_or(truncated(place, "the events"))?;
        let entry = usize::try_from(entry).unwrap_or(usize::MAX);
        if entry < SIZE_MIN + IDS {
            return Err(malformed(16, format!("events of {entry} bytes")));
        }
        // The ids of all events fit into the file once.
        let mut left = bytes.len() as u64;
        for chunk in all.chunks_exact(entry) {
            let (attribute, ids) = chunk.split_at(entry - IDS);
            let ids = Section::at(ids, 0).ok_or(truncated(place, "an event"))?;
            left = left.checked_sub(ids.size).ok_or_else(|| malformed(place, "more ids than bytes".to_owned()))?;
            let ids = ids.of(bytes).ok_or(truncated(place, "the ids of an event"))?;
            self.add_attribute(attribute, ids, place)?;
        }
        Ok(())
    }

    /// Adds an event with its ids.
    pub(super) fn add_attribute(&mut self, attribute: &[u8], ids: &[u8], place: usize) -> Result<()> {
        if self.attributes.len() == EVENTS_MAX {
            let limit = EVENTS_MAX as u64;
            return Err(Error::TooLarge { format: NAME, what: "the number of events", limit });
        }
        let attribute = Attribute::parse(attribute).ok_or(truncated(place, "an event"))?;
        let number = self.attributes.len();
        self.attributes.push(attribute);
        self.by_id.extend(ids.as_chunks().0.iter().map(|id| (u64::from_le_bytes(*id), number)));
        Ok(())
    }

    /// Names the event that has an id.
    pub(super) fn name_event(&mut self, id: u64, name: String) {
        if let Some(attribute) = self.by_id.get(&id).and_then(|number| self.attributes.get_mut(*number)) {
            attribute.name = name;
        }
    }

    fn read_features(&mut self, bytes: &'a [u8], table: usize) {
        let bits = bytes.get(HEADER_MIN..HEADER).unwrap_or_default();
        let has = |bit: &usize| bits.get(bit / 8).is_some_and(|byte| byte & 1 << (bit % 8) != 0);
        for (index, feature) in (0..FEATURES).filter(has).enumerate() {
            let section = Section::at(bytes, table.saturating_add(16 * index));
            if let Some(content) = section.and_then(|section| section.of(bytes)) {
                self.read_feature(feature, content);
            }
        }
    }

    /// Reads a feature; what can't be read of it stays unknown.
    pub(super) fn read_feature(&mut self, feature: usize, content: &'a [u8]) {
        if feature == features::EVENT_DESC {
            for (name, ids) in features::event_names(content).unwrap_or_default() {
                ids.first().into_iter().for_each(|id| self.name_event(u64::from_le_bytes(*id), name.to_owned()));
            }
            return;
        }
        self.features.read(feature, content);
    }

    /// The event of a record: with one it is that, and what has no known id is of the first.
    pub(super) fn event_of(&self, is_sample: bool, body: &[u8]) -> usize {
        let [first, _, ..] = self.attributes.as_slice() else { return 0 };
        let id = id_place(&first.layout, is_sample, body.len())
            .and_then(|place| body.get(place..)?.first_chunk())
            .map(|id| u64::from_le_bytes(*id));
        id.and_then(|id| self.event_with_id(id)).unwrap_or(0)
    }

    /// The event that has an id.
    pub(super) fn event_with_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// The layout of an event's records.
    pub(super) fn layout(&self, event: usize) -> Layout {
        self.attributes.get(event).map_or_else(Layout::default, |attribute| attribute.layout)
    }
}

/// Where the id of an event is in its records: the same place for all events of a file.
fn id_place(layout: &Layout, is_sample: bool, body: usize) -> Option<usize> {
    let words = |fields: u64| 8 * (layout.sample_type & fields).count_ones() as usize;
    let has = |bit: u64| layout.sample_type & bit != 0;
    match (has(field::IDENTIFIER), has(field::ID)) {
        (true, _) => Some(if is_sample { 0 } else { body.checked_sub(8)? }),
        (false, true) if is_sample => Some(words(field::IP | field::TID | field::TIME | field::ADDR)),
        (false, true) => body.checked_sub(8 + words(field::STREAM_ID | field::CPU)),
        (false, false) => None,
    }
}

fn word(bytes: &[u8], place: usize) -> Result<u64> {
    let chunk = bytes.get(place..).and_then(|rest| rest.first_chunk());
    chunk.map(|word| u64::from_le_bytes(*word)).ok_or(truncated(place, "the header"))
}

fn to_place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

pub(super) fn truncated(place: usize, what: &'static str) -> Error {
    Error::Truncated { format: NAME, place: Place::Offset(place), what }
}

pub(super) fn malformed(place: usize, what: String) -> Error {
    Error::Malformed { format: NAME, place: Place::Offset(place), what }
}
