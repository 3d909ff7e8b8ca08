//! Waits for the C library's mutexes and read-write locks, in code that imports them.
//!
//! A lock is tried first, as taking it would do; only where that fails the wait is timed. Waiting for a condition lets its mutex go, and is no
//! contention itself.

use super::got::Hook;
use super::hook::{Caller, Outcome, begin, has_waiters, is_on, release};
use libc::{c_int, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, timespec};
use std::sync::atomic::{AtomicUsize, Ordering};

static MUTEX_LOCK: AtomicUsize = AtomicUsize::new(0);
static MUTEX_UNLOCK: AtomicUsize = AtomicUsize::new(0);
static READ_LOCK: AtomicUsize = AtomicUsize::new(0);
static WRITE_LOCK: AtomicUsize = AtomicUsize::new(0);
static UNLOCK: AtomicUsize = AtomicUsize::new(0);
static COND_WAIT: AtomicUsize = AtomicUsize::new(0);
static COND_TIMED_WAIT: AtomicUsize = AtomicUsize::new(0);

/// The rows of these hooks.
pub(super) fn hooks() -> [Hook; 7] {
    let row = |name, function: *const (), real| Hook { name, function: function as usize, real };
    [
        row(c"pthread_mutex_lock", mutex_lock as *const (), &MUTEX_LOCK),
        row(c"pthread_mutex_unlock", mutex_unlock as *const (), &MUTEX_UNLOCK),
        row(c"pthread_rwlock_rdlock", read_lock as *const (), &READ_LOCK),
        row(c"pthread_rwlock_wrlock", write_lock as *const (), &WRITE_LOCK),
        row(c"pthread_rwlock_unlock", unlock as *const (), &UNLOCK),
        row(c"pthread_cond_wait", cond_wait as *const (), &COND_WAIT),
        row(c"pthread_cond_timedwait", cond_timed_wait as *const (), &COND_TIMED_WAIT),
    ]
}

/// The C library's function of that type.
macro_rules! real {
    ($place:ident, $type:ty) => {
        // SAFETY: the hook stands in an entry only after the real function, which is of that type, was put there.
        unsafe { std::mem::transmute::<usize, $type>($place.load(Ordering::Relaxed)) }
    };
}

/// Times `lock` if it can't be had at once.
macro_rules! lock_timed {
    ($place:ident, $type:ty, $lock:ident, $try_lock:path) => {{
        let real = real!($place, unsafe extern "C" fn(*mut $type) -> c_int);
        if !is_on() {
            // SAFETY: the call as the program makes it.
            return unsafe { real($lock) };
        }
        // SAFETY: the program wants this lock to be taken.
        match unsafe { $try_lock($lock) } {
            libc::EBUSY => (),
            result @ (0 | libc::EOWNERDEAD) => return result,
            // SAFETY: as above; whoever can't try gets the lock's own answer.
            _ => return unsafe { real($lock) },
        }
        let wait = begin($lock as usize, Caller::here());
        // SAFETY: as above.
        let result = unsafe { real($lock) };
        if let Some(wait) = wait {
            wait.end(if matches!(result, 0 | libc::EOWNERDEAD) { Outcome::Waited } else { Outcome::NotAtAll });
        }
        result
    }};
}

unsafe extern "C" fn mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    lock_timed!(MUTEX_LOCK, pthread_mutex_t, mutex, libc::pthread_mutex_trylock)
}

unsafe extern "C" fn read_lock(lock: *mut pthread_rwlock_t) -> c_int {
    lock_timed!(READ_LOCK, pthread_rwlock_t, lock, libc::pthread_rwlock_tryrdlock)
}

unsafe extern "C" fn write_lock(lock: *mut pthread_rwlock_t) -> c_int {
    lock_timed!(WRITE_LOCK, pthread_rwlock_t, lock, libc::pthread_rwlock_trywrlock)
}

/// Charges the caller if others wait for the lock it lets go.
macro_rules! let_go {
    ($lock:ident, $woken:expr) => {
        if has_waiters($lock as usize) {
            release($lock as usize, Caller::here(), $woken);
        }
    };
}

unsafe extern "C" fn mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    let_go!(mutex, 1);
    let real = real!(MUTEX_UNLOCK, unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int);
    // SAFETY: the call as the program makes it.
    unsafe { real(mutex) }
}

unsafe extern "C" fn unlock(lock: *mut pthread_rwlock_t) -> c_int {
    let_go!(lock, 1);
    let real = real!(UNLOCK, unsafe extern "C" fn(*mut pthread_rwlock_t) -> c_int);
    // SAFETY: the call as the program makes it.
    unsafe { real(lock) }
}

unsafe extern "C" fn cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    let_go!(mutex, 1);
    let real = real!(COND_WAIT, unsafe extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int);
    // SAFETY: the call as the program makes it.
    unsafe { real(condition, mutex) }
}

unsafe extern "C" fn cond_timed_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, end: *const timespec) -> c_int {
    let_go!(mutex, 1);
    type TimedWait = unsafe extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t, *const timespec) -> c_int;
    let real = real!(COND_TIMED_WAIT, TimedWait);
    // SAFETY: the call as the program makes it.
    unsafe { real(condition, mutex, end) }
}
