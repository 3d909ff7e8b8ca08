//! Errors and pins: the journal's lines, and their state in memory.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use procprof_profile::ProfileId;

use super::errors::ErrorJson;
use super::lines::{Journal, JournalDamage, Record};
use crate::{ErrorEntry, ErrorFilter, ErrorRow, Page, PageRequest, Result, StoreOptions};

/// Errors and pins.
#[derive(Debug)]
pub(crate) struct Ledger {
    journal: Journal,
    errors_max: usize,
    /// Ascending by number.
    errors: VecDeque<ErrorEntry>,
    pins: BTreeSet<ProfileId>,
    next_number: u64,
}

impl Ledger {
    /// Reads the journal.
    pub(crate) fn open(data: &Path, options: &StoreOptions) -> Result<(Ledger, JournalDamage)> {
        let mut errors = VecDeque::new();
        let mut pins = BTreeSet::new();
        let mut next_number = 1;
        let (journal, damage) = Journal::open(data, options.journal_bytes_max, |record| {
            match record {
                Record::Error(json) => {
                    let Some(entry) = json.entry().filter(|entry| entry.number >= next_number) else { return false };
                    next_number = entry.number.saturating_add(1);
                    errors.push_back(entry);
                    if errors.len() > options.errors_max {
                        errors.pop_front();
                    }
                }
                Record::Pin { id } => {
                    let Ok(id) = id.parse() else { return false };
                    pins.insert(id);
                }
                Record::Unpin { id } => {
                    let Ok(id) = id.parse() else { return false };
                    pins.remove(&id);
                }
                Record::Version { .. } => {}
            }
            true
        })?;
        Ok((Ledger { journal, errors_max: options.errors_max, errors, pins, next_number }, damage))
    }

    /// Reserves space for rows that report a full disk.
    pub(crate) fn reserve(&mut self) {
        self.journal.reserve();
    }

    /// Stores an error row; returns its number.
    pub(crate) fn record(&mut self, row: ErrorRow) -> u64 {
        let entry = ErrorEntry { number: self.next_number, row: row.cut() };
        self.next_number += 1;
        self.journal.append(&Record::Error(ErrorJson::from(&entry)));
        let number = entry.number;
        self.errors.push_back(entry);
        if self.errors.len() > self.errors_max {
            self.errors.pop_front();
        }
        self.compact_when_large();
        number
    }

    pub(crate) fn errors(&self, filter: &ErrorFilter, page: &PageRequest<u64>) -> Page<ErrorEntry, u64> {
        filter.page(self.errors.iter().rev(), page)
    }

    pub(crate) fn pins(&self) -> &BTreeSet<ProfileId> {
        &self.pins
    }

    pub(crate) fn pin(&mut self, id: ProfileId) -> Result<()> {
        if !self.pins.contains(&id) {
            self.journal.append_synced(&Record::Pin { id: id.to_string() })?;
            self.pins.insert(id);
            self.compact_when_large();
        }
        Ok(())
    }

    pub(crate) fn unpin(&mut self, id: ProfileId) -> Result<()> {
        if self.pins.contains(&id) {
            self.journal.append_synced(&Record::Unpin { id: id.to_string() })?;
            self.pins.remove(&id);
            self.compact_when_large();
        }
        Ok(())
    }

    /// Writes the rows that wait for space.
    pub(crate) fn flush(&mut self) {
        self.journal.flush();
    }

    /// Size of the journal, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.journal.bytes()
    }

    /// Rows that wait for space on the disk, and rows that will never be written because too many waited.
    pub(crate) fn waiting(&self) -> (usize, u64) {
        self.journal.waiting()
    }

    fn compact_when_large(&mut self) {
        if !self.journal.is_large() {
            return;
        }
        let pins: Vec<Record> = self.pins.iter().map(|id| Record::Pin { id: id.to_string() }).collect();
        let errors = self.errors.iter().rev().map(|entry| Record::Error(ErrorJson::from(entry)));
        match self.journal.compact(&pins, errors) {
            // Rows removed from the file are removed here too, so that reopening changes nothing.
            Ok(kept) => drop(self.errors.drain(..self.errors.len() - kept)),
            Err(error) => tracing::warn!(%error, "compact journal"),
        }
    }
}
