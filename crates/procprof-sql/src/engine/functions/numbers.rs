//! Functions and operators of numbers.

use super::super::call::Arguments;
use super::super::decimal::{Decimal, INCREMENT, quotient_scale};
use super::super::types::{FLOATING, SCALE_MAX, SqlType};
use super::super::value::{Val, decimal_of};
use super::{ANY, Function, float, integer, literal, row};
use crate::mysql::{SqlError, SqlErrorKind};

type Answer = Result<Val<'static>, SqlError>;

/// The functions, by name.
pub(super) const FUNCTIONS: &[Function] = &[
    row("abs", (1, 1), same, |call| {
        Ok(match number(call, 0) {
            Val::Integer(value) => Val::Integer(value.checked_abs().ok_or_else(|| call.out_of_range("BIGINT"))?),
            Val::Decimal(value) if value.digits < 0 => Val::Decimal(value.negated()),
            Val::Double(value) => Val::Double(value.abs()),
            other => other,
        })
    }),
    row("sign", (1, 1), integer, |call| {
        Ok(call.real(0).map_or(Val::Null, |value| Val::Integer((value > 0.0) as i64 - (value < 0.0) as i64)))
    }),
    row("floor", (1, 1), whole, |call| to_whole(call, f64::floor, -1)),
    row("ceil", (1, 1), whole, |call| to_whole(call, f64::ceil, 1)),
    row("ceiling", (1, 1), whole, |call| to_whole(call, f64::ceil, 1)),
    row("sqrt", (1, 1), float, |call| real(call, f64::sqrt)),
    row("exp", (1, 1), float, |call| match call.real(0).map(f64::exp) {
        Some(value) if value.is_infinite() => Err(call.out_of_range("DOUBLE")),
        value => Ok(value.map_or(Val::Null, Val::Double)),
    }),
    row("ln", (1, 1), float, |call| positive(call, f64::ln)),
    row("log2", (1, 1), float, |call| positive(call, |value| value.ln() / std::f64::consts::LN_2)),
    row("log10", (1, 1), float, |call| positive(call, f64::log10)),
    row("log", (1, 2), float, |call| match (call.len(), call.real(0), call.real(1)) {
        (1, ..) => positive(call, f64::ln),
        (_, Some(base), Some(value)) if base > 0.0 && base != 1.0 && value > 0.0 => {
            Ok(Val::Double(value.ln() / base.ln()))
        }
        _ => Ok(Val::Null),
    }),
    row("sin", (1, 1), float, |call| real(call, f64::sin)),
    row("cos", (1, 1), float, |call| real(call, f64::cos)),
    row("tan", (1, 1), float, |call| real(call, f64::tan)),
    row("cot", (1, 1), float, |call| real(call, |value| 1.0 / value.tan())),
    row("asin", (1, 1), float, |call| real(call, f64::asin)),
    row("acos", (1, 1), float, |call| real(call, f64::acos)),
    row("atan", (1, 2), float, atan),
    row("atan2", (2, 2), float, atan),
    row("radians", (1, 1), float, |call| real(call, |value| value * (std::f64::consts::PI / 180.0))),
    row("degrees", (1, 1), float, |call| real(call, |value| value * (180.0 / std::f64::consts::PI))),
    row("pi", (0, 0), |_| Ok(SqlType::Double { decimals: 6 }), |_| Ok(Val::Double(std::f64::consts::PI))),
    row("pow", (2, 2), float, power),
    row("power", (2, 2), float, power),
    row("mod", (2, 2), remainder_type, remainder),
    row("round", (1, 2), |_| Ok(SqlType::Null), |_| Ok(Val::Null)),
    row("truncate", (2, 2), |_| Ok(SqlType::Null), |_| Ok(Val::Null)),
    row("conv", (3, 3), literal, conv),
    row("bin", (1, 1), literal, |call| in_base(call, 2)),
    row("oct", (1, 1), literal, |call| in_base(call, 8)),
    row("bit_count", (1, 1), integer, |call| {
        only_whole(call).map(|()| bits(call, 0).map_or(Val::Null, |bits| Val::Integer(bits.count_ones().into())))
    }),
    row("crc32", (1, 1), integer, |call| {
        let Some(bytes) = call.bytes(0) else { return Ok(Val::Null) };
        let mut sum = !0_u32;
        for byte in bytes.iter() {
            sum ^= u32::from(*byte);
            for _ in 0..8 {
                sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
            }
        }
        Ok(Val::Integer((!sum).into()))
    }),
    row("interval", (2, ANY), integer, |call| {
        let Some(wanted) = call.real(0) else { return Ok(Val::Integer(-1)) };
        let passed = (1..call.len()).take_while(|index| call.real(*index).is_none_or(|bound| wanted >= bound));
        Ok(Val::Integer(passed.count() as i64))
    }),
];

