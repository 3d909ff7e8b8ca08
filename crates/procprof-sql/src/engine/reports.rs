//! The rows of `samples`, `stacks`, `top` and `diff`: the reports of the same names as tables.
//!
//! Values are what the reports `top` and `collapsed` print, untrimmed, in the profile's own unit: allocators' frames
//! are left out at the leaf, and sampled values estimated, as everywhere.

use std::collections::BTreeMap;

use procprof_core::render::{Coverage, SummedRange};
use procprof_profile::diff::{Scaling, time_ratio};
use procprof_profile::format::{self, Limits};
use procprof_profile::{Grammar, Nanos, Profile, ProfileId};
use procprof_report::{Error, Options, Sources, render};

use super::computed::StatementContext;
use super::moment::moment_text;
use super::periods::{ALL, PeriodCall, cut, text};
use super::tables::TableRows;
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// The size of a row beside its stack, in bytes.
const ROW_BYTES: usize = 256;
const SECOND: i64 = 1_000_000_000;

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
    let [nodes, profile_type, from, to, only] = parameters else { return Ok(Vec::new()) };
    let call = PeriodCall { statement, name: "top" };
    let SummedRange { profile, coverage } = call.summed(&call.range(nodes, profile_type, [from, to])?)?;
    let Some(profile) = profile else { return Ok(Vec::new()) };
    let (first, last) = coverage.found.unwrap_or_default();
    let covered = [
        Value::Integer(coverage.profiles() as i64),
        Value::Integer(coverage.archived as i64),
        moment_text(first.0.div_euclid(1000), 3).into(),
        moment_text(last.0.div_euclid(1000), 3).into(),
    ];
    let mut rows = Vec::new();
    for sample_type in wanted(&profile, "top", only)? {
        let (kind, unit) = profile.sample_type(sample_type);
        for Measured { function, file, flat, cum, .. } in measured(statement, &profile, sample_type, "filefunctions")? {
            let own = [kind.into(), unit.into(), function.into(), file.into(), flat.into(), cum.into()];
            rows.push(own.into_iter().chain(covered.clone()).collect());
        }
    }
    Ok(rows)
}

/// One of the two that are compared.
struct Compared {
    profile: Profile,
    profiles: u64,
    archived: u64,
    /// The time that was measured, before it was scaled.
    measured: Nanos,
}

pub(super) fn diff(statement: &StatementContext, parameters: &[Value]) -> Result<TableRows, SqlError> {
    let [first, second, third, to_a, from_b, to_b, only] = parameters else { return Ok(Vec::new()) };
    if [to_a, from_b, to_b, only].iter().all(|value| **value == Value::Null) {
        let compared = |id: &Value| -> Result<Compared, SqlError> {
            let profile = profile(statement, "diff", id)?;
            Ok(Compared { profiles: 1, archived: 0, measured: profile.duration(), profile })
        };
        let (a, b) = (compared(first)?, compared(second)?);
        return differences(statement, &a, &b, |_| 1.0, third);
    }
    let call = PeriodCall { statement, name: "diff" };
    let period = |from: &Value, to: &Value, which: &str| -> Result<(Compared, Coverage), SqlError> {
        let SummedRange { profile, coverage } = call.summed(&call.range(first, second, [from, to])?)?;
        let Some(profile) = profile else {
            let (node, kind) = (cut(&text(first)), cut(&text(second)));
            return Err(call.wrong(format!("'{node}' has no {kind} profile in the {which} period")));
        };
        let (profiles, archived, measured) = (coverage.profiles(), coverage.archived, coverage.duration);
        Ok((Compared { profile, profiles, archived, measured }, coverage))
    };
    let ((mut a, of_a), (b, of_b)) = (period(third, to_a, "first")?, period(from_b, to_b, "second")?);
    let failed = |error: procprof_profile::Error| call.wrong(error);
    let scaling = scaling(&of_a, &of_b);
    let before = a.profile;
    let adjusted = before.clone().adjusted(Grammar::Pprof).map_err(failed)?;
    let other = b.profile.clone().adjusted(Grammar::Pprof).map_err(failed)?;
    let ratio = match scaling {
        Scaling::SameTime => time_ratio(&other, &adjusted).map_err(failed)?,
        _ => 1.0,
    };
    let scale = |kind: &str| match (scaling, adjusted.sample_type_index(kind), other.sample_type_index(kind)) {
        (Scaling::SameTotal, Some(own), Some(base)) if adjusted.total(own) != 0 => {
            other.total(base) as f64 / adjusted.total(own) as f64
        }
        (Scaling::SameTotal, ..) => 0.0,
        _ => ratio,
    };
    a.profile = match scaling {
        Scaling::AsMeasured => before,
        scaling => scaling.apply(&other, adjusted.clone()).map_err(failed)?,
    };
    differences(statement, &a, &b, scale, only)
}

