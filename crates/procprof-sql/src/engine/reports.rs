//! The rows of `samples`, `stacks`, `top` and `diff`: the reports of the same names as tables.
//!
//! Values are what the reports `top` and `collapsed` print, untrimmed, in the profile's own unit: allocators' frames
//! are left out at the leaf, and sampled values estimated, as everywhere.

use std::collections::BTreeMap;

use procprof_profile::format::{self, Limits};
use procprof_profile::merge::merge;
use procprof_profile::{Nanos, Profile, ProfileId};
use procprof_report::{Error, Options, Sources, render};
use procprof_store::{Filter, PageRequest};

use super::computed::StatementContext;
use super::moment;
use super::tables::TableRows;
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// Most profiles that `top` merges.
const MERGED_MAX: usize = 1000;
/// Profiles merged at a time.
const TOGETHER: usize = 16;
/// The size of a row beside its stack, in bytes.
const ROW_BYTES: usize = 256;
/// Selects every sample type.
const ALL_TYPES: &str = "*";

/// A function, or a line of one, and what it uses.
struct Measured {
    function: String,
    file: String,
    line: i64,
    flat: i64,
    cum: i64,
}

pub(super) fn samples(statement: &StatementContext, parameters: &[Value]) -> Result<TableRows, SqlError> {
    let [id, only] = parameters else { return Ok(Vec::new()) };
    let profile = profile(statement, "samples", id)?;
    let mut rows = Vec::new();
    for sample_type in wanted(&profile, "samples", only)? {
        let (kind, unit) = profile.sample_type(sample_type);
        for Measured { function, file, line, flat, cum } in measured(statement, &profile, sample_type, "lines")? {
            rows.push(vec![
                kind.into(),
                unit.into(),
                function.into(),
                file.into(),
                line.into(),
                flat.into(),
                cum.into(),
            ]);
        }
        statement.go_on()?;
    }
    Ok(rows)
}

pub(super) fn stacks(statement: &StatementContext, parameters: &[Value]) -> Result<TableRows, SqlError> {
    let [id, only] = parameters else { return Ok(Vec::new()) };
    let profile = profile(statement, "stacks", id)?;
    let mut rows = Vec::new();
    for sample_type in wanted(&profile, "stacks", only)? {
        let (kind, unit) = profile.sample_type(sample_type);
        let options = options(statement, sample_type, &[])?;
        let mut bytes = 0u64;
        let row = &mut |stack: &str, value: i64| {
            bytes += (stack.len() + ROW_BYTES) as u64;
            if bytes > options.budget.memory_bytes {
                return Err(Error::MemoryLimit { table: "the rows of stacks()", most: options.budget.memory_bytes });
            }
            rows.push(vec![kind.into(), unit.into(), stack.into(), Value::Integer(value)]);
            Ok(())
        };
        procprof_report::stacks(&profile, &options, row).map_err(|error| statement.report_failure(&error))?;
        statement.go_on()?;
    }
    Ok(rows)
}

pub(super) fn top(statement: &StatementContext, parameters: &[Value]) -> Result<TableRows, SqlError> {
    let [node, profile_type, from, to, only] = parameters else { return Ok(Vec::new()) };
    let wrong = |text: String| SqlError::new(SqlErrorKind::WrongArguments, format!("top: {text}"));
    let name = text(node);
    let node = statement.server()?.registry.find(&name).ok_or_else(|| wrong(format!("node not found: {name}")))?;
    let profile_type = match profile_type {
        Value::Null => procprof_profile::ProfileType::Cpu,
        other => text(other).parse().map_err(|error| wrong(format!("{error}")))?,
    };
    let filter = Filter {
        nodes: vec![node.id],
        types: vec![profile_type],
        from: bound(from)?,
        to: bound(to)?,
        ..Filter::default()
    };
    let ids = ids(statement, &filter)?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let profile = merged(statement, &ids)?;
    let count = Value::Integer(ids.len() as i64);
    let mut rows = Vec::new();
    for sample_type in wanted(&profile, "top", only)? {
        let (kind, unit) = profile.sample_type(sample_type);
        for Measured { function, file, flat, cum, .. } in measured(statement, &profile, sample_type, "filefunctions")? {
            rows.push(vec![
                kind.into(),
                unit.into(),
                function.into(),
                file.into(),
                flat.into(),
                cum.into(),
                count.clone(),
            ]);
        }
    }
    Ok(rows)
}

