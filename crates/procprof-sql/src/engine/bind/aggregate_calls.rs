//! Calls of functions of groups and windows.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::approx_percentile_cont::approx_percentile_cont_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_window::{cume_dist, lead_lag, nth_value, ntile, rank, row_number};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    AggregateUDF, Expr, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, WindowUDF,
    cast as native_cast, lit,
};
use sqlparser::ast::{
    self, DuplicateTreatment, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    NamedWindowExpr, Value as AstValue, WindowSpec, WindowType,
};

use super::query::ordinal;
use super::{Assignments, Binder, Bound, Place, is_same, unsupported, wrong};
use crate::engine::aggregates::{Aggregate, Collect};
use crate::engine::decimal::{INCREMENT, quotient_scale};
use crate::engine::functions::numbers;
use crate::engine::percentiles::{Between, Percentile};
use crate::engine::types::{Coercibility, FLOATING, SqlType, text_of};
use crate::engine::value::Val;
use crate::mysql::{SqlError, SqlErrorKind};

/// Functions of groups.
const AGGREGATES: &[&str] = &[
    "approx_percentile",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "count",
    "group_concat",
    "json_arrayagg",
    "json_objectagg",
    "max",
    "median",
    "min",
    "percentile_approx",
    "percentile_cont",
    "percentile_disc",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

pub(super) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&name) || name == "any_value"
}

/// An aggregate before it is known whether it is one of a window.
struct Call {
    function: Arc<AggregateUDF>,
    arguments: Vec<Expr>,
    distinct: bool,
    kind: SqlType,
}

/// Clusters of values that an approximate percentile keeps unless told otherwise, as in StarRocks.
const COMPRESSION: i64 = 10_000;
/// How many it may be told to keep.
const COMPRESSIONS: std::ops::RangeInclusive<i64> = 2048..=10_000;

