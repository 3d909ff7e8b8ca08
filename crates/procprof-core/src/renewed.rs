//! [`Renewed`]: what is read from the store for pages that show it often, as of a moment ago, where reading it takes
//! longer than a page may.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use procprof_store::Store;

/// From this age on a request waits for the renewal.
const STALE_MAX: Duration = Duration::from_secs(60);
/// Rest after a reading, in its own lengths: readings take at most a tenth of a CPU.
const RESTS: u32 = 10;

/// The reason for which it is not known.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The catalog cannot be read.
    #[error(transparent)]
    Store(#[from] procprof_store::Error),
    /// A part of the server ended meanwhile.
    #[error("the server is stopping")]
    Stopping,
}

/// A value as it was read last.
pub struct Renewed<T>(Arc<State<T>>);

struct State<T> {
    latest: Mutex<Option<Dated<T>>>,
    /// One reading at a time.
    turn: tokio::sync::Mutex<()>,
    /// Whether a task reads it anew.
    is_renewing: AtomicBool,
}

/// A value with the time of its reading.
struct Dated<T> {
    made: Instant,
    /// Time that it took.
    took: Duration,
    value: Arc<T>,
}

impl<T> Dated<T> {
    fn is_older(&self, age: Duration, rests: u32) -> bool {
        self.made.elapsed() >= age.max(self.took * rests)
    }
}

impl<T> Clone for Renewed<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Renewed<T> {
    fn default() -> Self {
        Self(Arc::new(State {
            latest: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            is_renewing: AtomicBool::new(false),
        }))
    }
}

impl<T: Send + Sync + 'static> Renewed<T> {
    /// The value, at most a minute old, or 20 times the time that `read` takes. A request that finds it older than
    /// `age_max`, or ten times that time, starts its renewal, and does not wait for it.
    ///
    /// # Errors
    /// Of `read`, where it has to be waited for; in the log otherwise.
    pub async fn get(
        &self,
        store: &Arc<Store>,
        age_max: Duration,
        read: fn(&Store) -> procprof_store::Result<T>,
    ) -> Result<Arc<T>, ReadError> {
        let Some(value) = self.latest(STALE_MAX, 2 * RESTS) else {
            return self.renew(store, age_max, read).await;
        };
        if self.latest(age_max, RESTS).is_none() && !self.0.is_renewing.swap(true, Ordering::Relaxed) {
            let (own, store) = (self.clone(), Arc::clone(store));
            drop(tokio::spawn(async move {
                if let Err(error) = own.renew(&store, age_max, read).await {
                    tracing::warn!("read anew what pages show of the store: {error}");
                }
                own.0.is_renewing.store(false, Ordering::Relaxed);
            }));
        }
        Ok(value)
    }

    /// Reads it, or takes what another request has read meanwhile.
    async fn renew(
        &self,
        store: &Arc<Store>,
        age_max: Duration,
        read: fn(&Store) -> procprof_store::Result<T>,
    ) -> Result<Arc<T>, ReadError> {
        let _turn = self.0.turn.lock().await;
        if let Some(value) = self.latest(age_max, RESTS) {
            return Ok(value);
        }
        let (store, begun) = (Arc::clone(store), Instant::now());
        let value = tokio::task::spawn_blocking(move || read(&store)).await.map_err(|_| ReadError::Stopping)??;
        let latest = Dated { made: Instant::now(), took: begun.elapsed(), value: Arc::new(value) };
        let value = Arc::clone(&latest.value);
        *self.0.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(latest);
        Ok(value)
    }

    /// The value, unless it is older.
    fn latest(&self, age: Duration, rests: u32) -> Option<Arc<T>> {
        let latest = self.0.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.as_ref().filter(|latest| !latest.is_older(age, rests)).map(|latest| Arc::clone(&latest.value))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use procprof_store::StoreOptions;

    use super::*;

    #[tokio::test]
    async fn requests_share_a_reading_and_an_old_value_is_renewed_behind_them() {
        static READ: AtomicUsize = AtomicUsize::new(0);
        fn read(_: &Store) -> procprof_store::Result<usize> {
            Ok(READ.fetch_add(1, Ordering::SeqCst))
        }
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(folder.path(), StoreOptions::default()).unwrap());
        let known: Renewed<usize> = Renewed::default();
        let long = Duration::from_secs(3600);
        let (one, other) = tokio::join!(known.get(&store, long, read), known.get(&store, long, read));
        assert_eq!((*one.unwrap(), *other.unwrap()), (0, 0));
        // The old value is given while the next one is read, once ten times its own time has passed.
        assert_eq!(*known.get(&store, Duration::ZERO, read).await.unwrap(), 0);
        let until = Instant::now() + Duration::from_secs(180);
        while *known.get(&store, Duration::ZERO, read).await.unwrap() == 0 {
            assert!(Instant::now() < until, "it is not read anew");
            tokio::task::yield_now().await;
        }
    }
}
