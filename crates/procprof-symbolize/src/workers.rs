//! Runs jobs on as many threads as there are processors.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Most threads of one batch.
const THREADS_MAX: usize = 16;

thread_local! {
    /// Whether batches of this thread start no others.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Looks addresses up by `work` in the calling thread alone: for a process that is profiled, whose processors and
/// memory are its own, and which may forbid new threads at any moment.
pub fn in_one_thread<T>(work: impl FnOnce() -> T) -> T {
    struct Restorer(bool);
    impl Drop for Restorer {
        fn drop(&mut self) {
            IS_ALONE.set(self.0);
        }
    }
    let _put_back = Restorer(IS_ALONE.replace(true));
    work()
}

/// The number of threads that a batch may use.
pub(crate) fn threads() -> usize {
    if IS_ALONE.get() {
        return 1;
    }
    thread::available_parallelism().map_or(1, |count| count.get().min(THREADS_MAX))
}

/// The number of threads that a batch of `amount` may use so that each has `least` of it: the work must justify
/// starting a thread, and the memory that its allocations take.
pub(crate) fn threads_for(amount: usize, least: usize) -> usize {
    match amount / least {
        0 | 1 => 1,
        parts => threads().min(parts),
    }
}

/// Runs the jobs `0..jobs`, started in that order, and returns the results of each thread.
pub(crate) fn run<S: Send>(
    jobs: usize,
    threads: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
) -> Vec<S> {
    let next = AtomicUsize::new(0);
    let work_off = || {
        let mut state = start();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return state;
            }
            work(&mut state, job);
        }
    };
    let others = threads.min(jobs).saturating_sub(1);
    thread::scope(|scope| {
        // If no thread can be started, the others do its work.
        let spawn = |_| thread::Builder::new().name("symbolize".to_owned()).spawn_scoped(scope, work_off).ok();
        let others: Vec<_> = (0..others).filter_map(spawn).collect();
        let mut states = vec![work_off()];
        for other in others {
            match other.join() {
                Ok(state) => states.push(state),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        states
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_used_while_it_is_asked_for() {
        let caller = thread::current().id();
        let seen = || run(100, threads(), Vec::new, |seen, _| seen.push(thread::current().id()));
        let ids = in_one_thread(|| in_one_thread(seen).into_iter().chain(seen()).flatten().collect::<Vec<_>>());
        assert!(ids.len() == 200 && ids.iter().all(|id| *id == caller));
        assert!(!IS_ALONE.get());
        assert_eq!(in_one_thread(|| threads_for(1 << 20, 1)), 1);
    }
}
