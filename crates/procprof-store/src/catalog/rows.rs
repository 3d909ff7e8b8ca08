//! [`Rows`]: rows by filter, in columns, batch by batch, all as they were at one moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use procprof_profile::{Nanos, ProfileId};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, params_from_iter};

use super::Catalog;
use super::condition::Condition;
use super::error::failed;
use super::pieces::PieceWalk;
use super::row;
use super::schema::ENTRIES;
use super::snapshot::Snapshot;
use crate::stored::Facts;
use crate::{Column, Cursor, Filter, Order, Result, RowBatch, RowQuery, Values};

/// Rows of a query, to be taken in batches. Profiles stored or deleted meanwhile do not change them.
#[derive(Debug)]
pub struct Rows {
    snapshot: Snapshot,
    query: RowQuery,
    pins: BTreeSet<ProfileId>,
    way: Way,
    is_at_end: bool,
}

/// How rows are found.
#[derive(Debug)]
enum Way {
    /// In the database, in an order, with the cursor of the next batch; `None` for the first.
    Walk(Walk, Option<Key>),
    /// In memory.
    Pieces(PieceWalk),
    /// They are only counted, with how many are left; `None` before the first batch.
    Count(Option<usize>),
}

/// The order in which the table is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    Newest,
    Oldest,
    /// The order in which it is stored.
    Table,
}

/// The last row of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    Time(Cursor),
    Seq(i64),
}

impl Catalog {
    /// Starts to read rows; `pins` are the profiles that are pinned.
    pub(crate) fn rows(&self, query: RowQuery, pins: BTreeSet<ProfileId>) -> Result<Rows> {
        query.filter.check()?;
        let cache = Arc::clone(&self.connections().columns);
        let snapshot = self.snapshot()?;
        let way = match query.columns.is_empty() {
            true => Ok(Way::Count(None)),
            false => PieceWalk::new(&cache, &snapshot, &query)
                .map(|walk| walk.map_or_else(|| Way::Walk(Walk::new(&query), None), Way::Pieces)),
        };
        let way = way.map_err(|source| failed("read rows", source))?;
        Ok(Rows { snapshot, query, pins, way, is_at_end: false })
    }
}

impl Rows {
    /// The next rows, `at_most` of them or fewer; `None` when there are no more.
    pub fn next(&mut self, at_most: usize) -> Result<Option<RowBatch>> {
        if self.is_at_end {
            return Ok(None);
        }
        let batch = match &mut self.way {
            Way::Pieces(pieces) => pieces.next(&self.snapshot, &self.query, &self.pins, at_most),
            Way::Count(left) => counted(&self.snapshot, &self.query.filter, left, at_most),
            Way::Walk(walk, after) => {
                let read = walked(&self.snapshot, &self.query, &self.pins, (*walk, *after), at_most);
                read.map(|(batch, last)| {
                    *after = last.or(*after);
                    batch
                })
            }
        };
        let batch = batch.map_err(|source| failed("read rows", source))?;
        self.is_at_end = match self.way {
            Way::Pieces(_) => batch.rows == 0,
            Way::Walk(..) | Way::Count(_) => batch.rows < at_most,
        };
        Ok((batch.rows > 0).then_some(batch))
    }
}

/// The next rows without columns.
fn counted(
    reader: &Connection,
    filter: &Filter,
    left: &mut Option<usize>,
    at_most: usize,
) -> rusqlite::Result<RowBatch> {
    let all = match *left {
        Some(left) => left,
        None => count(reader, filter)?,
    };
    let rows = all.min(at_most);
    *left = Some(all - rows);
    Ok(RowBatch { rows, columns: Vec::new() })
}

