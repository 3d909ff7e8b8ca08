//! `SELECT`: statements over read-only tables, run by DataFusion with MySQL's types, functions and comparisons.
//!
//! A statement's text becomes a tree (`parse`), the tree a plan (`bind`), which DataFusion optimizes and runs in the
//! blocking pool; its rows are sent as they come (`run`).
//!
//! | file | what |
//! |---|---|
//! | `tables`, `information_schema` | the tables there are: columns, parameters, comments |
//! | `describe` | `DESCRIBE`, and the `SHOW` statements about tables |
//! | `parse` | the text of a statement as a tree |
//! | `bind` | a tree as a plan: names, types, MySQL's rules |
//! | `types`, `value`, `decimal`, `moment`, `collation`, `weights` | MySQL's types, values and how they compare |
//! | `call`, `functions`, `aggregates`, `percentiles`, `digests` | functions of rows and of groups |
//! | `computed`, `profiles`, `profile_functions` | tables as DataFusion reads them |
//! | `nodes`, `reports`, `timeline`, `information_schema_rows` | the rows of computed tables |
//! | `periods` | what functions of periods take, and sums of these |
//! | `joins`, `sequence`, `large_rows` | joins that can be ended, unions in order, few rows at a time that are large |
//! | `limits` | the size of expressions, and memory of constants and of values that functions make |
//! | `run` | running a statement, ending it early, and errors as those of MySQL |

mod aggregates;
mod bind;
mod call;
mod collation;
mod computed;
mod decimal;
pub(super) mod describe;
mod digests;
mod functions;
mod information_schema;
mod information_schema_rows;
mod joins;
mod large_rows;
mod limits;
mod moment;
mod nodes;
mod parse;
mod percentiles;
mod periods;
mod profile_functions;
mod profiles;
mod reports;
mod run;
mod sequence;
mod tables;
#[cfg(test)]
mod tests;
mod timeline;
mod types;
mod value;
mod weights;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{displayable, execute_stream};
use datafusion::prelude::SessionConfig;
use jiff::Timestamp;
use tables::{Table, TableColumn};
pub(super) use tables::{databases, is_database};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::Sql;
use crate::mysql::{Column, ColumnType, Prepared, Rows, SqlError, SqlErrorKind, StatementResult, Value};
use crate::session_info::{SelectResult, SessionInfo};
use crate::token::{Token, TokenKind};
use crate::variables::Variables;
use bind::{Binder, Output};
use computed::StatementContext;
use run::{First, RowLimits, Watch};
use types::SqlType;

/// Statements that run at a time, those whose client is slow among them; others wait.
const RUNNING_MAX: usize = 32;
/// Batches of rows that wait for the client.
const BATCHES: usize = 2;
/// Memory of all statements for sorting, grouping and joining, for their constants and for texts that their functions
/// make, in bytes.
const MEMORY_MAX: usize = 256 << 20;
/// Rows that operators work on at a time.
const OPERATOR_ROWS: usize = 1024;
/// Longest name of a column, in characters.
const NAME_MAX: usize = 256;

/// Runs statements for all connections.
pub(super) struct Engine {
    sql: Arc<Sql>,
    state: SessionState,
    turns: Arc<Semaphore>,
}

/// A statement whose plan is made.
struct Statement {
    plan: LogicalPlan,
    outputs: Vec<Output>,
    parameters: usize,
    explains: bool,
    is_limited: bool,
    /// Variables that its rows assign.
    assigned: Vec<String>,
    context: Arc<StatementContext>,
}

impl Statement {
    /// The columns of its result.
    fn columns(&self) -> Vec<Column> {
        if self.explains { vec![Column::text("EXPLAIN")] } else { self.outputs.iter().map(column).collect() }
    }
}

