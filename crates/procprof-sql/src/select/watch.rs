//! Conditions that end a statement before its rows do: too much time, `KILL`, a disconnected client, too much memory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::virtual_table::{bound_memory_by, memory_used};
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// Batches of rows on their way to a client.
pub(super) type Batches = mpsc::Sender<Result<Vec<Vec<Value>>, SqlError>>;

/// Memory of SQLite, of all statements together with the catalog's own, in bytes. Above it, statements are ended since
/// whose beginning it grew by half of this: SQLite reports only the sum, and a short statement beside a greedy one
/// should not be ended for it.
const MEMORY_MAX: u64 = 256 << 20;
/// Memory beyond which SQLite gives none, in bytes: what a statement can take between two looks at its watch.
const MEMORY_NEVER: u64 = 2 * MEMORY_MAX;
/// A client may take this many times as long to fetch the rows as their statement may take.
const PATIENCE: u32 = 10;

/// Bounds the memory of SQLite in this process, for what no watch sees in time.
pub(super) fn bound_memory() {
    bound_memory_by(MEMORY_NEVER);
}

/// One statement's.
pub(super) struct Watch {
    began: Instant,
    limit: Duration,
    cancel: CancellationToken,
    /// The receiver of the rows; `None`: it need not exist.
    batches: Option<mpsc::WeakSender<Result<Vec<Vec<Value>>, SqlError>>>,
    /// Milliseconds the statement waited for the client.
    waited: AtomicU64,
    /// Memory of SQLite when it began.
    memory: u64,
    /// Why it was ended.
    why: OnceLock<SqlError>,
}

impl Watch {
    pub(super) fn new(
        limit: Duration,
        cancel: CancellationToken,
        batches: Option<mpsc::WeakSender<Result<Vec<Vec<Value>>, SqlError>>>,
    ) -> Watch {
        Watch {
            began: Instant::now(),
            limit,
            cancel,
            batches,
            waited: AtomicU64::new(0),
            memory: memory_used(),
            why: OnceLock::new(),
        }
    }

    /// Adds the time of a wait for the client, which is not the statement's.
    pub(super) fn waited(&self, since: Instant) {
        self.waited.fetch_add(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Why the statement must end, if it must: once that is so, it stays so.
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
        let memory = memory_used();
        if memory > MEMORY_MAX && memory.saturating_sub(self.memory) > MEMORY_MAX / 2 {
            let text = format!(
                "statements take more than {} MiB of memory; this one was ended: sort or group less",
                MEMORY_MAX >> 20
            );
            return Some(SqlError::new(SqlErrorKind::Limit, text));
        }
        None
    }
}
