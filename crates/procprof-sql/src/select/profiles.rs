//! The table `profiles`: rows that the store's catalog gives by filter, in columns, in batches.
//!
//! Conditions that the catalog can decide, the order by time, and the columns to be read are passed on to it. SQLite
//! checks each condition again, so the catalog's filter may let too much through, never too little.

use std::ops::ControlFlow;

use procprof_profile::{Nanos, ProfileId};
use procprof_store::{Column, Filter, Order, RowBatch, RowQuery, Rows, Store, Values};
use rusqlite::Result;
use rusqlite::vtab::{Context, IndexConstraintOp, IndexInfo};

use super::moment;
use crate::mysql::Value;

/// Rows of the first batch; the following ones are larger, so that a statement that needs a few does not wait for many.
const FIRST_ROWS: usize = 128;
/// Rows of a batch at most.
const BATCH_ROWS: usize = 4096;
/// Rows that SQLite's planner expects.
const ROWS: f64 = 1e5;

/// How a column shows what the catalog has.
#[derive(Clone, Copy)]
enum Shown {
    AsIs,
    Uuid,
    Moment,
    Seconds,
    Labels,
}

/// The columns in the order of the table: name, what of the catalog it shows, and how.
const COLUMNS: [(&str, Column, Shown); 17] = [
    ("id", Column::Id, Shown::Uuid),
    ("node", Column::Node, Shown::AsIs),
    ("type", Column::Type, Shown::AsIs),
    ("trigger", Column::Trigger, Shown::AsIs),
    ("started", Column::Started, Shown::Moment),
    ("completed", Column::Completed, Shown::Moment),
    ("seconds", Column::Duration, Shown::Seconds),
    ("bytes", Column::Bytes, Shown::AsIs),
    ("samples", Column::Samples, Shown::AsIs),
    ("totals", Column::Totals, Shown::AsIs),
    ("top_function", Column::TopFunction, Shown::AsIs),
    ("file", Column::File, Shown::AsIs),
    ("cluster", Column::Cluster, Shown::AsIs),
    ("labels", Column::Labels, Shown::Labels),
    ("started_ns", Column::Started, Shown::AsIs),
    ("completed_ns", Column::Completed, Shown::AsIs),
    ("threads", Column::Threads, Shown::AsIs),
];

/// The comparison of a condition with its column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Is,
    /// It is that or more.
    From,
    /// It is that or less.
    To,
}

/// The conditions that are handed on, each a bit of the plan's number and with the share of rows it is expected to
/// leave.
const CONDITIONS: [(&str, Comparison, f64); 10] = [
    ("id", Comparison::Is, 1e-5),
    ("node", Comparison::Is, 0.1),
    ("type", Comparison::Is, 0.2),
    ("trigger", Comparison::Is, 0.5),
    ("cluster", Comparison::Is, 0.5),
    ("completed_ns", Comparison::Is, 1e-5),
    ("completed_ns", Comparison::From, 0.25),
    ("completed_ns", Comparison::To, 0.25),
    ("completed", Comparison::From, 0.25),
    ("completed", Comparison::To, 0.25),
];

/// Bits of the plan's number behind those of the conditions: the order, then the columns that are read.
const NEWEST_FIRST: i32 = 1 << CONDITIONS.len();
const OLDEST_FIRST: i32 = NEWEST_FIRST << 1;
const FIRST_COLUMN: usize = CONDITIONS.len() + 2;

/// Reports to SQLite which conditions and order of its statement the catalog handles.
pub(super) fn plan(info: &mut IndexInfo) -> Result<()> {
    let mut places: [Option<usize>; CONDITIONS.len()] = [None; CONDITIONS.len()];
    for (place, constraint) in info.constraints().enumerate() {
        let comparison = match constraint.operator() {
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => Comparison::Is,
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT | IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => {
                Comparison::From
            }
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT | IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => {
                Comparison::To
            }
            _ => continue,
        };
        let name =
            usize::try_from(constraint.column()).ok().and_then(|column| COLUMNS.get(column)).map(|(name, ..)| *name);
        let condition = CONDITIONS.iter().position(|(column, own, _)| Some(*column) == name && *own == comparison);
        if let Some(condition) = condition.filter(|_| constraint.is_usable()) {
            places[condition].get_or_insert(place);
        }
    }
    let (mut number, mut argument, mut rows) = (0, 0, ROWS);
    for (condition, place) in places.into_iter().enumerate() {
        // By another collation more may be equal than the catalog finds.
        let Some(place) = place.filter(|place| info.collation(*place).is_ok_and(|collation| collation == "BINARY"))
        else {
            continue;
        };
        number |= 1 << condition;
        argument += 1;
        rows *= CONDITIONS[condition].2;
        info.constraint_usage(place).set_argv_index(argument);
    }
    if let Some(order) = order(info) {
        number |= order;
        info.set_order_by_consumed(true);
    }
    let read = COLUMNS.iter().enumerate().filter(|(column, _)| info.col_used() >> column & 1 == 1);
    number |= read.map(|(column, _)| 1 << (FIRST_COLUMN + column)).sum::<i32>();
    info.set_idx_num(number);
    info.set_estimated_rows((rows as i64).max(1));
    info.set_estimated_cost(rows.max(1.0) + 10.0);
    Ok(())
}