pub(super) fn diff(statement: &StatementContext, parameters: &[Value]) -> Result<TableRows, SqlError> {
    let [a, b, only] = parameters else { return Ok(Vec::new()) };
    let (a, b) = (profile(statement, "diff", a)?, profile(statement, "diff", b)?);
    let mut rows = Vec::new();
    for sample_type in wanted(&b, "diff", only)? {
        let (kind, unit) = b.sample_type(sample_type);
        let of_a = a.sample_type_index(kind).ok_or_else(|| {
            SqlError::new(
                SqlErrorKind::WrongArguments,
                format!("diff: only the second profile has the sample type {kind}"),
            )
        })?;
        let mut functions: BTreeMap<(String, String), [[i64; 2]; 2]> = BTreeMap::new();
        for (side, profile, sample_type) in [(0, &a, of_a), (1, &b, sample_type)] {
            for Measured { function, file, flat, cum, .. } in
                measured(statement, profile, sample_type, "filefunctions")?
            {
                let sums = &mut functions.entry((function, file)).or_default()[side];
                *sums = [sums[0].saturating_add(flat), sums[1].saturating_add(cum)];
            }
        }
        for ((function, file), [[flat_a, cum_a], [flat_b, cum_b]]) in functions {
            let (flat, cum) = (flat_b.saturating_sub(flat_a), cum_b.saturating_sub(cum_a));
            let values = [flat, cum, flat_a, flat_b, cum_a, cum_b].map(Value::Integer);
            let names = [kind.into(), unit.into(), function.into(), file.into()];
            rows.push(names.into_iter().chain(values).collect());
        }
    }
    Ok(rows)
}

/// A value as text, as it would be printed.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A stored profile.
fn profile(statement: &StatementContext, table: &str, id: &Value) -> Result<Profile, SqlError> {
    let wrong = |why: String| SqlError::new(SqlErrorKind::WrongArguments, format!("{table}: {why}"));
    let id: ProfileId = text(id).parse().map_err(|error| wrong(format!("{error}")))?;
    read(statement, id).map_err(wrong)
}

fn read(statement: &StatementContext, id: ProfileId) -> Result<Profile, String> {
    let sql = statement.server().map_err(|error| error.text)?;
    let bytes = sql.store.open_bytes(id).map_err(|error| error.to_string())?;
    format::decode(&bytes, &Limits::default())
        .map(|decoded| decoded.profile)
        .map_err(|error| format!("profile {id}: {error}"))
}

/// The sample types that a parameter selects.
fn wanted(profile: &Profile, table: &str, only: &Value) -> Result<Vec<usize>, SqlError> {
    let name = match only {
        Value::Null => return Ok(vec![profile.default_sample_type()]),
        other => text(other),
    };
    let types = 0..profile.sample_types().len();
    if name == ALL_TYPES {
        return Ok(types.collect());
    }
    let known = || types.map(|index| profile.sample_type(index).0).collect::<Vec<_>>().join(", ");
    let found = profile.sample_type_index(&name);
    found.map(|index| vec![index]).ok_or_else(|| {
        let name: String = name.chars().take(80).collect();
        SqlError::new(
            SqlErrorKind::WrongArguments,
            format!("{table}: no sample type '{name}'; there are {} and '*' for all", known()),
        )
    })
}

