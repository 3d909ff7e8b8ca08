//! Functions beside SQLite's: those MySQL has and clients use. Moments are UTC.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use super::dates::{added, day_of_year, days_between, elsewhere, formatted, moment, part, read, time, time_between};
use super::moment::{datetime, nanos, parse};
use super::sandbox::LENGTH_MAX;
use super::statement_context::StatementContext;
use super::texts::{Ends, concat, given_up, instr, like, matches, position, replace, room, trim};
use super::virtual_table::value;
use crate::mysql::Value;

/// A function: its name, its number of arguments (-1 for any), and what it gives.
type Function = (&'static str, i32, fn(&Context<'_>) -> Result<Value>);

/// A value of more bytes is large: a function that takes or makes one looks whether the statement may go on.
const LARGE_VALUE_BYTES: usize = 16 << 10;
/// How long `SLEEP` sleeps before it looks whether it may go on.
const NAP: Duration = Duration::from_millis(20);

/// Our own functions, some of which replace SQLite's.
const FUNCTIONS: &[Function] = &[
    ("concat", -1, concat),
    ("left", 2, |call| cut(call, |text, count| text.chars().take(count).collect())),
    ("right", 2, |call| {
        cut(call, |text, count| text.chars().skip(text.chars().count().saturating_sub(count)).collect())
    }),
    ("lpad", 3, |call| pad(call, |text, filling| filling + text)),
    ("rpad", 3, |call| pad(call, |text, filling| text.to_owned() + &filling)),
    ("instr", 2, instr),
    ("replace", 3, replace),
    ("trim", 1, |call| trim(call, Ends::Both)),
    ("trim", 2, |call| trim(call, Ends::Both)),
    ("ltrim", 1, |call| trim(call, Ends::Left)),
    ("ltrim", 2, |call| trim(call, Ends::Left)),
    ("rtrim", 1, |call| trim(call, Ends::Right)),
    ("rtrim", 2, |call| trim(call, Ends::Right)),
    ("repeat", 2, |call| {
        let (Some(text), Some(count)) = (text(call, 0), integer(call, 1)) else { return Ok(Value::Null) };
        let count = usize::try_from(count).unwrap_or(0);
        room(text.len().saturating_mul(count))?;
        Ok(text.repeat(count).into())
    }),
    ("reverse", 1, |call| map(call, |text| text.chars().rev().collect())),
    ("ucase", 1, |call| map(call, str::to_uppercase)),
    ("lcase", 1, |call| map(call, str::to_lowercase)),
    ("char_length", 1, |call| Ok(text(call, 0).map_or(Value::Null, |text| (text.chars().count() as i64).into()))),
    ("character_length", 1, |call| Ok(text(call, 0).map_or(Value::Null, |text| (text.chars().count() as i64).into()))),
    ("locate", 2, |call| Ok(position(text(call, 0), text(call, 1)))),
    ("substring_index", 3, substring_index),
    ("find_in_set", 2, |call| {
        let (Some(wanted), Some(set)) = (text(call, 0), text(call, 1)) else { return Ok(Value::Null) };
        let place = set.split(',').position(|one| one == wanted).map_or(0, |place| place as i64 + 1);
        Ok(place.into())
    }),
    ("greatest", -1, |call| Ok(extreme(call, |left, right| left > right))),
    ("least", -1, |call| Ok(extreme(call, |left, right| left < right))),
    ("isnull", 1, |call| Ok(i64::from(call.get_raw(0) == ValueRef::Null).into())),
    ("mod", 2, |call| {
        let (Some(left), Some(right)) = (real(call, 0), real(call, 1)) else { return Ok(Value::Null) };
        Ok(if right == 0.0 { Value::Null } else { number(left % right) })
    }),
    ("floor", 1, |call| math(call, f64::floor)),
    ("ceil", 1, |call| math(call, f64::ceil)),
    ("ceiling", 1, |call| math(call, f64::ceil)),
    ("sqrt", 1, |call| math(call, f64::sqrt)),
    ("ln", 1, |call| math(call, f64::ln)),
    ("log2", 1, |call| math(call, f64::log2)),
    ("log10", 1, |call| math(call, f64::log10)),
    ("exp", 1, |call| math(call, f64::exp)),
    ("pow", 2, power),
    ("power", 2, power),
    ("truncate", 2, |call| {
        let (Some(value), Some(digits)) = (real(call, 0), integer(call, 1)) else { return Ok(Value::Null) };
        let factor = 10_f64.powi(digits.clamp(-18, 18) as i32);
        Ok(number((value * factor).trunc() / factor))
    }),
    ("unix_timestamp", 1, |call| {
        Ok(moment(call).and_then(nanos).map_or(Value::Null, |nanos| nanos.div_euclid(1_000_000_000).into()))
    }),
    ("from_unixtime", 1, |call| {
        Ok(real(call, 0).map_or(Value::Null, |seconds| datetime((seconds * 1e9) as i64, 0).into()))
    }),
    ("from_unixtime", 2, |call| {
        let moment = real(call, 0).map(|seconds| datetime((seconds * 1e9) as i64, 0)).and_then(|text| parse(&text));
        Ok(formatted(moment, call))
    }),
    ("date_format", 2, |call| Ok(formatted(moment(call), call))),
    ("date_add", 3, |call| added(call, 1)),
    ("adddate", 3, |call| added(call, 1)),
    ("date_sub", 3, |call| added(call, -1)),
    ("subdate", 3, |call| added(call, -1)),
    ("year", 1, |call| Ok(part(call, |moment| moment.year().into()))),
    ("month", 1, |call| Ok(part(call, |moment| moment.month().into()))),
    ("day", 1, |call| Ok(part(call, |moment| moment.day().into()))),
    ("dayofmonth", 1, |call| Ok(part(call, |moment| moment.day().into()))),
    ("hour", 1, |call| Ok(part(call, |moment| moment.hour().into()))),
    ("minute", 1, |call| Ok(part(call, |moment| moment.minute().into()))),
    ("second", 1, |call| Ok(part(call, |moment| moment.second().into()))),
    ("datediff", 2, |call| Ok(days_between(call))),
    ("str_to_date", 2, |call| Ok(read(call))),
    ("makedate", 2, |call| Ok(day_of_year(call))),
    ("convert_tz", 3, |call| Ok(elsewhere(call))),
    ("timediff", 2, |call| Ok(time_between(call))),
    ("time_format", 2, |call| Ok(formatted(text(call, 0).and_then(|text| time(&text)), call))),
    ("quarter", 1, |call| Ok(part(call, |moment| (i64::from(moment.month()) + 2) / 3))),
    ("dayofweek", 1, |call| Ok(part(call, |moment| i64::from(moment.weekday().to_sunday_one_offset())))),
    ("weekday", 1, |call| Ok(part(call, |moment| i64::from(moment.weekday().to_monday_zero_offset())))),
    ("dayofyear", 1, |call| Ok(part(call, |moment| moment.day_of_year().into()))),
];

