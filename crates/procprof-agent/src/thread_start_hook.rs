//! The agent's own threads, from their creation to their end, and filters of system calls for all threads of the
//! process (`SECCOMP_FILTER_FLAG_TSYNC`).
//!
//! Such a filter applies to the agent's threads, too. A thread that is starting makes system calls that a filter may
//! forbid: the C library registers its restartable sequences and ends the process where that fails, and the agent gives
//! it a table of descriptors. So a thread has started only when it has made them, the function that starts it waits for
//! that, and no thread starts while a filter is loaded.
//!
//! ```text
//! thread of the program     starts a thread ──────────── waits ────┐ goes on
//! thread of the agent         rseq, set_robust_list, prctl, close_range, open │ works
//! ```
//!
//! A filter that forbids what the agent's threads call is loaded when the last of them is gone, and none starts after
//! it.

use crate::lineage;
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Threads of the agent at once: 16 connections with a thread each for their work, and some of its own.
const THREADS_MAX: usize = 128;

/// Longest wait for a thread that starts. One that takes longer may wait for a lock of the starting thread's.
const START_MAX: Duration = Duration::from_secs(1);

/// Longest wait, before a filter is loaded, for threads that start.
const STARTS_MAX: Duration = Duration::from_secs(5);

/// Longest wait, before a filter is loaded that forbids what they call, for threads to end.
const ENDS_MAX: Duration = Duration::from_secs(5);

/// Stages of a thread, in the lower half of its entry; the upper half is the [`lineage`] of its process.
const STARTING: u64 = 1;
const RUNNING: u64 = 2;
const ENDING: u64 = 3;

/// Bits of a stage, below the thread's id.
const STAGE_BITS: u32 = 2;

/// The threads of the process, and filters that are being loaded.
struct Gate {
    /// An entry for each thread; 0 where there is none, and entries of a parent's threads count as such.
    threads: [AtomicU64; THREADS_MAX],
    /// Filters that are being loaded, with the [`lineage`] of their process above their number: starts wait for them.
    held: AtomicU64,
    /// Filters that forbid what the agent's threads call, loaded or about to be: nothing starts.
    forbidden: AtomicU32,
}

static GATE: Gate = Gate::new();