/// The options of a report on one sample type.
fn options(statement: &StatementContext, sample_type: usize, pairs: &[(&str, &str)]) -> Result<Options, SqlError> {
    let index = sample_type.to_string();
    let pairs = pairs.iter().copied().chain([("sample_index", index.as_str())]);
    let options = Options::parse(pairs).map_err(|error| statement.report_failure(&error))?;
    Ok(Options { budget: statement.budget()?, ..options })
}

/// The values of all functions or lines.
fn measured(
    statement: &StatementContext,
    profile: &Profile,
    sample_type: usize,
    granularity: &str,
) -> Result<Vec<Measured>, SqlError> {
    let options = options(statement, sample_type, &[("granularity", granularity), ("trim", "false")])?;
    let made =
        render(profile, "topproto", &options, &Sources::default()).map_err(|error| statement.report_failure(&error))?;
    let decoded = format::decode(&made, &Limits::default())
        .map_err(|error| SqlError::new(SqlErrorKind::Other, error.to_string()))?;
    let rows = decoded.profile;
    let measured = rows.samples().filter_map(|sample| {
        let ([cum, flat], [location, ..]) = (sample.values, sample.stack) else { return None };
        let line = rows.lines(*location).first()?;
        let function = rows.function(line.function);
        let (name, file) = (rows.string(function.name).to_owned(), rows.string(function.filename).to_owned());
        Some(Measured { function: name, file, line: line.line, flat: *flat, cum: *cum })
    });
    Ok(measured.collect())
}

/// The bound of a period: a date, a date and time, or seconds since 1970.
fn bound(value: &Value) -> Result<Option<Nanos>, SqlError> {
    let nanos = match value {
        Value::Null => return Ok(None),
        Value::Integer(seconds) => seconds.checked_mul(1_000_000_000),
        Value::Real(seconds) => Some((seconds * 1e9) as i64),
        other => moment_of(&text(other)),
    };
    let wrong = || {
        let text: String = text(value).chars().take(80).collect();
        SqlError::new(SqlErrorKind::WrongArguments, format!("top: '{text}' is no date, and no date and time"))
    };
    nanos.map(|nanos| Some(Nanos(nanos))).ok_or_else(wrong)
}

/// Nanoseconds since 1970 of a moment, with a zone or in UTC.
fn moment_of(text: &str) -> Option<i64> {
    if let Ok(moment) = text.trim().parse::<jiff::Timestamp>() {
        return i64::try_from(moment.as_nanosecond()).ok();
    }
    moment::parse_moment(text).and_then(|(micros, _)| micros.checked_mul(1000))
}

/// The profiles that a filter lets through.
fn ids(statement: &StatementContext, filter: &Filter) -> Result<Vec<ProfileId>, SqlError> {
    let found = statement
        .server()?
        .store
        .list(filter, &PageRequest::first(MERGED_MAX))
        .map_err(|error| SqlError::new(SqlErrorKind::Other, error.to_string()))?;
    match found.next {
        None => Ok(found.rows.iter().map(|entry| entry.id).collect()),
        Some(_) => {
            let text =
                format!("top: more than {MERGED_MAX} profiles are in this period; give a shorter one by from and to");
            Err(SqlError::new(SqlErrorKind::Limit, text))
        }
    }
}

/// The sum of stored profiles. One that retention deletes meanwhile is an error: a sum without it would be wrong.
fn merged(statement: &StatementContext, ids: &[ProfileId]) -> Result<Profile, SqlError> {
    let other = |why: String| SqlError::new(SqlErrorKind::Other, format!("top: {why}"));
    let mut sum: Option<Profile> = None;
    for ids in ids.chunks(TOGETHER) {
        let mut profiles = Vec::from_iter(sum.take());
        for id in ids {
            statement.go_on()?;
            profiles.push(read(statement, *id).map_err(other)?);
        }
        let profiles: Vec<&Profile> = profiles.iter().collect();
        sum = Some(merge(&profiles).map_err(|error| other(error.to_string()))?);
    }
    sum.ok_or_else(|| other("no profile".to_owned()))
}