/// A function that looks at the statement's watch while it runs.
type Watched = (&'static str, i32, fn(&Context<'_>, &StatementContext) -> Result<Value>);

const WATCHED: &[Watched] = &[
    ("sleep", 1, sleep),
    ("like", 2, like),
    ("like", 3, like),
    ("regexp", 2, |call, statement| matches(call, statement, 0, 1)),
    ("regexp_like", 2, |call, statement| matches(call, statement, 1, 0)),
];

/// SQLite's own that may be called.
const BUILT_IN: &[&str] = &[
    "abs",
    "avg",
    "char",
    "coalesce",
    "concat_ws",
    "count",
    "cume_dist",
    "date",
    "datetime",
    "dense_rank",
    "first_value",
    "format",
    "group_concat",
    "hex",
    "if",
    "ifnull",
    "iif",
    "json",
    "json_array",
    "json_array_length",
    "json_each",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_object",
    "json_quote",
    "json_tree",
    "json_type",
    "json_valid",
    "julianday",
    "lag",
    "last_value",
    "lead",
    "length",
    "likelihood",
    "likely",
    "lower",
    "max",
    "min",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "printf",
    "quote",
    "random",
    "rank",
    "round",
    "row_number",
    "sign",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "sum",
    "time",
    "total",
    "typeof",
    "unhex",
    "unicode",
    "unixepoch",
    "unlikely",
    "upper",
    "->",
    "->>",
];

/// Whether statements may call a function.
pub(super) fn is_known(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WATCHED.iter().any(|(own, ..)| *own == name)
        || BUILT_IN.contains(&name.as_str())
        || FUNCTIONS.iter().any(|(own, ..)| *own == name)
}

/// Makes the functions known to a connection.
///
/// # Errors
/// SQLite's.
pub(super) fn register(connection: &Connection, statement: &Arc<StatementContext>) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    let constant = flags | FunctionFlags::SQLITE_DETERMINISTIC;
    for (name, arguments, function) in FUNCTIONS {
        let statement = Arc::clone(statement);
        connection
            .create_scalar_function(*name, *arguments, constant, move |call| bounded(call, &statement, *function))?;
    }
    for (name, arguments, function) in WATCHED {
        let (statement, own) = (Arc::clone(statement), if *name == "sleep" { flags } else { constant });
        connection.create_scalar_function(*name, *arguments, own, move |call| function(call, &statement))?;
    }
    Ok(())
}

