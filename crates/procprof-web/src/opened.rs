//! Files that users opened to look at: kept in memory for a while, within bounds, and never stored.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use procprof_core::ingest::Inspected;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::{ApiResult, Problem};

/// Files kept at a time; further ones take the place of the oldest.
const FILES_MAX: usize = 16;
/// Their bytes together.
pub(crate) const BYTES_MAX: usize = 128 << 20;
/// Reports of them made at a time.
const RENDERS_MAX: usize = 2;
/// How long one is kept.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(3600);

/// An opened file.
pub(crate) struct OpenedFile {
    /// Its part of the address, which cannot be guessed.
    pub(crate) token: String,
    /// The name it had.
    pub(crate) name: String,
    /// The user who opened it, who alone may look at it.
    pub(crate) by: String,
    pub(crate) profiles: Vec<Inspected>,
    at: Instant,
}

impl OpenedFile {
    pub(crate) fn new(token: String, name: String, by: String, profiles: Vec<Inspected>) -> OpenedFile {
        OpenedFile { token, name, by, profiles, at: Instant::now() }
    }

    /// The bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.profiles.iter().map(|profile| profile.encoded.len()).sum()
    }
}

/// All opened files.
pub struct OpenedFiles {
    files: Mutex<VecDeque<Arc<OpenedFile>>>,
    renders: Arc<Semaphore>,
}

impl Default for OpenedFiles {
    fn default() -> OpenedFiles {
        OpenedFiles { files: Mutex::default(), renders: Arc::new(Semaphore::new(RENDERS_MAX)) }
    }
}

impl OpenedFiles {
    /// Keeps a file; the oldest ones make room.
    pub(crate) fn keep(&self, file: OpenedFile) {
        let mut files = self.current();
        let room = BYTES_MAX.saturating_sub(file.bytes());
        while files.len() >= FILES_MAX || (!files.is_empty() && bytes(&files) > room) {
            files.pop_front();
        }
        files.push_back(Arc::new(file));
    }

    /// The file of a token, for the user who opened it.
    pub(crate) fn get(&self, token: &str, by: &str) -> Option<Arc<OpenedFile>> {
        self.current().iter().find(|file| file.token == token && file.by == by).cloned()
    }

    /// Forgets a file.
    pub(crate) fn close(&self, token: &str, by: &str) {
        self.current().retain(|file| file.token != token || file.by != by);
    }

    /// A place to make a report in, when it is its turn.
    pub(crate) async fn render_slot(&self) -> ApiResult<OwnedSemaphorePermit> {
        Arc::clone(&self.renders).acquire_owned().await.map_err(|_| Problem::internal("the server is stopping"))
    }

    /// Those that are not too old.
    fn current(&self) -> MutexGuard<'_, VecDeque<Arc<OpenedFile>>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| file.at.elapsed() < AGE_MAX);
        files
    }
}

fn bytes(files: &VecDeque<Arc<OpenedFile>>) -> usize {
    files.iter().map(|file| file.bytes()).sum()
}
