//! The places of each function and each sequence of lines in a unit, so that one of them can be read without the rest
//! of the unit.

use std::borrow::Cow;
use std::ops::Range;

use foldhash::HashMap;

use super::Broken;
use crate::leb::{Malformed, Read, Write};
use crate::ranges::{Span, Zone};

/// Fewest bytes of a span as it is written.
const SPAN_BYTES_MIN: usize = 3;

/// The places of functions and lines in a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Guide {
    /// The code of all functions and the offsets of their entries in the unit, which ascend.
    pub(crate) functions: Vec<Span<usize>>,
    /// The sequences of the line program and where they begin in it, which ascends.
    pub(crate) sequences: Vec<Span<usize>>,
}

impl Guide {
    /// The places of the sequences with lines in the zone.
    pub(super) fn sequences_in(&self, zone: Zone<'_>) -> impl Iterator<Item = usize> {
        self.sequences.iter().filter(move |span| zone.touches(span.begin, span.end)).map(|span| span.value)
    }

    /// Writes it with its unit's offset, so that those of other units can be skipped.
    pub(crate) fn write_next(&self, unit: usize, bytes: &mut Vec<u8>) {
        let mut own = Vec::new();
        self.write(&mut own);
        bytes.number(unit as u64);
        bytes.bytes(&own);
    }

    /// The offset of the next unit, and its guide as it is written.
    pub(crate) fn read_next<'b>(read: &mut Read<'b>) -> Result<(usize, &'b [u8]), Malformed> {
        let unit = usize::try_from(read.number()?).map_err(|_| Malformed)?;
        Ok((unit, read.bytes()?))
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        for spans in [&self.functions, &self.sequences] {
            bytes.number(spans.len() as u64);
            let (mut place, mut address) = (0, 0);
            for Span { begin, end, value } in spans {
                bytes.number((value - place) as u64);
                bytes.signed(begin.wrapping_sub(address) as i64);
                bytes.number(end - begin);
                (place, address) = (*value, *end);
            }
        }
    }

    /// Errs if it is anything but one guide.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut read = Read(bytes);
        let mut guide = Self::default();
        for spans in [&mut guide.functions, &mut guide.sequences] {
            let (mut place, mut address) = (0usize, 0u64);
            let count = read.count()?;
            spans.reserve(count.min(read.0.len() / SPAN_BYTES_MIN));
            for _ in 0..count {
                let further = usize::try_from(read.number()?).map_err(|_| Malformed)?;
                place = place.checked_add(further).ok_or(Malformed)?;
                let begin = address.wrapping_add(read.signed()? as u64);
                address = begin.checked_add(read.number()?).ok_or(Malformed)?;
                spans.push(Span { begin, end: address, value: place });
            }
        }
        if read.0.is_empty() { Ok(guide) } else { Err(Malformed) }
    }
}

/// Guides by the offset of their unit, each read when it is requested.
#[derive(Debug, Default)]
pub(crate) struct Guides<'k> {
    parts: Vec<Cow<'k, [u8]>>,
    /// The part, and where in it.
    places: HashMap<usize, (usize, Range<usize>)>,
}

impl<'k> Guides<'k> {
    /// Those of parts of an index; the last one of a unit is used. Of a broken part, those before the damage are used.
    pub(crate) fn from_parts(parts: Vec<Cow<'k, [u8]>>) -> Self {
        let mut places = HashMap::default();
        for (number, part) in parts.iter().enumerate() {
            let mut read = Read(part);
            while let Ok((unit, bytes)) = Guide::read_next(&mut read) {
                let end = part.len() - read.0.len();
                places.insert(unit, (number, end - bytes.len()..end));
            }
        }
        Self { parts, places }
    }

    /// The guide to the unit at that offset; `None` if there is none, or a broken one.
    pub(crate) fn get(&self, unit: usize) -> Option<Guide> {
        let (part, place) = self.places.get(&unit)?;
        Guide::read(&self.parts[*part][place.clone()]).ok()
    }
}

impl From<Malformed> for Broken {
    fn from(_: Malformed) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guide(places: &[usize]) -> Guide {
        let spans = places.iter().map(|place| Span {
            begin: 0x1000 + *place as u64,
            end: 0x1008 + *place as u64,
            value: *place,
        });
        Guide { functions: spans.clone().collect(), sequences: spans.rev().take(1).collect() }
    }

    #[test]
    fn finds_the_guide_of_a_unit() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        guide(&[11, 300]).write_next(0, &mut first);
        guide(&[]).write_next(70_000, &mut first);
        guide(&[5]).write_next(9, &mut second);
        // The last part is used.
        guide(&[12]).write_next(0, &mut second);
        let guides = Guides::from_parts(vec![Cow::Borrowed(&first), Cow::Borrowed(&second)]);
        assert_eq!(guides.get(0), Some(guide(&[12])));
        assert_eq!(guides.get(9), Some(guide(&[5])));
        assert_eq!(guides.get(70_000), Some(guide(&[])));
        assert_eq!(guides.get(1), None);
    }

    #[test]
    fn a_broken_part_has_the_guides_before_the_break() {
        let mut part = Vec::new();
        guide(&[1, 2, 3]).write_next(7, &mut part);
        let whole = part.len();
        guide(&[4]).write_next(8, &mut part);
        for cut in 0..part.len() {
            let guides = Guides::from_parts(vec![Cow::Borrowed(&part[..cut])]);
            assert_eq!(guides.get(7), (cut >= whole).then(|| guide(&[1, 2, 3])), "cut at {cut}");
            assert_eq!(guides.get(8), None, "cut at {cut}");
        }
        // A length that is right around a guide that is not.
        let mut odd = Vec::new();
        odd.number(7);
        odd.bytes(&[1, 5]);
        assert_eq!(Guides::from_parts(vec![Cow::Owned(odd)]).get(7), None);
    }
}
