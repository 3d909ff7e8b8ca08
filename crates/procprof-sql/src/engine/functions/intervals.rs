//! Moments and intervals together: `date + INTERVAL expr unit` and its relatives.

use super::super::call::Arguments;
use super::super::moment::{self, DAY, SECOND, TIME_MAX, add_months, within};
use super::super::types::SqlType;
use super::super::value::Val;
use super::dates::Answer;

/// Units of `INTERVAL`, `EXTRACT`, `TIMESTAMPDIFF`, and `TIMESTAMPADD`.
pub(in super::super) const UNITS: &[&str] = &[
    "microsecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "second_microsecond",
    "minute_microsecond",
    "minute_second",
    "hour_microsecond",
    "hour_second",
    "hour_minute",
    "day_microsecond",
    "day_second",
    "day_minute",
    "day_hour",
    "year_month",
];

/// Numbers in the text of an interval of several units, filled from the right, and its sign.
fn numbers<const N: usize>(text: &str, has_micros: bool) -> ([i64; N], i64) {
    let text = text.trim();
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let found: Vec<&str> =
        text.split(|character: char| !character.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
    let mut numbers = [0; N];
    let taken = found.len().min(N);
    for (index, digits) in found.iter().take(taken).enumerate() {
        let place = N - taken + index;
        numbers[place] = digits.parse().unwrap_or(0);
        if has_micros && place == N - 1 && digits.len() < 6 {
            numbers[place] *= 10_i64.pow(6 - digits.len() as u32);
        }
    }
    (numbers, sign)
}

/// Months and microseconds of an interval in the unit that the word names.
fn interval(call: &Arguments<'_>, index: usize, unit: &str) -> Option<(i64, i64)> {
    let clock = |days: i64, hours: i64, minutes: i64, seconds: i64, micros: i64| {
        let total = days.checked_mul(24)?.checked_add(hours)?.checked_mul(60)?.checked_add(minutes)?;
        let total = total.checked_mul(60)?.checked_add(seconds)?.checked_mul(SECOND)?.checked_add(micros)?;
        Some((0, total))
    };
    let signed =
        |sign: i64, interval: Option<(i64, i64)>| interval.map(|(months, micros)| (sign * months, sign * micros));
    if *call.value(index) == Val::Null {
        return None;
    }
    let number = || match (call.value(index), unit) {
        (Val::Text(_), "second") => None,
        (value, _) => Some(value.integer()),
    };
    match unit {
        "microsecond" => clock(0, 0, 0, 0, number()?),
        "second" => {
            let micros = call.decimal(index)?.rescaled(6)?.digits;
            Some((0, i64::try_from(micros).ok()?))
        }
        "minute" => clock(0, 0, number()?, 0, 0),
        "hour" => clock(0, number()?, 0, 0, 0),
        "day" => clock(number()?, 0, 0, 0, 0),
        "week" => clock(number()?.checked_mul(7)?, 0, 0, 0, 0),
        "month" => Some((number()?, 0)),
        "quarter" => Some((number()?.checked_mul(3)?, 0)),
        "year" => Some((number()?.checked_mul(12)?, 0)),
        _ => {
            let text = call.text(index)?;
            match unit {
                "year_month" => {
                    let ([years, months], sign) = numbers(&text, false);
                    Some((sign * (years * 12 + months), 0))
                }
                "day_hour" => {
                    let ([days, hours], sign) = numbers(&text, false);
                    signed(sign, clock(days, hours, 0, 0, 0))
                }
                "day_minute" => {
                    let ([days, hours, minutes], sign) = numbers(&text, false);
                    signed(sign, clock(days, hours, minutes, 0, 0))
                }
                "day_second" => {
                    let ([days, hours, minutes, seconds], sign) = numbers(&text, false);
                    signed(sign, clock(days, hours, minutes, seconds, 0))
                }
                "day_microsecond" => {
                    let ([days, hours, minutes, seconds, micros], sign) = numbers(&text, true);
                    signed(sign, clock(days, hours, minutes, seconds, micros))
                }
                "hour_minute" => {
                    let ([hours, minutes], sign) = numbers(&text, false);
                    signed(sign, clock(0, hours, minutes, 0, 0))
                }
                "hour_second" => {
                    let ([hours, minutes, seconds], sign) = numbers(&text, false);
                    signed(sign, clock(0, hours, minutes, seconds, 0))
                }
                "hour_microsecond" => {
                    let ([hours, minutes, seconds, micros], sign) = numbers(&text, true);
                    signed(sign, clock(0, hours, minutes, seconds, micros))
                }
                "minute_second" => {
                    let ([minutes, seconds], sign) = numbers(&text, false);
                    signed(sign, clock(0, 0, minutes, seconds, 0))
                }
                "minute_microsecond" => {
                    let ([minutes, seconds, micros], sign) = numbers(&text, true);
                    signed(sign, clock(0, 0, minutes, seconds, micros))
                }
                "second_microsecond" => {
                    let ([seconds, micros], sign) = numbers(&text, true);
                    signed(sign, clock(0, 0, 0, seconds, micros))
                }
                _ => None,
            }
        }
    }
}

/// Whether a unit is of whole days.
pub(in super::super) fn is_of_days(unit: &str) -> bool {
    matches!(unit, "day" | "week" | "month" | "quarter" | "year" | "year_month")
}

/// Digits behind the second of an interval.
pub(in super::super) fn interval_digits(amount: SqlType, unit: &str) -> u8 {
    if unit.contains("microsecond") {
        6
    } else if unit == "second" {
        match amount {
            SqlType::Text { .. } | SqlType::Double { .. } => 6,
            other => other.decimals().min(6),
        }
    } else {
        0
    }
}

/// The type of a moment and an interval of that unit together. A text stays a text.
pub(in super::super) fn shifted_type(start: SqlType, amount: SqlType, unit: &str) -> SqlType {
    let own = interval_digits(amount, unit);
    match start {
        SqlType::Date if is_of_days(unit) => SqlType::Date,
        SqlType::Date => SqlType::DateTime { digits: own },
        SqlType::DateTime { digits } => SqlType::DateTime { digits: digits.max(own) },
        SqlType::Time { digits } => SqlType::Time { digits: digits.max(own) },
        _ => SqlType::LITERAL,
    }
}

/// A moment and an interval together; the word is the sign and the unit. The third argument has the digits behind the
/// second that a text gets.
pub(in super::super) fn shifted(call: &Arguments<'_>) -> Answer {
    let (sign, unit) = match call.call.word.strip_prefix('-') {
        Some(unit) => (-1, unit),
        None => (1, call.call.word),
    };
    if let SqlType::Time { .. } = call.call.returns {
        let (Some(time), Some((0, micros))) = (call.time(0), interval(call, 1, unit)) else { return Ok(Val::Null) };
        let made = time.checked_add(sign * micros).filter(|micros| micros.abs() <= TIME_MAX);
        return Ok(made.map_or(Val::Null, Val::Time));
    }
    let (Some(start), Some((months, micros))) = (call.moment(0), interval(call, 1, unit)) else {
        return Ok(Val::Null);
    };
    let shifted = match months {
        0 => start.checked_add(sign * micros).filter(|micros| micros.abs() < 400_000 * DAY * 10),
        months => add_months(start, sign * months),
    };
    let Some(made) = shifted.and_then(within) else { return Ok(Val::Null) };
    Ok(match call.call.returns {
        SqlType::Date => Val::Date(made.div_euclid(DAY)),
        SqlType::DateTime { .. } => Val::DateTime(made),
        _ => {
            let text = call.text(0).unwrap_or_default();
            let has_time = match call.value(0) {
                Val::Text(_) => text.trim().len() > 10 || text.contains(':'),
                other => other.decimal().is_some_and(|number| number.digits > 99_991_231),
            };
            match has_time || !is_of_days(unit) {
                false => moment::date_text(made.div_euclid(DAY)).into(),
                true => {
                    let digits = call.integer(2).and_then(|digits| u8::try_from(digits).ok()).unwrap_or(6);
                    moment::moment_text(made, digits).into()
                }
            }
        }
    })
}
