//! One `SELECT`: its groups, conditions, windows and distinct rows.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder, Operator};
use sqlparser::ast::{
    Distinct, Expr as AstExpr, GroupByExpr, GroupByWithModifier, OrderBy, Select, SelectItem,
    SelectItemQualifiedWildcardKind,
};

use procprof_store::Order;

use super::query::{expressions, ordinal, unknown_ordinal};
use super::{Assignments, Binder, Bound, Output, Place, Planned, Scope, is_same, unsupported};
use crate::engine::types::SqlType;
use crate::mysql::{SqlError, SqlErrorKind};

/// A column of a `SELECT` before its plan is made.
struct Item {
    name: String,
    table: String,
    bound: Bound,
}

/// Replacements of expressions by columns that have their values.
type Replaced = Vec<(Expr, Expr)>;

impl<'p> Place<'p> {
    /// A place whose names mean the columns of a scope.
    pub(super) fn of(scope: &'p Scope, outer: Option<&'p Place<'p>>) -> Place<'p> {
        Place {
            scope,
            aliases: &[],
            aliases_first: false,
            outer,
            aggregates: false,
            windows: false,
            assignments: Assignments::Refused,
            named: &[],
        }
    }
}

impl Binder<'_> {
    pub(super) fn select(
        &mut self,
        select: &Select,
        order: Option<&OrderBy>,
        outer: Option<&Place<'_>>,
        is_outermost: bool,
    ) -> Result<Planned, SqlError> {
        refuse_others(select)?;
        let names = std::mem::take(&mut self.names);
        let assignments = if is_outermost { Assignments::Taken } else { Assignments::Refused };
        self.context.want(wanted_order(select, order));
        let relation = self.from(&select.from, outer)?;
        let scope = relation.scope;
        let mut plan = relation.plan;
        let rows = Place::of(&scope, outer);
        let items = {
            let place = Place { aggregates: true, windows: true, assignments, named: &select.named_window, ..rows };
            self.items(&select.projection, &place, &names)?
        };
        if let Some(condition) = &select.selection {
            let mut condition = self.condition(condition, &rows)?;
            if outer.is_some() {
                (plan, condition) = self.with_local_columns(plan, condition)?;
            }
            plan = self.built(LogicalPlanBuilder::new(plan).filter(condition))?;
        }
        let aliases: Vec<(String, Bound)> = items.iter().map(|item| (item.name.clone(), item.bound.clone())).collect();
        let (groups, rolls_up) = self.groups(&select.group_by, &items, &aliases, &rows)?;
        let after = Place {
            aliases: &aliases,
            aliases_first: true,
            aggregates: true,
            windows: true,
            named: &select.named_window,
            ..rows
        };
        let having = match &select.having {
            Some(having) => Some(self.condition(having, &Place { windows: false, ..after })?),
            None => None,
        };
        let mut sorts: Vec<(Bound, bool)> = Vec::new();
        for item in order.map_or(Ok(&[][..]), expressions)? {
            let bound = match ordinal(&item.expr) {
                Some(number) => {
                    let found = number.checked_sub(1).and_then(|at| items.get(at));
                    found.ok_or_else(|| unknown_ordinal(number))?.bound.clone()
                }
                None => self.expression(&item.expr, &after)?,
            };
            if bound.constant.is_none() {
                sorts.push((bound, item.options.asc.unwrap_or(true)));
            }
        }
        if rolls_up && sorts.is_empty() {
            // Sums stand behind their groups.
            for group in &groups {
                sorts.push((Bound::of(group.expr.clone().is_null(), SqlType::Logical), true));
                sorts.push((group.clone(), true));
            }
            let level = Expr::Column(Column::from_name(Aggregate::INTERNAL_GROUPING_ID));
            sorts.push((Bound::of(level, SqlType::Integer), true));
        }
        // What all of them need of groups and windows.
        let mut exprs: Vec<Expr> = items.iter().map(|item| item.bound.expr.clone()).collect();
        let item_count = exprs.len();
        for (bound, _) in &sorts {
            let key = self.key(bound)?;
            exprs.push(key.expr);
        }
        exprs.extend(having.iter().cloned());
        let aggregates = found(&exprs, |expr| matches!(expr, Expr::AggregateFunction(_)));
        let is_grouped = !groups.is_empty() || !aggregates.is_empty();
        if is_grouped || is_distinct(select)? {
            self.refuse_assignments()?;
        }
        if is_grouped {
            let (grouped, replaced) = self.grouped(plan, &groups, rolls_up, &aggregates, &exprs)?;
            plan = grouped;
            exprs = exprs.into_iter().map(|expr| replace(expr, &replaced)).collect();
            let allowed = plan.schema().columns();
            exprs.iter().try_for_each(|expr| only_columns(expr, &allowed, &scope))?;
        }
        let mut having = having.and_then(|_| exprs.pop());
        let windows = found(&exprs, |expr| matches!(expr, Expr::WindowFunction(_)));
        if !windows.is_empty() {
            self.refuse_assignments()?;
        }
        if let Some(condition) = having.take() {
            if is_grouped || windows.is_empty() {
                plan = self.built(LogicalPlanBuilder::new(plan).filter(condition))?;
            } else {
                return Err(unsupported("HAVING of windows without groups"));
            }
        }
        if !windows.is_empty() {
            let mut replaced = Replaced::new();
            for window in &windows {
                // The plan calls it so.
                let name = window.schema_name().to_string();
                replaced.push((window.clone(), Expr::Column(Column::from_name(name))));
            }
            plan = self.built(LogicalPlanBuilder::window_plan(plan, windows).map(LogicalPlanBuilder::new))?;
            exprs = exprs.into_iter().map(|expr| replace(expr, &replaced)).collect();
        }
        let keys = exprs.split_off(item_count);
        self.projected(plan, items, exprs, sorts, keys, is_distinct(select)?)
    }

