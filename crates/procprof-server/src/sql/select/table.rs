//! A computed table as SQLite's virtual table: eponymous, read-only, its parameters hidden columns. The only file of this crate with `unsafe`.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection, VTabCursor, sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result, ToSql};

use super::catalog::{Table, TableRows};
use super::scene::Scene;
use crate::mysql::Value;

const MODULE: Module<'static, Computed> = Module::eponymous_only_module();

/// Rows SQLite's planner expects of a table that takes no parameters, or all of its own.
const ROWS: i64 = 1000;

/// Makes a table known to a connection under its name.
///
/// # Errors
/// SQLite's.
pub(super) fn register(connection: &Connection, scene: &Arc<Scene>, table: &'static Table) -> Result<()> {
    connection.create_module(table.name, &MODULE, Some(Shared { scene: Arc::clone(scene), table }))
}

/// Bytes of memory SQLite has taken, in the whole process.
pub(super) fn memory_used() -> u64 {
    // SAFETY: takes nothing, and may be called at any time from any thread.
    let bytes = unsafe { rusqlite::ffi::sqlite3_memory_used() };
    u64::try_from(bytes).unwrap_or(0)
}

#[derive(Clone)]
struct Shared {
    scene: Arc<Scene>,
    table: &'static Table,
}

/// The table.
#[repr(C)]
struct Computed {
    /// First, as SQLite sees only this.
    base: sqlite3_vtab,
    shared: Shared,
}

// SAFETY: the type is `repr(C)` and begins with `sqlite3_vtab`.
unsafe impl<'vtab> VTab<'vtab> for Computed {
    type Aux = Shared;
    type Cursor = Cursor<'vtab>;

    fn connect(
        connection: &mut VTabConnection,
        aux: Option<&Shared>,
        _module: &[u8],
        _database: &[u8],
        _table: &[u8],
        _arguments: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Computed)> {
        let shared = aux.cloned().ok_or_else(|| Error::ModuleError("a table without its definition".to_owned()))?;
        connection.config(VTabConfig::DirectOnly)?;
        let declaration = CString::new(shared.table.declaration()).map_err(|error| Error::ModuleError(error.to_string()))?;
        Ok((Cow::Owned(declaration), Computed { base: sqlite3_vtab::default(), shared }))
    }

    /// Takes every parameter that has a value; the plan's number says which, a bit each.
    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let table = self.shared.table;
        let mut places: Vec<Option<usize>> = vec![None; table.parameters.len()];
        for (place, constraint) in info.constraints().enumerate() {
            let parameter = usize::try_from(constraint.column()).ok().and_then(|column| column.checked_sub(table.columns.len()));
            let Some(parameter) = parameter.filter(|_| constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ) else {
                continue;
            };
            if !constraint.is_usable() {
                // Its value comes from a table that is read later in this plan.
                return Ok(false);
            }
            places[parameter] = Some(place);
        }
        if let Some((missing, _)) = table.parameters.iter().zip(&places).find(|(parameter, place)| !parameter.optional && place.is_none()) {
            return Err(Error::ModuleError(format!("{}: {} is missing; call it as {}", table.name, missing.name, table.comment)));
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
        Ok(Cursor { base, shared, parameters: Vec::new(), rows: Arc::default(), at: 0, table: PhantomData })
    }
}

/// A place in the table.
#[repr(C)]
struct Cursor<'vtab> {
    /// First, as SQLite sees only this.
    base: sqlite3_vtab_cursor,
    shared: Shared,
    parameters: Vec<Value>,
    rows: Arc<TableRows>,
    at: usize,
    table: PhantomData<&'vtab Computed>,
}

// SAFETY: the type is `repr(C)` and begins with `sqlite3_vtab_cursor`.
unsafe impl VTabCursor for Cursor<'_> {
    fn filter(&mut self, given: c_int, _name: Option<&str>, arguments: &Filters<'_>) -> Result<()> {
        let mut arguments = arguments.iter();
        self.parameters.clear();
        for parameter in 0..self.shared.table.parameters.len() {
            let value = if given >> parameter & 1 == 1 { arguments.next().map(value) } else { None };
            self.parameters.push(value.unwrap_or(Value::Null));
        }
        let rows = self.shared.scene.rows(self.shared.table, &self.parameters);
        self.rows = rows.map_err(|failure| Error::ModuleError(failure.text))?;
        self.at = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let column = usize::try_from(column).unwrap_or(usize::MAX);
        let columns = self.shared.table.columns.len();
        let value = match column.checked_sub(columns) {
            None => self.rows.get(self.at).and_then(|row| row.get(column)),
            Some(parameter) => self.parameters.get(parameter),
        };
        context.set_result(value.unwrap_or(&Value::Null))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(i64::try_from(self.at).unwrap_or(i64::MAX))
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