impl Binder<'_> {
    pub(super) fn aggregate_call(
        &mut self,
        name: &str,
        function: &Function,
        place: &Place<'_>,
    ) -> Result<Bound, SqlError> {
        let is_ordered = matches!(name, "percentile_cont" | "percentile_disc");
        if function.filter.is_some()
            || function.null_treatment.is_some()
            || !function.within_group.is_empty() && !is_ordered
        {
            return Err(unsupported(function));
        }
        let window = match &function.over {
            None => None,
            Some(_) if !place.windows => {
                let text = "windows may stand in the columns of a SELECT and in ORDER BY only";
                return Err(SqlError::new(SqlErrorKind::Syntax, text));
            }
            Some(window) => Some(self.window(window, place)?),
        };
        if window.is_none() && !place.aggregates {
            return Err(SqlError::new(SqlErrorKind::WrongGroup, format!("Invalid use of group function: {name}")));
        }
        let FunctionArguments::List(list) = &function.args else { return Err(unsupported(function)) };
        let distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
        // What is inside an aggregate is of rows; what is inside a window function may be of groups.
        let inside = Place {
            aggregates: window.is_some() && place.aggregates,
            windows: false,
            assignments: Assignments::Refused,
            aliases: &[],
            ..*place
        };
        let is_star = matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
        let mut arguments = Vec::new();
        if !is_star {
            for argument in &list.args {
                let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else {
                    return Err(unsupported(function));
                };
                arguments.push(self.expression(expr, &inside)?);
            }
        } else if name != "count" {
            return Err(SqlError::new(SqlErrorKind::Syntax, "syntax error: at '*'"));
        }
        if name != "group_concat" && !list.clauses.is_empty() {
            return Err(unsupported(function));
        }
        if let Some(window) = &window
            && !AGGREGATES.contains(&name)
        {
            return self.window_call(name, &arguments, window);
        }
        if name == "avg" {
            return self.average(&arguments, distinct, window.as_ref());
        }
        let call = match name {
            "group_concat" => self.concat(list, &arguments, distinct, &inside)?,
            "median" | "percentile_cont" | "percentile_disc" | "percentile_approx" | "approx_percentile" => {
                if distinct {
                    return Err(SqlError::new(SqlErrorKind::Syntax, format!("syntax error: DISTINCT in {name}")));
                }
                if window.as_ref().is_some_and(|window| !window.order_by.is_empty() || window.has_frame) {
                    return Err(unsupported(format!("{name} in a window with an order or a frame")));
                }
                let order = match function.within_group.as_slice() {
                    [] => None,
                    [by] => Some((self.expression(&by.expr, &inside)?, !by.options.asc.unwrap_or(true))),
                    _ => return Err(unsupported(format!("{name} of several values"))),
                };
                self.percentile(name, &arguments, order)?
            }
            _ => self.aggregate(name, &arguments, distinct)?,
        };
        Ok(called(call, window.as_ref()))
    }

    fn collect(&self, aggregate: Aggregate, arguments: &[Bound], returns: SqlType, distinct: bool) -> Call {
        let collect = Collect {
            aggregate,
            types: arguments.iter().map(|argument| argument.kind).collect(),
            returns,
            distinct,
            separator: String::new(),
            orders: Vec::new(),
            watch: Arc::clone(&self.watch),
        };
        let arguments = arguments.iter().map(|argument| argument.expr.clone()).collect();
        Call { function: collect.function(), arguments, distinct: false, kind: returns }
    }

    fn aggregate(&self, name: &str, arguments: &[Bound], distinct: bool) -> Result<Call, SqlError> {
        if distinct && !matches!(name, "count" | "sum" | "min" | "max") {
            return Err(SqlError::new(SqlErrorKind::Syntax, format!("syntax error: DISTINCT in {name}")));
        }
        let is_of_times = arguments.first().is_some_and(|value| value.kind.is_temporal());
        if is_of_times
            && (name.starts_with("bit_")
                || name.starts_with("std")
                || name.starts_with("var")
                || name == "sum" && distinct)
        {
            return Err(unsupported(format!("{name} of dates and times")));
        }
        let native = |function: Arc<AggregateUDF>, argument: Expr, distinct: bool, kind: SqlType| Call {
            function,
            arguments: vec![argument],
            distinct,
            kind,
        };
        Ok(match (name, arguments) {
            ("count", []) => native(count_udaf(), lit(1_i64), false, SqlType::Integer),
            ("count", [value]) if !distinct => native(count_udaf(), value.expr.clone(), false, SqlType::Integer),
            ("count", [value]) => native(count_udaf(), self.key(value)?.expr, true, SqlType::Integer),
            ("count", [_, _, ..]) if distinct => {
                self.collect(Aggregate::CountDistinct, arguments, SqlType::Integer, true)
            }
            ("sum", [value]) => {
                let kind = summed(value.kind);
                native(sum_udaf(), self.cast(value, kind)?.expr, distinct, kind)
            }
            ("min" | "max", [value]) => {
                let is_least = name == "min";
                match value.kind {
                    SqlType::Text { .. } | SqlType::Bytes => {
                        let aggregate = if is_least { Aggregate::Min } else { Aggregate::Max };
                        self.collect(aggregate, arguments, value.kind, false)
                    }
                    kind => {
                        let value =
                            if kind == SqlType::Logical { self.cast(value, SqlType::Integer)? } else { value.clone() };
                        let function = if is_least { min_udaf() } else { max_udaf() };
                        native(function, value.expr, false, value.kind)
                    }
                }
            }
            ("any_value", [value]) => self.collect(Aggregate::First, arguments, value.kind, false),
            ("bit_and", [_]) => self.collect(Aggregate::BitAnd, arguments, SqlType::Unsigned, false),
            ("bit_or", [_]) => self.collect(Aggregate::BitOr, arguments, SqlType::Unsigned, false),
            ("bit_xor", [_]) => self.collect(Aggregate::BitXor, arguments, SqlType::Unsigned, false),
            ("std" | "stddev" | "stddev_pop", [value]) => self.spread(Aggregate::Deviation, value),
            ("stddev_samp", [value]) => self.spread(Aggregate::DeviationOfSample, value),
            ("variance" | "var_pop", [value]) => self.spread(Aggregate::Variance, value),
            ("var_samp", [value]) => self.spread(Aggregate::VarianceOfSample, value),
            ("json_arrayagg", [_]) => self.collect(Aggregate::JsonArray, arguments, SqlType::DOCUMENT, false),
            ("json_objectagg", [_, _]) => self.collect(Aggregate::JsonObject, arguments, SqlType::DOCUMENT, false),
            _ => return Err(super::calls::wrong_count(name)),
        })
    }

    /// A percentile: of the value by which the group is ordered, or of the first argument as StarRocks has it.
    fn percentile(&self, name: &str, arguments: &[Bound], order: Option<(Bound, bool)>) -> Result<Call, SqlError> {
        let (value, share, is_descending, more) = match (name, arguments, order) {
            ("median", [value], None) => (value.clone(), 0.5, false, None),
            ("percentile_cont" | "percentile_disc", [share], Some((value, is_descending))) => {
                (value, share_of(name, share)?, is_descending, None)
            }
            (_, [value, share, more @ ..], None) if name != "median" && more.len() <= 1 => {
                (value.clone(), share_of(name, share)?, false, more.first())
            }
            _ => return Err(super::calls::wrong_count(name)),
        };
        let is_approximate = matches!(name, "percentile_approx" | "approx_percentile");
        if more.is_some() && !is_approximate {
            return Err(super::calls::wrong_count(name));
        }
        if name != "percentile_disc" && (value.kind.is_text() || value.kind == SqlType::Bytes) {
            return Err(wrong(format!("Numeric datatype is required for {name} function")));
        }
        if name != "percentile_disc" && value.kind.is_temporal() {
            return Err(unsupported(format!("{name} of dates and times")));
        }
        if is_approximate {
            let compression = more.map_or(Ok(COMPRESSION), |more| compression(name, more))?;
            let value = self.cast(&value, SqlType::FLOAT)?;
            let arguments = vec![value.expr, lit(share), lit(compression)];
            let function = approx_percentile_cont_udaf();
            return Ok(Call { function, arguments, distinct: false, kind: SqlType::FLOAT });
        }
        let (between, returns) = match (name, value.kind) {
            ("percentile_disc", SqlType::Null) => (Between::Chosen, SqlType::FLOAT),
            ("percentile_disc", SqlType::Logical) => (Between::Chosen, SqlType::Integer),
            ("percentile_disc", kind) => (Between::Chosen, kind),
            _ => (Between::Interpolated, SqlType::Double { decimals: 10 }),
        };
        let percentile =
            Percentile { between, share, is_descending, kind: value.kind, returns, watch: Arc::clone(&self.watch) };
        Ok(Call { function: percentile.function(), arguments: vec![value.expr], distinct: false, kind: returns })
    }

    fn spread(&self, aggregate: Aggregate, value: &Bound) -> Call {
        let decimals = match value.kind.numeric() {
            SqlType::Double { .. } => FLOATING,
            other => other.decimals() + INCREMENT,
        };
        self.collect(aggregate, std::slice::from_ref(value), SqlType::Double { decimals }, false)
    }

    /// The sum divided by the count.
    fn average(&mut self, arguments: &[Bound], distinct: bool, window: Option<&Window>) -> Result<Bound, SqlError> {
        let [value] = arguments else { return Err(super::calls::wrong_count("avg")) };
        if distinct && value.kind.is_temporal() {
            return Err(unsupported("avg of distinct dates and times"));
        }
        let sum_kind = summed(value.kind);
        let summand = self.cast(value, sum_kind)?;
        let sum = Call { function: sum_udaf(), arguments: vec![summand.expr.clone()], distinct, kind: sum_kind };
        let counted = if distinct { summand.expr } else { value.expr.clone() };
        let count = Call { function: count_udaf(), arguments: vec![counted], distinct, kind: SqlType::Integer };
        let pair = [called(sum, window), called(count, window)];
        let kind = match sum_kind {
            SqlType::Decimal { scale, kept } => {
                let scale = (scale + INCREMENT).min(30);
                SqlType::Decimal { scale, kept: quotient_scale(kept, 0).max(scale) }
            }
            SqlType::Double { decimals } if decimals < FLOATING => {
                SqlType::Double { decimals: (decimals + INCREMENT).min(FLOATING) }
            }
            other => other,
        };
        self.call("/", numbers::quotient, &pair, kind, "")
    }

    fn concat(
        &mut self,
        list: &ast::FunctionArgumentList,
        arguments: &[Bound],
        distinct: bool,
        place: &Place<'_>,
    ) -> Result<Call, SqlError> {
        if arguments.is_empty() {
            return Err(super::calls::wrong_count("group_concat"));
        }
        let (mut separator, mut orders, mut all) = (",".to_owned(), Vec::new(), arguments.to_vec());
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::Separator(value) => match &value.value {
                    AstValue::SingleQuotedString(text) | AstValue::DoubleQuotedString(text) => separator = text.clone(),
                    _ => return Err(unsupported(clause)),
                },
                FunctionArgumentClause::OrderBy(items) => {
                    for item in items {
                        let bound = match ordinal(&item.expr) {
                            Some(number) => {
                                let found = number.checked_sub(1).and_then(|at| arguments.get(at));
                                found.ok_or_else(|| super::query::unknown_ordinal(number))?.clone()
                            }
                            None => self.expression(&item.expr, place)?,
                        };
                        orders.push(item.options.asc.unwrap_or(true));
                        all.push(bound);
                    }
                }
                _ => return Err(unsupported(clause)),
            }
        }
        let kinds: Vec<SqlType> = arguments.iter().map(|argument| argument.kind).collect();
        let returns = match text_of(&kinds)? {
            SqlType::DOCUMENT | SqlType::Text { coercibility: Coercibility::Number, .. } => SqlType::LITERAL,
            other => other,
        };
        let collect = Collect {
            aggregate: Aggregate::Concat,
            types: all.iter().map(|argument| argument.kind).collect(),
            returns,
            distinct,
            separator,
            orders,
            watch: Arc::clone(&self.watch),
        };
        let arguments = all.into_iter().map(|argument| argument.expr).collect();
        Ok(Call { function: collect.function(), arguments, distinct: false, kind: returns })
    }

    fn window_call(&mut self, name: &str, arguments: &[Bound], window: &Window) -> Result<Bound, SqlError> {
        let of = |function: Arc<WindowUDF>, arguments: Vec<Expr>| {
            let definition = WindowFunctionDefinition::WindowUDF(function);
            over(WindowFunction::new(definition, arguments), window, false)
        };
        let counted = |expr: Expr| Bound::of(native_cast(expr, SqlType::Integer.arrow()), SqlType::Integer);
        let whole = |bound: &Bound| {
            let value = bound.constant.as_ref().filter(|value| **value != Val::Null);
            value.map(|value| lit(value.integer())).ok_or_else(|| wrong(format!("{name}: a number is expected")))
        };
        Ok(match (name, arguments) {
            ("row_number", []) => counted(of(row_number::row_number_udwf(), Vec::new())),
            ("rank", []) => counted(of(rank::rank_udwf(), Vec::new())),
            ("dense_rank", []) => counted(of(rank::dense_rank_udwf(), Vec::new())),
            ("percent_rank", []) => {
                Bound::of(of(rank::percent_rank_udwf(), Vec::new()), SqlType::Double { decimals: 10 })
            }
            ("cume_dist", []) => {
                Bound::of(of(cume_dist::cume_dist_udwf(), Vec::new()), SqlType::Double { decimals: 10 })
            }
            ("ntile", [count]) => counted(of(ntile::ntile_udwf(), vec![whole(count)?])),
            ("lag" | "lead", [value, more @ ..]) if more.len() <= 2 => {
                let function = if name == "lag" { lead_lag::lag_udwf() } else { lead_lag::lead_udwf() };
                let mut own = vec![value.expr.clone()];
                own.push(more.first().map_or(Ok(lit(1_i64)), whole)?);
                if let Some(default) = more.get(1) {
                    let default = self.cast(default, value.kind)?;
                    let constant = default
                        .constant
                        .ok_or_else(|| unsupported(format!("{name} with a default that is no constant")))?;
                    own.push(lit(constant.scalar(value.kind)));
                }
                Bound::of(of(function, own), value.kind)
            }
            ("first_value", [value]) => {
                Bound::of(of(nth_value::first_value_udwf(), vec![value.expr.clone()]), value.kind)
            }
            ("last_value", [value]) => {
                Bound::of(of(nth_value::last_value_udwf(), vec![value.expr.clone()]), value.kind)
            }
            ("nth_value", [value, at]) => {
                Bound::of(of(nth_value::nth_value_udwf(), vec![value.expr.clone(), whole(at)?]), value.kind)
            }
            _ => return Err(super::calls::unknown(name)),
        })
    }

    fn window(&mut self, window: &WindowType, place: &Place<'_>) -> Result<Window, SqlError> {
        let spec = match window {
            WindowType::WindowSpec(spec) => spec,
            WindowType::NamedWindow(name) => named(place, &name.value)?,
        };
        if spec.window_name.is_some() {
            return Err(unsupported("a window that extends another"));
        }
        let inside = Place { windows: false, assignments: Assignments::Refused, aliases: &[], ..*place };
        let mut partition_by = Vec::new();
        for expr in &spec.partition_by {
            let bound = self.expression(expr, &inside)?;
            partition_by.push(self.key(&bound)?.expr);
        }
        let mut order_by: Vec<SortExpr> = Vec::new();
        for item in &spec.order_by {
            let mut bound = self.expression(&item.expr, &inside)?;
            if let SqlType::Time { .. } = bound.kind {
                // DataFusion has no ranges of durations.
                bound = Bound::of(native_cast(bound.expr, SqlType::Integer.arrow()), SqlType::Integer);
            }
            order_by.push(self.sort(&bound, item.options.asc.unwrap_or(true))?);
        }
        let frame = match &spec.window_frame {
            None => WindowFrame::new((!order_by.is_empty()).then_some(false)),
            Some(frame) => {
                let units = match frame.units {
                    ast::WindowFrameUnits::Rows => WindowFrameUnits::Rows,
                    ast::WindowFrameUnits::Range => WindowFrameUnits::Range,
                    ast::WindowFrameUnits::Groups => return Err(unsupported("GROUPS in a window")),
                };
                let from = self.bound(&frame.start_bound, units)?;
                let to = frame
                    .end_bound
                    .as_ref()
                    .map_or(Ok(WindowFrameBound::CurrentRow), |bound| self.bound(bound, units))?;
                WindowFrame::new_bounds(units, from, to)
            }
        };
        Ok(Window { partition_by, order_by, frame, has_frame: spec.window_frame.is_some() })
    }

    fn bound(&mut self, bound: &ast::WindowFrameBound, units: WindowFrameUnits) -> Result<WindowFrameBound, SqlError> {
        let number = |expr: &Option<Box<ast::Expr>>| match expr {
            None => Ok(ScalarValue::UInt64(None)),
            Some(_) if units == WindowFrameUnits::Range => Err(unsupported("RANGE with a distance in a window")),
            Some(expr) => {
                let number = ordinal(expr).ok_or_else(|| unsupported(format!("{expr} in a window")))?;
                Ok(ScalarValue::UInt64(Some(number as u64)))
            }
        };
        Ok(match bound {
            ast::WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
            ast::WindowFrameBound::Preceding(expr) => WindowFrameBound::Preceding(number(expr)?),
            ast::WindowFrameBound::Following(expr) => WindowFrameBound::Following(number(expr)?),
        })
    }
}