/// The order of a statement, where the catalog has it: by time, or by time to the nanosecond and then by id.
fn order(info: &IndexInfo) -> Option<i32> {
    if info.num_of_order_by() == 0 {
        return None;
    }
    let terms = info.order_bys().map(|term| {
        let column = usize::try_from(term.column()).ok().and_then(|column| COLUMNS.get(column));
        (column.map_or("", |(name, ..)| *name), term.is_order_by_desc())
    });
    match terms.collect::<Vec<_>>().as_slice() {
        [("completed" | "completed_ns", descending)] => Some(*descending),
        [("completed_ns", first), ("id", second)] if first == second => Some(*first),
        _ => None,
    }
    .map(|descending| if descending { NEWEST_FIRST } else { OLDEST_FIRST })
}

/// A place in the rows that a plan gives.
#[derive(Default)]
pub(super) struct StoredRows {
    /// The source of the rows; `None` when there are no more.
    rows: Option<Rows>,
    batch: RowBatch,
    /// The row in the batch.
    at: usize,
    /// Rows in the batches before.
    before: usize,
    /// The position of each column's values in the batch.
    places: [Option<usize>; COLUMNS.len()],
}

impl StoredRows {
    /// The rows by a plan, and the values of the conditions it takes.
    ///
    /// # Errors
    /// The catalog's.
    pub(super) fn begin(
        store: &Store,
        plan: i32,
        values: impl Iterator<Item = Value>,
    ) -> procprof_store::Result<StoredRows> {
        let mut filter = Filter::default();
        let taken = CONDITIONS.iter().enumerate().filter(|(condition, _)| plan >> condition & 1 == 1);
        for ((_, (column, comparison, _)), value) in taken.zip(values) {
            if with(&mut filter, column, *comparison, &value).is_break() {
                return Ok(StoredRows::default());
            }
        }
        let order = match plan & (NEWEST_FIRST | OLDEST_FIRST) {
            NEWEST_FIRST => Order::NewestFirst,
            OLDEST_FIRST => Order::OldestFirst,
            _ => Order::Any,
        };
        let mut columns: Vec<Column> = Vec::new();
        let mut places = [None; COLUMNS.len()];
        for (index, (_, column, _)) in
            COLUMNS.iter().enumerate().filter(|(index, _)| plan >> (FIRST_COLUMN + index) & 1 == 1)
        {
            let place = columns.iter().position(|other| other == column).unwrap_or_else(|| {
                columns.push(*column);
                columns.len() - 1
            });
            places[index] = Some(place);
        }
        let rows = store.rows(&RowQuery { filter, columns, order })?;
        let mut begun = StoredRows { rows: Some(rows), places, ..StoredRows::default() };
        begun.fetch(FIRST_ROWS)?;
        Ok(begun)
    }

    /// Goes to the next row.
    ///
    /// # Errors
    /// The catalog's.
    pub(super) fn next(&mut self) -> procprof_store::Result<()> {
        self.at += 1;
        if self.at < self.batch.rows { Ok(()) } else { self.fetch((self.batch.rows * 4).min(BATCH_ROWS)) }
    }

    /// Whether there is no row here.
    pub(super) fn is_at_end(&self) -> bool {
        self.rows.is_none()
    }

    /// The number of the row.
    pub(super) fn number(&self) -> i64 {
        i64::try_from(self.before + self.at).unwrap_or(i64::MAX)
    }

    /// Hands the value of a column to SQLite.
    pub(super) fn show(&self, column: usize, context: &mut Context) -> Result<()> {
        let values = self.places.get(column).copied().flatten().and_then(|place| self.batch.columns.get(place));
        match (values, COLUMNS.get(column).map(|(_, _, shown)| *shown)) {
            (Some(Values::Ids(ids)), _) => context.set_result(ids.get(self.at).map(ProfileId::to_string)),
            (Some(Values::Integers(numbers)), Some(shown)) => {
                let number = numbers.get(self.at).copied().unwrap_or_default();
                match shown {
                    Shown::Moment => context.set_result(moment::datetime(number, 3)),
                    Shown::Seconds => context.set_result(number as f64 / 1e9),
                    _ => context.set_result(number),
                }
            }
            (Some(Values::Texts(texts)), Some(shown)) => match (texts.get(self.at), shown) {
                (Some(labels), Shown::Labels) => context.set_result(labels.trim_matches('\n').replace('\n', ",")),
                (text, _) => context.set_result(text),
            },
            _ => context.set_result(rusqlite::types::Null),
        }
    }