/// A value as a number of its numeric type.
pub(in super::super) fn number(call: &Arguments<'_>, index: usize) -> Val<'static> {
    let value = call.value(index);
    if *value == Val::Null {
        return Val::Null;
    }
    match call.kind(index).numeric() {
        SqlType::Integer => Val::Integer(value.integer()),
        SqlType::Unsigned => Val::Unsigned(value.unsigned()),
        SqlType::Decimal { kept, .. } => {
            value.decimal().map_or(Val::Null, |value| Val::Decimal(value.rescaled(kept).unwrap_or(value)))
        }
        SqlType::Null => Val::Null,
        _ => Val::Double(value.real()),
    }
}

fn same(types: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(types.first().map_or(SqlType::FLOAT, |kind| kind.numeric()))
}

fn real(call: &Arguments<'_>, function: fn(f64) -> f64) -> Answer {
    Ok(call.real(0).map(function).filter(|value| value.is_finite()).map_or(Val::Null, Val::Double))
}

fn positive(call: &Arguments<'_>, function: fn(f64) -> f64) -> Answer {
    Ok(call.real(0).filter(|value| *value > 0.0).map_or(Val::Null, |value| Val::Double(function(value))))
}

fn atan(call: &Arguments<'_>) -> Answer {
    Ok(match (call.len(), call.real(0), call.real(1)) {
        (1, Some(value), _) => Val::Double(value.atan()),
        (2, Some(y), Some(x)) => Val::Double(y.atan2(x)),
        _ => Val::Null,
    })
}

fn power(call: &Arguments<'_>) -> Answer {
    let (Some(base), Some(exponent)) = (call.real(0), call.real(1)) else { return Ok(Val::Null) };
    let value = base.powf(exponent);
    if value.is_finite() { Ok(Val::Double(value)) } else { Err(call.out_of_range("DOUBLE")) }
}

fn whole(types: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(match types.first().map(|kind| kind.numeric()) {
        Some(SqlType::Decimal { .. }) => SqlType::decimal(0),
        Some(SqlType::Double { .. }) | None => SqlType::Double { decimals: 0 },
        Some(other) => other,
    })
}

fn to_whole(call: &Arguments<'_>, function: fn(f64) -> f64, direction: i128) -> Answer {
    Ok(match number(call, 0) {
        Val::Double(value) => Val::Double(function(value)),
        Val::Decimal(value) => {
            let whole = value.truncated(0);
            let rest = value.digits - whole.digits * 10_i128.pow(value.scale.into());
            let is_beyond = rest.signum() == direction;
            Val::Decimal(Decimal { digits: whole.digits + if is_beyond { direction } else { 0 }, scale: 0 })
        }
        other => other,
    })
}

fn bits(call: &Arguments<'_>, index: usize) -> Option<u64> {
    match call.value(index) {
        Val::Null => None,
        Val::Unsigned(value) => Some(*value),
        Val::Decimal(value) if value.digits > 0 => Some(u64::try_from(value.integer()).unwrap_or(u64::MAX)),
        Val::Double(value) if *value > 0.0 => Some(value.round_ties_even() as u64),
        Val::Bytes(bytes) => {
            Some(bytes.iter().rev().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        }
        other => Some(other.integer() as u64),
    }
}

fn conv(call: &Arguments<'_>) -> Answer {
    let (Some(text), Some(from), Some(to)) = (call.text(0), call.integer(1), call.integer(2)) else {
        return Ok(Val::Null);
    };
    if !(2..=36).contains(&from.abs()) || !(2..=36).contains(&to.abs()) {
        return Ok(Val::Null);
    }
    Ok(converted(&text, from, to))
}

/// The number at the beginning of a text in another base; NULL for an empty text.
fn converted(text: &str, from: i64, to: i64) -> Val<'static> {
    if text.is_empty() {
        return Val::Null;
    }
    let text = text.trim_start();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let mut number = 0_u64;
    for digit in digits.chars().map_while(|character| character.to_digit(from.unsigned_abs() as u32)) {
        number = number.saturating_mul(from.unsigned_abs()).saturating_add(digit.into());
    }
    let number = if negative { number.wrapping_neg() } else { number };
    based(number, to).into()
}

fn based(number: u64, base: i64) -> String {
    let signed = number as i64;
    let (sign, mut rest) = if base < 0 && signed < 0 { ("-", signed.unsigned_abs()) } else { ("", number) };
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((rest % base.unsigned_abs()) as u32, 36).unwrap_or('0').to_ascii_uppercase());
        rest /= base.unsigned_abs();
        if rest == 0 {
            break;
        }
    }
    format!("{sign}{}", digits.iter().rev().collect::<String>())
}