/// A window as DataFusion has it.
struct Window {
    partition_by: Vec<Expr>,
    order_by: Vec<SortExpr>,
    frame: WindowFrame,
    /// Whether it was written.
    has_frame: bool,
}

fn named<'p>(place: &Place<'p>, name: &str) -> Result<&'p WindowSpec, SqlError> {
    let found = place.named.iter().find(|definition| is_same(&definition.0.value, name));
    match found.map(|definition| &definition.1) {
        Some(NamedWindowExpr::WindowSpec(spec)) => Ok(spec),
        Some(NamedWindowExpr::NamedWindow(_)) => Err(unsupported("a window named after another")),
        None => Err(wrong(format!("Window name '{}' is not defined", name.chars().take(80).collect::<String>()))),
    }
}

fn called(call: Call, window: Option<&Window>) -> Bound {
    let Call { function, arguments, distinct, kind } = call;
    Bound::of(
        match window {
            None => Expr::AggregateFunction(AggregateFunction::new_udf(
                function,
                arguments,
                distinct,
                None,
                Vec::new(),
                None,
            )),
            Some(window) => {
                let definition = WindowFunctionDefinition::AggregateUDF(function);
                over(WindowFunction::new(definition, arguments), window, distinct)
            }
        },
        kind,
    )
}

