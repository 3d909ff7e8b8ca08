//! Waits for the C library's mutexes and read-write locks, in code that imports them.
//!
//! A lock is tried first, as taking it would do; only where that fails the wait is timed. Waiting for a condition lets
//! its mutex go, and is no contention itself.

use super::entry;
use super::got::Hook;
use super::hook::{Caller, Outcome, begin, has_waiters, is_on, release, taken};
use super::origin::Family;
use super::waiters::Ending;
use libc::{c_int, clockid_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, timespec};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Functions of the C library: the entry that calls are led to, a place for the C library's own, and ours that goes
/// before it.
macro_rules! functions {
    ($($family:ident $entry:path, $name:ident $place:ident ($object:ident: *mut $type:ty $(, $argument:ident: $argument_type:ty)*) $body:ident $with:path;)*) => {
        $(
            pub(super) static $place: AtomicUsize = AtomicUsize::new(0);

            pub(super) unsafe extern "C" fn $name($object: *mut $type $(, $argument: $argument_type)*) -> c_int {
                type Function = unsafe extern "C" fn(*mut $type $(, $argument_type)*) -> c_int;
                // SAFETY: an entry is redirected to the hook only after the real function, which is of this type, was
                // stored here.
                let real = unsafe { std::mem::transmute::<usize, Function>($place.load(Ordering::Relaxed)) };
                // SAFETY: the call as the program makes it.
                let call = || unsafe { real($object $(, $argument)*) };
                $body!($with, $object, call $(, $argument)*)
            }
        )*

        /// The rows of these hooks.
        pub(super) fn hooks() -> Vec<Hook> {
            const fn symbol(name: &'static str) -> &'static std::ffi::CStr {
                match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
                    Ok(symbol) => symbol,
                    Err(_) => panic!("a symbol has no zero byte"),
                }
            }
            vec![$(Hook {
                family: Family::$family,
                name: symbol(concat!("pthread_", stringify!($name), "\0")),
                function: $entry as *const () as usize,
                real: &$place,
            }),*]
        }
    };
}

/// Times taking a lock, with or without a time limit, if it can't be had at once.
macro_rules! timed {
    ($try_lock:path, $lock:ident, $call:ident $(, $argument:ident)*) => {{
        if !is_on() {
            return $call();
        }
        // SAFETY: the program is taking this lock.
        match unsafe { $try_lock($lock) } {
            libc::EBUSY => (),
            result @ (0 | libc::EOWNERDEAD) => {
                if has_waiters($lock as usize) {
                    taken($lock as usize);
                }
                return result;
            }
            // A lock that can't be tried: its own function returns the error.
            _ => return $call(),
        }
        let wait = begin($lock as usize, Caller::in_place());
        let result = $call();
        if let Some(wait) = wait {
            match result {
                0 | libc::EOWNERDEAD => wait.end(Outcome::Waited),
                libc::ETIMEDOUT => wait.end_as(Outcome::Waited, Ending::Unknown, false),
                _ => wait.end(Outcome::NotAtAll),
            }
        }
        result
    }};
}

/// Charges the caller if others wait for the lock it lets go.
macro_rules! letting_go {
    ($is_kept:path, $lock:ident, $call:ident) => {{
        if has_waiters($lock as usize) && !$is_kept($lock) {
            release($lock as usize, Caller::in_place(), 1);
        }
        $call()
    }};
}

/// Charges the caller if others wait for the mutex that it releases while it waits for the condition.
macro_rules! letting_go_meanwhile {
    ($is_kept:path, $condition:ident, $call:ident, $mutex:ident $(, $argument:ident)*) => {
        letting_go!($is_kept, $mutex, $call)
    };
}

functions! {
    Mutex entry::mutex_lock, mutex_lock MUTEX_LOCK (mutex: *mut pthread_mutex_t) timed libc::pthread_mutex_trylock;
    Mutex mutex_timedlock, mutex_timedlock MUTEX_TIMEDLOCK (mutex: *mut pthread_mutex_t, end: *const timespec) timed libc::pthread_mutex_trylock;
    Mutex mutex_clocklock, mutex_clocklock MUTEX_CLOCKLOCK (mutex: *mut pthread_mutex_t, clock: clockid_t, end: *const timespec) timed libc::pthread_mutex_trylock;
    Mutex entry::mutex_unlock, mutex_unlock MUTEX_UNLOCK (mutex: *mut pthread_mutex_t) letting_go is_locked_again;
    RwLock entry::rwlock_rdlock, rwlock_rdlock RDLOCK (lock: *mut pthread_rwlock_t) timed libc::pthread_rwlock_tryrdlock;
    RwLock rwlock_timedrdlock, rwlock_timedrdlock TIMEDRDLOCK (lock: *mut pthread_rwlock_t, end: *const timespec) timed libc::pthread_rwlock_tryrdlock;
    RwLock rwlock_clockrdlock, rwlock_clockrdlock CLOCKRDLOCK (lock: *mut pthread_rwlock_t, clock: clockid_t, end: *const timespec) timed libc::pthread_rwlock_tryrdlock;
    RwLock entry::rwlock_wrlock, rwlock_wrlock WRLOCK (lock: *mut pthread_rwlock_t) timed libc::pthread_rwlock_trywrlock;
    RwLock rwlock_timedwrlock, rwlock_timedwrlock TIMEDWRLOCK (lock: *mut pthread_rwlock_t, end: *const timespec) timed libc::pthread_rwlock_trywrlock;
    RwLock rwlock_clockwrlock, rwlock_clockwrlock CLOCKWRLOCK (lock: *mut pthread_rwlock_t, clock: clockid_t, end: *const timespec) timed libc::pthread_rwlock_trywrlock;
    RwLock entry::rwlock_unlock, rwlock_unlock UNLOCK (lock: *mut pthread_rwlock_t) letting_go never;
    Condition cond_wait, cond_wait COND_WAIT (condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) letting_go_meanwhile never;
    Condition cond_timedwait, cond_timedwait COND_TIMEDWAIT (condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, end: *const timespec) letting_go_meanwhile never;
    Condition cond_clockwait, cond_clockwait COND_CLOCKWAIT (condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, end: *const timespec) letting_go_meanwhile never;
}

fn never<T>(_lock: *mut T) -> bool {
    false
}

/// Whether the calling thread, which has locked the mutex, has done so more than once: letting it go once does not give
/// it to others.
#[cfg(target_env = "gnu")]
fn is_locked_again(mutex: *mut pthread_mutex_t) -> bool {
    /// The beginning of glibc's mutex, which is part of its interface: static initializers write it.
    #[repr(C)]
    struct Mutex {
        _lock: c_int,
        count: std::ffi::c_uint,
        _owner: c_int,
        _users: std::ffi::c_uint,
        kind: c_int,
    }
    const KIND: c_int = 3;
    // SAFETY: the program's mutex, which the calling thread has locked; these fields change only under the lock, or
    // never.
    let mutex = unsafe { &*mutex.cast::<Mutex>() };
    mutex.kind & KIND == libc::PTHREAD_MUTEX_RECURSIVE && mutex.count > 1
}

/// Other C libraries do not expose the count: a further unlocking counts as one.
#[cfg(not(target_env = "gnu"))]
fn is_locked_again(_mutex: *mut pthread_mutex_t) -> bool {
    false
}
