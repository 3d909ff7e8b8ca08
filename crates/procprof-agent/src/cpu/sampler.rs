//! A running sampler: the threads it follows, their timers, and the open windows their samples go to.
//!
//! Everything happens in [`Sampler::tick`], which the engine calls ten times a second (more often at high rates) and once more before a window is opened or
//! closed: find threads, arm timers, read clocks, drain rings. Nothing here runs in a signal handler.

use super::births::Births;
use super::options::CpuEngine;
use super::perf::{self, Scope};
use super::slot::Slot;
use super::snapshots::Snapshots;
use super::source::{Arming, Source};
use super::window::{ThreadView, Window};
use crate::clock;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::DirEntry;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Where threads live shortly, the samples of a new one are so many times closer, but not closer than so many nanoseconds.
const CLOSER: u64 = 16;
const CLOSEST: u64 = 500_000;

/// A followed thread.
#[derive(Debug)]
struct Thread {
    view: ThreadView,
    /// Since when it is followed.
    since: Instant,
    /// `None` where the kernel or the table had no room; then its time is unsampled.
    sampled: Option<(&'static Slot, Source)>,
}

/// The one sampler of this process while captures run.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub(crate) hz: u32,
    pub(crate) engine: CpuEngine,
    /// What the kernel permits of perf events, and why not all.
    counters: Option<Scope>,
    refusal: Option<String>,
    /// The kernel's timer tick, nanoseconds: timers expire on it, whatever rate was asked for.
    pub(crate) tick: u64,
    pub(crate) windows: BTreeMap<u64, Window>,
    threads: HashMap<i32, Thread>,
    free: Vec<&'static Slot>,
    resting: Vec<&'static Slot>,
    snapshots: Snapshots,
    /// Whether threads live too shortly to be seen.
    pub(crate) births: Births,
    next_key: u64,
    random: RandomState,
}

impl Sampler {
    /// A sampler without windows; follows no thread before the first tick.
    pub(crate) fn new(hz: u32, engine: CpuEngine, free: Vec<&'static Slot>) -> Self {
        Self {
            hz,
            engine,
            counters: (engine != CpuEngine::Tick).then_some(Scope::All),
            refusal: None,
            tick: clock::tick(),
            windows: BTreeMap::new(),
            threads: HashMap::new(),
            free,
            resting: Vec::new(),
            snapshots: Snapshots::default(),
            births: Births::default(),
            next_key: 0,
            random: RandomState::new(),
        }
    }

    /// CPU time between two samples of a thread, as asked for; nanoseconds.
    pub(crate) fn period(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }

    /// Opens a window that begins now.
    ///
    /// # Errors
    /// When the threads can't be listed: whatever they used before would then be taken for time of the window.
    pub(crate) fn open(&mut self, id: u64) -> io::Result<()> {
        let alive = thread_ids()?;
        self.tick_over(&alive);
        self.open_at_last_tick(id);
        Ok(())
    }

    fn open_at_last_tick(&mut self, id: u64) {
        let cap = 2 * self.period().max(self.tick);
        let window = Window::open(self.threads.values().map(|thread| &thread.view), clock::process_cpu(), cap);
        self.windows.insert(id, window);
    }

    /// Ends a window now: all live threads settled, and the process's CPU clock as it stood just before.
    pub(crate) fn end(&mut self, id: u64) -> Option<(Window, u64)> {
        let process_cpu = self.tick();
        let mut window = self.windows.remove(&id)?;
        for thread in self.threads.values() {
            window.settle(&thread.view);
        }
        window.shortfalls.threads_without_timer = self.threads.values().filter(|thread| thread.sampled.is_none()).count() as u64;
        Some((window, process_cpu))
    }

    /// Ends a window and opens it anew at the same moment.
    pub(crate) fn cut(&mut self, id: u64) -> Option<(Window, u64)> {
        let ended = self.end(id);
        self.open_at_last_tick(id);
        ended
    }

    /// Finds threads, reads clocks, drains rings; returns the process's CPU clock from before the threads' clocks were read.
    pub(crate) fn tick(&mut self) -> u64 {
        // Where `/proc` can't be read for a moment, nobody is taken for dead.
        let alive = thread_ids().unwrap_or_else(|_| self.threads.keys().copied().collect());
        self.tick_over(&alive)
    }

    fn tick_over(&mut self, alive: &HashSet<i32>) -> u64 {
        self.reclaim();
        let (process_cpu, before) = (clock::process_cpu(), self.cpu());
        self.follow(alive);
        let mut ended = Vec::new();
        let now = Instant::now();
        for (tid, thread) in &mut self.threads {
            // A clock that runs backwards is another thread's, born with the id of one that ended.
            let same = |cpu: &u64| alive.contains(tid) && *cpu >= thread.view.cpu;
            let reading = clock::read(clock::thread_clock(*tid)).filter(same);
            drain(thread, &mut self.windows, &mut self.snapshots);
            match reading {
                Some(cpu) => {
                    thread.view.cpu = thread.view.cpu.max(cpu);
                    if let Some((_, source)) = &mut thread.sampled {
                        source.grow(thread.view.cpu);
                        if self.engine == CpuEngine::Auto {
                            source.decide(thread.view.cpu, self.tick, now);
                        }
                    }
                }
                None => ended.push(*tid),
            }
        }
        self.births.tick(now, process_cpu, self.cpu() - before);
        for tid in ended {
            self.unfollow(tid);
        }
        process_cpu
    }

    /// CPU time of all threads that are followed, nanoseconds.
    fn cpu(&self) -> u64 {
        self.threads.values().map(|thread| thread.view.cpu).sum()
    }

