//! [`FunctionRows`]: functions of many profiles, by filter, all as they were at one moment.
//!
//! Heads of profiles are short and next to each other; the rest is read only for shares below
//! [`LARGE_PERCENT`](super::packed::LARGE_PERCENT). Names are looked up in the dictionary once, and compared as numbers
//! from then on.

use foldhash::HashMap;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::names::Marked;
use super::packed::{self, Entry, LARGE_PERCENT, Sums};
use super::{Catalog, broken_functions};
use crate::catalog::condition::Condition;
use crate::catalog::error::failed;
use crate::catalog::rows::{Key, Walk, name, push};
use crate::catalog::snapshot::Snapshot;
use crate::{Cursor, FunctionColumn, FunctionNames, FunctionQuery, NamePredicate, Result, RowBatch, Values};

/// Profiles read at a time at first; later four times as many each, up to the most.
const FIRST_PROFILES: usize = 64;
const PROFILES_MAX: usize = 4096;
/// Names that a predicate is asked for at a time.
const NAMES_TOGETHER: usize = 1024;
/// Bytes of names kept.
const NAMES_BYTES_MAX: usize = 16 << 20;

/// Functions of many profiles, to be taken in batches. Profiles stored or deleted meanwhile do not change them.
#[derive(Debug)]
pub struct FunctionRows {
    snapshot: Snapshot,
    query: FunctionQuery,
    walk: Walk,
    after: Option<Key>,
    is_at_end: bool,
    profiles: u64,
    /// Profiles to be read next.
    size: usize,
    /// The names that are wanted; `None` for any.
    wanted: Option<Marked>,
    names: KeptNames,
}

impl Catalog {
    /// Starts to read functions.
    pub(crate) fn function_rows(&self, query: FunctionQuery) -> Result<FunctionRows> {
        query.filter.check()?;
        let snapshot = self.snapshot()?;
        let walk = Walk::of_profiles(query.order, &query.filter);
        let after = query.after.map(Key::Time);
        let mut rows = FunctionRows {
            snapshot,
            query,
            walk,
            after,
            is_at_end: false,
            profiles: 0,
            size: FIRST_PROFILES,
            wanted: None,
            names: KeptNames::default(),
        };
        rows.begin().map_err(|source| failed("read functions", source))?;
        Ok(rows)
    }
}

impl FunctionRows {
    fn begin(&mut self) -> rusqlite::Result<()> {
        self.wanted = wanted(&self.snapshot, &self.query.names)?;
        self.is_at_end = self.wanted.as_ref().is_some_and(Marked::is_empty);
        self.snapshot.prepare_cached(&self.statement().sql).map(drop)
    }

    /// The number of profiles read so far, with those that have none of the functions.
    pub fn profiles(&self) -> u64 {
        self.profiles
    }

    /// The place of the last profile read, in lists; `None` before the first and in other orders than by time.
    pub fn place(&self) -> Option<Cursor> {
        match self.after {
            Some(Key::Time(cursor)) => Some(cursor),
            _ => None,
        }
    }

    /// The next functions, those of whole profiles; there may be none among the profiles that were read. `None` at the
    /// end. It ends with the profile that brings their number to `at_most`.
    pub fn next(&mut self, at_most: usize) -> Result<Option<RowBatch>> {
        if self.is_at_end {
            return Ok(None);
        }
        let batch = self.read(at_most).map_err(|source| failed("read functions", source))?;
        self.size = (self.size * 4).min(PROFILES_MAX);
        Ok(Some(batch))
    }

    fn read(&mut self, at_most: usize) -> rusqlite::Result<RowBatch> {
        let Condition { sql, mut values } = self.statement();
        values.push(Value::Integer(self.size as i64));
        let reader = &*self.snapshot;
        let mut statement = reader.prepare_cached(&sql)?;
        let mut found = statement.query(params_from_iter(&values))?;
        let columns = self.query.columns.iter().map(|column| column.empty()).collect();
        let mut batch = RowBatch { rows: 0, columns };
        let mut read = 0;
        let own_columns = self.walk.keys().len();
        while let Some(row) = found.next()? {
            self.after = Some(self.walk.key(row)?);
            read += 1;
            self.profiles += 1;
            let Some(head) = row.get_ref(own_columns)?.as_blob_or_null()? else { continue };
            let (sums, large) = packed::unpack_head(head).ok_or_else(broken_functions)?;
            let rest = row.get_ref(own_columns + 1)?.as_blob_or_null()?.unwrap_or_default();
            for entry in large.chain(packed::unpack(rest)) {
                let entry = entry.ok_or_else(broken_functions)?;
                if is_wanted(&self.query, self.wanted.as_ref(), sums, entry) {
                    let names = &mut self.names;
                    add(&mut batch, &self.query.columns, (row, own_columns + 2), (sums, entry), &mut |id, texts| {
                        names.push(reader, id, texts)
                    })?;
                }
            }
            if batch.rows >= at_most {
                return Ok(batch);
            }
        }
        self.is_at_end = read < self.size;
        Ok(batch)
    }

