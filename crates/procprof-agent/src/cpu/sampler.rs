//! A running sampler: the threads it follows, their timers, and the open windows their samples go to.
//!
//! Everything happens in [`Sampler::tick`], which the engine calls ten times a second (more often at high rates) and
//! once more before a window is opened or closed: find threads, arm timers, read clocks, drain rings. Nothing here runs
//! in a signal handler.

mod meet;
mod thread;

pub(super) use thread::{Thread, thread_name};

use super::birth;
use super::births::Births;
use super::blocked::{self, Silence};
use super::newborns::Newborns;
use super::perf::{self, Scope};
use super::sandbox::Sandbox;
use super::sigprof;
use super::slot::Slot;
use super::snapshots::Snapshots;
use super::source::{Arming, Source};
use super::stock::Stock;
use super::window::{ThreadView, Window};
use crate::clock;
use crate::options::CpuEngine;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::DirEntry;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Instant;
use thread::drain;

/// Where threads live shortly, the samples of a new one are this many times closer, but not closer than this many
/// nanoseconds.
const CLOSER: u64 = 16;
const CLOSEST: u64 = 500_000;

/// Threads of which it is looked at each tick whether they have gone into a sandbox; all others have their turn later.
const SANDBOX_LOOKS: usize = 8;

/// The one sampler of this process while captures run.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub(crate) hz: u32,
    pub(crate) engine: CpuEngine,
    /// The permitted extent of perf events, and the reason for a limit.
    counters: Option<Scope>,
    refusal: Option<String>,
    /// The kernel's timer tick, nanoseconds: timers expire on it, at any requested rate.
    pub(crate) tick: u64,
    pub(crate) windows: BTreeMap<u64, Window>,
    threads: HashMap<i32, Thread>,
    stock: Stock,
    resting: Vec<&'static Slot>,
    sandbox: Sandbox,
    /// The last thread that was looked at for it.
    looked_at: i32,
    snapshots: Snapshots,
    /// Whether no thread is armed: the handler is not installed any more, or the process is about to become another
    /// program.
    is_disarmed: bool,
    pub(crate) newborns: Newborns,
    /// Whether threads live too shortly to be seen.
    pub(crate) births: Births,
    /// CPU time of threads that ended without a sample, at the last look; nanoseconds.
    silent: u64,
    /// The process's CPU clock then.
    process_cpu: u64,
    next_key: u64,
    random: RandomState,
}

impl Sampler {
    /// A sampler without windows; follows no thread before the first tick.
    pub(crate) fn new(hz: u32, engine: CpuEngine, stock: Stock) -> Self {
        let tick = clock::tick();
        Self {
            hz,
            engine,
            counters: (engine != CpuEngine::Tick).then_some(Scope::All),
            refusal: None,
            tick,
            windows: BTreeMap::new(),
            threads: HashMap::new(),
            stock,
            resting: Vec::new(),
            sandbox: Sandbox::of_this_thread(),
            looked_at: 0,
            snapshots: Snapshots::default(),
            is_disarmed: false,
            newborns: Newborns::new(1_000_000_000 / u64::from(hz), tick),
            births: Births::default(),
            silent: birth::silent(),
            process_cpu: clock::process_cpu(),
            next_key: 0,
            random: RandomState::new(),
        }
    }

    /// Requested CPU time between two samples of a thread, nanoseconds.
    pub(crate) fn period(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }

    /// Opens a window that begins now.
    ///
    /// # Errors
    /// When the threads can't be listed: whatever they used before would then be taken for time of the window.
    pub(crate) fn open(&mut self, id: u64) -> io::Result<()> {
        let alive = thread_ids()?;
        self.tick_over(&alive, true);
        self.open_at_last_tick(id);
        Ok(())
    }

    fn open_at_last_tick(&mut self, id: u64) {
        let cap = 2 * self.period().max(self.tick);
        let mut window = Window::open(self.threads.values().map(|thread| &thread.view), clock::process_cpu(), cap);
        window.silent.start = self.newborns.silent();
        self.windows.insert(id, window);
    }

    /// Ends a window now: settles all live threads, and returns the process's CPU clock of the moment before.
    pub(crate) fn end(&mut self, id: u64) -> Option<(Window, u64)> {
        let process_cpu = self.look(true);
        let mut window = self.windows.remove(&id)?;
        for thread in self.threads.values() {
            thread.settle(&mut window);
        }
        window.silent.end = self.newborns.silent();
        let bare = self.threads.values().filter(|thread| thread.sampled.is_none());
        let (in_sandbox, without_timer): (Vec<_>, Vec<_>) = bare.partition(|thread| thread.is_in_sandbox);
        window.shortfalls.threads_without_timer = without_timer.len() as u64;
        window.shortfalls.threads_in_sandbox = in_sandbox.len();
        window.end();
        Some((window, process_cpu))
    }

    /// Ends a window and opens it anew at the same moment.
    pub(crate) fn cut(&mut self, id: u64) -> Option<(Window, u64)> {
        let ended = self.end(id);
        self.open_at_last_tick(id);
        ended
    }

