//! Running one statement in the blocking pool, and sending its rows in batches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::limits::StatementMemory;
use super::types::SqlType;
use super::value::Val;
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// Rows on their way to a client.
pub(super) type Batches = mpsc::Sender<Result<Vec<Vec<Value>>, SqlError>>;

/// Most rows of a batch.
const BATCH_ROWS: usize = 1000;
/// Memory of a batch, in bytes, at which it is sent.
const BATCH_BYTES: usize = 256 << 10;
/// Longest row, in bytes.
const ROW_BYTES: usize = 2 << 20;
/// A client may take this many times as long to fetch the rows as their statement may take.
const PATIENCE: u32 = 10;
/// Time between two looks at the watch while no rows come.
const LOOK: Duration = Duration::from_millis(100);

/// One statement's time and memory, and whether anyone waits for it.
pub(super) struct Watch {
    began: Instant,
    limit: Duration,
    cancel: CancellationToken,
    /// The receiver of the rows; `None`: it need not exist.
    batches: Option<mpsc::WeakSender<Result<Vec<Vec<Value>>, SqlError>>>,
    /// Milliseconds the statement waited for the client.
    waited: AtomicU64,
    /// Why it was ended.
    why: OnceLock<SqlError>,
    pub(super) memory: StatementMemory,
}

