//! Work that blocks, off the threads of the runtime.

use super::problem::{ApiResult, Problem};

/// Runs work of the store on the blocking pool.
pub(crate) async fn on_store<T: Send + 'static>(
    work: impl FnOnce() -> procprof_store::Result<T> + Send + 'static,
) -> ApiResult<T> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(error.to_string()))?;
    done.map_err(Problem::from)
}
