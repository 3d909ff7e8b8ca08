//! Columns of rows in memory, so that statements over many rows do not step through the database row by row.
//!
//! Rows are cut into pieces by `seq`, and columns are kept by piece. The database has the version of each piece, which
//! triggers change with any of its rows: by it a snapshot knows which columns in memory are those of its rows, and it
//! reads the others.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use foldhash::HashMap;
use procprof_profile::ProfileId;
use rusqlite::{Connection, params};

use super::error::broken;
use super::rows::{name, push};
use super::schema::PIECE_ROWS;
use crate::mutex::lock;
use crate::{Column, Filter, Order, RowBatch, RowQuery, Values};

/// Memory for columns.
const BYTES_MAX: usize = 32 << 20;
/// Pieces that are read for a statement about some nodes, whose rows an index has.
const READ_MAX: usize = 4;

/// The columns in memory.
#[derive(Debug, Default)]
pub(super) struct ColumnCache(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    columns: HashMap<(i64, Column), HeldColumn>,
    bytes: usize,
    /// The number of times that columns were asked for.
    asked: u64,
}

#[derive(Debug)]
struct HeldColumn {
    version: i64,
    values: Arc<Values>,
    bytes: usize,
    /// When it was last asked for.
    used: u64,
}

/// A piece as a snapshot has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    number: i64,
    version: i64,
    rows: usize,
}

impl ColumnCache {
    /// The columns of a piece that are there.
    fn get(&self, piece: Piece, columns: &[Column]) -> Vec<Option<Arc<Values>>> {
        let mut held = lock(&self.0);
        held.asked += 1;
        let asked = held.asked;
        let get = |column: &Column| {
            let kept = held.columns.get_mut(&(piece.number, *column)).filter(|kept| kept.version == piece.version)?;
            kept.used = asked;
            Some(Arc::clone(&kept.values))
        };
        columns.iter().map(get).collect()
    }

    fn has(&self, piece: Piece, columns: &[Column]) -> bool {
        let held = lock(&self.0);
        let is_there =
            |column| held.columns.get(&(piece.number, column)).is_some_and(|kept| kept.version == piece.version);
        columns.iter().all(|column| is_there(*column))
    }

    fn keep(&self, piece: Piece, column: Column, values: Arc<Values>) {
        let mut held = lock(&self.0);
        let (bytes, used) = (values.bytes(), held.asked);
        let kept = HeldColumn { version: piece.version, values, bytes, used };
        held.bytes += bytes;
        if let Some(old) = held.columns.insert((piece.number, column), kept) {
            held.bytes -= old.bytes;
        }
        if held.bytes > BYTES_MAX {
            held.shrink();
        }
    }

    /// The columns of a piece; those that are missing are read.
    fn columns(&self, reader: &Connection, piece: Piece, columns: &[Column]) -> rusqlite::Result<Vec<Arc<Values>>> {
        let there = self.get(piece, columns);
        let missing: Vec<Column> =
            columns.iter().zip(&there).filter(|(_, values)| values.is_none()).map(|(column, _)| *column).collect();
        let mut read = read(reader, piece, &missing)?.into_iter().zip(missing).map(|(values, column)| {
            let values = Arc::new(values);
            self.keep(piece, column, Arc::clone(&values));
            values
        });
        Ok(there.into_iter().filter_map(|values| values.or_else(|| read.next())).collect())
    }
}

impl Held {
    /// Drops what was not asked for longest.
    fn shrink(&mut self) {
        let mut by_use: Vec<(u64, (i64, Column))> = self.columns.iter().map(|(key, kept)| (kept.used, *key)).collect();
        by_use.sort_unstable();
        for (_, key) in by_use {
            if self.bytes <= BYTES_MAX / 8 * 7 {
                return;
            }
            self.bytes -= self.columns.remove(&key).map_or(0, |kept| kept.bytes);
        }
    }
}

/// Reads columns of a piece.
fn read(reader: &Connection, piece: Piece, columns: &[Column]) -> rusqlite::Result<Vec<Values>> {
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = columns.iter().map(|column| name(*column)).collect();
    let sql =
        format!("SELECT {} FROM profiles WHERE seq >= ?1 AND seq < ?1 + {PIECE_ROWS} ORDER BY seq", names.join(", "));
    let mut statement = reader.prepare_cached(&sql)?;
    let mut rows = statement.query([piece.number * PIECE_ROWS])?;
    let mut found: Vec<Values> = columns.iter().map(|column| Values::empty(*column)).collect();
    while let Some(row) = rows.next()? {
        for (at, values) in found.iter_mut().enumerate() {
            push(values, row, at)?;
        }
    }
    if found.iter().any(|values| values.rows() != piece.rows) {
        return Err(broken("a piece has another number of rows than it should have"));
    }
    for (values, column) in found.iter_mut().zip(columns) {
        if let (Values::Texts(texts), true) = (&mut *values, is_repeated(*column)) {
            *texts = texts.without_repetitions();
        }
    }
    Ok(found)
}

