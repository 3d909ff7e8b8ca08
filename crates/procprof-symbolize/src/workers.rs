//! Runs jobs on as many threads as there are processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Most threads of one batch.
const THREADS_MAX: usize = 16;

/// The number of threads that a batch may use.
pub(crate) fn threads() -> usize {
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
