//! The names of files: `samples/date=2026-11-24/hour=15/00d1c5f0a9b37e42-0000.parquet`.

use std::fmt;

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

/// A set of files, one of each table, that a writer has written together for an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The hour of its profiles.
    pub hour: Hour,
    /// Its writer.
    pub writer: Writer,
    /// The number of the part among those of this hour and writer.
    pub number: u32,
}

impl Part {
    /// The path of its file of a table, relative to the archive.
    pub fn path(&self, table: Table) -> String {
        format!("{}/{}/{}-{:04}.parquet", table.name(), self.hour, self.writer, self.number)
    }

    /// The table and part of a path; `None` if it is no file of an archive.
    pub fn from_path(path: &str) -> Option<(Table, Part)> {
        let mut steps = path.split('/');
        let (table, date, hour, file) = (steps.next()?, steps.next()?, steps.next()?, steps.next()?);
        let table = Table::ALL.into_iter().find(|one| one.name() == table)?;
        let (writer, number) = file.strip_suffix(".parquet")?.split_once('-')?;
        let part = Part { hour: Hour::parse(date, hour)?, writer: writer.parse().ok()?, number: number.parse().ok()? };
        (part.path(table) == path).then_some((table, part))
    }

    /// The first id of its rows. The upper 39 bits are a hash of the part, so that ids of different parts differ; the
    /// lower 24 number the rows.
    pub(crate) fn base(&self) -> i64 {
        let mut hasher = Sha256::new();
        hasher.update(self.writer.0.to_le_bytes());
        hasher.update(self.hour.0.to_le_bytes());
        hasher.update(self.number.to_le_bytes());
        let digest: [u8; 32] = hasher.finalize().into();
        let first = u64::from_le_bytes(std::array::from_fn(|at| digest[at]));
        ((first >> (LOCAL_BITS + 1)) << LOCAL_BITS) as i64
    }
}
