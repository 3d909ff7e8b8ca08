//! Machine words of a CPU profile: 32 or 64 bits, either byte order, recognized by the header `0, 3, VERSION, PERIOD,
//! 0`.

use super::Detect;
use crate::{Error, Place, Result};

/// How words are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Little32,
    Big32,
    Little64,
    Big64,
}

impl Layout {
    const ALL: [Layout; 4] = [Layout::Little32, Layout::Big32, Layout::Little64, Layout::Big64];

    fn width(self) -> usize {
        match self {
            Layout::Little32 | Layout::Big32 => 4,
            Layout::Little64 | Layout::Big64 => 8,
        }
    }

    #[inline]
    fn read(self, bytes: &[u8]) -> Option<u64> {
        match self {
            Layout::Little32 => bytes.first_chunk().map(|word| u64::from(u32::from_le_bytes(*word))),
            Layout::Big32 => bytes.first_chunk().map(|word| u64::from(u32::from_be_bytes(*word))),
            Layout::Little64 => bytes.first_chunk().map(|word| u64::from_le_bytes(*word)),
            Layout::Big64 => bytes.first_chunk().map(|word| u64::from_be_bytes(*word)),
        }
    }

    /// Whether the bytes begin with a header of this layout and version, as far as they go.
    fn fits(self, bytes: &[u8], version: u64) -> Detect {
        let checks: [fn(u64, u64) -> bool; HEADER] = [
            |word, _| word == 0,
            |word, _| word == 3,
            |word, version| word == version,
            |word, _| word > 0,
            |word, _| word == 0,
        ];
        for (index, check) in checks.into_iter().enumerate() {
            match bytes.get(index * self.width()..).and_then(|rest| self.read(rest)) {
                Some(word) if check(word, version) => {}
                Some(_) => return Detect::No,
                None => return Detect::NeedMore,
            }
        }
        Detect::Yes
    }
}

const HEADER: usize = 5;

/// The longest period taken from a header: an hour, in microseconds. Anything beyond is not a profile.
const PERIOD_MICROS_MAX: u64 = 3_600_000_000;

/// Reads the words behind a header.
#[derive(Debug)]
pub(super) struct Words<'a> {
    rest: &'a [u8],
    offset: usize,
    layout: Layout,
    period_micros: u64,
}

impl<'a> Words<'a> {
    /// Whether the bytes begin with a header of that version.
    pub(super) fn detect(bytes: &[u8], version: u64) -> Detect {
        super::detect::any(Layout::ALL.map(|layout| layout.fits(bytes, version)))
    }

    /// Reads the header that begins at `offset`.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::Truncated`] at `offset`.
    pub(super) fn open(format: &'static str, bytes: &'a [u8], offset: usize, version: u64) -> Result<Words<'a>> {
        let place = Place::Offset(offset);
        let rest = &bytes[offset..];
        let Some(layout) = Layout::ALL.into_iter().find(|layout| layout.fits(rest, version) == Detect::Yes) else {
            return Err(match Self::detect(rest, version) {
                Detect::NeedMore => Error::Truncated { format, place, what: "the header" },
                _ => Error::Malformed {
                    format,
                    place,
                    what: format!("expected the header words 0, 3, {version}, period, 0"),
                },
            });
        };
        let mut words = Words { rest, offset, layout, period_micros: 0 };
        let header: [u64; HEADER] = std::array::from_fn(|_| words.next().unwrap_or_default());
        words.period_micros = header[3];
        if words.period_micros > PERIOD_MICROS_MAX {
            let what = format!("a sampling period of {} microseconds is over an hour", words.period_micros);
            return Err(Error::Malformed { format, place, what });
        }
        Ok(words)
    }

    /// The next word; `None` when fewer bytes are left.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u64> {
        let word = self.layout.read(self.rest)?;
        self.rest = &self.rest[self.layout.width()..];
        self.offset += self.layout.width();
        Some(word)
    }

    /// The next `count` words, to be read later; `None`, and nothing read, when fewer bytes are left.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Option<WordSlice<'a>> {
        let len = count.checked_mul(self.layout.width())?;
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        self.offset += len;
        Some(WordSlice { bytes, layout: self.layout })
    }

    /// Bytes not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The offset of the rest in the input.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The sampling period in nanoseconds.
    pub(super) fn period_nanos(&self) -> i64 {
        self.period_micros as i64 * 1000
    }
}

/// Some words that follow one another, still as they are in the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordSlice<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

impl<'a> WordSlice<'a> {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.layout.width()
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<u64> {
        self.layout.read(self.bytes.get(index * self.layout.width()..)?)
    }

    /// The words from `first` on.
    #[inline]
    pub(super) fn iter_from(&self, first: usize) -> impl Iterator<Item = u64> + use<'a> {
        let layout = self.layout;
        let bytes = self.bytes.get(first * layout.width()..).unwrap_or_default();
        bytes.chunks_exact(layout.width()).filter_map(move |word| layout.read(word))
    }
}
