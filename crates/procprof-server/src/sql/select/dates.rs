//! MySQL's functions of dates. What is no moment is NULL.

use std::fmt::Write;

use jiff::ToSpan;
use jiff::civil::DateTime;
use rusqlite::functions::Context;
use rusqlite::{Error, Result};

use super::functions::{integer, text};
use super::moment::{nanos, parse};
use crate::mysql::Value;

/// The first argument as a moment.
pub(super) fn moment(call: &Context<'_>) -> Option<DateTime> {
    text(call, 0).and_then(|text| parse(&text))
}

/// A number that is part of the first argument.
pub(super) fn part(call: &Context<'_>, part: fn(DateTime) -> i64) -> Value {
    moment(call).map_or(Value::Null, |moment| part(moment).into())
}

/// Whole days from the second argument to the first.
pub(super) fn days_between(call: &Context<'_>) -> Value {
    let day = |index| text(call, index).and_then(|text| parse(&text)).and_then(nanos).map(|nanos| nanos.div_euclid(86_400_000_000_000));
    day(0).zip(day(1)).map_or(Value::Null, |(left, right)| (left - right).into())
}

/// A moment in the format that the second argument is, of MySQL's `DATE_FORMAT`.
pub(super) fn formatted(moment: Option<DateTime>, call: &Context<'_>) -> Value {
    let (Some(moment), Some(format)) = (moment, text(call, 1)) else { return Value::Null };
    let mut made = String::with_capacity(format.len() + 16);
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            made.push(character);
            continue;
        }
        let Some(directive) = rest.next() else { break };
        if let Some((number, width)) = number(moment, directive) {
            // A text takes everything.
            let _ = write!(made, "{number:0width$}");
        } else if let Some(words) = words(directive) {
            made += &moment.strftime(words).to_string();
        } else {
            made.push(directive);
        }
    }
    made.into()
}

/// A directive that gives one number: the number, and its least count of digits.
fn number(moment: DateTime, directive: char) -> Option<(i32, usize)> {
    let year = i32::from(moment.year());
    Some(match directive {
        'Y' => (year, 4),
        'y' => (year.rem_euclid(100), 2),
        'm' => (moment.month().into(), 2),
        'c' => (moment.month().into(), 1),
        'd' => (moment.day().into(), 2),
        'e' => (moment.day().into(), 1),
        'H' => (moment.hour().into(), 2),
        'k' => (moment.hour().into(), 1),
        'i' => (moment.minute().into(), 2),
        's' | 'S' => (moment.second().into(), 2),
        'f' => (moment.subsec_nanosecond() / 1000, 6),
        _ => return None,
    })
}

/// Another directive, as strftime has it.
fn words(directive: char) -> Option<&'static str> {
    Some(match directive {
        'h' => "%I",
        'l' => "%-I",
        'r' => "%I:%M:%S %p",
        'T' => "%H:%M:%S",
        'W' => "%A",
        'M' => "%B",
        'j' => "%j",
        'p' => "%p",
        'a' => "%a",
        'b' => "%b",
        'w' => "%w",
        _ => return None,
    })
}

/// A moment so many units later, or earlier; a date stays a date.
pub(super) fn added(call: &Context<'_>, sign: i64) -> Result<Value> {
    let (Some(start), Some(text), Some(amount), Some(unit)) = (moment(call), text(call, 0), integer(call, 1), text(call, 2)) else {
        return Ok(Value::Null);
    };
    let Some(amount) = amount.checked_mul(sign).filter(|amount| amount.abs() < 100_000_000) else { return Ok(Value::Null) };
    let span = match &*unit {
        "microsecond" => amount.microseconds(),
        "second" => amount.seconds(),
        "minute" => amount.minutes(),
        "hour" if amount.abs() < 100_000 => amount.hours(),
        "day" if amount.abs() < 100_000 => amount.days(),
        "week" if amount.abs() < 10_000 => amount.weeks(),
        "month" if amount.abs() < 10_000 => amount.months(),
        "quarter" if amount.abs() < 1000 => (amount * 3).months(),
        "year" if amount.abs() < 1000 => amount.years(),
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(Error::UserFunctionError(format!("INTERVAL: {amount} {other} cannot be added").into()));
        }
    };
    let Ok(moment) = start.checked_add(span) else { return Ok(Value::Null) };
    let is_date = text.trim().len() == 10 && matches!(&*unit, "day" | "week" | "month" | "quarter" | "year");
    let format = if is_date { "%Y-%m-%d" } else { "%Y-%m-%d %H:%M:%S" };
    Ok(moment.strftime(format).to_string().into())
}
