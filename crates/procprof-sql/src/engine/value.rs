//! A value while a function works on it, and its conversions as MySQL makes them.

use std::borrow::Cow;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes as arrow;
use datafusion::common::ScalarValue;

use super::decimal::Decimal;
use super::moment::{self, DAY};
use super::types::{FLOATING, PRECISION, SqlType};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Val<'a> {
    Null,
    Integer(i64),
    Unsigned(u64),
    Decimal(Decimal),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    /// Days since 1970.
    Date(i64),
    /// Microseconds since 1970.
    DateTime(i64),
    /// Microseconds.
    Time(i64),
}

use Val::{Bytes, Date, DateTime, Double, Integer, Null, Text, Time, Unsigned};

impl From<String> for Val<'static> {
    fn from(text: String) -> Val<'static> {
        Text(Cow::Owned(text))
    }
}

impl From<bool> for Val<'static> {
    fn from(value: bool) -> Val<'static> {
        Integer(value.into())
    }
}

impl<'a> Val<'a> {
    pub(super) fn into_owned(self) -> Val<'static> {
        match self {
            Text(text) => Text(Cow::Owned(text.into_owned())),
            Bytes(bytes) => Bytes(Cow::Owned(bytes.into_owned())),
            Null => Null,
            Integer(value) => Integer(value),
            Unsigned(value) => Unsigned(value),
            Val::Decimal(value) => Val::Decimal(value),
            Double(value) => Double(value),
            Date(value) => Date(value),
            DateTime(value) => DateTime(value),
            Time(value) => Time(value),
        }
    }

    /// The value in a row of an array of that type.
    pub(super) fn at(array: &'a ArrayRef, row: usize, kind: SqlType) -> Val<'a> {
        if array.is_null(row) {
            return Null;
        }
        match kind {
            SqlType::Null => Null,
            SqlType::Logical => array.as_boolean().value(row).into(),
            SqlType::Integer => Integer(array.as_primitive::<arrow::Int64Type>().value(row)),
            SqlType::Unsigned => Unsigned(array.as_primitive::<arrow::UInt64Type>().value(row)),
            SqlType::Decimal { kept, .. } => {
                Val::Decimal(Decimal { digits: array.as_primitive::<arrow::Decimal128Type>().value(row), scale: kept })
            }
            SqlType::Double { .. } => Double(array.as_primitive::<arrow::Float64Type>().value(row)),
            SqlType::Text { .. } => Text(Cow::Borrowed(array.as_string::<i32>().value(row))),
            SqlType::Bytes => Bytes(Cow::Borrowed(array.as_binary::<i32>().value(row))),
            SqlType::Date => Date(array.as_primitive::<arrow::Date32Type>().value(row).into()),
            SqlType::DateTime { .. } => DateTime(array.as_primitive::<arrow::TimestampMicrosecondType>().value(row)),
            SqlType::Time { .. } => Time(array.as_primitive::<arrow::DurationMicrosecondType>().value(row)),
        }
    }

    /// As a constant of that type, which it has.
    pub(super) fn scalar(&self, kind: SqlType) -> ScalarValue {
        match (kind, self) {
            (SqlType::Null, _) => ScalarValue::Int64(None),
            (SqlType::Logical, value) => ScalarValue::Boolean(value.truth()),
            (SqlType::Integer, value) => ScalarValue::Int64((*value != Null).then(|| value.integer())),
            (SqlType::Unsigned, value) => ScalarValue::UInt64((*value != Null).then(|| value.unsigned())),
            (SqlType::Decimal { kept, .. }, value) => {
                let digits = value.decimal().and_then(|value| value.rescaled(kept)).map(|value| value.digits);
                ScalarValue::Decimal128(digits, PRECISION, kept as i8)
            }
            (SqlType::Double { .. }, value) => ScalarValue::Float64((*value != Null).then(|| value.real())),
            (SqlType::Text { .. }, value) => ScalarValue::Utf8(value.text(kind).map(Cow::into_owned)),
            (SqlType::Bytes, value) => ScalarValue::Binary(value.bytes().map(Cow::into_owned)),
            (SqlType::Date, Date(days)) => ScalarValue::Date32(Some(*days as i32)),
            (SqlType::Date, _) => ScalarValue::Date32(None),
            (SqlType::DateTime { .. }, DateTime(micros)) => ScalarValue::TimestampMicrosecond(Some(*micros), None),
            (SqlType::DateTime { .. }, _) => ScalarValue::TimestampMicrosecond(None, None),
            (SqlType::Time { .. }, Time(micros)) => ScalarValue::DurationMicrosecond(Some(*micros)),
            (SqlType::Time { .. }, _) => ScalarValue::DurationMicrosecond(None),
        }
    }

    /// As text; `kind` is its own type, which has the digits that are shown.
    pub(super) fn text(&self, kind: SqlType) -> Option<Cow<'_, str>> {
        Some(match self {
            Null => return None,
            Integer(value) => value.to_string().into(),
            Unsigned(value) => value.to_string().into(),
            Val::Decimal(value) => {
                let scale = if let SqlType::Decimal { scale, .. } = kind { scale } else { value.scale };
                value.rescaled(scale).unwrap_or(*value).to_string().into()
            }
            Double(value) => real_text(*value, kind.decimals()).into(),
            Text(text) => Cow::Borrowed(text),
            Bytes(bytes) => String::from_utf8_lossy(bytes),
            Date(days) => moment::date_text(*days).into(),
            DateTime(micros) => moment::moment_text(*micros, kind.decimals()).into(),
            Time(micros) => moment::time_text(*micros, kind.decimals()).into(),
        })
    }

    pub(super) fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        Some(match self {
            Null => return None,
            Bytes(bytes) => Cow::Borrowed(bytes),
            Text(text) => Cow::Borrowed(text.as_bytes()),
            other => other.text(SqlType::Null)?.into_owned().into_bytes().into(),
        })
    }

    /// As a double; 0 for NULL and for texts that begin with no number.
    pub(super) fn real(&self) -> f64 {
        match self {
            Null => 0.0,
            Integer(value) => *value as f64,
            Unsigned(value) => *value as f64,
            Val::Decimal(value) => value.real(),
            Double(value) => *value,
            Text(text) => real_prefix(text),
            Bytes(bytes) => real_prefix(&String::from_utf8_lossy(bytes)),
            other => other.decimal().map_or(0.0, Decimal::real),
        }
    }

    /// As a whole number, rounded, within the 64-bit numbers; 0 for NULL.
    pub(super) fn integer(&self) -> i64 {
        match self {
            Integer(value) => *value,
            Unsigned(value) => i64::try_from(*value).unwrap_or(i64::MAX),
            Val::Decimal(value) => {
                let whole = value.integer();
                i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
            }
            Double(value) => value.round_ties_even() as i64,
            Text(text) => integer_prefix(text),
            Bytes(bytes) => integer_prefix(&String::from_utf8_lossy(bytes)),
            other => other.decimal().map_or(0, |value| value.integer() as i64),
        }
    }

    pub(super) fn unsigned(&self) -> u64 {
        match self {
            Unsigned(value) => *value,
            Val::Decimal(value) => u64::try_from(value.integer().max(0)).unwrap_or(u64::MAX),
            Double(value) if *value >= 0.0 => value.round_ties_even() as u64,
            Text(text) => match Decimal::parse(text) {
                Some((number, _)) if number.digits >= 0 => {
                    u64::try_from(number.truncated(0).digits).unwrap_or(u64::MAX)
                }
                _ => self.integer() as u64,
            },
            other => other.integer() as u64,
        }
    }

    /// As a decimal; `None` for NULL and what has too many digits.
    pub(super) fn decimal(&self) -> Option<Decimal> {
        let clock = |micros: i64| {
            let seconds = micros.rem_euclid(DAY) / moment::SECOND;
            seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60
        };
        let calendar = |days: i64| {
            let (year, month, day) = moment::civil(days);
            year * 10_000 + month * 100 + day
        };
        let with_micros =
            |whole: i64, micros: i64| Decimal { digits: i128::from(whole) * 1_000_000 + i128::from(micros), scale: 6 };
        Some(match self {
            Null => return None,
            Integer(value) => Decimal::whole(*value),
            Unsigned(value) => Decimal { digits: (*value).into(), scale: 0 },
            Val::Decimal(value) => *value,
            Double(value) => decimal_of(*value)?,
            Text(text) => decimal_prefix(text)?,
            Bytes(bytes) => decimal_prefix(&String::from_utf8_lossy(bytes))?,
            Date(days) => Decimal::whole(calendar(*days)),
            DateTime(micros) => with_micros(
                calendar(micros.div_euclid(DAY)) * 1_000_000 + clock(*micros),
                micros.rem_euclid(moment::SECOND),
            ),
            Time(micros) => {
                let size = micros.abs();
                let seconds = size / moment::SECOND;
                let whole = seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60;
                let number = with_micros(whole, size % moment::SECOND);
                if *micros < 0 { number.negated() } else { number }
            }
        })
    }

    /// Whether it is true; `None` for NULL.
    pub(super) fn truth(&self) -> Option<bool> {
        match self {
            Null => None,
            Integer(value) => Some(*value != 0),
            Unsigned(value) => Some(*value != 0),
            Val::Decimal(value) => Some(value.digits != 0),
            other => Some(other.real() != 0.0),
        }
    }

    /// As a moment, if it is one.
    pub(super) fn moment(&self) -> Option<i64> {
        match self {
            Date(days) => Some(days * DAY),
            DateTime(micros) => Some(*micros),
            Text(text) => moment::parse_moment(text).map(|(micros, _)| micros),
            Bytes(bytes) => moment::parse_moment(std::str::from_utf8(bytes).ok()?).map(|(micros, _)| micros),
            Null | Time(_) => None,
            number => {
                let number = number.decimal().filter(|number| number.digits >= 0)?;
                let whole = number.truncated(0).digits;
                // A number of a date has 5 to 8 digits, one of a moment up to 14.
                let width = match whole {
                    0..=691_231 => 6,
                    691_232..=99_991_231 => 8,
                    99_991_232..=991_231_235_959 => 12,
                    _ => 14,
                };
                let text = number.to_string();
                let missing = width - text.split('.').next().map_or(0, str::len).min(width);
                moment::parse_moment(&format!("{}{text}", "0".repeat(missing))).map(|(micros, _)| micros)
            }
        }
    }

    /// Whether it would be a date with a part of zero.
    pub(super) fn is_zero_date(&self, kind: SqlType) -> bool {
        match self {
            Text(text) => {
                let text = text.trim_start();
                (text.starts_with("0000") || text.contains("-00")) && self.moment().is_none()
            }
            Integer(0) | Unsigned(0) => kind != SqlType::Logical,
            Val::Decimal(number) => number.digits == 0,
            Double(number) => *number == 0.0,
            _ => false,
        }
    }

    /// As a time, if it is one.
    pub(super) fn time(&self) -> Option<i64> {
        match self {
            Time(micros) => Some(*micros),
            DateTime(micros) => Some(micros.rem_euclid(DAY)),
            Date(_) => Some(0),
            Text(text) => moment::parse_time(text).map(|(micros, _)| micros),
            Bytes(bytes) => moment::parse_time(std::str::from_utf8(bytes).ok()?).map(|(micros, _)| micros),
            Null => None,
            number => {
                let number = number.decimal()?;
                // Numbers beyond the longest time are of moments.
                if number.truncated(0).digits.unsigned_abs() > 8_385_959 {
                    return self.moment().map(|micros| micros.rem_euclid(DAY));
                }
                moment::parse_time(&number.to_string()).map(|(micros, _)| micros)
            }
        }
    }

    /// Bytes it takes, about.
    pub(super) fn weight(&self) -> usize {
        match self {
            Text(text) => text.len(),
            Bytes(bytes) => bytes.len(),
            _ => 8,
        }
    }
}

