//! The table `profiles`: rows that the store's catalog gives by filter, in columns, in batches.
//!
//! Conditions that the catalog can decide, the order by time, and the columns to be read are passed on to it. DataFusion
//! checks each condition again, so the catalog's filter may let too much through, never too little.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray, StringBuilder,
    TimestampMicrosecondArray,
};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::datasource::TableType;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use procprof_profile::{Nanos, ProfileId};
use procprof_store::{Column, Filter, Order, RowBatch, RowQuery, Rows, Values};

use super::call::external;
use super::computed::{StatementContext, schema};
use super::tables::Table;
use crate::mysql::{SqlError, SqlErrorKind};

/// Rows of the first batch; the following ones are larger, so that a statement that needs a few does not wait for many.
const FIRST_ROWS: usize = 128;
/// Rows of a batch at most.
const BATCH_ROWS: usize = 4096;

/// How a column shows what the catalog has.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    AsIs,
    Uuid,
    Moment,
    Seconds,
    Labels,
    /// Missing where it is negative.
    Known,
}

/// The columns in the order of the table: name, what of the catalog it shows, and how.
pub(super) const COLUMNS: [(&str, Column, Shown); 23] = [
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
    ("functions", Column::Functions, Shown::Known),
    ("engine", Column::Engine, Shown::AsIs),
    ("lost", Column::Lost, Shown::Known),
    ("pinned", Column::Pinned, Shown::AsIs),
    ("facts", Column::Facts, Shown::AsIs),
    ("top_leaf", Column::TopLeaf, Shown::AsIs),
];

/// The table in one statement.
pub(super) struct Profiles {
    context: Arc<StatementContext>,
    schema: SchemaRef,
    /// The order in which the statement wants its rows.
    order: Order,
}

impl Profiles {
    pub(super) fn new(context: Arc<StatementContext>, table: &Table) -> Profiles {
        let order = context.order();
        Profiles { context, schema: schema(table), order }
    }
}

/// The orders that rows of profiles have, by the places of columns in the projection.
pub(super) fn orderings(order: Order, projection: &[&str]) -> Vec<LexOrdering> {
    let descending = match order {
        Order::NewestFirst => true,
        Order::OldestFirst => false,
        _ => return Vec::new(),
    };
    let options = SortOptions { descending, nulls_first: !descending };
    let sorted = |names: &[&str]| {
        let (place, name) = projection.iter().enumerate().find(|(_, name)| names.contains(name))?;
        Some(PhysicalSortExpr::new(Arc::new(PhysicalColumn::new(name, place)), options))
    };
    let by_time = sorted(&["completed_ns"])
        .map(|time| [time].into_iter().chain(sorted(&["id", "profile_id"])).collect::<Vec<_>>());
    let by_text = sorted(&["completed"]).map(|time| vec![time]);
    [by_time, by_text].into_iter().flatten().filter_map(LexOrdering::new).collect()
}

impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("profiles")
    }
}

#[async_trait]
impl TableProvider for Profiles {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        let is_known = |filter: &&Expr| narrowed(&mut Filter::default(), filter).is_some();
        let support = |filter| match is_known(filter) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let mut filter = Filter::default();
        let mut is_empty = false;
        for condition in filters {
            is_empty |= narrowed(&mut filter, condition).is_some_and(|flow| flow.is_break());
        }
        let projection: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..COLUMNS.len()).collect());
        let names: Vec<&str> = projection.iter().map(|column| COLUMNS[*column].0).collect();
        let orderings = orderings(self.order, &names);
        let projected = Arc::new(self.schema.project(&projection)?);
        let part = Part {
            context: Arc::clone(&self.context),
            schema: Arc::clone(&projected),
            projection,
            filter,
            is_empty,
            order: self.order,
        };
        let limit = if filters.is_empty() { limit } else { None };
        let plan = StreamingTableExec::try_new(projected, vec![Arc::new(part)], None, orderings, false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// What is read of the table.
struct Part {
    context: Arc<StatementContext>,
    schema: SchemaRef,
    projection: Vec<usize>,
    filter: Filter,
    /// Whether no row can hold the conditions.
    is_empty: bool,
    order: Order,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "profiles {:?}", self.filter)
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut columns: Vec<Column> = Vec::new();
        let mut places = Vec::new();
        for index in &self.projection {
            let (_, column, _) = COLUMNS[*index];
            let place = columns.iter().position(|other| *other == column).unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            });
            places.push(place);
        }
        let query = RowQuery { filter: self.filter.clone(), columns, order: self.order };
        let reader = match self.is_empty {
            true => Ok(None),
            false => {
                self.context.server().map_err(external).and_then(|sql| sql.store.rows(&query).map(Some).map_err(stored))
            }
        };
        let state = Reading {
            context: Arc::clone(&self.context),
            schema: Arc::clone(&self.schema),
            projection: self.projection.clone(),
            places,
            rows: reader,
            size: FIRST_ROWS,
        };
        let batches = futures_util::stream::unfold(state, |mut state| async move { Some((state.next()?, state)) });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

