//! Queries: `WITH`, set operations, order and limit.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, Union};
use sqlparser::ast::{
    Cte, LimitClause, OrderBy, OrderByKind, Query, SetExpr, SetOperator, SetQuantifier, Value as AstValue, With,
};

use super::{
    Binder, Bound, Common, Output, Place, Planned, QUERIES_MAX, SETS_MAX, Scope, ScopeColumn, is_same, unsupported,
    wrong,
};
use crate::engine::types::SqlType;
use crate::mysql::{SqlError, SqlErrorKind};

impl Binder<'_> {
    /// A query within the rows of outer ones.
    pub(in super::super) fn statement(&mut self, query: &Query) -> Result<Planned, SqlError> {
        self.is_limited = query.limit_clause.is_some();
        self.query(query, None)
    }

    pub(super) fn query(&mut self, query: &Query, outer: Option<&Place<'_>>) -> Result<Planned, SqlError> {
        self.depth += 1;
        if self.depth > QUERIES_MAX {
            let text = format!("queries nest more than {QUERIES_MAX} levels; that is not taken");
            return Err(SqlError::new(SqlErrorKind::Limit, text));
        }
        let known = self.commons.len();
        let planned = Self::deeper(|| self.bare_query(query, outer));
        self.commons.truncate(known);
        self.depth -= 1;
        planned
    }

    fn bare_query(&mut self, query: &Query, outer: Option<&Place<'_>>) -> Result<Planned, SqlError> {
        if query.fetch.is_some() {
            return Err(unsupported("FETCH"));
        }
        if query.for_clause.is_some() || !query.pipe_operators.is_empty() || query.settings.is_some() {
            return Err(unsupported("this clause of SELECT"));
        }
        if let Some(with) = &query.with {
            self.with(with, outer)?;
        }
        let mut planned = match &*query.body {
            SetExpr::Select(select) => self.select(select, query.order_by.as_ref(), outer, self.depth == 1)?,
            body => {
                let planned = self.body(body, outer)?;
                self.sorted(planned, query.order_by.as_ref())?
            }
        };
        if let Some(limit) = &query.limit_clause {
            planned.plan = self.limited(planned.plan, limit)?;
        }
        Ok(planned)
    }

    fn with(&mut self, with: &With, outer: Option<&Place<'_>>) -> Result<(), SqlError> {
        for common in &with.cte_tables {
            let name = common.alias.name.value.clone();
            let before = self.tables;
            let planned = match with.recursive && common.query.to_string().to_lowercase().contains(&name.to_lowercase())
            {
                true => self.recursive(common)?,
                false => self.query(&common.query, outer)?,
            };
            let columns = renamed(
                planned.columns,
                &common.alias.columns.iter().map(|column| column.name.value.clone()).collect::<Vec<_>>(),
            )?;
            let tables = (self.tables - before).max(1);
            self.commons.push(Common { name, plan: planned.plan, columns, tables });
        }
        Ok(())
    }

    fn recursive(&mut self, common: &Cte) -> Result<Planned, SqlError> {
        let SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } = &*common.query.body else {
            return self.query(&common.query, None);
        };
        if common.query.order_by.is_some() || common.query.limit_clause.is_some() {
            return Err(unsupported("ORDER BY or LIMIT in a recursive query"));
        }
        let first = self.body(left, None)?;
        let names: Vec<String> = common.alias.columns.iter().map(|column| column.name.value.clone()).collect();
        let columns = renamed(first.columns, &names)?;
        let table = self.fresh("r");
        let fields: Vec<Field> =
            columns.iter().map(|column| Field::new(&column.column.name, column.kind.arrow(), true)).collect();
        let work = CteWorkTable::new(&table, Arc::new(Schema::new(fields)));
        let scan = LogicalPlanBuilder::scan(table.clone(), provider_as_source(Arc::new(work)), None)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|error| self.failed(&error))?;
        let own: Vec<Output> = columns
            .iter()
            .map(|column| Output { column: Column::new(Some(table.clone()), &column.column.name), ..column.clone() })
            .collect();
        self.commons.push(Common { name: common.alias.name.value.clone(), plan: scan, columns: own, tables: 1 });
        let second = self.body(right, None);
        self.commons.pop();
        let second = second?;
        if second.columns.len() != columns.len() {
            return Err(wrong("The used SELECT statements have a different number of columns"));
        }
        // The first part decides the types.
        let mut casts = Vec::new();
        for (own, first) in second.columns.iter().zip(&columns) {
            let bound = Bound::of(Expr::Column(own.column.clone()), own.kind);
            casts.push(self.cast(&bound, first.kind)?.expr.alias(&first.column.name));
        }
        let has_keys = columns.iter().any(|column| column.kind.has_key());
        let distinct = !matches!(set_quantifier, SetQuantifier::All);
        if distinct && has_keys {
            return Err(unsupported("UNION DISTINCT of texts in a recursive query"));
        }
        let recursive = LogicalPlanBuilder::new(second.plan).project(casts).and_then(LogicalPlanBuilder::build);
        let recursive = recursive.map_err(|error| self.failed(&error))?;
        let plan = LogicalPlanBuilder::new(first.plan)
            .to_recursive_query(table, recursive, distinct)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|error| self.failed(&error))?;
        let made: Vec<Column> = plan.schema().columns();
        let columns = columns.into_iter().zip(made).map(|(output, column)| Output { column, ..output }).collect();
        Ok(Planned { plan, columns })
    }

    fn body(&mut self, body: &SetExpr, outer: Option<&Place<'_>>) -> Result<Planned, SqlError> {
        self.sets += 1;
        if self.sets > SETS_MAX {
            let text = format!("set operations nest more than {SETS_MAX} levels; that is not taken");
            return Err(SqlError::new(SqlErrorKind::Limit, text));
        }
        let planned = Self::deeper(|| self.part_of_body(body, outer));
        self.sets -= 1;
        planned
    }

    fn part_of_body(&mut self, body: &SetExpr, outer: Option<&Place<'_>>) -> Result<Planned, SqlError> {
        match body {
            SetExpr::Select(select) => self.select(select, None, outer, false),
            SetExpr::Query(query) => self.query(query, outer),
            SetExpr::SetOperation { op, set_quantifier, .. } => {
                let mut sides = Vec::new();
                for side in operands(body) {
                    sides.push(self.body(side, outer)?);
                }
                self.combined(sides, *op, *set_quantifier)
            }
            SetExpr::Values(values) => {
                let mut rows = Vec::new();
                for row in &values.rows {
                    let scope = Scope::default();
                    let place = Place::of(&scope, outer);
                    rows.push(
                        row.content
                            .iter()
                            .map(|value| self.expression(value, &place))
                            .collect::<Result<Vec<_>, _>>()?,
                    );
                }
                self.values(rows)
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(SqlError::new(SqlErrorKind::NotSupported, "the tables are read-only"))
            }
            other => Err(unsupported(other)),
        }
    }

    fn values(&mut self, rows: Vec<Vec<Bound>>) -> Result<Planned, SqlError> {
        let width = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|row| row.len() != width) {
            return Err(wrong("the rows of VALUES have different numbers of values"));
        }
        let mut kinds = Vec::new();
        for column in 0..width {
            let own: Vec<_> = rows.iter().map(|row| row[column].kind).collect();
            kinds.push(super::super::types::unified(&own)?);
        }
        let mut exprs = Vec::new();
        for row in &rows {
            let cast = row.iter().zip(&kinds).map(|(value, kind)| self.cast(value, *kind).map(|bound| bound.expr));
            exprs.push(cast.collect::<Result<Vec<_>, _>>()?);
        }
        let plan = LogicalPlanBuilder::values(exprs).and_then(LogicalPlanBuilder::build);
        let plan = plan.map_err(|error| self.failed(&error))?;
        let columns: Vec<Output> = plan
            .schema()
            .columns()
            .into_iter()
            .zip(kinds)
            .enumerate()
            .map(|(index, (column, kind))| Output {
                name: format!("column_{index}"),
                table: String::new(),
                kind,
                column,
            })
            .collect();
        self.named_anew(Planned { plan, columns })
    }

    /// Gives the columns of a plan names of their own.
    fn named_anew(&mut self, planned: Planned) -> Result<Planned, SqlError> {
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        for output in planned.columns {
            let name = self.fresh("c");
            exprs.push(Expr::Column(output.column.clone()).alias(&name));
            columns.push(Output { column: Column::from_name(name), ..output });
        }
        let plan = LogicalPlanBuilder::new(planned.plan).project(exprs).and_then(LogicalPlanBuilder::build);
        Ok(Planned { plan: plan.map_err(|error| self.failed(&error))?, columns })
    }

    fn combined(
        &mut self,
        combined: Vec<Planned>,
        operator: SetOperator,
        quantifier: SetQuantifier,
    ) -> Result<Planned, SqlError> {
        let outputs = combined.first().map_or_else(Vec::new, |first| first.columns.clone());
        if combined.iter().any(|side| side.columns.len() != outputs.len()) {
            let text = "The used SELECT statements have a different number of columns";
            return Err(SqlError::new(SqlErrorKind::WrongColumnCount, text));
        }
        let mut kinds: Vec<SqlType> = outputs.iter().map(|output| output.kind).collect();
        for side in combined.iter().skip(1) {
            for (kind, column) in kinds.iter_mut().zip(&side.columns) {
                *kind = as_stored(super::super::types::unified(&[*kind, column.kind])?);
            }
        }
        let names: Vec<String> = outputs.iter().map(|_| self.fresh("c")).collect();
        let mut sides = Vec::new();
        for side in combined {
            let mut casts = Vec::new();
            for ((own, kind), name) in side.columns.iter().zip(&kinds).zip(&names) {
                let bound = Bound::of(Expr::Column(own.column.clone()), own.kind);
                casts.push(self.cast(&bound, *kind)?.expr.alias(name));
            }
            let plan = LogicalPlanBuilder::new(side.plan).project(casts).and_then(LogicalPlanBuilder::build);
            sides.push(plan.map_err(|error| self.failed(&error))?);
        }
        let is_all = matches!(quantifier, SetQuantifier::All);
        let has_keys = kinds.iter().any(|kind| kind.has_key());
        let plan = match (operator, <[LogicalPlan; 2]>::try_from(sides)) {
            (SetOperator::Union, Ok(sides)) => union(sides.into()),
            (SetOperator::Union, Err(sides)) => union(sides),
            _ if has_keys => return Err(unsupported("INTERSECT or EXCEPT of texts in a case-insensitive collation")),
            (SetOperator::Intersect, Ok([first, second])) => LogicalPlanBuilder::intersect(first, second, is_all),
            (SetOperator::Except, Ok([first, second])) => LogicalPlanBuilder::except(first, second, is_all),
            (SetOperator::Minus, _) => return Err(unsupported("MINUS")),
            (_, Err(_)) => return Err(wrong("a set operation without two sides")),
        };
        let plan = plan.map_err(|error| self.failed(&error))?;
        let made = plan.schema().columns();
        let columns = outputs
            .into_iter()
            .zip(kinds)
            .zip(made)
            .map(|((output, kind), column)| Output { kind, column, ..output })
            .collect();
        let planned = self.named_anew(Planned { plan, columns })?;
        match operator {
            SetOperator::Union if !is_all => self.distinct(planned),
            _ => Ok(planned),
        }
    }

    /// Each row once.
    pub(super) fn distinct(&mut self, planned: Planned) -> Result<Planned, SqlError> {
        if !planned.columns.iter().any(|output| output.kind.has_key()) {
            let plan = LogicalPlanBuilder::new(planned.plan).distinct().and_then(LogicalPlanBuilder::build);
            return Ok(Planned { plan: plan.map_err(|error| self.failed(&error))?, columns: planned.columns });
        }
        // Rows with the same keys are one; it shows the texts of any of them.
        let (mut groups, mut firsts, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for output in &planned.columns {
            let bound = Bound::of(Expr::Column(output.column.clone()), output.kind);
            if output.kind.has_key() {
                let (key, first) = (self.fresh("k"), self.fresh("f"));
                groups.push(self.key(&bound)?.expr.alias(key));
                firsts.push(self.first(&bound).alias(&first));
                shown.push(Expr::Column(Column::from_name(first)));
            } else {
                groups.push(bound.expr.clone());
                shown.push(bound.expr);
            }
        }
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        for (output, expr) in planned.columns.into_iter().zip(shown) {
            let name = self.fresh("c");
            exprs.push(expr.alias(&name));
            columns.push(Output { column: Column::from_name(name), ..output });
        }
        let plan = LogicalPlanBuilder::new(planned.plan)
            .aggregate(groups, firsts)
            .and_then(|builder| builder.project(exprs))
            .and_then(LogicalPlanBuilder::build);
        Ok(Planned { plan: plan.map_err(|error| self.failed(&error))?, columns })
    }

    /// The rows of a set operation in their order, by its columns.
    fn sorted(&mut self, planned: Planned, order: Option<&OrderBy>) -> Result<Planned, SqlError> {
        let Some(order) = order else { return Ok(planned) };
        let scope = Scope { columns: planned.columns.iter().map(column_of).collect() };
        let place = Place::of(&scope, None);
        let mut sorts = Vec::new();
        for item in expressions(order)? {
            let bound = match ordinal(&item.expr) {
                Some(number) => {
                    let output = number
                        .checked_sub(1)
                        .and_then(|at| planned.columns.get(at))
                        .ok_or_else(|| unknown_ordinal(number))?;
                    Bound::of(Expr::Column(output.column.clone()), output.kind)
                }
                None => self.expression(&item.expr, &place)?,
            };
            sorts.push(self.sort(&bound, item.options.asc.unwrap_or(true))?);
        }
        let plan = LogicalPlanBuilder::new(planned.plan).sort(sorts).and_then(LogicalPlanBuilder::build);
        Ok(Planned { plan: plan.map_err(|error| self.failed(&error))?, columns: planned.columns })
    }

    /// A sort by an expression, NULL before all others.
    pub(super) fn sort(&mut self, bound: &Bound, ascending: bool) -> Result<SortExpr, SqlError> {
        Ok(SortExpr::new(self.key(bound)?.expr, ascending, ascending))
    }

    fn limited(&mut self, plan: LogicalPlan, limit: &LimitClause) -> Result<LogicalPlan, SqlError> {
        let (limit, offset) = match limit {
            LimitClause::LimitOffset { limit, offset, limit_by } if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            LimitClause::OffsetCommaLimit { offset, limit } => (Some(limit), Some(offset)),
            LimitClause::LimitOffset { .. } => return Err(unsupported("LIMIT BY")),
        };
        let scope = Scope::default();
        let place = Place::of(&scope, None);
        let mut number = |expr: Option<&sqlparser::ast::Expr>| match expr {
            None => Ok(None),
            Some(expr) => {
                let bound = self.expression(expr, &place)?;
                let value = bound.constant.ok_or_else(|| wrong("LIMIT: a number is expected"))?;
                usize::try_from(value.integer())
                    .map(Some)
                    .map_err(|_| wrong("LIMIT: a number of 0 or more is expected"))
            }
        };
        // Parameters count in the order of the text.
        let is_offset_first = matches!((limit, offset), (Some(limit), Some(offset)) if offset_first(limit, offset));
        let (limit, offset) = if is_offset_first {
            let offset = number(offset)?;
            (number(limit)?, offset)
        } else {
            (number(limit)?, number(offset)?)
        };
        LogicalPlanBuilder::new(plan)
            .limit(offset.unwrap_or(0), limit)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|error| self.failed(&error))
    }
}

