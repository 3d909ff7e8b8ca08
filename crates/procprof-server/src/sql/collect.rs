//! `COLLECT type ON node, … FOR n SECONDS`: captures of several nodes at once, one row each.

use std::sync::Arc;

use futures_util::future::join_all;
use procprof_collect::Watch;
use procprof_profile::ProfileType;

use crate::app::App;
use crate::captures::{Wish, capture};
use crate::mysql::{Answer, Column, ColumnType, Failure, FailureKind, Value};
use crate::nodes::Node;

/// Nodes of one statement.
const NODES_MAX: usize = 256;

/// Captures, and tells for each node what came of it.
pub(super) async fn answer(app: &Arc<App>, by: &str, what: &str, nodes: &[String], seconds: Option<u32>) -> Result<Answer, Failure> {
    let profile_type = profile_type(what)?;
    let nodes = nodes.iter().map(|name| node(app, name)).collect::<Result<Vec<_>, _>>()?;
    if nodes.len() > NODES_MAX {
        return Err(Failure::new(FailureKind::Limit, format!("{} nodes: a statement takes at most {NODES_MAX}", nodes.len())));
    }
    let most = app.config().capture_seconds_max;
    if seconds.is_some_and(|seconds| u64::from(seconds) > most) {
        return Err(Failure::new(FailureKind::Limit, format!("a capture takes at most {most} seconds (capture_seconds_max)")));
    }
    let stop = app.stop.child_token();
    // Captures end when nobody waits for the statement any more.
    let _given_up = stop.clone().drop_guard();
    let wish = || Wish {
        profile_type: profile_type.clone(),
        seconds,
        by: by.to_owned(),
        trigger: "manual",
        watch: Watch { cancel: stop.clone(), progress: None },
        wait: Some(Arc::default()),
        due: None,
        arrived: None,
    };
    let captures = nodes.iter().map(|node| async {
        let (status, profile, message) = match capture(app, node, wish()).await {
            Ok(entry) => ("OK", Value::Text(entry.id.to_string()), Value::Null),
            Err(failure) => ("ERROR", Value::Null, Value::Text(failure.reason.clone())),
        };
        vec![Value::Integer(i64::try_from(node.id).unwrap_or(i64::MAX)), node.name().into(), status.into(), profile, message]
    });
    let rows = join_all(captures).await;
    let columns = vec![
        Column::new("node_id", ColumnType::Integer),
        Column::text("node"),
        Column::text("status"),
        Column::text("profile_id"),
        Column::text("message"),
    ];
    Ok(Answer::rows(columns, rows))
}

/// A type by the word of the statement: its name, or the label's.
fn profile_type(what: &str) -> Result<ProfileType, Failure> {
    let known = [ProfileType::Cpu, ProfileType::Wall, ProfileType::Alloc, ProfileType::Heap, ProfileType::Contention, ProfileType::Mutex];
    known.into_iter().find(|known| known.to_string() == what).ok_or_else(|| {
        let text = format!("unknown profile type '{what}': expected CPU, WALL, ALLOC, HEAP, CONTENTION or MUTEX");
        Failure::new(FailureKind::Syntax, text)
    })
}

fn node(app: &App, name: &str) -> Result<Arc<Node>, Failure> {
    let by_id = name.parse().ok().and_then(|id| app.registry.by_id(id));
    let node = by_id.or_else(|| app.registry.all().into_iter().find(|node| node.name() == name));
    node.ok_or_else(|| Failure::new(FailureKind::WrongArguments, format!("node not found: {name}")))
}