pub(super) fn stored(error: procprof_store::Error) -> DataFusionError {
    external(SqlError::new(SqlErrorKind::Other, error.to_string()))
}

/// A place in the rows.
struct Reading {
    context: Arc<StatementContext>,
    schema: SchemaRef,
    projection: Vec<usize>,
    places: Vec<usize>,
    rows: Result<Option<Rows>, DataFusionError>,
    size: usize,
}

impl Reading {
    fn next(&mut self) -> Option<DataFusionResult<RecordBatch>> {
        let rows = match &mut self.rows {
            Ok(rows) => rows.as_mut()?,
            Err(_) => return std::mem::replace(&mut self.rows, Ok(None)).err().map(Err),
        };
        let next = self.context.go_on().map_err(external).and_then(|()| rows.next(self.size).map_err(stored));
        self.size = (self.size * 4).min(BATCH_ROWS);
        match next {
            Ok(Some(batch)) => Some(self.batch(&batch)),
            Ok(None) => {
                self.rows = Ok(None);
                None
            }
            Err(error) => {
                self.rows = Ok(None);
                Some(Err(error))
            }
        }
    }

    fn batch(&self, batch: &RowBatch) -> DataFusionResult<RecordBatch> {
        let columns: Vec<ArrayRef> = self
            .projection
            .iter()
            .zip(&self.places)
            .map(|(index, place)| column(batch.columns.get(*place), COLUMNS[*index].2, batch.rows))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// A column's values as Arrow has them.
pub(super) fn column(values: Option<&Values>, shown: Shown, rows: usize) -> ArrayRef {
    match (values, shown) {
        (Some(Values::Integers(numbers)), Shown::Moment) => {
            let micros = numbers.iter().map(|nanos| nanos.div_euclid(1_000_000) * 1000);
            Arc::new(TimestampMicrosecondArray::from_iter_values(micros))
        }
        (Some(Values::Integers(numbers)), Shown::Seconds) => {
            Arc::new(Float64Array::from_iter_values(numbers.iter().map(|nanos| *nanos as f64 / 1e9)))
        }
        (Some(Values::Integers(numbers)), Shown::Known) => {
            Arc::new(numbers.iter().map(|number| Some(*number).filter(|number| *number >= 0)).collect::<Int64Array>())
        }
        (Some(Values::Integers(numbers)), _) => Arc::new(Int64Array::from(numbers.clone())),
        (Some(Values::Ids(ids)), _) => {
            let mut texts = StringBuilder::with_capacity(rows, rows * 36);
            ids.iter().for_each(|id| texts.append_value(id.to_string()));
            Arc::new(texts.finish())
        }
        (Some(Values::Texts(own)), Shown::Labels) => {
            let shown: Vec<Option<String>> = own.list().map(|labels| labels.and_then(labels_as_json)).collect();
            text_array(rows, |row| own.place(row).and_then(|place| shown[place].as_deref()))
        }
        (Some(Values::Texts(own)), _) => text_array(rows, |row| own.get(row)),
        (None, _) => Arc::new(Int64Array::new_null(rows)),
    }
}

fn text_array<'a>(rows: usize, text: impl Fn(usize) -> Option<&'a str>) -> ArrayRef {
    Arc::new((0..rows).map(text).collect::<StringArray>())
}

/// Labels as a JSON object.
fn labels_as_json(lines: &str) -> Option<String> {
    let labels = lines.split('\n').filter_map(|line| line.split_once('='));
    serde_json::to_string(&labels.collect::<BTreeMap<_, _>>()).ok()
}

/// The comparison of a condition with its column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Is,
    /// It is that or more.
    From,
    /// It is that or less.
    To,
}

