//! Functions of dates, moments and times.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::super::call::Arguments;
use super::super::decimal::Decimal;
use super::super::moment::{
    self, DAY, MONTHS, SECOND, TIME_MAX, WEEKDAYS, civil, day, day_of_year, month_length, week, weekday, within,
};
use super::super::types::SqlType;
use super::super::value::Val;
use super::intervals::is_of_days;
use super::{Function, integer, literal, row};
use crate::mysql::{SqlError, SqlErrorKind};

pub(super) type Answer = Result<Val<'static>, SqlError>;

/// The functions, by name.
pub(super) const FUNCTIONS: &[Function] = &[
    row("year", (1, 1), integer, |call| of_date(call, |days| civil(days).0)),
    row("month", (1, 1), integer, |call| of_date(call, |days| civil(days).1)),
    row("day", (1, 1), integer, |call| of_date(call, |days| civil(days).2)),
    row("dayofmonth", (1, 1), integer, |call| of_date(call, |days| civil(days).2)),
    row("quarter", (1, 1), integer, |call| of_date(call, |days| (civil(days).1 + 2) / 3)),
    row("weekday", (1, 1), integer, |call| of_date(call, weekday)),
    row("dayofweek", (1, 1), integer, |call| of_date(call, |days| (weekday(days) + 1) % 7 + 1)),
    row("dayofyear", (1, 1), integer, |call| of_date(call, day_of_year)),
    row("weekofyear", (1, 1), integer, |call| of_date(call, |days| week(days, 3).1)),
    row("week", (1, 2), integer, |call| {
        let mode = if call.len() == 2 { call.integer(1) } else { Some(0) };
        let (Some(days), Some(mode)) = (date(call, 0), mode) else { return Ok(Val::Null) };
        Ok(Val::Integer(week(days, mode & 7).1))
    }),
    row("yearweek", (1, 2), integer, |call| {
        let mode = if call.len() == 2 { call.integer(1) } else { Some(0) };
        let (Some(days), Some(mode)) = (date(call, 0), mode) else { return Ok(Val::Null) };
        let (year, week) = week(days, mode & 7 | 2);
        Ok(Val::Integer(year * 100 + week))
    }),
    row("hour", (1, 1), integer, |call| of_time(call, |size| size / SECOND / 3600)),
    row("minute", (1, 1), integer, |call| of_time(call, |size| size / SECOND / 60 % 60)),
    row("second", (1, 1), integer, |call| of_time(call, |size| size / SECOND % 60)),
    row("microsecond", (1, 1), integer, |call| of_time(call, |size| size % SECOND)),
    row("dayname", (1, 1), literal, |call| {
        Ok(date(call, 0).map_or(Val::Null, |days| WEEKDAYS[weekday(days) as usize].to_owned().into()))
    }),
    row("monthname", (1, 1), literal, |call| {
        Ok(date(call, 0).map_or(Val::Null, |days| MONTHS[civil(days).1 as usize - 1].to_owned().into()))
    }),
    row(
        "last_day",
        (1, 1),
        |_| Ok(SqlType::Date),
        |call| {
            Ok(date(call, 0).map_or(Val::Null, |days| {
                let (year, month, own) = civil(days);
                Val::Date(days - own + month_length(year, month))
            }))
        },
    ),
    row("to_days", (1, 1), integer, |call| of_date(call, |days| days + EPOCH)),
    row("to_seconds", (1, 1), integer, |call| {
        Ok(call.moment(0).map_or(Val::Null, |micros| Val::Integer(micros.div_euclid(SECOND) + EPOCH * 86_400)))
    }),
    row(
        "from_days",
        (1, 1),
        |_| Ok(SqlType::Date),
        |call| {
            let days = call.integer(0).filter(|days| (366..3_652_500).contains(days));
            Ok(days.map_or(Val::Null, |days| Val::Date(days - EPOCH)))
        },
    ),
    row("datediff", (2, 2), integer, |call| {
        Ok(date(call, 0).zip(date(call, 1)).map_or(Val::Null, |(left, right)| Val::Integer(left - right)))
    }),
    row("date", (1, 1), |_| Ok(SqlType::Date), |call| Ok(date(call, 0).map_or(Val::Null, Val::Date))),
    row(
        "makedate",
        (2, 2),
        |_| Ok(SqlType::Date),
        |call| {
            let (Some(year), Some(number)) = (call.integer(0), call.integer(1)) else { return Ok(Val::Null) };
            let year = match year {
                0..=69 => year + 2000,
                70..=99 => year + 1900,
                _ => year,
            };
            let first = day(year, 1, 1).filter(|_| (1..=3_660_000).contains(&number));
            Ok(first
                .and_then(|first| within((first + number - 1) * DAY))
                .map_or(Val::Null, |micros| Val::Date(micros / DAY)))
        },
    ),
    row(
        "maketime",
        (3, 3),
        |types| Ok(SqlType::Time { digits: seconds_digits(types.get(2)) }),
        |call| {
            let (Some(hours), Some(minutes), Some(seconds)) = (call.integer(0), call.integer(1), micros(call, 2))
            else {
                return Ok(Val::Null);
            };
            if !(0..60).contains(&minutes) || !(0..60 * SECOND).contains(&seconds) {
                return Ok(Val::Null);
            }
            let size = hours.saturating_abs().saturating_mul(3600).saturating_add(minutes * 60);
            let size = size.saturating_mul(SECOND).saturating_add(seconds).min(TIME_MAX);
            Ok(Val::Time(if hours < 0 { -size } else { size }))
        },
    ),
    row(
        "sec_to_time",
        (1, 1),
        |types| Ok(SqlType::Time { digits: seconds_digits(types.first()) }),
        |call| {
            let most = TIME_MAX + SECOND - 10_i64.pow(6 - u32::from(call.call.returns.decimals().min(6)));
            let micros = match (micros(call, 0), call.real(0)) {
                (None, Some(seconds)) => {
                    if seconds < 0.0 {
                        -most
                    } else {
                        most
                    }
                }
                (None, None) => return Ok(Val::Null),
                (Some(micros), _) => micros,
            };
            Ok(Val::Time(micros.clamp(-most, most)))
        },
    ),
    row(
        "time_to_sec",
        (1, 1),
        |types| Ok(in_seconds(types.first(), time_digits)),
        |call| Ok(call.time(0).map_or(Val::Null, |micros| seconds(call, micros))),
    ),
    row("date_format", (2, 2), literal, |call| {
        let (Some(micros), Some(format)) = (call.moment(0), call.text(1)) else { return Ok(Val::Null) };
        Ok(moment::formatted(micros.div_euclid(DAY), micros.rem_euclid(DAY), &format).into())
    }),
    row("time_format", (2, 2), literal, |call| {
        let (Some(micros), Some(format)) = (call.time(0), call.text(1)) else { return Ok(Val::Null) };
        let sign = if micros < 0 { "-" } else { "" };
        Ok(format!("{sign}{}", moment::formatted(0, micros.abs(), &format)).into())
    }),
    row("period_add", (2, 2), integer, |call| {
        let (Some(period), Some(months)) = (call.integer(0), call.integer(1)) else { return Ok(Val::Null) };
        let total = months_of(period).saturating_add(months);
        Ok(Val::Integer(total.div_euclid(12).saturating_mul(100).saturating_add(total.rem_euclid(12) + 1)))
    }),
    row("period_diff", (2, 2), integer, |call| {
        let (Some(left), Some(right)) = (call.integer(0), call.integer(1)) else { return Ok(Val::Null) };
        Ok(Val::Integer(months_of(left).saturating_sub(months_of(right))))
    }),
    row(
        "convert_tz",
        (3, 3),
        |types| Ok(moment_type(types.first())),
        |call| {
            let zone = |index| call.text(index).and_then(|name| zone(&name));
            let (Some(micros), Some(from), Some(to)) = (call.moment(0), zone(1), zone(2)) else { return Ok(Val::Null) };
            let civil = TimeZone::UTC.to_datetime(jiff::Timestamp::from_microsecond(micros).unwrap_or_default());
            let there: Option<DateTime> = from.to_timestamp(civil).ok().map(|at| to.to_datetime(at));
            let micros = there.and_then(|there| TimeZone::UTC.to_timestamp(there).ok()).map(|at| at.as_microsecond());
            Ok(micros.map_or(Val::Null, Val::DateTime))
        },
    ),
    row(
        "timediff",
        (2, 2),
        |types| Ok(SqlType::Time { digits: digits(types.first()).max(digits(types.get(1))) }),
        |call| {
            let is_moment = |index: usize| match (call.kind(index), call.value(index)) {
                (SqlType::Date | SqlType::DateTime { .. }, _) => true,
                (SqlType::Text { .. }, Val::Text(text)) => text.contains('-') && !text.starts_with('-'),
                _ => false,
            };
            if call.any_null() || is_moment(0) != is_moment(1) {
                return Ok(Val::Null);
            }
            let at = |index| if is_moment(index) { call.moment(index) } else { call.time(index) };
            let between = at(0).zip(at(1)).map(|(left, right)| left.saturating_sub(right));
            Ok(between.map_or(Val::Null, |micros| Val::Time(micros.clamp(-TIME_MAX, TIME_MAX))))
        },
    ),
];

