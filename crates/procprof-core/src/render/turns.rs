//! Turns: one requester has all slots but one and half of the queue at most, so that others' reports are made
//! meanwhile.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::auth::Principal;

/// Renderings running or waiting at a time, of all requesters and of one; more are refused.
pub(super) const WAITING_MAX: usize = 64;
pub(super) const OWN_WAITING_MAX: usize = WAITING_MAX / 2;

/// The requester of a report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Requester {
    /// A user by name.
    User(String),
    /// Without users: an address, or the IPv6 network of one machine.
    Address(IpAddr),
}

impl Requester {
    /// The requester that a user is, from an address.
    pub fn new(principal: &Principal, from: IpAddr) -> Requester {
        if *principal != Principal::local() {
            return Requester::User(principal.name.clone());
        }
        Requester::Address(match from.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
            address => address,
        })
    }
}

/// The slots of all requesters, and of each.
pub(super) struct Turns {
    pub(super) slots: Arc<Semaphore>,
    /// Slots that one requester may have.
    own_slots: usize,
    /// Those of the requesters that have renderings under way; each holds the `Arc` once for each rendering.
    requesters: Mutex<HashMap<Requester, Arc<Semaphore>>>,
}

impl Turns {
    /// As many renderings at a time.
    pub(super) fn new(concurrency: u64) -> Turns {
        let permits = usize::try_from(concurrency).unwrap_or(1).max(1);
        Turns {
            slots: Arc::new(Semaphore::new(permits)),
            own_slots: (permits - 1).max(1),
            requesters: Mutex::default(),
        }
    }

    /// The slots of a requester; `None` if as many renderings as may be are under way for it.
    pub(super) fn own_slots(&self, requester: &Requester) -> Option<Arc<Semaphore>> {
        let mut requesters = self.requesters.lock().unwrap_or_else(PoisonError::into_inner);
        requesters.retain(|_, slots| Arc::strong_count(slots) > 1);
        let own = requesters.entry(requester.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.own_slots)));
        (Arc::strong_count(own) <= OWN_WAITING_MAX).then(|| Arc::clone(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::UserRole;

    #[test]
    fn a_requester_is_a_user_or_a_machine() {
        let (local, vic) = (Principal::local(), Principal::new("vic", UserRole::Viewer));
        let requester = |principal: &Principal, address: &str| Requester::new(principal, address.parse().unwrap());
        assert_eq!(requester(&vic, "10.0.0.1"), requester(&vic, "10.0.0.2"));
        assert_ne!(requester(&local, "10.0.0.1"), requester(&local, "10.0.0.2"));
        assert_eq!(requester(&local, "10.0.0.1"), requester(&local, "::ffff:10.0.0.1"));
        assert_eq!(requester(&local, "2001:db8::1"), requester(&local, "2001:db8::ffff:1"));
        assert_ne!(requester(&local, "2001:db8::1"), requester(&local, "2001:db8:0:1::1"));
    }

    #[test]
    fn one_requester_leaves_a_slot_and_half_of_the_queue() {
        let turns = Turns::new(3);
        let (one, other) = (Requester::User("one".to_owned()), Requester::User("other".to_owned()));
        let held: Vec<_> = std::iter::from_fn(|| turns.own_slots(&one)).take(WAITING_MAX).collect();
        assert_eq!((held.len(), held[0].available_permits()), (OWN_WAITING_MAX, 2));
        assert!(turns.own_slots(&other).is_some());
        drop(held);
        assert!(turns.own_slots(&one).is_some());
        assert_eq!(turns.requesters.lock().unwrap().len(), 1, "who has nothing under way is forgotten");
    }
}
