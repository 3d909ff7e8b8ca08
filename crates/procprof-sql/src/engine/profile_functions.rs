//! The table `functions`: what each function of each stored profile takes, from the store's catalog.
//!
//! The catalog looks for names in its dictionary: conditions on the function alone, whatever they are, are decided there
//! once for each name. It also decides shares, and what it decides of `profiles`. Profiles whose functions it does not
//! have are a warning of the statement.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result as DataFusionResult, ScalarValue};
use datafusion::datasource::TableType;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use procprof_store::{
    Column, Filter, FunctionColumn, FunctionNames, FunctionQuery, FunctionRows, Order, RowBatch, Uncovered, Values,
};

use super::call::external;
use super::computed::{StatementContext, schema};
use super::profiles::{Comparison, Shown, column, comparison, narrowed, orderings, stored, texts};
use super::tables::Table;

/// Rows of the first batch; the following ones are larger.
const FIRST_ROWS: usize = 128;
/// Rows of a batch, about.
const BATCH_ROWS: usize = 4096;
/// The column with the names.
const FUNCTION: &str = "function";

/// How a column is made of what the catalog has.
#[derive(Clone, Copy)]
enum Made {
    From(FunctionColumn, Shown),
    /// The share of the profile's sum.
    Percent(FunctionColumn),
}

/// The columns in the order of the table.
const COLUMNS: [(&str, Made); 13] = [
    ("profile_id", Made::From(FunctionColumn::Profile(Column::Id), Shown::Uuid)),
    ("node", Made::From(FunctionColumn::Profile(Column::Node), Shown::AsIs)),
    ("type", Made::From(FunctionColumn::Profile(Column::Type), Shown::AsIs)),
    ("cluster", Made::From(FunctionColumn::Profile(Column::Cluster), Shown::AsIs)),
    ("completed", Made::From(FunctionColumn::Profile(Column::Completed), Shown::Moment)),
    (FUNCTION, Made::From(FunctionColumn::Name, Shown::AsIs)),
    ("sample_type", Made::From(FunctionColumn::Kind, Shown::AsIs)),
    ("unit", Made::From(FunctionColumn::Unit, Shown::AsIs)),
    ("self", Made::From(FunctionColumn::Own, Shown::AsIs)),
    ("total", Made::From(FunctionColumn::Total, Shown::AsIs)),
    ("self_percent", Made::Percent(FunctionColumn::Own)),
    ("total_percent", Made::Percent(FunctionColumn::Total)),
    ("completed_ns", Made::From(FunctionColumn::Profile(Column::Completed), Shown::AsIs)),
];

/// The table in one statement.
pub(super) struct ProfileFunctions {
    context: Arc<StatementContext>,
    schema: SchemaRef,
    /// The order in which the statement wants their profiles.
    order: Order,
}

impl ProfileFunctions {
    pub(super) fn new(context: Arc<StatementContext>, table: &Table) -> ProfileFunctions {
        let order = context.order();
        ProfileFunctions { context, schema: schema(table), order }
    }

    /// Notes the profiles that the rows lack.
    fn warn(&self, filter: &Filter) -> DataFusionResult<()> {
        let Ok(sql) = self.context.server() else { return Ok(()) };
        let Uncovered { waiting, unreadable, too_many } = sql.store.uncovered(filter, None).map_err(stored)?;
        let warn = |count: u64, why: &str| match count {
            0 => {}
            1 => self.context.warn(format!("functions: 1 profile is missing, whose functions {why}")),
            _ => self.context.warn(format!("functions: {count} profiles are missing, whose functions {why}")),
        };
        warn(waiting, "are still being read");
        warn(unreadable, "cannot be read");
        warn(too_many, "are too many");
        Ok(())
    }
}

impl fmt::Debug for ProfileFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("functions")
    }
}