/// Days from the year 0 to 1970.
const EPOCH: i64 = 719_528;

/// Digits of a text that is a moment or time: those of a constant aren't known here, so all that there may be.
fn digits(kind: Option<&SqlType>) -> u8 {
    match kind {
        Some(SqlType::DateTime { digits } | SqlType::Time { digits }) => *digits,
        Some(SqlType::Text { .. }) => 6,
        Some(SqlType::Decimal { scale, .. }) => (*scale).min(6),
        Some(SqlType::Double { .. }) => 6,
        _ => 0,
    }
}

fn time_digits(kind: Option<&SqlType>) -> u8 {
    match kind {
        Some(SqlType::Text { .. }) => 6,
        other => digits(other),
    }
}

/// Digits behind the second of a number of seconds.
fn seconds_digits(kind: Option<&SqlType>) -> u8 {
    digits(kind)
}

pub(in super::super) fn moment_type(kind: Option<&SqlType>) -> SqlType {
    SqlType::DateTime { digits: digits(kind) }
}

/// The type of a number of seconds.
fn in_seconds(kind: Option<&SqlType>, digits: fn(Option<&SqlType>) -> u8) -> SqlType {
    match digits(kind) {
        0 => SqlType::Integer,
        digits => SqlType::decimal(digits),
    }
}

