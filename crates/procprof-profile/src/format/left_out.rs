//! Records of a file that cannot be read: they are left out of the profile, counted, and named in one warning.

use crate::{Error, Result};

/// Counts the records of a file that are left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    count: usize,
    first: Option<Error>,
}

impl LeftOut {
    /// What was read of a record; `None` if the record is broken and is counted as left out.
    ///
    /// # Errors
    /// All that concern more than the record: limits, and an input that ends.
    pub(super) fn keep<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error @ (Error::Malformed { .. } | Error::Invalid(_))) => {
                self.add(1, error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts records that are left out for the same reason.
    #[cold]
    pub(super) fn add(&mut self, count: usize, why: Error) {
        self.count += count;
        self.first.get_or_insert(why);
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds those of another part of the file.
    pub(super) fn append(&mut self, other: LeftOut) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }

    /// Warns about them.
    ///
    /// # Errors
    /// The first error, if nothing else was read.
    pub(super) fn end(self, format: &str, is_empty: bool, warnings: &mut Vec<String>) -> Result<()> {
        let Some(first) = self.first else { return Ok(()) };
        if is_empty {
            return Err(first);
        }
        let why = match first {
            Error::Malformed { place, what, .. } => format!("{place}: {what}"),
            Error::Invalid(what) => what,
            other => other.to_string(),
        };
        let records = if self.count == 1 { "record" } else { "records" };
        warnings.push(format!("{format}: left out {} {records} that cannot be read, the first: {why}", self.count));
        Ok(())
    }
}
