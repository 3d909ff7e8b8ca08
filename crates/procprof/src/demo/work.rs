//! The work of a demo process: CPU in a known 70 / 30 split, a lock that contends, a heap that grows.
//!
//! The functions a profile should name are [`hot_70`] and [`hot_30`] (CPU), [`grow_cache`] (heap), [`read_balance`],
//! which waits for the ledger's lock, and [`post_batch`], which holds it meanwhile.

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Steps of arithmetic in a hundredth of a unit of work: about 15 microseconds.
const STEPS: u64 = 8_000;
/// The units of work of a round, 15 to 45 ms of CPU time. Rounds are longer than the time between two samples, and vary:
/// timers fire at the kernel's ticks, which could fall on the same part of each of many equal rounds.
const UNITS: RangeInclusive<u64> = 10..=30;
/// Bytes added to the cache ten times a second.
const CACHE_STEP: usize = 64 << 10;
/// The cache starts over at this size, so that a demo can run for days.
const CACHE_LIMIT: usize = 96 << 20;
/// Entries the cache begins with, so that the first heap profile has samples.
const FIRST_STEPS: usize = 128;
/// How long posting holds the ledger's lock, and then leaves it alone.
const POSTING: Duration = Duration::from_millis(6);
/// How long reading holds it.
const READING: Duration = Duration::from_micros(200);

/// The cache as it is before any other work.
pub(crate) fn first_cache() -> Vec<Vec<u8>> {
    let mut cache = Vec::new();
    (0..FIRST_STEPS).for_each(|_| grow_cache(&mut cache));
    cache
}

/// Starts the threads; they end with the process.
pub(crate) fn start() -> std::io::Result<()> {
    let cache = first_cache();
    let ledger = Arc::new(Mutex::new(0u64));
    thread::Builder::new().name("demo-cpu".into()).spawn(burn)?;
    thread::Builder::new().name("demo-cache".into()).spawn(|| fill_cache(cache))?;
    for name in ["demo-reader-1", "demo-reader-2"] {
        let ledger = Arc::clone(&ledger);
        thread::Builder::new().name(name.into()).spawn(move || read_balances(&ledger))?;
    }
    thread::Builder::new().name("demo-poster".into()).spawn(move || post_batches(&ledger))?;
    Ok(())
}

fn burn() {
    let mut state = 1u64;
    loop {
        let start = Instant::now();
        let units = UNITS.start() + state % (UNITS.end() - UNITS.start() + 1);
        state = hot_70(state, units);
        state = hot_30(state, units);
        // About half of one core.
        thread::sleep(start.elapsed());
    }
}

/// A function that spends its time in itself: only built-in operators, since an inlined call would take the samples.
macro_rules! hot {
    ($(#[$doc:meta])* $name:ident, $share:literal) => {
        $(#[$doc])*
        #[inline(never)]
        fn $name(mut state: u64, units: u64) -> u64 {
            let mut steps = $share * units * STEPS;
            while steps > 0 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                steps -= 1;
            }
            state
        }
    };
}

hot!(
    /// Seventy hundredths of a round.
    hot_70,
    70
);
hot!(
    /// Thirty hundredths of a round.
    hot_30,
    30
);

fn fill_cache(mut cache: Vec<Vec<u8>>) {
    loop {
        grow_cache(&mut cache);
        if cache.len() * CACHE_STEP >= CACHE_LIMIT {
            cache.clear();
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Adds one entry, every byte of it touched, so that it is really resident.
#[inline(never)]
fn grow_cache(cache: &mut Vec<Vec<u8>>) {
    cache.push(black_box(vec![0x5a; CACHE_STEP]));
}

fn post_batches(ledger: &Mutex<u64>) {
    loop {
        post_batch(ledger);
        thread::sleep(POSTING);
    }
}

/// Holds the lock that the readers wait for.
#[inline(never)]
fn post_batch(ledger: &Mutex<u64>) {
    if let Ok(mut entries) = ledger.lock() {
        *entries += 1;
        thread::sleep(POSTING);
    }
}

fn read_balances(ledger: &Mutex<u64>) {
    loop {
        read_balance(ledger);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for the lock, about half of its time, and holds it for a moment.
#[inline(never)]
fn read_balance(ledger: &Mutex<u64>) {
    if let Ok(entries) = ledger.lock() {
        black_box(*entries);
        thread::sleep(READING);
    }
}
