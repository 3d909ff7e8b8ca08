//! Limits of profiles on their way in: a place is taken first, and grows before memory is. What arrived whole waits for
//! its room. Places and bytes are [`Shares`]: no requester takes those of others, of operators or of captures.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use procprof_profile::format::is_packed;
use tokio::time::{Instant, timeout_at};

use crate::config::Config;
use crate::shares::{NoShare, Requester, Share, Shares};

/// The largest unpacked profile that is not unpacked again.
const KEPT_MAX: u64 = 1 << 20;

/// Bytes and profiles on their way in, by shares of their requesters.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    profiles: Shares,
    bytes: Shares,
    waiting: Arc<Mutex<HeldByWaiting>>,
}

/// The bytes that are held by profiles that wait for room.
#[derive(Debug, Default)]
struct HeldByWaiting {
    all: u64,
    /// By requester; those that wait for nothing have no row.
    own: HashMap<Requester, u64>,
}

/// A place in the budget; dropping it frees it.
#[derive(Debug)]
pub struct Reserved {
    budget: Budget,
    in_flight_max: u64,
    unpacked_max: u64,
    _place: Share,
    bytes: Share,
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
        "the profile unpacks to more than {limit} bytes, the smaller of four times profile_bytes_max and the part of \
         ingest_bytes_in_flight_max that is not kept for operators and captures"
    )]
    Unpacked {
        /// The limit.
        limit: u64,
    },
    /// Together with those being taken in it is too large.
    #[error(
        "profiles of {used} bytes are being taken in; with this one they pass {limit} bytes, as many as \
         ingest_bytes_in_flight_max allows"
    )]
    Bytes {
        /// Bytes being taken in.
        used: u64,
        /// The limit, without what is kept for others.
        limit: u64,
    },
    /// Together with its requester's others it is too large.
    #[error(
        "with this profile, those being taken in from you pass {limit} bytes, a quarter of ingest_bytes_in_flight_max"
    )]
    OwnBytes {
        /// The limit.
        limit: u64,
    },
    /// Too many are being taken in.
    #[error("{limit} profiles are being taken in, as many as ingest_queue_max allows")]
    Queue {
        /// The limit, without what is kept for others.
        limit: u64,
    },
    /// Too many of its requester are being taken in.
    #[error("{limit} profiles are being taken in from you, a quarter of ingest_queue_max")]
    OwnQueue {
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
            Full::OwnBytes { .. } => "own_bytes_in_flight",
            Full::Queue { .. } => "queue",
            Full::OwnQueue { .. } => "own_queue",
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
    /// [`Full::Queue`], [`Full::OwnQueue`].
    pub fn enter(&self, config: &Config, requester: &Requester) -> Result<Reserved, Full> {
        let place = self.profiles.take(requester, 1, config.ingest_queue_max).map_err(|full| match full {
            NoShare::Own { limit } => Full::OwnQueue { limit },
            NoShare::Pool { limit, .. } => Full::Queue { limit },
        })?;
        let in_flight_max = config.ingest_bytes_in_flight_max;
        let unpacked_max = config.profile_bytes_max.saturating_mul(4).min(requester.common_limit(in_flight_max));
        let bytes = self.bytes.take(requester, 0, in_flight_max).map_err(no_bytes)?;
        Ok(Reserved { budget: self.clone(), in_flight_max, unpacked_max, _place: place, bytes })
    }
}

fn no_bytes(full: NoShare) -> Full {
    match full {
        NoShare::Own { limit } => Full::OwnBytes { limit },
        NoShare::Pool { used, limit } => Full::Bytes { used, limit },
    }
}

impl Reserved {
    /// Takes room for so many bytes more.
    ///
    /// # Errors
    /// [`Full::Bytes`], [`Full::OwnBytes`].
    pub fn grow(&self, bytes: u64) -> Result<(), Full> {
        self.bytes.grow(bytes).map_err(no_bytes)
    }

    /// The requester that holds it.
    pub(super) fn requester(&self) -> &Requester {
        self.bytes.requester()
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
        self.grow(bytes.saturating_sub(self.bytes.amount())).is_ok()
    }

    /// Takes room for so many bytes in all, which may wait for others to be done with theirs.
    ///
    /// # Errors
    /// [`Full::Bytes`], [`Full::OwnBytes`] after `patience`, and at once where those that wait already would not leave
    /// it room.
    pub(super) async fn reach(&self, bytes: u64, patience: Duration) -> Result<(), Full> {
        let more = bytes.saturating_sub(self.bytes.amount());
        let full = match self.grow(more) {
            Ok(()) => return Ok(()),
            Err(full) => full,
        };
        let _waiting = WaitingProfile::begin(self, more).ok_or(full)?;
        let deadline = Instant::now() + patience;
        loop {
            let freed = self.budget.bytes.freed().notified();
            tokio::pin!(freed);
            // What is freed from here on is noticed, so that it cannot be missed between the look and the wait.
            freed.as_mut().enable();
            match self.grow(more) {
                Ok(()) => return Ok(()),
                Err(full) => timeout_at(deadline, freed).await.map_err(|_| full)?,
            }
        }
    }
}

/// A profile that waits for room while it holds some.
struct WaitingProfile<'a> {
    reserved: &'a Reserved,
    held: u64,
}

impl<'a> WaitingProfile<'a> {
    /// Begins to wait for `more`; `None` if there would not be as much once all that do not wait have gone.
    fn begin(reserved: &'a Reserved, more: u64) -> Option<WaitingProfile<'a>> {
        let (requester, held) = (reserved.bytes.requester(), reserved.bytes.amount());
        let mut waiting = reserved.budget.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let all = waiting.all.saturating_add(held);
        let own = waiting.own.get(requester).copied().unwrap_or(0).saturating_add(held);
        let own_limit = requester.own_limit(reserved.in_flight_max);
        // One that is larger than the share waits for others of its size alone.
        let is_small = held.saturating_add(more) <= own_limit;
        if all.saturating_add(more) > requester.common_limit(reserved.in_flight_max)
            || (is_small && own.saturating_add(more) > own_limit)
        {
            return None;
        }
        waiting.all = all;
        waiting.own.insert(requester.clone(), own);
        Some(WaitingProfile { reserved, held })
    }
}

impl Drop for WaitingProfile<'_> {
    fn drop(&mut self) {
        let mut waiting = self.reserved.budget.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.all -= self.held;
        let requester = self.reserved.bytes.requester();
        if let Some(own) = waiting.own.get_mut(requester) {
            *own -= self.held;
            if *own == 0 {
                waiting.own.remove(requester);
            }
        }
    }
}
