//! MySQL's functions of dates. What is no moment is NULL.

use std::fmt::Write;

use jiff::ToSpan;
use jiff::civil::{DateTime, Time};
use jiff::tz::{Offset, TimeZone};
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
    let day = |index| {
        text(call, index)
            .and_then(|text| parse(&text))
            .and_then(nanos)
            .map(|nanos| nanos.div_euclid(86_400_000_000_000))
    };
    day(0).zip(day(1)).map_or(Value::Null, |(left, right)| (left - right).into())
}

/// A moment of one time zone in another; NULL for a zone that is not known.
pub(super) fn elsewhere(call: &Context<'_>) -> Value {
    let zone = |index| text(call, index).and_then(|name| zone(&name));
    let (Some(moment), Some(from), Some(to)) = (moment(call), zone(1), zone(2)) else { return Value::Null };
    let Ok(there) = from.to_timestamp(moment) else { return Value::Null };
    let there = to.to_datetime(there);
    let format = if there.subsec_nanosecond() == 0 { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M:%S%.6f" };
    there.strftime(format).to_string().into()
}

/// The first argument as a moment, by the format that the second is.
pub(super) fn read(call: &Context<'_>) -> Value {
    let (Some(text), Some(format)) = (text(call, 0), text(call, 1)) else { return Value::Null };
    let mut parsed = String::new();
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        let directive = if character == '%' { rest.next() } else { None };
        match directive {
            None => parsed.push(character),
            Some(directive) => match directive_of(directive) {
                Some(own) => parsed += own,
                None => return Value::Null,
            },
        }
    }
    let has_time = ["%H", "%I", "%M", "%S", "%f", "%T"].iter().any(|time| parsed.contains(time));
    match has_time {
        false => jiff::civil::Date::strptime(&parsed, &*text).map_or(Value::Null, |date| date.to_string().into()),
        true => {
            let shown = if format.contains("%f") { "%Y-%m-%d %H:%M:%S.%6f" } else { "%Y-%m-%d %H:%M:%S" };
            DateTime::strptime(&parsed, &*text).map_or(Value::Null, |moment| moment.strftime(shown).to_string().into())
        }
    }
}

/// MySQL's directive for reading, as strptime has it.
fn directive_of(directive: char) -> Option<&'static str> {
    Some(match directive {
        'Y' => "%Y",
        'y' => "%y",
        'm' | 'c' => "%m",
        'd' | 'e' => "%d",
        'H' | 'k' => "%H",
        'h' | 'I' | 'l' => "%I",
        'i' => "%M",
        's' | 'S' => "%S",
        'f' => "%f",
        'T' => "%H:%M:%S",
        'p' => "%p",
        'M' => "%B",
        'b' => "%b",
        'W' => "%A",
        'a' => "%a",
        'j' => "%j",
        '%' => "%%",
        _ => return None,
    })
}

/// The day of that number in a year.
pub(super) fn day_of_year(call: &Context<'_>) -> Value {
    let (Some(year), Some(day)) = (integer(call, 0), integer(call, 1)) else { return Value::Null };
    let first =
        i16::try_from(year).ok().filter(|year| *year > 0).and_then(|year| jiff::civil::Date::new(year, 1, 1).ok());
    let date = first.filter(|_| (1..100_000).contains(&day)).and_then(|first| first.checked_add((day - 1).days()).ok());
    date.map_or(Value::Null, |date| date.to_string().into())
}

/// A time zone by its name, or as `+02:00`.
fn zone(name: &str) -> Option<TimeZone> {
    let offset = |sign: i32, rest: &str| {
        let (hours, minutes) = rest.split_once(':')?;
        let number = |digits: &str| (1..=2).contains(&digits.len()).then(|| digits.parse::<u8>().ok()).flatten();
        let seconds =
            i32::from(number(hours)?) * 3600 + i32::from(number(minutes).filter(|minutes| *minutes < 60)?) * 60;
        // The offsets that MySQL takes.
        let offset = (seconds <= 14 * 3600).then(|| Offset::from_seconds(sign * seconds).ok()).flatten()?;
        Some(TimeZone::fixed(offset))
    };
    match name.split_at_checked(1)? {
        ("+", rest) => offset(1, rest),
        ("-", rest) => offset(-1, rest),
        _ if name.eq_ignore_ascii_case("system") => Some(TimeZone::UTC),
        _ => TimeZone::get(name).ok(),
    }
}

/// The time from the second argument to the first, as `-HH:MM:SS`; two times, or two moments.
pub(super) fn time_between(call: &Context<'_>) -> Value {
    let at = |index| text(call, index).and_then(|text| time(&text).or_else(|| parse(&text))).and_then(nanos);
    let Some(between) = at(0).zip(at(1)).and_then(|(left, right)| left.checked_sub(right)) else { return Value::Null };
    let (sign, nanos) = (if between < 0 { "-" } else { "" }, between.unsigned_abs());
    let (seconds, micros) = (nanos / 1_000_000_000, nanos % 1_000_000_000 / 1000);
    let mut made = format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if micros > 0 {
        let _ = write!(made, ".{micros:06}");
    }
    made.into()
}

/// A time of day, of the first day of 1970.
pub(super) fn time(text: &str) -> Option<DateTime> {
    text.trim().parse::<Time>().ok().map(|time| jiff::civil::date(1970, 1, 1).to_datetime(time))
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
    let (Some(start), Some(text), Some(amount), Some(unit)) =
        (moment(call), text(call, 0), integer(call, 1), text(call, 2))
    else {
        return Ok(Value::Null);
    };
    let Some(amount) = amount.checked_mul(sign).filter(|amount| amount.abs() < 100_000_000) else {
        return Ok(Value::Null);
    };
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
