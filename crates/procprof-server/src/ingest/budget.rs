//! How much may be on its way in at a time.

use std::sync::{Arc, Mutex, PoisonError};

use crate::config::Config;

/// Bytes and profiles on their way in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<Mutex<Used>>);

#[derive(Debug, Default)]
struct Used {
    bytes: u64,
    profiles: u64,
}

/// A place in the budget; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Reserved {
    budget: Budget,
    bytes: u64,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// The profile itself is too large.
    #[error("the profile has {bytes} bytes, more than profile_bytes_max = {limit}")]
    Profile {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Together with those being taken in it is too large.
    #[error("profiles of {used} bytes are being taken in; with this one they pass ingest_bytes_in_flight_max = {limit}")]
    Bytes {
        /// Bytes being taken in.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// Too many are being taken in.
    #[error("{limit} profiles are being taken in, as many as ingest_queue_max allows")]
    Queue {
        /// The limit.
        limit: u64,
    },
}

impl Full {
    /// The label it is counted by.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Full::Profile { .. } => "profile_bytes",
            Full::Bytes { .. } => "bytes_in_flight",
            Full::Queue { .. } => "queue",
        }
    }
}

impl Budget {
    /// Takes a place for a profile of so many bytes.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn reserve(&self, bytes: u64, config: &Config) -> Result<Reserved, Full> {
        if bytes > config.profile_bytes_max {
            return Err(Full::Profile { bytes, limit: config.profile_bytes_max });
        }
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.profiles >= config.ingest_queue_max {
            return Err(Full::Queue { limit: config.ingest_queue_max });
        }
        if used.bytes.saturating_add(bytes) > config.ingest_bytes_in_flight_max {
            return Err(Full::Bytes { used: used.bytes, limit: config.ingest_bytes_in_flight_max });
        }
        used.bytes += bytes;
        used.profiles += 1;
        Ok(Reserved { budget: self.clone(), bytes })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut used = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.bytes -= self.bytes;
        used.profiles -= 1;
    }
}