/// Calls a function; one that takes or makes large values only while the statement may go on.
fn bounded(
    call: &Context<'_>,
    statement: &StatementContext,
    function: fn(&Context<'_>) -> Result<Value>,
) -> Result<Value> {
    let look = || statement.go_on().map_err(|failure| given_up(statement, failure));
    let is_large = |index| matches!(call.get_raw(index), ValueRef::Text(bytes) | ValueRef::Blob(bytes) if bytes.len() > LARGE_VALUE_BYTES);
    if (0..call.len()).any(is_large) {
        look()?;
    }
    let value = function(call)?;
    if value.weight() > LARGE_VALUE_BYTES {
        look()?;
    }
    Ok(value)
}

/// Sleeps so many seconds, or until the statement must end.
fn sleep(call: &Context<'_>, statement: &StatementContext) -> Result<Value> {
    let seconds = real(call, 0).unwrap_or(0.0).clamp(0.0, 86_400.0);
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < until {
        statement.go_on().map_err(|failure| given_up(statement, failure))?;
        std::thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
    }
    Ok(Value::Integer(0))
}

/// An argument as text; `None` for NULL.
pub(super) fn text<'a>(call: &'a Context<'_>, index: usize) -> Option<Cow<'a, str>> {
    Some(match call.get_raw(index) {
        ValueRef::Null => return None,
        ValueRef::Integer(value) => value.to_string().into(),
        ValueRef::Real(value) => value.to_string().into(),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text),
    })
}

/// An argument as a number; text counts as far as it is one.
fn real(call: &Context<'_>, index: usize) -> Option<f64> {
    match call.get_raw(index) {
        ValueRef::Null => None,
        other => Some(as_real(&value(other))),
    }
}

/// An argument as a whole number.
pub(super) fn integer(call: &Context<'_>, index: usize) -> Option<i64> {
    match call.get_raw(index) {
        ValueRef::Integer(value) => Some(value),
        _ => real(call, index).map(|value| value as i64),
    }
}

/// A whole number as an integer.
fn number(value: f64) -> Value {
    let is_whole = value.fract() == 0.0 && value.abs() < 9e15;
    if is_whole { Value::Integer(value as i64) } else { Value::Real(value) }
}

fn math(call: &Context<'_>, function: fn(f64) -> f64) -> Result<Value> {
    let result = real(call, 0).map(function).filter(|result| result.is_finite());
    Ok(result.map_or(Value::Null, number))
}

fn power(call: &Context<'_>) -> Result<Value> {
    let (Some(base), Some(exponent)) = (real(call, 0), real(call, 1)) else { return Ok(Value::Null) };
    Ok(number(base.powf(exponent)))
}

fn map(call: &Context<'_>, function: impl Fn(&str) -> String) -> Result<Value> {
    Ok(text(call, 0).map_or(Value::Null, |text| function(&text).into()))
}

fn cut(call: &Context<'_>, function: impl Fn(&str, usize) -> String) -> Result<Value> {
    let (Some(text), Some(count)) = (text(call, 0), integer(call, 1)) else { return Ok(Value::Null) };
    Ok(function(&text, usize::try_from(count).unwrap_or(0)).into())
}

fn pad(call: &Context<'_>, join: impl Fn(&str, String) -> String) -> Result<Value> {
    let (Some(text), Some(length), Some(filler)) = (text(call, 0), integer(call, 1), text(call, 2)) else {
        return Ok(Value::Null);
    };
    let length = usize::try_from(length).unwrap_or(0);
    let missing = length.saturating_sub(text.chars().count());
    if missing > LENGTH_MAX || (missing > 0 && filler.is_empty()) {
        return Ok(Value::Null);
    }
    let padded = join(&text, filler.chars().cycle().take(missing).collect());
    Ok(padded.chars().take(length).collect::<String>().into())
}

/// The text before the n-th divider from the left, or behind it from the right if n is negative.
fn substring_index(call: &Context<'_>) -> Result<Value> {
    let (Some(text), Some(divider), Some(count)) = (text(call, 0), text(call, 1), integer(call, 2)) else {
        return Ok(Value::Null);
    };
    if divider.is_empty() || count == 0 {
        return Ok("".into());
    }
    let parts: Vec<&str> = text.split(&*divider).collect();
    let count = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX).min(parts.len());
    let parts = if integer(call, 2) > Some(0) { &parts[..count] } else { &parts[parts.len() - count..] };
    Ok(parts.join(&divider).into())
}

/// The argument that is above or below all others; NULL if any is.
fn extreme(call: &Context<'_>, is_beyond: fn(f64, f64) -> bool) -> Value {
    let mut found: Option<Value> = None;
    for index in 0..call.len() {
        let own = value(call.get_raw(index));
        let beyond = match (&own, &found) {
            (Value::Null, _) => return Value::Null,
            (_, None) => true,
            (Value::Text(own), Some(Value::Text(found))) => {
                if is_beyond(1.0, 0.0) {
                    own > found
                } else {
                    own < found
                }
            }
            (own, Some(found)) => is_beyond(as_real(own), as_real(found)),
        };
        if beyond {
            found = Some(own);
        }
    }
    found.unwrap_or(Value::Null)
}

pub(super) fn as_real(value: &Value) -> f64 {
    match value {
        Value::Integer(value) => *value as f64,
        Value::Real(value) => *value,
        Value::Text(text) => text.trim().parse().unwrap_or(0.0),
        _ => 0.0,
    }
}
