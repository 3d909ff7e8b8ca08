//! Futex waits and wakes that come by the C library's `syscall`: how the standard library and parking_lot wait for a
//! lock.
//!
//! Only a thread that has to wait, or that releases a lock for which others wait, makes such a call, so uncontended
//! locks cost nothing more. Glibc's own waits (of `pthread_join`, for example) do not pass here.

use super::got::Hook;
use super::hook::{Caller, Outcome, Wait, begin_unless_idle, has_waiters, is_on, release};
use super::origin::Family;
use super::waiters::Ending;
use libc::c_long;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

static REAL: AtomicUsize = AtomicUsize::new(0);

/// The row of this hook.
pub(super) fn hook() -> Hook {
    Hook { family: Family::Futex, name: c"syscall", function: syscall as *const () as usize, real: &REAL }
}

/// `syscall` takes as many words as its number needs; the C calling conventions of both architectures let it be called
/// and forwarded with six.
type Syscall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// The flags beside a futex operation, such as for private ones.
const FLAGS: usize = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as usize;
const WAIT: usize = libc::FUTEX_WAIT as usize;
const WAIT_BITSET: usize = libc::FUTEX_WAIT_BITSET as usize;
const WAKE: usize = libc::FUTEX_WAKE as usize;
const WAKE_BITSET: usize = libc::FUTEX_WAKE_BITSET as usize;

unsafe extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    // SAFETY: an entry is redirected to the hook only after the real function was stored here.
    let real = unsafe { std::mem::transmute::<usize, Syscall>(REAL.load(Ordering::Relaxed)) };
    if number == libc::SYS_futex && is_on() {
        match b & !FLAGS {
            WAIT | WAIT_BITSET => {
                if let Some(wait) = begin_unless_idle(a, Caller::in_place()) {
                    // SAFETY: the call as the program makes it.
                    let result = unsafe { real(number, a, b, c, d, e, f) };
                    end(wait, result, Word { address: a, expected: c as u32, has_limit: d != 0 });
                    return result;
                }
            }
            WAKE | WAKE_BITSET if has_waiters(a) => release(a, Caller::in_place(), c as u32),
            _ => (),
        }
    }
    // SAFETY: as above.
    unsafe { real(number, a, b, c, d, e, f) }
}

/// The word that was waited at, and for which value to change.
#[derive(Clone, Copy)]
struct Word {
    address: usize,
    expected: u32,
    has_limit: bool,
}

impl Word {
    /// As a mutex, and who holds it, if the word behaved as that of a standard mutex: see [`classes`](super::classes).
    fn as_mutex(self) -> Option<Ending> {
        const FREE: u32 = 0;
        const WAITED_FOR: u32 = 2;
        if self.has_limit || self.expected != WAITED_FOR {
            return None;
        }
        // SAFETY: the word the kernel has just waited at for this thread, which is about to look at it.
        match unsafe { (*(self.address as *const AtomicU32)).load(Ordering::Relaxed) } {
            FREE => Some(Ending::Taken),
            held if held <= WAITED_FOR => Some(Ending::HeldByAnother),
            _ => None,
        }
    }
}

fn end(wait: Wait, result: c_long, word: Word) {
    // SAFETY: the C library's place for this thread.
    let error = unsafe { *libc::__errno_location() };
    match (result, error) {
        (0, _) => wait.end_as(Outcome::Waited, word.as_mutex().unwrap_or(Ending::Taken), word.as_mutex().is_some()),
        (_, libc::ETIMEDOUT) => wait.end_as(Outcome::Waited, Ending::Unknown, false),
        (_, libc::EINTR) => wait.end(Outcome::Interrupted),
        _ => wait.end(Outcome::NotAtAll),
    }
}