fn over(mut function: WindowFunction, window: &Window, distinct: bool) -> Expr {
    function.params.partition_by.clone_from(&window.partition_by);
    function.params.order_by.clone_from(&window.order_by);
    function.params.window_frame = window.frame.clone();
    function.params.distinct = distinct;
    Expr::WindowFunction(Box::new(function))
}

/// The share that a percentile is at.
fn share_of(name: &str, share: &Bound) -> Result<f64, SqlError> {
    let Some(value) = &share.constant else { return Err(unsupported(format!("{name} with a share that varies"))) };
    if *value == Val::Null || share.kind.is_text() || share.kind.is_temporal() || share.kind == SqlType::Bytes {
        let text = format!("{name} function only accepts arguments that can be converted to numerical types");
        return Err(wrong(text));
    }
    let share = value.real();
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err(wrong(format!("Argument to the {name} function does not belong to the range [0,1]"))),
    }
}

/// The compression of an approximate percentile: how many clusters of values are kept.
fn compression(name: &str, value: &Bound) -> Result<i64, SqlError> {
    let compression = value.constant.as_ref().filter(|_| value.kind.is_whole()).map(Val::integer);
    let compression = compression.filter(|compression| COMPRESSIONS.contains(compression));
    compression.ok_or_else(|| {
        let (least, most) = (COMPRESSIONS.start(), COMPRESSIONS.end());
        wrong(format!("{name}: the compression is a whole number from {least} to {most}"))
    })
}

/// The type of a sum.
fn summed(kind: SqlType) -> SqlType {
    match kind.numeric() {
        SqlType::Integer | SqlType::Unsigned | SqlType::Logical => SqlType::decimal(0),
        SqlType::Null => SqlType::FLOAT,
        other => other,
    }
}
