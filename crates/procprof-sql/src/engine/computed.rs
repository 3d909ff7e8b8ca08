//! Tables as DataFusion reads them: computed ones when a statement reads them, and calls of those with parameters.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, ListArray, RecordBatch, StructArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::Result as DataFusionResult;
use datafusion::datasource::TableType;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_plan::ExecutionPlan;
use procprof_core::render::budget;
use procprof_report::{Budget, Error};
use procprof_store::Order;

use super::call::{Column, external};
use super::profile_functions::ProfileFunctions;
use super::profiles::Profiles;
use super::run::{Watch, shown};
use super::tables::{Source, Table, TableRows};
use super::types::SqlType;
use super::value::Val;
use crate::Sql;
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// Computed tables kept while a statement runs: a join may call one again with the same arguments.
const KEPT_MAX: usize = 4;
/// Warnings of a statement at most, as in MySQL by default.
const WARNINGS_MAX: usize = 64;
/// Bytes of rows that the calls for one batch of rows may give.
const CALL_BYTES_MAX: usize = 128 << 20;

/// What the tables of one statement share: the server, and the statement's end.
pub(crate) struct StatementContext {
    /// `None` for a statement that is only read: its tables can't be.
    sql: Option<Arc<Sql>>,
    watch: Arc<Watch>,
    kept: Mutex<Vec<Kept>>,
    /// The order in which the next table of stored rows is wanted.
    order: Mutex<Order>,
    /// What its answer does not have.
    warnings: Mutex<Vec<String>>,
}

/// A table for some values of its parameters.
struct Kept {
    table: &'static str,
    parameters: Vec<Value>,
    rows: Arc<TableRows>,
}

impl fmt::Debug for StatementContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatementContext")
    }
}

impl StatementContext {
    pub(super) fn new(sql: Option<&Arc<Sql>>, watch: &Arc<Watch>) -> StatementContext {
        let (sql, watch) = (sql.map(Arc::clone), Arc::clone(watch));
        let (kept, order) = (Mutex::default(), Mutex::new(Order::Any));
        StatementContext { sql, watch, kept, order, warnings: Mutex::default() }
    }

    /// The server.
    ///
    /// # Errors
    /// The statement is only read.
    pub(super) fn server(&self) -> Result<&Arc<Sql>, SqlError> {
        self.sql.as_ref().ok_or_else(|| SqlError::new(SqlErrorKind::Other, "the statement is read without a server"))
    }

    /// Wants the rows of the next table in this order.
    pub(super) fn want(&self, order: Order) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
    }

    /// The order in which the next table is wanted, which is that of no other.
    pub(super) fn order(&self) -> Order {
        std::mem::replace(&mut self.order.lock().unwrap_or_else(PoisonError::into_inner), Order::Any)
    }

    /// Notes what the answer does not have.
    pub(super) fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&text) && warnings.len() < WARNINGS_MAX {
            warnings.push(text);
        }
    }

    /// What was noted so far.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on unless the statement must end.
    ///
    /// # Errors
    /// Why it must.
    pub(super) fn go_on(&self) -> Result<(), SqlError> {
        self.watch.go_on()
    }

    /// The limits of a report for this statement; it ends with the statement.
    ///
    /// # Errors
    /// The statement is only read.
    pub(super) fn budget(&self) -> Result<Budget, SqlError> {
        let watch = Arc::clone(&self.watch);
        Ok(budget(&self.server()?.config()).until(move || watch.ended().is_some()))
    }

    /// Why a report failed, as this statement's failure.
    pub(super) fn report_failure(&self, error: &Error) -> SqlError {
        let kind = match error {
            Error::Stopped => match self.go_on() {
                Err(failure) => return failure,
                Ok(()) => SqlErrorKind::Other,
            },
            Error::OutputLimit { .. } | Error::MemoryLimit { .. } => SqlErrorKind::Limit,
            _ => SqlErrorKind::Other,
        };
        let key = match error {
            Error::OutputLimit { .. } => " (render_bytes_max)",
            Error::MemoryLimit { .. } => " (render_memory_bytes_max)",
            _ => "",
        };
        SqlError::new(kind, format!("{error}{key}"))
    }

    /// The rows of a computed table.
    ///
    /// # Errors
    /// Whatever keeps it from being computed.
    fn rows(&self, table: &Table, parameters: &[Value]) -> Result<Arc<TableRows>, SqlError> {
        let is_same = |kept: &&Kept| kept.table == table.name && kept.parameters == parameters;
        let kept = self.kept().iter().find(is_same).map(|kept| Arc::clone(&kept.rows));
        if let Some(rows) = kept {
            return Ok(rows);
        }
        self.go_on()?;
        let rows = Arc::new(compute(self, table, parameters)?);
        let mut kept = self.kept();
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        kept.push(Kept { table: table.name, parameters: parameters.to_vec(), rows: Arc::clone(&rows) });
        Ok(rows)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn compute(context: &StatementContext, table: &Table, parameters: &[Value]) -> Result<TableRows, SqlError> {
    let Source::Computed(rows) = table.source else { return Ok(Vec::new()) };
    let missing = table
        .parameters
        .iter()
        .zip(parameters)
        .find(|(parameter, value)| !parameter.optional && **value == Value::Null);
    if let Some((parameter, _)) = missing {
        let text = format!("{}: {} is NULL; call it as {}", table.name, parameter.name, table.comment);
        return Err(SqlError::new(SqlErrorKind::WrongArguments, text));
    }
    rows(context, parameters)
}

/// A table's columns in Arrow.
pub(super) fn schema(table: &Table) -> SchemaRef {
    let field = |column: &super::tables::TableColumn| Field::new(column.name, column.kind().arrow(), true);
    Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()))
}

