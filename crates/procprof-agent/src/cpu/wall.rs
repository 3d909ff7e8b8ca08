//! Wall-clock capture: where each thread is, on the CPU or waiting.
//!
//! Threads are visited in turn. One that waits and whose CPU clock has not advanced has not moved since its last
//! sample, so the time goes to the stack of that sample. The stack of one that sleeps in another place by now is read
//! from memory ([`asleep`]). One that computes gets a signal, and its handler writes the stack; so does a sleeping one
//! that can't be read, once a place, and any if the program uses labels, which only the thread itself can read. So
//! system calls that a signal ends early (`sleep`, `poll`, `epoll_wait`, …) are rarely interrupted.
//!
//! Visits alone would give a wrong share of waiting: on a busy machine the visiting thread runs when others do not. So
//! how much of a thread's time was computing and how much waiting is taken from its [`clocks`], and only *where* it
//! computed and waited from the stacks.

mod asleep;
mod clocks;

use super::blocked;
use super::handler::send;
use super::label;
use super::ring::{Origin, Record};
use super::sampler::{thread_ids, thread_name};
use super::sandbox::Sandbox;
use super::sigprof;
use super::slot::Slot;
use super::snapshots::Snapshots;
use super::stock::Stock;
use super::thread_stack;
use super::walk::End;
use super::window::{ThreadView, Window};
use crate::aside;
use crate::clock;
use crate::error::{Error, Result};
use crate::modules::Modules;
use crate::spin::Spin;
use asleep::{Read, Reader, Whereabouts};
use clocks::{Clocks, Place};
use procprof_unwind::Space;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

/// The highest rate, visits per second and thread.
pub(crate) const MAX_WALL_HZ: u32 = 100;

/// The default rate.
pub(crate) const DEFAULT_WALL_HZ: u32 = 19;

/// Signals sent per second, over all threads; with more busy threads each is visited more rarely, and its samples weigh
/// more.
const SIGNALS_PER_SECOND: usize = 2000;

/// CPU time that waking up, the handler and going back to sleep may take; a clock that moved by more shows work.
const OWN_COST: u64 = 200_000;

/// A sample weighs at most this; of a thread that does not take signals, the time is unsampled.
const LONGEST_WEIGHT: u64 = 1_000_000_000;

/// Places a thread sleeps at of which the stack is kept because it can't be read.
const MAX_KNOWN: usize = 16;

/// Visits that preparing the rules for reading a stack may take; then the thread is signalled.
const PATIENCE: u32 = 10;

/// CPU time that a thread has to use before it is signalled for the place of its computing, nanoseconds.
const LEAST_COMPUTING: u64 = 5_000_000;

const LOOK_FOR_THREADS: Duration = Duration::from_millis(100);

/// The owner of the running capture, its process and its end.
static RUNNING: Spin<Option<(u32, String, SystemTime)>> = Spin::new(None, || None);

