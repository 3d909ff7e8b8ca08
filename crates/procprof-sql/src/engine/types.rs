//! MySQL's types as the engine has them, each with the Arrow type that its values are kept in.

use datafusion::arrow::datatypes::{DataType, TimeUnit};

use crate::mysql::{SqlError, SqlErrorKind};

/// Digits behind the point of a decimal at most.
pub(super) const SCALE_MAX: u8 = 30;
/// Digits of a decimal.
pub(super) const PRECISION: u8 = 38;
/// Decimals of a double that are not fixed.
pub(super) const FLOATING: u8 = 31;

/// How texts compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Collation {
    /// `utf8mb4_general_ci`: letters in any case and without accents, blanks at the end don't count.
    General,
    /// `utf8mb4_0900_bin`: by code point.
    Binary,
}

impl Collation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Collation::General => "utf8mb4_general_ci",
            Collation::Binary => "utf8mb4_0900_bin",
        }
    }
}

/// What a text's collation is of: the less, the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Coercibility {
    Explicit,
    Column,
    SystemConstant,
    Literal,
    /// Of a JSON document that a function made: in another one it is no text.
    Document,
    Number,
}

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SqlType {
    /// Of NULL alone.
    Null,
    /// 0 or 1, of a comparison.
    Logical,
    Integer,
    Unsigned,
    /// A decimal shows `scale` digits behind the point, and keeps `kept`: quotients keep more than they show.
    Decimal {
        scale: u8,
        kept: u8,
    },
    /// A double shows that many digits behind the point, or as many as it needs ([`FLOATING`]).
    Double {
        decimals: u8,
    },
    Text {
        collation: Collation,
        coercibility: Coercibility,
    },
    Bytes,
    Date,
    /// With digits behind the second.
    DateTime {
        digits: u8,
    },
    Time {
        digits: u8,
    },
}

use SqlType::{Bytes, Date, DateTime, Decimal, Double, Integer, Logical, Null, Text, Time, Unsigned};

impl SqlType {
    pub(super) const LITERAL: SqlType = Text { collation: Collation::General, coercibility: Coercibility::Literal };
    pub(super) const DOCUMENT: SqlType = Text { collation: Collation::General, coercibility: Coercibility::Document };
    pub(super) const FLOAT: SqlType = Double { decimals: FLOATING };

    /// A decimal that keeps what it shows.
    pub(super) fn decimal(scale: u8) -> SqlType {
        Decimal { scale: scale.min(SCALE_MAX), kept: scale.min(SCALE_MAX) }
    }

    /// The type of its values in Arrow.
    pub(super) fn arrow(self) -> DataType {
        match self {
            Null | Integer => DataType::Int64,
            Logical => DataType::Boolean,
            Unsigned => DataType::UInt64,
            Decimal { kept, .. } => DataType::Decimal128(PRECISION, kept as i8),
            Double { .. } => DataType::Float64,
            Text { .. } => DataType::Utf8,
            Bytes => DataType::Binary,
            Date => DataType::Date32,
            DateTime { .. } => DataType::Timestamp(TimeUnit::Microsecond, None),
            Time { .. } => DataType::Duration(TimeUnit::Microsecond),
        }
    }

    pub(super) fn is_text(self) -> bool {
        matches!(self, Text { .. })
    }

    pub(super) fn is_temporal(self) -> bool {
        matches!(self, Date | DateTime { .. } | Time { .. })
    }

    pub(super) fn is_whole(self) -> bool {
        matches!(self, Logical | Integer | Unsigned)
    }

    /// Whether it compares and groups by another value than its own: its key.
    pub(super) fn has_key(self) -> bool {
        matches!(self, Text { collation: Collation::General, .. })
    }

    /// Digits behind the point that are shown; [`FLOATING`] for as many as needed.
    pub(super) fn decimals(self) -> u8 {
        match self {
            Decimal { scale, .. } => scale,
            Double { decimals } => decimals,
            Text { .. } | Bytes => FLOATING,
            DateTime { digits } | Time { digits } => digits,
            _ => 0,
        }
    }

