//! `FROM`: tables, derived tables, table functions, joins.

use std::sync::Arc;

use datafusion::common::{Column, JoinType};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, Operator, binary_expr, lit};
use sqlparser::ast::{
    FunctionArg, FunctionArgExpr, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, TableAlias,
    TableFactor, TableWithJoins,
};

use super::query::renamed;
use super::{Binder, Bound, Output, Place, Relation, Scope, ScopeColumn, is_same, unsupported, wrong};
use crate::engine::computed::{self, TableCall};
use crate::engine::tables::{Source, Table};
use crate::mysql::{SqlError, SqlErrorKind};

impl Binder<'_> {
    /// The rows of `FROM`; one row without columns if there is none.
    pub(super) fn from(&mut self, tables: &[TableWithJoins], outer: Option<&Place<'_>>) -> Result<Relation, SqlError> {
        let mut joined: Option<Relation> = None;
        for table in tables {
            joined = Some(match joined {
                None => self.factor(&table.relation, None, outer)?,
                Some(left) => self.beside(left, &table.relation, outer)?,
            });
            for join in &table.joins {
                let Some(left) = joined.take() else { continue };
                joined = Some(self.join(left, join, outer)?);
            }
        }
        match joined {
            Some(relation) => Ok(relation),
            None => Ok(Relation { plan: self.built(Ok(LogicalPlanBuilder::empty(true)))?, scope: Scope::default() }),
        }
    }

    /// Each row of one side with each of the other.
    fn beside(&mut self, left: Relation, right: &TableFactor, outer: Option<&Place<'_>>) -> Result<Relation, SqlError> {
        if is_call(right) {
            return self.factor(right, Some(left), outer);
        }
        let right = self.factor(right, None, outer)?;
        self.crossed(left, right)
    }

    fn crossed(&mut self, left: Relation, right: Relation) -> Result<Relation, SqlError> {
        let plan = self.built(LogicalPlanBuilder::new(left.plan).cross_join(right.plan))?;
        Ok(Relation { plan, scope: together(left.scope, right.scope)? })
    }

    fn join(&mut self, left: Relation, join: &Join, outer: Option<&Place<'_>>) -> Result<Relation, SqlError> {
        use JoinOperator as Op;
        let (kind, constraint) = match &join.join_operator {
            Op::Join(constraint) | Op::Inner(constraint) | Op::StraightJoin(constraint) | Op::CrossJoin(constraint) => {
                (JoinType::Inner, constraint)
            }
            Op::Left(constraint) | Op::LeftOuter(constraint) => (JoinType::Left, constraint),
            Op::Right(constraint) | Op::RightOuter(constraint) => (JoinType::Right, constraint),
            _ => return Err(unsupported(join)),
        };
        if is_call(&join.relation) {
            return match (kind, constraint) {
                (JoinType::Inner, JoinConstraint::None) => self.factor(&join.relation, Some(left), outer),
                (JoinType::Inner, JoinConstraint::On(condition)) => {
                    let relation = self.factor(&join.relation, Some(left), outer)?;
                    let condition = self.condition(condition, &Place::of(&relation.scope, outer))?;
                    let plan = self.built(LogicalPlanBuilder::new(relation.plan).filter(condition))?;
                    Ok(Relation { plan, scope: relation.scope })
                }
                _ => {
                    // One that needs nothing of the left side is a table as any other.
                    let right = self.factor(&join.relation, None, outer)?;
                    self.joined(left, right, kind, constraint, outer)
                }
            };
        }
        let right = self.factor(&join.relation, None, outer)?;
        self.joined(left, right, kind, constraint, outer)
    }

    fn joined(
        &mut self,
        left: Relation,
        right: Relation,
        kind: JoinType,
        constraint: &JoinConstraint,
        outer: Option<&Place<'_>>,
    ) -> Result<Relation, SqlError> {
        let names: Vec<String> = match constraint {
            JoinConstraint::On(condition) => {
                let scope = together(left.scope, right.scope)?;
                let condition = self.condition(condition, &Place::of(&scope, outer))?;
                let builder = LogicalPlanBuilder::new(left.plan).join_on(right.plan, kind, [condition]);
                return Ok(Relation { plan: self.built(builder)?, scope });
            }
            JoinConstraint::None if kind == JoinType::Inner => return self.crossed(left, right),
            JoinConstraint::None => {
                return Err(SqlError::new(SqlErrorKind::Syntax, "syntax error: an outer join needs ON or USING"));
            }
            JoinConstraint::Using(names) => names.iter().map(|name| self.last_part(name)).collect::<Result<_, _>>()?,
            JoinConstraint::Natural => {
                let own = left.scope.columns.iter().filter(|column| !column.is_second);
                own.map(|column| column.name.clone())
                    .filter(|name| right.scope.columns.iter().any(|other| is_same(&other.name, name)))
                    .collect()
            }
        };
        let mut conditions = Vec::new();
        let (mut first, mut second) = (left.scope, right.scope);
        let mut merged = Vec::new();
        for name in names {
            let find = |scope: &Scope| {
                let place = scope.columns.iter().position(|column| !column.is_second && is_same(&column.name, &name));
                place.ok_or_else(|| {
                    SqlError::new(SqlErrorKind::UnknownColumn, format!("no such column: {name} in 'from clause'"))
                })
            };
            let (own, other) = (find(&first)?, find(&second)?);
            let bound = |column: &ScopeColumn| Bound::of(Expr::Column(column.column.clone()), column.kind);
            let (left, right) = self.comparable(&bound(&first.columns[own]), &bound(&second.columns[other]))?;
            conditions.push(binary_expr(left, Operator::Eq, right));
            // The side that has all rows gives the value.
            if kind == JoinType::Right {
                first.columns[own].is_second = true;
                merged.push(second.columns.remove(other));
            } else {
                second.columns[other].is_second = true;
                merged.push(first.columns.remove(own));
            }
        }
        let builder = match conditions.is_empty() {
            true if kind == JoinType::Inner => LogicalPlanBuilder::new(left.plan).cross_join(right.plan),
            true => LogicalPlanBuilder::new(left.plan).join_on(right.plan, kind, [lit(true)]),
            false => LogicalPlanBuilder::new(left.plan).join_on(right.plan, kind, conditions),
        };
        let scope = together(Scope { columns: merged }, together(first, second)?)?;
        Ok(Relation { plan: self.built(builder)?, scope })
    }

    /// A table, with the rows on its left if it is a function that is called for each of them.
    fn factor(
        &mut self,
        factor: &TableFactor,
        left: Option<Relation>,
        outer: Option<&Place<'_>>,
    ) -> Result<Relation, SqlError> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
                ..
            } => {
                if version.is_some()
                    || *with_ordinality
                    || !partitions.is_empty()
                    || json_path.is_some()
                    || sample.is_some()
                {
                    return Err(unsupported(factor));
                }
                if let Some(index) = index_hints.iter().flat_map(|hint| &hint.index_names).next() {
                    let text = format!("Key '{}' doesn't exist in table '{name}'", index.value);
                    return Err(SqlError::new(SqlErrorKind::UnknownKey, text));
                }
                match args {
                    Some(args) => self.called(name, &args.args, alias.as_ref(), left, outer),
                    None => self.table(name, alias.as_ref()),
                }
            }
            TableFactor::Function { name, args, alias, lateral: false, .. } => {
                self.called(name, args, alias.as_ref(), left, outer)
            }
            TableFactor::Derived { lateral: false, subquery, alias, sample: None } => {
                let planned = self.query(subquery, None)?;
                let Some(alias) = alias else {
                    let text = "Every derived table must have its own alias";
                    return Err(SqlError::new(SqlErrorKind::NeedsAlias, text));
                };
                let names: Vec<String> = alias.columns.iter().map(|column| column.name.value.clone()).collect();
                let columns = renamed(planned.columns, &names)?;
                Ok(Relation { plan: planned.plan, scope: scope_of(&alias.name.value, columns) })
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.from(std::slice::from_ref(table_with_joins), outer)
            }
            other => Err(unsupported(other)),
        }
    }

    fn table(&mut self, name: &ObjectName, alias: Option<&TableAlias>) -> Result<Relation, SqlError> {
        if let Some(alias) = alias
            && !alias.columns.is_empty()
        {
            return Err(unsupported("names of columns behind a table"));
        }
        let parts = parts(name)?;
        let bare = parts.last().cloned().unwrap_or_default();
        let called = alias.map_or(bare.clone(), |alias| alias.name.value.clone());
        if let [name] = parts.as_slice()
            && let Some(common) = self.commons.iter().rev().find(|common| is_same(&common.name, name)).cloned()
        {
            return self.common(common, &called);
        }
        if is_same(&bare, "dual") && parts.len() == 1 {
            let plan = self.built(Ok(LogicalPlanBuilder::empty(true)))?;
            return Ok(Relation { plan, scope: Scope::default() });
        }
        let table = self.known_table(&parts)?;
        if !table.parameters.is_empty() {
            let text = format!("{}: call it as {}", table.name, table.comment);
            return Err(wrong(text));
        }
        self.count_tables(1)?;
        let id = self.fresh("t");
        let source = provider_as_source(computed::provider(&self.context, table));
        let plan = self.built(LogicalPlanBuilder::scan(id.clone(), source, None))?;
        let columns = table.columns.iter().map(|column| ScopeColumn {
            table: called.clone(),
            name: column.name.to_owned(),
            kind: column.kind(),
            column: Column::new(Some(id.clone()), column.name),
            is_second: false,
        });
        Ok(Relation { plan, scope: Scope { columns: columns.collect() } })
    }

    /// A common table expression, under names of its own, as it may stand in a statement many times.
    fn common(&mut self, common: super::Common, called: &str) -> Result<Relation, SqlError> {
        self.count_tables(common.tables)?;
        let id = self.fresh("t");
        let plan = self.built(LogicalPlanBuilder::new(common.plan).alias(id.clone()))?;
        let columns: Vec<Output> = common
            .columns
            .into_iter()
            .map(|output| Output { column: Column::new(Some(id.clone()), output.column.name), ..output })
            .collect();
        Ok(Relation { plan, scope: scope_of(called, columns) })
    }

    fn known_table(&self, parts: &[String]) -> Result<&'static Table, SqlError> {
        match parts {
            [name] => {
                let other = self.session.database;
                let qualified = format!("{other}.{name}");
                let of_database = if other.is_empty() || is_same(other, crate::DATABASE) {
                    None
                } else {
                    Table::named(&qualified).ok()
                };
                match of_database {
                    Some(table) => Ok(table),
                    None => Table::named(name).and_then(|table| {
                        let is_ours = table.database() == crate::DATABASE
                            || !other.is_empty() && is_same(other, table.database());
                        if is_ours { Ok(table) } else { Err(crate::engine::tables::unknown_table(name)) }
                    }),
                }
            }
            // Clients look for accounts there, and take its lack for a lack of rights.
            [database, name] if is_same(database, "mysql") => Err(crate::engine::tables::unknown_table(name)),
            [database, name] => {
                if !crate::engine::tables::is_database(database) {
                    let text = format!("unknown database '{database}'");
                    return Err(SqlError::new(SqlErrorKind::UnknownDatabase, text));
                }
                let table = Table::named(&format!("{database}.{name}"))?;
                if is_same(table.database(), database) {
                    Ok(table)
                } else {
                    Err(crate::engine::tables::unknown_table(name))
                }
            }
            _ => Err(SqlError::new(SqlErrorKind::Syntax, "syntax error: a table has at most one database")),
        }
    }

    /// A table function: its rows beside the row on its left that it was called for.
    fn called(
        &mut self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
        left: Option<Relation>,
        outer: Option<&Place<'_>>,
    ) -> Result<Relation, SqlError> {
        let parts = parts(name)?;
        let table = self.known_table(&parts).map_err(|error| match parts.as_slice() {
            [name] => SqlError::new(SqlErrorKind::UnknownTable, format!("there is no table function '{name}'")),
            _ => error,
        })?;
        let Source::Computed(_) = table.source else {
            return Err(wrong(format!("{}: it has no parameters", table.name)));
        };
        let needed = table.parameters.iter().filter(|parameter| !parameter.optional).count();
        if arguments.len() < needed || arguments.len() > table.parameters.len() {
            return Err(wrong(format!("{}: call it as {}", table.name, table.comment)));
        }
        let left = match left {
            Some(left) => left,
            None => Relation { plan: self.built(Ok(LogicalPlanBuilder::empty(true)))?, scope: Scope::default() },
        };
        let mut bound = Vec::new();
        for argument in arguments {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else {
                return Err(unsupported(argument));
            };
            bound.push(self.expression(expr, &Place::of(&left.scope, outer))?);
        }
        let call = TableCall::new(Arc::clone(&self.context), table, bound.iter().map(|bound| bound.kind).collect());
        let rows = self.fresh("l");
        let mut exprs: Vec<Expr> = left.plan.schema().columns().into_iter().map(Expr::Column).collect();
        exprs.push(call.on(bound.into_iter().map(|bound| bound.expr).collect()).alias(&rows));
        let builder = LogicalPlanBuilder::new(left.plan)
            .project(exprs)
            .and_then(|builder| builder.unnest_column_with_options(Column::from_name(&rows), dropping_empty()))
            .and_then(|builder| builder.unnest_column_with_options(Column::from_name(&rows), dropping_empty()));
        let plan = self.built(builder)?;
        let called = alias.map_or(table.bare_name().to_owned(), |alias| alias.name.value.clone());
        let made = plan.schema().columns();
        let own = made.get(made.len().saturating_sub(table.columns.len())..).unwrap_or_default();
        let columns = table.columns.iter().zip(own).map(|(column, made)| ScopeColumn {
            table: called.clone(),
            name: column.name.to_owned(),
            kind: column.kind(),
            column: made.clone(),
            is_second: false,
        });
        let right = Scope { columns: columns.collect() };
        Ok(Relation { plan, scope: together(left.scope, right)? })
    }

    fn last_part(&self, name: &ObjectName) -> Result<String, SqlError> {
        Ok(parts(name)?.pop().unwrap_or_default())
    }

    /// The table that a name with `.*` behind it means.
    pub(super) fn table_alias(&self, name: &ObjectName) -> Result<String, SqlError> {
        self.last_part(name)
    }
}

fn dropping_empty() -> datafusion::common::UnnestOptions {
    datafusion::common::UnnestOptions::new().with_preserve_nulls(false)
}

fn is_call(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Table { args: Some(_), .. } | TableFactor::Function { .. })
}

/// The parts of a name.
pub(super) fn parts(name: &ObjectName) -> Result<Vec<String>, SqlError> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Ok(ident.value.clone()),
        other => Err(unsupported(other)),
    };
    name.0.iter().map(part).collect()
}

fn scope_of(table: &str, columns: Vec<Output>) -> Scope {
    let column = |output: Output| ScopeColumn {
        table: table.to_owned(),
        name: output.name,
        kind: output.kind,
        column: output.column,
        is_second: false,
    };
    Scope { columns: columns.into_iter().map(column).collect() }
}

/// Both sides of a join; no table may stand in it twice under the same name.
fn together(mut left: Scope, right: Scope) -> Result<Scope, SqlError> {
    left.columns.extend(right.columns);
    Ok(left)
}