/// Slots of captures that have ended, and the process they belong to.
static POOL: Spin<(u32, Vec<&'static Slot>)> = Spin::new((0, Vec::new()), || (0, Vec::new()));

/// The result of a capture.
#[derive(Debug)]
pub(crate) struct Walls {
    pub(crate) window: Window,
    pub(crate) hz: u32,
    pub(crate) signals: u64,
    /// The code that the window's addresses are in.
    pub(crate) modules: Modules,
}

/// The one capture of this process; ended when dropped.
struct Turn;

impl Turn {
    fn take(owner: &str, until: SystemTime) -> Result<Self> {
        let pid = std::process::id();
        let mut running = RUNNING.lock();
        match &*running {
            Some((of, owner, until)) if *of == pid => Err(Error::WallBusy { owner: owner.clone(), until: *until }),
            _ => {
                *running = Some((pid, owner.to_owned(), until));
                Ok(Self)
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock() = None;
    }
}

/// A thread under watch.
#[derive(Debug)]
struct Watched {
    /// Its `cpu` is the wall time that stacks represent, nanoseconds.
    view: ThreadView,
    since: Instant,
    slot: &'static Slot,
    ticket: u64,
    /// Its clocks up to which its time is divided.
    divided: Clocks,
    computing: Part,
    waiting: Part,
    /// Its place when it was last sent a signal, and its CPU clock, if it has not taken that yet: it may have moved,
    /// and waits for a processor.
    signalled: Option<(Place, u64)>,
    /// Its place when the last sample was requested, and its CPU clock then, later when it had gone on from there.
    seen: Option<(Place, u64)>,
    rests: bool,
    /// Whether it must not be signalled, and when that was checked.
    is_in_sandbox: bool,
    looked_at: Instant,
    /// Whether it blocked the signal at the last look, and has taken none since.
    is_blocking: bool,
    /// Stacks of places where it sleeps and can't be read, by their fingerprints.
    known: Vec<(u64, Vec<u64>, End)>,
    /// The place at which it was signalled, and its CPU clock then.
    signalled_at: Option<(u64, u64)>,
    /// Visits at which it could not be read yet.
    unready: u32,
    /// Computing that was counted too late for the time it was done in.
    late: u64,
}

/// A thread's computing or its waiting.
#[derive(Debug, Default)]
struct Part {
    /// Time that the next stack will represent, nanoseconds.
    owed: u64,
    last: Option<(Vec<u64>, End)>,
}

/// Watches all threads but the calling one for `length`; `wait` sleeps, and answers true when the capture is to be
/// given up.
///
/// # Errors
/// [`Error::WallBusy`], [`Error::Stopped`], [`Error::System`] without `/proc` or when the handler can't be installed.
pub(crate) fn capture(
    hz: u32,
    length: Duration,
    owner: &str,
    mut wait: impl FnMut(Duration) -> Result<bool>,
) -> Result<Walls> {
    let _turn = Turn::take(owner, SystemTime::now() + length)?;
    sigprof::install()?;
    thread_stack::learn();
    let mut watch = Watch::new(hz);
    watch.look_for_threads().map_err(|source| Error::System { what: "list the threads of this process", source })?;
    // Rules for stacks have been read meanwhile, which may take long.
    watch.window = Window::open(std::iter::empty(), 0, LONGEST_WEIGHT);
    let began = Instant::now();
    let mut looked = began;
    while began.elapsed() < length {
        watch.visit();
        let rest = length.saturating_sub(began.elapsed()).min(Duration::from_secs(1) / hz);
        if wait(rest)? {
            return Err(Error::Stopped);
        }
        if looked.elapsed() >= LOOK_FOR_THREADS {
            looked = Instant::now();
            // Where `/proc` can't be read for a moment, the threads known are visited on.
            let _ = watch.look_for_threads();
        }
    }
    watch.visit();
    Ok(watch.end())
}

/// A running capture.
struct Watch {
    hz: u32,
    window: Window,
    threads: BTreeMap<i32, Watched>,
    snapshots: Snapshots,
    reader: Reader,
    stock: Stock,
    sandbox: Sandbox,
    next_key: u64,
    /// The thread that the next round begins with, and signals sent so far.
    next: i32,
    signals: u64,
}

impl Watch {
    fn new(hz: u32) -> Self {
        let mut pool = POOL.lock();
        let pooled = std::mem::take(&mut pool.1);
        let (free, busy): (Vec<_>, Vec<_>) = pooled.into_iter().partition(|slot| !slot.is_busy());
        // In a forked process the parent's slots go to the CPU sampler, not here.
        let own = pool.0 == std::process::id();
        *pool = (std::process::id(), if own { busy } else { Vec::new() });
        let stock = Stock::from_slots(if own { free } else { Vec::new() });
        let window = Window::open(std::iter::empty(), 0, LONGEST_WEIGHT);
        let (threads, snapshots, reader) = (BTreeMap::new(), Snapshots::default(), Reader::new());
        let sandbox = Sandbox::of_this_thread();
        Self { hz, window, threads, snapshots, reader, stock, sandbox, next_key: 0, next: 0, signals: 0 }
    }

    /// Begins to watch threads not seen before, and lets those go that have ended.
    fn look_for_threads(&mut self) -> std::io::Result<()> {
        let alive: HashSet<i32> = thread_ids()?;
        self.snapshots.keep(alive.iter().any(|tid| !self.threads.contains_key(tid)));
        let ended: Vec<i32> = self.threads.keys().copied().filter(|tid| !alive.contains(tid)).collect();
        for tid in ended {
            self.let_go(tid);
        }
        let (own, waiting) = (aside::own_tid(), aside::waiting_thread());
        let mut wanted = alive.len().saturating_sub(self.threads.len());
        for tid in alive.into_iter().filter(|tid| *tid != own && Some(*tid) != waiting) {
            if self.threads.contains_key(&tid) {
                continue;
            }
            let (Some(slot), Some(name)) = (self.stock.take(wanted.max(1)), thread_name(tid)) else { continue };
            wanted = wanted.saturating_sub(1);
            slot.empty();
            let view = ThreadView { key: self.next_key, tid, name, cpu: 0, blocked: 0, is_born: false };
            self.next_key += 1;
            let since = Instant::now();
            let cpu = clock::read(clock::thread_clock(tid)).unwrap_or_default();
            let Some((divided, _)) = Clocks::read(tid, 0, cpu) else {
                self.stock.put(slot);
                continue;
            };
            let watched = Watched {
                view,
                since,
                slot,
                ticket: slot.assign(tid),
                divided,
                computing: Part::default(),
                waiting: Part::default(),
                signalled: None,
                seen: None,
                rests: false,
                is_in_sandbox: self.sandbox.holds(tid),
                looked_at: since,
                is_blocking: false,
                known: Vec::new(),
                signalled_at: None,
                unready: 0,
                late: 0,
            };
            self.threads.insert(tid, watched);
        }
        Ok(())
    }

    /// One round: reads the records of handlers, and signals the threads that have moved, as many as the budget allows.
    fn visit(&mut self) {
        let is_ours = sigprof::is_ours();
        self.window.shortfalls.looks_without_handler += u64::from(!is_ours);
        // A handler that is not ours gets none of our signals.
        let mut budget = if is_ours { (SIGNALS_PER_SECOND / self.hz as usize).max(1) } else { 0 };
        let in_turn: Vec<i32> =
            self.threads.range(self.next..).chain(self.threads.range(..self.next)).map(|(tid, _)| *tid).collect();
        for tid in in_turn {
            let Some(thread) = self.threads.get_mut(&tid) else { continue };
            let Some(cpu) = clock::read(clock::thread_clock(tid)) else { continue };
            thread.collect(cpu, &mut self.window, &mut self.snapshots);
            if thread.waits_on(cpu) {
                thread.wait_on(&mut self.window, cpu);
                continue;
            }
            if thread.is_read_asleep(cpu, &mut self.reader, self.snapshots.space(), &mut self.window) {
                continue;
            }
            if budget > 0 {
                budget -= 1;
                self.next = tid + 1;
                let Some(place) = thread.divide(cpu) else { continue };
                if thread.looked_at.elapsed() > LOOK_FOR_THREADS {
                    (thread.is_in_sandbox, thread.looked_at) = (self.sandbox.holds(tid), Instant::now());
                    thread.is_blocking = blocked::blocks_sigprof(tid) == Some(true);
                }
                if thread.is_in_sandbox {
                    continue;
                }
                // A signal that is not taken yet records where the thread was when it was sent.
                thread.signalled.get_or_insert((place, cpu));
                self.signals += u64::from(send(tid, thread.ticket));
            }
        }
    }

    fn let_go(&mut self, tid: i32) {
        let Some(mut thread) = self.threads.remove(&tid) else { return };
        let cpu = clock::read(clock::thread_clock(tid));
        thread.collect(cpu.unwrap_or(u64::MAX), &mut self.window, &mut self.snapshots);
        if let Some(cpu) = cpu {
            thread.divide(cpu);
        }
        for place in [Place::Computing, Place::Waiting] {
            thread.account(&mut self.window, place);
        }
        let wall = nanos_since(thread.since);
        thread.view.blocked = if thread.is_blocking { wall.saturating_sub(thread.view.cpu) } else { 0 };
        thread.view.cpu = wall;
        self.window.settle(&thread.view);
        thread.slot.revoke();
        if thread.slot.is_busy() {
            // A handler of a thread that has ended is nowhere; this one is a late visitor's, and the slot is given up.
            return;
        }
        self.stock.put(thread.slot);
    }

    fn end(mut self) -> Walls {
        self.window.shortfalls.threads_in_sandbox = self.threads.values().filter(|thread| thread.is_in_sandbox).count();
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.let_go(tid);
        }
        self.window.end();
        let window = std::mem::replace(&mut self.window, Window::open(std::iter::empty(), 0, 0));
        Walls { window, hz: self.hz, signals: self.signals, modules: Modules::of_this_process() }
    }
}

impl Drop for Watch {
    /// Makes all tickets void, so that late signals find nothing, and keeps the slots for the next capture.
    fn drop(&mut self) {
        self.threads.values().for_each(|thread| thread.slot.revoke());
        let mut pool = POOL.lock();
        self.stock.shrink();
        pool.1.extend(self.stock.slots());
        pool.1.extend(self.threads.values().map(|thread| thread.slot));
    }
}

impl Watched {
    /// Accounts for the handler's records since the last visit; `now` is the thread's CPU clock.
    fn collect(&mut self, now: u64, window: &mut Window, snapshots: &mut Snapshots) {
        let mut newest = None;
        self.slot.ring.drain(|record| newest = Some((record.words.to_vec(), record.end)));
        let lost = self.slot.ring.take_lost();
        window.shortfalls.lost += lost;
        let Some((words, end)) = newest else {
            // A signal that is blocked may never be taken. One that is on its way still records where the thread was
            // when it was sent.
            self.signalled = self.signalled.filter(|_| lost == 0 && !self.is_blocking);
            return;
        };
        let Some((place, cpu)) = self.signalled.take() else { return };
        snapshots.note(end);
        if let Some(name) = thread_name(self.view.tid) {
            self.view.name = name;
        }
        (self.seen, self.rests, self.is_blocking) = (Some((place, cpu)), false, false);
        // One that has gone on before it took the signal was elsewhere.
        if let Some((fingerprint, _)) =
            self.signalled_at.take().filter(|(_, signalled)| now.saturating_sub(*signalled) <= OWN_COST)
        {
            if self.known.len() == MAX_KNOWN {
                self.known.remove(0);
            }
            self.known.push((fingerprint, words.clone(), end));
        }
        self.part(place).last = Some((words, end));
        self.account(window, place);
    }

    /// Whether the thread has computed too little since its last sample of computing to be signalled again: one that
    /// mostly sleeps is ready to run for a moment after it was woken, and a signal then may still end its call early.
    fn has_hardly_computed(&self, cpu: u64) -> bool {
        self.computing.owed + cpu.saturating_sub(self.divided.cpu) < LEAST_COMPUTING
    }

    /// Accounts for the stack of a thread that sleeps, without waking it, where possible; true also where it need not
    /// be signalled now.
    fn is_read_asleep(&mut self, cpu: u64, reader: &mut Reader, space: &Space, window: &mut Window) -> bool {
        if self.signalled.is_some() || label::are_used() {
            return false;
        }
        self.signalled_at = None;
        let tid = self.view.tid;
        let asleep = match Whereabouts::read(tid) {
            Whereabouts::Asleep(asleep) => asleep,
            Whereabouts::Running => return self.has_hardly_computed(cpu),
            Whereabouts::Unknown => return false,
        };
        let read = reader.read(asleep, space);
        // A thread that has run meanwhile may have changed what was read.
        let has_slept =
            clock::read(clock::thread_clock(tid)) == Some(cpu) && Whereabouts::read(tid) == Whereabouts::Asleep(asleep);
        let (words, end) = match read {
            _ if !has_slept => return self.has_hardly_computed(cpu),
            Read::Stack(words, end) => (words, end),
            Read::NotYet => {
                self.unready += 1;
                return self.unready <= PATIENCE;
            }
            Read::Unreadable(fingerprint) => match self.known.iter().find(|(known, ..)| *known == fingerprint) {
                Some((_, words, end)) => (words.clone(), *end),
                None => {
                    self.signalled_at = Some((fingerprint, cpu));
                    return false;
                }
            },
        };
        if self.divide(cpu).is_none() {
            return false;
        }
        (self.seen, self.rests, self.unready) = (Some((Place::Waiting, cpu)), true, 0);
        self.waiting.last = Some((words, end));
        self.account(window, Place::Waiting);
        true
    }

    fn part(&mut self, place: Place) -> &mut Part {
        match place {
            Place::Computing => &mut self.computing,
            Place::Waiting => &mut self.waiting,
        }
    }

    /// Divides the time since it was last divided; where the thread is now, or `None` if it has ended.
    fn divide(&mut self, cpu: u64) -> Option<Place> {
        let (now, place) = Clocks::read(self.view.tid, nanos_since(self.since), cpu)?;
        let (computing, waiting) = now.since(&self.divided, &mut self.late);
        self.computing.owed += computing;
        self.waiting.owed += waiting;
        self.divided = now;
        Some(place)
    }

    /// Gives the time owed to the last stack of that kind, if there is one.
    fn account(&mut self, window: &mut Window, place: Place) {
        let upto = self.view.cpu + self.part(place).owed;
        let Some((words, end)) = self.part(place).last.take() else { return };
        self.view.cpu = upto;
        window.sample(&self.view, &Record { cpu: upto, end, origin: Origin::Tick, words: &words });
        *self.part(place) = Part { owed: 0, last: Some((words, end)) };
    }

    /// Whether the thread waits where it was last seen, by its CPU clock; the first look after a sample allows for the
    /// handler itself.
    fn waits_on(&mut self, cpu: u64) -> bool {
        let Some((Place::Waiting, seen)) = self.seen.filter(|_| self.signalled.is_none()) else { return false };
        let allowed = if self.rests { 0 } else { OWN_COST };
        let is_still = cpu.saturating_sub(seen) <= allowed;
        if is_still {
            (self.seen, self.rests) = (Some((Place::Waiting, cpu)), true);
        }
        is_still
    }

    /// Gives the time until now to the stack the thread waits with.
    fn wait_on(&mut self, window: &mut Window, cpu: u64) {
        let wall = nanos_since(self.since);
        self.waiting.owed += wall.saturating_sub(self.divided.wall);
        (self.divided.wall, self.divided.cpu) = (wall, cpu);
        self.account(window, Place::Waiting);
    }
}

fn nanos_since(moment: Instant) -> u64 {
    u64::try_from(moment.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
