//! Comparisons and conversions by MySQL's rules: what two types compare as, and the key by which a text compares.

use std::sync::Arc;

use datafusion::logical_expr::{Case, Expr, Operator, binary_expr, cast as native_cast, lit};

use super::{Binder, Bound, as_kept, unsupported};
use crate::engine::aggregates::{Aggregate, Collect};
use crate::engine::collation;
use crate::engine::functions::{dates, numbers, texts};
use crate::engine::types::{Coercibility, Collation, SqlType, collated};
use crate::engine::value::{Val, number_length};
use crate::mysql::{SqlError, SqlErrorKind};

impl Binder<'_> {
    /// A value as one of another type.
    pub(super) fn cast(&self, bound: &Bound, kind: SqlType) -> Result<Bound, SqlError> {
        if bound.kind == kind {
            return Ok(bound.clone());
        }
        if bound.kind == SqlType::Null {
            return Ok(Bound::constant(Val::Null, kind));
        }
        if let Some(value) = &bound.constant
            && *value == Val::Null
        {
            return Ok(Bound::constant(Val::Null, kind));
        }
        let native = |to: SqlType| Bound::of(native_cast(bound.expr.clone(), to.arrow()), to);
        let one = std::slice::from_ref(bound);
        match (bound.kind, kind) {
            _ if bound.kind.arrow() == kind.arrow() && !needs_cut(bound.kind, kind) => {
                Ok(Bound { kind, ..bound.clone() })
            }
            (SqlType::Logical, SqlType::Integer)
            | (SqlType::Integer, SqlType::Double { .. } | SqlType::Decimal { kept: 0, .. })
                if bound.constant.is_none() =>
            {
                Ok(native(kind))
            }
            (SqlType::Date, SqlType::DateTime { .. }) if bound.constant.is_none() => Ok(native(kind)),
            (_, SqlType::Text { .. }) => self.call("as_text", texts::as_text, one, kind, ""),
            (_, SqlType::Bytes) => self.call("as_bytes", texts::as_bytes, one, kind, ""),
            (_, SqlType::Date | SqlType::DateTime { .. } | SqlType::Time { .. }) => {
                self.call("as_moment", dates::cast, one, kind, "")
            }
            _ => self.call("as_number", numbers::cast, one, kind, ""),
        }
    }

    /// What a value compares, groups and sorts by.
    pub(super) fn key(&self, bound: &Bound) -> Result<Bound, SqlError> {
        match bound.kind {
            SqlType::Text { collation: Collation::General, coercibility } => {
                let kind = SqlType::Text { collation: Collation::Binary, coercibility };
                if let Some(Val::Text(text)) = &bound.constant {
                    let key = collation::key(text, Collation::General).into_owned();
                    return Ok(Bound::constant(key.into(), kind));
                }
                self.call("collation_key", texts::text_key, std::slice::from_ref(bound), kind, "general")
            }
            _ => Ok(bound.clone()),
        }
    }

    /// Any value of a group.
    pub(super) fn first(&self, bound: &Bound) -> Expr {
        let collect = Collect {
            aggregate: Aggregate::First,
            types: vec![bound.kind],
            returns: bound.kind,
            distinct: false,
            separator: String::new(),
            orders: Vec::new(),
            watch: Arc::clone(&self.watch),
        };
        collect.function().call(vec![bound.expr.clone()])
    }

    /// Two values of a type in which they compare, by DataFusion's own operators.
    pub(super) fn comparable(&self, left: &Bound, right: &Bound) -> Result<(Expr, Expr), SqlError> {
        let is_number =
            |kind: SqlType| kind.is_whole() || matches!(kind, SqlType::Decimal { .. } | SqlType::Double { .. });
        if left.is_hybrid && is_number(right.kind) || right.is_hybrid && is_number(left.kind) {
            return self.comparable(&left.numeric(), &right.numeric());
        }
        let both = |kind: SqlType| Ok((self.cast(left, kind)?.expr, self.cast(right, kind)?.expr));
        match (left.kind, right.kind) {
            (SqlType::Null, SqlType::Null) => Ok((left.expr.clone(), right.expr.clone())),
            (SqlType::Null, kind) | (kind, SqlType::Null) => {
                let kind = if kind.has_key() {
                    SqlType::Text { collation: Collation::Binary, coercibility: Coercibility::Literal }
                } else {
                    kind
                };
                both(kind)
            }
            (
                SqlType::Text { collation, coercibility },
                SqlType::Text { collation: other, coercibility: other_coercibility },
            ) => {
                let (collation, _) = collated((collation, coercibility), (other, other_coercibility))?;
                let kind = SqlType::Text { collation, coercibility };
                let key = |bound: &Bound| self.key(&Bound { kind, ..bound.clone() }).map(|bound| bound.expr);
                Ok((key(left)?, key(right)?))
            }
            (SqlType::Bytes, SqlType::Text { .. } | SqlType::Bytes) | (SqlType::Text { .. }, SqlType::Bytes) => {
                both(SqlType::Bytes)
            }
            (own, other) if own.is_temporal() && other.is_temporal() => match (own, other) {
                (SqlType::Time { .. }, SqlType::Time { .. }) => both(SqlType::Time { digits: 6 }),
                (SqlType::Time { .. }, _) | (_, SqlType::Time { .. }) => {
                    Err(unsupported("a comparison of a time with a date"))
                }
                (SqlType::Date, SqlType::Date) => Ok((left.expr.clone(), right.expr.clone())),
                _ => both(SqlType::DateTime { digits: 6 }),
            },
            (own, _) if own.is_temporal() => Ok((self.moment(left, own)?, self.moment(right, own)?)),
            (_, other) if other.is_temporal() => Ok((self.moment(left, other)?, self.moment(right, other)?)),
            (own, other) if own.is_whole() && other.is_whole() => match (own, other) {
                (SqlType::Unsigned, SqlType::Unsigned) | (SqlType::Logical, SqlType::Logical) => {
                    Ok((left.expr.clone(), right.expr.clone()))
                }
                (SqlType::Unsigned, _) | (_, SqlType::Unsigned) => both(SqlType::decimal(0)),
                _ => both(SqlType::Integer),
            },
            (own, SqlType::Text { .. }) if own.is_whole() && is_whole_text(right) => both(SqlType::Integer),
            (SqlType::Text { .. }, other) if other.is_whole() && is_whole_text(left) => both(SqlType::Integer),
            (own, other) => match (own.numeric(), other.numeric()) {
                (SqlType::Double { .. }, _) | (_, SqlType::Double { .. }) => both(SqlType::FLOAT),
                (own, other) => both(SqlType::decimal(own.kept().max(other.kept()))),
            },
        }
    }

    /// A value that is compared with a date, moment or time, as such a one.
    fn moment(&self, bound: &Bound, other: SqlType) -> Result<Expr, SqlError> {
        let kind = match other {
            SqlType::Time { .. } => SqlType::Time { digits: 6 },
            _ => SqlType::DateTime { digits: 6 },
        };
        if bound.constant.is_none() && !bound.kind.is_temporal() {
            if let SqlType::Time { .. } = other {
                return Err(unsupported("a comparison of a time with a text or number that is no constant"));
            }
            return Ok(self
                .call("as_moment_or_least", dates::moment_or_least, std::slice::from_ref(bound), kind, "")?
                .expr);
        }
        let made = self.cast(bound, kind)?;
        if made.constant == Some(Val::Null) && bound.constant != Some(Val::Null) {
            let text = match &bound.constant {
                Some(value) => value.text(bound.kind).unwrap_or_default().chars().take(80).collect(),
                None => String::new(),
            };
            let what = if matches!(other, SqlType::Time { .. }) { "TIME" } else { "DATETIME" };
            return Err(SqlError::new(SqlErrorKind::WrongMoment, format!("Incorrect {what} value: '{text}'")));
        }
        Ok(made.expr)
    }

    /// A comparison; rows compare value by value.
    pub(super) fn compared(&self, left: &Bound, operator: Operator, right: &Bound) -> Result<Bound, SqlError> {
        if let (Some(own), Some(other)) = (&left.constant, &right.constant)
            && (*own == Val::Null || *other == Val::Null)
            && operator != Operator::IsNotDistinctFrom
        {
            return Ok(Bound::constant(Val::Null, SqlType::Logical));
        }
        let (own, other) = self.comparable(left, right)?;
        Ok(Bound::of(binary_expr(own, operator, other), SqlType::Logical))
    }

    /// A value as a condition.
    pub(super) fn truth(&self, bound: &Bound) -> Result<Expr, SqlError> {
        if let Some(value) = &bound.constant {
            return Ok(match value.truth() {
                Some(truth) => lit(truth),
                None => lit(datafusion::common::ScalarValue::Boolean(None)),
            });
        }
        Ok(match bound.kind {
            SqlType::Logical => bound.expr.clone(),
            SqlType::Integer => binary_expr(bound.expr.clone(), Operator::NotEq, lit(0_i64)),
            _ => {
                let kernel: crate::engine::call::Kernel = |call| Ok(call.value(0).truth().map_or(Val::Null, Val::from));
                self.call("truth", kernel, std::slice::from_ref(bound), SqlType::Logical, "")?.expr
            }
        })
    }

    /// The value of the first condition that is true; of the last one without.
    pub(super) fn cases(&self, cases: &[(Expr, Bound)], otherwise: Option<&Bound>) -> Result<Bound, SqlError> {
        let null = Bound::null();
        let otherwise = otherwise.unwrap_or(&null);
        let kinds: Vec<SqlType> = cases.iter().map(|(_, value)| value.kind).chain([otherwise.kind]).collect();
        let kind = crate::engine::types::unified(&kinds)?;
        let mut branches = Vec::new();
        for (condition, value) in cases {
            branches.push((Box::new(condition.clone()), Box::new(self.cast(value, kind)?.expr)));
        }
        let otherwise = self.cast(otherwise, kind)?;
        if let [(condition, value)] = cases
            && let Expr::Literal(datafusion::common::ScalarValue::Boolean(truth), _) = condition
        {
            return if *truth == Some(true) { self.cast(value, kind) } else { Ok(otherwise) };
        }
        Ok(Bound::of(Expr::Case(Case::new(None, branches, Some(Box::new(otherwise.expr)))), kind))
    }

    /// A text with a collation that the statement gives it.
    pub(super) fn with_collation(&self, bound: &Bound, name: &str) -> Result<Bound, SqlError> {
        let collation = match name.to_ascii_lowercase().as_str() {
            "utf8mb4_bin" | "utf8mb4_0900_bin" | "utf8mb4_nopad_bin" | "utf8_bin" | "utf8mb3_bin" => Collation::Binary,
            "utf8mb4_general_ci" | "utf8_general_ci" | "utf8mb3_general_ci" => Collation::General,
            _ => {
                let name: String = name.chars().take(80).collect();
                return Err(SqlError::new(SqlErrorKind::UnknownCollation, format!("unknown collation '{name}'")));
            }
        };
        let kind = SqlType::Text { collation, coercibility: Coercibility::Explicit };
        let made = self.cast(bound, kind)?;
        let constant = match made.constant {
            Some(value) => Some(as_kept(value, kind)?),
            None => None,
        };
        Ok(Bound { kind, constant, ..made })
    }
}

/// Whether a conversion within a type of Arrow changes values.
fn needs_cut(from: SqlType, to: SqlType) -> bool {
    match (from, to) {
        (SqlType::DateTime { digits }, SqlType::DateTime { digits: wanted })
        | (SqlType::Time { digits }, SqlType::Time { digits: wanted }) => wanted < digits,
        (SqlType::Double { decimals }, SqlType::Double { decimals: wanted }) => wanted < decimals,
        _ => false,
    }
}

/// Whether a constant text is a whole number and nothing else, which compares exactly.
fn is_whole_text(bound: &Bound) -> bool {
    match &bound.constant {
        Some(Val::Text(text)) => !text.is_empty() && number_length(text) == text.len() && text.parse::<i64>().is_ok(),
        _ => false,
    }
}
