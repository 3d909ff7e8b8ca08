//! A statement's tree as a plan of DataFusion: names become columns, and each expression gets its type by MySQL's rules.
//!
//! Columns of plans have names that stand once in a statement (`t3.id`, `c17`), so that DataFusion never has to guess.
//!
//! | file | what |
//! |---|---|
//! | `query` | queries: `WITH`, set operations, order and limit |
//! | `select` | one `SELECT`: groups, conditions, windows, distinct rows |
//! | `from` | tables, derived tables, table functions, joins |
//! | `expression`, `subqueries` | operators and constants; subqueries |
//! | `compare` | comparisons and conversions |
//! | `calls` | functions; `aggregate_calls` those of groups and windows |
//! | `session` | what the session knows: variables, the user, the time |
//! | `row_variables` | variables that the columns of a row assign |

mod aggregate_calls;
mod calls;
mod compare;
mod expression;
mod from;
mod query;
mod row_variables;
mod select;
mod session;
mod subqueries;

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};

use super::call::{Call, is_of_dates};
use super::computed::StatementContext;
use super::run::{Watch, from_datafusion};
use super::types::SqlType;
use super::value::Val;
use crate::engine::SessionInfo;
use crate::mysql::{SqlError, SqlErrorKind, Value};
use row_variables::{Assignments, RowVariables};

/// Function calls in the text of a statement at most.
const CALLS_MAX: usize = 500;

/// An expression with its type.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) expr: Expr,
    pub(super) kind: SqlType,
    /// Its value if it is a constant.
    pub(super) constant: Option<Val<'static>>,
    /// Whether it was written as digits of base 16 or 2: bytes, and a number where one is wanted.
    pub(super) is_hybrid: bool,
}

impl Bound {
    fn constant(value: Val<'static>, kind: SqlType) -> Bound {
        Bound { expr: lit(value.scalar(kind)), kind, constant: Some(value), is_hybrid: false }
    }

    /// The same; bytes that were written as a number are that number.
    fn numeric(&self) -> Bound {
        match &self.constant {
            Some(Val::Bytes(bytes)) if self.is_hybrid => {
                let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
                Bound::constant(Val::Unsigned(number), SqlType::Unsigned)
            }
            _ => self.clone(),
        }
    }

    fn null() -> Bound {
        Bound::constant(Val::Null, SqlType::Null)
    }

    fn of(expr: Expr, kind: SqlType) -> Bound {
        Bound { expr, kind, constant: None, is_hybrid: false }
    }
}

/// A column that names may mean.
#[derive(Clone, Debug)]
struct ScopeColumn {
    /// Its table as the statement calls it; empty for none.
    table: String,
    name: String,
    kind: SqlType,
    column: Column,
    /// Whether only a name with a table means it: the second of a `USING`.
    is_second: bool,
}

/// What a name may mean in a part of a statement.
#[derive(Clone, Debug, Default)]
struct Scope {
    columns: Vec<ScopeColumn>,
}

/// A part of `FROM`.
struct Relation {
    plan: LogicalPlan,
    scope: Scope,
}

/// A column that a query gives.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) name: String,
    pub(super) table: String,
    pub(super) kind: SqlType,
    pub(super) column: Column,
}

/// A query as a plan.
pub(super) struct Planned {
    pub(super) plan: LogicalPlan,
    pub(super) columns: Vec<Output>,
}

/// Where an expression stands: what its names mean, and what it may contain.
#[derive(Clone, Copy)]
struct Place<'a> {
    scope: &'a Scope,
    /// Names of the columns of the `SELECT`, which `GROUP BY`, `HAVING` and `ORDER BY` may use.
    aliases: &'a [(String, Bound)],
    /// Whether a name means a column of the `SELECT` first.
    aliases_first: bool,
    outer: Option<&'a Place<'a>>,
    aggregates: bool,
    windows: bool,
    assignments: Assignments,
    /// Named windows.
    named: &'a [sqlparser::ast::NamedWindowDefinition],
}

/// A common table expression.
#[derive(Clone)]
struct Common {
    name: String,
    plan: LogicalPlan,
    columns: Vec<Output>,
    tables: usize,
}

/// Binds one statement.
pub(super) struct Binder<'a> {
    pub(super) session: &'a SessionInfo<'a>,
    pub(super) context: Arc<StatementContext>,
    pub(super) parameters: &'a [Value],
    pub(super) watch: Arc<Watch>,
    /// Names of the first `SELECT`'s columns as written.
    pub(super) names: Vec<String>,
    commons: Vec<Common>,
    /// The last number given to a table or column.
    last: usize,
    calls: usize,
    /// Parameters met.
    pub(super) met: usize,
    /// Whether the statement limits its rows.
    pub(super) is_limited: bool,
    /// Levels of queries, of set operations and of expressions.
    depth: usize,
    sets: usize,
    level: usize,
    /// Parts of the expressions so far.
    parts: usize,
    /// Tables that its plan has, a common one as often as it is used.
    tables: usize,
    /// Variables that the statement assigns and reads.
    variables: RowVariables,
}

