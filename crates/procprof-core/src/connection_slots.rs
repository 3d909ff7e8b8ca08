//! Slots for connections: how many there may be, and which one is closed when one more comes.
//!
//! A connection is closed only if no request of it is under way: first those that have not authenticated or shown that
//! they speak the protocol, then idle ones, then those that have waited for 2 s for their client to send or to
//! read; of each class the one that has been in it the longest. A connection whose request is being received, processed
//! or answered stays.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::throttle::Throttle;

/// Time without progress after which a request or an answer under way does not keep its connection from being closed.
const UNMOVED: Duration = Duration::from_secs(2);

/// A bounded number of connections.
pub struct ConnectionSlots {
    slots: Arc<Semaphore>,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    next: u64,
    connections: HashMap<u64, (Arc<Activity>, CancellationToken)>,
}

/// A connection's slot; dropping it frees the slot.
pub struct ConnectionSlot {
    number: u64,
    table: Arc<Mutex<Table>>,
    activity: Arc<Activity>,
    given_up: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

impl ConnectionSlots {
    /// So many slots.
    pub fn new(connections: usize) -> ConnectionSlots {
        ConnectionSlots { slots: Arc::new(Semaphore::new(connections)), table: Arc::default() }
    }

    /// A slot for a connection that was just accepted; if none is free, another connection is closed. Waits while a request
    /// is processed on every connection.
    pub async fn enter(&self) -> ConnectionSlot {
        let slot = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => self.next_slot().await,
        };
        let (activity, given_up) = (Arc::new(Activity::new()), CancellationToken::new());
        let mut table = locked(&self.table);
        let number = table.next;
        table.next += 1;
        table.connections.insert(number, (Arc::clone(&activity), given_up.clone()));
        drop(table);
        ConnectionSlot { number, table: Arc::clone(&self.table), activity, given_up, _slot: slot }
    }

    async fn next_slot(&self) -> OwnedSemaphorePermit {
        /// How often to look again for a connection that is no longer at work.
        const AGAIN: Duration = Duration::from_millis(100);
        loop {
            self.close_one();
            let slot = tokio::time::timeout(AGAIN, Arc::clone(&self.slots).acquire_owned()).await;
            if let Ok(Ok(slot)) = slot {
                return slot;
            }
        }
    }

    /// A connection could not be accepted, for want of descriptors or the like: another is closed, and the rest waits a
    /// moment.
    pub async fn not_accepted(&self, error: &io::Error, what: &str, logged: &Throttle) {
        if let Some(held) = logged.pass() {
            tracing::warn!("accept a {what} connection: {error}{held}");
        }
        self.close_one();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    /// Ends the connection that can be spared first, if there is one.
    fn close_one(&self) {
        let mut table = locked(&self.table);
        let spare_since =
            |(number, (activity, _)): (&u64, &(Arc<Activity>, _))| Some((activity.spare_since()?, *number));
        if let Some((_, number)) = table.connections.iter().filter_map(spare_since).min()
            && let Some((_, given_up)) = table.connections.remove(&number)
        {
            given_up.cancel();
        }
    }
}

impl ConnectionSlot {
    /// The activity of the connection.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Cancelled when the connection is to be closed for another one.
    pub fn given_up(&self) -> &CancellationToken {
        &self.given_up
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        locked(&self.table).connections.remove(&self.number);
    }
}

/// Why a connection can be spared, the least needed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spare {
    /// It has not authenticated or shown its protocol, and has no request.
    Unauthenticated,
    /// It has no request.
    Idle,
    /// It has waited for its client for [`UNMOVED`].
    Waiting,
}

/// The current activity of a connection.
pub struct Activity(Mutex<State>);

struct State {
    known: bool,
    /// The last change from or to nothing to do.
    since: Instant,
    next: u64,
    /// The exchanges under way; since when they wait for the client, if they do.
    exchanges: HashMap<u64, Option<Instant>>,
}

/// A connection has waited for its client longer than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// For the next request.
    Idle,
    /// For more of a request, or for its answer to be read.
    Stalled,
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Overdue::Idle => "no request for too long",
            Overdue::Stalled => "nothing sent or read for too long",
        })
    }
}

impl Activity {
    fn new() -> Activity {
        Activity(Mutex::new(State { known: false, since: Instant::now(), next: 0, exchanges: HashMap::new() }))
    }

    /// The client has authenticated, or shown that it speaks the protocol: other connections are closed before it.
    pub fn know(&self) {
        locked(&self.0).known = true;
    }