/// `UNIX_TIMESTAMP` of a moment.
pub(in super::super) fn unix(call: &Arguments<'_>) -> Answer {
    if *call.value(0) == Val::Null {
        return Ok(Val::Null);
    }
    let at = call.moment(0).filter(|micros| *micros >= 0);
    Ok(match (at, call.text(0)) {
        (Some(micros), _) => seconds(call, micros),
        (None, _) if call.moment(0).is_none() => Val::Null,
        _ => seconds(call, 0),
    })
}

/// A moment so many seconds after 1970.
pub(in super::super) fn from_unix(call: &Arguments<'_>) -> Answer {
    let at = micros(call, 0).filter(|micros| (0..=2_147_483_647 * SECOND + SECOND - 1).contains(micros));
    let Some(micros) = at else { return Ok(Val::Null) };
    if call.len() == 2 {
        let Some(format) = call.text(1) else { return Ok(Val::Null) };
        return Ok(moment::formatted(micros.div_euclid(DAY), micros.rem_euclid(DAY), &format).into());
    }
    Ok(Val::DateTime(micros))
}

pub(in super::super) fn from_unix_type(types: &[SqlType]) -> SqlType {
    match types {
        [_, _] => SqlType::LITERAL,
        _ => SqlType::DateTime { digits: digits(types.first()) },
    }
}