#[async_trait]
impl TableProvider for ProfileFunctions {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        let is_known = |filter: &Expr| {
            narrowed(&mut Filter::default(), filter).is_some() || share(filter).is_some() || is_of_names(filter)
        };
        let support = |filter: &&Expr| match is_known(filter) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let mut query = FunctionQuery { order: self.order, ..FunctionQuery::default() };
        let mut is_empty = false;
        let mut of_names = Vec::new();
        for condition in filters {
            if let Some(flow) = narrowed(&mut query.filter, condition) {
                is_empty |= flow.is_break();
            } else if let Some((column, percent)) = share(condition) {
                let least = match column {
                    FunctionColumn::Own => &mut query.own_percent_min,
                    _ => &mut query.total_percent_min,
                };
                *least = Some(least.map_or(percent, |least| least.max(percent)));
            } else if let Some(names) = equal_names(condition).filter(|_| matches!(query.names, FunctionNames::Any)) {
                query.names = FunctionNames::OneOf(names);
            } else if is_of_names(condition) {
                of_names.push(condition.clone());
            }
        }
        if matches!(query.names, FunctionNames::Any)
            && let Some(condition) = of_names.into_iter().reduce(Expr::and)
        {
            query.names = chosen(state, condition)?;
        }
        if !is_empty {
            self.warn(&query.filter)?;
        }
        let projection: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..COLUMNS.len()).collect());
        let names: Vec<&str> = projection.iter().map(|column| COLUMNS[*column].0).collect();
        let orderings = orderings(self.order, &names);
        let projected = Arc::new(self.schema.project(&projection)?);
        let context = Arc::clone(&self.context);
        let part = Part { context, schema: Arc::clone(&projected), projection, query, is_empty };
        let limit = if filters.is_empty() { limit } else { None };
        let plan = StreamingTableExec::try_new(projected, vec![Arc::new(part)], None, orderings, false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// The least share in percent that a condition asks for, and of which value.
fn share(condition: &Expr) -> Option<(FunctionColumn, f64)> {
    let (column, comparison, values) = comparison(condition)?;
    let percent = match values.as_slice() {
        [ScalarValue::Float64(Some(percent))] => *percent,
        [ScalarValue::Int64(Some(percent))] => *percent as f64,
        _ => return None,
    };
    match (column, comparison) {
        ("self_percent", Comparison::Is | Comparison::From) => Some((FunctionColumn::Own, percent)),
        ("total_percent", Comparison::Is | Comparison::From) => Some((FunctionColumn::Total, percent)),
        _ => None,
    }
}

/// The names that a condition compares the function with, byte by byte.
fn equal_names(condition: &Expr) -> Option<Vec<String>> {
    let is_plain = match condition {
        Expr::BinaryExpr(binary) => [&binary.left, &binary.right].iter().any(|side| is_function(side)),
        Expr::InList(list) => is_function(&list.expr),
        _ => false,
    };
    match comparison(condition)? {
        (FUNCTION, Comparison::Is, values) if is_plain => {
            Some(texts(&values)?.into_iter().map(str::to_owned).collect())
        }
        _ => None,
    }
}

fn is_function(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if column.name == FUNCTION)
}

/// Whether a condition is on the function alone, and the same for the same name.
fn is_of_names(condition: &Expr) -> bool {
    let columns = condition.column_refs();
    !columns.is_empty() && columns.iter().all(|column| column.name == FUNCTION) && !condition.is_volatile()
}

/// The names for which a condition holds. Where it fails, DataFusion reports that when it checks the row.
fn chosen(state: &dyn Session, condition: Expr) -> DataFusionResult<FunctionNames> {
    let schema = Arc::new(Schema::new(vec![Field::new(FUNCTION, DataType::Utf8, true)]));
    let unqualified = unqualified(condition)?;
    let physical = state.create_physical_expr(unqualified, &DFSchema::try_from(Arc::clone(&schema))?)?;
    Ok(FunctionNames::Chosen(Arc::new(move |names: &[&str]| decide(&physical, &schema, names).unwrap_or_default())))
}

fn unqualified(condition: Expr) -> DataFusionResult<Expr> {
    use datafusion::common::Column;
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let bare = |expr: Expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::from_name(column.name)))),
        other => Ok(Transformed::no(other)),
    };
    condition.transform(bare).map(|made| made.data)
}

