//! `cargo bench -p procprof-agent --features contention --bench contention`: the cost of taking and releasing an
//! uncontended lock, and the added cost while waits for locks are recorded.
//!
//! With the recording on and off, locks are measured in turn, a few milliseconds each, many times over; printed is the
//! median of the differences of neighbours, in nanoseconds of CPU time per pair of taking and releasing, with the
//! quartiles of these differences. Off is the same as a program without the feature: no call is redirected. The
//! differences of two measurements that are both off are printed beside, as the noise of the machine.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a benchmark ends where something is wrong")]

use procprof_agent::Contention;
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::{Mutex, RwLock};

const ROUNDS: usize = 61;

/// Pairs of taking and letting go in each measurement.
const PAIRS: u64 = 200_000;

static STD: Mutex<u64> = Mutex::new(0);
static STD_RW: RwLock<u64> = RwLock::new(0);
static PARKING_LOT: parking_lot::Mutex<u64> = parking_lot::Mutex::new(0);
static PARKING_LOT_RW: parking_lot::RwLock<u64> = parking_lot::RwLock::new(0);

/// A lock of the C library.
struct Pthread<T>(UnsafeCell<T>);

// SAFETY: such locks are made to be shared, and are reached only by the C library's functions.
unsafe impl<T> Sync for Pthread<T> {}

static PTHREAD: Pthread<libc::pthread_mutex_t> = Pthread(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
static PTHREAD_RW: Pthread<libc::pthread_rwlock_t> = Pthread(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER));

/// Some pairs by a lock of one kind.
type Work = fn();

const WORKS: [(&str, Work); 9] = [
    ("std Mutex", || repeat(|| *black_box(&STD).lock().unwrap() += 1)),
    ("std RwLock, read", || repeat(|| assert_ne!(*black_box(&STD_RW).read().unwrap(), u64::MAX))),
    ("std RwLock, write", || repeat(|| *black_box(&STD_RW).write().unwrap() += 1)),
    ("parking_lot Mutex", || repeat(|| *black_box(&PARKING_LOT).lock() += 1)),
    ("parking_lot RwLock, read", || repeat(|| assert_ne!(*black_box(&PARKING_LOT_RW).read(), u64::MAX))),
    ("parking_lot RwLock, write", || repeat(|| *black_box(&PARKING_LOT_RW).write() += 1)),
    ("pthread mutex", mutex),
    ("pthread rwlock, read", read_lock),
    ("pthread rwlock, write", write_lock),
];

#[inline(always)]
fn repeat(pair: impl Fn()) {
    (0..PAIRS).for_each(|_| pair());
}

fn mutex() {
    // SAFETY: a mutex that is always there, let go by the thread that took it.
    repeat(|| unsafe {
        let mutex = black_box(PTHREAD.0.get());
        libc::pthread_mutex_lock(mutex);
        libc::pthread_mutex_unlock(mutex);
    });
}

fn read_lock() {
    // SAFETY: a lock that is always there, let go by the thread that took it.
    repeat(|| unsafe {
        let lock = black_box(PTHREAD_RW.0.get());
        libc::pthread_rwlock_rdlock(lock);
        libc::pthread_rwlock_unlock(lock);
    });
}

fn write_lock() {
    // SAFETY: a lock that is always there, let go by the thread that took it.
    repeat(|| unsafe {
        let lock = black_box(PTHREAD_RW.0.get());
        libc::pthread_rwlock_wrlock(lock);
        libc::pthread_rwlock_unlock(lock);
    });
}

/// This thread's CPU time, nanoseconds.
fn cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time`.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds a pair of some work.
fn time(work: Work) -> f64 {
    let began = cpu();
    work();
    (cpu() - began) as f64 / PAIRS as f64
}

/// The costs of a lock: each measurement while off, the excess of each while on over its neighbours, and that of one
/// while off over the next.
#[derive(Default)]
struct Costs {
    off: Vec<f64>,
    added: Vec<f64>,
    noise: Vec<f64>,
}

fn measure() -> Vec<Costs> {
    let mut costs: Vec<Costs> = WORKS.iter().map(|_| Costs::default()).collect();
    for round in 0..=ROUNDS {
        let before = WORKS.map(|(_, work)| [time(work), time(work)]);
        Contention::enable().unwrap();
        let on = WORKS.map(|(_, work)| time(work));
        Contention::disable();
        let after = WORKS.map(|(_, work)| time(work));
        // The first round warms up.
        for (index, costs) in costs.iter_mut().enumerate().filter(|_| round > 0) {
            let [first, second] = before[index];
            costs.off.push(second);
            costs.added.push(on[index] - second.midpoint(after[index]));
            costs.noise.push(second - first.midpoint(after[index]));
        }
    }
    costs
}

/// The quartiles.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn main() {
    println!(
        "ns of CPU time per pair; what is added is the median (quartiles) of {ROUNDS} differences of neighbours\n"
    );
    println!("{:<28} {:>8} {:>26} {:>26}", "lock and unlock", "off", "+ recording on", "+ off again (noise)");
    for ((name, _), costs) in WORKS.iter().zip(measure()) {
        let (off, added, noise) = (quartiles(costs.off)[1], quartiles(costs.added), quartiles(costs.noise));
        let shown = |[low, median, high]: [f64; 3]| format!("{median:.2} ({low:.2} to {high:.2})");
        println!("{name:<28} {off:>8.2} {:>26} {:>26}", shown(added), shown(noise));
    }
}
