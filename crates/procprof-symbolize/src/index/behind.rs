//! Files that are written while others go on: a thread for each, waited for where the file is asked for again, and at the end.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The threads that write at the moment.
#[derive(Debug, Default)]
pub(super) struct Writers {
    threads: Mutex<Vec<(String, JoinHandle<()>)>>,
}

impl Writers {
    /// Writes the file of that name; nothing is written where no thread can be had.
    pub(super) fn start(&self, name: &str, write: impl FnOnce() + Send + 'static) {
        if let Ok(thread) = thread::Builder::new().name("index".to_owned()).spawn(write) {
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), thread));
        }
    }

    /// Waits for the files that `is_wanted` by their names.
    pub(super) fn wait(&self, is_wanted: impl Fn(&str) -> bool) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: Vec<_> = threads.extract_if(.., |(name, _)| is_wanted(name)).collect();
        drop(threads);
        for (_, thread) in wanted {
            // What could not be written is not there, no more.
            let _ = thread.join();
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.wait(|_| true);
    }
}
