//! Futex waits and wakes that come by the C library's `syscall`: how the standard library and parking_lot wait for a lock.
//!
//! Only a thread that has to wait, or that lets a lock go others wait for, makes such a call, so locks nobody fights for cost nothing more. Glibc's
//! own waits (of `pthread_join`, say) do not come by here.

use super::got::Hook;
use super::hook::{Caller, Outcome, Wait, begin_unless_idle, has_waiters, is_on, release};
use super::origin::Family;
use libc::c_long;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

static REAL: AtomicUsize = AtomicUsize::new(0);

/// The row of this hook.
pub(super) fn hook() -> Hook {
    Hook { family: Family::Futex, name: c"syscall", function: syscall as *const () as usize, real: &REAL }
}

/// `syscall` takes as many words as its number needs; the C calling conventions of both architectures let it be called and forwarded with six.
type Syscall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// The flags beside a futex operation, such as for private ones.
const FLAGS: usize = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as usize;
const WAIT: usize = libc::FUTEX_WAIT as usize;
const WAIT_BITSET: usize = libc::FUTEX_WAIT_BITSET as usize;
const WAKE: usize = libc::FUTEX_WAKE as usize;
const WAKE_BITSET: usize = libc::FUTEX_WAKE_BITSET as usize;

unsafe extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    // SAFETY: the hook stands in an entry only after the real function was put here.
    let real = unsafe { std::mem::transmute::<usize, Syscall>(REAL.load(Ordering::Relaxed)) };
    if number == libc::SYS_futex && is_on() {
        match b & !FLAGS {
            WAIT | WAIT_BITSET => {
                if let Some(wait) = begin_unless_idle(a, Caller::here()) {
                    // SAFETY: the call as the program makes it.
                    let result = unsafe { real(number, a, b, c, d, e, f) };
                    end(wait, result, Word { address: a, expected: c as u32, has_limit: d != 0 });
                    return result;
                }
            }
            WAKE | WAKE_BITSET if has_waiters(a) => release(a, Caller::here(), c as u32),
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
    /// Whether it behaved as that of a standard mutex: see [`classes`](super::classes).
    fn is_mutex(self) -> bool {
        const WAITED_FOR: u32 = 2;
        // SAFETY: the word the kernel has just waited at for this thread, which is about to look at it.
        let now = || unsafe { (*(self.address as *const AtomicU32)).load(Ordering::Relaxed) };
        !self.has_limit && self.expected == WAITED_FOR && now() <= WAITED_FOR
    }
}

fn end(wait: Wait, result: c_long, word: Word) {
    // SAFETY: the C library's place for this thread.
    let error = unsafe { *libc::__errno_location() };
    match (result, error) {
        (0, _) => wait.end_as(Outcome::Waited, word.is_mutex()),
        (_, libc::ETIMEDOUT) => wait.end(Outcome::Waited),
        (_, libc::EINTR) => wait.end(Outcome::Interrupted),
        _ => wait.end(Outcome::NotAtAll),
    }
}