    /// A request has come.
    pub fn begin(self: &Arc<Activity>) -> Exchange {
        let mut state = locked(&self.0);
        let number = state.next;
        state.next += 1;
        state.exchanges.insert(number, None);
        Exchange { activity: Arc::clone(self), number }
    }

    /// Whether it has waited for its client for longer than these times.
    pub fn overdue(&self, idle: Duration, stalled: Duration) -> Option<Overdue> {
        let state = locked(&self.0);
        if state.exchanges.is_empty() {
            return (state.since.elapsed() >= idle).then_some(Overdue::Idle);
        }
        let waits = |since: &Option<Instant>| since.is_some_and(|since| since.elapsed() >= stalled);
        state.exchanges.values().any(waits).then_some(Overdue::Stalled)
    }

    /// Why it can be spared and since when; `None` while it is at work.
    fn spare_since(&self) -> Option<(Spare, Instant)> {
        let state = locked(&self.0);
        if state.exchanges.is_empty() {
            let spare = if state.known { Spare::Idle } else { Spare::Unauthenticated };
            return Some((spare, state.since));
        }
        let waiting: Option<Vec<Instant>> = state.exchanges.values().copied().collect();
        let since = waiting?.into_iter().max()?;
        (since.elapsed() >= UNMOVED).then_some((Spare::Waiting, since))
    }
}

/// A request and its answer, under way until this is dropped.
pub struct Exchange {
    activity: Arc<Activity>,
    number: u64,
}

impl Exchange {
    /// Sets whether the exchange waits for its client; each call restarts the time of waiting.
    pub fn waits(&self, waits: bool) {
        if let Some(since) = locked(&self.activity.0).exchanges.get_mut(&self.number) {
            *since = waits.then(Instant::now);
        }
    }

    /// Marks the exchange as waiting for its client, from now on or already.
    pub fn still_waits(&self) {
        if let Some(since) = locked(&self.activity.0).exchanges.get_mut(&self.number) {
            since.get_or_insert_with(Instant::now);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = locked(&self.activity.0);
        state.exchanges.remove(&self.number);
        state.since = Instant::now();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unauthenticated_connections_are_closed_first_then_idle_then_waiting_ones() {
        let slots = ConnectionSlots::new(5);
        let (busy, waiting, idle, old, new) =
            (slots.enter().await, slots.enter().await, slots.enter().await, slots.enter().await, slots.enter().await);
        let exchange = waiting.activity().begin();
        exchange.waits(true);
        let moving = busy.activity().begin();
        moving.waits(true);
        // It has waited for long; the other one, which waits for its next piece, has not.
        locked(&waiting.activity().0).exchanges.values_mut().for_each(|since| *since = since.map(|at| at - UNMOVED));
        idle.activity().know();
        for (gone, kept) in [(&old, &new), (&new, &idle), (&idle, &waiting), (&waiting, &busy)] {
            slots.close_one();
            assert!(gone.given_up().is_cancelled() && !kept.given_up().is_cancelled());
        }
        slots.close_one();
        assert!(!busy.given_up().is_cancelled(), "a connection whose request moves stays");
    }

    #[tokio::test]
    async fn one_more_waits_until_a_connection_can_be_spared() {
        let slots = ConnectionSlots::new(1);
        let first = slots.enter().await;
        let exchange = first.activity().begin();
        let second = async {
            let slot = slots.enter().await;
            drop(slot);
        };
        let end = async {
            tokio::task::yield_now().await;
            assert!(!first.given_up().is_cancelled());
            drop(exchange);
            first.given_up().cancelled().await;
            drop(first);
        };
        tokio::join!(second, end);
    }

    #[test]
    fn what_waits_for_its_client_is_overdue_and_work_is_not() {
        let activity = Arc::new(Activity::new());
        let (now, later) = (Duration::ZERO, Duration::from_secs(3600));
        assert_eq!((activity.overdue(now, later), activity.overdue(later, now)), (Some(Overdue::Idle), None));
        let exchange = activity.begin();
        assert_eq!(activity.overdue(now, now), None);
        exchange.still_waits();
        assert_eq!((activity.overdue(now, now), activity.overdue(now, later)), (Some(Overdue::Stalled), None));
        exchange.waits(false);
        assert_eq!(activity.overdue(now, now), None);
        drop(exchange);
        assert_eq!(activity.overdue(now, later), Some(Overdue::Idle));
    }
}
