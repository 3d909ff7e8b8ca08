//! How much may be on its way in at a time: a place is taken first, and grows before memory is. What arrived whole
//! waits for its room.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use procprof_profile::format::is_packed;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::config::Config;

/// The largest unpacked profile that is not unpacked again.
const KEPT_MAX: u64 = 1 << 20;

/// Bytes and profiles on their way in.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    used: Arc<Mutex<Used>>,
    /// Notified when a place is freed.
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Used {
    bytes: u64,
    profiles: u64,
    /// The part of `bytes` that is held by profiles that wait for room.
    held_by_waiting: u64,
}

/// A place in the budget; dropping it frees it.
#[derive(Debug)]
pub struct Reserved {
    budget: Budget,
    in_flight_max: u64,
    unpacked_max: u64,
    bytes: Mutex<u64>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The profile itself is too large as it arrived.
    #[error("the profile has {bytes} bytes, more than profile_bytes_max = {limit}")]
    Profile {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The profile itself is too large when unpacked.
    #[error(
        "the profile unpacks to more than {limit} bytes, the smaller of four times profile_bytes_max and \
         ingest_bytes_in_flight_max"
    )]
    Unpacked {
        /// The limit.
        limit: u64,
    },
    /// Together with those being taken in it is too large.
    #[error(
        "profiles of {used} bytes are being taken in; with this one they pass ingest_bytes_in_flight_max = {limit}"
    )]
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
    pub fn reason(&self) -> &'static str {
        match self {
            Full::Profile { .. } => "profile_bytes",
            Full::Unpacked { .. } => "unpacked_bytes",
            Full::Bytes { .. } => "bytes_in_flight",
            Full::Queue { .. } => "queue",
        }
    }

    /// Whether the profile would not fit at another time either.
    pub fn is_for_ever(&self) -> bool {
        matches!(self, Full::Profile { .. } | Full::Unpacked { .. })
    }
}

impl Budget {
    /// Takes a place for a profile of which nothing is here yet.
    ///
    /// # Errors
    /// [`Full::Queue`].
    pub fn enter(&self, config: &Config) -> Result<Reserved, Full> {
        let mut used = self.lock();
        if used.profiles >= config.ingest_queue_max {
            return Err(Full::Queue { limit: config.ingest_queue_max });
        }
        used.profiles += 1;
        let in_flight_max = config.ingest_bytes_in_flight_max;
        let unpacked_max = config.profile_bytes_max.saturating_mul(4).min(in_flight_max);
        Ok(Reserved { budget: self.clone(), in_flight_max, unpacked_max, bytes: Mutex::new(0) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reserved {
    /// Takes room for so many bytes more.
    ///
    /// # Errors
    /// [`Full::Bytes`].
    pub fn grow(&self, bytes: u64) -> Result<(), Full> {
        let mut used = self.budget.lock();
        if used.bytes.saturating_add(bytes) > self.in_flight_max {
            return Err(Full::Bytes { used: used.bytes, limit: self.in_flight_max });
        }
        used.bytes += bytes;
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        Ok(())
    }

    /// Largest size of one profile when unpacked.
    pub(super) fn unpacked_max(&self) -> u64 {
        self.unpacked_max
    }

    /// The unpacked size of a complete profile, found by unpacking it, and what a small one unpacks to, which must be
    /// dropped where it would wait for its room.
    ///
    /// Broken gzip has the size up to the broken place, which the decoder finds.
    ///
    /// # Errors
    /// [`Full::Unpacked`], as soon as it is known.
    pub(super) fn measure(&self, bytes: &Bytes) -> Result<(u64, Option<Bytes>), Full> {
        let within = |size: u64| {
            if size > self.unpacked_max { Err(Full::Unpacked { limit: self.unpacked_max }) } else { Ok(size) }
        };
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return within(bytes.len() as u64).map(|size| (size, None));
        }
        let mut unpacker = MultiGzDecoder::new(bytes.as_ref());
        let mut kept = Vec::with_capacity((bytes.len() * 4).min(KEPT_MAX as usize));
        let Ok(size) = unpacker.by_ref().take(KEPT_MAX).read_to_end(&mut kept) else {
            return within(kept.len() as u64).map(|size| (size, None));
        };
        let (mut piece, mut size) = (vec![0; 64 << 10], within(size as u64)?);
        loop {
            match unpacker.read(&mut piece) {
                // One layer is unpacked; the decoder refuses another.
                Ok(0) if size < KEPT_MAX && !is_packed(&kept) => return Ok((size, Some(kept.into()))),
                Ok(0) | Err(_) => return Ok((size, None)),
                Ok(count) => size = within(size + count as u64)?,
            }
        }
    }

    /// Takes room for so many bytes in all, if it is there; whether it is.
    pub(super) fn reach_at_once(&self, bytes: u64) -> bool {
        self.grow(bytes.saturating_sub(self.held())).is_ok()
    }

    /// Takes room for so many bytes in all, which may wait for others to be done with theirs.
    ///
    /// # Errors
    /// [`Full::Bytes`] after `patience`, and at once where those that wait already would not leave it room.
    pub(super) async fn reach(&self, bytes: u64, patience: Duration) -> Result<(), Full> {
        let held = self.held();
        let more = bytes.saturating_sub(held);
        let full = match self.grow(more) {
            Ok(()) => return Ok(()),
            Err(full) => full,
        };
        let _waiting = Waiting::begin(&self.budget, held, more, self.in_flight_max).ok_or(full)?;
        let deadline = Instant::now() + patience;
        loop {
            let freed = self.budget.freed.notified();
            tokio::pin!(freed);
            // What is freed from here on is noticed, so that it cannot be missed between the look and the wait.
            freed.as_mut().enable();
            match self.grow(more) {
                Ok(()) => return Ok(()),
                Err(full) => timeout_at(deadline, freed).await.map_err(|_| full)?,
            }
        }
    }

    fn held(&self) -> u64 {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that waits for room while it holds some.
struct Waiting<'a> {
    budget: &'a Budget,
    held: u64,
}

impl<'a> Waiting<'a> {
    /// Begins to wait for `more`; `None` if there would not be as much once all that do not wait have gone.
    fn begin(budget: &'a Budget, held: u64, more: u64, in_flight_max: u64) -> Option<Waiting<'a>> {
        let mut used = budget.lock();
        let stays = used.held_by_waiting.saturating_add(held);
        if stays.saturating_add(more) > in_flight_max {
            return None;
        }
        used.held_by_waiting = stays;
        Some(Waiting { budget, held })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.budget.lock().held_by_waiting -= self.held;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut used = self.budget.lock();
        used.bytes -= self.held();
        used.profiles -= 1;
        drop(used);
        self.budget.freed.notify_waiters();
    }
}