    /// Finds threads, reads clocks, drains rings.
    pub(crate) fn tick(&mut self) {
        self.look(false);
    }

    /// Likewise, at all threads where they are to be settled; returns the process's CPU clock from before the threads'
    /// clocks were read.
    fn look(&mut self, all: bool) -> u64 {
        // Where `/proc` can't be read for a moment, no thread counts as ended.
        let alive = thread_ids().unwrap_or_else(|_| self.threads.keys().copied().collect());
        self.tick_over(&alive, all)
    }

    fn tick_over(&mut self, alive: &HashSet<i32>, all: bool) -> u64 {
        self.look_after_the_handler();
        self.reclaim();
        let process_cpu = clock::process_cpu();
        let (unseen, before) = (self.meet_newborns(all), self.cpu());
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
        let used = process_cpu - std::mem::replace(&mut self.process_cpu, process_cpu).min(process_cpu);
        // Where threads arm themselves, what they have used is known when they have ended.
        let known = if self.newborns.are_met() { used.saturating_sub(unseen) } else { self.cpu() - before };
        self.births.tick(now, process_cpu, known);
        self.look_for_sandboxes();
        let period = self.period();
        blocked::look(&mut self.threads, period);
        for tid in ended {
            self.unfollow(tid);
        }
        if self.is_disarmed || self.threads.values().any(|thread| thread.is_in_sandbox) {
            self.newborns.close(&mut self.stock);
        } else {
            self.newborns.supply(&mut self.stock);
        }
        process_cpu
    }

    /// Takes a slot from its thread, for whose ticket no signal comes any more.
    fn take_back(&mut self, slot: &'static Slot) {
        slot.revoke();
        // Where its thread takes too long, it is given up.
        if slot.life.end() {
            self.resting.push(slot);
        }
    }