fn offset_first(limit: &sqlparser::ast::Expr, offset: &sqlparser::ast::Expr) -> bool {
    use sqlparser::ast::Spanned;
    offset.span().start < limit.span().start
}

/// Columns under other names.
pub(super) fn renamed(mut columns: Vec<Output>, names: &[String]) -> Result<Vec<Output>, SqlError> {
    if !names.is_empty() && names.len() != columns.len() {
        let text = format!("{} names are given to {} columns", names.len(), columns.len());
        return Err(wrong(text));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name.clone_from(name);
    }
    for (index, column) in columns.iter().enumerate() {
        if columns[..index].iter().any(|other| is_same(&other.name, &column.name)) {
            let text = format!("Duplicate column name '{}'", column.name);
            return Err(SqlError::new(SqlErrorKind::DuplicateColumn, text));
        }
    }
    Ok(columns)
}

fn column_of(output: &Output) -> ScopeColumn {
    ScopeColumn {
        table: String::new(),
        name: output.name.clone(),
        kind: output.kind,
        column: output.column.clone(),
        is_second: false,
    }
}

/// A type as a table in memory keeps it: decimals as they are shown.
pub(super) fn as_stored(kind: super::super::types::SqlType) -> super::super::types::SqlType {
    match kind {
        super::super::types::SqlType::Decimal { scale, .. } => super::super::types::SqlType::decimal(scale),
        other => other,
    }
}

