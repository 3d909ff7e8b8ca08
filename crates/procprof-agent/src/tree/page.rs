//! The memory that a root shares with its forks.

use crate::lineage;
use crate::options::CpuEngine;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Orders at once: as many as captures.
const ORDERS: usize = crate::cpu::MAX_CAPTURES;

/// Bytes by which a member shows that it belongs to the tree.
pub(super) const SECRET_BYTES: usize = 16;

const ENGINES: [CpuEngine; 3] = [CpuEngine::Auto, CpuEngine::Perf, CpuEngine::Tick];

static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());

/// The newest order this process has looked at, with the process's [`lineage`] above it: a fork has looked at none.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// A value of [`SEEN`].
fn seen(newest: u64) -> u64 {
    u64::from(lineage::number()) << 32 | newest & u64::from(u32::MAX)
}

/// Written by the root alone, but for its id.
#[derive(Debug)]
pub(super) struct Page {
    root: AtomicI32,
    /// The number of the newest order.
    newest: AtomicU64,
    secret: [AtomicU64; SECRET_BYTES / 8],
    orders: [Place; ORDERS],
}

/// The state of an order.
#[derive(Debug)]
struct Place {
    /// 0 where there is none, or it is being written.
    number: AtomicU64,
    until: AtomicU64,
    hz: AtomicU32,
    engine: AtomicU32,
}

/// An order as read from the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) number: u64,
    /// Its end by the monotonic clock, nanoseconds.
    pub(super) until: u64,
    pub(super) hz: u32,
    pub(super) engine: CpuEngine,
}

impl Page {
    /// Makes a page for this process and its forks, unless it has one of its own.
    pub(super) fn begin() -> bool {
        if Self::of_this_process().is_some_and(|page| page.root() == own_pid()) {
            return true;
        }
        let mut secret = [0; SECRET_BYTES];
        if std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut secret)).is_err() {
            return false;
        }
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping that nothing else refers to.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Self>(), protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return false;
        }
        // SAFETY: zeroed, page-aligned, long enough and never unmapped; its atomics allow shared writes.
        let page = unsafe { &*memory.cast::<Self>() };
        for (word, bytes) in page.secret.iter().zip(secret.chunks_exact(8)) {
            word.store(bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), Ordering::Relaxed);
        }
        page.root.store(own_pid(), Ordering::Relaxed);
        SEEN.store(seen(0), Ordering::Relaxed);
        PAGE.store(memory.cast(), Ordering::Release);
        true
    }

    pub(super) fn of_this_process() -> Option<&'static Self> {
        // SAFETY: null, or mapped in `begin` and never unmapped; forks have it, too.
        unsafe { PAGE.load(Ordering::Acquire).as_ref() }
    }

    /// Whether there is an order this process has not looked at.
    #[inline]
    pub(super) fn has_news() -> bool {
        Self::of_this_process()
            .is_some_and(|page| seen(page.newest.load(Ordering::Acquire)) != SEEN.load(Ordering::Relaxed))
    }

    pub(super) fn root(&self) -> i32 {
        self.root.load(Ordering::Acquire)
    }

    pub(super) fn inherit(&self, former: i32) -> bool {
        self.root.compare_exchange(former, own_pid(), Ordering::AcqRel, Ordering::Acquire).is_ok()
            || self.root() == own_pid()
    }

    pub(super) fn secret(&self) -> [u8; SECRET_BYTES] {
        let mut secret = [0; SECRET_BYTES];
        for (bytes, word) in secret.chunks_exact_mut(8).zip(&self.secret) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_be_bytes());
        }
        secret
    }

    /// Writes an order for others to see; its number and place, or `None` where all are taken. One thread of the root
    /// at a time.
    pub(super) fn write(&self, until: u64, hz: u32, engine: CpuEngine) -> Option<(u64, usize)> {
        let position = self.orders.iter().position(|place| place.number.load(Ordering::Relaxed) == 0)?;
        let place = &self.orders[position];
        place.until.store(until, Ordering::Relaxed);
        place.hz.store(hz, Ordering::Relaxed);
        let engine = ENGINES.iter().position(|known| *known == engine).unwrap_or_default();
        place.engine.store(engine as u32, Ordering::Relaxed);
        let number = self.next();
        place.number.store(number, Ordering::Release);
        self.newest.store(number, Ordering::Release);
        Some((number, position))
    }

    /// Takes an order back, if it has not been already.
    pub(super) fn erase(&self, position: usize, number: u64) {
        // A place that another order has by now stays as it is.
        let _ = self.orders[position].number.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The number of the next order.
    pub(super) fn next(&self) -> u64 {
        self.newest.load(Ordering::Relaxed) + 1
    }

    /// Whether an order is still in force.
    pub(super) fn is_in_force(&self, number: u64) -> bool {
        self.orders.iter().any(|place| place.number.load(Ordering::Acquire) == number)
    }

    /// The orders this process has not looked at.
    pub(super) fn news(&self) -> Vec<Wanted> {
        let now = seen(self.newest.load(Ordering::Acquire));
        let before = SEEN.swap(now, Ordering::Relaxed);
        let seen = if before >> 32 == now >> 32 { before & u64::from(u32::MAX) } else { 0 };
        let read = |place: &Place| {
            let number = place.number.load(Ordering::Acquire);
            let engine = ENGINES[(place.engine.load(Ordering::Relaxed) as usize).min(ENGINES.len() - 1)];
            let (until, hz) = (place.until.load(Ordering::Relaxed), place.hz.load(Ordering::Relaxed));
            let is_whole = place.number.load(Ordering::Acquire) == number;
            (number > seen && is_whole).then_some(Wanted { number, until, hz, engine })
        };
        self.orders.iter().filter_map(read).collect()
    }

    /// The address of the root's socket for members' profiles: a name without a file.
    pub(super) fn address(&self, number: u64) -> std::io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(format!(
            "procprof-{}-{number}-{:016x}",
            self.root(),
            self.secret[0].load(Ordering::Relaxed)
        ))
    }
}

pub(super) fn own_pid() -> i32 {
    std::process::id() as i32
}

/// Nanoseconds of the monotonic clock, which all processes of a machine share.
pub(super) fn now() -> u64 {
    crate::clock::read(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_once_and_gone_when_it_is_erased() {
        assert!(Page::begin() && Page::begin());
        let page = Page::of_this_process().unwrap();
        assert!(
            !Page::has_news()
                && page.root() == own_pid()
                && page.inherit(own_pid())
                && page.secret() != [0; SECRET_BYTES]
        );
        let (number, position) = page.write(77, 99, CpuEngine::Tick).unwrap();
        assert!(Page::has_news() && page.is_in_force(number));
        assert_eq!(page.news(), [Wanted { number, until: 77, hz: 99, engine: CpuEngine::Tick }]);
        assert!(!Page::has_news() && page.news().is_empty());
        let others: Vec<_> = (1..ORDERS).map(|_| page.write(1, 1, CpuEngine::Auto).unwrap()).collect();
        assert_eq!(page.write(1, 1, CpuEngine::Auto), None);
        others.into_iter().chain([(number, position)]).for_each(|(number, position)| page.erase(position, number));
        assert!(!page.is_in_force(number) && page.news().is_empty());
    }
}
