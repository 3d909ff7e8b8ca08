//! Shares of a pool by requester, so that one requester never takes what others need.
//!
//! ```text
//! |<------------------------- the pool: bytes, places, connections ------------------------->|
//! |<------------ ordinary requesters: three quarters ------------->|<- kept for priority ones >|
//! |<- one requester: at most a quarter ->|
//! ```
//!
//! Operators, captures and heartbeats have priority: the last quarter is for them alone, and they may also take what
//! is free of the rest. A single item that is larger than a quarter by itself, such as a large profile, is taken beside
//! its requester's others, one at a time, and never from the kept quarter. The server's own captures have no share of
//! their own to exceed; their number is bounded elsewhere (`max_concurrent_captures`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::auth::{Principal, network};

/// The number of parts of a pool: a requester has one of them, and one is kept for priority.
pub const PARTS: u64 = 4;

/// The party that a pool counts by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Party {
    /// A user or a token, by name.
    User(String),
    /// Without users: an address, or the IPv6 network of one machine.
    Address(IpAddr),
    /// This server, for its captures.
    Server,
}

/// The requester of something that others want, too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requester {
    party: Party,
    has_priority: bool,
}

impl Requester {
    /// The requester that a user is, from an address. Operators have priority.
    pub fn new(principal: &Principal, from: IpAddr) -> Requester {
        let party = match *principal == Principal::local() {
            true => Party::Address(network(from)),
            false => Party::User(principal.name.clone()),
        };
        Requester { party, has_priority: principal.operates() }
    }

    /// This server, which has priority and no share of its own.
    pub fn server() -> Requester {
        Requester { party: Party::Server, has_priority: true }
    }

    /// The same requester with priority, and with a share beside its ordinary one: for heartbeats.
    pub fn with_priority(self) -> Requester {
        Requester { has_priority: true, ..self }
    }

    /// Whether the part of a pool that is kept is for this requester.
    pub fn has_priority(&self) -> bool {
        self.has_priority
    }

    /// The most that one requester may have of a pool of `limit`: a quarter, but at least one; none for this server.
    pub fn own_limit(&self, limit: u64) -> u64 {
        match self.party {
            Party::Server => u64::MAX,
            _ => limit.div_ceil(PARTS),
        }
    }

    /// The most that requesters like this one may have together of a pool of `limit`.
    pub fn common_limit(&self, limit: u64) -> u64 {
        if self.has_priority { limit } else { limit - limit / PARTS }
    }
}

/// Why nothing more is taken from a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoShare {
    /// The requester's own share is used up.
    Own {
        /// The most that it may have.
        limit: u64,
    },
    /// The pool is used up, or the part of it that is not kept.
    Pool {
        /// The amount that is taken of it.
        used: u64,
        /// The most that requesters like this one may have together.
        limit: u64,
    },
}

/// A pool that is taken by shares. Its size is given with each use, since a reload of the configuration may change it.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    table: Arc<Mutex<Table>>,
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Table {
    used: u64,
    /// The part of `used` that requesters without priority have.
    ordinary: u64,
    requesters: HashMap<Requester, Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    /// The sum of its shares but for a large one.
    small: u64,
    shares: usize,
    has_large: bool,
}

/// A part of a pool; dropping it gives it back.
#[derive(Debug)]
pub struct Share {
    shares: Shares,
    requester: Requester,
    limit: u64,
    held: Mutex<HeldAmount>,
}

/// The amount that a share has.
#[derive(Clone, Copy, Debug, Default)]
struct HeldAmount {
    amount: u64,
    is_large: bool,
}

impl Shares {
    /// Takes `amount` of a pool of `limit`; 0 for a share that grows later.
    ///
    /// # Errors
    /// [`NoShare`]; nothing is taken then.
    pub fn take(&self, requester: &Requester, amount: u64, limit: u64) -> Result<Share, NoShare> {
        locked(&self.table).requesters.entry(requester.clone()).or_default().shares += 1;
        let (shares, requester) = (self.clone(), requester.clone());
        let share = Share { shares, requester, limit, held: Mutex::default() };
        share.grow(amount).map(|()| share)
    }

    /// The amount that is taken of it.
    pub fn used(&self) -> u64 {
        locked(&self.table).used
    }

    /// Notified when something is given back.
    pub(crate) fn freed(&self) -> &Notify {
        &self.freed
    }
}

