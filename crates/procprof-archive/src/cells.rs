//! [`Cell`]: the rows of a part as they are, for callers that copy them elsewhere.

use std::ops::RangeInclusive;

use crate::archive::Archive;
use crate::part::LOCAL_BITS;
use crate::read::Rows;
use crate::{ColumnType, Error, Part, Table};

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// None; only where the column permits it.
    Missing,
    /// A text.
    Text(&'a str),
    /// A number.
    Integer(i64),
    /// A flag.
    Flag(bool),
    /// A moment, in microseconds since 1970.
    Moment(i64),
    /// A map of texts, in its order.
    Texts(Vec<(String, String)>),
    /// A map of numbers, in its order.
    Integers(Vec<(String, i64)>),
}

impl Archive {
    /// Passes on the rows of a part's table in their order, each with a cell for each of [`Table::columns`].
    ///
    /// # Errors
    /// When the file cannot be read; those of `each`, which end it.
    pub fn rows<E: From<Error>>(
        &self,
        part: Part,
        table: Table,
        each: &mut dyn FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let columns: Vec<&'static str> = table.columns().iter().map(|column| column.name).collect();
        let file = self.open(part, table)?;
        file.read_for(&columns, &|_| true, &mut |rows| {
            let mut cells = Vec::with_capacity(columns.len());
            for at in 0..rows.len() {
                cells.clear();
                for column in table.columns() {
                    cells.push(cell(rows, column.name, column.column_type, at)?);
                }
                each(&cells)?;
            }
            Ok(())
        })
    }
}

impl Part {
    /// The ids that its frames, stacks, sets of labels and profiles may have; those of other parts differ.
    pub fn ids(&self) -> RangeInclusive<i64> {
        let first = self.base();
        first..=first + ((1 << LOCAL_BITS) - 1)
    }
}

fn cell<'a>(rows: &'a Rows<'_>, name: &str, column_type: ColumnType, at: usize) -> Result<Cell<'a>, Error> {
    if rows.is_missing(name, at)? {
        return Ok(Cell::Missing);
    }
    Ok(match column_type {
        ColumnType::Text => Cell::Text(rows.texts(name)?.value(at)),
        ColumnType::Integer => Cell::Integer(rows.integers(name)?.value(at)),
        ColumnType::Flag => Cell::Flag(rows.flags(name)?.value(at)),
        ColumnType::Moment => Cell::Moment(rows.moments(name)?.value(at)),
        ColumnType::Texts => Cell::Texts(rows.text_map(name, at)?),
        ColumnType::Integers => Cell::Integers(rows.integer_map(name, at)?),
    })
}
