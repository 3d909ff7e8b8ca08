//! Errors and pins: the journal's lines, and their state in memory.

use std::collections::{BTreeSet, HashMap, VecDeque};
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
                    push(&mut errors, entry, options.errors_max);
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
        push(&mut self.errors, entry, self.errors_max);
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

/// Adds a row. When there are more than `errors_max`, the oldest of the nodes that have the most make room for a
/// sixteenth, so that no node pushes out the rows of others.
fn push(errors: &mut VecDeque<ErrorEntry>, entry: ErrorEntry, errors_max: usize) {
    errors.push_back(entry);
    if errors.len() > errors_max {
        keep_shares(errors, errors_max - errors_max / 16);
    }
}

/// Keeps so many rows: the newest of each node, and of each node as many as its share is, or all if it has fewer.
fn keep_shares(errors: &mut VecDeque<ErrorEntry>, count: usize) {
    let mut rows_by_node: HashMap<Option<u64>, usize> = HashMap::new();
    for entry in errors.iter() {
        *rows_by_node.entry(entry.row.node).or_default() += 1;
    }
    let (share, mut more) = share(rows_by_node.into_values().collect(), count);
    // The newest first: the first `share` rows of each node stay, and of its next ones those that fit.
    let mut ranks: HashMap<Option<u64>, usize> = HashMap::new();
    let mut kept: Vec<bool> = errors
        .iter()
        .rev()
        .map(|entry| {
            let rank = ranks.entry(entry.row.node).or_default();
            *rank += 1;
            let is_next = *rank == share + 1 && more > 0;
            more -= usize::from(is_next);
            *rank <= share || is_next
        })
        .collect();
    errors.retain(|_| kept.pop().unwrap_or(true));
}

/// The largest number of rows that each node may have so that there are no more than `count`, and how many are left.
fn share(mut rows: Vec<usize>, count: usize) -> (usize, usize) {
    rows.sort_unstable();
    let (mut left, mut nodes) = (count, rows.len());
    for own in rows {
        if own.saturating_mul(nodes) > left {
            return (left / nodes, left % nodes);
        }
        (left, nodes) = (left - own, nodes - 1);
    }
    (usize::MAX - 1, 0)
}

#[cfg(test)]
mod tests {
    use procprof_profile::Nanos;

    use super::*;
    use crate::ErrorKind;

    fn rows_of(nodes: &[u64]) -> VecDeque<ErrorEntry> {
        let row = |node| ErrorRow {
            node: Some(node),
            profile_type: None,
            time: Nanos(0),
            kind: ErrorKind::Refused,
            reason: String::new(),
            first_bytes: Vec::new(),
        };
        (1..).zip(nodes).map(|(number, node)| ErrorEntry { number, row: row(*node) }).collect()
    }

    #[test]
    fn the_oldest_rows_of_the_nodes_with_the_most_make_room() {
        for (nodes, count, kept) in [
            (&[1, 2, 2, 2, 2, 2][..], 3, &[1, 5, 6][..]),
            (&[1, 1, 1, 1], 2, &[3, 4]),
            (&[1, 2, 1, 2, 1, 2], 3, &[4, 5, 6]),
            (&[1, 2, 3], 3, &[1, 2, 3]),
            (&[1, 2, 3], 2, &[2, 3]),
            (&[3, 1, 1, 2, 2, 2, 1], 5, &[1, 3, 5, 6, 7]),
            (&[1], 0, &[]),
        ] {
            let mut errors = rows_of(nodes);
            keep_shares(&mut errors, count);
            let numbers: Vec<u64> = errors.iter().map(|entry| entry.number).collect();
            assert_eq!(numbers, kept, "{nodes:?}");
        }
    }

    #[test]
    fn one_node_does_not_push_out_the_rows_of_others() {
        let mut errors = VecDeque::new();
        for entry in rows_of(&[&[7; 100][..], &[9; 5000]].concat()) {
            push(&mut errors, entry, 1000);
            assert!(errors.len() <= 1000);
        }
        assert_eq!(errors.iter().filter(|entry| entry.row.node == Some(7)).count(), 100);
        assert!(errors.len() > 900 && errors.back().unwrap().number == 5100);
    }
}
