//! The functions of each profile: kept with its row, counted where they are missing, read by filter.

mod names;
mod packed;
mod rows;

use procprof_profile::ProfileId;
use rusqlite::{Connection, OptionalExtension, Transaction, params, params_from_iter};

use self::names::Marked;
pub(crate) use self::names::Names;
use self::packed::{Entry, Sums};
pub use self::rows::FunctionRows;
use super::Catalog;
use super::condition::Condition;
use super::error::broken;
use super::row::{blob, id};
use super::schema::ENTRIES;
use crate::{Cursor, Filter, FunctionTable, Result, Uncovered};

/// What the catalog knows of the functions of a profile, as the number in its row: how many there are, or why it has
/// none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// This many.
    Functions(usize),
    /// They are still to be read.
    Waiting,
    /// The file cannot be read.
    Unreadable,
    /// There are too many.
    TooMany,
}

impl Known {
    fn from_table(table: &FunctionTable) -> Known {
        if table.is_too_large() { Known::TooMany } else { Known::Functions(table.functions.len()) }
    }

    pub(super) fn number(self) -> i64 {
        match self {
            Known::Functions(count) => i64::try_from(count).unwrap_or(i64::MAX),
            Known::Waiting => -1,
            Known::Unreadable => -2,
            Known::TooMany => -3,
        }
    }
}

impl Catalog {
    /// Keeps the functions of a profile that waits for them, or that it cannot be read.
    pub(crate) fn put_functions(&self, id: ProfileId, table: Option<&FunctionTable>) -> Result<()> {
        let known = table.map_or(Known::Unreadable, Known::from_table);
        self.write_named("add functions", |transaction, names| {
            let sql = "SELECT seq FROM profiles WHERE id = ? AND functions = ?";
            let waiting = params![blob(id), Known::Waiting.number()];
            let seq = transaction.prepare_cached(sql)?.query_row(waiting, |row| row.get::<_, i64>(0)).optional()?;
            let Some(seq) = seq else { return Ok(()) };
            if let Some(table) = table {
                insert(transaction, names, seq, table)?;
            }
            let mut update = transaction.prepare_cached("UPDATE profiles SET functions = ? WHERE seq = ?")?;
            update.execute(params![known.number(), seq]).map(drop)
        })
    }

    /// The newest profiles whose functions are still to be read.
    pub(crate) fn without_functions(&self, at_most: usize) -> Result<Vec<ProfileId>> {
        let sql = "SELECT id FROM profiles WHERE functions = -1 AND functions < 0 ORDER BY completed DESC LIMIT ?";
        self.read("list", |reader| {
            let mut statement = reader.prepare_cached(sql)?;
            let rows = statement.query_map([i64::try_from(at_most).unwrap_or(i64::MAX)], |row| id(row, 0))?;
            rows.collect()
        })
    }

    /// The profiles that a filter lets through and whose functions are missing.
    pub(crate) fn uncovered(&self, filter: &Filter, after: Option<Cursor>) -> Result<Uncovered> {
        filter.check()?;
        let condition = Condition::new(filter, after, None);
        let from = if filter.text.is_some() { ENTRIES } else { "profiles" };
        let sql =
            format!("SELECT functions, count(*) FROM {from} WHERE functions < 0 AND {} GROUP BY 1", condition.sql);
        self.read("count", |reader| {
            let mut statement = reader.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(&condition.values))?;
            let mut found = Uncovered::default();
            while let Some(row) = rows.next()? {
                let count = row.get::<_, i64>(1)?.cast_unsigned();
                match row.get::<_, i64>(0)? {
                    -1 => found.waiting += count,
                    -3 => found.too_many += count,
                    _ => found.unreadable += count,
                }
            }
            Ok(found)
        })
    }

    /// Removes the names that no profile has any more, when there may be many of them.
    pub(crate) fn remove_unused_names(&self) -> Result<()> {
        if !self.write_with_names("remove names", |writer, names| names.begin_removal(writer))? {
            return Ok(());
        }
        // What comes from here on is noted by the writer.
        let removed = self.read("look up names", marked).and_then(|marked| {
            self.write_named("remove names", |transaction, names| names.remove_all_but(transaction, &marked))
        });
        if removed.is_err() {
            self.write_with_names("remove names", |_, names| {
                names.end_removal();
                Ok(())
            })?;
        }
        removed
    }
}

/// The names that functions of any profile have.
pub(super) fn marked(reader: &Connection) -> rusqlite::Result<Marked> {
    let mut marked = Marked::default();
    let transaction = reader.unchecked_transaction()?;
    {
        let mut heads = transaction.prepare("SELECT head FROM function_heads")?;
        let mut rows = heads.query([])?;
        while let Some(row) = rows.next()? {
            let (sums, large) = packed::unpack_head(row.get_ref(0)?.as_blob()?).ok_or_else(broken_functions)?;
            marked.add(sums.kind);
            marked.add(sums.unit);
            for entry in large {
                marked.add(entry.ok_or_else(broken_functions)?.name);
            }
        }
        let mut rests = transaction.prepare("SELECT rest FROM function_rests")?;
        let mut rows = rests.query([])?;
        while let Some(row) = rows.next()? {
            for entry in packed::unpack(row.get_ref(0)?.as_blob()?) {
                marked.add(entry.ok_or_else(broken_functions)?.name);
            }
        }
    }
    transaction.finish().map(|()| marked)
}

/// The functions of a new row; what is known of them goes into the row.
pub(super) fn insert_known(
    transaction: &Transaction<'_>,
    names: &mut Names,
    seq: i64,
    functions: Option<&FunctionTable>,
) -> rusqlite::Result<()> {
    match functions {
        Some(table) => insert(transaction, names, seq, table),
        None => Ok(()),
    }
}

fn insert(transaction: &Transaction<'_>, names: &mut Names, seq: i64, table: &FunctionTable) -> rusqlite::Result<()> {
    if table.is_too_large() {
        return Ok(());
    }
    let sums = Sums {
        kind: names.id(transaction, &table.kind)?,
        unit: names.id(transaction, &table.unit)?,
        total: table.total,
    };
    let entries = table.functions.iter().map(|function| {
        Ok(Entry { name: names.id(transaction, &function.name)?, own: function.own, total: function.total })
    });
    let (head, rest) = packed::pack(sums, entries.collect::<rusqlite::Result<_>>()?);
    transaction.prepare_cached("INSERT INTO function_heads (seq, head) VALUES (?, ?)")?.execute(params![seq, head])?;
    if !rest.is_empty() {
        let mut statement = transaction.prepare_cached("INSERT INTO function_rests (seq, rest) VALUES (?, ?)")?;
        statement.execute(params![seq, rest])?;
    }
    Ok(())
}

/// What is known of the functions of a new row.
pub(super) fn known(functions: Option<&FunctionTable>, has_samples: bool) -> Known {
    match functions {
        Some(table) => Known::from_table(table),
        None if has_samples => Known::Waiting,
        None => Known::Functions(0),
    }
}

fn broken_functions() -> rusqlite::Error {
    broken("the functions of a profile are broken")
}
