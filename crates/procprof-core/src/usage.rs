//! How much is stored, as of a moment ago: pages show it often, and adding up a large catalog takes longer than listing
//! a page of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use procprof_store::{Store, Usage};

/// How old it may be.
const AGE_MAX: Duration = Duration::from_secs(5);

/// Why the sums are not known.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The catalog cannot be read.
    #[error(transparent)]
    Store(#[from] procprof_store::Error),
    /// A part of the server ended meanwhile.
    #[error("the server is stopping")]
    Stopping,
}

/// The sums and when they were made.
#[derive(Default)]
pub struct KnownUsage(Mutex<Option<(Instant, Arc<Usage>)>>);

impl KnownUsage {
    /// The sums, at most five seconds old.
    pub async fn get(&self, store: &Arc<Store>) -> Result<Arc<Usage>, UsageError> {
        if let Some((made, usage)) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner)
            && made.elapsed() < AGE_MAX
        {
            return Ok(Arc::clone(usage));
        }
        let store = Arc::clone(store);
        let usage = tokio::task::spawn_blocking(move || store.usage()).await.map_err(|_| UsageError::Stopping)??;
        let usage = Arc::new(usage);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), Arc::clone(&usage)));
        Ok(usage)
    }
}