/// What an `ORDER BY` lists.
pub(super) fn expressions(order: &OrderBy) -> Result<&[sqlparser::ast::OrderByExpr], SqlError> {
    match &order.kind {
        OrderByKind::Expressions(expressions) => {
            if expressions.iter().any(|item| item.options.nulls_first.is_some() || item.with_fill.is_some()) {
                return Err(unsupported("NULLS FIRST and NULLS LAST"));
            }
            Ok(expressions)
        }
        OrderByKind::All(_) => Err(unsupported("ORDER BY ALL")),
    }
}

/// The number of a column, if an item of `ORDER BY` or `GROUP BY` is one.
pub(super) fn ordinal(expr: &sqlparser::ast::Expr) -> Option<usize> {
    match expr {
        sqlparser::ast::Expr::Value(value) => match &value.value {
            AstValue::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn unknown_ordinal(number: usize) -> SqlError {
    SqlError::new(SqlErrorKind::UnknownColumn, format!("no such column: {number} in 'order clause'"))
}

/// The operands of a set operation: the sides of a row of `UNION ALL`, or of `UNION DISTINCT`, or the two of another.
fn operands(body: &SetExpr) -> Vec<&SetExpr> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return vec![body] };
    let (mut sides, mut rest) = (vec![&**right], &**left);
    while *op == SetOperator::Union
        && let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier: own, left, right } = rest
        && matches!(own, SetQuantifier::All) == matches!(set_quantifier, SetQuantifier::All)
    {
        sides.push(&**right);
        rest = &**left;
    }
    sides.push(rest);
    sides.reverse();
    sides
}

fn union(sides: Vec<LogicalPlan>) -> datafusion::common::Result<LogicalPlan> {
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(sides.into_iter().map(Arc::new).collect())?))
}
