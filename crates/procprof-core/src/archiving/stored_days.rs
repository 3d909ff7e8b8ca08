//! [`StoredDays`]: ids of profiles of a store, day by day, as archives have theirs.

use std::iter::Peekable;
use std::vec::IntoIter;

use procprof_archive::Hour;
use procprof_profile::{Nanos, ProfileId};
use procprof_store::{Column, Filter, Order, Result, RowQuery, Rows, Store, Values};

/// Rows that are read at a time.
const ROWS: usize = 4096;

/// Profiles that fulfil a filter, in the order in which they were complete.
pub(crate) struct StoredDays {
    rows: Rows,
    batch: Peekable<IntoIter<(Hour, ProfileId)>>,
}

impl StoredDays {
    /// Those of a store.
    ///
    /// # Errors
    /// The store's, as everywhere here.
    pub(crate) fn new(store: &Store, filter: Filter) -> Result<StoredDays> {
        let query = RowQuery { filter, columns: vec![Column::Id, Column::Completed], order: Order::OldestFirst };
        Ok(StoredDays { rows: store.rows(&query)?, batch: Vec::new().into_iter().peekable() })
    }

    /// The day of the next profile, by its first hour.
    pub(crate) fn day(&mut self) -> Result<Option<Hour>> {
        while self.batch.peek().is_none() {
            let Some(batch) = self.rows.next(ROWS)? else { return Ok(None) };
            if let [Values::Ids(ids), Values::Integers(completed)] = &batch.columns[..] {
                let days = completed.iter().map(|moment| Hour::containing(Nanos(*moment)).day());
                self.batch = days.zip(ids.iter().copied()).collect::<Vec<_>>().into_iter().peekable();
            }
        }
        Ok(self.batch.peek().map(|(day, _)| *day))
    }

    /// The next profiles, as long as they are of a day.
    pub(crate) fn of_day(&mut self, day: Hour) -> Result<Vec<ProfileId>> {
        let mut ids = Vec::new();
        while self.day()? == Some(day) {
            ids.extend(std::iter::from_fn(|| self.batch.next_if(|(of, _)| *of == day)).map(|(_, id)| id));
        }
        Ok(ids)
    }
}