impl Share {
    /// Takes so much more.
    ///
    /// # Errors
    /// [`NoShare`]; what is held stays.
    pub fn grow(&self, more: u64) -> Result<(), NoShare> {
        let mut table = locked(&self.shares.table);
        let mut held = locked(&self.held);
        let amount = held.amount.saturating_add(more);
        let own_limit = self.requester.own_limit(self.limit);
        let usage = table.requesters.entry(self.requester.clone()).or_default();
        let becomes_large = amount > own_limit;
        let others = if held.is_large { usage.small } else { usage.small.saturating_sub(held.amount) };
        let fits = match becomes_large {
            true => held.is_large || !usage.has_large,
            false => others.saturating_add(amount) <= own_limit,
        };
        if more > 0 && !fits {
            return Err(NoShare::Own { limit: own_limit });
        }
        let common_limit = self.requester.common_limit(self.limit);
        let common = if self.requester.has_priority { table.used } else { table.ordinary };
        let is_over = |used: u64, limit: u64| used.saturating_add(more) > limit;
        if more > 0 && (is_over(common, common_limit) || is_over(table.used, self.limit)) {
            return Err(NoShare::Pool { used: common, limit: common_limit });
        }
        let usage = table.requesters.entry(self.requester.clone()).or_default();
        if becomes_large {
            (usage.small, usage.has_large) = (others, true);
        } else {
            usage.small = others.saturating_add(amount);
        }
        table.used += more;
        if !self.requester.has_priority {
            table.ordinary += more;
        }
        *held = HeldAmount { amount, is_large: becomes_large };
        Ok(())
    }

    /// The amount that is held.
    pub fn amount(&self) -> u64 {
        locked(&self.held).amount
    }

    /// The requester that holds it.
    pub fn requester(&self) -> &Requester {
        &self.requester
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut table = locked(&self.shares.table);
        let held = *locked(&self.held);
        table.used -= held.amount;
        if !self.requester.has_priority {
            table.ordinary -= held.amount;
        }
        if let Some(usage) = table.requesters.get_mut(&self.requester) {
            usage.shares -= 1;
            match held.is_large {
                true => usage.has_large = false,
                false => usage.small -= held.amount,
            }
            if usage.shares == 0 {
                table.requesters.remove(&self.requester);
            }
        }
        drop(table);
        self.shares.freed.notify_waiters();
    }
}

/// Longest pause within an upload.
pub const UPLOAD_PAUSE_MAX: Duration = Duration::from_secs(10);
/// Least bytes a second of an upload, on average after the first [`UPLOAD_PAUSE_MAX`].
pub const UPLOAD_RATE_MIN: u64 = 4 << 10;

/// The pace of an upload, which holds a share only for as long as it moves.
#[derive(Clone, Copy, Debug)]
pub struct UploadPace {
    began: Instant,
    last: Instant,
    bytes: u64,
}

impl UploadPace {
    /// An upload that begins now.
    pub fn begin() -> UploadPace {
        UploadPace::begin_at(Instant::now())
    }

    fn begin_at(now: Instant) -> UploadPace {
        UploadPace { began: now, last: now, bytes: 0 }
    }

    /// Counts a piece that has come.
    pub fn advance(&mut self, bytes: u64) {
        self.advance_at(bytes, Instant::now());
    }

    fn advance_at(&mut self, bytes: u64, now: Instant) {
        if bytes > 0 {
            (self.last, self.bytes) = (now, self.bytes.saturating_add(bytes));
        }
    }

    /// The moment at which it is too slow if nothing more comes.
    pub fn deadline(&self) -> Instant {
        let earned = Duration::from_millis(self.bytes.saturating_mul(1000) / UPLOAD_RATE_MIN);
        let by_rate = self.began.checked_add(UPLOAD_PAUSE_MAX.saturating_add(earned));
        let by_pause = self.last + UPLOAD_PAUSE_MAX;
        by_rate.map_or(by_pause, |by_rate| by_rate.min(by_pause))
    }