/// The digits of a double that make it, as a decimal.
pub(super) fn decimal_of(value: f64) -> Option<Decimal> {
    if !value.is_finite() || value.abs() >= 1e38 {
        return None;
    }
    Decimal::parse(&format!("{value}")).map(|(decimal, _)| decimal)
}

/// A decimal at the beginning of a text, with an exponent if there is one; zero if there is none.
fn decimal_prefix(text: &str) -> Option<Decimal> {
    let Some((decimal, end)) = Decimal::parse(text) else {
        return number_length(text).eq(&0).then_some(Decimal::whole(0));
    };
    match text.as_bytes().get(end) {
        Some(b'e' | b'E') => decimal_of(real_prefix(text)),
        _ => Some(decimal),
    }
}

/// Bytes of the number at the beginning of a text.
pub(super) fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    if matches!(bytes.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    let whole = digits(at);
    at += whole;
    let mut behind = 0;
    if bytes.get(at) == Some(&b'.') {
        behind = digits(at + 1);
        at += usize::from(whole + behind > 0) * (behind + 1);
    }
    if whole + behind == 0 {
        return 0;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        let exponent = if at + 1 + sign <= bytes.len() { digits(at + 1 + sign) } else { 0 };
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    at
}

fn real_prefix(text: &str) -> f64 {
    text[..number_length(text)].trim_start().trim_end_matches('.').parse().unwrap_or(0.0)
}

/// The whole number at the beginning of a text.
fn integer_prefix(text: &str) -> i64 {
    let trimmed = text.trim_start();
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let mut number = 0_i128;
    for digit in digits.bytes().take_while(u8::is_ascii_digit).take(38) {
        number = (number * 10 + i128::from(digit - b'0')).min(i128::from(u64::MAX));
    }
    if negative {
        (-number).max(i128::from(i64::MIN)) as i64
    } else {
        i64::try_from(number).unwrap_or(number as u64 as i64)
    }
}

/// A double as MySQL prints it: with fixed digits behind the point, or the shortest text that reads back as the same.
pub(super) fn real_text(value: f64, decimals: u8) -> String {
    // Zero has no sign.
    let value = if value == 0.0 { 0.0 } else { value };
    if decimals < FLOATING {
        let decimals = usize::from(decimals);
        // The digits that make it are rounded, not the binary number.
        let shortest = decimal_of(value).and_then(|decimal| decimal.rescaled(decimals as u8));
        return match shortest {
            Some(decimal) if value.abs() < 1e15 => decimal.to_string(),
            // Digits that a double does not have are zeros.
            _ => {
                let text = format!("{value}");
                let behind = text.split_once('.').map_or(0, |(_, behind)| behind.len());
                match (behind, decimals) {
                    (_, 0) => format!("{value:.0}"),
                    (0, _) => format!("{text}.{}", "0".repeat(decimals)),
                    (behind, _) if behind <= decimals => format!("{text}{}", "0".repeat(decimals - behind)),
                    _ => format!("{value:.decimals$}"),
                }
            }
        };
    }
    match value.abs() {
        size if size != 0.0 && !(1e-15..1e15).contains(&size) => format!("{value:e}"),
        _ => format!("{value}"),
    }
}
