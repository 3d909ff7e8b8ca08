//! How much is stored, as of a moment ago: pages show it often, and adding up a large catalog takes longer than listing
//! a page of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use procprof_store::{Store, Usage};

/// How old it may be.
const AGE_MAX: Duration = Duration::from_secs(5);
/// How old it may be where it is being renewed.
const STALE_MAX: Duration = Duration::from_secs(60);

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
#[derive(Clone, Default)]
pub struct KnownUsage(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    known: Option<(Instant, Arc<Usage>)>,
    /// Whether they are being made again.
    is_renewed: bool,
}

impl KnownUsage {
    /// The sums, at most five seconds old, or older by the time that making them again takes.
    pub async fn get(&self, store: &Arc<Store>) -> Result<Arc<Usage>, UsageError> {
        let store = Arc::clone(store);
        let known = self.lock().known.clone();
        let Some((made, usage)) = known.filter(|(made, _)| made.elapsed() < STALE_MAX) else {
            return self.clone().renew(store).await;
        };
        if made.elapsed() >= AGE_MAX && !std::mem::replace(&mut self.lock().is_renewed, true) {
            // Its result is for later requests; who waits for none is not kept waiting.
            drop(tokio::spawn(self.clone().renew(store)));
        }
        Ok(usage)
    }

    async fn renew(self, store: Arc<Store>) -> Result<Arc<Usage>, UsageError> {
        let made = tokio::task::spawn_blocking(move || store.usage()).await;
        let mut state = self.lock();
        state.is_renewed = false;
        let usage = Arc::new(made.map_err(|_| UsageError::Stopping)??);
        state.known = Some((Instant::now(), Arc::clone(&usage)));
        Ok(usage)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
