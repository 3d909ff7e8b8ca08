//! Turns for reports and child processes: a requester has a part of the slots and of the queue, so that others have
//! their turn meanwhile.
//!
//! Of the queue a requester has a quarter, and a quarter is kept for those with priority ([`Shares`]). Of the slots,
//! which are few, one with priority has all but one, another a quarter (at least one), and one slot is kept for
//! priority.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::shares::{NoShare, PARTS, Requester, Share, Shares};

/// The slots of all requesters, and of each.
pub(crate) struct Turns {
    pub(crate) slots: Arc<Semaphore>,
    /// Slots that requesters without priority may have together.
    ordinary: Arc<Semaphore>,
    concurrency: usize,
    queue: Shares,
    waiting_max: u64,
    /// The slots of requesters that have something under way; each holds the `Arc` once for each turn.
    requesters: Mutex<HashMap<Requester, Arc<Semaphore>>>,
}

/// A place in the queue.
pub(crate) struct Turn {
    slots: Arc<Semaphore>,
    /// `None` with priority.
    ordinary: Option<Arc<Semaphore>>,
    own: Arc<Semaphore>,
    _place: Share,
}

/// A slot, with the parts of it that count for others like its requester.
pub(crate) struct Slot {
    _slots: Vec<OwnedSemaphorePermit>,
    _turn: Turn,
}

impl Turns {
    /// So many slots, and so many turns running or waiting.
    pub(crate) fn new(concurrency: u64, waiting_max: u64) -> Turns {
        let concurrency = usize::try_from(concurrency).unwrap_or(1).max(1);
        let kept = (concurrency / PARTS as usize).max(1);
        Turns {
            slots: Arc::new(Semaphore::new(concurrency)),
            ordinary: Arc::new(Semaphore::new(concurrency.saturating_sub(kept).max(1))),
            concurrency,
            queue: Shares::default(),
            waiting_max,
            requesters: Mutex::default(),
        }
    }

    /// Enters the queue.
    ///
    /// # Errors
    /// As many turns as may be are under way, of all or of this requester.
    pub(crate) fn enter(&self, requester: &Requester) -> Result<Turn, NoShare> {
        let place = self.queue.take(requester, 1, self.waiting_max)?;
        let own_slots = match requester.has_priority() {
            true => (self.concurrency - 1).max(1),
            false => self.concurrency.div_ceil(PARTS as usize),
        };
        let mut requesters = self.requesters.lock().unwrap_or_else(PoisonError::into_inner);
        requesters.retain(|_, slots| Arc::strong_count(slots) > 1);
        let own = requesters.entry(requester.clone()).or_insert_with(|| Arc::new(Semaphore::new(own_slots)));
        let (slots, own) = (Arc::clone(&self.slots), Arc::clone(own));
        let ordinary = (!requester.has_priority()).then(|| Arc::clone(&self.ordinary));
        Ok(Turn { slots, ordinary, own, _place: place })
    }
}

impl Turn {
    /// Waits for a slot; `None` when the server stops.
    pub(crate) async fn slot(self) -> Option<Slot> {
        // The requester's own first, so that a task that waits for those blocks no other.
        let mut held = vec![Arc::clone(&self.own).acquire_owned().await.ok()?];
        if let Some(ordinary) = &self.ordinary {
            held.push(Arc::clone(ordinary).acquire_owned().await.ok()?);
        }
        held.push(Arc::clone(&self.slots).acquire_owned().await.ok()?);
        Some(Slot { _slots: held, _turn: self })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use futures_util::FutureExt;

    use super::*;
    use crate::auth::{Principal, UserRole};

    fn user(name: &str, role: UserRole) -> Requester {
        Requester::new(&Principal::new(name, role), IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// The slots that a requester gets at once, while it waits for more.
    fn slots(turns: &Turns, requester: &Requester) -> Vec<Slot> {
        let next = || turns.enter(requester).ok()?.slot().now_or_never()?;
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_viewer_has_a_quarter_and_a_slot_is_kept_for_operators() {
        let (viewers, olga) =
            (["a", "b", "c"].map(|name| user(name, UserRole::Viewer)), user("olga", UserRole::Operator));
        for (concurrency, own, kept) in [(1, [1, 0, 0], 0), (2, [1, 0, 0], 1), (3, [1, 1, 0], 1), (8, [2, 2, 2], 2)] {
            let turns = Turns::new(concurrency, 64);
            let held: Vec<Vec<Slot>> = viewers.iter().map(|viewer| slots(&turns, viewer)).collect();
            assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), own, "{concurrency}");
            assert_eq!(slots(&turns, &olga).len(), kept, "{concurrency}");
        }
        let turns = Turns::new(3, 64);
        let held = slots(&turns, &olga);
        assert_eq!((held.len(), slots(&turns, &viewers[0]).len()), (2, 1), "an operator leaves one");
    }

    #[test]
    fn one_requester_leaves_three_quarters_of_the_queue() {
        let turns = Turns::new(3, 64);
        let (one, other) = (user("one", UserRole::Viewer), user("other", UserRole::Viewer));
        let held: Vec<_> = std::iter::from_fn(|| turns.enter(&one).ok()).collect();
        assert_eq!(held.len(), 16);
        assert!(turns.enter(&other).is_ok());
        drop(held);
        assert!(turns.enter(&one).is_ok());
        assert_eq!(turns.requesters.lock().unwrap().len(), 1, "who has nothing under way is forgotten");
    }
}
