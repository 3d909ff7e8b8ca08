//! Where in a unit each function and each sequence of lines is described, so that one of them can be read
//! without the rest of the unit.

use super::Broken;
use crate::leb::{Malformed, Read, Write};
use crate::spans::Span;
use crate::zone::Zone;

/// Fewest bytes of a span as it is written.
const SPAN_BYTES_MIN: usize = 3;

/// What is where in a unit.
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

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
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

    pub(crate) fn read(read: &mut Read<'_>) -> Result<Self, Malformed> {
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
        Ok(guide)
    }
}

impl From<Malformed> for Broken {
    fn from(_: Malformed) -> Self {
        Self
    }
}