impl Watch {
    pub(super) fn new(
        limit: Duration,
        cancel: CancellationToken,
        batches: Option<mpsc::WeakSender<Result<Vec<Vec<Value>>, SqlError>>>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Watch {
        let (waited, why, memory) = (AtomicU64::new(0), OnceLock::new(), StatementMemory::new(pool));
        Watch { began: Instant::now(), limit, cancel, batches, waited, why, memory }
    }

    /// Adds the time of a wait for the client, which is not the statement's.
    fn waited(&self, since: Instant) {
        self.waited.fetch_add(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Goes on unless the statement must end; once that is so, it stays so.
    ///
    /// # Errors
    /// Why it must end.
    pub(super) fn go_on(&self) -> Result<(), SqlError> {
        self.ended().map_or(Ok(()), Err)
    }

    pub(super) fn ended(&self) -> Option<SqlError> {
        if self.why.get().is_none()
            && let Some(failure) = self.reason()
        {
            return Some(self.why.get_or_init(|| failure).clone());
        }
        self.why.get().cloned()
    }

    fn reason(&self) -> Option<SqlError> {
        if self.cancel.is_cancelled() {
            return Some(SqlError::new(SqlErrorKind::Killed, "Query execution was interrupted by KILL"));
        }
        if self.batches.as_ref().is_some_and(|batches| batches.upgrade().is_none_or(|batches| batches.is_closed())) {
            return Some(SqlError::new(SqlErrorKind::Killed, "the client has gone"));
        }
        let waited =
            Duration::from_millis(self.waited.load(Ordering::Relaxed)).min(self.limit.saturating_mul(PATIENCE));
        if self.began.elapsed().saturating_sub(waited) > self.limit {
            let text = format!(
                "the statement took longer than {} s (sql_seconds_max, max_execution_time)",
                self.limit.as_secs_f64()
            );
            return Some(SqlError::new(SqlErrorKind::TimedOut, text));
        }
        None
    }
}

/// The beginning of a result, when the first rows are there.
pub(super) enum First {
    /// They are all.
    All(Vec<Vec<Value>>),
    /// They and more come in batches.
    Begun,
}

/// Most rows that a statement may give, and that its client wants.
#[derive(Clone, Copy)]
pub(super) struct RowLimits {
    pub(super) most: u64,
    pub(super) wanted: u64,
}

/// Reads a stream to its end; sends its first rows to `first`, and the remaining rows in batches.
///
/// # Errors
/// Its own; if none of its rows was sent yet, `first` is left.
pub(super) async fn send(
    mut stream: SendableRecordBatchStream,
    kinds: &[SqlType],
    limits: RowLimits,
    watch: &Watch,
    first: &mut Option<oneshot::Sender<Result<First, SqlError>>>,
    batches: &Batches,
) -> Result<(), SqlError> {
    let mut rows: Vec<Vec<Value>> = Vec::new();
    let (mut weight, mut count) = (0, 0_u64);
    while count < limits.wanted {
        let Some(batch) = next(&mut stream, watch).await? else { break };
        for row in 0..batch.num_rows() {
            if count >= limits.wanted {
                break;
            }
            if count >= limits.most {
                flush(&mut rows, watch, first, batches).await;
                let text = format!("the statement gives more than {} rows (sql_rows_max); use LIMIT", limits.most);
                return Err(SqlError::new(SqlErrorKind::Limit, text));
            }
            let values = values(&batch, row, kinds);
            let own: usize = values.iter().map(Value::weight).sum();
            if own > ROW_BYTES {
                let text = format!("row {} has more than {ROW_BYTES} bytes; use LEFT(text, n)", count + 1);
                return Err(SqlError::new(SqlErrorKind::Limit, text));
            }
            rows.push(values);
            weight += own;
            count += 1;
            if rows.len() >= BATCH_ROWS || weight >= BATCH_BYTES {
                flush(&mut rows, watch, first, batches).await;
                weight = 0;
                watch.go_on()?;
            }
        }
    }
    match first.take() {
        // A client that has gone needs no answer.
        Some(first) => drop(first.send(Ok(First::All(rows)))),
        None => flush(&mut rows, watch, first, batches).await,
    }
    Ok(())
}

/// Sends rows, and before the first that more will come.
async fn flush(
    rows: &mut Vec<Vec<Value>>,
    watch: &Watch,
    first: &mut Option<oneshot::Sender<Result<First, SqlError>>>,
    batches: &Batches,
) {
    if let Some(first) = first.take() {
        drop(first.send(Ok(First::Begun)));
    }
    if !rows.is_empty() {
        let since = Instant::now();
        drop(batches.send(Ok(std::mem::take(rows))).await);
        watch.waited(since);
    }
}

/// The next batch, unless the statement must end before it comes.
async fn next(stream: &mut SendableRecordBatchStream, watch: &Watch) -> Result<Option<RecordBatch>, SqlError> {
    loop {
        match tokio::time::timeout(LOOK, stream.next()).await {
            Err(_) => watch.go_on()?,
            Ok(None) => return Ok(None),
            Ok(Some(batch)) => {
                watch.go_on()?;
                return batch.map(Some).map_err(|error| from_datafusion(&error, watch));
            }
        }
    }
}

fn values(batch: &RecordBatch, row: usize, kinds: &[SqlType]) -> Vec<Value> {
    batch.columns().iter().zip(kinds).map(|(column, kind)| shown(column, row, *kind)).collect()
}

/// A value as it is sent.
pub(super) fn shown(column: &ArrayRef, row: usize, kind: SqlType) -> Value {
    match Val::at(column, row, kind) {
        Val::Null => Value::Null,
        Val::Integer(value) => Value::Integer(value),
        Val::Bytes(bytes) => Value::Blob(bytes.into_owned()),
        // Zero has no sign.
        Val::Double(value) if kind == SqlType::FLOAT => Value::Real(if value == 0.0 { 0.0 } else { value }),
        other => other.text(kind).map_or(Value::Null, |text| Value::Text(text.into_owned())),
    }
}

/// An error of DataFusion as one of MySQL.
pub(super) fn from_datafusion(error: &DataFusionError, watch: &Watch) -> SqlError {
    if let Some(why) = watch.ended() {
        return why;
    }
    let root = error.find_root();
    if let DataFusionError::External(own) = root
        && let Some(own) = own.downcast_ref::<SqlError>()
    {
        return own.clone();
    }
    let text: String = root.strip_backtrace().chars().take(400).collect();
    match root {
        DataFusionError::ResourcesExhausted(_) => {
            let text = format!(
                "the statement takes more than its share of {} MiB of memory: sort or group less",
                super::MEMORY_MAX >> 20
            );
            SqlError::new(SqlErrorKind::Limit, text)
        }
        _ if ["ScalarSubquery", "Exists(", "InSubquery", "SetComparison"].iter().any(|kind| text.contains(kind)) => {
            SqlError::new(SqlErrorKind::NotSupported, "a subquery of this kind is not supported at this place")
        }
        DataFusionError::NotImplemented(_) | DataFusionError::Plan(_) => {
            SqlError::new(SqlErrorKind::NotSupported, format!("not supported: {text}"))
        }
        _ => {
            // What a rule of the optimizer can't plan is wrapped in its context.
            let kind = if text.contains("not implemented") || text.contains("not supported") {
                SqlErrorKind::NotSupported
            } else {
                SqlErrorKind::Other
            };
            SqlError::new(kind, text)
        }
    }
}