fn in_base(call: &Arguments<'_>, base: i64) -> Answer {
    Ok(call.text(0).map_or(Val::Null, |text| converted(&text, 10, base)))
}

fn arithmetic_type(types: &[SqlType], decimals: fn(u8, u8) -> u8) -> SqlType {
    let [left, right] = [0, 1].map(|index| types.get(index).copied().unwrap_or(SqlType::Null).numeric());
    match (left, right) {
        (SqlType::Null, SqlType::Null) => SqlType::FLOAT,
        (SqlType::Double { .. }, _) | (_, SqlType::Double { .. }) => {
            let (left, right) = (left.decimals(), right.decimals());
            let fixed = left < FLOATING && right < FLOATING;
            SqlType::Double { decimals: if fixed { decimals(left, right).min(FLOATING) } else { FLOATING } }
        }
        (SqlType::Decimal { .. }, _) | (_, SqlType::Decimal { .. }) => SqlType::Decimal {
            scale: decimals(left.decimals(), right.decimals()).min(SCALE_MAX),
            kept: decimals(left.kept(), right.kept()).min(SCALE_MAX),
        },
        (SqlType::Unsigned, _) | (_, SqlType::Unsigned) => SqlType::Unsigned,
        _ => SqlType::Integer,
    }
}

pub(in super::super) fn sum_type(types: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(arithmetic_type(types, u8::max))
}

pub(in super::super) fn product_type(types: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(arithmetic_type(types, |left, right| left + right))
}

pub(in super::super) fn quotient_type(types: &[SqlType]) -> Result<SqlType, SqlError> {
    let [left, right] = [0, 1].map(|index| types.get(index).copied().unwrap_or(SqlType::Null).numeric());
    if let (SqlType::Double { .. }, _) | (_, SqlType::Double { .. }) = (left, right) {
        let (left, right) = (left.decimals(), right.decimals());
        let fixed = left < FLOATING && right < FLOATING;
        return Ok(SqlType::Double {
            decimals: if fixed { (left.max(right) + INCREMENT).min(FLOATING) } else { FLOATING },
        });
    }
    let scale = (left.decimals() + INCREMENT).min(SCALE_MAX);
    Ok(SqlType::Decimal { scale, kept: quotient_scale(left.kept(), right.kept()).max(scale) })
}

pub(in super::super) fn remainder_type(types: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(match arithmetic_type(types, u8::max) {
        SqlType::Unsigned if types.first().is_some_and(|kind| *kind != SqlType::Unsigned) => SqlType::Integer,
        other => other,
    })
}

pub(in super::super) fn whole_quotient_type(types: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(if types.contains(&SqlType::Unsigned) { SqlType::Unsigned } else { SqlType::Integer })
}

/// The two arguments as numbers of one kind.
enum Pair {
    Whole(i128, i128),
    Exact(Decimal, Decimal),
    Real(f64, f64),
}

