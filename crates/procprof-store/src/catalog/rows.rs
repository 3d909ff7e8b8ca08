//! [`Rows`]: rows by filter, in columns, piece by piece, all as they were at one moment.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use procprof_profile::{Nanos, ProfileId};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, params_from_iter};

use super::Catalog;
use super::condition::Condition;
use super::error::failed;
use super::row;
use super::schema::ENTRIES;
use crate::mutex::lock;
use crate::stored::Facts;
use crate::{Column, Cursor, Filter, Order, Result, RowBatch, RowQuery, Values};

/// Rows of a query, to be taken in batches. Profiles stored or deleted meanwhile do not change them.
#[derive(Debug)]
pub struct Rows {
    /// Returned on drop.
    reader: Option<Connection>,
    idle: Arc<Mutex<Vec<Connection>>>,
    idle_max: usize,
    query: RowQuery,
    pins: BTreeSet<ProfileId>,
    walk: Walk,
    /// The cursor of the next batch; `None` for the first.
    after: Option<Key>,
    /// Rows that are left, where they are only counted; `None` before the first batch.
    left: Option<usize>,
    is_at_end: bool,
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
        let (reader, idle) = self.lend(&self.connections())?;
        let walk = Walk::new(&query);
        let rows = Rows {
            reader: Some(reader),
            idle,
            idle_max: self.readers_max,
            query,
            pins,
            walk,
            after: None,
            left: None,
            is_at_end: false,
        };
        let begun = rows
            .connection()
            .execute_batch("BEGIN")
            .and_then(|()| rows.connection().prepare_cached(&rows.statement().sql).map(drop));
        begun.map_err(|source| failed("read rows", source))?;
        Ok(rows)
    }
}

impl Rows {
    /// The next rows, `at_most` of them; `None` when there are no more.
    pub fn next(&mut self, at_most: usize) -> Result<Option<RowBatch>> {
        if self.is_at_end {
            return Ok(None);
        }
        if self.query.columns.is_empty() {
            return self.counted(at_most);
        }
        let Condition { sql, mut values } = self.statement();
        values.push(Value::Integer(i64::try_from(at_most).unwrap_or(i64::MAX)));
        let (batch, last) = self.read(&sql, &values).map_err(|source| failed("read rows", source))?;
        self.is_at_end = batch.rows < at_most;
        self.after = last.or(self.after);
        Ok((batch.rows > 0).then_some(batch))
    }

    /// The next rows without columns.
    fn counted(&mut self, at_most: usize) -> Result<Option<RowBatch>> {
        let left = match self.left {
            Some(left) => left,
            None => self.count().map_err(|source| failed("count rows", source))?,
        };
        let rows = left.min(at_most);
        self.left = Some(left - rows);
        self.is_at_end = rows == left;
        Ok((rows > 0).then_some(RowBatch { rows, columns: Vec::new() }))
    }

    fn count(&self) -> rusqlite::Result<usize> {
        let filter = &self.query.filter;
        let Condition { sql, values } = Condition::new(filter, None, None);
        let from = if filter.text.is_some() { ENTRIES } else { "profiles" };
        let mut statement = self.connection().prepare_cached(&format!("SELECT count(*) FROM {from} WHERE {sql}"))?;
        let count = statement.query_row(params_from_iter(&values), |row| row.get::<_, i64>(0))?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    fn read(&self, sql: &str, values: &[Value]) -> rusqlite::Result<(RowBatch, Option<Key>)> {
        let mut statement = self.connection().prepare_cached(sql)?;
        let mut found = statement.query(params_from_iter(values))?;
        let mut batch =
            RowBatch { rows: 0, columns: self.query.columns.iter().map(|column| Values::empty(*column)).collect() };
        let mut last = None;
        let keys = self.walk.keys().len();
        while let Some(row) = found.next()? {
            batch.rows += 1;
            for (at, values) in batch.columns.iter_mut().enumerate() {
                match self.query.columns[at] {
                    Column::Pinned => push_pinned(values, row::id(row, keys + at)?, &self.pins),
                    Column::Facts => push_facts(values, row.get_ref(keys + at)?.as_str_or_null()?),
                    _ => push(values, row, keys + at)?,
                }
            }
            last = Some(self.walk.key(row)?);
        }
        Ok((batch, last))
    }

    /// The statement of the next batch, with the values of its conditions; its limit is one more.
    fn statement(&self) -> Condition {
        let filter = &self.query.filter;
        let mut condition = Condition::new(filter, None, None);
        self.walk.go_on(&mut condition, self.after);
        let columns: Vec<&str> =
            self.walk.keys().iter().copied().chain(self.query.columns.iter().map(|column| name(*column))).collect();
        let needs_details = filter.text.is_some() || self.query.columns.contains(&Column::Facts);
        let from = if needs_details { ENTRIES } else { "profiles" };
        condition.sql = format!(
            "SELECT {} FROM {from} WHERE {} ORDER BY {} LIMIT ?",
            columns.join(", "),
            condition.sql,
            self.walk.order()
        );
        condition
    }

    fn connection(&self) -> &Connection {
        self.reader.as_ref().expect("it is given back only when this is dropped")
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let Some(reader) = self.reader.take() else { return };
        give_back(reader, &self.idle, self.idle_max);
    }
}

/// Returns a reader to its pool; one that cannot end its transaction is closed instead.
pub(super) fn give_back(reader: Connection, idle: &Mutex<Vec<Connection>>, idle_max: usize) {
    if reader.is_autocommit() || reader.execute_batch("ROLLBACK").is_ok() {
        let mut idle = lock(idle);
        if idle.len() < idle_max {
            idle.push(reader);
        }
    }
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
    use Column::{Engine, Facts, File, Functions, Instance, Lost, Samples, Threads, TopFunction, Totals};
    !matches!(column, File | Samples | Totals | TopFunction | Instance | Threads | Functions | Engine | Lost | Facts)
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
        Column::Facts => "facts",
    }
}

fn push_pinned(values: &mut Values, id: ProfileId, pins: &BTreeSet<ProfileId>) {
    if let Values::Integers(numbers) = values {
        numbers.push(pins.contains(&id).into());
    }
}

/// Facts that cannot be read are missing, as are those of a row without details.
fn push_facts(values: &mut Values, json: Option<&str>) {
    if let Values::Texts(texts) = values {
        let facts = json.and_then(|json| Facts::from_json(json.as_bytes(), &[]).ok());
        texts.push(facts.and_then(|facts| facts.to_json_object()).as_deref());
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
