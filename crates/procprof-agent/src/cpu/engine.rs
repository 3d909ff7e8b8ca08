//! The process's sampler and those who share it.
//!
//! A process has one SIGPROF and one sampler, so the engine is found through one global. It belongs to the process that
//! made it: after a fork, the child (which inherits neither timers nor the engine's thread, but maybe a held lock)
//! makes its own on first use.
//!
//! One thread, `procprof-cpu`, exists while captures run. The sampler is its alone, and so are all descriptors of it;
//! captures send [`Order`]s.

use super::CpuOptions;
use super::births::Pace;
use super::perf;
use super::sampler::Sampler;
use super::sigprof;
use super::slot::Slot;
use super::stock::Stock;
use super::thread_stack;
use super::window::Window;
use crate::aside;
use crate::error::{Error, Result};
use crate::modules::Modules;
use crate::options::CpuEngine;
use crate::own_thread;
use crate::room;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Captures that may run at once; they share the samples.
pub(crate) const MAX_CAPTURES: usize = 16;

/// Orders that wait at once: of each capture one, and what comes before `exec`.
const ORDERS: usize = 64;

/// How often the sampler looks after threads and their rings, at least.
const TICK: Duration = Duration::from_millis(100);

/// Samples of a thread between two looks, at high rates: a ring holds as many that are 180 frames deep and have nothing
/// in common.
const SAMPLES_PER_TICK: u32 = 40;

/// How long a thread waits that must not be signalled from now on.
const PATIENCE: Duration = Duration::from_secs(1);

static ENGINE: AtomicPtr<Engine> = AtomicPtr::new(std::ptr::null_mut());

/// The owner of a window, and its end.
#[derive(Clone, Debug)]
struct Holder {
    window: u64,
    owner: String,
    until: Option<SystemTime>,
}

/// The sampler's thread, seen from outside.
#[derive(Debug)]
struct Running {
    hz: u32,
    engine: CpuEngine,
    orders: SyncSender<Order>,
    /// Set when the sampler has done [`Order::Disarm`].
    is_disarmed: Arc<AtomicBool>,
    /// Ends when no sender of orders is left, and returns the free slots.
    thread: JoinHandle<Stock>,
}

/// A request of a capture to the sampler.
#[derive(Debug)]
enum Order {
    Open { window: u64, answer: SyncSender<io::Result<()>> },
    Cut { window: u64, answer: SyncSender<Result<Closed>> },
    End { window: u64, answer: SyncSender<Result<Closed>> },
    Forget { window: u64 },
    Spare { tid: i32, answer: SyncSender<()> },
    Disarm,
}

