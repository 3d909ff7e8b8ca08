//! Which rows of a `SHOW` statement `LIKE` and `WHERE` let through.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::engine::Engine;
use super::like::like;
use super::session_info::SessionInfo;
use super::statement::Show;
use crate::mysql::{Rows, SqlError, StatementResult, Value};

/// Above the rows of any list: with a limit of its own, a condition is not bound by the session's.
const ROWS_MAX: u32 = 1_000_000;

/// The rows that `LIKE` and `WHERE` let through.
///
/// # Errors
/// Whatever is wrong with the condition.
pub(super) async fn filtered(
    engine: &Arc<Engine>,
    session: &SessionInfo<'_>,
    show: &Show,
    answer: StatementResult,
    cancel: CancellationToken,
) -> Result<StatementResult, SqlError> {
    let StatementResult::Rows { columns, rows: Rows::Ready(mut rows), warnings } = answer else { return Ok(answer) };
    if let Some(pattern) = &show.like {
        let column = liked(&show.what);
        rows.retain(|row| matches!(row.get(column), Some(Value::Text(text)) if like(text, pattern)));
    }
    if let Some(condition) = &show.condition {
        if rows.is_empty() {
            return Ok(StatementResult::Rows { columns, rows: Rows::Ready(rows), warnings });
        }
        let names: Vec<String> = columns.iter().map(|column| format!("`{}`", column.name.replace('`', "``"))).collect();
        let row = |number: usize| format!("({number}{})", ", ?".repeat(columns.len()));
        let all: Vec<String> = (0..rows.len()).map(row).collect();
        let statement = format!(
            "SELECT `row of it` FROM (VALUES {}) AS shown (`row of it`, {}) WHERE {condition} LIMIT {ROWS_MAX}",
            all.join(", "),
            names.join(", ")
        );
        let cells: Vec<Value> = rows.iter().flatten().cloned().collect();
        let passed = engine.select(session, &statement, &cells, cancel).await?.answer;
        let passed = numbers(passed).await?;
        rows = passed.into_iter().filter_map(|number| rows.get(number).cloned()).collect();
    }
    Ok(StatementResult::Rows { columns, rows: Rows::Ready(rows), warnings })
}

/// The column that `LIKE` looks at.
fn liked(what: &str) -> usize {
    match what {
        "events" | "procedure status" | "function status" => 1,
        "triggers" => 2,
        _ => 0,
    }
}

/// The first column of an answer.
async fn numbers(answer: StatementResult) -> Result<Vec<usize>, SqlError> {
    let mut all = Vec::new();
    let mut take = |rows: Vec<Vec<Value>>| {
        all.extend(rows.iter().filter_map(|row| match row.first() {
            Some(Value::Integer(number)) => usize::try_from(*number).ok(),
            _ => None,
        }));
    };
    match answer {
        StatementResult::Rows { rows: Rows::Ready(rows), .. } => take(rows),
        StatementResult::Rows { rows: Rows::Stream(mut batches), .. } => {
            while let Some(batch) = batches.recv().await {
                take(batch?);
            }
        }
        StatementResult::Done { .. } => {}
    }
    Ok(all)
}
