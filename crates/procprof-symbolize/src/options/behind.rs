//! Files that are written in the background: a thread for each, which is joined when the file is requested again, and
//! at the end.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The threads that are writing.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    threads: Mutex<Vec<(String, JoinHandle<()>)>>,
}

impl Writers {
    /// Writes the file of that name; nothing is written if no thread can be started.
    pub(crate) fn start(&self, name: &str, write: impl FnOnce() + Send + 'static) {
        if let Ok(thread) = thread::Builder::new().name("index".to_owned()).spawn(write) {
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), thread));
        }
    }

    /// Waits for the files that `is_wanted` by their names.
    pub(crate) fn wait(&self, is_wanted: impl Fn(&str) -> bool) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: Vec<_> = threads.extract_if(.., |(name, _)| is_wanted(name)).collect();
        drop(threads);
        for (_, thread) in wanted {
            // A file that could not be written is only missing.
            let _ = thread.join();
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.wait(|_| true);
    }
}
