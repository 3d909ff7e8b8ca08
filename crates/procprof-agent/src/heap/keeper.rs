//! Keeps the dump files that jemalloc writes by itself within limits.
//!
//! A thread, `procprof-dumps`, looks every few seconds; it is there only where limits were given.

use super::written::{DumpFileLimits, DumpFiles};
use crate::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often it is looked: a program that allocates 1 GiB a second with `lg_prof_interval:30` has written five files by
/// then.
const EVERY: Duration = Duration::from_secs(5);

/// The thread that cleans; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Keeper {
    /// Cleans from now on.
    pub(crate) fn start(files: DumpFiles, limits: DumpFileLimits) -> Result<Self> {
        let ended: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let of_thread = ended.clone();
        let work = move || loop {
            // A folder that can't be read or written to is reported by the endpoint that lists it.
            let _ = files.clean(limits);
            if is_over(&of_thread) {
                return;
            }
        };
        let thread = crate::aside::spawn("procprof-dumps", work);
        thread.map_err(|source| Error::System { what: "start the thread that cleans heap dumps up", source })?;
        Ok(Self { ended })
    }

    /// Cleans no longer.
    pub(crate) fn end(&self) {
        *self.ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.1.notify_all();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for the next look; true when there is none.
fn is_over((ended, changed): &(Mutex<bool>, Condvar)) -> bool {
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
    *changed.wait_timeout_while(ended, EVERY, |ended| !*ended).unwrap_or_else(PoisonError::into_inner).0
}
