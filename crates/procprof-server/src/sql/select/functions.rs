//! Functions beside SQLite's: those MySQL has and clients use, and three that our views need. Moments are UTC.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regex::RegexBuilder;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

use super::dates::{added, days_between, formatted, moment, part};
use super::moment::{datetime, nanos, parse};
use super::scene::Scene;
use super::table::value;
use crate::mysql::Value;

/// A function: its name, its number of arguments (-1 for any), and what it gives.
type Function = (&'static str, i32, fn(&Context<'_>) -> Result<Value>);

/// Longest text a function makes, in bytes.
const TEXT_MAX: usize = 1 << 20;
/// Memory of a compiled regular expression, in bytes.
const REGEX_MAX: usize = 1 << 20;
/// How long `SLEEP` sleeps before it looks whether it may go on.
const NAP: Duration = Duration::from_millis(20);

/// Our own.
const FUNCTIONS: &[Function] = &[
    ("uuid_text", 1, |call| Ok(blob(call).map_or(Value::Null, |id| uuid::Uuid::from_bytes(id).hyphenated().to_string().into()))),
    ("datetime_text", 1, |call| Ok(integer(call, 0).map_or(Value::Null, |nanos| datetime(nanos, 3).into()))),
    ("labels_text", 1, |call| Ok(text(call, 0).map_or(Value::Null, |labels| labels.trim_matches('\n').replace('\n', ",").into()))),
    ("concat", -1, concat),
    ("left", 2, |call| cut(call, |text, count| text.chars().take(count).collect())),
    ("right", 2, |call| cut(call, |text, count| text.chars().skip(text.chars().count().saturating_sub(count)).collect())),
    ("lpad", 3, |call| pad(call, |text, filling| filling + text)),
    ("rpad", 3, |call| pad(call, |text, filling| text.to_owned() + &filling)),
    ("repeat", 2, |call| {
        let fits = |text: &str, count: usize| text.len().saturating_mul(count) <= TEXT_MAX;
        cut(call, |text, count| if fits(text, count) { text.repeat(count) } else { String::new() })
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
    ("regexp", 2, |call| matches(call, 0, 1)),
    ("regexp_like", 2, |call| matches(call, 1, 0)),
    ("unix_timestamp", 1, |call| Ok(moment(call).and_then(nanos).map_or(Value::Null, |nanos| nanos.div_euclid(1_000_000_000).into()))),
    ("from_unixtime", 1, |call| Ok(real(call, 0).map_or(Value::Null, |seconds| datetime((seconds * 1e9) as i64, 0).into()))),
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
    "glob",
    "group_concat",
    "hex",
    "if",
    "ifnull",
    "iif",
    "instr",
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
    "like",
    "likelihood",
    "likely",
    "lower",
    "ltrim",
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
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "sum",
    "time",
    "timediff",
    "total",
    "trim",
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
    name == "sleep" || BUILT_IN.contains(&name.as_str()) || FUNCTIONS.iter().any(|(own, ..)| *own == name)
}

/// Makes the functions known to a connection.
///
/// # Errors
/// SQLite's.
pub(super) fn register(connection: &Connection, scene: &Arc<Scene>) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, arguments, function) in FUNCTIONS {
        connection.create_scalar_function(*name, *arguments, flags | FunctionFlags::SQLITE_DETERMINISTIC, *function)?;
    }
    let scene = Arc::clone(scene);
    connection.create_scalar_function("sleep", 1, flags, move |call| sleep(call, &scene))
}

/// Sleeps so many seconds, or until the statement must end.
fn sleep(call: &Context<'_>, scene: &Scene) -> Result<Value> {
    let seconds = real(call, 0).unwrap_or(0.0).clamp(0.0, 86_400.0);
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < until {
        if let Err(failure) = scene.go_on() {
            let text = failure.text.clone();
            scene.fail(failure);
            return Err(Error::UserFunctionError(text.into()));
        }
        std::thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
    }
    Ok(Value::Integer(0))
}

fn blob(call: &Context<'_>) -> Option<[u8; 16]> {
    call.get_raw(0).as_blob().ok().and_then(|bytes| bytes.try_into().ok())
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
    let (Some(text), Some(length), Some(filler)) = (text(call, 0), integer(call, 1), text(call, 2)) else { return Ok(Value::Null) };
    let length = usize::try_from(length).unwrap_or(0);
    let missing = length.saturating_sub(text.chars().count());
    if missing > TEXT_MAX || (missing > 0 && filler.is_empty()) {
        return Ok(Value::Null);
    }
    let padded = join(&text, filler.chars().cycle().take(missing).collect());
    Ok(padded.chars().take(length).collect::<String>().into())
}

/// NULL if any argument is.
fn concat(call: &Context<'_>) -> Result<Value> {
    let mut joined = String::new();
    for index in 0..call.len() {
        let Some(text) = text(call, index) else { return Ok(Value::Null) };
        joined += &text;
    }
    Ok(joined.into())
}

fn position(wanted: Option<Cow<'_, str>>, text: Option<Cow<'_, str>>) -> Value {
    let (Some(wanted), Some(text)) = (wanted, text) else { return Value::Null };
    let place = text.find(&*wanted).map_or(0, |byte| text[..byte].chars().count() as i64 + 1);
    place.into()
}

/// What is before the n-th divider from the left, or behind it from the right if n is negative.
fn substring_index(call: &Context<'_>) -> Result<Value> {
    let (Some(text), Some(divider), Some(count)) = (text(call, 0), text(call, 1), integer(call, 2)) else { return Ok(Value::Null) };
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

fn as_real(value: &Value) -> f64 {
    match value {
        Value::Integer(value) => *value as f64,
        Value::Real(value) => *value,
        Value::Text(text) => text.trim().parse().unwrap_or(0.0),
        _ => 0.0,
    }
}

/// Whether a text has a match of a regular expression, letters in any case. The expression is compiled once for a statement.
fn matches(call: &Context<'_>, pattern: usize, subject: usize) -> Result<Value> {
    let (Some(_), Some(subject)) = (text(call, pattern), text(call, subject)) else { return Ok(Value::Null) };
    let wrong = |error: regex::Error| Error::UserFunctionError(format!("REGEXP: {error}").into());
    let compile = |pattern: ValueRef<'_>| {
        let pattern = match value(pattern) {
            Value::Text(text) => text,
            other => format!("{}", as_real(&other)),
        };
        RegexBuilder::new(&pattern).case_insensitive(true).size_limit(REGEX_MAX).build()
    };
    let compiled = call.get_or_create_aux(pattern as i32, |pattern| compile(pattern).map_err(wrong))?;
    Ok(i64::from(compiled.is_match(&subject)).into())
}
