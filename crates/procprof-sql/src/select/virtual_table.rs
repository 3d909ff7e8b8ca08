//! A table as SQLite's virtual table: eponymous, read-only, its parameters hidden columns. The only file of this crate
//! with `unsafe`.

#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection, VTabCursor, sqlite3_vtab,
    sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result, ToSql};

use super::profiles::{self, StoredRows};
use super::statement_context::StatementContext;
use super::tables::{Source, Table, TableRows};
use crate::mysql::{SqlError, SqlErrorKind, Value};

const MODULE: Module<'static, Virtual> = Module::eponymous_only_module();

/// Rows SQLite's planner expects of a table that takes no parameters, or all of its own.
const ROWS: i64 = 1000;

/// Makes a table known to a connection under its name.
///
/// # Errors
/// SQLite's.
pub(super) fn register(
    connection: &Connection,
    statement: &Arc<StatementContext>,
    table: &'static Table,
) -> Result<()> {
    connection.create_module(table.name, &MODULE, Some(Shared { statement: Arc::clone(statement), table }))
}

/// Bytes of memory SQLite has taken, in the whole process.
pub(super) fn memory_used() -> u64 {
    // SAFETY: takes nothing, and may be called at any time from any thread.
    let bytes = unsafe { rusqlite::ffi::sqlite3_memory_used() };
    u64::try_from(bytes).unwrap_or(0)
}

/// Lets SQLite take at most so many bytes of memory, in the whole process.
pub(super) fn bound_memory_by(bytes: u64) {
    // SAFETY: takes a number, and may be called at any time from any thread.
    unsafe { rusqlite::ffi::sqlite3_hard_heap_limit64(i64::try_from(bytes).unwrap_or(i64::MAX)) };
}

#[derive(Clone)]
struct Shared {
    statement: Arc<StatementContext>,
    table: &'static Table,
}

/// The table.
#[repr(C)]
struct Virtual {
    /// First, as SQLite sees only this.
    base: sqlite3_vtab,
    shared: Shared,
}

// SAFETY: the type is `repr(C)` and begins with `sqlite3_vtab`.
unsafe impl<'vtab> VTab<'vtab> for Virtual {
    type Aux = Shared;
    type Cursor = Cursor<'vtab>;

    fn connect(
        connection: &mut VTabConnection,
        aux: Option<&Shared>,
        _module: &[u8],
        _database: &[u8],
        _table: &[u8],
        _arguments: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Virtual)> {
        let shared = aux.cloned().ok_or_else(|| Error::ModuleError("a table without its definition".to_owned()))?;
        connection.config(VTabConfig::DirectOnly)?;
        let declaration =
            CString::new(shared.table.declaration()).map_err(|error| Error::ModuleError(error.to_string()))?;
        Ok((Cow::Owned(declaration), Virtual { base: sqlite3_vtab::default(), shared }))
    }

    /// For a computed table, takes every parameter that has a value; the plan's number contains one bit for each.
    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let table = self.shared.table;
        if matches!(table.source, Source::Stored) {
            return profiles::plan(info).map(|()| true);
        }
        let mut places: Vec<Option<usize>> = vec![None; table.parameters.len()];
        for (place, constraint) in info.constraints().enumerate() {
            let parameter =
                usize::try_from(constraint.column()).ok().and_then(|column| column.checked_sub(table.columns.len()));
            let Some(parameter) =
                parameter.filter(|_| constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ)
            else {
                continue;
            };
            if !constraint.is_usable() {
                // Its value comes from a table that is read later in this plan.
                return Ok(false);
            }
            places[parameter] = Some(place);
        }
        if let Some((missing, _)) =
            table.parameters.iter().zip(&places).find(|(parameter, place)| !parameter.optional && place.is_none())
        {
            return Err(Error::ModuleError(format!(
                "{}: {} is missing; call it as {}",
                table.name, missing.name, table.comment
            )));
        }
        let (mut given, mut argument) = (0, 0);
        for (parameter, place) in places.into_iter().enumerate() {
            if let Some(place) = place {
                given |= 1 << parameter;
                argument += 1;
                let mut usage = info.constraint_usage(place);
                usage.set_argv_index(argument);
                usage.set_omit(true);
            }
        }
        info.set_idx_num(given);
        info.set_estimated_rows(ROWS);
        info.set_estimated_cost(if table.parameters.is_empty() { 1e3 } else { 1e6 });
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Cursor<'vtab>> {
        let (base, shared) = (sqlite3_vtab_cursor::default(), self.shared.clone());
        Ok(Cursor { base, shared, at: At::default(), table: PhantomData })
    }
}