    /// Digits behind the point that are kept.
    pub(super) fn kept(self) -> u8 {
        match self {
            Decimal { kept, .. } => kept,
            DateTime { digits } | Time { digits } => digits,
            _ => 0,
        }
    }

    /// What it is where a number is wanted.
    pub(super) fn numeric(self) -> SqlType {
        match self {
            Logical => Integer,
            Text { .. } | Bytes => SqlType::FLOAT,
            Date => Integer,
            DateTime { digits: 0 } | Time { digits: 0 } => Integer,
            DateTime { digits } | Time { digits } => SqlType::decimal(digits),
            other => other,
        }
    }
}

/// The collation of two texts together.
///
/// # Errors
/// Two collations with equal claims.
pub(super) fn collated(
    left: (Collation, Coercibility),
    right: (Collation, Coercibility),
) -> Result<(Collation, Coercibility), SqlError> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match left.1.cmp(&right.1) {
        Less => Ok(left),
        Greater => Ok(right),
        Equal if left.0 == right.0 => Ok(left),
        Equal if left.1 == Coercibility::Explicit => {
            let text = format!("Illegal mix of collations {} and {}", left.0.name(), right.0.name());
            Err(SqlError::new(SqlErrorKind::WrongArguments, text))
        }
        Equal => Ok((Collation::Binary, left.1)),
    }
}

/// The collation of all texts among these types, for a text made of them.
///
/// # Errors
/// Two collations with equal claims.
pub(super) fn text_of(types: &[SqlType]) -> Result<SqlType, SqlError> {
    let mut found = (Collation::General, Coercibility::Number);
    for kind in types {
        if let Text { collation, coercibility } = kind {
            found = collated(found, (*collation, *coercibility))?;
        }
    }
    let (collation, coercibility) = found;
    Ok(Text { collation, coercibility })
}

/// The type of a value that is one of these, as of `CASE`, `COALESCE` and `UNION`.
///
/// # Errors
/// Two collations with equal claims.
pub(super) fn unified(types: &[SqlType]) -> Result<SqlType, SqlError> {
    let mut found = Null;
    let mut has_text = false;
    let has_time = types.iter().any(|kind| matches!(kind, Time { .. }));
    if has_time && types.iter().any(|kind| matches!(kind, Date | DateTime { .. })) {
        let text = "a value that is a time or a date is not supported";
        return Err(SqlError::new(SqlErrorKind::NotSupported, text));
    }
    for kind in types {
        has_text |= kind.is_text();
        found = pair(found, *kind);
    }
    if found.is_text() || has_text {
        return text_of(types);
    }
    Ok(found)
}

fn pair(left: SqlType, right: SqlType) -> SqlType {
    match (left, right) {
        (Null, other) | (other, Null) => other,
        (left, right) if left == right => left,
        (Logical, Integer) | (Integer, Logical) => Integer,
        (Date, DateTime { digits }) | (DateTime { digits }, Date) => DateTime { digits },
        (DateTime { digits: a }, DateTime { digits: b }) => DateTime { digits: a.max(b) },
        (Time { digits: a }, Time { digits: b }) => Time { digits: a.max(b) },
        (Bytes, _) | (_, Bytes) => Bytes,
        (left, right) if left.is_temporal() || right.is_temporal() || left.is_text() || right.is_text() => {
            SqlType::LITERAL
        }
        (Double { decimals: a }, Double { decimals: b }) => Double { decimals: a.max(b) },
        (Double { decimals }, other) | (other, Double { decimals }) => {
            Double { decimals: if decimals == FLOATING { FLOATING } else { decimals.max(other.decimals()) } }
        }
        (left, right) => Decimal { scale: left.decimals().max(right.decimals()), kept: left.kept().max(right.kept()) },
    }
}