impl Engine {
    /// # Errors
    /// DataFusion's, which has nothing to fail at here.
    pub(super) fn new(sql: &Arc<Sql>) -> procprof_core::Result<Arc<Engine>> {
        let state = planner().map_err(|error| procprof_core::Error::Setup { what: "sql", why: error.to_string() })?;
        Ok(Arc::new(Engine { sql: Arc::clone(sql), state, turns: Arc::new(Semaphore::new(RUNNING_MAX)) }))
    }

    /// Runs a statement until `cancel` is cancelled, the client no longer waits for its answer, or it takes too long.
    ///
    /// # Errors
    /// Errors before its first rows; one that ends it later ends its rows.
    pub(super) async fn select(
        self: &Arc<Engine>,
        session: &SessionInfo<'_>,
        text: &str,
        parameters: &[Value],
        cancel: CancellationToken,
    ) -> Result<SelectResult, SqlError> {
        let limit = self.limit(session);
        let turn = self.turn(limit).await?;
        let (batches, rows) = mpsc::channel(BATCHES);
        let watch = Arc::new(Watch::new(limit, cancel, Some(batches.downgrade()), self.pool()));
        let statement = self.bound(session, text, Some(parameters), &watch)?;
        let columns = statement.columns();
        let assigned = statement.assigned.clone();
        let wanted = if statement.is_limited { u64::MAX } else { session.variables.select_limit() };
        let limits = RowLimits { most: self.sql.config().sql_rows_max, wanted };
        let (first, answer) = oneshot::channel();
        let context = Arc::clone(&statement.context);
        let engine = Arc::clone(self);
        let handle = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let mut first = Some(first);
            let done = handle.block_on(engine.run(&statement, limits, &watch, &mut first, &batches));
            match (done, first.take()) {
                (Ok(()), _) => {}
                // A client that has gone needs no answer.
                (Err(failure), Some(first)) => drop(first.send(Err(failure))),
                (Err(failure), None) => drop(batches.blocking_send(Err(failure))),
            }
        });
        let answer = answer
            .await
            .map_err(|_| SqlError::new(SqlErrorKind::Other, "the statement failed; the log has the place"))??;
        let rows = match answer {
            First::All(rows) => Rows::Ready(rows),
            First::Begun => Rows::Stream(rows),
        };
        // Tables give theirs when the statement is planned, before its first row.
        let warnings = context.warnings();
        let count = u16::try_from(warnings.len()).unwrap_or(u16::MAX);
        Ok(SelectResult { answer: StatementResult::Rows { columns, rows, warnings: count }, warnings, assigned })
    }

    async fn run(
        &self,
        statement: &Statement,
        limits: RowLimits,
        watch: &Watch,
        first: &mut Option<oneshot::Sender<Result<First, SqlError>>>,
        batches: &run::Batches,
    ) -> Result<(), SqlError> {
        let failed = |error: datafusion::error::DataFusionError| run::from_datafusion(&error, watch);
        let plan = self.state.create_physical_plan(&statement.plan).await.map_err(failed)?;
        if statement.explains {
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            let rows = shown.lines().map(|line| vec![Value::from(line)]).collect();
            first.take().map(|first| first.send(Ok(First::All(rows))));
            return Ok(());
        }
        let kinds: Vec<SqlType> = statement.outputs.iter().map(|output| output.kind).collect();
        let stream = execute_stream(plan, self.state.task_ctx()).map_err(failed)?;
        run::send(stream, &kinds, limits, watch, first, batches).await
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub(super) async fn value(
        self: &Arc<Engine>,
        session: &SessionInfo<'_>,
        expression: &str,
        cancel: CancellationToken,
    ) -> Result<Value, SqlError> {
        let result = self.select(session, &format!("SELECT {expression} LIMIT 1"), &[], cancel).await?;
        if let Some(name) = result.assigned.first() {
            let text = format!("@{name} := … in the value of another variable is not supported");
            return Err(SqlError::new(SqlErrorKind::NotSupported, text));
        }
        let StatementResult::Rows { rows: Rows::Ready(rows), .. } = result.answer else { return Ok(Value::Null) };
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).unwrap_or(Value::Null))
    }

    /// The facts about a statement before it runs.
    ///
    /// # Errors
    /// Errors in the statement.
    pub(super) async fn prepare(
        self: &Arc<Engine>,
        session: &SessionInfo<'_>,
        text: &str,
        cancel: CancellationToken,
    ) -> Result<Prepared, SqlError> {
        let limit = self.limit(session);
        let _turn = self.turn(limit).await?;
        let watch = Arc::new(Watch::new(limit, cancel, None, self.pool()));
        let statement = self.bound(session, text, None, &watch)?;
        Ok(Prepared { parameters: statement.parameters, columns: statement.columns() })
    }

    fn bound(
        &self,
        session: &SessionInfo<'_>,
        text: &str,
        parameters: Option<&[Value]>,
        watch: &Arc<Watch>,
    ) -> Result<Statement, SqlError> {
        let context = Arc::new(StatementContext::new(Some(&self.sql), watch));
        let statement = bound(session, text, parameters, watch, context)?;
        match parameters {
            Some(values) if values.len() != statement.parameters => {
                let text = format!(
                    "the statement has {} parameters, and {} values were given",
                    statement.parameters,
                    values.len()
                );
                Err(SqlError::new(SqlErrorKind::WrongArguments, text))
            }
            _ => Ok(statement),
        }
    }

    /// The memory of all statements.
    fn pool(&self) -> &Arc<dyn MemoryPool> {
        &self.state.runtime_env().memory_pool
    }

    fn limit(&self, session: &SessionInfo<'_>) -> Duration {
        let most = Duration::from_secs(self.sql.config().sql_seconds_max);
        match session.variables.execution_time() {
            0 => most,
            own => Duration::from_millis(own).min(most),
        }
    }

    /// Waits until a statement may run.
    async fn turn(&self, limit: Duration) -> Result<OwnedSemaphorePermit, SqlError> {
        let turn = tokio::time::timeout(limit, Arc::clone(&self.turns).acquire_owned()).await;
        turn.map_err(|_| busy())?.map_err(|_| busy())
    }
}

