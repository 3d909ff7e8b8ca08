//! [`in_order`]: work of several threads, whose results are taken in their order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// Threads at most; most of their time goes into waiting where the storage is a bucket.
const THREADS: usize = 4;
/// Results that are made and not taken yet, at most, with those that are being made: so many parts are in memory.
const AHEAD: usize = THREADS;
/// How often it is asked whether to stop.
const LOOK: Duration = Duration::from_millis(20);

/// The state of the work.
struct Work<T> {
    /// The next piece to be begun.
    next: usize,
    /// Pieces that were taken.
    taken: usize,
    /// Results, and panics that are those of whoever takes them.
    done: BTreeMap<usize, thread::Result<T>>,
}

/// Makes `count` results, several at a time, and gives them to `each` in their order. Ends early with the first error
/// of `each`; `make` is told then, as when it is to stop.
///
/// # Errors
/// Those of `each`, and [`Error::Stopped`].
pub(crate) fn in_order<T: Send>(
    count: usize,
    is_stopped: &dyn Fn() -> bool,
    make: &(dyn Fn(usize, &dyn Fn() -> bool) -> T + Sync),
    each: &mut dyn FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    if count < 2 {
        return (0..count).try_for_each(|at| each(at, make(at, is_stopped)));
    }
    let work = Mutex::new(Work { next: 0, taken: 0, done: BTreeMap::new() });
    let (changed, is_over) = (Condvar::new(), AtomicBool::new(false));
    let is_done = || is_over.load(Ordering::Relaxed);
    let worker = || {
        while let Some(at) = begin(&work, &changed, count, &is_done) {
            let made = catch_unwind(AssertUnwindSafe(|| make(at, &is_done)));
            locked(&work).done.insert(at, made);
            changed.notify_all();
        }
    };
    thread::scope(|scope| {
        let _end = End { is_over: &is_over, changed: &changed };
        for _ in 0..THREADS.min(count) {
            scope.spawn(worker);
        }
        for at in 0..count {
            let made = take(&work, &changed, at, is_stopped)?;
            changed.notify_all();
            each(at, made)?;
        }
        Ok(())
    })
}

/// Waits until a piece may be begun, and gives it; `None` at the end.
fn begin<T>(work: &Mutex<Work<T>>, changed: &Condvar, count: usize, is_done: &dyn Fn() -> bool) -> Option<usize> {
    let mut work = locked(work);
    while !is_done() && work.next < count {
        if work.next < work.taken + AHEAD {
            work.next += 1;
            return Some(work.next - 1);
        }
        // Looks again by itself, since the end is not told under the lock.
        work = changed.wait_timeout(work, LOOK).unwrap_or_else(PoisonError::into_inner).0;
    }
    None
}

/// Waits for a result.
fn take<T>(work: &Mutex<Work<T>>, changed: &Condvar, at: usize, is_stopped: &dyn Fn() -> bool) -> Result<T> {
    let mut work = locked(work);
    loop {
        if let Some(made) = work.done.remove(&at) {
            work.taken = at + 1;
            return Ok(made.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        if is_stopped() {
            return Err(Error::Stopped);
        }
        work = changed.wait_timeout(work, LOOK).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Ends the threads when dropped, whatever the reason.
struct End<'a> {
    is_over: &'a AtomicBool,
    changed: &'a Condvar,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn results_come_in_their_order_and_not_too_far_ahead() {
        for count in [0, 1, 2, 3, 100] {
            let (begun, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let make = |at: usize, _: &dyn Fn() -> bool| {
                begun.fetch_add(1, Ordering::SeqCst);
                // A result is taken before `each` has it.
                assert!(at < taken.load(Ordering::SeqCst) + AHEAD + 2);
                at * at
            };
            let mut found = Vec::new();
            let mut each = |at, made| {
                taken.store(at, Ordering::SeqCst);
                found.push((at, made));
                Ok(())
            };
            in_order(count, &|| false, &make, &mut each).unwrap();
            assert_eq!(found, (0..count).map(|at| (at, at * at)).collect::<Vec<_>>());
            assert_eq!(begun.into_inner(), count);
        }
    }

    #[test]
    #[should_panic(expected = "of piece 7")]
    fn a_panic_ends_it() {
        let make = |at, _: &dyn Fn() -> bool| assert!(at != 7, "of piece {at}");
        let _ = in_order(50, &|| false, &make, &mut |_, ()| Ok(()));
    }

    #[test]
    fn an_error_and_a_stop_end_it() {
        let begun = AtomicUsize::new(0);
        let make = |_, is_stopped: &dyn Fn() -> bool| {
            // Long work ends with the rest.
            while begun.fetch_add(1, Ordering::SeqCst) >= 3 && !is_stopped() {}
        };
        let failed = in_order(50, &|| false, &make, &mut |at, ()| if at == 2 { Err(Error::Stopped) } else { Ok(()) });
        assert!(matches!(failed, Err(Error::Stopped)));
        let stopped = in_order(50, &|| true, &|_, is_stopped| while !is_stopped() {}, &mut |_, ()| Ok(()));
        assert!(matches!(stopped, Err(Error::Stopped)));
    }
}
