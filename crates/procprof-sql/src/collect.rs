//! `COLLECT type ON node, … FOR n SECONDS`: captures of several nodes at once, one row each.

use std::sync::Arc;

use futures_util::future::join_all;
use procprof_collect::{Watch, Window};
use procprof_core::captures::CaptureRequest;
use procprof_core::nodes::Node;
use procprof_profile::ProfileType;

use crate::Sql;
use crate::mysql::{Column, ColumnType, SqlError, SqlErrorKind, StatementResult, Value};

/// Nodes of one statement.
const NODES_MAX: usize = 256;

/// Captures, and returns the result of each node.
pub(super) async fn answer(
    sql: &Arc<Sql>,
    by: &str,
    what: &str,
    nodes: &[String],
    seconds: Option<u32>,
) -> Result<StatementResult, SqlError> {
    let profile_type = profile_type(what)?;
    let nodes = nodes.iter().map(|name| node(sql, name)).collect::<Result<Vec<_>, _>>()?;
    if nodes.len() > NODES_MAX {
        return Err(SqlError::new(
            SqlErrorKind::Limit,
            format!("{} nodes: a statement takes at most {NODES_MAX}", nodes.len()),
        ));
    }
    for node in &nodes {
        let why = match (node.kind().offer(&profile_type).map(|offer| offer.window), seconds) {
            (Some(Window::Seconds), Some(0)) => "takes at least 1 second",
            (Some(Window::Moment), Some(1..)) => "is of a moment and takes no seconds",
            _ => continue,
        };
        let text = format!("a {} profile of {} {why}", profile_type.name(), node.name());
        return Err(SqlError::new(SqlErrorKind::WrongArguments, text));
    }
    let most = sql.config().capture_seconds_max;
    if seconds.is_some_and(|seconds| u64::from(seconds) > most) {
        return Err(SqlError::new(
            SqlErrorKind::Limit,
            format!("a capture takes at most {most} seconds (capture_seconds_max)"),
        ));
    }
    let stop = sql.stop.child_token();
    // Captures end when the client no longer waits for the statement.
    let _given_up = stop.clone().drop_guard();
    let watch = || Watch { cancel: stop.clone(), ..Watch::default() };
    let wanted = || CaptureRequest::manual(profile_type.clone(), seconds, by, watch());
    let captures = nodes.iter().map(|node| async {
        let (status, profile, message) = match sql.captures.capture(node, wanted()).await {
            Ok(entry) => ("OK", Value::Text(entry.id.to_string()), Value::Null),
            Err(failure) => ("ERROR", Value::Null, Value::Text(failure.reason.clone())),
        };
        vec![
            Value::Integer(i64::try_from(node.id).unwrap_or(i64::MAX)),
            node.name().into(),
            status.into(),
            profile,
            message,
        ]
    });
    let rows = join_all(captures).await;
    let columns = vec![
        Column::new("node_id", ColumnType::Integer),
        Column::text("node"),
        Column::text("status"),
        Column::text("profile_id"),
        Column::text("message"),
    ];
    Ok(StatementResult::rows(columns, rows))
}

/// A type by the word of the statement: its name, or the label's.
fn profile_type(what: &str) -> Result<ProfileType, SqlError> {
    let known = [
        ProfileType::Cpu,
        ProfileType::Wall,
        ProfileType::OffCpu,
        ProfileType::Alloc,
        ProfileType::Heap,
        ProfileType::Contention,
        ProfileType::Mutex,
        ProfileType::Goroutine,
        ProfileType::GoroutineLeak,
    ];
    known.into_iter().find(|known| known.to_string() == what).ok_or_else(|| {
        let text = format!(
            "unknown profile type '{what}': expected CPU, WALL, OFF_CPU, ALLOC, HEAP, CONTENTION, MUTEX, GOROUTINE or \
             GOROUTINELEAK"
        );
        SqlError::new(SqlErrorKind::Syntax, text)
    })
}

fn node(sql: &Sql, name: &str) -> Result<Arc<Node>, SqlError> {
    let by_id = name.parse().ok().and_then(|id| sql.registry.by_id(id));
    let node = by_id.or_else(|| sql.registry.all().iter().find(|node| node.name() == name).cloned());
    node.ok_or_else(|| SqlError::new(SqlErrorKind::WrongArguments, format!("node not found: {name}")))
}
