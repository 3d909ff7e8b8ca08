//! Subqueries in expressions.

use std::sync::Arc;

use datafusion::common::Spans;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, LogicalPlanBuilder, Operator, SkipType, Subquery, lit};
use sqlparser::ast::{BinaryOperator, Expr as AstExpr, Query};

use super::{Binder, Bound, Output, Place, unsupported};
use crate::engine::aggregates::{Aggregate, Collect};
use crate::mysql::{SqlError, SqlErrorKind};

type Answer = Result<Bound, SqlError>;

impl Binder<'_> {
    pub(super) fn quantified(
        &mut self,
        left: &AstExpr,
        operator: &BinaryOperator,
        right: &AstExpr,
        any: bool,
        place: &Place<'_>,
    ) -> Answer {
        let AstExpr::Subquery(query) = right else { return Err(unsupported("ANY and ALL of what is no subquery")) };
        let value = self.expression(left, place)?;
        let (value, subquery) = self.against(&value, query, place)?;
        let operator = match (operator, any) {
            (BinaryOperator::Eq, true) => {
                let expr = InSubquery::new(Box::new(value), subquery, false);
                return Ok(self.logical(Expr::InSubquery(expr)));
            }
            (BinaryOperator::NotEq, false) => {
                let expr = InSubquery::new(Box::new(value), subquery, true);
                return Ok(self.logical(Expr::InSubquery(expr)));
            }
            (BinaryOperator::Eq, false) => Operator::Eq,
            (BinaryOperator::NotEq, true) => Operator::NotEq,
            (BinaryOperator::Lt, _) => Operator::Lt,
            (BinaryOperator::LtEq, _) => Operator::LtEq,
            (BinaryOperator::Gt, _) => Operator::Gt,
            (BinaryOperator::GtEq, _) => Operator::GtEq,
            (other, _) => return Err(unsupported(format!("{other} ANY and ALL"))),
        };
        let quantifier = if any { SetQuantifier::Any } else { SetQuantifier::All };
        let expr = Expr::SetComparison(SetComparison::new(Box::new(value), subquery, operator, quantifier));
        Ok(self.logical(expr))
    }

    /// A value and the rows of a subquery with one column, in a type in which they compare.
    pub(super) fn against(
        &mut self,
        value: &Bound,
        query: &Query,
        place: &Place<'_>,
    ) -> Result<(Expr, Subquery), SqlError> {
        let planned = self.query(query, Some(place))?;
        let [output] = planned.columns.as_slice() else {
            return Err(SqlError::new(SqlErrorKind::OperandColumns, "Operand should contain 1 column(s)"));
        };
        let own = Bound::of(Expr::Column(output.column.clone()), output.kind);
        let (left, right) = self.comparable(value, &own)?;
        let plan = match right == own.expr {
            true => planned.plan,
            false => {
                let name = self.fresh("c");
                self.built(LogicalPlanBuilder::new(planned.plan).project([right.alias(name)]))?
            }
        };
        Ok((left, subquery_of(plan)))
    }

    pub(super) fn subquery(&mut self, query: &Query, place: &Place<'_>) -> Result<(Subquery, Vec<Output>), SqlError> {
        let planned = self.query(query, Some(place))?;
        Ok((subquery_of(planned.plan), planned.columns))
    }

    /// Whether a subquery has rows, as a value: DataFusion has `EXISTS` in conditions only.
    pub(super) fn counted(&mut self, subquery: &Subquery, negated: bool) -> Answer {
        let mut builder = LogicalPlanBuilder::new(subquery.subquery.as_ref().clone());
        if subquery.outer_ref_columns.is_empty() {
            builder = builder.limit(0, Some(1)).map_err(|error| self.failed(&error))?;
        }
        let name = self.fresh("c");
        let none: Vec<Expr> = Vec::new();
        let plan = self.built(builder.aggregate(none, [count(lit(1_i64)).alias(name)]))?;
        let rows = Expr::ScalarSubquery(subquery_of(plan));
        Ok(self.logical(if negated { rows.eq(lit(0_i64)) } else { rows.gt(lit(0_i64)) }))
    }

    pub(super) fn scalar_subquery(&mut self, query: &Query, place: &Place<'_>) -> Answer {
        let planned = self.query(query, Some(place))?;
        let [output] = planned.columns.as_slice() else {
            return Err(SqlError::new(SqlErrorKind::OperandColumns, "Operand should contain 1 column(s)"));
        };
        let (kind, column) = (output.kind, output.column.clone());
        // DataFusion makes a join of a subquery that refers to outer rows only without its limit.
        let (plan, aggregate) = match one_of_its_rows(&planned.plan) {
            Some(rows) => (rows.clone(), Aggregate::First),
            None => (planned.plan, Aggregate::Single),
        };
        let plan = match gives_one_row(&plan) {
            true => plan,
            false => {
                let only = Collect {
                    aggregate,
                    types: vec![kind],
                    returns: kind,
                    distinct: false,
                    separator: String::new(),
                    orders: Vec::new(),
                    watch: Arc::clone(&self.watch),
                };
                let name = self.fresh("c");
                let only = only.function().call(vec![Expr::Column(column)]).alias(name);
                let none: Vec<Expr> = Vec::new();
                self.built(LogicalPlanBuilder::new(plan).aggregate(none, [only]))?
            }
        };
        Ok(Bound::of(Expr::ScalarSubquery(subquery_of(plan)), kind))
    }
}

/// The rows of which a plan that refers to outer ones gives any one: it ends with `LIMIT 1` and has no order.
fn one_of_its_rows(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    let LogicalPlan::Limit(limit) = plan else { return None };
    let is_one = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
        && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(1))));
    let has_order = matches!(&*limit.input, LogicalPlan::Sort(_))
        || matches!(&*limit.input, LogicalPlan::Projection(projection) if matches!(&*projection.input, LogicalPlan::Sort(_)));
    (is_one && !has_order && !plan.all_out_ref_exprs().is_empty()).then_some(&*limit.input)
}

/// Whether a plan gives exactly one row: it is an aggregate of all rows.
fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

fn subquery_of(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}