    /// A condition whose comparisons with columns of outer rows have columns of this plan on their other side: DataFusion
    /// makes joins of those only.
    fn with_local_columns(&mut self, plan: LogicalPlan, condition: Expr) -> Result<(LogicalPlan, Expr), SqlError> {
        let mut exprs: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let width = exprs.len();
        let mut local = |own: Expr, other: &Expr| {
            let is_computed = !matches!(own, Expr::Column(_)) && own.any_column_refs() && !own.contains_outer();
            if !is_computed || !other.contains_outer() || other.any_column_refs() {
                return own;
            }
            let name = self.fresh("k");
            exprs.push(own.alias(&name));
            Expr::Column(Column::from_name(name))
        };
        let parts = split_conjunction_owned(condition).into_iter().map(|part| match part {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                let left = local(*left, &right);
                let right = local(*right, &left);
                left.eq(right)
            }
            other => other,
        });
        let condition = conjunction(parts.collect::<Vec<_>>()).unwrap_or_else(|| datafusion::logical_expr::lit(true));
        if exprs.len() == width {
            return Ok((plan, condition));
        }
        Ok((self.built(LogicalPlanBuilder::new(plan).project(exprs))?, condition))
    }

    /// The columns, in their order, with sorts by what is no column beside them.
    fn projected(
        &mut self,
        plan: LogicalPlan,
        items: Vec<Item>,
        exprs: Vec<Expr>,
        sorts: Vec<(Bound, bool)>,
        keys: Vec<Expr>,
        is_distinct: bool,
    ) -> Result<Planned, SqlError> {
        let mut projection = Vec::new();
        let mut columns = Vec::new();
        for (item, expr) in items.iter().zip(&exprs) {
            let name = self.fresh("c");
            projection.push(expr.clone().alias(&name));
            let column = Column::from_name(name);
            columns.push(Output { name: item.name.clone(), table: item.table.clone(), kind: item.bound.kind, column });
        }
        if is_distinct {
            let plan = self.built(LogicalPlanBuilder::new(plan).project(projection))?;
            let planned = self.distinct(Planned { plan, columns })?;
            let mut ordered = Vec::new();
            for (bound, ascending) in sorts {
                let place = items.iter().position(|item| item.bound.expr == bound.expr);
                let output = place
                    .and_then(|place| planned.columns.get(place))
                    .ok_or_else(|| unsupported("ORDER BY of a SELECT DISTINCT by what is not among its columns"))?;
                let own = Bound::of(Expr::Column(output.column.clone()), output.kind);
                ordered.push(self.sort(&own, ascending)?);
            }
            if ordered.is_empty() {
                return Ok(planned);
            }
            let plan = self.built(LogicalPlanBuilder::new(planned.plan).sort(ordered))?;
            return Ok(Planned { plan, columns: planned.columns });
        }
        if sorts.is_empty() {
            let plan = self.built(LogicalPlanBuilder::new(plan).project(projection))?;
            return Ok(Planned { plan, columns });
        }
        let mut ordered = Vec::new();
        let visible = projection.len();
        for ((bound, ascending), key) in sorts.iter().zip(keys) {
            let place = exprs.iter().zip(&items).position(|(expr, item)| *expr == key && !item.bound.kind.has_key());
            let column = match place {
                Some(place) => columns[place].column.clone(),
                None => {
                    let name = self.fresh("s");
                    projection.push(key.alias(&name));
                    Column::from_name(name)
                }
            };
            let _ = bound;
            ordered.push(datafusion::logical_expr::SortExpr::new(Expr::Column(column), *ascending, *ascending));
        }
        let has_more = projection.len() > visible;
        let mut builder = LogicalPlanBuilder::new(plan).project(projection).and_then(|builder| builder.sort(ordered));
        if has_more {
            let shown: Vec<Expr> = columns.iter().map(|output| Expr::Column(output.column.clone())).collect();
            builder = builder.and_then(|builder| builder.project(shown));
        }
        Ok(Planned { plan: self.built(builder)?, columns })
    }

    pub(super) fn built(
        &self,
        builder: datafusion::common::Result<LogicalPlanBuilder>,
    ) -> Result<LogicalPlan, SqlError> {
        builder.and_then(LogicalPlanBuilder::build).map_err(|error| self.failed(&error))
    }

    fn items(&mut self, projection: &[SelectItem], place: &Place<'_>, names: &[String]) -> Result<Vec<Item>, SqlError> {
        let mut items = Vec::new();
        for (index, item) in projection.iter().enumerate() {
            match item {
                SelectItem::ExprWithAlias { expr, alias } => {
                    let bound = self.expression(expr, place)?;
                    items.push(Item { name: alias.value.clone(), table: String::new(), bound });
                }
                SelectItem::UnnamedExpr(expr) => {
                    let bound = self.expression(expr, place)?;
                    let (name, table) = match expr {
                        AstExpr::Identifier(_) | AstExpr::CompoundIdentifier(_) => self.column_name(expr, place),
                        _ => (names.get(index).cloned().unwrap_or_else(|| expr.to_string()), String::new()),
                    };
                    items.push(Item { name, table, bound });
                }
                SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                    if options.to_string() != "" {
                        return Err(unsupported(format!("*{options}")));
                    }
                    let table = match item {
                        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                            Some(self.table_alias(name)?)
                        }
                        SelectItem::QualifiedWildcard(..) => return Err(unsupported(item)),
                        _ => None,
                    };
                    let before = items.len();
                    for column in &place.scope.columns {
                        let is_meant = match &table {
                            Some(table) => is_same(table, &column.table),
                            None => !column.is_second,
                        };
                        if is_meant {
                            items.push(Item {
                                name: column.name.clone(),
                                table: column.table.clone(),
                                bound: Bound::of(Expr::Column(column.column.clone()), column.kind),
                            });
                        }
                    }
                    if items.len() == before {
                        let what = table.map_or("No tables used".to_owned(), |table| {
                            format!("there is no table '{table}' in FROM")
                        });
                        return Err(SqlError::new(SqlErrorKind::UnknownTable, what));
                    }
                }
                SelectItem::ExprWithAliases { .. } => return Err(unsupported(item)),
            }
        }
        Ok(items)
    }

    /// The expressions of `GROUP BY`, and whether there are sums of their groups, too.
    fn groups(
        &mut self,
        group_by: &GroupByExpr,
        items: &[Item],
        aliases: &[(String, Bound)],
        rows: &Place<'_>,
    ) -> Result<(Vec<Bound>, bool), SqlError> {
        let (expressions, modifiers) = match group_by {
            GroupByExpr::Expressions(expressions, modifiers) => (expressions, modifiers),
            GroupByExpr::All(_) => return Err(unsupported("GROUP BY ALL")),
        };
        let rolls_up = match modifiers.as_slice() {
            [] => false,
            [GroupByWithModifier::Rollup] => true,
            _ => return Err(unsupported("this modifier of GROUP BY")),
        };
        let place = Place { aliases, aliases_first: false, ..*rows };
        let mut groups = Vec::new();
        for expression in expressions {
            let bound = match ordinal(expression) {
                Some(number) => {
                    let found = number.checked_sub(1).and_then(|at| items.get(at));
                    found.ok_or_else(|| unknown_ordinal(number))?.bound.clone()
                }
                None => self.expression(expression, &place)?,
            };
            let has_aggregates = !found(std::slice::from_ref(&bound.expr), |expr| {
                matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_))
            })
            .is_empty();
            if has_aggregates {
                return Err(SqlError::new(SqlErrorKind::WrongGroup, format!("Can't group on '{expression}'")));
            }
            groups.push(bound);
        }
        Ok((groups, rolls_up))
    }

    /// The groups of rows, and what replaces expressions behind them.
    fn grouped(
        &mut self,
        plan: LogicalPlan,
        groups: &[Bound],
        rolls_up: bool,
        aggregates: &[Expr],
        exprs: &[Expr],
    ) -> Result<(LogicalPlan, Replaced), SqlError> {
        let mut replaced = Replaced::new();
        let mut before: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let width = before.len();
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for bound in groups {
            if bound.constant.is_some() && !rolls_up {
                continue;
            }
            let stored = self.cast(bound, super::query::as_stored(bound.kind))?;
            let key = self.key(&stored)?;
            let column = match &key.expr {
                Expr::Column(column) => column.clone(),
                other => {
                    let name = self.fresh("g");
                    before.push(other.clone().alias(&name));
                    Column::from_name(name)
                }
            };
            let column = Expr::Column(column);
            keys.push(column.clone());
            if bound.kind.has_key() {
                let name = self.fresh("f");
                values.push(self.first(bound).alias(&name));
                let shown = Expr::Column(Column::from_name(name));
                let shown = if rolls_up { null_where_null(&column, shown) } else { shown };
                replaced.push((bound.expr.clone(), shown));
                replaced.push((self.key(bound)?.expr, column));
            } else {
                replaced.push((bound.expr.clone(), column));
            }
        }
        for aggregate in aggregates {
            let name = self.fresh("a");
            values.push(aggregate.clone().alias(&name));
            replaced.push((aggregate.clone(), Expr::Column(Column::from_name(name))));
        }
        let _ = exprs;
        let mut builder = LogicalPlanBuilder::new(plan);
        if before.len() > width {
            builder = builder.project(before).map_err(|error| self.failed(&error))?;
        }
        if groups.is_empty() || !keys.is_empty() {
            let keys = if rolls_up { vec![Expr::GroupingSet(GroupingSet::Rollup(keys))] } else { keys };
            return Ok((self.built(builder.aggregate(keys, values))?, replaced));
        }
        // Groups by constants only: one group if there are rows, none otherwise.
        let name = self.fresh("a");
        let count = datafusion::functions_aggregate::expr_fn::count(datafusion::logical_expr::lit(1)).alias(&name);
        values.push(count);
        let some = Expr::Column(Column::from_name(name)).gt(datafusion::logical_expr::lit(0_i64));
        let none: Vec<Expr> = Vec::new();
        Ok((self.built(builder.aggregate(none, values).and_then(|builder| builder.filter(some)))?, replaced))
    }
}