impl Running {
    /// Has the sampler remove what makes samples; false where it does not in time. Neither allocates nor waits for a
    /// lock.
    fn disarm(&self, patience: Duration) -> bool {
        self.is_disarmed.store(false, Ordering::SeqCst);
        let start = Instant::now();
        while self.orders.try_send(Order::Disarm).is_err_and(|error| matches!(error, TrySendError::Full(_)))
            && start.elapsed() < patience
        {
            std::thread::sleep(Duration::from_micros(200));
        }
        while !self.is_disarmed.load(Ordering::SeqCst) && !self.thread.is_finished() {
            if start.elapsed() > patience {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        true
    }
}

#[derive(Debug, Default)]
struct State {
    running: Option<Running>,
    holders: Vec<Holder>,
    stock: Stock,
    /// In a forked process until its first sampler: the parent's slots are to be taken over.
    inherits: bool,
    last_window: u64,
}

/// The engine of one process.
#[derive(Debug)]
pub(crate) struct Engine {
    pid: u32,
    state: Mutex<State>,
}

/// The sampling of a closed window.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) window: Window,
    /// The process's CPU clock at the end, nanoseconds.
    pub(crate) process_cpu: u64,
    pub(crate) hz: u32,
    pub(crate) engine: CpuEngine,
    /// The extent of perf events that the kernel permits.
    pub(crate) perf: String,
    pub(crate) period: u64,
    pub(crate) tick: u64,
    /// The code that the window's addresses are in.
    pub(crate) modules: Modules,
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
        let fresh = Box::into_raw(Box::new(Self { pid, state: Mutex::new(state) }));
        match ENGINE.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just leaked.
            Ok(_) => unsafe { &*fresh },
            Err(_) => {
                // SAFETY: made above and not published.
                drop(unsafe { Box::from_raw(fresh) });
                Self::of_this_process()
            }
        }
    }

    /// Removes what makes samples of this process's threads, before `exec`; false where that could not be done in time.
    pub(crate) fn disarm() -> bool {
        Self::with_running(|running| running.disarm(PATIENCE)).unwrap_or(false)
    }

    /// Removes what makes samples of a thread that is about to load a filter of system calls.
    pub(crate) fn spare(tid: i32) {
        let spare = |running: &Running| {
            let (answer, answered) = sync_channel(1);
            let is_sent = running.orders.send(Order::Spare { tid, answer }).is_ok();
            is_sent && answered.recv_timeout(PATIENCE).is_ok()
        };
        // Where that could not be done in time, the sampler notices it at its next tick.
        Self::with_running(spare);
    }

    /// Does `work` with this process's sampler; true where there is none, `None` where it can't be reached in time.
    fn with_running(work: impl FnOnce(&Running) -> bool) -> Option<bool> {
        // SAFETY: null, or leaked in `of_this_process` and never freed.
        let Some(engine) = (unsafe { ENGINE.load(Ordering::Acquire).as_ref() }) else { return Some(true) };
        if engine.pid != std::process::id() {
            return Some(true);
        }
        let start = Instant::now();
        loop {
            let state = match engine.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // Its holder may be the function that this one's caller, a signal handler, has interrupted.
                Err(TryLockError::WouldBlock) if start.elapsed() > PATIENCE => return None,
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(Duration::from_micros(200));
                    continue;
                }
            };
            return Some(state.running.as_ref().is_none_or(work));
        }
    }

    /// Opens a window; starts the sampler if none runs.
    pub(crate) fn open(&'static self, options: &CpuOptions) -> Result<u64> {
        let CpuOptions { hz, engine, ref owner, until } = *options;
        let mut state = self.lock()?;
        if state.holders.len() >= MAX_CAPTURES {
            return Err(Error::TooManyCaptures { limit: MAX_CAPTURES });
        }
        if let Some(running) = &state.running
            && (running.hz != hz || !matches!(engine, CpuEngine::Auto) && running.engine != engine)
        {
            return Err(busy(running, &state.holders));
        }
        if state.running.is_none() {
            room::check()?;
            state.start(hz, engine)?;
        }
        state.last_window += 1;
        let window = state.last_window;
        state.holders.push(Holder { window, owner: owner.clone(), until });
        let opened = state.order(|answer| Order::Open { window, answer });
        let failed = match opened {
            Ok(Ok(())) => return Ok(window),
            Ok(Err(source)) => Error::System { what: "list the threads of this process", source },
            Err(error) => error,
        };
        drop(state);
        self.release(window);
        Err(failed)
    }

    /// Ends a window and goes on with the next one without a gap.
    pub(crate) fn cut(&self, window: u64) -> Result<Closed> {
        self.lock()?.order(|answer| Order::Cut { window, answer })?
    }

    /// Ends a window.
    pub(crate) fn end(&self, window: u64) -> Result<Closed> {
        self.lock()?.order(|answer| Order::End { window, answer })?
    }

    /// Gives a window up; the last one stops the sampler and waits for its thread. Does nothing in a forked process.
    pub(crate) fn release(&self, window: u64) {
        let Ok(mut state) = self.lock() else { return };
        state.holders.retain(|holder| holder.window != window);
        if let Some(running) = &state.running {
            // A thread that has ended by a panic, reported on standard error, has no windows any more.
            let _ = running.orders.send(Order::Forget { window });
        }
        if !state.holders.is_empty() {
            return;
        }
        let Some(Running { orders, thread, .. }) = state.running.take() else { return };
        drop(orders);
        // Waited for with the lock held: the next sampler's descriptors have the same numbers.
        state.stock = thread.join().unwrap_or_default();
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        if std::process::id() != self.pid {
            return Err(Error::Forked { parent: self.pid });
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// Starts the sampler's thread.
    fn start(&mut self, hz: u32, engine: CpuEngine) -> Result<()> {
        sigprof::install()?;
        if std::mem::take(&mut self.inherits) {
            self.stock = inherited_slots();
        }
        let stock = std::mem::take(&mut self.stock);
        let ((began, beginning), (orders, received)) = (sync_channel(1), sync_channel(ORDERS));
        let is_disarmed = Arc::new(AtomicBool::new(false));
        let disarmed_by_sampler = is_disarmed.clone();
        let thread =
            aside::spawn("procprof-cpu", move || run(hz, engine, stock, &began, &received, &disarmed_by_sampler));
        let thread = thread.map_err(|source| Error::System { what: "start the sampler's thread", source })?;
        match beginning.recv().unwrap_or(Err(Error::Stopped)) {
            Ok(()) => {
                self.running = Some(Running { hz, engine, orders, is_disarmed, thread });
                Ok(())
            }
            Err(error) => {
                self.stock = thread.join().unwrap_or_default();
                Err(error)
            }
        }
    }

    /// Sends an order and waits for the answer.
    fn order<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Result<T> {
        let (answer, answered) = sync_channel(1);
        let running = self.running.as_ref().ok_or(Error::Stopped)?;
        running.orders.send(order(answer)).map_err(|_| Error::Stopped)?;
        answered.recv().map_err(|_| Error::Stopped)
    }
}

/// The sampler's thread: ticks and executes orders until no sender of orders is left.
fn run(
    hz: u32,
    engine: CpuEngine,
    stock: Stock,
    began: &SyncSender<Result<()>>,
    orders: &Receiver<Order>,
    is_disarmed: &AtomicBool,
) -> Stock {
    own_thread::leave_out();
    thread_stack::learn();
    let permitted = if engine == CpuEngine::Perf { perf::probe() } else { Ok(()) };
    let is_refused = permitted.is_err();
    // Who starts the sampler waits for this.
    let _ = began.send(permitted);
    if is_refused {
        return stock;
    }
    let mut sampler = Sampler::new(hz, engine, stock);
    let tick = TICK.min(Duration::from_secs(1) * SAMPLES_PER_TICK / hz);
    let (mut pace, mut births) = (Pace::new(tick), false);
    loop {
        match orders.recv_timeout(pace.wait(births, Instant::now())) {
            Ok(Order::Disarm) => {
                sampler.disarm();
                is_disarmed.store(true, Ordering::SeqCst);
            }
            Ok(order) => obey(&mut sampler, order),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return sampler.stop(),
        }
        let now = Instant::now();
        if pace.is_due(births, now) {
            sampler.tick();
            pace.ticked(now);
            if sampler.newborns.are_many() {
                pace.hurry(now);
            }
            births = sampler.births.are_wanted(now);
        }
    }
}

/// Executes an order of a capture, which waits for the answer.
fn obey(sampler: &mut Sampler, order: Order) {
    match order {
        Order::Open { window, answer } => {
            let _ = answer.send(sampler.open(window));
        }
        Order::Cut { window, answer } => {
            let ended = sampler.cut(window);
            let _ = answer.send(closed(sampler, ended));
        }
        Order::End { window, answer } => {
            let ended = sampler.end(window);
            let _ = answer.send(closed(sampler, ended));
        }
        Order::Forget { window } => {
            sampler.windows.remove(&window);
        }
        Order::Spare { tid, answer } => {
            sampler.spare(tid);
            let _ = answer.send(());
        }
        Order::Disarm => sampler.disarm(),
    }
}

fn busy(running: &Running, holders: &[Holder]) -> Error {
    let last = holders.iter().max_by_key(|holder| (holder.until.is_none(), holder.until));
    let owner = last.map_or_else(String::new, |holder| holder.owner.clone());
    Error::Busy { hz: running.hz, engine: running.engine, owner, until: last.and_then(|holder| holder.until) }
}

fn closed(sampler: &Sampler, ended: Option<(Window, u64)>) -> Result<Closed> {
    let (window, process_cpu) = ended.ok_or(Error::Stopped)?;
    let (hz, engine, perf) = (sampler.hz, sampler.engine, sampler.perf_status());
    let modules = Modules::of_this_process();
    Ok(Closed { window, process_cpu, hz, engine, perf, period: sampler.period(), tick: sampler.tick, modules })
}

/// In a forked process, before its first sampler: the parent's slots, free again, since no handler of the parent runs
/// here.
fn inherited_slots() -> Stock {
    // Where the fork was made without the C library, no fork handler has done it yet.
    perf::close_copies();
    Stock::from_slots(Slot::all().inspect(|slot| slot.forget_parent()))
}