/// How pages scale a range to another one: to the same time; to the same sums where a time is not known; not at all if
/// both have measured for the same time, or as many profiles.
fn scaling(a: &Coverage, b: &Coverage) -> Scaling {
    let has_time = |side: &Coverage| side.duration.0 > 0 && side.untimed == 0;
    let rounded = |side: &Coverage| side.duration.0.saturating_add(SECOND / 2) / SECOND;
    let is_same = match [rounded(a), rounded(b)] {
        [0, 0] => a.profiles() == b.profiles(),
        [a, b] => a == b,
    };
    match () {
        () if is_same => Scaling::AsMeasured,
        () if has_time(a) && has_time(b) => Scaling::SameTime,
        () => Scaling::SameTotal,
    }
}

/// What each function uses in `b` more than in `a`, whose sample types were scaled.
fn differences(
    statement: &StatementContext,
    a: &Compared,
    b: &Compared,
    scale: impl Fn(&str) -> f64,
    only: &Value,
) -> Result<TableRows, SqlError> {
    let seconds = |side: &Compared| side.measured.0 as f64 / SECOND as f64;
    let mut rows = Vec::new();
    for sample_type in wanted(&b.profile, "diff", only)? {
        let (kind, unit) = b.profile.sample_type(sample_type);
        let of_a = a.profile.sample_type_index(kind).ok_or_else(|| {
            SqlError::new(
                SqlErrorKind::WrongArguments,
                format!("diff: only the second profile has the sample type {kind}"),
            )
        })?;
        let mut functions: BTreeMap<(String, String), [[i64; 2]; 2]> = BTreeMap::new();
        let mut sums = [0_i128; 2];
        for (side, profile, sample_type) in [(0, &a.profile, of_a), (1, &b.profile, sample_type)] {
            for Measured { function, file, flat, cum, .. } in
                measured(statement, profile, sample_type, "filefunctions")?
            {
                let values = &mut functions.entry((function, file)).or_default()[side];
                *values = [values[0].saturating_add(flat), values[1].saturating_add(cum)];
                sums[side] += i128::from(flat);
            }
        }
        let percent = |value: i64, side: usize| match sums[side] {
            0 => Value::Null,
            sum => Value::Real(value as f64 * 100.0 / sum as f64),
        };
        let of_sides = [
            Value::Real(scale(kind)),
            Value::Integer(a.profiles as i64),
            Value::Integer(b.profiles as i64),
            Value::Integer(a.archived as i64),
            Value::Integer(b.archived as i64),
            Value::Real(seconds(a)),
            Value::Real(seconds(b)),
        ];
        for ((function, file), [[flat_a, cum_a], [flat_b, cum_b]]) in functions {
            let (flat, cum) = (flat_b.saturating_sub(flat_a), cum_b.saturating_sub(cum_a));
            let values = [flat, cum, flat_a, flat_b, cum_a, cum_b].map(Value::Integer);
            let shares = [percent(flat_a, 0), percent(flat_b, 1), percent(cum_a, 0), percent(cum_b, 1)];
            let names = [kind.into(), unit.into(), function.into(), file.into()];
            rows.push(names.into_iter().chain(values).chain(shares).chain(of_sides.clone()).collect());
        }
    }
    Ok(rows)
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
    if name == ALL {
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