/// The order of rows that a `SELECT` from one table wants, where the catalog has it.
fn wanted_order(select: &Select, order: Option<&OrderBy>) -> Order {
    let is_one_table = matches!(select.from.as_slice(), [table] if table.joins.is_empty());
    let first = order.and_then(|order| expressions(order).ok()).and_then(<[_]>::first);
    let Some(first) = first.filter(|_| is_one_table) else { return Order::Any };
    let name = match &first.expr {
        AstExpr::Identifier(ident) => &ident.value,
        AstExpr::CompoundIdentifier(idents) => match idents.last() {
            Some(ident) => &ident.value,
            None => return Order::Any,
        },
        _ => return Order::Any,
    };
    match (is_same(name, "completed") || is_same(name, "completed_ns"), first.options.asc) {
        (false, _) => Order::Any,
        (true, Some(false)) => Order::NewestFirst,
        (true, _) => Order::OldestFirst,
    }
}

fn null_where_null(key: &Expr, shown: Expr) -> Expr {
    let condition = key.clone().is_not_null();
    Expr::Case(datafusion::logical_expr::Case::new(None, vec![(Box::new(condition), Box::new(shown))], None))
}

fn is_distinct(select: &Select) -> Result<bool, SqlError> {
    match &select.distinct {
        None | Some(Distinct::All) => Ok(false),
        Some(Distinct::Distinct) => Ok(true),
        Some(Distinct::On(_)) => Err(unsupported("DISTINCT ON")),
    }
}