    /// Begins to follow threads not seen before. The snapshot of memory is renewed first, so that it holds their stacks.
    fn follow(&mut self, alive: &HashSet<i32>) {
        let new: Vec<i32> = alive.iter().copied().filter(|tid| !self.threads.contains_key(tid)).collect();
        self.snapshots.keep_own();
        self.snapshots.keep(!new.is_empty());
        for tid in new {
            let Some(cpu) = clock::read(clock::thread_clock(tid)) else { continue };
            let view =
                ThreadView { key: self.next_key, tid, name: thread_name(tid).unwrap_or_else(|| format!("thread {tid}").into()), cpu };
            self.next_key += 1;
            let sampled = self.arm(tid, cpu);
            self.threads.insert(tid, Thread { view, since: Instant::now(), sampled });
        }
    }

    /// Arms a thread, the first time after a random part of the period, which itself varies by a tenth, so that threads do not run in step with
    /// each other or with what the program does periodically.
    fn arm(&mut self, tid: i32, cpu: u64) -> Option<(&'static Slot, Source)> {
        let slot = self.free.pop().or_else(Slot::create)?;
        let random = self.random.hash_one((tid, self.next_key));
        let period = self.period() / 10 * 9 + random % (self.period() / 5).max(1);
        let first = 1 + (random >> 32) % period;
        let is_young = cpu < period && self.births.are_short(Instant::now());
        let most = (period / CLOSEST).clamp(1, CLOSER);
        let closer = if is_young { 1 << most.ilog2() } else { 1 };
        let arming = Arming { tid, ticket: slot.assign(tid), first, period, closer, counters: self.counters };
        match self.source(arming, cpu) {
            Ok(source) => Some((slot, source)),
            Err(_) => {
                slot.revoke();
                self.free.push(slot);
                None
            }
        }
    }

    /// Arms with what the kernel permits: a refusal is remembered for all threads, after asking for less.
    fn source(&mut self, mut arming: Arming, cpu: u64) -> io::Result<Source> {
        loop {
            arming.counters = self.counters;
            let (source, missing) = Source::arm(self.engine, arming, cpu)?;
            match missing {
                None => return Ok(source),
                Some(error) => {
                    let refused = perf::is_refusal(&error);
                    self.refusal.get_or_insert_with(|| perf::refusal(&error));
                    if !refused {
                        return Ok(source);
                    }
                    self.counters = if self.counters == Some(Scope::All) { Some(Scope::User) } else { None };
                }
            }
        }
    }

    /// What perf events were permitted, for people.
    pub(crate) fn perf_status(&self) -> String {
        let why = || self.refusal.clone().unwrap_or_default();
        match (self.engine, self.counters) {
            (CpuEngine::Tick, _) => "not asked for".into(),
            (_, Some(Scope::All)) if self.refusal.is_none() => "permitted".into(),
            (_, Some(Scope::All)) => format!("not for all threads: {}", why()),
            (_, Some(Scope::User)) => format!("without time in the kernel: {}", why()),
            (_, None) => format!("refused: {}", why()),
        }
    }

    fn unfollow(&mut self, tid: i32) {
        let Some(thread) = self.threads.remove(&tid) else { return };
        self.births.ended(thread.since, Instant::now(), thread.view.cpu);
        for window in self.windows.values_mut() {
            window.settle(&thread.view);
        }
        if let Some((slot, source)) = thread.sampled {
            drop(source);
            slot.revoke();
            self.resting.push(slot);
        }
    }

    /// Takes back slots that no handler is in, and frees snapshots once no handler is anywhere.
    fn reclaim(&mut self) {
        let (resting, idle): (Vec<_>, Vec<_>) = std::mem::take(&mut self.resting).into_iter().partition(|slot| slot.is_busy());
        self.resting = resting;
        for slot in idle {
            slot.empty();
            self.free.push(slot);
        }
        self.snapshots.reclaim();
    }

    /// Removes all timers. Slots with a late handler in them and the snapshots it may read are given up, not freed.
    pub(crate) fn stop(&mut self) -> Vec<&'static Slot> {
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.unfollow(tid);
        }
        self.reclaim();
        std::mem::take(&mut self.free)
    }
}

/// Moves a thread's waiting samples into all windows.
fn drain(thread: &mut Thread, windows: &mut BTreeMap<u64, Window>, snapshots: &mut Snapshots) {
    let Some((slot, source)) = &mut thread.sampled else { return };
    let mut renamed = false;
    slot.ring.drain(|record| {
        if !std::mem::replace(&mut renamed, true) {
            // Names are often given after birth; a thread that has ended meanwhile keeps the name it had.
            thread.view.name = thread_name(thread.view.tid).unwrap_or_else(|| thread.view.name.clone());
        }
        source.seen(record.origin);
        thread.view.cpu = thread.view.cpu.max(record.cpu);
        snapshots.note(record.end);
        for window in windows.values_mut() {
            window.sample(&thread.view, &record);
        }
    });
    let lost = slot.ring.take_lost();
    for window in windows.values_mut() {
        window.shortfalls.lost += lost;
    }
}

/// The ids of this process's threads now.
pub(super) fn thread_ids() -> io::Result<HashSet<i32>> {
    let number = |entry: DirEntry| -> Option<i32> { entry.file_name().to_str()?.parse().ok() };
    let mut ids = HashSet::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        ids.extend(number(entry?));
    }
    Ok(ids)
}

/// A thread's name; `None` when it has ended.
pub(super) fn thread_name(tid: i32) -> Option<Arc<str>> {
    let name = std::fs::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into())
}