/// A table without parameters as DataFusion reads it.
pub(super) fn provider(context: &Arc<StatementContext>, table: &'static Table) -> Arc<dyn TableProvider> {
    match table.source {
        Source::Stored => Arc::new(Profiles::new(Arc::clone(context), table)),
        Source::Functions => Arc::new(ProfileFunctions::new(Arc::clone(context), table)),
        Source::Computed(_) => Arc::new(Computed { context: Arc::clone(context), table, schema: schema(table) }),
    }
}

struct Computed {
    context: Arc<StatementContext>,
    table: &'static Table,
    schema: SchemaRef,
}

impl fmt::Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table.name)
    }
}

#[async_trait]
impl TableProvider for Computed {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let rows = self.context.rows(self.table, &[]).map_err(external)?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns(self.table, [rows.as_slice()].into_iter()))?;
        MemTable::try_new(Arc::clone(&self.schema), vec![vec![batch]])?.scan(state, projection, filters, limit).await
    }
}

/// Rows as columns.
fn columns<'r>(table: &Table, parts: impl Iterator<Item = &'r [Vec<Value>]> + Clone) -> Vec<ArrayRef> {
    let column = |(index, column): (usize, &super::tables::TableColumn)| {
        let kind = column.kind();
        let mut made = Column::new(kind, parts.clone().map(<[_]>::len).sum());
        for row in parts.clone().flatten() {
            made.push(&kept(row.get(index).unwrap_or(&Value::Null), kind));
        }
        made.finish()
    };
    table.columns.iter().enumerate().map(column).collect()
}

/// A value as its column keeps it.
fn kept(value: &Value, kind: SqlType) -> Val<'_> {
    match value {
        Value::Null => Val::Null,
        Value::Integer(value) => Val::Integer(*value),
        Value::Real(value) => Val::Double(*value),
        Value::Blob(bytes) => Val::Bytes(bytes.as_slice().into()),
        Value::Text(text) => {
            let text = Val::Text(text.as_str().into());
            match kind {
                SqlType::DateTime { .. } => text.moment().map_or(Val::Null, Val::DateTime),
                _ => text,
            }
        }
    }
}

/// A call of a table with parameters: for each row its rows, as a list.
pub(super) struct TableCall {
    context: Arc<StatementContext>,
    table: &'static Table,
    kinds: Vec<SqlType>,
    signature: Signature,
}

impl TableCall {
    pub(super) fn new(context: Arc<StatementContext>, table: &'static Table, kinds: Vec<SqlType>) -> TableCall {
        TableCall { context, table, kinds, signature: Signature::variadic_any(Volatility::Volatile) }
    }

    /// The expression that calls it.
    pub(super) fn on(self, arguments: Vec<Expr>) -> Expr {
        ScalarUDF::new_from_impl(self).call(arguments)
    }

    fn fields(&self) -> Fields {
        schema(self.table).fields().clone()
    }

    fn item(&self) -> Arc<Field> {
        Arc::new(Field::new("item", DataType::Struct(self.fields()), true))
    }
}

impl fmt::Debug for TableCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table.name)
    }
}

impl PartialEq for TableCall {
    fn eq(&self, other: &TableCall) -> bool {
        self.table.name == other.table.name && self.kinds == other.kinds
    }
}

impl Eq for TableCall {}

impl Hash for TableCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.table.name, &self.kinds).hash(state);
    }
}

impl ScalarUDFImpl for TableCall {
    fn name(&self) -> &str {
        self.table.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::List(self.item()))
    }

    fn coerce_types(&self, types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let arrays = arguments
            .args
            .iter()
            .map(|value| value.to_array(arguments.number_rows))
            .collect::<DataFusionResult<Vec<ArrayRef>>>()?;
        let mut tables = Vec::with_capacity(arguments.number_rows);
        let mut bytes = 0;
        for row in 0..arguments.number_rows {
            let mut parameters: Vec<Value> =
                arrays.iter().zip(&self.kinds).map(|(array, kind)| shown(array, row, *kind)).collect();
            parameters.resize(self.table.parameters.len(), Value::Null);
            let rows = self.context.rows(self.table, &parameters).map_err(external)?;
            bytes += rows.iter().flatten().map(Value::weight).sum::<usize>();
            if bytes > CALL_BYTES_MAX {
                let text = format!(
                    "{}: the rows of {} calls take more than {} MiB of memory; call it for fewer rows",
                    self.table.name,
                    row + 1,
                    CALL_BYTES_MAX >> 20
                );
                return Err(external(SqlError::new(SqlErrorKind::Limit, text)));
            }
            tables.push(rows);
        }
        let offsets = OffsetBuffer::from_lengths(tables.iter().map(|rows| rows.len()));
        let columns = columns(self.table, tables.iter().map(|rows| rows.as_slice()));
        let length = tables.iter().map(|rows| rows.len()).sum();
        let values = match columns.is_empty() {
            true => StructArray::new_empty_fields(length, None),
            false => StructArray::try_new(self.fields(), columns, None::<NullBuffer>).map_err(arrow)?,
        };
        let list = ListArray::try_new(self.item(), offsets, Arc::new(values), None).map_err(arrow)?;
        Ok(ColumnarValue::Array(Arc::new(list)))
    }
}

fn arrow(error: datafusion::arrow::error::ArrowError) -> DataFusionError {
    DataFusionError::ArrowError(Box::new(error), None)
}