/// Tables of a plan at most: each level of names may double them.
const TABLES_MAX: usize = 500;
/// Stack that a level of an expression or query may need, and what is added when less is left, in bytes: DataFusion's
/// copies, comparisons and drops of an expression recurse as deep as it is.
const STACK_LEFT: usize = 2 << 20;
const STACK_MORE: usize = 8 << 20;
/// Levels of queries in each other at most.
const QUERIES_MAX: usize = 40;
/// Levels of set operations at most; a row of one of them, such as many `UNION ALL`, is one level.
const SETS_MAX: usize = 40;

impl<'a> Binder<'a> {
    pub(super) fn new(
        session: &'a SessionInfo<'a>,
        context: Arc<StatementContext>,
        parameters: &'a [Value],
        watch: Arc<Watch>,
        names: Vec<String>,
    ) -> Binder<'a> {
        Binder {
            session,
            context,
            parameters,
            watch,
            names,
            commons: Vec::new(),
            last: 0,
            calls: 0,
            met: 0,
            is_limited: false,
            depth: 0,
            sets: 0,
            level: 0,
            parts: 0,
            tables: 0,
            variables: RowVariables::default(),
        }
    }

    /// Works with as much stack as a statement that nests within its limits needs.
    fn deeper<T>(work: impl FnOnce() -> T) -> T {
        stacker::maybe_grow(STACK_LEFT, STACK_MORE, work)
    }

    /// Counts tables of the plan.
    fn count_tables(&mut self, count: usize) -> Result<(), SqlError> {
        self.tables = self.tables.saturating_add(count);
        if self.tables > TABLES_MAX {
            let text =
                format!("the statement reads more than {TABLES_MAX} tables, common ones as often as they are used");
            return Err(SqlError::new(SqlErrorKind::Limit, text));
        }
        Ok(())
    }

    /// A name that nothing else in the statement has.
    fn fresh(&mut self, prefix: &str) -> String {
        self.last += 1;
        format!("{prefix}{}", self.last)
    }

    /// An error of DataFusion's while a plan is made.
    fn failed(&self, error: &DataFusionError) -> SqlError {
        from_datafusion(error, &self.watch)
    }

    /// A call of a function of one row; its value if all arguments are constants.
    fn call(
        &self,
        name: &'static str,
        kernel: super::call::Kernel,
        arguments: &[Bound],
        returns: SqlType,
        word: &'static str,
    ) -> Result<Bound, SqlError> {
        if is_of_dates(name, returns, word)
            && arguments.iter().any(|argument| matches!(argument.kind, SqlType::Time { .. }))
        {
            return Err(unsupported(format!("{name} of a time without a date")));
        }
        let types = arguments.iter().map(|argument| argument.kind).collect();
        let call = Call::new(name, kernel, types, returns, word, &self.watch);
        let constants: Option<Vec<Val<'static>>> = arguments.iter().map(|argument| argument.constant.clone()).collect();
        if let Some(values) = constants {
            let value = call.value(&values)?;
            if value.weight() <= super::call::LENGTH_MAX {
                self.watch.memory.keep_constant(value.weight())?;
                return Ok(Bound::constant(as_kept(value, returns)?, returns));
            }
        }
        Ok(Bound::of(call.on(arguments.iter().map(|argument| argument.expr.clone()).collect()), returns))
    }
}

/// A value as the type keeps it, so that a constant is what a row of it would be.
fn as_kept(value: Val<'static>, kind: SqlType) -> Result<Val<'static>, SqlError> {
    if let (SqlType::Decimal { kept, .. }, Some(decimal)) = (kind, value.decimal()) {
        let too_long =
            || SqlError::new(SqlErrorKind::NotSupported, "decimals of more than 38 digits are not supported");
        return decimal.rescaled(kept).map(Val::Decimal).ok_or_else(too_long);
    }
    Ok(match (kind, value) {
        (_, Val::Null) => Val::Null,
        (SqlType::Logical, value) => Val::Integer(value.truth().unwrap_or(false).into()),
        (SqlType::Integer, value) => Val::Integer(value.integer()),
        (SqlType::Unsigned, value) => Val::Unsigned(value.unsigned()),
        (SqlType::Double { .. }, value) => Val::Double(value.real()),
        (SqlType::Text { .. }, value) => value.text(kind).map_or(Val::Null, |text| text.into_owned().into()),
        (_, value) => value,
    })
}

/// What isn't supported, by its name.
fn unsupported(what: impl std::fmt::Display) -> SqlError {
    let what: String = what.to_string().chars().take(120).collect();
    SqlError::new(SqlErrorKind::NotSupported, format!("{what} is not supported"))
}

fn wrong(text: impl Into<String>) -> SqlError {
    SqlError::new(SqlErrorKind::WrongArguments, text)
}

fn is_same(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right) || left.to_lowercase() == right.to_lowercase()
}