fn pair(call: &Arguments<'_>, double: bool) -> Option<Pair> {
    let (left, right) = (number(call, 0), number(call, 1));
    if left == Val::Null || right == Val::Null {
        return None;
    }
    if double {
        return Some(Pair::Real(left.real(), right.real()));
    }
    let whole = |value: &Val<'_>| match value {
        Val::Integer(value) => Some(i128::from(*value)),
        Val::Unsigned(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (whole(&left), whole(&right)) {
        (Some(left), Some(right)) => Some(Pair::Whole(left, right)),
        _ => Some(Pair::Exact(left.decimal()?, right.decimal()?)),
    }
}

/// The result of a computation in whole numbers.
fn ranged(call: &Arguments<'_>, value: Option<i128>) -> Answer {
    let value = value.ok_or_else(|| call.out_of_range("BIGINT"))?;
    match call.call.returns {
        SqlType::Unsigned => u64::try_from(value).map(Val::Unsigned).map_err(|_| call.out_of_range("BIGINT UNSIGNED")),
        _ => i64::try_from(value).map(Val::Integer).map_err(|_| call.out_of_range("BIGINT")),
    }
}

fn exact(call: &Arguments<'_>, value: Option<Decimal>) -> Answer {
    let too_long = || {
        let text = format!("'{}' of decimals with more than 38 digits is not supported", call.call.name);
        SqlError::new(SqlErrorKind::NotSupported, text)
    };
    value.map(Val::Decimal).ok_or_else(too_long)
}

fn computed(
    call: &Arguments<'_>,
    whole: fn(i128, i128) -> Option<i128>,
    decimal: fn(Decimal, Decimal) -> Option<Decimal>,
    double: fn(f64, f64) -> f64,
) -> Answer {
    match pair(call, matches!(call.call.returns, SqlType::Double { .. })) {
        None => Ok(Val::Null),
        Some(Pair::Whole(left, right)) => ranged(call, whole(left, right)),
        Some(Pair::Exact(left, right)) => exact(call, decimal(left, right)),
        Some(Pair::Real(left, right)) => {
            let value = double(left, right);
            if value.is_finite() { Ok(Val::Double(value)) } else { Err(call.out_of_range("DOUBLE")) }
        }
    }
}

pub(in super::super) fn sum(call: &Arguments<'_>) -> Answer {
    computed(call, i128::checked_add, Decimal::add, |left, right| left + right)
}

pub(in super::super) fn difference(call: &Arguments<'_>) -> Answer {
    computed(call, i128::checked_sub, |left, right| left.add(right.negated()), |left, right| left - right)
}

pub(in super::super) fn product(call: &Arguments<'_>) -> Answer {
    computed(call, i128::checked_mul, Decimal::multiply, |left, right| left * right)
}

pub(in super::super) fn quotient(call: &Arguments<'_>) -> Answer {
    let SqlType::Decimal { kept, .. } = call.call.returns else {
        return match pair(call, true) {
            Some(Pair::Real(left, right)) if right != 0.0 => Ok(Val::Double(left / right)),
            _ => Ok(Val::Null),
        };
    };
    let (left, right) = match pair(call, false) {
        None => return Ok(Val::Null),
        Some(Pair::Whole(left, right)) => (Decimal { digits: left, scale: 0 }, Decimal { digits: right, scale: 0 }),
        Some(Pair::Exact(left, right)) => (left, right),
        Some(Pair::Real(..)) => return Ok(Val::Null),
    };
    if right.digits == 0 {
        return Ok(Val::Null);
    }
    exact(call, left.divide(right, kept))
}

pub(in super::super) fn whole_quotient(call: &Arguments<'_>) -> Answer {
    if call.any_null() {
        return Ok(Val::Null);
    }
    let has_real = (0..2).any(|index| matches!(call.kind(index).numeric(), SqlType::Double { .. }));
    let whole = match pair(call, false) {
        None => return Ok(Val::Null),
        Some(Pair::Whole(_, 0)) => return Ok(Val::Null),
        Some(Pair::Whole(left, right)) => Some(left / right),
        Some(Pair::Exact(left, right)) if !has_real || left.scale <= SCALE_MAX => {
            if right.digits == 0 {
                return Ok(Val::Null);
            }
            left.divide(right, 0).map(|value| value.digits)
        }
        Some(_) => None,
    };
    ranged(call, whole)
}

pub(in super::super) fn remainder(call: &Arguments<'_>) -> Answer {
    match pair(call, matches!(call.call.returns, SqlType::Double { .. })) {
        None => Ok(Val::Null),
        Some(Pair::Whole(_, 0)) => Ok(Val::Null),
        Some(Pair::Whole(left, right)) => ranged(call, Some(left % right)),
        Some(Pair::Exact(_, right)) if right.digits == 0 => Ok(Val::Null),
        Some(Pair::Exact(left, right)) => exact(call, left.remainder(right)),
        Some(Pair::Real(_, 0.0)) => Ok(Val::Null),
        Some(Pair::Real(left, right)) => Ok(Val::Double(left % right)),
    }
}

pub(in super::super) fn negative(call: &Arguments<'_>) -> Answer {
    Ok(match number(call, 0) {
        Val::Integer(value) => ranged(call, Some(-i128::from(value)))?,
        Val::Unsigned(value) => ranged(call, Some(-i128::from(value)))?,
        Val::Decimal(value) => Val::Decimal(value.negated()),
        Val::Double(value) => Val::Double(-value),
        other => other,
    })
}

pub(in super::super) fn negative_type(types: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(match types.first().map(|kind| kind.numeric()) {
        Some(SqlType::Unsigned) => SqlType::Integer,
        Some(other) => other,
        None => SqlType::FLOAT,
    })
}

/// Refuses texts of numbers that are not whole, which servers round in different ways.
fn only_whole(call: &Arguments<'_>) -> Result<(), SqlError> {
    let is_part = |value: &Val<'_>| matches!(value, Val::Text(_)) && value.real().fract() != 0.0;
    match call.values.iter().any(is_part) {
        true => Err(SqlError::new(SqlErrorKind::NotSupported, "bits of a text with a fraction are not supported")),
        false => Ok(()),
    }
}

pub(in super::super) fn bitwise(call: &Arguments<'_>) -> Answer {
    only_whole(call)?;
    let (Some(left), Some(right)) = (bits(call, 0), bits(call, 1)) else { return Ok(Val::Null) };
    Ok(Val::Unsigned(match call.call.word {
        "|" => left | right,
        "&" => left & right,
        "^" => left ^ right,
        "<<" => u32::try_from(right).ok().and_then(|right| left.checked_shl(right)).unwrap_or(0),
        _ => u32::try_from(right).ok().and_then(|right| left.checked_shr(right)).unwrap_or(0),
    }))
}

pub(in super::super) fn inverted(call: &Arguments<'_>) -> Answer {
    only_whole(call)?;
    Ok(bits(call, 0).map_or(Val::Null, |bits| Val::Unsigned(!bits)))
}

/// The type of `ROUND` and `TRUNCATE` to so many digits, where that is a constant.
pub(in super::super) fn rounded_type(kind: SqlType, digits: Option<i64>) -> SqlType {
    let Some(digits) = digits else {
        return match kind.numeric() {
            SqlType::Double { .. } | SqlType::Null => SqlType::FLOAT,
            other => other,
        };
    };
    let wanted = u8::try_from(digits.clamp(0, i64::from(SCALE_MAX))).unwrap_or(0);
    match kind.numeric() {
        SqlType::Null => SqlType::Double { decimals: wanted },
        SqlType::Double { .. } => SqlType::Double { decimals: wanted },
        SqlType::Decimal { .. } => SqlType::decimal(wanted),
        other => other,
    }
}

/// `ROUND` and `TRUNCATE`, the second argument given.
pub(in super::super) fn rounded(call: &Arguments<'_>) -> Answer {
    let (value, Some(digits)) = (number(call, 0), call.integer(1)) else { return Ok(Val::Null) };
    let truncates = call.call.word == "truncate";
    let at = |decimal: Decimal| {
        if digits >= 0 {
            let scale = (digits as u64).min(SCALE_MAX.into()) as u8;
            return match scale >= decimal.scale {
                true => Some(decimal),
                false if truncates => Some(decimal.truncated(scale)),
                false => decimal.rescaled(scale),
            };
        }
        let places = u32::try_from(-digits).ok().filter(|places| *places < 38)?;
        let whole = decimal.truncated(0).digits;
        let unit = 10_i128.pow(places);
        let kept = whole / unit * unit;
        let exact = decimal.rescaled(decimal.scale)?;
        let half = Decimal { digits: unit / 2, scale: 0 };
        let rest = exact.add(Decimal { digits: -kept, scale: 0 })?;
        let size = if rest.digits < 0 { rest.negated() } else { rest };
        let up = !truncates && size.compare(half).is_ge() && unit > 1;
        Some(Decimal { digits: kept + if up { unit * if exact.digits < 0 { -1 } else { 1 } } else { 0 }, scale: 0 })
    };
    Ok(match value {
        Val::Null => Val::Null,
        Val::Double(value) => {
            let factor = 10_f64.powi(digits.unsigned_abs().min(400) as i32);
            let round = |value: f64| if truncates { value.trunc() } else { value.round_ties_even() };
            let scaled = if digits >= 0 { value * factor } else { value / factor };
            let rounded = match scaled.is_finite() {
                false => value,
                true if digits >= 0 => round(scaled) / factor,
                true => round(scaled) * factor,
            };
            Val::Double(if factor.is_finite() {
                rounded
            } else if digits >= 0 {
                value
            } else {
                0.0
            })
        }
        Val::Decimal(value) => Val::Decimal(at(value).unwrap_or(Decimal::whole(0))),
        whole => match digits >= 0 {
            true => whole,
            false => {
                let value = at(whole.decimal().unwrap_or(Decimal::whole(0))).unwrap_or(Decimal::whole(0)).digits;
                return ranged(call, Some(value));
            }
        },
    })
}

/// A moment or time as a number without the digits behind its second.
fn whole_moment(value: &Val<'_>) -> i64 {
    value.decimal().map_or(0, |value| value.truncated(0).digits as i64)
}

/// A conversion to a number of the type of the result.
pub(in super::super) fn cast(call: &Arguments<'_>) -> Answer {
    let value = call.value(0);
    if *value == Val::Null {
        return Ok(Val::Null);
    }
    Ok(match call.call.returns {
        SqlType::Integer | SqlType::Logical => match value {
            Val::Unsigned(value) => Val::Integer(*value as i64),
            Val::Double(value) => Val::Integer(value.round_ties_even() as i64),
            Val::DateTime(_) | Val::Time(_) => Val::Integer(whole_moment(value)),
            other => Val::Integer(other.integer()),
        },
        SqlType::Unsigned => Val::Unsigned(match value {
            Val::Integer(value) => *value as u64,
            Val::Double(value) if *value <= -0.5 => {
                let text = "CAST of a negative floating-point number AS UNSIGNED is not supported";
                return Err(SqlError::new(SqlErrorKind::NotSupported, text));
            }
            Val::Decimal(number) if number.digits < 0 => 0,
            Val::DateTime(_) | Val::Time(_) => whole_moment(value) as u64,
            other => other.unsigned(),
        }),
        SqlType::Decimal { .. } => value.decimal().map_or(Val::Null, Val::Decimal),
        SqlType::Double { .. } => Val::Double(value.real()),
        _ => value.clone().into_owned(),
    })
}

/// A decimal within the digits of `DECIMAL(precision, scale)`, which its word has as the precision.
pub(in super::super) fn bounded(call: &Arguments<'_>) -> Answer {
    let SqlType::Decimal { scale, .. } = call.call.returns else { return Ok(Val::Null) };
    let precision: u32 = call.call.word.parse().unwrap_or(38);
    let value = match call.value(0) {
        Val::Null => return Ok(Val::Null),
        Val::Double(value) => decimal_of(*value),
        other => other.decimal(),
    };
    let most = 10_i128.pow(precision.min(38)) - 1;
    let digits = value.and_then(|value| value.rescaled(scale)).map_or(most, |value| value.digits);
    Ok(Val::Decimal(Decimal { digits: digits.clamp(-most, most), scale }))
}