fn count(reader: &Connection, filter: &Filter) -> rusqlite::Result<usize> {
    let Condition { sql, values } = Condition::new(filter, None, None);
    let sql = match (filter == &Filter::default(), filter.text.is_some()) {
        (true, _) => "SELECT coalesce(sum(rows), 0) FROM pieces WHERE ".to_owned() + &sql,
        (false, true) => format!("SELECT count(*) FROM {ENTRIES} WHERE {sql}"),
        (false, false) => format!("SELECT count(*) FROM profiles WHERE {sql}"),
    };
    let count = reader.prepare_cached(&sql)?.query_row(params_from_iter(&values), |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

/// The next rows of a walk, and the cursor of the last.
fn walked(
    reader: &Connection,
    query: &RowQuery,
    pins: &BTreeSet<ProfileId>,
    (walk, after): (Walk, Option<Key>),
    at_most: usize,
) -> rusqlite::Result<(RowBatch, Option<Key>)> {
    let Condition { sql, mut values } = statement(query, walk, after);
    values.push(Value::Integer(i64::try_from(at_most).unwrap_or(i64::MAX)));
    let mut statement = reader.prepare_cached(&sql)?;
    let mut found = statement.query(params_from_iter(&values))?;
    let mut batch = RowBatch { rows: 0, columns: query.columns.iter().map(|column| Values::empty(*column)).collect() };
    let mut last = None;
    let keys = walk.keys().len();
    while let Some(row) = found.next()? {
        batch.rows += 1;
        for (at, values) in batch.columns.iter_mut().enumerate() {
            match query.columns[at] {
                Column::Pinned => push_pinned(values, row::id(row, keys + at)?, pins),
                Column::Facts => push_detail(values, row.get_ref(keys + at)?.as_str_or_null()?, Facts::meta_object),
                Column::TopLeaf => push_detail(values, row.get_ref(keys + at)?.as_str_or_null()?, Facts::top_leaf),
                _ => push(values, row, keys + at)?,
            }
        }
        last = Some(walk.key(row)?);
    }
    Ok((batch, last))
}

/// The statement of the next batch of a walk, with the values of its conditions; its limit is one more.
fn statement(query: &RowQuery, walk: Walk, after: Option<Key>) -> Condition {
    let filter = &query.filter;
    let mut condition = Condition::new(filter, None, None);
    walk.go_on(&mut condition, after);
    let columns: Vec<&str> =
        walk.keys().iter().copied().chain(query.columns.iter().map(|column| name(*column))).collect();
    let needs_details = filter.text.is_some() || query.columns.iter().any(|column| column.is_detail());
    let from = if needs_details { ENTRIES } else { "profiles" };
    let columns = columns.join(", ");
    condition.sql = format!("SELECT {columns} FROM {from} WHERE {} ORDER BY {} LIMIT ?", condition.sql, walk.order());
    condition
}

impl Walk {
    /// By time there is an index for whatever is filtered, and one that has most columns. Only for all rows with other
    /// columns is the table itself faster, since each row of an index would be looked up in it.
    fn new(query: &RowQuery) -> Walk {
        match query.order {
            Order::NewestFirst => Walk::Newest,
            Order::OldestFirst => Walk::Oldest,
            Order::Any
                if query.filter == Filter::default() && !query.columns.iter().all(|column| is_in_index(*column)) =>
            {
                Walk::Table
            }
            Order::Any => Walk::Oldest,
        }
    }

    /// For what is joined to each profile.
    pub(super) fn of_profiles(order: Order, filter: &Filter) -> Walk {
        match order {
            Order::NewestFirst => Walk::Newest,
            Order::Any if *filter == Filter::default() => Walk::Table,
            Order::OldestFirst | Order::Any => Walk::Oldest,
        }
    }

    /// Limits a condition to what comes after a row.
    pub(super) fn go_on(self, condition: &mut Condition, after: Option<Key>) {
        match after {
            Some(Key::Time(cursor)) if self == Walk::Newest => condition.place("<", Some(cursor)),
            Some(Key::Time(cursor)) => condition.place(">", Some(cursor)),
            Some(Key::Seq(seq)) => condition.with(" AND seq > ?", Some(Value::Integer(seq))),
            None => {}
        }
    }

    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Walk::Newest | Walk::Oldest => &["completed", "id"],
            Walk::Table => &["seq"],
        }
    }

    pub(super) fn order(self) -> &'static str {
        match self {
            Walk::Newest => "completed DESC, id DESC",
            Walk::Oldest => "completed, id",
            Walk::Table => "seq",
        }
    }

    pub(super) fn key(self, row: &Row<'_>) -> rusqlite::Result<Key> {
        Ok(match self {
            Walk::Newest | Walk::Oldest => Key::Time(Cursor { completed: Nanos(row.get(0)?), id: row::id(row, 1)? }),
            Walk::Table => Key::Seq(row.get(0)?),
        })
    }
}

/// Whether a column is in the index by time.
fn is_in_index(column: Column) -> bool {
    use Column::{Engine, File, Functions, Instance, Lost, Samples, Threads, TopFunction, Totals};
    let is_beside =
        matches!(column, File | Samples | Totals | TopFunction | Instance | Threads | Functions | Engine | Lost);
    !is_beside && !column.is_detail()
}

pub(super) fn name(column: Column) -> &'static str {
    match column {
        Column::Id => "id",
        Column::Node => "node",
        Column::Type => "type",
        Column::File => "file",
        Column::Completed => "completed",
        Column::Started => "started",
        Column::Duration => "duration",
        Column::Bytes => "bytes",
        Column::Trigger => "trigger",
        Column::Cluster => "cluster",
        Column::Labels => "labels",
        Column::Samples => "samples",
        Column::Totals => "totals",
        Column::TopFunction => "top_function",
        Column::Total => "total",
        Column::Instance => "instance",
        Column::Threads => "threads",
        Column::Functions => "functions",
        Column::Engine => "engine",
        Column::Lost => "lost",
        // It is known by its id.
        Column::Pinned => "id",
        Column::Facts | Column::TopLeaf => "facts",
    }
}

fn push_pinned(values: &mut Values, id: ProfileId, pins: &BTreeSet<ProfileId>) {
    if let Values::Integers(numbers) = values {
        numbers.push(pins.contains(&id).into());
    }
}

/// A value is missing where facts cannot be read, and in a row without details.
fn push_detail(values: &mut Values, json: Option<&str>, read: fn(&str) -> Option<String>) {
    if let Values::Texts(texts) = values {
        texts.push(json.and_then(read).as_deref());
    }
}

pub(super) fn push(values: &mut Values, row: &Row<'_>, at: usize) -> rusqlite::Result<()> {
    match values {
        Values::Ids(ids) => ids.push(row.get(at).map(|bytes| ProfileId(u128::from_be_bytes(bytes)))?),
        Values::Integers(numbers) => numbers.push(row.get(at)?),
        Values::Texts(texts) => match row.get_ref(at)? {
            ValueRef::Null => texts.push(None),
            value => texts.push(Some(value.as_str()?)),
        },
    }
    Ok(())
}