thread_local! {
    /// Whether this thread is loading a filter: what it starts to end the agent starts nevertheless.
    static IS_LOADING: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is one of the agent's, or is creating one.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether a thread that the calling one is creating is the agent's and not the program's.
pub fn is_own() -> bool {
    IS_OWN.get()
}

/// Creates a thread by `create`, in which the new thread's closure owns the [`Start`]; waits until it has started.
pub(crate) fn start<T>(create: impl FnOnce(Start) -> io::Result<T>) -> io::Result<T> {
    GATE.start(create)
}

/// Whether the threads of the agent have to end, since a filter is about to forbid what they call.
pub(crate) fn have_to_end() -> bool {
    GATE.forbidden.load(Ordering::SeqCst) > 0
}

/// To be called by the thread that is about to load a filter for all threads which permits what the agent's threads
/// call, starts of threads excepted: waits, for at most 5 s, until those that are starting have started.
pub fn before_permitting_filter() -> CommonFilter {
    GATE.before_permitting_filter()
}

/// To be called by the thread that is about to load a filter for all threads which forbids what the agent's threads
/// call: lets no other thread start one, has `end` end them, and waits, for at most 5 s, until they are gone.
pub fn before_forbidding_filter(end: impl FnOnce()) -> CommonFilter {
    GATE.before_forbidding_filter(end)
}

impl Gate {
    const fn new() -> Self {
        Self {
            threads: [const { AtomicU64::new(0) }; THREADS_MAX],
            held: AtomicU64::new(0),
            forbidden: AtomicU32::new(0),
        }
    }

    fn start<T>(&'static self, create: impl FnOnce(Start) -> io::Result<T>) -> io::Result<T> {
        let start = self.begin()?;
        let (entry, starting) = (start.entry, start.starting);
        let was_own = IS_OWN.replace(true);
        let created = create(start);
        IS_OWN.set(was_own);
        if created.is_ok() {
            wait(START_MAX, || entry.load(Ordering::Acquire) != starting);
        }
        created
    }

    fn begin(&'static self) -> io::Result<Start> {
        let refused = |why| io::Error::new(io::ErrorKind::PermissionDenied, why);
        loop {
            if !wait(STARTS_MAX, || self.is_forbidden() || !self.is_held()) {
                return Err(refused("a seccomp filter for all threads is being loaded"));
            }
            if self.is_forbidden() {
                return Err(refused("a seccomp filter forbids what the thread would call"));
            }
            let Some(start) = self.take_entry() else {
                return Err(io::Error::other(format!("the profiler has {THREADS_MAX} threads already")));
            };
            // Checked again: the thread that loads a filter announces that, and then looks for starts.
            if !self.is_forbidden() && !self.is_held() {
                return Ok(start);
            }
        }
    }

    /// Whether the calling thread may start none until a filter is loaded.
    fn is_held(&self) -> bool {
        !IS_LOADING.get() && of_this_process(self.held.load(Ordering::SeqCst)) > 0
    }

    /// Whether the calling thread may start none any more.
    fn is_forbidden(&self) -> bool {
        !IS_LOADING.get() && self.forbidden.load(Ordering::SeqCst) > 0
    }

    /// An entry for a thread that is starting; `None` where all are in use.
    fn take_entry(&'static self) -> Option<Start> {
        let starting = starting();
        let take = |entry: &&AtomicU64| {
            let found = entry.load(Ordering::SeqCst);
            !is_in_use(found) && entry.compare_exchange(found, starting, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        self.threads.iter().find(take).map(|entry| Start { entry, starting })
    }

    fn wait_for_starts(&self) {
        let starting = starting();
        wait(STARTS_MAX, || self.threads.iter().all(|entry| entry.load(Ordering::SeqCst) != starting));
    }

    fn before_permitting_filter(&'static self) -> CommonFilter {
        self.change_held(|held| held + 1);
        let filter = CommonFilter { gate: self, is_forbidding: false, was_loading: IS_LOADING.replace(true) };
        self.wait_for_starts();
        filter
    }

    fn before_forbidding_filter(&'static self, end: impl FnOnce()) -> CommonFilter {
        self.forbidden.fetch_add(1, Ordering::SeqCst);
        let filter = CommonFilter { gate: self, is_forbidding: true, was_loading: IS_LOADING.replace(true) };
        self.wait_for_starts();
        end();
        wait(ENDS_MAX, || self.threads.iter().all(|entry| !is_in_use(entry.load(Ordering::SeqCst))));
        filter
    }

    fn change_held(&self, change: impl Fn(u32) -> u32) {
        let own = u64::from(lineage::number()) << 32;
        let _ = self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
            Some(own | u64::from(change(of_this_process(word))))
        });
    }
}

/// The entry of a thread of this process that is starting.
fn starting() -> u64 {
    u64::from(lineage::number()) << 32 | STARTING
}

/// The number in a word; 0 where that is a parent's.
fn of_this_process(word: u64) -> u32 {
    if word >> 32 == u64::from(lineage::number()) { word as u32 } else { 0 }
}

/// Whether an entry is that of a thread of this process which is not gone.
fn is_in_use(entry: u64) -> bool {
    of_this_process(entry) != 0 && (stage(entry) != ENDING || exists(tid(entry)))
}

fn stage(entry: u64) -> u64 {
    entry & ((1 << STAGE_BITS) - 1)
}

fn tid(entry: u64) -> i32 {
    (entry as u32 >> STAGE_BITS) as i32
}

/// Whether a thread of this process has not left the kernel yet.
fn exists(tid: i32) -> bool {
    // SAFETY: signal 0 is none; a thread of another process is not found by this process's id.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, 0) == 0 }
}

/// A thread that is being started; dropped where it could not be created.
#[derive(Debug)]
pub(crate) struct Start {
    entry: &'static AtomicU64,
    starting: u64,
}

impl Start {
    /// To be called by the new thread, with its id, when it has made the system calls of its start.
    pub(crate) fn done(self, tid: i32) -> RunningThread {
        let thread = (self.starting & !u64::from(u32::MAX)) | (tid as u64) << STAGE_BITS;
        self.entry.store(thread | RUNNING, Ordering::SeqCst);
        IS_OWN.set(true);
        RunningThread { entry: self.entry, thread }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        // Does nothing once the thread has started.
        let _ = self.entry.compare_exchange(self.starting, 0, Ordering::SeqCst, Ordering::Relaxed);
    }
}

/// A thread of the agent's that has started; dropped by it at the end of its work.
#[derive(Debug)]
pub(crate) struct RunningThread {
    entry: &'static AtomicU64,
    thread: u64,
}

impl Drop for RunningThread {
    fn drop(&mut self) {
        // It makes some system calls more.
        self.entry.store(self.thread | ENDING, Ordering::SeqCst);
    }
}

/// Waits until `is_so`, for at most `length`; whether it is.
fn wait(length: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    const YIELDS: u32 = 200;
    const PAUSE: Duration = Duration::from_micros(50);
    let (start, mut attempts) = (Instant::now(), 0_u32);
    while !is_so() {
        if start.elapsed() > length {
            return false;
        }
        attempts = attempts.saturating_add(1);
        if attempts < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
    true
}

/// A filter for all threads is being loaded, and no thread of the agent's starts meanwhile.
#[must_use = "threads start again when it is dropped"]
pub struct CommonFilter {
    gate: &'static Gate,
    is_forbidding: bool,
    was_loading: bool,
}

impl CommonFilter {
    /// The filter is loaded: no thread starts any more where it forbids that. Makes no system call.
    pub fn done(self) {
        if self.is_forbidding {
            IS_LOADING.set(self.was_loading);
            std::mem::forget(self);
        }
    }
}

impl std::fmt::Debug for CommonFilter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CommonFilter").field("is_forbidding", &self.is_forbidding).finish_non_exhaustive()
    }
}