    /// The statement of the next batch, with the values of its conditions; its limit is one more.
    fn statement(&self) -> Condition {
        let filter = &self.query.filter;
        let mut condition = Condition::new(filter, None, None);
        self.walk.go_on(&mut condition, self.after);
        let rest = if self.reads_rests() { "rest" } else { "NULL" };
        let profile_columns = self.query.columns.iter().filter_map(|column| match column {
            FunctionColumn::Profile(column) => Some(name(*column)),
            _ => None,
        });
        let columns: Vec<&str> =
            self.walk.keys().iter().copied().chain(["head", rest]).chain(profile_columns).collect();
        let mut from = "profiles LEFT JOIN function_heads USING (seq)".to_owned();
        if self.reads_rests() {
            from.push_str(" LEFT JOIN function_rests USING (seq)");
        }
        if filter.text.is_some() {
            from.push_str(" LEFT JOIN profile_details USING (seq)");
        }
        condition.sql = format!(
            "SELECT {} FROM {from} WHERE {} ORDER BY {} LIMIT ?",
            columns.join(", "),
            condition.sql,
            self.walk.order()
        );
        condition
    }

    /// Whether functions that take little are wanted.
    fn reads_rests(&self) -> bool {
        let above = |percent: Option<f64>| percent.is_some_and(|percent| percent >= LARGE_PERCENT);
        !above(self.query.own_percent_min) && !above(self.query.total_percent_min)
    }
}

fn is_wanted(query: &FunctionQuery, wanted: Option<&Marked>, sums: Sums, entry: Entry) -> bool {
    let is_above = |least: Option<f64>, value: i64| {
        least.is_none_or(|least| sums.total != 0 && value as f64 * 100.0 / sums.total as f64 >= least)
    };
    wanted.is_none_or(|wanted| wanted.has(entry.name))
        && is_above(query.own_percent_min, entry.own)
        && is_above(query.total_percent_min, entry.total)
}

/// Adds a function; the columns of its profile are in the row from a place on.
fn add(
    batch: &mut RowBatch,
    columns: &[FunctionColumn],
    (row, mut at): (&Row<'_>, usize),
    (sums, entry): (Sums, Entry),
    name: &mut dyn FnMut(u32, &mut Values) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    batch.rows += 1;
    for (column, values) in columns.iter().zip(&mut batch.columns) {
        match column {
            FunctionColumn::Profile(_) => {
                push(values, row, at)?;
                at += 1;
            }
            FunctionColumn::Name => name(entry.name, values)?,
            FunctionColumn::Kind => name(sums.kind, values)?,
            FunctionColumn::Unit => name(sums.unit, values)?,
            FunctionColumn::Own => push_number(values, entry.own),
            FunctionColumn::Total => push_number(values, entry.total),
            FunctionColumn::ProfileTotal => push_number(values, sums.total),
        }
    }
    Ok(())
}

fn push_number(values: &mut Values, number: i64) {
    if let Values::Integers(numbers) = values {
        numbers.push(number);
    }
}

/// The ids of the names that a query wants; `None` for any.
fn wanted(reader: &Connection, names: &FunctionNames) -> rusqlite::Result<Option<Marked>> {
    let mut wanted = Marked::default();
    match names {
        FunctionNames::Any => return Ok(None),
        FunctionNames::OneOf(names) => {
            let mut statement = reader.prepare_cached("SELECT id FROM names WHERE name = ?")?;
            for name in names {
                let mut rows = statement.query([name])?;
                while let Some(row) = rows.next()? {
                    wanted.add(row.get(0)?);
                }
            }
        }
        FunctionNames::Chosen(predicate) => {
            let mut statement = reader.prepare_cached("SELECT id, name FROM names")?;
            let mut rows = statement.query([])?;
            let mut some: Vec<(u32, String)> = Vec::with_capacity(NAMES_TOGETHER);
            while let Some(row) = rows.next()? {
                some.push((row.get(0)?, row.get(1)?));
                if some.len() == NAMES_TOGETHER {
                    choose(predicate, &mut some, &mut wanted);
                }
            }
            choose(predicate, &mut some, &mut wanted);
        }
    }
    Ok(Some(wanted))
}

fn choose(predicate: &NamePredicate, some: &mut Vec<(u32, String)>, wanted: &mut Marked) {
    let names: Vec<&str> = some.iter().map(|(_, name)| name.as_str()).collect();
    let chosen = predicate(&names);
    for (at, (id, _)) in some.drain(..).enumerate() {
        if chosen.get(at).copied().unwrap_or(true) {
            wanted.add(id);
        }
    }
}

/// Names that were looked up.
#[derive(Debug, Default)]
struct KeptNames {
    names: HashMap<u32, Box<str>>,
    bytes: usize,
}

impl KeptNames {
    fn push(&mut self, reader: &Connection, id: u32, values: &mut Values) -> rusqlite::Result<()> {
        let Values::Texts(texts) = values else { return Ok(()) };
        if let Some(name) = self.names.get(&id) {
            texts.push(Some(name));
            return Ok(());
        }
        let mut statement = reader.prepare_cached("SELECT name FROM names WHERE id = ?")?;
        let name: String = statement.query_row([id], |row| row.get(0))?;
        texts.push(Some(&name));
        if self.bytes >= NAMES_BYTES_MAX {
            (self.names, self.bytes) = (HashMap::default(), 0);
        }
        self.bytes += name.len() + size_of::<(u32, Box<str>)>();
        self.names.insert(id, name.into());
        Ok(())
    }
}