    /// Disarms threads that have gone into a sandbox, and arms those again that were not let in; some are looked at.
    fn look_for_sandboxes(&mut self) {
        let (mut later, mut earlier): (Vec<i32>, Vec<i32>) =
            self.threads.keys().partition(|tid| **tid > self.looked_at);
        later.sort_unstable();
        earlier.sort_unstable();
        for tid in later.into_iter().chain(earlier).take(SANDBOX_LOOKS) {
            self.looked_at = tid;
            let is_in_sandbox = self.sandbox.holds(tid);
            let Some(thread) = self.threads.get_mut(&tid).filter(|thread| thread.is_in_sandbox != is_in_sandbox) else {
                continue;
            };
            if is_in_sandbox {
                self.spare(tid);
                continue;
            }
            // It was loading a filter, and the kernel has refused that.
            thread.is_in_sandbox = false;
            let cpu = thread.view.cpu;
            let sampled = self.arm(tid, cpu, 1);
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.sampled = sampled;
            }
        }
    }

    /// Disarms a thread that must not be signalled.
    pub(crate) fn spare(&mut self, tid: i32) {
        self.meet_newborns(true);
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.is_in_sandbox = true;
        drain(thread, &mut self.windows, &mut self.snapshots);
        if let Some((slot, source)) = thread.sampled.take() {
            drop(source);
            self.take_back(slot);
        }
    }

    /// Sends no signals to a handler that is not ours, for as long as it is there.
    fn look_after_the_handler(&mut self) {
        let is_ours = sigprof::is_ours();
        if !is_ours {
            self.windows.values_mut().for_each(|window| window.shortfalls.looks_without_handler += 1);
        }
        match is_ours && !sigprof::is_leaving() {
            true if self.is_disarmed => self.arm_again(),
            false if !self.is_disarmed => self.disarm(),
            _ => {}
        }
    }

    /// Removes the timers and counters of all threads; what they use from now on is unsampled.
    pub(crate) fn disarm(&mut self) {
        self.is_disarmed = true;
        self.newborns.close(&mut self.stock);
        self.meet_newborns(true);
        let mut slots = Vec::new();
        for thread in self.threads.values_mut() {
            drain(thread, &mut self.windows, &mut self.snapshots);
            slots.extend(thread.sampled.take().map(|(slot, _)| slot));
        }
        slots.into_iter().for_each(|slot| self.take_back(slot));
    }

    fn arm_again(&mut self) {
        self.is_disarmed = false;
        let is_bare = |thread: &Thread| thread.sampled.is_none() && !thread.is_in_sandbox;
        let bare: Vec<(i32, u64)> = self
            .threads
            .iter()
            .filter(|(_, thread)| is_bare(thread))
            .map(|(tid, thread)| (*tid, thread.view.cpu))
            .collect();
        for (position, (tid, cpu)) in bare.iter().enumerate() {
            let sampled = self.arm(*tid, *cpu, bare.len() - position);
            if let Some(thread) = self.threads.get_mut(tid) {
                thread.sampled = sampled;
            }
        }
    }

    /// CPU time of all threads that are followed, nanoseconds.
    fn cpu(&self) -> u64 {
        self.threads.values().map(|thread| thread.view.cpu).sum()
    }

    /// Begins to follow threads not seen before. The snapshot of memory is renewed first, so that it holds their
    /// stacks.
    fn follow(&mut self, alive: &HashSet<i32>) {
        let new: Vec<i32> = alive
            .iter()
            .copied()
            .filter(|tid| !self.threads.contains_key(tid) && !self.newborns.is_unmet(*tid))
            .collect();
        self.snapshots.keep_own();
        self.snapshots.keep(!new.is_empty());
        let mut wanted = new.len();
        for tid in new {
            let Some(cpu) = clock::read(clock::thread_clock(tid)) else { continue };
            let view = self.view(tid, thread_name(tid).unwrap_or_else(|| format!("thread {tid}").into()), cpu);
            let is_in_sandbox = self.sandbox.holds(tid);
            let sampled = if is_in_sandbox { None } else { self.arm(tid, cpu, wanted) };
            wanted -= 1;
            self.threads.insert(
                tid,
                Thread { view, since: Instant::now(), sampled, silence: Silence::from(cpu), is_in_sandbox },
            );
        }
    }

    /// A thread that is followed from now on.
    fn view(&mut self, tid: i32, name: Arc<str>, cpu: u64) -> ThreadView {
        self.next_key += 1;
        ThreadView { key: self.next_key, tid, name, cpu, blocked: 0, is_born: false }
    }

    /// Arms a thread, the first time after a random part of the period, which itself varies by a tenth, so that threads
    /// do not run in step with each other or with periodic work of the program. Where a slot is missing, memory is
    /// mapped for `wanted` threads.
    fn arm(&mut self, tid: i32, cpu: u64, wanted: usize) -> Option<(&'static Slot, Source)> {
        if self.is_disarmed {
            return None;
        }
        let slot = self.stock.take(wanted)?;
        let random = self.random.hash_one((tid, self.next_key));
        let period = self.period() / 10 * 9 + random % (self.period() / 5).max(1);
        let first = 1 + (random >> 32) % period;
        let is_young = cpu < period && self.births.are_short(Instant::now());
        let most = (period / CLOSEST).clamp(1, CLOSER);
        let closer = if is_young { 1 << most.ilog2() } else { 1 };
        let interval = self.newborns.interval();
        let arming = Arming { tid, ticket: slot.assign(tid), first, period, closer, interval, counters: self.counters };
        match self.source(arming, |engine, arming| Source::arm(engine, arming, cpu)) {
            Ok(source) => Some((slot, source)),
            Err(_) => {
                self.take_back(slot);
                None
            }
        }
    }

    /// Arms with the engine that the kernel permits: a refusal is kept for all threads, after a lesser request was
    /// tried.
    fn source(
        &mut self,
        mut arming: Arming,
        arm: impl Fn(CpuEngine, Arming) -> io::Result<(Source, Option<io::Error>)>,
    ) -> io::Result<Source> {
        loop {
            arming.counters = self.counters;
            let (source, missing) = arm(self.engine, arming)?;
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

    /// The permitted extent of perf events, as a text.
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
        let Some(mut thread) = self.threads.remove(&tid) else { return };
        thread.take_leave(&mut self.windows, &mut self.snapshots);
        self.births.ended(thread.since, Instant::now(), thread.view.cpu);
        for window in self.windows.values_mut() {
            thread.settle(window);
        }
        if let Some((slot, source)) = thread.sampled {
            drop(source);
            self.take_back(slot);
        }
    }

    /// Takes back slots that no handler is in, and frees snapshots once no handler is anywhere.
    fn reclaim(&mut self) {
        let (resting, idle): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.resting).into_iter().partition(|slot| slot.is_busy());
        self.resting = resting;
        for slot in idle {
            slot.empty();
            self.stock.put(slot);
        }
        self.snapshots.reclaim();
    }

    /// Removes all timers, and gives memory back. Slots with a late handler in them and the snapshots it may read are
    /// given up, not freed.
    pub(crate) fn stop(&mut self) -> Stock {
        self.newborns.close(&mut self.stock);
        self.meet_newborns(true);
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.unfollow(tid);
        }
        self.reclaim();
        self.stock.shrink();
        std::mem::take(&mut self.stock)
    }
}

/// The ids of this process's threads now.
pub(super) fn thread_ids() -> io::Result<HashSet<i32>> {
    let number = |entry: DirEntry| -> Option<i32> { entry.file_name().to_str()?.parse().ok() };
    let mut ids = HashSet::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        ids.extend(number(entry?));
    }
    // SAFETY: takes no argument and can't fail; libc's own function is missing before glibc 2.30.
    let own = unsafe { libc::syscall(libc::SYS_gettid) as i32 };
    if ids.contains(&own) {
        return Ok(ids);
    }
    Err(io::Error::other(
        "the /proc that is mounted here belongs to another pid namespace, whose thread ids are not this process's; \
         mount its own",
    ))
}
