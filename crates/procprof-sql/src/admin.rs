//! `ADMIN EXECUTE`: which nodes a script runs on, and the rows its text becomes.
//!
//! One node: a column `result`, a row for each line, split as Java's `split("\n")` does. Several: `node_id`, `status`,
//! `result`, a row a node.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use procprof_core::nodes::{Node, Role};

use super::heap::NodeHeap;
use super::script::{self, Call};
use super::starrocks::discover;
use super::starrocks::heap::on_frontend;
use super::statement::Target;
use crate::Sql;
use crate::mysql::{Caller, Column, ColumnType, SqlError, SqlErrorKind, StatementResult, Value};

/// Time a script may take, all nodes together; StarRocks has the same.
const TIME: Duration = Duration::from_secs(600);

/// Runs a script.
///
/// # Errors
/// A script that cannot be parsed, an unknown node, and, with one node, the reason for its missing answer.
pub(super) async fn answer(
    sql: &Arc<Sql>,
    by: &Caller,
    target: &Target,
    script: &str,
) -> Result<StatementResult, SqlError> {
    let calls = script::parse(script)?;
    if *target == Target::Frontend
        && let Some(text) = timely(async { on_frontend(sql, &calls).await.transpose() }).await?
    {
        return Ok(result(&text));
    }
    discover::freshen(sql, target).await;
    let nodes = nodes(sql, target)?;
    if let [(id, node)] = nodes.as_slice() {
        let node = node.clone().ok_or_else(|| {
            SqlError::new(SqlErrorKind::WrongArguments, format!("node not found: {id}{}", discover::trouble(sql)))
        })?;
        let text = timely(run(sql, by, node, &calls)).await?;
        return Ok(result(&text));
    }
    let results = nodes.into_iter().map(|(id, node)| {
        let calls = &calls;
        async move {
            let text = match node {
                Some(node) => timely(run(sql, by, node, calls)).await.map_err(|failure| failure.text),
                None => Err("node not found".to_owned()),
            };
            let (status, text) =
                text.map_or_else(|why| ("ERROR", why), |text| ("OK", text.trim_end_matches('\n').to_owned()));
            vec![Value::Integer(i64::try_from(id).unwrap_or(i64::MAX)), status.into(), text.into()]
        }
    });
    let columns = vec![Column::new("node_id", ColumnType::Integer), Column::text("status"), Column::text("result")];
    Ok(StatementResult::rows(columns, join_all(results).await))
}

/// The answer of one node.
fn result(text: &str) -> StatementResult {
    let rows = java_lines(text).into_iter().map(|line| vec![line.into()]).collect();
    StatementResult::rows(vec![Column::text("result")], rows)
}

async fn timely<T>(run: impl Future<Output = Result<T, SqlError>>) -> Result<T, SqlError> {
    let late = |_| SqlError::new(SqlErrorKind::TimedOut, format!("timeout after {}s", TIME.as_secs()));
    tokio::time::timeout(TIME, run).await.map_err(late)?
}

/// A node's id, and the node if it is known.
type Named = (u64, Option<Arc<Node>>);

/// The nodes of a statement, by id.
fn nodes(sql: &Sql, target: &Target) -> Result<Vec<Named>, SqlError> {
    let of_role = |role: Role| -> Vec<Named> {
        let all = sql.registry.all();
        let nodes = all.iter().filter(|node| node.role() == role && !node.past);
        nodes.map(|node| (node.id, Some(Arc::clone(node)))).collect()
    };
    let mut nodes = match target {
        Target::Ids(ids) => {
            let known =
                |id| sql.registry.by_id(id).filter(|node| !node.past).or_else(|| discover::by_cluster_id(sql, id));
            ids.iter().map(|id| (*id, known(*id))).collect()
        }
        Target::AllBackends => of_role(Role::Be),
        Target::AllComputeNodes => of_role(Role::Cn),
        Target::Frontend => of_role(Role::Fe).into_iter().take(1).collect(),
    };
    nodes.sort_by_key(|(id, _)| *id);
    nodes.dedup_by_key(|(id, _)| *id);
    match nodes.is_empty() {
        true => Err(SqlError::new(
            SqlErrorKind::WrongArguments,
            format!(
                "there is no such node; SHOW BACKENDS, SHOW COMPUTE NODES and SHOW FRONTENDS list them{}",
                discover::trouble(sql)
            ),
        )),
        false => Ok(nodes),
    }
}

/// Everything the script prints on one node.
async fn run(sql: &Arc<Sql>, by: &Caller, node: Arc<Node>, calls: &[Call]) -> Result<String, SqlError> {
    let heap = NodeHeap::new(sql, node, by);
    let mut printed = String::new();
    for call in calls {
        printed += &heap.call(call).await?;
        printed.push('\n');
    }
    Ok(printed)
}

/// Lines as Java's `split("\n")` gives them: none for line ends alone, empty ones at the end dropped, one empty line
/// for an empty text.
fn java_lines(text: &str) -> Vec<&str> {
    if text.is_empty() {
        return vec![""];
    }
    let mut lines: Vec<&str> = text.split('\n').collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::java_lines;

    #[test]
    fn lines_are_those_of_java() {
        for (text, lines) in [
            ("", vec![""]),
            ("\n", vec![]),
            ("\n\n", vec![]),
            ("a\n", vec!["a"]),
            ("a\n\nb\n\n", vec!["a", "", "b"]),
            ("\na", vec!["", "a"]),
        ] {
            assert_eq!(java_lines(text), lines, "{text:?}");
        }
    }
}
