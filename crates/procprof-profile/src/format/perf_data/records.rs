//! The records of a recording in the order of time.
//!
//! ```text
//! HEADER_ATTR 64     attribute, ids                       in pipes
//! TRACING_DATA 66    size u32; so many bytes, padded to 8, follow the record
//! HEADER_BUILD_ID 67 as in the feature
//! AUXTRACE 71        size u64, …; so many bytes follow the record
//! EVENT_UPDATE 78    what u64 (2: a name), id of an event u64, name
//! HEADER_FEATURE 80  feature u64, its content
//! COMPRESSED 81, 83  records packed by zstd, which are unpacked before
//! ```

use super::NAME;
use super::attribute::SIZE_MIN;
use super::features::until_zero;
use super::file::{File, truncated};
use crate::Result;
use crate::perf_event::{Header, Record};

const HEADER_ATTR: u32 = 64;
const TRACING_DATA: u32 = 66;
const HEADER_BUILD_ID: u32 = 67;
const AUXTRACE: u32 = 71;
const EVENT_UPDATE: u32 = 78;
const HEADER_FEATURE: u32 = 80;
/// Types of records that are packed.
pub(in crate::format) const COMPRESSED: [u32; 2] = [81, 83];
pub(in crate::format) const SAMPLE: u32 = 9;
/// The first type of `perf`'s own records.
const USER_TYPE_START: u32 = 64;
const UPDATE_NAME: u64 = 2;

/// The records in order.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    /// Time and place in the data.
    places: Vec<(u64, usize)>,
    /// The bytes behind the last record that is whole.
    pub(super) rest: usize,
}

/// Reads what records tell of events and features, and orders the others. Those without a time come first, as they are
/// written for what was there before the recording.
pub(super) fn in_order(file: &mut File<'_>, warnings: &mut Vec<String>) -> Result<Ordered> {
    let data = file.data;
    let mut ordered = Ordered::default();
    let mut place = 0;
    while let Some(header) = data.get(place..).and_then(Header::parse) {
        let Some(body) = data.get(place + Header::SIZE..place + usize::from(header.size)) else { break };
        if header.kind >= USER_TYPE_START {
            read_own(file, header, body, place)?;
        } else {
            let event = file.event_of(header.kind == SAMPLE, body);
            let time = Record::time(header, body, &file.layout(event));
            ordered.places.push((time.filter(|time| *time != u64::MAX).unwrap_or(0), place));
        }
        place = place.saturating_add(usize::from(header.size)).saturating_add(following(header, body));
    }
    ordered.rest = data.len().saturating_sub(place);
    if ordered.rest > 0 {
        let at = file.data_offset + place;
        warnings.push(format!("{NAME}: offset {at}: no whole record; {} bytes are not read", ordered.rest));
    }
    ordered.places.sort_unstable();
    Ok(ordered)
}

/// Reads one of `perf`'s own records.
fn read_own<'a>(file: &mut File<'a>, header: Header, body: &'a [u8], place: usize) -> Result<()> {
    let word = |place: usize| Some(u64::from_le_bytes(*body.get(place..)?.first_chunk()?));
    match header.kind {
        HEADER_ATTR if file.is_pipe => {
            let size = body.get(4..8).and_then(|size| size.first_chunk()).map_or(0, |size| u32::from_le_bytes(*size));
            let size = usize::try_from(size).unwrap_or(usize::MAX).max(SIZE_MIN);
            let at = file.data_offset + place;
            let (attribute, ids) = body.split_at_checked(size).ok_or(truncated(at, "an event"))?;
            file.add_attribute(attribute, ids, at)?;
        }
        HEADER_BUILD_ID => file.features.read_build_id(header, body),
        HEADER_FEATURE => {
            if let (Some(feature), Some(content)) = (word(0), body.get(8..)) {
                file.read_feature(usize::try_from(feature).unwrap_or(usize::MAX), content);
            }
        }
        EVENT_UPDATE => {
            if let (Some(UPDATE_NAME), Some(id), Some(name)) = (word(0), word(8), body.get(16..)) {
                file.name_event(id, String::from_utf8_lossy(until_zero(name)).into_owned());
            }
        }
        _ => {}
    }
    Ok(())
}

/// Bytes behind a record that belong to it.
pub(in crate::format) fn following(header: Header, body: &[u8]) -> usize {
    let size = match header.kind {
        TRACING_DATA => body.first_chunk().map(|size| u64::from(u32::from_le_bytes(*size)).next_multiple_of(8)),
        AUXTRACE => body.first_chunk().map(|size| u64::from_le_bytes(*size)),
        _ => None,
    };
    usize::try_from(size.unwrap_or(0)).unwrap_or(usize::MAX)
}

impl Ordered {
    /// All records, with the event each is of and its time: 0 if it has none.
    pub(super) fn iter<'a>(&self, file: &File<'a>) -> impl Iterator<Item = (u64, usize, Header, &'a [u8])> {
        let data = file.data;
        self.places.iter().filter_map(move |(time, place)| {
            let record = data.get(*place..)?;
            let header = Header::parse(record)?;
            let body = record.get(Header::SIZE..usize::from(header.size))?;
            Some((*time, file.event_of(header.kind == SAMPLE, body), header, body))
        })
    }
}