    fn fetch(&mut self, at_most: usize) -> procprof_store::Result<()> {
        self.before += self.batch.rows;
        self.at = 0;
        let batch = match &mut self.rows {
            Some(rows) => rows.next(at_most)?,
            None => None,
        };
        if batch.is_none() {
            self.rows = None;
        }
        self.batch = batch.unwrap_or_default();
        Ok(())
    }
}

/// Adds a condition to a filter where its value is of the column's own type; SQLite alone compares others. Breaks off
/// when no row can hold it.
fn with(filter: &mut Filter, column: &str, comparison: Comparison, value: &Value) -> ControlFlow<()> {
    match (column, value) {
        (_, Value::Null) => return ControlFlow::Break(()),
        ("id", Value::Text(text)) => match text.parse() {
            Ok(id) => filter.ids = vec![id],
            Err(_) => return ControlFlow::Break(()),
        },
        ("node", Value::Integer(node)) => filter.nodes = vec![node.cast_unsigned()],
        ("type", Value::Text(text)) => filter.types = text.parse().into_iter().collect(),
        ("trigger", Value::Text(text)) => filter.trigger = Some(text.clone()),
        ("cluster", Value::Text(text)) => filter.cluster = Some(text.clone()),
        ("completed_ns", Value::Integer(nanos)) => bound(filter, comparison, *nanos, 1),
        // A text of milliseconds means all nanoseconds in its last one.
        ("completed", Value::Text(text)) => {
            if let Some(nanos) = first_moment(text) {
                bound(filter, comparison, nanos, 1_000_000);
            }
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

/// Narrows the time of a filter: at or behind a moment, or before the end of the `grain` nanoseconds from it on.
fn bound(filter: &mut Filter, comparison: Comparison, nanos: i64, grain: i64) {
    if comparison != Comparison::To {
        filter.from = filter.from.max(Some(Nanos(nanos)));
    }
    if comparison != Comparison::From
        && let Some(end) = nanos.checked_add(grain)
    {
        filter.to = Some(filter.to.map_or(Nanos(end), |to| to.min(Nanos(end))));
    }
}

/// The moment whose text is the least of those that begin with this one, or are this one: texts of the column compare
/// as their moments then.
fn first_moment(text: &str) -> Option<i64> {
    let nanos = moment::parse(text).and_then(moment::nanos)?;
    moment::datetime(nanos, 3).starts_with(text).then_some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::tables::Table;

    #[test]
    fn columns_are_those_of_the_table() {
        let table = Table::named("profiles").unwrap();
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(names, COLUMNS.map(|(name, ..)| name));
        assert!(CONDITIONS.iter().all(|(column, ..)| names.contains(column)));
        assert!(FIRST_COLUMN + COLUMNS.len() < 31);
    }

    #[test]
    fn conditions_let_through_what_their_texts_mean() {
        let day = 1_763_596_800_000_000_000;
        for (text, first) in [
            ("2025-11-20", Some(day)),
            ("2025-11-20 00:00:00", Some(day)),
            ("2025-11-20 00:00:00.125", Some(day + 125_000_000)),
            ("2025-11-20 00:00:00.1", Some(day + 100_000_000)),
            ("2025-11-20T00:00:00Z", None),
            (" 2025-11-20", None),
            ("2025-11", None),
            ("2025-11-31", None),
            ("x", None),
        ] {
            assert_eq!(first_moment(text), first, "{text}");
        }
        let mut filter = Filter::default();
        bound(&mut filter, Comparison::From, 5, 1);
        bound(&mut filter, Comparison::From, 3, 1);
        bound(&mut filter, Comparison::To, 9, 1);
        bound(&mut filter, Comparison::To, i64::MAX, 1);
        assert_eq!((filter.from, filter.to), (Some(Nanos(5)), Some(Nanos(10))));
        assert!(with(&mut filter, "node", Comparison::Is, &Value::Null).is_break());
        assert!(with(&mut filter, "id", Comparison::Is, &Value::Text("x".to_owned())).is_break());
        assert!(
            with(&mut filter, "node", Comparison::Is, &Value::Text("10001".to_owned())).is_continue()
                && filter.nodes.is_empty()
        );
    }
}
