//! The waiting captures of a node's type, behind a running one of another length.
//!
//! Captures on request go before the schedule: while one waits for a node's type, the schedule begins no new capture of
//! it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use procprof_collect::Flight;
use procprof_profile::ProfileType;
use tokio::sync::watch;

/// Time a capture may take beyond its length: symbols, storing, a turn among others.
const MARGIN: Duration = Duration::from_secs(60);

type Key = (u64, ProfileType);

/// The people who wait, counted by node and type.
#[derive(Default)]
pub(crate) struct Queue(watch::Sender<HashMap<Key, usize>>);

/// A place among those who wait, for as long as it lives.
pub(super) struct QueueEntry<'a> {
    queue: &'a Queue,
    key: Key,
}

impl Queue {
    /// Joins those who wait.
    pub(super) fn enter(&self, node: u64, profile_type: &ProfileType) -> QueueEntry<'_> {
        let key = (node, profile_type.clone());
        self.0.send_modify(|waiting| *waiting.entry(key.clone()).or_default() += 1);
        QueueEntry { queue: self, key }
    }

    /// Waits until the queue is empty.
    pub(super) async fn empty(&self, node: u64, profile_type: &ProfileType) {
        let key = (node, profile_type.clone());
        // The sender lives as long as this borrow.
        let _ = self.0.subscribe().wait_for(|waiting| !waiting.contains_key(&key)).await;
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        self.queue.0.send_modify(|waiting| {
            let left = waiting.get(&self.key).map_or(0, |count| count.saturating_sub(1));
            match left {
                0 => drop(waiting.remove(&self.key)),
                left => drop(waiting.insert(self.key.clone(), left)),
            }
        });
    }
}

/// How long to wait for a capture that is running, when one's own takes so many seconds.
pub(super) fn patience(running: &Flight, seconds: u32) -> Duration {
    let until = Timestamp::from_nanosecond(i128::from(running.until.0)).unwrap_or_default();
    let left = until.duration_since(Timestamp::now()).as_millis().max(0);
    Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)) + Duration::from_secs(u64::from(seconds)) + MARGIN
}

/// The state of a waiting capture, as shown to clients that follow it.
#[derive(Default)]
pub(super) struct Wait(Mutex<(Option<String>, Option<Timestamp>)>);

impl Wait {
    /// The capture that it waits for, if it does.
    pub(crate) fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// When it had waited long enough; `None` if it never had to.
    pub(crate) fn over(&self) -> Option<Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    pub(super) fn begin(&self, reason: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(reason);
    }

    pub(super) fn end(&self) {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if own.0.take().is_some() {
            own.1 = Some(Timestamp::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_schedule_goes_when_the_last_has_left() {
        let queue = Queue::default();
        let (first, second) = (queue.enter(1, &ProfileType::Cpu), queue.enter(1, &ProfileType::Cpu));
        queue.empty(1, &ProfileType::Heap).await;
        drop(first);
        let soon = Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, queue.empty(1, &ProfileType::Cpu)).await.is_err());
        drop(second);
        queue.empty(1, &ProfileType::Cpu).await;
    }
}
