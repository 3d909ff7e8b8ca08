//! Which waits are for a lock, recognized by the functions that wait.
//!
//! A futex wait looks the same whether a mutex, a condition variable or a parked thread makes it. What differs is the
//! code: the standard library waits for a mutex in `lock_contended`, for a read-write lock in `read_contended` and
//! `write_contended`, for a `Once` in `Once::call`; parking_lot in functions of `RawMutex` and `RawRwLock`. So the
//! names of the functions up to the first one that is not the wait's own plumbing decide, and the decision is kept by
//! the return addresses that led to it: a hook has to look only at those. Looking names up is the collector's work;
//! until it has, a wait is recorded and decided afterwards.
//!
//! Where a file has no names, one rule is left: a wait without a time limit for a word to change from 2, after which
//! the word is at most 2, is that of a standard mutex (0 free, 1 locked, 2 locked and waited for). A condition
//! variable's word counts up; a parked thread's waits at -1.

use std::sync::atomic::{AtomicU64, Ordering};

/// Places for keys, of which half may be taken.
const PLACES: usize = 2048;

/// Places looked at for one key.
const PROBES: usize = 16;

/// Return addresses that may belong to a wait's plumbing.
pub(super) const MAX_CHAIN: usize = 16;

const CLASS_BITS: u64 = 3;

/// Keys with their classes in the lowest bits; 0 for a free place.
static CLASSES: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

static OTHERS: AtomicU64 = AtomicU64::new(0);

static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// The class of a wait as far as its return addresses decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// Not looked up yet.
    New,
    /// A lock's wait.
    Lock,
    /// None: for a condition, for another thread, for work.
    Other,
    /// The next return address is needed.
    Deeper,
}

/// The key of a chain of return addresses that is one longer. Its lowest bits are free, and it is not 0.
pub(super) fn extend(key: u64, address: u64) -> u64 {
    let mixed = u128::from(key.rotate_left(7) ^ address) * 0x9e37_79b9_7f4a_7c15;
    (((mixed >> 64) as u64 ^ mixed as u64) & !CLASS_BITS).max(4)
}

/// The class of a key as far as known.
pub(super) fn classify(key: u64) -> Class {
    for place in places(key) {
        match CLASSES[place].load(Ordering::Relaxed) {
            0 => return Class::New,
            entry if entry & !CLASS_BITS == key => {
                return match entry & CLASS_BITS {
                    1 => Class::Lock,
                    2 => Class::Other,
                    _ => Class::Deeper,
                };
            }
            _ => (),
        }
    }
    Class::New
}

/// Keeps what is known of a key. One that finds no place stays new: its waits are recorded and decided by their stacks.
pub(super) fn learn(key: u64, class: Class) {
    let bits = match class {
        Class::New => return,
        Class::Lock => 1,
        Class::Other => 2,
        Class::Deeper => 3,
    };
    for place in places(key) {
        let entry = CLASSES[place].load(Ordering::Relaxed);
        if entry == 0 || entry & !CLASS_BITS == key {
            CLASSES[place].store(key | bits, Ordering::Relaxed);
            return;
        }
    }
}

/// Forgets all: code has come or gone, and addresses may mean something else.
pub(super) fn clear() {
    CLASSES.iter().for_each(|place| place.store(0, Ordering::Relaxed));
}

/// A wait that is no lock's.
pub(super) fn count_other() {
    OTHERS.fetch_add(1, Ordering::Relaxed);
}

/// Waits so far that are no lock's.
pub(super) fn others() -> u64 {
    OTHERS.load(Ordering::Relaxed)
}

/// A wait of a thread that must make no system call.
pub(super) fn count_left_out() {
    LEFT_OUT.fetch_add(1, Ordering::Relaxed);
}

/// Such waits so far.
pub(super) fn left_out() -> u64 {
    LEFT_OUT.load(Ordering::Relaxed)
}

fn places(key: u64) -> impl Iterator<Item = usize> {
    (0..PROBES).map(move |probe| ((key >> 2) as usize + probe) % PLACES)
}

/// Of mangled names, in both manglings: the functions in which locks wait.
const LOCKS: &[&str] = &[
    "5Mutex14lock_contended",
    "6RwLock14read_contended",
    "6RwLock15write_contended",
    "4Once4call",
    "8RawMutex",
    "9RawRwLock",
    "9lock_slow",
    "14call_once_slow",
];

/// Functions between those and the system call, which all kinds of waits share.
const PLUMBING: &[&str] = &["futex_wait", "parking_lot_core", "8LocalKey", "4core3ops8function"];

/// The class of a wait in a function of this mangled name.
pub(super) fn of_name(mangled: &str) -> Class {
    let has = |parts: &[&str]| parts.iter().any(|part| mangled.contains(part));
    if has(LOCKS) {
        Class::Lock
    } else if has(PLUMBING) {
        Class::Deeper
    } else {
        Class::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_both_manglings_distinguish_locks_from_other_waits() {
        for (name, class) in [
            ("_RNvMNtNtNtNtCsjrHSEGnQ3l9_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_contended", Class::Lock),
            ("_ZN3std3sys4sync6rwlock5futex6RwLock15write_contended17h0000000000000000E", Class::Lock),
            ("_RNvMNtNtNtNtCsjrHSEGnQ3l9_3std3sys4sync4once5futexNtB2_4Once4call", Class::Lock),
            ("_ZN11parking_lot9raw_mutex8RawMutex9lock_slow17hee1951428881e219E", Class::Lock),
            ("_ZN11parking_lot10raw_rwlock9RawRwLock16wait_for_readers17h5a422fb5b328cdd3E", Class::Lock),
            ("_ZN16parking_lot_core11parking_lot4park17h5a422fb5b328cdd3E", Class::Deeper),
            (
                "_ZN115_$LT$parking_lot_core..thread_parker..imp..ThreadParker$u20$as$u20$parking_lot_core..thread_parker..ThreadParkerT$GT$4park17h0E",
                Class::Deeper,
            ),
            ("_ZN11parking_lot7condvar7Condvar19wait_until_internal17h5a422fb5b328cdd3E", Class::Other),
            ("_RNvMNtNtNtNtCsjrHSEGnQ3l9_3std3sys4sync7condvar5futexNtB2_7Condvar4wait", Class::Other),
            ("_RNvNtCsjrHSEGnQ3l9_3std6thread4park", Class::Other),
            ("", Class::Other),
        ] {
            assert_eq!(of_name(name), class, "{name}");
        }
    }

    #[test]
    fn chains_are_learnt_and_forgotten() {
        let one = extend(0, 0x5555_0001);
        let two = extend(one, 0x5555_0777);
        assert_eq!((classify(one), classify(two)), (Class::New, Class::New));
        learn(one, Class::Deeper);
        learn(two, Class::Lock);
        assert_eq!((classify(one), classify(two)), (Class::Deeper, Class::Lock));
        learn(two, Class::Other);
        assert_eq!(classify(two), Class::Other);
        clear();
        assert_eq!(classify(two), Class::New);
    }
}
