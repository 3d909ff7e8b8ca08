//! Calls of `HeapProf` that a frontend runs on a node of its cluster.
//!
//! What is sent is written anew from the parsed call, never the client's own text. StarRocks' `to_dot_format` used to
//! give its argument to a shell, so only names that a frontend's own `snapshot()` gave for the same node are sent back
//! to it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use procprof_core::nodes::{Kind, Node};

use super::client::AnswerLimits;
use super::{Frontend, Table};
use crate::Sql;
use crate::mysql::{SqlError, SqlErrorKind, Value};
use crate::script::{Call, Drawing};

/// Rows of a result: lines of a graph.
const ROWS_MAX: usize = 1_000_000;
/// Bytes of a result.
const BYTES_MAX: usize = 64 << 20;
/// Names of dumps remembered, all clusters together.
const DUMPS_MAX: usize = 256;

/// Dumps that lie on nodes, by the names frontends gave.
#[derive(Default)]
pub(crate) struct Dumps {
    known: Mutex<VecDeque<(u64, String)>>,
}

impl Dumps {
    fn add(&self, node: u64, name: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == DUMPS_MAX {
            known.pop_front();
        }
        known.push_back((node, name.to_owned()));
    }

    fn has(&self, node: u64, name: &str) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().any(|(of, known)| *of == node && known == name)
    }
}

/// A node whose profiler is controlled through its cluster's frontend.
pub(crate) struct FeNode<'a> {
    dumps: &'a Dumps,
    frontend: Arc<Frontend>,
    node: u64,
    fe_id: u64,
}

impl<'a> FeNode<'a> {
    /// The node as its cluster's frontend lists it; `None` where there is no frontend, or the node has an agent of
    /// ours.
    pub(crate) fn from_node(sql: &'a Sql, node: &Node) -> Option<FeNode<'a>> {
        let fe_id = node.fe_id.filter(|_| node.kind() == Kind::STARROCKS_BE)?;
        let frontend = sql.clusters.frontends.for_cluster(&sql.config(), &node.cluster)?;
        Some(FeNode { dumps: &sql.clusters.dumps, frontend, node: node.id, fe_id })
    }

    /// Whether the frontend runs the call; what StarRocks does not have is done here.
    pub(crate) fn takes(&self, call: &Call) -> bool {
        match call {
            Call::ToDot(name) => self.dumps.has(self.node, name),
            _ => method(call).is_some(),
        }
    }

    /// Runs a call; returns its output.
    ///
    /// # Errors
    /// The frontend cannot be reached, or its own error.
    pub(crate) async fn run(&self, call: &Call) -> Result<String, SqlError> {
        let printed = run(&self.frontend, &self.fe_id.to_string(), call).await?;
        if *call == Call::Snapshot && is_path(printed.trim()) {
            self.dumps.add(self.node, printed.trim());
        }
        Ok(printed)
    }
}

/// Runs calls on the first cluster's frontend itself; `None` without one.
pub(crate) async fn on_frontend(sql: &Sql, calls: &[Call]) -> Option<Result<String, SqlError>> {
    let frontend = sql.clusters.frontends.all(&sql.config()).into_iter().next()?;
    let run = async {
        let mut printed = String::new();
        for call in calls {
            if method(call).is_none() {
                let text = "a frontend runs enable_prof, disable_prof, has_enable, snapshot and dump_dot_snapshot";
                return Err(SqlError::new(SqlErrorKind::NotSupported, text));
            }
            printed += &run(&frontend, "FRONTEND", call).await?;
            printed.push('\n');
        }
        Ok(printed)
    };
    Some(run.await)
}

async fn run(frontend: &Frontend, on: &str, call: &Call) -> Result<String, SqlError> {
    let call =
        method(call).ok_or_else(|| SqlError::new(SqlErrorKind::NotSupported, "a frontend does not know this call"))?;
    let statement = format!("ADMIN EXECUTE ON {on} 'System.print(HeapProf.getInstance().{call})'");
    let limits =
        AnswerLimits { time: Duration::from_secs(frontend.config.seconds_max), rows: ROWS_MAX, bytes: BYTES_MAX };
    let table = frontend.ask(&statement, limits).await?;
    Ok(lines(&table))
}

/// The call as StarRocks writes it; `None` for those it does not have.
pub(super) fn method(call: &Call) -> Option<String> {
    Some(match call {
        Call::Enable(true) => "enable_prof()".to_owned(),
        Call::Enable(false) => "disable_prof()".to_owned(),
        Call::HasEnable => "has_enable()".to_owned(),
        Call::Snapshot => "snapshot()".to_owned(),
        Call::Dump(Drawing::Dot) => "dump_dot_snapshot()".to_owned(),
        Call::ToDot(name) if is_path(name) => format!("to_dot_format(\"{name}\")"),
        _ => return None,
    })
}

/// Whether a text is a path without anything a shell or a script might read otherwise.
fn is_path(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    (1..=512).contains(&text.len()) && !text.contains("..") && !text.starts_with('-') && text.bytes().all(plain)
}

/// The text of a column `result`: its rows are lines.
fn lines(table: &Table) -> String {
    let column = table.column("result").unwrap_or(0);
    let lines = table.rows.iter().map(|row| match row.get(column) {
        Some(Value::Text(line)) => line.as_str(),
        _ => "",
    });
    lines.collect::<Vec<_>>().join("\n")
}