fn seconds(call: &Arguments<'_>, micros: i64) -> Val<'static> {
    match call.call.returns {
        SqlType::Decimal { kept, .. } => Val::Decimal(Decimal { digits: micros.into(), scale: 6 }.truncated(kept)),
        _ => Val::Integer(micros.div_euclid(SECOND)),
    }
}

/// A number of seconds in microseconds.
fn micros(call: &Arguments<'_>, index: usize) -> Option<i64> {
    let number = call.decimal(index)?.rescaled(6)?;
    i64::try_from(number.digits).ok()
}

fn months_of(period: i64) -> i64 {
    let (year, month) = (period / 100, period % 100);
    let year = match year {
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    };
    year * 12 + month - 1
}

fn date(call: &Arguments<'_>, index: usize) -> Option<i64> {
    call.moment(index).map(|micros| micros.div_euclid(DAY))
}

fn of_date(call: &Arguments<'_>, part: fn(i64) -> i64) -> Answer {
    Ok(date(call, 0).map_or(Val::Null, |days| Val::Integer(part(days))))
}

fn of_time(call: &Arguments<'_>, part: fn(i64) -> i64) -> Answer {
    Ok(call.time(0).map_or(Val::Null, |micros| Val::Integer(part(micros.abs()))))
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

/// A conversion to the date, moment or time that the result is, rounded to its digits.
pub(in super::super) fn cast(call: &Arguments<'_>) -> Answer {
    let value = call.value(0);
    let cut = |micros: i64, digits: u8| {
        let unit = 10_i64.pow(6 - u32::from(digits.min(6)));
        micros - micros.rem_euclid(unit)
    };
    let toward_zero = |micros: i64, digits: u8| if micros < 0 { -cut(-micros, digits) } else { cut(micros, digits) };
    Ok(match call.call.returns {
        SqlType::Date => value.moment().map_or(Val::Null, |micros| Val::Date(micros.div_euclid(DAY))),
        SqlType::DateTime { digits } => value.moment().map_or(Val::Null, |micros| Val::DateTime(cut(micros, digits))),
        SqlType::Time { digits } => value.time().map_or(Val::Null, |micros| Val::Time(toward_zero(micros, digits))),
        _ => Val::Null,
    })
}

/// The moment that a value is, to compare it with one; what is none is before all others.
pub(in super::super) fn moment_or_least(call: &Arguments<'_>) -> Answer {
    Ok(match call.value(0) {
        Val::Null => Val::Null,
        value => Val::DateTime(value.moment().unwrap_or(i64::MIN)),
    })
}

/// `EXTRACT(unit FROM moment)`; the word is the unit.
pub(in super::super) fn extract(call: &Arguments<'_>) -> Answer {
    let unit = call.call.word;
    if let Val::Time(time) = call.value(0)
        && time.abs() >= DAY
    {
        let text = "EXTRACT from a time of a day or more is not supported";
        return Err(SqlError::new(SqlErrorKind::NotSupported, text));
    }
    if is_of_days(unit) || unit.starts_with("day_") {
        let is_time = matches!(call.kind(0), SqlType::Time { .. });
        let Some(at) = (if is_time { call.time(0) } else { call.moment(0) }) else { return Ok(Val::Null) };
        let days = at.div_euclid(DAY);
        let (year, month, date) = civil(days);
        let date = if is_time { days } else { date };
        let clock = at.rem_euclid(DAY);
        let seconds = clock / SECOND;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        return Ok(Val::Integer(match unit {
            "year" => year,
            "quarter" => (month + 2) / 3,
            "month" => month,
            "week" => week(days, 0).1,
            "day" => date,
            "year_month" => year * 100 + month,
            "day_hour" => date * 100 + hour,
            "day_minute" => date * 10_000 + hour * 100 + minute,
            "day_second" => date * 1_000_000 + hour * 10_000 + minute * 100 + second,
            _ => (date * 1_000_000 + hour * 10_000 + minute * 100 + second) * SECOND + clock % SECOND,
        }));
    }
    let Some(time) = call.time(0) else { return Ok(Val::Null) };
    let (sign, size) = (time.signum(), time.abs());
    let seconds = size / SECOND;
    let (hour, minute, second, micros) = (seconds / 3600, seconds / 60 % 60, seconds % 60, size % SECOND);
    let number = match unit {
        "hour" => hour,
        "minute" => minute,
        "second" => second,
        "microsecond" => micros,
        "hour_minute" => hour * 100 + minute,
        "hour_second" => hour * 10_000 + minute * 100 + second,
        "hour_microsecond" => (hour * 10_000 + minute * 100 + second) * SECOND + micros,
        "minute_second" => minute * 100 + second,
        "minute_microsecond" => (minute * 100 + second) * SECOND + micros,
        _ => second * SECOND + micros,
    };
    Ok(Val::Integer(if sign < 0 { -number } else { number }))
}

/// `TIMESTAMPDIFF(unit, from, to)` of the two arguments; the word is the unit.
pub(in super::super) fn between(call: &Arguments<'_>) -> Answer {
    let (Some(from), Some(to)) = (call.moment(0), call.moment(1)) else { return Ok(Val::Null) };
    let micros = to - from;
    let months = || {
        let (first, last, sign) = if from <= to { (from, to, 1) } else { (to, from, -1) };
        let (left, right) = (civil(first.div_euclid(DAY)), civil(last.div_euclid(DAY)));
        let whole = (right.0 - left.0) * 12 + right.1 - left.1;
        let is_short = (right.2, last.rem_euclid(DAY)) < (left.2, first.rem_euclid(DAY));
        sign * (whole - i64::from(is_short))
    };
    Ok(Val::Integer(match call.call.word {
        "microsecond" => micros,
        "second" => micros / SECOND,
        "minute" => micros / SECOND / 60,
        "hour" => micros / SECOND / 3600,
        "day" => micros / DAY,
        "week" => micros / DAY / 7,
        "month" => months(),
        "quarter" => months() / 3,
        _ => months() / 12,
    }))
}

/// `ADDTIME` and `SUBTIME`, as the word is.
pub(in super::super) fn add_time(call: &Arguments<'_>) -> Answer {
    let Some(by) = call.time(1) else { return Ok(Val::Null) };
    let by = if call.call.word == "subtime" { -by } else { by };
    let as_moment = match call.kind(0) {
        SqlType::Date | SqlType::DateTime { .. } => true,
        SqlType::Text { .. } => call.text(0).is_some_and(|text| text.contains('-') && !text.starts_with('-')),
        _ => false,
    };
    if as_moment {
        let Some(made) = call.moment(0).and_then(|at| within(at + by)) else { return Ok(Val::Null) };
        return Ok(match call.call.returns {
            SqlType::DateTime { .. } => Val::DateTime(made),
            _ => moment::moment_text(made, if made % SECOND == 0 { 0 } else { 6 }).into(),
        });
    }
    let Some(made) = call.time(0).map(|at| (at + by).clamp(-TIME_MAX, TIME_MAX)) else { return Ok(Val::Null) };
    Ok(match call.call.returns {
        SqlType::Time { .. } => Val::Time(made),
        _ => moment::time_text(made, if made % SECOND == 0 { 0 } else { 6 }).into(),
    })
}