impl Drop for CommonFilter {
    fn drop(&mut self) {
        IS_LOADING.set(self.was_loading);
        if self.is_forbidding {
            self.gate.forbidden.fetch_sub(1, Ordering::SeqCst);
        } else {
            self.gate.change_held(|held| held.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::JoinHandle;

    fn spawn<T: Send + 'static>(
        gate: &'static Gate,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        gate.start(|start| {
            std::thread::Builder::new().spawn(move || {
                let _running = start.done(crate::aside::own_tid());
                work()
            })
        })
    }

    /// The thread that runs.
    fn running(gate: &Gate) -> Option<i32> {
        let entries = gate.threads.iter().map(|entry| entry.load(Ordering::SeqCst));
        entries.filter(|entry| stage(*entry) == RUNNING).map(tid).next()
    }

    #[test]
    fn a_thread_has_started_when_its_creation_returns() {
        static GATE: Gate = Gate::new();
        // More than there are entries: those of threads that are gone are used again.
        for _ in 0..2 * THREADS_MAX {
            let (sender, go_on) = channel::<()>();
            let thread = spawn(&GATE, move || go_on.recv().is_err()).unwrap();
            assert!(running(&GATE).is_some());
            drop(sender);
            assert!(thread.join().unwrap());
        }
        assert!(GATE.start(|_| Err::<(), _>(io::ErrorKind::OutOfMemory.into())).is_err());
        GATE.before_permitting_filter().done();
    }

    #[test]
    fn a_start_waits_for_the_end_of_a_load_and_a_load_for_the_end_of_a_start() {
        static GATE: Gate = Gate::new();
        let filter = GATE.before_permitting_filter();
        std::thread::scope(|scope| {
            let starter = scope.spawn(|| GATE.begin().unwrap());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!starter.is_finished(), "a thread starts while a filter is loaded");
            filter.done();
            let start = starter.join().unwrap();
            let loader = scope.spawn(|| GATE.before_permitting_filter().done());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!loader.is_finished(), "a filter is loaded while a thread starts");
            drop(start);
            loader.join().unwrap();
        });
    }

    #[test]
    fn no_thread_is_there_when_a_forbidding_filter_is_loaded_and_none_starts_after_it() {
        static GATE: Gate = Gate::new();
        let (sender, go_on) = channel::<()>();
        let thread = spawn(&GATE, move || go_on.recv().is_err()).unwrap();
        let tid = running(&GATE).unwrap();
        assert!(exists(tid));
        let filter = GATE.before_forbidding_filter(|| {
            // The thread that loads it may need one to end the others.
            spawn(&GATE, || ()).unwrap().join().unwrap();
            drop(sender);
        });
        assert!(!exists(tid));
        assert!(thread.join().unwrap());
        let refused = || std::thread::spawn(|| spawn(&GATE, || ()).map(drop)).join().unwrap().unwrap_err().to_string();
        assert_eq!(refused(), "a seccomp filter forbids what the thread would call");
        drop(filter);
        spawn(&GATE, || ()).unwrap().join().unwrap();
        GATE.before_forbidding_filter(|| ()).done();
        assert_eq!(refused(), "a seccomp filter forbids what the thread would call");
    }
}
