//! The names of files: `samples/date=2026-11-24/hour=15/00d1c5f0a9b37e42-0000.parquet`, with hour 24 for a whole day.

use std::fmt;

use procprof_profile::Nanos;
use sha2::{Digest, Sha256};

use crate::{Hour, Table};

/// Bits of the ids of a part that number its rows.
pub(crate) const LOCAL_BITS: u32 = 24;

/// The process that writes parts: random, minted once for a folder of profiles, so that no two writers of an archive
/// use the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer(pub u64);

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl std::str::FromStr for Writer {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Writer, Self::Err> {
        u64::from_str_radix(text, 16).map(Writer)
    }
}

/// How long the time is that the profiles of a part are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Span {
    /// An hour.
    #[default]
    Hour,
    /// A day of UTC. Compaction makes such parts.
    Day,
}

/// A set of files, one of each table, that a writer has written together for an hour, or compaction for a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The hour of its profiles; of a day the first one.
    pub hour: Hour,
    /// How long it is.
    pub span: Span,
    /// Its writer.
    pub writer: Writer,
    /// The number of the part among those of this time and writer.
    pub number: u32,
}

impl Part {
    /// A part of an hour.
    pub fn of_hour(hour: Hour, writer: Writer, number: u32) -> Part {
        Part { hour, span: Span::Hour, writer, number }
    }

    /// The day of its profiles, as in its name: `2026-11-24`.
    pub fn date(&self) -> String {
        self.hour.date().trim_start_matches("date=").to_owned()
    }

    /// The first moment that its profiles may be of.
    pub fn start(&self) -> Nanos {
        self.hour.start()
    }

    /// The first moment after its time.
    pub fn end(&self) -> Nanos {
        match self.span {
            Span::Hour => self.hour.end(),
            Span::Day => self.hour.next_day().start(),
        }
    }

    /// The path of its file of a table, relative to the archive.
    pub fn path(&self, table: Table) -> String {
        format!("{}/{}.parquet", table.name(), self.name())
    }

    /// Its name, which the paths of its files have in common: `date=2026-11-24/hour=15/00d1c5f0a9b37e42-0000`.
    pub fn name(&self) -> String {
        let hour = if self.span == Span::Day { 24 } else { self.hour.of_day() };
        format!("{}/hour={hour:02}/{}-{:04}", self.hour.date(), self.writer, self.number)
    }

    /// The part of a name; `None` if it is none.
    pub fn from_name(name: &str) -> Option<Part> {
        let mut steps = name.split('/');
        let (date, hour, file) = (steps.next()?, steps.next()?, steps.next()?);
        let (writer, number) = file.split_once('-')?;
        let (hour, span) = match hour {
            "hour=24" => (Hour::parse(date, "hour=00")?, Span::Day),
            hour => (Hour::parse(date, hour)?, Span::Hour),
        };
        let part = Part { hour, span, writer: writer.parse().ok()?, number: number.parse().ok()? };
        (part.name() == name).then_some(part)
    }

    /// The table and part of a path; `None` if it is no file of an archive.
    pub fn from_path(path: &str) -> Option<(Table, Part)> {
        let (table, name) = path.strip_suffix(".parquet")?.split_once('/')?;
        let table = Table::ALL.into_iter().find(|one| one.name() == table)?;
        Some((table, Part::from_name(name)?))
    }

    /// The first id of its rows. The upper 39 bits are a hash of the part, so that ids of different parts differ; the
    /// lower 24 number the rows.
    pub(crate) fn base(&self) -> i64 {
        let mut hasher = Sha256::new();
        hasher.update(self.writer.0.to_le_bytes());
        hasher.update(self.hour.0.to_le_bytes());
        hasher.update(self.number.to_le_bytes());
        if self.span == Span::Day {
            hasher.update(b"day");
        }
        let digest: [u8; 32] = hasher.finalize().into();
        let first = u64::from_le_bytes(std::array::from_fn(|at| digest[at]));
        ((first >> (LOCAL_BITS + 1)) << LOCAL_BITS) as i64
    }
}
