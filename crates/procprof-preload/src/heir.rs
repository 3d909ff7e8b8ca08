//! Who has the listener, and who takes it over.
//!
//! A listener's thread does not survive `fork`, and its port can't be had twice. So descendants of a process that listens keep still, and one that
//! outlives it, as a daemon does the process that was started, begins to listen in its place: at an allocation where the sampler stops anyway, at
//! most once a second. A process that never allocates never does.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// The process that listens, while it is another one; 0 where there is nothing to take over.
static HOLDER: AtomicI32 = AtomicI32::new(0);

/// When to look next, by the monotonic clock in nanoseconds.
static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);

const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Waits for the end of a process that listens.
pub(crate) fn wait_for(holder: i32) {
    NEXT_LOOK.store(now() + BETWEEN_LOOKS.as_nanos() as u64, Ordering::Relaxed);
    HOLDER.store(holder, Ordering::Relaxed);
}

/// Waits for nobody any more.
pub(crate) fn forget() {
    HOLDER.store(0, Ordering::Relaxed);
}

/// Takes the listener over if the process that had it is gone.
#[inline]
pub(crate) fn look() {
    let holder = HOLDER.load(Ordering::Relaxed);
    if holder != 0 {
        look_at(holder);
    }
}

#[cold]
fn look_at(holder: i32) {
    let (next, now) = (NEXT_LOOK.load(Ordering::Relaxed), now());
    let after = now + BETWEEN_LOOKS.as_nanos() as u64;
    let is_mine = now >= next && NEXT_LOOK.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if is_mine && !lives(holder) && HOLDER.compare_exchange(holder, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        crate::start::take_over();
    }
}

/// Whether a process runs; one that has ended and was not waited for does not.
pub(crate) fn lives(pid: i32) -> bool {
    // `PID (NAME) STATE …`, where the name may hold anything.
    let Ok(text) = std::fs::read(format!("/proc/{pid}/stat")) else { return false };
    let state = text.iter().rposition(|byte| *byte == b')').and_then(|end| text.get(end + 2));
    !matches!(state, None | Some(b'Z' | b'X'))
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
