//! The process's sampler and those who share it.
//!
//! A process has one SIGPROF and one sampler, so the engine is found through one global. It belongs to the process that made it: after a
//! fork, the child (which inherits neither timers nor the engine's thread, but maybe a held lock) makes its own on first use.
//! One thread, `procprof-cpu`, exists while captures run.

use super::CpuOptions;
use super::births::Pace;
use super::handler;
use super::options::CpuEngine;
use super::perf;
use super::sampler::Sampler;
use super::slot::Slot;
use super::window::Window;
use crate::error::{Error, Result};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Captures that may run at once; they share the samples.
pub(crate) const MAX_CAPTURES: usize = 16;

/// How often the sampler looks after threads and their rings, at least.
const TICK: Duration = Duration::from_millis(100);

/// Samples of a thread between two looks, at high rates: a ring holds as many that are 180 frames deep.
const SAMPLES_PER_TICK: u32 = 40;

static ENGINE: AtomicPtr<Engine> = AtomicPtr::new(std::ptr::null_mut());

/// Who holds a window and until when.
#[derive(Clone, Debug)]
struct Holder {
    window: u64,
    owner: String,
    until: Option<SystemTime>,
}

#[derive(Debug, Default)]
struct State {
    sampler: Option<Sampler>,
    holders: Vec<Holder>,
    thread: Option<JoinHandle<()>>,
    free: Vec<&'static Slot>,
    /// In a forked process until its first sampler: the parent's slots are to be taken over.
    inherits: bool,
    last_window: u64,
    /// Counts samplers, so that a thread left over from one does not serve the next.
    generation: u64,
}

/// The engine of one process.
#[derive(Debug)]
pub(crate) struct Engine {
    pid: u32,
    state: Mutex<State>,
    ended: Condvar,
}

/// What a closed window was sampled with.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) window: Window,
    /// The process's CPU clock at the end, nanoseconds.
    pub(crate) process_cpu: u64,
    pub(crate) hz: u32,
    pub(crate) engine: CpuEngine,
    /// What the kernel permits of perf events.
    pub(crate) perf: String,
    pub(crate) period: u64,
    pub(crate) tick: u64,
}