fn refuse_others(select: &Select) -> Result<(), SqlError> {
    let others = [
        (select.into.is_some(), "SELECT INTO"),
        (select.top.is_some(), "TOP"),
        (select.exclude.is_some(), "EXCLUDE"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.value_table_mode.is_some(), "SELECT AS"),
    ];
    match others.iter().find(|(is_there, _)| *is_there) {
        Some((_, what)) => Err(unsupported(what)),
        None => Ok(()),
    }
}

/// Expressions of a kind in others, each once, outermost first; those in subqueries are theirs.
fn found(exprs: &[Expr], is_wanted: fn(&Expr) -> bool) -> Vec<Expr> {
    let mut all: Vec<Expr> = Vec::new();
    for expr in exprs {
        // The function never fails.
        let _ = expr.apply(|part| {
            if is_wanted(part) {
                if !all.contains(part) {
                    all.push(part.clone());
                }
                return Ok(TreeNodeRecursion::Jump);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    all
}

/// An expression with parts replaced, outermost first.
fn replace(expr: Expr, replaced: &Replaced) -> Expr {
    let made = expr.clone().transform_down(|part| {
        Ok(match replaced.iter().find(|(from, _)| *from == part) {
            Some((_, to)) => Transformed::new(to.clone(), true, TreeNodeRecursion::Jump),
            None => Transformed::no(part),
        })
    });
    made.map_or(expr, |made| made.data)
}

/// Whether all columns of an expression are among those behind the groups.
fn only_columns(expr: &Expr, allowed: &[Column], scope: &Scope) -> Result<(), SqlError> {
    let mut other = None;
    let _ = expr.apply(|part| {
        if let Expr::Column(column) = part
            && !allowed.contains(column)
        {
            other = Some(column.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let Some(column) = other else { return Ok(()) };
    let known = scope.columns.iter().find(|own| own.column == column);
    let name = known.map_or(column.name.clone(), |own| format!("{}.{}", own.table, own.name));
    Err(SqlError::new(SqlErrorKind::NotGrouped, format!("'{name}' isn't in GROUP BY")))
}