/// A place in the table.
#[repr(C)]
struct Cursor<'vtab> {
    /// First, as SQLite sees only this.
    base: sqlite3_vtab_cursor,
    shared: Shared,
    at: At,
    table: PhantomData<&'vtab Virtual>,
}

/// The current row.
enum At {
    Computed { parameters: Vec<Value>, rows: Arc<TableRows>, row: usize },
    Stored(Box<StoredRows>),
}

impl Default for At {
    fn default() -> At {
        At::Computed { parameters: Vec::new(), rows: Arc::default(), row: 0 }
    }
}

impl Cursor<'_> {
    /// Why the catalog gives no rows, as the statement's failure.
    fn failed(&self, error: &procprof_store::Error) -> Error {
        let failure = SqlError::new(SqlErrorKind::Other, procprof_core::chain(error));
        let text = failure.text.clone();
        self.shared.statement.fail(failure);
        Error::ModuleError(text)
    }
}

// SAFETY: the type is `repr(C)` and begins with `sqlite3_vtab_cursor`.
unsafe impl VTabCursor for Cursor<'_> {
    fn filter(&mut self, given: c_int, _name: Option<&str>, arguments: &Filters<'_>) -> Result<()> {
        let mut arguments = arguments.iter().map(value);
        let Shared { statement, table } = &self.shared;
        if matches!(table.source, Source::Stored) {
            let rows =
                StoredRows::begin(&statement.sql.store, given, arguments).map_err(|error| self.failed(&error))?;
            self.at = At::Stored(Box::new(rows));
            return Ok(());
        }
        let mut parameter = |number: usize| if given >> number & 1 == 1 { arguments.next() } else { None };
        let parameters: Vec<Value> =
            (0..table.parameters.len()).map(|number| parameter(number).unwrap_or(Value::Null)).collect();
        let rows = statement.rows(table, &parameters).map_err(|failure| Error::ModuleError(failure.text))?;
        self.at = At::Computed { parameters, rows, row: 0 };
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let gone_on = match &mut self.at {
            At::Computed { row, .. } => {
                *row += 1;
                Ok(())
            }
            At::Stored(rows) => rows.next(),
        };
        gone_on.map_err(|error| self.failed(&error))
    }

    fn eof(&self) -> bool {
        match &self.at {
            At::Computed { rows, row, .. } => *row >= rows.len(),
            At::Stored(rows) => rows.is_at_end(),
        }
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let column = usize::try_from(column).unwrap_or(usize::MAX);
        let (parameters, rows, row) = match &self.at {
            At::Computed { parameters, rows, row } => (parameters, rows, *row),
            At::Stored(rows) => return rows.show(column, context),
        };
        let value = match column.checked_sub(self.shared.table.columns.len()) {
            None => rows.get(row).and_then(|row| row.get(column)),
            Some(parameter) => parameters.get(parameter),
        };
        context.set_result(value.unwrap_or(&Value::Null))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(match &self.at {
            At::Computed { row, .. } => i64::try_from(*row).unwrap_or(i64::MAX),
            At::Stored(rows) => rows.number(),
        })
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(value) => ValueRef::Integer(*value),
            Value::Real(value) => ValueRef::Real(*value),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A value of SQLite's as ours; text that is not UTF-8 has U+FFFD in its place.
pub(super) fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}
