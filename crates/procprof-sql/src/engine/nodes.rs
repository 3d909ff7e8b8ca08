//! The rows of `nodes`, `errors` and `captures`.

use jiff::Timestamp;
use procprof_core::captures::{Job, JobStatus, SourceState};
use procprof_core::hosts::{HostState, HostWarning};
use procprof_core::nodes::Node;
use procprof_store::{ErrorEntry, ErrorFilter, PAGE_MAX, PageRequest};

use super::computed::StatementContext;
use super::moment::moment_text;
use super::tables::TableRows;
use crate::Sql;
use crate::mysql::{SqlError, Value};

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

pub(super) fn nodes(statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    let sql = statement.server()?;
    Ok(sql.registry.all().iter().map(|node| row(sql, node)).collect())
}

fn row(sql: &Sql, node: &Node) -> Vec<Value> {
    let health = sql.registry.health(node.id);
    let (failed, failure) = match health.last_failure() {
        Some((_, failure)) => (moment(failure.at), failure.reason.clone().into()),
        None => (Value::Null, Value::Null),
    };
    let state = sql.captures.source_state(node);
    let text = |text: fn(&SourceState) -> String| {
        state.as_ref().map(text).filter(|text| !text.is_empty()).map_or(Value::Null, Value::from)
    };
    let mut row = vec![
        number(node.id),
        node.name().into(),
        node.role().name().into(),
        node.kind().to_string().into(),
        node.cluster.clone().into(),
        node.address.clone().into(),
        health.summary().into(),
        health.last_success().map_or(Value::Null, moment),
        failed,
        failure,
        i64::from(node.past).into(),
        i64::from(node.demo).into(),
        health.retry_at().map_or(Value::Null, moment),
        state.as_ref().and_then(|state| state.pid).map_or(Value::Null, |pid| i64::from(pid.0).into()),
        text(|state| state.engine.clone()),
        text(|state| state.runtime.clone()),
        text(|state| state.limits.join(" ")),
        Value::Null,
        Value::Null,
        Value::Null,
    ];
    if let Some(host) = sql.hosts.state(node) {
        report(&mut row, host);
    }
    row
}

/// Sets the columns of a node with a host agent: the last of a row.
fn report(row: &mut [Value], host: HostState) {
    let [.., pid, _engine, runtime, limits, name, heartbeat, hz] = row else { return };
    let mut notes: Vec<String> = host.warnings().iter().map(HostWarning::to_string).collect();
    match host.service {
        Some(service) => {
            *pid = i64::from(service.facts.process.0).into();
            notes.extend(service.facts.hints);
        }
        None => *runtime = host.facts.kernel.into(),
    }
    if !notes.is_empty() {
        *limits = notes.join("; ").into();
    }
    *name = host.facts.name.into();
    *heartbeat = host.heartbeat.map_or(Value::Null, moment);
    *hz = i64::from(host.facts.hz).into();
}

pub(super) fn errors(statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    let mut rows = Vec::new();
    let mut page = PageRequest::first(PAGE_MAX);
    let sql = statement.server()?;
    loop {
        let found = sql.store.list_errors(&ErrorFilter::default(), &page);
        rows.extend(found.rows.iter().map(error));
        match found.next {
            Some(next) => page = PageRequest::after(PAGE_MAX, next),
            None => return Ok(rows),
        }
    }
}

fn error(entry: &ErrorEntry) -> Vec<Value> {
    let row = &entry.row;
    vec![
        number(entry.number),
        moment_text(row.time.0.div_euclid(1000), 3).into(),
        row.node.map_or(Value::Null, number),
        row.profile_type.as_ref().map_or(Value::Null, |kind| kind.name().into()),
        row.kind.name().into(),
        row.reason.clone().into(),
    ]
}

/// The captures that the API lists, in its order.
pub(super) fn captures(statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    Ok(statement.server()?.captures.jobs.list().iter().map(|job| capture(job)).collect())
}

fn capture(job: &Job) -> Vec<Value> {
    let JobStatus { state, progress, ended } = job.status();
    let millis = |at: Timestamp| Value::from(moment_text(at.as_microsecond(), 3));
    let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    vec![
        job.id.as_str().into(),
        number(job.node),
        job.profile_type.name().into(),
        state.name().into(),
        Value::Real(progress),
        i64::from(job.seconds).into(),
        job.by.as_str().into(),
        millis(job.started),
        ended.map_or(Value::Null, millis),
        state.profile().map_or(Value::Null, |id| id.to_string().into()),
        text(state.message()),
        text(state.code().unwrap_or_default()),
    ]
}

fn moment(at: Timestamp) -> Value {
    moment_text(at.as_second().saturating_mul(SECOND), 0).into()
}

fn number(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}