/// Narrows a filter by a condition that the catalog knows; `None` for others. Breaks off when no row can hold it.
pub(super) fn narrowed(filter: &mut Filter, condition: &Expr) -> Option<ControlFlow<()>> {
    let (column, comparison, values) = comparison(condition)?;
    with(filter, column, comparison, &values)
}

/// A comparison of a column with values, of which one must hold.
pub(super) fn comparison(condition: &Expr) -> Option<(&str, Comparison, Vec<ScalarValue>)> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, value, operator) = match (column_of(left), right.as_ref()) {
                (Some(column), Expr::Literal(value, _)) => (column, value, *op),
                _ => match (left.as_ref(), column_of(right)) {
                    (Expr::Literal(value, _), Some(column)) => (column, value, op.swap()?),
                    _ => return None,
                },
            };
            let comparison = match operator {
                Operator::Eq => Comparison::Is,
                Operator::Gt | Operator::GtEq => Comparison::From,
                Operator::Lt | Operator::LtEq => Comparison::To,
                _ => return None,
            };
            Some((column, comparison, vec![value.clone()]))
        }
        Expr::InList(list) if !list.negated => {
            let values: Option<Vec<ScalarValue>> = list
                .list
                .iter()
                .map(|value| if let Expr::Literal(value, _) = value { Some(value.clone()) } else { None })
                .collect();
            Some((column_of(&list.expr)?, Comparison::Is, values?))
        }
        _ => None,
    }
}

/// The column that an expression is, or whose key it is.
fn column_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::ScalarFunction(call) if call.func.name() == "collation_key" => match call.args.as_slice() {
            [Expr::Column(column)] => Some(&column.name),
            _ => None,
        },
        _ => None,
    }
}

fn with(filter: &mut Filter, column: &str, comparison: Comparison, values: &[ScalarValue]) -> Option<ControlFlow<()>> {
    let mut any = false;
    let is = comparison == Comparison::Is;
    match (column, values) {
        ("id" | "profile_id", _) if is => {
            let ids: Vec<ProfileId> = texts(values)?.iter().filter_map(|text| text.parse().ok()).collect();
            any = !ids.is_empty();
            if filter.ids.is_empty() {
                filter.ids = ids;
            }
        }
        ("node", _) if is => {
            let nodes: Vec<u64> = numbers(values)?.into_iter().map(i64::cast_unsigned).collect();
            any = !nodes.is_empty();
            if filter.nodes.is_empty() {
                filter.nodes = nodes;
            }
        }
        // Names of types have small letters only; their keys are capitals and a blank.
        ("type", _) if is => {
            let types: Vec<_> =
                texts(values)?.iter().filter_map(|text| text.trim_end().to_lowercase().parse().ok()).collect();
            any = !types.is_empty();
            if filter.types.is_empty() {
                filter.types = types;
            }
        }
        ("completed_ns", [value]) => {
            for nanos in numbers(std::slice::from_ref(value))? {
                any = true;
                bound(filter, comparison, nanos, 1);
            }
        }
        // A moment of milliseconds means all nanoseconds in its last one.
        ("completed", [ScalarValue::TimestampMicrosecond(micros, None)]) => {
            if let Some(nanos) = micros.and_then(|micros| micros.checked_mul(1000)) {
                any = true;
                bound(filter, comparison, nanos.div_euclid(1_000_000) * 1_000_000, 1_000_000);
            }
        }
        _ => return None,
    }
    Some(if any { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
}

pub(super) fn texts(values: &[ScalarValue]) -> Option<Vec<&str>> {
    values
        .iter()
        .filter(|value| !value.is_null())
        .map(|value| if let ScalarValue::Utf8(text) = value { text.as_deref() } else { None })
        .collect()
}

fn numbers(values: &[ScalarValue]) -> Option<Vec<i64>> {
    values
        .iter()
        .filter(|value| !value.is_null())
        .map(|value| if let ScalarValue::Int64(number) = value { *number } else { None })
        .collect()
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