/// Whether many rows have the same text.
fn is_repeated(column: Column) -> bool {
    use Column::{Cluster, Engine, Labels, TopFunction, Trigger, Type};
    matches!(column, Type | Trigger | Cluster | Labels | TopFunction | Engine)
}

/// What a value takes in memory, about.
fn width(column: Column) -> usize {
    match column {
        Column::Id => size_of::<ProfileId>(),
        Column::File => 64,
        Column::Totals => 128,
        column if is_repeated(column) => size_of::<u32>(),
        _ => size_of::<i64>(),
    }
}

/// A walk through the pieces that may have rows of a query.
#[derive(Debug)]
pub(super) struct PieceWalk {
    cache: Arc<ColumnCache>,
    /// The columns that are read: those of the filter and of the query.
    columns: Vec<Column>,
    left: VecDeque<Piece>,
    begun: Option<Begun>,
}

/// A piece whose rows were not all taken.
#[derive(Debug)]
struct Begun {
    columns: Vec<Arc<Values>>,
    /// Its rows that the filter lets through.
    rows: Vec<u32>,
    taken: usize,
}

impl PieceWalk {
    /// The walk of a query; `None` if one through an index is better: an order is wanted, or few rows, or a column that
    /// is not kept, or more than there is memory for.
    pub(super) fn new(
        cache: &Arc<ColumnCache>,
        reader: &Connection,
        query: &RowQuery,
    ) -> rusqlite::Result<Option<PieceWalk>> {
        let filter = &query.filter;
        let is_kept = |column: &Column| !column.is_detail();
        if query.order != Order::Any
            || !filter.ids.is_empty()
            || filter.text.is_some()
            || query.columns.is_empty()
            || !query.columns.iter().all(is_kept)
        {
            return Ok(None);
        }
        let pinned_by_id = |column: &Column| if *column == Column::Pinned { Column::Id } else { *column };
        let columns: BTreeSet<Column> = query.columns.iter().map(pinned_by_id).chain(columns_of(filter)).collect();
        let columns: Vec<Column> = columns.into_iter().collect();
        let left = pieces(reader, filter)?;
        let rows: usize = left.iter().map(|piece| piece.rows).sum();
        if rows.saturating_mul(columns.iter().map(|column| width(*column)).sum()) > BYTES_MAX {
            return Ok(None);
        }
        let missing = || left.iter().filter(|piece| !cache.has(**piece, &columns)).take(READ_MAX + 1).count();
        if !filter.nodes.is_empty() && missing() > READ_MAX {
            return Ok(None);
        }
        Ok(Some(PieceWalk { cache: Arc::clone(cache), columns, left, begun: None }))
    }

    /// The next rows, at most so many; none at the end.
    pub(super) fn next(
        &mut self,
        reader: &Connection,
        query: &RowQuery,
        pins: &BTreeSet<ProfileId>,
        at_most: usize,
    ) -> rusqlite::Result<RowBatch> {
        loop {
            if self.begun.as_ref().is_none_or(|begun| begun.taken == begun.rows.len()) {
                let Some(piece) = self.left.pop_front() else { return Ok(RowBatch::default()) };
                let columns = self.cache.columns(reader, piece, &self.columns)?;
                let rows =
                    PieceRows { columns: &self.columns, values: &columns, rows: piece.rows }.selected(&query.filter);
                self.begun = Some(Begun { columns, rows, taken: 0 });
            }
            let Some(begun) = &mut self.begun else { continue };
            let rows = &begun.rows[begun.taken..];
            let rows = &rows[..rows.len().min(at_most)];
            if rows.is_empty() {
                continue;
            }
            begun.taken += rows.len();
            let find = |wanted| self.columns.iter().position(|column| *column == wanted).map(|at| &*begun.columns[at]);
            let value = |column: &Column| match (*column, find(Column::Id)) {
                (Column::Pinned, Some(Values::Ids(ids))) => {
                    Values::Integers(rows.iter().map(|row| pins.contains(&ids[*row as usize]).into()).collect())
                }
                (column, _) => match find(column) {
                    // All of them.
                    Some(values) if rows.len() == values.rows() => values.clone(),
                    Some(values) => values.select(rows),
                    None => Values::empty(column),
                },
            };
            return Ok(RowBatch { rows: rows.len(), columns: query.columns.iter().map(value).collect() });
        }
    }
}