/// Whether a condition holds for each of some names.
fn decide(condition: &Arc<dyn PhysicalExpr>, schema: &SchemaRef, names: &[&str]) -> DataFusionResult<Vec<bool>> {
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let batch = RecordBatch::try_new(Arc::clone(schema), vec![column])?;
    let held = condition.evaluate(&batch)?.into_array(names.len())?;
    let held = held.as_boolean_opt().ok_or_else(|| DataFusionError::Internal("no condition".to_owned()))?;
    Ok(held.iter().map(|held| held == Some(true)).collect())
}

/// What is read of the table.
struct Part {
    context: Arc<StatementContext>,
    schema: SchemaRef,
    projection: Vec<usize>,
    query: FunctionQuery,
    /// Whether no row can hold the conditions.
    is_empty: bool,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "functions {:?}", self.query)
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut columns: Vec<FunctionColumn> = Vec::new();
        let mut place = |column: FunctionColumn| {
            columns.iter().position(|other| *other == column).unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            })
        };
        let places: Vec<Place> = self
            .projection
            .iter()
            .map(|index| match COLUMNS[*index].1 {
                Made::From(column, shown) => Place::Values(place(column), shown),
                Made::Percent(column) => Place::Percent(place(column), place(FunctionColumn::ProfileTotal)),
            })
            .collect();
        let query = FunctionQuery { columns, ..self.query.clone() };
        let rows = match self.is_empty {
            true => Ok(None),
            false => {
                let server = self.context.server().map_err(external);
                server.and_then(|sql| sql.store.function_rows(&query).map(Some).map_err(stored))
            }
        };
        let (context, schema) = (Arc::clone(&self.context), Arc::clone(&self.schema));
        let state = Reading { context, schema, places, rows, size: FIRST_ROWS };
        let batches = futures_util::stream::unfold(state, |mut state| async move { Some((state.next()?, state)) });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

/// The values of a column, by their places in what is read.
#[derive(Clone, Copy)]
enum Place {
    Values(usize, Shown),
    Percent(usize, usize),
}

/// A place in the rows.
struct Reading {
    context: Arc<StatementContext>,
    schema: SchemaRef,
    places: Vec<Place>,
    rows: DataFusionResult<Option<FunctionRows>>,
    size: usize,
}

impl Reading {
    fn next(&mut self) -> Option<DataFusionResult<RecordBatch>> {
        let next = match std::mem::replace(&mut self.rows, Ok(None)) {
            Ok(rows) => self.read(rows?),
            Err(error) => Err(error),
        };
        next.transpose()
    }

    /// The next batch that is not empty.
    fn read(&mut self, mut rows: FunctionRows) -> DataFusionResult<Option<RecordBatch>> {
        loop {
            self.context.go_on().map_err(external)?;
            let Some(batch) = rows.next(self.size).map_err(stored)? else { return Ok(None) };
            self.size = (self.size * 4).min(BATCH_ROWS);
            if batch.rows > 0 {
                self.rows = Ok(Some(rows));
                return self.batch(&batch).map(Some);
            }
        }
    }

    fn batch(&self, batch: &RowBatch) -> DataFusionResult<RecordBatch> {
        let made = |place: &Place| match place {
            Place::Values(at, shown) => column(batch.columns.get(*at), *shown, batch.rows),
            Place::Percent(value, sum) => percents(batch.columns.get(*value), batch.columns.get(*sum)),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.rows));
        let columns = self.places.iter().map(made).collect();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

fn percents(values: Option<&Values>, sums: Option<&Values>) -> ArrayRef {
    let (Some(Values::Integers(values)), Some(Values::Integers(sums))) = (values, sums) else {
        return Arc::new(Float64Array::new_null(0));
    };
    let percent = |(value, sum): (&i64, &i64)| (*sum != 0).then(|| *value as f64 * 100.0 / *sum as f64);
    Arc::new(values.iter().zip(sums).map(percent).collect::<Float64Array>())
}