impl Engine {
    /// The engine of this process, made on first use and after a fork.
    pub(crate) fn of_this_process() -> &'static Self {
        let pid = std::process::id();
        let current = ENGINE.load(Ordering::Acquire);
        // SAFETY: null, or leaked below and never freed.
        if let Some(engine) = unsafe { current.as_ref() }
            && engine.pid == pid
        {
            return engine;
        }
        let state = State { inherits: !current.is_null(), ..State::default() };
        let fresh = Box::into_raw(Box::new(Self { pid, state: Mutex::new(state), ended: Condvar::new() }));
        match ENGINE.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just leaked.
            Ok(_) => unsafe { &*fresh },
            Err(_) => {
                // SAFETY: made above and seen by nobody else.
                drop(unsafe { Box::from_raw(fresh) });
                Self::of_this_process()
            }
        }
    }

    /// Opens a window; starts the sampler if none runs.
    pub(crate) fn open(&'static self, options: &CpuOptions) -> Result<u64> {
        let CpuOptions { hz, engine, ref owner, until } = *options;
        let mut state = self.lock()?;
        if state.holders.len() >= MAX_CAPTURES {
            return Err(Error::TooManyCaptures { limit: MAX_CAPTURES });
        }
        if let Some(sampler) = &state.sampler
            && (sampler.hz != hz || !matches!(engine, CpuEngine::Auto) && sampler.engine != engine)
        {
            return Err(busy(sampler, &state.holders));
        }
        if state.sampler.is_none() {
            if engine == CpuEngine::Perf {
                perf::probe()?;
            }
            self.start(&mut state, hz, engine)?;
        }
        state.last_window += 1;
        let window = state.last_window;
        state.holders.push(Holder { window, owner: owner.clone(), until });
        let opened = state.sampler.as_mut().map_or(Ok(()), |sampler| sampler.open(window));
        if let Err(source) = opened {
            drop(state);
            self.release(window);
            return Err(Error::System { what: "list the threads of this process", source });
        }
        Ok(window)
    }

    /// Ends a window and goes on with the next one without a gap.
    pub(crate) fn cut(&self, window: u64) -> Result<Closed> {
        let mut state = self.lock()?;
        let sampler = state.sampler.as_mut().ok_or(Error::Stopped)?;
        let ended = sampler.cut(window);
        closed(sampler, ended)
    }

    /// Ends a window.
    pub(crate) fn end(&self, window: u64) -> Result<Closed> {
        let mut state = self.lock()?;
        let sampler = state.sampler.as_mut().ok_or(Error::Stopped)?;
        let ended = sampler.end(window);
        closed(sampler, ended)
    }

    /// Gives a window up; the last one stops the sampler and waits for its thread. Does nothing in a forked process.
    pub(crate) fn release(&self, window: u64) {
        let Ok(mut state) = self.lock() else { return };
        state.holders.retain(|holder| holder.window != window);
        if let Some(sampler) = &mut state.sampler {
            sampler.windows.remove(&window);
        }
        if !state.holders.is_empty() {
            return;
        }
        if let Some(mut sampler) = state.sampler.take() {
            state.free = sampler.stop();
        }
        let thread = state.thread.take();
        drop(state);
        self.ended.notify_all();
        if let Some(thread) = thread {
            // A panic of that thread has been told on standard error already.
            let _ = thread.join();
        }
    }

    fn start(&'static self, state: &mut State, hz: u32, engine: CpuEngine) -> Result<()> {
        handler::install()?;
        state.generation += 1;
        let (generation, tick) = (state.generation, TICK.min(Duration::from_secs(1) * SAMPLES_PER_TICK / hz));
        let thread = without_signals(|| {
            let named = std::thread::Builder::new().name("procprof-cpu".into());
            named.spawn(move || self.run(generation, tick))
        });
        let thread = thread.map_err(|source| Error::System { what: "start the sampler's thread", source })?;
        state.thread = Some(thread);
        if std::mem::take(&mut state.inherits) {
            state.free = inherited_slots();
        }
        state.sampler = Some(Sampler::new(hz, engine, std::mem::take(&mut state.free)));
        Ok(())
    }

    /// The sampler's thread: ticks until the sampler it was started for is gone.
    fn run(&self, generation: u64, tick: Duration) {
        #[cfg(feature = "contention")]
        crate::contention::overlook_this_thread();
        let Ok(mut state) = self.lock() else { return };
        let (mut pace, mut births) = (Pace::new(tick), false);
        loop {
            let waited = self.ended.wait_timeout(state, pace.wait(births, Instant::now()));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.generation != generation {
                return;
            }
            let Some(sampler) = &mut state.sampler else { return };
            let now = Instant::now();
            if pace.is_due(births, now) {
                sampler.tick();
                pace.ticked(now);
                births = sampler.births.are_wanted(now);
            }
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        if std::process::id() != self.pid {
            return Err(Error::Forked { parent: self.pid });
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn busy(sampler: &Sampler, holders: &[Holder]) -> Error {
    let last = holders.iter().max_by_key(|holder| (holder.until.is_none(), holder.until));
    let owner = last.map_or_else(String::new, |holder| holder.owner.clone());
    Error::Busy { hz: sampler.hz, engine: sampler.engine, owner, until: last.and_then(|holder| holder.until) }
}

fn closed(sampler: &Sampler, ended: Option<(Window, u64)>) -> Result<Closed> {
    let (window, process_cpu) = ended.ok_or(Error::Stopped)?;
    let (hz, engine, perf) = (sampler.hz, sampler.engine, sampler.perf_status());
    Ok(Closed { window, process_cpu, hz, engine, perf, period: sampler.period(), tick: sampler.tick })
}

/// In a forked process, before its first sampler: the parent's slots, free again, since no handler of the parent runs here.
fn inherited_slots() -> Vec<&'static Slot> {
    // Where the fork was made without the C library, nobody has done it yet.
    perf::close_copies();
    Slot::all().inspect(|slot| slot.forget_parent()).collect()
}

/// Runs `start` with all signals but SIGPROF blocked, so that the thread it starts takes none that are meant for the program.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: all-zero is a valid `sigset_t` to be filled.
    let (mut block, mut former): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: both sets are valid; the calling thread's mask is put back below.
    unsafe {
        libc::sigfillset(&mut block);
        libc::sigdelset(&mut block, libc::SIGPROF);
        libc::pthread_sigmask(libc::SIG_SETMASK, &block, &mut former);
    }
    let result = start();
    // SAFETY: `former` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &former, std::ptr::null_mut()) };
    result
}
