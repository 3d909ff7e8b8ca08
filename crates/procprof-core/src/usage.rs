//! How much is stored, as of a moment ago: pages show it often, and adding up a large catalog takes longer than listing
//! a page of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use procprof_store::{Store, Usage};

/// From this age on it is renewed.
const AGE_MAX: Duration = Duration::from_secs(5);
/// From this age on a request waits for its renewal.
const STALE_MAX: Duration = Duration::from_secs(60);

/// Rest after a renewal, in its own lengths.
const RESTS: u32 = 10;

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

#[derive(Clone)]
struct KnownSums {
    made: Instant,
    /// Time that it took.
    took: Duration,
    usage: Arc<Usage>,
}

impl KnownSums {
    fn is_older(&self, age: Duration, rests: u32) -> bool {
        self.made.elapsed() >= age.max(self.took * rests)
    }
}

/// The sums and when they were made.
#[derive(Clone, Default)]
pub struct KnownUsage(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    known: Option<KnownSums>,
    /// Whether a task computes them anew.
    is_renewing: bool,
}

impl KnownUsage {
    /// The sums, at most a minute old. A request that finds them more than five seconds old starts their renewal, and
    /// does not wait for it.
    pub async fn get(&self, store: &Arc<Store>) -> Result<Arc<Usage>, UsageError> {
        let store = Arc::clone(store);
        let known = self.lock().known.clone();
        let Some(known) = known.filter(|known| !known.is_older(STALE_MAX, 2 * RESTS)) else {
            return self.clone().renew(store).await;
        };
        if known.is_older(AGE_MAX, RESTS) && !std::mem::replace(&mut self.lock().is_renewing, true) {
            drop(tokio::spawn(self.clone().renew(store)));
        }
        Ok(known.usage)
    }

    async fn renew(self, store: Arc<Store>) -> Result<Arc<Usage>, UsageError> {
        let begun = Instant::now();
        let made = tokio::task::spawn_blocking(move || store.usage()).await;
        let mut state = self.lock();
        state.is_renewing = false;
        let usage = Arc::new(made.map_err(|_| UsageError::Stopping)??);
        state.known = Some(KnownSums { made: Instant::now(), took: begun.elapsed(), usage: Arc::clone(&usage) });
        Ok(usage)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