    /// The rule in words, for the answer to an upload that was ended.
    pub fn rule() -> String {
        format!("it paused for {} s, or sent less than {} KiB/s", UPLOAD_PAUSE_MAX.as_secs(), UPLOAD_RATE_MIN / 1024)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::UserRole;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn requester(name: &str, role: UserRole) -> Requester {
        Requester::new(&Principal::new(name, role), HERE)
    }

    fn token(name: &str) -> Requester {
        requester(name, UserRole::Push)
    }

    /// Takes single units until no more are given.
    fn fill(shares: &Shares, requester: &Requester, limit: u64) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(requester, 1, limit).ok()).take(10_000).collect()
    }

    #[test]
    fn a_requester_is_a_user_or_a_machine() {
        let (local, vic) = (Principal::local(), Principal::new("vic", UserRole::Viewer));
        let requester = |principal: &Principal, address: &str| Requester::new(principal, address.parse().unwrap());
        assert_eq!(requester(&vic, "10.0.0.1"), requester(&vic, "10.0.0.2"));
        assert_ne!(requester(&local, "10.0.0.1"), requester(&local, "10.0.0.2"));
        assert_eq!(requester(&local, "10.0.0.1"), requester(&local, "::ffff:10.0.0.1"));
        assert_eq!(requester(&local, "2001:db8::1"), requester(&local, "2001:db8::ffff:1"));
        assert_ne!(requester(&local, "2001:db8::1"), requester(&local, "2001:db8:0:1::1"));
        assert!(requester(&local, "10.0.0.1").has_priority() && !requester(&vic, "10.0.0.1").has_priority());
    }

    #[test]
    fn one_requester_has_a_quarter_and_all_ordinary_ones_three() {
        let shares = Shares::default();
        let held: Vec<Vec<Share>> = ["a", "b", "c", "d"].map(|name| fill(&shares, &token(name), 256)).into();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 64, 0]);
        assert_eq!(shares.take(&token("a"), 1, 256).unwrap_err(), NoShare::Own { limit: 64 });
        assert_eq!(shares.take(&token("d"), 1, 256).unwrap_err(), NoShare::Pool { used: 192, limit: 192 });
        let operator = fill(&shares, &requester("olga", UserRole::Operator), 256);
        assert_eq!(operator.len(), 64);
        assert!(shares.take(&Requester::server(), 1, 256).is_err(), "all of it is taken");
        drop(operator);
        assert_eq!(fill(&shares, &token("a").with_priority(), 256).len(), 64, "heartbeats");
        drop(held);
        assert_eq!((shares.used(), fill(&shares, &Requester::server(), 256).len()), (0, 256));
        assert_eq!(locked(&shares.table).requesters.len(), 0, "who holds nothing is forgotten");
    }

    #[test]
    fn a_small_pool_has_room_for_everyone_in_turn() {
        for limit in 1..=8 {
            let shares = Shares::default();
            let held = fill(&shares, &token("a"), limit);
            assert_eq!(held.len() as u64, limit.div_ceil(4), "{limit}");
            drop(held);
            assert!(shares.take(&token("b"), 1, limit).is_ok());
        }
    }

    #[test]
    fn one_large_item_is_taken_beside_the_share_and_not_from_what_is_kept() {
        let shares = Shares::default();
        let take = |name: &str, amount| shares.take(&token(name), amount, 100);
        let large = take("a", 10).unwrap();
        assert_eq!(large.grow(66).unwrap_err(), NoShare::Pool { used: 10, limit: 75 });
        large.grow(40).unwrap();
        let small = take("a", 25).unwrap();
        assert_eq!(small.grow(1).unwrap_err(), NoShare::Own { limit: 25 }, "there is a large one");
        assert_eq!(take("b", 1).unwrap_err(), NoShare::Pool { used: 75, limit: 75 });
        assert!(shares.take(&requester("olga", UserRole::Operator), 25, 100).is_ok());
        drop(large);
        assert_eq!(small.grow(51).unwrap_err(), NoShare::Pool { used: 25, limit: 75 });
        small.grow(1).unwrap();
        assert_eq!((small.amount(), shares.used(), take("a", 25).is_ok()), (26, 26, true));
    }

    /// Any sequence of takings, growths and returns keeps the rules that the module states, and what remains adds up.
    #[test]
    fn law() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let requesters = [
            token("a"),
            token("b"),
            requester("olga", UserRole::Operator),
            token("a").with_priority(),
            Requester::server(),
        ];
        for limit in [1, 2, 3, 4, 7, 100, 1000] {
            let (shares, mut held) = (Shares::default(), Vec::<Share>::new());
            for _ in 0..5_000 {
                match next(3) {
                    0 if !held.is_empty() => drop(held.swap_remove(next(held.len() as u64) as usize)),
                    1 if !held.is_empty() => {
                        let _ = held[next(held.len() as u64) as usize].grow(next(limit + 1));
                    }
                    _ => {
                        let requester = &requesters[next(requesters.len() as u64) as usize];
                        held.extend(shares.take(requester, next(limit + 1), limit));
                    }
                }
                let sum = |is_in: &dyn Fn(&Share) -> bool| -> u64 {
                    held.iter().filter(|share| is_in(share)).map(Share::amount).sum()
                };
                assert_eq!(shares.used(), sum(&|_| true));
                assert!(shares.used() <= limit);
                assert!(sum(&|share| !share.requester().has_priority()) <= limit - limit / 4);
                for requester in &requesters {
                    let own_limit = requester.own_limit(limit);
                    let own = |share: &Share| share.requester() == requester;
                    assert!(sum(&|share| own(share) && share.amount() <= own_limit) <= own_limit);
                    assert!(held.iter().filter(|share| own(share) && share.amount() > own_limit).count() <= 1);
                }
            }
            drop(held);
            assert_eq!((shares.used(), locked(&shares.table).requesters.len()), (0, 0));
        }
    }

    #[test]
    fn an_upload_is_ended_when_it_pauses_or_crawls() {
        let now = Instant::now();
        let seconds = Duration::from_secs;
        let mut pace = UploadPace::begin_at(now);
        assert_eq!(pace.deadline(), now + seconds(10));
        pace.advance_at(1 << 20, now + seconds(4));
        assert_eq!(pace.deadline(), now + seconds(14), "no pause is longer, however much has come");
        pace.advance_at(0, now + seconds(9));
        assert_eq!(pace.deadline(), now + seconds(14));
        let mut slow = UploadPace::begin_at(now);
        for second in 1..=9 {
            slow.advance_at(1, now + seconds(second));
        }
        assert!(slow.deadline() < now + seconds(11), "single bytes gain no time");
        slow.advance_at(8 << 10, now + seconds(9));
        assert!(slow.deadline() >= now + seconds(12) && slow.deadline() < now + seconds(13));
    }
}
