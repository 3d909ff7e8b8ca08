//! Counts wrong passwords, by name and address and by address alone, so that guessing is slow and others are not shut
//! out by it.
//!
//! A password that is about to be checked counts as wrong until it proves right: no more are checked at a time than may
//! be wrong. After ten for a name from one address within a minute, none is checked for that name from there for the
//! rest of the minute, and after a hundred for all names together none from that address. A password that was right
//! before needs no check and is taken all the same, until a hundred more (a thousand for all names) have been refused:
//! more would make it something to guess at. From where the name has come in before, it is taken until
//! [`PROVEN_REFUSED`] were refused for that name: who uses an old password in a loop does not shut out who has the new
//! one.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::network;

/// Time a count begins anew after.
const WINDOW: Duration = Duration::from_secs(60);
/// Names and addresses remembered; beyond it they are forgotten together.
const REMEMBERED_MAX: usize = 10_000;

/// The failures that are permitted within [`WINDOW`].
struct Limit {
    wrong: u32,
    refused: u32,
}

const OF_NAME: Limit = Limit { wrong: 10, refused: 100 };
const OF_ADDRESS: Limit = Limit { wrong: 100, refused: 1000 };

/// Refusals of a name within [`WINDOW`] where it has come in before: as many as checks of passwords could be made.
const PROVEN_REFUSED: u32 = 6000;

/// The counts.
#[derive(Default)]
pub(super) struct Guesses {
    table: Mutex<Table>,
    hasher: RandomState,
}

#[derive(Default)]
struct Table {
    names: HashMap<(IpAddr, u64), Count>,
    addresses: HashMap<IpAddr, Count>,
    /// Names that have come in, by address.
    proven: HashSet<(IpAddr, u64)>,
}

#[derive(Clone, Copy)]
struct Count {
    since: Instant,
    wrong: u32,
    refused: u32,
}

impl Count {
    fn fresh() -> Count {
        Count { since: Instant::now(), wrong: 0, refused: 0 }
    }

    fn is_over(&self) -> bool {
        self.since.elapsed() >= WINDOW
    }
}

/// A password that is being checked; unless it proves right, it stays counted as wrong.
#[must_use]
pub(super) struct Attempt<'a> {
    guesses: &'a Guesses,
    key: (IpAddr, u64),
}

impl Guesses {
    /// A password for a name is about to be checked; `None` when no more may be.
    pub(super) fn attempt(&self, name: &str, from: IpAddr) -> Option<Attempt<'_>> {
        let key = self.key(name, from);
        let mut table = self.table();
        let of_address = current(&mut table.addresses, key.0);
        if of_address.wrong >= OF_ADDRESS.wrong {
            of_address.refused = of_address.refused.saturating_add(1);
            return None;
        }
        let of_name = current(&mut table.names, key);
        if of_name.wrong >= OF_NAME.wrong {
            of_name.refused = of_name.refused.saturating_add(1);
            let of_address = current(&mut table.addresses, key.0);
            of_address.refused = of_address.refused.saturating_add(1);
            return None;
        }
        of_name.wrong += 1;
        current(&mut table.addresses, key.0).wrong += 1;
        Some(Attempt { guesses: self, key })
    }

    /// Whether a password that was right before is taken.
    pub(super) fn takes_known(&self, name: &str, from: IpAddr) -> bool {
        let key = self.key(name, from);
        let mut table = self.table();
        let within =
            |count: Option<&Count>, limit: u32| count.is_none_or(|count| count.is_over() || count.refused < limit);
        if table.proven.contains(&key) {
            return within(table.names.get(&key), PROVEN_REFUSED);
        }
        let is_taken =
            within(table.names.get(&key), OF_NAME.refused) && within(table.addresses.get(&key.0), OF_ADDRESS.refused);
        if is_taken {
            table.prove(key);
        }
        is_taken
    }

    fn key(&self, name: &str, from: IpAddr) -> (IpAddr, u64) {
        (network(from), self.hasher.hash_one(name))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// A name has come in from an address.
    fn prove(&mut self, key: (IpAddr, u64)) {
        if self.proven.len() >= REMEMBERED_MAX {
            self.proven.clear();
        }
        self.proven.insert(key);
    }
}

impl Attempt<'_> {
    /// It was right: it does not count.
    pub(super) fn right(self) {
        let mut table = self.guesses.table();
        table.prove(self.key);
        let Table { names, addresses, .. } = &mut *table;
        for count in [names.get_mut(&self.key), addresses.get_mut(&self.key.0)].into_iter().flatten() {
            count.wrong = count.wrong.saturating_sub(1);
        }
    }
}

/// The count of a name or an address, begun anew when it is over.
fn current<K: Copy + Eq + Hash>(counts: &mut HashMap<K, Count>, key: K) -> &mut Count {
    if counts.len() >= REMEMBERED_MAX && !counts.contains_key(&key) {
        counts.retain(|_, count| !count.is_over());
        if counts.len() >= REMEMBERED_MAX {
            counts.clear();
        }
    }
    let count = counts.entry(key).or_insert_with(Count::fresh);
    if count.is_over() {
        *count = Count::fresh();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn elsewhere(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn ten_are_checked_for_a_name_and_others_are_not_held_up() {
        let guesses = Guesses::default();
        let open: Vec<_> = (0..40).map_while(|_| guesses.attempt("vic", HERE)).collect();
        assert_eq!(open.len(), 10, "as many at a time as may be wrong");
        assert!((0..100).all(|_| guesses.attempt("vic", HERE).is_none()));
        assert!(!guesses.takes_known("vic", HERE), "what was right elsewhere is not taken after a hundred guesses");
        for attempt in open {
            attempt.right();
        }
        let wrong = (0..40).filter_map(|_| guesses.attempt("vic", HERE)).count();
        assert_eq!(wrong, 10);
        assert!(guesses.attempt("ann", HERE).is_some() && guesses.attempt("vic", elsewhere(1)).is_some());
        assert!((0..5800).all(|_| guesses.attempt("vic", HERE).is_none()));
        assert!(guesses.takes_known("vic", HERE), "what was right here is");
        assert!((0..200).all(|_| guesses.attempt("vic", HERE).is_none()));
        assert!(!guesses.takes_known("vic", HERE), "but not without end");
        assert!(guesses.takes_known("vic", elsewhere(1)));
    }

    #[test]
    fn an_address_has_a_hundred_for_all_names() {
        let guesses = Guesses::default();
        let checked = (0..1000).filter_map(|name| guesses.attempt(&name.to_string(), HERE)).count();
        assert_eq!(checked, 100);
        assert!(guesses.attempt("ann", HERE).is_none() && guesses.takes_known("ann", HERE));
        assert!(guesses.attempt("ann", elsewhere(1)).is_some());
        assert!((0..100).all(|_| guesses.attempt("x", HERE).is_none()));
        assert!(guesses.takes_known("ann", HERE) && !guesses.takes_known("bob", HERE), "who came in before still does");
        assert_eq!(guesses.table().names.len(), 101, "names that are not checked are not remembered");
    }

    #[test]
    fn a_network_counts_as_one_address() {
        let guesses = Guesses::default();
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        let checked =
            (0..40).filter_map(|last| guesses.attempt("vic", address(&format!("2001:db8::{last:x}")))).count();
        assert_eq!(checked, 10);
        assert!(guesses.attempt("vic", address("2001:db8:0:1::1")).is_some());
        let mapped = (0..40).filter_map(|_| guesses.attempt("vic", address("::ffff:192.0.2.9"))).count();
        assert_eq!(mapped, 10);
        assert!(guesses.attempt("vic", elsewhere(9)).is_none());
    }
}