/// What plans statements and gives them memory.
fn planner() -> datafusion::common::Result<SessionState> {
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(MEMORY_MAX)))
        .with_disk_manager_builder(disk)
        .build_arc()?;
    let config = SessionConfig::new().with_target_partitions(1).with_batch_size(OPERATOR_ROWS);
    let mut rules = PhysicalOptimizer::new().rules;
    rules.insert(0, Arc::new(sequence::UnionsInSequence));
    rules.push(Arc::new(large_rows::LargeRowsInPieces));
    rules.push(Arc::new(joins::JoinsGiveWay));
    let state = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime);
    Ok(state.with_physical_optimizer_rules(rules).build())
}

fn bound(
    session: &SessionInfo<'_>,
    text: &str,
    parameters: Option<&[Value]>,
    watch: &Arc<Watch>,
    context: Arc<StatementContext>,
) -> Result<Statement, SqlError> {
    let parsed = parse::parse(text, session.variables.pipes_concat())?;
    let names = names(text, &parsed.words);
    let mut binder =
        Binder::new(session, Arc::clone(&context), parameters.unwrap_or_default(), Arc::clone(watch), names);
    let planned = binder.statement(&parsed.query)?;
    Ok(Statement {
        plan: planned.plan,
        outputs: planned.columns,
        parameters: binder.met,
        explains: parsed.explains,
        is_limited: binder.is_limited,
        assigned: if parsed.explains { Vec::new() } else { binder.assigned_names() },
        context,
    })
}

fn busy() -> SqlError {
    SqlError::new(SqlErrorKind::Limit, format!("{RUNNING_MAX} statements are running; try again in a moment"))
}