/// The pieces that may have rows of a time, in their order.
fn pieces(reader: &Connection, filter: &Filter) -> rusqlite::Result<VecDeque<Piece>> {
    let from = filter.from.map_or(i64::MIN, |from| from.0);
    let to = filter.to.map(|to| to.0);
    let mut statement = reader.prepare_cached(
        "SELECT piece, version, rows FROM pieces WHERE most >= ?1 AND (?2 IS NULL OR least < ?2) ORDER BY piece",
    )?;
    let rows = statement.query_map(params![from, to], |row| {
        Ok(Piece { number: row.get(0)?, version: row.get(1)?, rows: row.get::<_, u32>(2)? as usize })
    })?;
    rows.collect()
}

/// The columns that a filter is about.
fn columns_of(filter: &Filter) -> impl Iterator<Item = Column> {
    let columns = [
        (!filter.nodes.is_empty(), Column::Node),
        (!filter.types.is_empty(), Column::Type),
        (filter.from.is_some() || filter.to.is_some(), Column::Completed),
        (filter.cluster.is_some(), Column::Cluster),
        (!filter.labels.is_empty(), Column::Labels),
        (filter.trigger.is_some(), Column::Trigger),
    ];
    columns.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, column)| column)
}

/// Rows of a piece with the columns that a filter is about.
struct PieceRows<'a> {
    columns: &'a [Column],
    values: &'a [Arc<Values>],
    rows: usize,
}

impl PieceRows<'_> {
    /// The rows that a filter lets through, ascending.
    fn selected(&self, filter: &Filter) -> Vec<u32> {
        let mut rows: Vec<u32> = (0..self.rows as u32).collect();
        let nodes = &filter.nodes;
        if !nodes.is_empty() {
            self.retain_numbers(&mut rows, Column::Node, |node| nodes.contains(&node.cast_unsigned()));
        }
        if filter.from.is_some() || filter.to.is_some() {
            let is_in = |completed| {
                filter.from.is_none_or(|from| completed >= from.0) && filter.to.is_none_or(|to| completed < to.0)
            };
            self.retain_numbers(&mut rows, Column::Completed, is_in);
        }
        if !filter.types.is_empty() {
            self.retain_texts(&mut rows, Column::Type, |text| filter.types.iter().any(|kind| kind.name() == text));
        }
        if let Some(cluster) = &filter.cluster {
            self.retain_texts(&mut rows, Column::Cluster, |text| text == cluster);
        }
        if let Some(trigger) = &filter.trigger {
            self.retain_texts(&mut rows, Column::Trigger, |text| text == trigger);
        }
        let labels: Vec<String> = filter.labels.iter().map(|(key, value)| format!("\n{key}={value}\n")).collect();
        if !labels.is_empty() {
            self.retain_texts(&mut rows, Column::Labels, |text| labels.iter().all(|label| text.contains(label)));
        }
        rows
    }

    fn values(&self, wanted: Column) -> Option<&Values> {
        self.columns.iter().position(|column| *column == wanted).map(|at| &*self.values[at])
    }

    fn retain_numbers(&self, rows: &mut Vec<u32>, column: Column, is_wanted: impl Fn(i64) -> bool) {
        if let Some(Values::Integers(numbers)) = self.values(column) {
            rows.retain(|row| is_wanted(numbers[*row as usize]));
        }
    }

    fn retain_texts(&self, rows: &mut Vec<u32>, column: Column, is_wanted: impl Fn(&str) -> bool) {
        if let Some(Values::Texts(texts)) = self.values(column) {
            let wanted: Vec<bool> = texts.list().map(|text| text.is_some_and(&is_wanted)).collect();
            rows.retain(|row| texts.place(*row as usize).is_some_and(|place| wanted[place]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_were_not_asked_for_longest_make_room() {
        let cache = ColumnCache::default();
        let piece = |number| Piece { number, version: 1, rows: 1 };
        let megabyte = Arc::new(Values::Integers(vec![0; (1 << 20) / 8]));
        for number in 0..32 {
            cache.keep(piece(number), Column::Node, Arc::clone(&megabyte));
        }
        assert!((0..32).all(|number| cache.get(piece(number), &[Column::Node])[0].is_some()));
        assert!(cache.get(piece(0), &[Column::Node])[0].is_some());
        cache.keep(piece(32), Column::Node, Arc::clone(&megabyte));
        let there: Vec<i64> = (0..33).filter(|number| cache.has(piece(*number), &[Column::Node])).collect();
        assert_eq!(there, [0].into_iter().chain(6..33).collect::<Vec<_>>());
        assert!(!cache.has(Piece { version: 2, ..piece(32) }, &[Column::Node]));
        let held = lock(&cache.0);
        assert_eq!(held.bytes, 28 << 20);
    }
}
