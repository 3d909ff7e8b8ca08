//! One capture at a time of each node and type, also where one capture is of several types: a second one joins the
//! first if that serves it, else it gets the owner and end of the first, and can wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procprof_profile::{Nanos, ProfileType};
use tokio::sync::watch;

use crate::Request;

/// The captures in flight. `T` is what a capture ends with, shared with everyone who joined.
#[derive(Debug)]
pub struct Flights<T> {
    table: Arc<Mutex<Table<T>>>,
}

type Key = (u64, ProfileType);
type Table<T> = HashMap<Key, InFlight<T>>;

#[derive(Clone, Debug)]
struct InFlight<T> {
    flight: Flight,
    outcome: watch::Receiver<Option<T>>,
}

/// A capture in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Id of the node.
    pub node: u64,
    /// The request that is running.
    pub request: Request,
    /// The requester: `schedule`, a user's name, …
    pub by: String,
    /// When it should end (UTC).
    pub until: Nanos,
}

/// The role of a caller that enters.
#[derive(Debug)]
pub enum FlightRole<T> {
    /// Capture, and report the outcome by [`Leader::finish`].
    Lead(Leader<T>),
    /// A capture that serves the request is running: wait for it.
    Join(Follower<T>),
    /// A capture that does not serve the request is running: wait until it ends, or give up.
    Busy(Follower<T>),
}

/// The right to capture, and the duty to report the outcome. Dropping it without [`Leader::finish`] frees the place,
/// and followers get [`Abandoned`].
#[derive(Debug)]
pub struct Leader<T> {
    table: Arc<Mutex<Table<T>>>,
    keys: Vec<Key>,
    outcome: watch::Sender<Option<T>>,
}

/// A place in another caller's capture.
#[derive(Debug)]
pub struct Follower<T> {
    /// The capture that was joined.
    pub flight: Flight,
    outcome: watch::Receiver<Option<T>>,
}

/// The capture that was joined was given up without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the capture was given up")]
pub struct Abandoned;

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Flights { table: Arc::default() }
    }
}

impl<T> Clone for Flights<T> {
    fn clone(&self) -> Self {
        Flights { table: Arc::clone(&self.table) }
    }
}

impl<T: Clone> Flights<T> {
    /// No captures.
    pub fn new() -> Flights<T> {
        Flights::default()
    }

    /// Starts, joins or refuses a capture.
    pub fn enter(&self, flight: Flight) -> FlightRole<T> {
        let keys: Vec<Key> = flight.request.types().map(|profile_type| (flight.node, profile_type.clone())).collect();
        let mut table = lock(&self.table);
        if let Some(running) = keys.iter().find_map(|key| table.get(key)) {
            let follower = Follower { flight: running.flight.clone(), outcome: running.outcome.clone() };
            return if flight.request.fits(&running.flight.request) {
                FlightRole::Join(follower)
            } else {
                FlightRole::Busy(follower)
            };
        }
        let (outcome, receiver) = watch::channel(None);
        let running = InFlight { flight, outcome: receiver };
        table.extend(keys.iter().map(|key| (key.clone(), running.clone())));
        FlightRole::Lead(Leader { table: Arc::clone(&self.table), keys, outcome })
    }

    /// All captures in flight, by node and type; one of several types is there for each.
    pub fn list(&self) -> Vec<Flight> {
        let mut flights: Vec<Flight> = lock(&self.table).values().map(|running| running.flight.clone()).collect();
        flights.sort_by(|a, b| (a.node, &a.request.profile_type).cmp(&(b.node, &b.request.profile_type)));
        flights
    }
}

impl<T> Leader<T> {
    /// Frees the place and sends the outcome to all followers.
    pub fn finish(self, outcome: T) {
        // Freed first: a caller that enters now must lead a capture of its own, not join one that is over.
        let mut table = lock(&self.table);
        self.keys.iter().for_each(|key| drop(table.remove(key)));
        drop(table);
        self.outcome.send_replace(Some(outcome));
    }
}

impl<T> Drop for Leader<T> {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        // After `finish` the place may be another's already.
        let own = self.outcome.subscribe();
        for key in &self.keys {
            if table.get(key).is_some_and(|running| running.outcome.same_channel(&own)) {
                table.remove(key);
            }
        }
    }
}

impl<T: Clone> Follower<T> {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// [`Abandoned`] when the leader was dropped without one.
    pub async fn wait(mut self) -> Result<T, Abandoned> {
        let outcome = self.outcome.wait_for(Option::is_some).await.map_err(|_| Abandoned)?;
        outcome.clone().ok_or(Abandoned)
    }
}

fn lock<T>(table: &Mutex<Table<T>>) -> MutexGuard<'_, Table<T>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(seconds: u32) -> Flight {
        Flight { node: 7, request: Request::new(ProfileType::Cpu).seconds(seconds), by: "ann".into(), until: Nanos(9) }
    }

    fn lead(flights: &Flights<u32>, flight: Flight) -> Leader<u32> {
        match flights.enter(flight) {
            FlightRole::Lead(leader) => leader,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_second_joins_or_gets_the_owner_and_end() {
        let flights = Flights::new();
        let leader = lead(&flights, cpu(10));
        let FlightRole::Join(follower) = flights.enter(cpu(10)) else { panic!("not joined") };
        let FlightRole::Busy(busy) = flights.enter(cpu(5)) else { panic!("not refused") };
        assert_eq!((busy.flight.by.as_str(), busy.flight.until), ("ann", Nanos(9)));
        let other_type = Flight { request: Request::new(ProfileType::Heap), ..cpu(10) };
        drop(lead(&flights, other_type));
        assert_eq!(flights.list(), [cpu(10)]);
        leader.finish(42);
        assert_eq!((follower.wait().await, busy.wait().await), (Ok(42), Ok(42)));
        assert!(flights.list().is_empty());
    }

    #[tokio::test]
    async fn a_capture_of_several_types_holds_the_place_of_each() {
        let flights = Flights::new();
        let both = || Flight { request: Request::new(ProfileType::Cpu).and(ProfileType::Alloc).seconds(10), ..cpu(10) };
        let alloc = |seconds| Flight { request: Request::new(ProfileType::Alloc).seconds(seconds), ..cpu(10) };
        let leader = lead(&flights, both());
        let FlightRole::Join(follower) = flights.enter(alloc(10)) else { panic!("not joined") };
        assert!(matches!(flights.enter(alloc(5)), FlightRole::Busy(_)));
        leader.finish(7);
        assert_eq!(follower.wait().await, Ok(7));
        let alone = lead(&flights, alloc(10));
        assert!(matches!(flights.enter(both()), FlightRole::Busy(_)), "what runs has one of the two");
        drop(alone);
        drop(lead(&flights, both()));
        assert!(flights.list().is_empty());
    }

    #[tokio::test]
    async fn an_abandoned_capture_frees_its_place() {
        let flights = Flights::new();
        let leader = lead(&flights, cpu(10));
        let FlightRole::Join(follower) = flights.enter(cpu(10)) else { panic!("not joined") };
        drop(leader);
        assert_eq!(follower.wait().await, Err(Abandoned));
        lead(&flights, cpu(5)).finish(1);
    }
}