/// A column of a result.
fn column(output: &Output) -> Column {
    let column_type = match output.kind {
        SqlType::Null | SqlType::Text { .. } => ColumnType::Text,
        SqlType::Logical | SqlType::Integer => ColumnType::Integer,
        SqlType::Unsigned => ColumnType::Unsigned,
        SqlType::Decimal { scale, .. } => ColumnType::Decimal(scale),
        SqlType::Double { decimals } => match decimals {
            types::FLOATING => ColumnType::Real,
            decimals => ColumnType::Fixed(decimals),
        },
        SqlType::Bytes => ColumnType::Blob,
        SqlType::Date => ColumnType::Date,
        SqlType::DateTime { digits } => ColumnType::DateTime(digits),
        SqlType::Time { digits } => ColumnType::Time(digits),
    };
    let name: String = output.name.chars().take(NAME_MAX).collect();
    Column { table: output.table.clone(), ..Column::new(name, column_type) }
}

/// Reads a statement and makes its plan, for the fuzz target.
pub(super) fn read(text: &str) {
    // Refused or not, it has been read.
    drop(read_as(text, "procprof"));
}

/// The plan of a statement that won't run.
fn read_as(text: &str, database: &str) -> Result<Statement, SqlError> {
    let variables = Variables::default();
    let session =
        SessionInfo { user: String::new(), connection: 1, database, variables: &variables, now: Timestamp::UNIX_EPOCH };
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(MEMORY_MAX));
    let watch = Arc::new(Watch::new(Duration::from_secs(60), CancellationToken::new(), None, &pool));
    let context = Arc::new(StatementContext::new(None, &watch));
    bound(&session, text, None, &watch, context)
}

/// The columns of a table, as `COM_FIELD_LIST` gives them.
///
/// # Errors
/// [`SqlErrorKind::UnknownTable`].
pub(super) fn columns(table: &str) -> Result<Vec<Column>, SqlError> {
    let table = Table::named(table)?;
    let column = |column: &TableColumn| Column {
        table: table.name.to_owned(),
        ..Column::new(column.name, column.declared.column_type())
    };
    Ok(table.columns.iter().map(column).collect())
}

/// Words that end the list of a `SELECT`.
const ENDS: &[&str] = &["from", "where", "group", "having", "order", "limit", "union", "except", "intersect", "window"];

/// The texts of the columns of a statement's first `SELECT` outside parentheses, by which MySQL names them.
fn names(text: &str, words: &[Token]) -> Vec<String> {
    let named = |item: Range<usize>| match words.get(item) {
        Some([Token { kind: TokenKind::Text(text), .. }]) => text.clone(),
        Some([first, .., last]) => text[first.span.start..last.span.end].to_owned(),
        Some([only]) => text[only.span.clone()].to_owned(),
        _ => String::new(),
    };
    items(words).into_iter().map(named).collect()
}

fn items(words: &[Token]) -> Vec<Range<usize>> {
    let mut depth = 0_usize;
    let mut items = Vec::new();
    let mut start = None;
    for at in 0..=words.len() {
        let word = words.get(at);
        match word.map(|word| &word.kind) {
            Some(TokenKind::Symbol('(')) => depth += 1,
            Some(TokenKind::Symbol(')')) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 0 {
            continue;
        }
        let Some(word) = word.filter(|word| !word.is_symbol(';')) else {
            items.extend(start.map(|start| start..at));
            break;
        };
        match start {
            None if word.is("select") => start = Some(at + 1),
            None => {}
            Some(first)
                if first == at
                    && ["distinct", "all", "sql_no_cache", "sql_calc_found_rows"].iter().any(|own| word.is(own)) =>
            {
                start = Some(at + 1);
            }
            Some(first) if ENDS.iter().any(|end| word.is(end)) => {
                items.push(first..at);
                break;
            }
            Some(first) if word.is_symbol(',') => {
                items.push(first..at);
                start = Some(at + 1);
            }
            Some(_) => {}
        }
    }
    items
}
