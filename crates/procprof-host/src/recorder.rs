//! Recording: opening the events, reading their buffers in the order of time, and the profile at the end.

mod changes;
mod cut;
mod drain;
mod measured;
mod used;

use std::io;
use std::time::{Duration, Instant, SystemTime};

use foldhash::{HashMap, HashSet};
use procprof_process::{Pid, Process};
use procprof_profile::Profile;
use procprof_profile::perf_event::{self, Layout, Record, Sample, Switch};
use procprof_symbolize::ProvenFile;
use procprof_unwind::Architecture;

use crate::bpf::{BpfError, KernelWaits};
use crate::descendants::descendants;
use crate::error::{Error, Result};
use crate::kernel::{Backlog, Event, Ring, Sampling, Subject, Trigger, wait};
use crate::measure::{Engine, Measure};
use crate::own_names::{PerfMaps, UnnamedCode, generated_code, generated_names};
use crate::permission::{check_rate, is_about_permission, refusal};
use crate::profile::{Facts, profile};
use crate::session::{Filter, Session, Statistics};

/// Bytes of a buffer, and the least that is tried where locked memory is short.
const RING_BYTES: usize = 4 << 20;
const RING_BYTES_MIN: usize = 256 << 10;

/// The largest copy of a stack: the kernel's limit of a record, 64 KiB, less what else is in it.
const STACK_BYTES_MAX: u32 = 63 << 10;

/// Copies of stacks of waits: every switch has one where there are not many.
const WAIT_STACK_BYTES: u32 = 32 << 10;

/// Stacks of waits sampled in a second for each CPU, if nothing else is asked for.
const WAITS_HZ_BY_PERF: u32 = 500;
const WAITS_HZ_BY_BPF: u32 = 100;

/// Switches between two samples of waits: whichever of them keeps the rate below its limit.
const SWITCH_PERIODS: [u64; 3] = [1, 16, 256];
/// The one to begin with, before the rate is known.
const FIRST_PERIOD: usize = 1;
/// How often the rate is looked at.
const RATE_WINDOW: Duration = Duration::from_millis(20);

/// Interval of reading buffers while the memory of processes is read: the sooner, the less has changed. A recording of
/// the whole host, which may run all the time, wakes up no more often for it.
const READ_INTERVAL: Duration = Duration::from_millis(2);

/// Rounds of looking for threads; each sees those that began during the former one.
const THREAD_ROUNDS: usize = 16;

use self::changes::Changes;
pub use self::cut::{Cut, ProcessShare};
use self::drain::Drain;

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// These processes, and what they start meanwhile.
    Processes(Vec<u32>),
    /// All processes of the host.
    Host,
    /// What the calling thread starts after [`Recorder::attach`], from its execution of a program on; the recorder is to
    /// be told of it by [`Recorder::started`].
    FutureChildren,
}

/// How it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is recorded.
    pub measure: Measure,
    /// What measures waits.
    pub engine: Engine,
    /// Samples for each second of CPU time.
    pub hz: u32,
    /// Most stacks of waits sampled in a second for each CPU; if `None`, 100 by BPF programs, which choose by time, and
    /// 500 by perf events. The times of waits do not depend on it.
    pub waits_hz: Option<u32>,
    /// Shorter waits are counted together, without stacks.
    pub min_wait: Duration,
    /// Bytes of stack copied with each sample, at most 64,512; by the number of CPUs if `None`.
    pub stack_bytes: Option<u32>,
    /// Largest buffer, in bytes, a power of two; smaller ones are tried where locked memory is short.
    pub buffer_bytes: usize,
    /// Whether samples have labels with the thread's name and id.
    pub threads: bool,
    /// Whether the processes that those of [`Target::Processes`] have started before are recorded, too.
    pub children: bool,
    /// The processes whose samples are kept.
    pub filter: Filter,
    /// Most CPU time for opening the files of a process and making their unwind tables, between two cuts; unlimited if
    /// `None`. Later samples of the process have no user code until the next cut.
    pub process_cpu_max: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            measure: Measure::Cpu,
            engine: Engine::Auto,
            hz: 99,
            waits_hz: None,
            min_wait: Duration::ZERO,
            stack_bytes: None,
            buffer_bytes: RING_BYTES,
            threads: false,
            children: false,
            filter: Filter::default(),
            process_cpu_max: None,
        }
    }
}

/// A recording that runs.
#[derive(Debug)]
pub struct Recorder {
    rings: Vec<(Event, Ring)>,
    /// Empties the buffers while this thread is busy, of a recording of the whole host.
    drain: Option<Drain>,
    /// The places in `rings` by CPU, and whether the buffer is one for samples alone.
    ring_places: HashMap<(u32, bool), usize>,
    /// Events that write to the buffers of `rings`, kept open.
    others: Vec<Event>,
    /// What events are of, by their ids.
    events: HashMap<u64, Purpose>,
    threads: HashSet<u32>,
    /// The processes with events of their own.
    processes: Vec<Process>,
    layout: Layout,
    samplings: Vec<Sampling>,
    rate: SwitchRate,
    /// What measures waits, if these are programs in the kernel.
    programs: Option<KernelWaits>,
    /// Why they are not.
    without_programs: Option<BpfError>,
    /// Changes of processes, of a recording of the whole host.
    changes: Changes,
    session: Session,
    target: Target,
    options: Options,
    started: SystemTime,
    /// By the events' clock.
    begun: u64,
    /// Lost records that the buffers have told of, and those that were in former cuts.
    lost_told: u64,
    lost_before: u64,
}

/// What an event is of.
#[derive(Clone, Copy, Debug)]
struct Purpose {
    trigger: Trigger,
    period: u64,
    /// The thread it was opened for, if for one.
    thread: Option<u32>,
    /// The process that is recorded with it, if that is one.
    pid: Option<u32>,
    /// Nanoseconds that its samples of CPU time stand for since the last cut, and those it has counted until then.
    sampled: u64,
    counted: u64,
}

impl Purpose {
    fn new(sampling: &Sampling, thread: Option<u32>, pid: Option<u32>) -> Self {
        Self { trigger: sampling.trigger, period: sampling.period, thread, pid, sampled: 0, counted: 0 }
    }
}

/// How often switches are sampled.
#[derive(Clone, Copy, Debug)]
struct SwitchRate {
    /// The place in `SWITCH_PERIODS`.
    period: usize,
    since: Instant,
    /// Samples of switches until then.
    samples: u64,
}

/// A recording that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recording {
    /// The profile: addresses of calls, with names of code generated at run time alone.
    pub profile: Profile,
    /// What has happened to the samples.
    pub statistics: Statistics,
    /// Generated code that has no names beyond a limit.
    pub unnamed: Vec<UnnamedCode>,
    /// The recorded files, for naming addresses.
    pub files: Vec<ProvenFile>,
}

impl Recorder {
    /// Begins to record.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`], [`Error::NotPermitted`] with what would permit it, [`Error::RateTooHigh`],
    /// [`Error::TooManyEvents`], [`Error::Buffer`], [`Error::Unsupported`].
    pub fn attach(target: Target, options: &Options) -> Result<Self> {
        let unsupported = || Error::Unsupported { source: io::ErrorKind::Unsupported.into() };
        let architecture = Architecture::native().ok_or_else(unsupported)?;
        check_rate(options.hz)?;
        let cpus = online_cpus()?;
        let most = if options.measure == Measure::Cpu { STACK_BYTES_MAX } else { WAIT_STACK_BYTES };
        let stack_bytes = options.stack_bytes.unwrap_or_else(|| stack_bytes_for(cpus.len()).min(most));
        let sampling = |trigger, period| Sampling {
            trigger,
            period,
            tells_tasks: false,
            tells_switches: false,
            is_initial: true,
            stack_bytes: stack_bytes.min(STACK_BYTES_MAX) / 8 * 8,
            has_raw: false,
            kernel: true,
            wakeup_bytes: 0,
        };
        let period = 1_000_000_000 / u64::from(options.hz.max(1));
        let cpu_time = sampling(Trigger::CpuTime, period);
        let all_switches = Sampling { tells_tasks: true, tells_switches: true, ..sampling(Trigger::Nothing, 0) };
        let switches = SWITCH_PERIODS.iter().enumerate().map(|(place, period)| Sampling {
            is_initial: place == FIRST_PERIOD,
            ..sampling(Trigger::Switch, *period)
        });
        let samplings: Vec<Sampling> = match options.measure {
            Measure::Cpu => vec![Sampling { tells_tasks: true, ..cpu_time }],
            Measure::OffCpu => std::iter::once(all_switches).chain(switches).collect(),
            Measure::Wall => [all_switches, cpu_time].into_iter().chain(switches).collect(),
        };
        allow_many_files();
        let ring_bytes = options.buffer_bytes.next_power_of_two().max(RING_BYTES_MIN);
        let mut opening = Opening { cpus, ring_bytes, backlog: Backlog::default() };
        let started = SystemTime::now();
        let mut recorder = Self {
            rings: Vec::new(),
            drain: None,
            ring_places: HashMap::default(),
            others: Vec::new(),
            events: HashMap::default(),
            threads: HashSet::default(),
            processes: Vec::new(),
            layout: cpu_time.layout(),
            samplings,
            rate: SwitchRate { period: FIRST_PERIOD, since: Instant::now(), samples: 0 },
            programs: None,
            without_programs: None,
            changes: Changes::default(),
            session: Session::new(architecture, options.threads, options.filter.clone()),
            target,
            options: options.clone(),
            started,
            begun: now(),
            lost_told: 0,
            lost_before: 0,
        };
        if options.measure != Measure::Cpu {
            recorder.session.tell_states();
            recorder.measure_waits(&mut opening)?;
        }
        if let Err(error) = recorder.open(&mut opening) {
            // Users without privileges may still record what happens outside the kernel.
            let is_refused = matches!(&error, Error::NotPermitted { source, .. } if is_about_permission(source));
            if !is_refused {
                return Err(error);
            }
            recorder.samplings.iter_mut().for_each(|sampling| sampling.kernel = false);
            recorder.forget_events();
            recorder.open(&mut opening).map_err(|_| error)?;
        }
        // Before that, programs are loaded and events are opened, which takes long beside other load.
        (recorder.started, recorder.begun, recorder.rate.since) = (SystemTime::now(), now(), Instant::now());
        recorder.enable()?;
        if recorder.target == Target::Host {
            if !options.threads && options.measure == Measure::Cpu {
                recorder.changes.ignore_threads();
                recorder.rings.iter_mut().for_each(|(_, ring)| ring.pass_over(recorder.changes.passed_over()));
            }
            let rings = recorder.rings.iter().map(|(_, ring)| ring.mapped()).collect();
            let start = |source| Error::System { what: "start a thread", source };
            recorder.drain = Some(Drain::start(rings).map_err(start)?);
        }
        if let Some(longest) = options.process_cpu_max {
            recorder.session.limit_preparation(longest);
        }
        recorder.read_running(recorder.begun);
        Ok(recorder)
    }

    fn forget_events(&mut self) {
        self.rings.clear();
        self.ring_places.clear();
        self.others.clear();
        self.threads.clear();
        self.processes.clear();
        self.events.clear();
    }

    fn open(&mut self, opening: &mut Opening) -> Result<()> {
        let (pids, is_host) = match &self.target {
            Target::Processes(pids) => (pids.clone(), false),
            Target::Host => (Vec::new(), true),
            Target::FutureChildren => (Vec::new(), false),
        };
        if self.target == Target::FutureChildren {
            return self.open_on_all(Subject::FutureChildren, None, opening);
        }
        if is_host {
            return self.open_on_all(Subject::All, None, opening);
        }
        if self.hears_all() {
            self.open_on_all(Subject::All, None, opening)?;
        }
        for pid in &pids {
            self.open_process(*pid, opening)?;
        }
        if self.options.children {
            for pid in descendants(&pids) {
                match self.open_process(pid, opening) {
                    Ok(()) | Err(Error::NoSuchProcess { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Opens events for all threads of a process. A thread that begins meanwhile is seen by an event inherited from
    /// the thread that started it, or else by a later round; where both happen, `is_duplicate` tells their samples
    /// apart.
    fn open_process(&mut self, pid: u32, opening: &mut Opening) -> Result<()> {
        let gone = |error: procprof_process::Error| {
            if error.is_gone() { Error::NoSuchProcess { pid } } else { Error::Process(error) }
        };
        let process = Process::open(Pid(pid)).map_err(gone)?;
        if self.hears_all() {
            self.processes.push(process);
            return Ok(());
        }
        for round in 0..THREAD_ROUNDS {
            let threads = process.threads().map_err(gone)?;
            let new: Vec<u32> =
                threads.iter().map(|thread| thread.tid.0).filter(|tid| !self.threads.contains(tid)).collect();
            if new.is_empty() {
                break;
            }
            let needed = (self.threads.len() + new.len()) * opening.cpus.len() * self.samplings.len();
            for tid in new {
                let opened = self.open_on_all(Subject::Thread(tid), Some(pid), opening);
                match opened.and_then(|()| self.keep_apart(tid, pid)) {
                    Ok(()) => drop(self.threads.insert(tid)),
                    Err(Error::NoSuchProcess { .. }) if round > 0 || tid != pid => {}
                    Err(Error::System { source, .. }) if source.raw_os_error() == Some(libc::EMFILE) => {
                        return Err(Error::TooManyEvents { needed, limit: file_limit() });
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        self.processes.push(process);
        Ok(())
    }

    /// Opens the events on each CPU. The first there of those that tell of tasks gets a buffer, and the first of those
    /// that only sample, so that many samples leave room for the records of what they depend on; others share these.
    fn open_on_all(&mut self, subject: Subject, pid: Option<u32>, opening: &mut Opening) -> Result<()> {
        let cpus = opening.cpus.clone();
        let samplings = self.samplings.clone();
        let events = cpus.into_iter().flat_map(|cpu| samplings.iter().map(move |sampling| (cpu, sampling)));
        for (cpu, sampling) in events {
            let sampling = Sampling { wakeup_bytes: (opening.ring_bytes / 4) as u32, ..*sampling };
            let event = Event::open(subject, Some(cpu), &sampling).map_err(|error| refusal(pid, error))?;
            let thread = if let Subject::Thread(tid) = subject { Some(tid) } else { None };
            self.events.insert(event.id(), Purpose::new(&sampling, thread, pid));
            let buffer = (cpu, !sampling.tells_tasks);
            match self.ring_places.get(&buffer).and_then(|place| self.rings.get(*place)) {
                Some((first, _)) => {
                    event.write_to(first).map_err(|source| Error::System { what: "share a buffer", source })?;
                    self.others.push(event);
                }
                None => {
                    let ring = opening.map(&event)?;
                    self.ring_places.insert(buffer, self.rings.len());
                    self.rings.push((event, ring));
                }
            }
        }
        Ok(())
    }

    fn enable(&self) -> Result<()> {
        if self.target == Target::FutureChildren {
            return Ok(());
        }
        let is_initial = |event: &&Event| {
            let purpose = self.events.get(&event.id());
            purpose.is_none_or(|purpose| {
                purpose.trigger != Trigger::Switch || purpose.period == SWITCH_PERIODS[FIRST_PERIOD]
            })
        };
        let mut events = self.all_events().filter(is_initial);
        events.try_for_each(Event::enable).map_err(|source| Error::System { what: "start a perf event", source })
    }

    /// Reads the processes that run: what they do from now on is in the buffers.
    fn read_running(&mut self, start: u64) {
        match &self.target {
            Target::Processes(_) => {
                for process in &self.processes {
                    let pid = process.pid().0;
                    self.session.read_process(pid);
                    if let Some(programs) = &self.programs {
                        measured::record_threads(programs, process, start);
                        continue;
                    }
                    let threads = process.threads().unwrap_or_default();
                    let recorded = threads.iter().filter(|thread| self.threads.contains(&thread.tid.0));
                    recorded.for_each(|thread| self.session.thread_exists(pid, thread.tid.0, start));
                }
                self.session.read_waiting(self.stack_bytes(), now);
            }
            Target::Host => {
                let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
                let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
                pids.collect::<Vec<u32>>().into_iter().for_each(|pid| self.session.read_process(pid));
            }
            Target::FutureChildren => {}
        }
    }

    /// Waits for samples, at most so long, and takes them in.
    ///
    /// # Errors
    /// [`Error::System`] if the events can't be waited for.
    pub fn poll(&mut self, timeout: Duration) -> Result<Statistics> {
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let is_soon = self.target != Target::Host && self.session.memory.is_in_use();
            let length = if is_soon { left.min(READ_INTERVAL) } else { left };
            let events: Vec<&Event> = self.rings.iter().map(|(event, _)| event).collect();
            let waited = match &self.drain {
                Some(drain) => drain.while_waiting(|| wait(&events, length)),
                None => wait(&events, length),
            };
            waited.map_err(|source| Error::System { what: "wait for samples", source })?;
            self.read(now());
            if length == left {
                break;
            }
        }
        self.session.read_waiting(self.stack_bytes(), now);
        if let Some(programs) = &mut self.programs {
            programs.free_ended();
        }
        self.adjust_rate()?;
        Ok(self.session.statistics)
    }

    fn all_events(&self) -> impl Iterator<Item = &Event> {
        self.rings.iter().map(|(event, _)| event).chain(&self.others)
    }

    /// Samples more of the switches where that stays below the limit, and fewer where it is passed.
    fn adjust_rate(&mut self) -> Result<()> {
        let elapsed = self.rate.since.elapsed();
        if self.options.measure == Measure::Cpu || self.programs.is_some() || elapsed < RATE_WINDOW {
            return Ok(());
        }
        let samples = self.session.statistics.samples_of_switches;
        let switches = (samples - self.rate.samples) * SWITCH_PERIODS[self.rate.period];
        let cpus = self.ring_places.len() / 2;
        let limit = f64::from(self.options.waits_hz.unwrap_or(WAITS_HZ_BY_PERF)) * cpus as f64 * elapsed.as_secs_f64();
        let is_below = |period: &u64| switches as f64 <= limit * *period as f64;
        let period = SWITCH_PERIODS.iter().position(is_below).unwrap_or(SWITCH_PERIODS.len() - 1);
        if period != self.rate.period {
            for (event, purpose) in self.all_events().filter_map(|event| Some((event, self.events.get(&event.id())?))) {
                let result = match purpose.trigger {
                    Trigger::Switch if purpose.period == SWITCH_PERIODS[period] => event.enable(),
                    Trigger::Switch => event.disable(),
                    Trigger::Nothing | Trigger::CpuTime | Trigger::Program => Ok(()),
                };
                result.map_err(|source| Error::System { what: "change the rate of samples", source })?;
            }
        }
        self.rate = SwitchRate { period, since: Instant::now(), samples };
        Ok(())
    }

    fn stack_bytes(&self) -> u32 {
        self.samplings.first().map_or(0, |sampling| sampling.stack_bytes)
    }

    /// Takes in all records up to a moment, in the order of time. A record of a later moment stays where it is: one
    /// before it may not be written yet to another buffer.
    fn read(&mut self, until: u64) {
        let own = std::process::id();
        let hears_all = self.hears_all();
        let is_host = self.target == Target::Host;
        if is_host {
            self.renew_changes();
        }
        let Self { rings, layout, session, threads, events, target, programs, changes, .. } = self;
        rings.iter_mut().for_each(|(_, ring)| ring.refresh());
        let mut next: Vec<_> = rings.iter_mut().map(|(_, ring)| ring.next(layout)).collect();
        loop {
            let due = |place: &usize| next[*place].is_some_and(|next| next.time <= until);
            let first = (0..next.len()).filter(due).min_by_key(|place| next[*place].map(|next| next.time));
            let Some((place, header)) = first.and_then(|place| Some((place, next[place]?.header))) else { break };
            let ring = &mut rings[place].1;
            let record = Record::parse(header, ring.body(), layout);
            if let Some(Record::Sample(sample)) = &record
                && let Some(purpose) = events.get_mut(&sample.id)
            {
                purpose.sampled += purpose.period;
            }
            let beyond = record.as_ref().filter(|_| is_host).and_then(|record| changes.count(record));
            match record {
                Some(Record::Sample(Sample { id, tid, .. }) | Record::Switched(Switch { id, tid, .. }))
                    if is_duplicate(threads, events, id, tid) => {}
                // The calling thread has the events that its children inherit.
                Some(Record::Sample(sample)) if *target == Target::FutureChildren && sample.pid == own => {}
                Some(Record::Sample(sample)) => {
                    let purpose = events.get(&sample.id);
                    let sample = Sample { period: purpose.map_or(0, |purpose| purpose.period), ..sample };
                    match purpose.map(|purpose| purpose.trigger) {
                        Some(Trigger::Switch) => session.ceases(&sample),
                        Some(Trigger::Program) => session.has_waited(&sample),
                        _ => session.apply(&Record::Sample(sample)),
                    }
                }
                Some(record) if hears_all && !session.concerns(&record) => {}
                Some(record) => {
                    if let (Record::Exited(task), Some(programs)) = (&record, programs.as_mut())
                        && let Some(thread) = programs.take(task.tid)
                    {
                        session.thread_waited(&thread);
                    }
                    session.apply(&record);
                }
                None => session.statistics.malformed += 1,
            }
            if let Some(subject) = beyond {
                if let perf_event::Subject::Mapped(pid) = subject {
                    session.lose_code(pid);
                }
                rings.iter_mut().for_each(|(_, ring)| ring.pass_over(changes.passed_over()));
            }
            let ring = &mut rings[place].1;
            ring.skip();
            next[place] = ring.next(layout);
        }
    }

    /// Follows the changes of all processes again, once a window is over.
    fn renew_changes(&mut self) {
        let changed = self.changes.renew(now());
        if !changed.is_empty() {
            self.rings.iter_mut().for_each(|(_, ring)| ring.pass_over(self.changes.passed_over()));
            changed.into_iter().for_each(|pid| self.session.read_process(pid));
        }
    }

    /// Whether none of the recorded processes runs any more.
    pub fn is_over(&self) -> bool {
        matches!(self.target, Target::Processes(_)) && self.processes.iter().all(Process::has_ended)
    }

    /// Stops, and takes in what is left.
    ///
    /// # Errors
    /// [`Error::Profile`] if the samples do not fit into a profile.
    pub fn finish(self) -> Result<Recording> {
        self.finish_with(|_| PerfMaps::new())
    }

    /// As [`Recorder::finish`]; when the recording has ended, `maps` is given the processes with samples in code that was
    /// generated at run time, those with most of it first, and gives the perf maps that it had them write.
    ///
    /// # Errors
    /// [`Error::Profile`] if the samples do not fit into a profile.
    pub fn finish_with(mut self, maps: impl FnOnce(&[u32]) -> PerfMaps) -> Result<Recording> {
        for event in self.all_events() {
            // One whose thread has ended counts nothing any more.
            let _ = event.disable();
        }
        let end = now();
        let duration = Duration::from_nanos(end.saturating_sub(self.begun));
        if let Some(programs) = &mut self.programs {
            programs.stop();
        }
        self.read(u64::MAX);
        self.session.finish_waits(end);
        self.take_measured(end);
        self.take_unsampled();
        let mut statistics = self.session.statistics;
        statistics.lost = self.lost(statistics.lost);
        statistics.mappings_refused = self.session.processes.mappings_refused;
        statistics.table_bytes = self.session.images.memory() as u64;
        let (facts, files) = (self.facts(duration), self.session.files(&self.session.stacks));
        let stacks = &self.session.stacks;
        let generated: Vec<u32> = generated_code(stacks, &files).into_iter().map(|(pid, _)| pid).collect();
        let (names, unnamed) = generated_names(stacks, &files, &maps(&generated));
        let profile = profile(stacks, &files, &names, |_| true, Some(&statistics), &facts)?;
        Ok(Recording { profile, statistics, unnamed, files: self.session.images.into_proven_files() })
    }

    /// Records that were lost since the last cut, of which the buffers tell of so many.
    fn lost(&mut self, told: u64) -> u64 {
        self.lost_told += told;
        // The kernel writes how many records were lost once one fits again, which may be never.
        let counted: Option<u64> = self.all_events().map(Event::lost).sum();
        let total = self.lost_told.max(counted.unwrap_or(0));
        total - std::mem::replace(&mut self.lost_before, total)
    }

    fn facts(&self, duration: Duration) -> Facts {
        Facts {
            measure: self.options.measure,
            hz: self.options.hz,
            period: 1_000_000_000 / u64::from(self.options.hz.max(1)),
            stack_bytes: self.stack_bytes(),
            kernel: self.samples_kernel(),
            engine: self.engine(),
            without_bpf: self.without_programs.as_ref().map(BpfError::to_string),
            min_wait: self.options.min_wait,
            started: self.started,
            duration,
            subject: self.subject(),
        }
    }

    fn subject(&self) -> String {
        match &self.target {
            Target::Processes(pids) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                format!("process {} and what it started", pids.join(", "))
            }
            Target::Host => "all processes of the host".to_owned(),
            Target::FutureChildren => "a command and what it started".to_owned(),
        }
    }

    /// Whether time in the kernel is sampled, too.
    pub fn samples_kernel(&self) -> bool {
        self.samplings.iter().all(|sampling| sampling.kernel)
    }

    /// The number of processes that the filter takes now.
    pub fn recorded_processes(&mut self) -> usize {
        self.session.recorded_processes()
    }

    /// The number of processes that are known.
    pub fn processes(&self) -> usize {
        self.session.processes.len()
    }
}

/// What opening events needs to know.
struct Opening {
    cpus: Vec<u32>,
    ring_bytes: usize,
    backlog: Backlog,
}

impl Opening {
    /// Maps a buffer, smaller ones where locked memory is short.
    fn map(&mut self, event: &Event) -> Result<Ring> {
        loop {
            match Ring::map(event, self.ring_bytes, Backlog::clone(&self.backlog)) {
                Ok(ring) => return Ok(ring),
                Err(_) if self.ring_bytes > RING_BYTES_MIN => self.ring_bytes /= 2,
                Err(source) => return Err(Error::Buffer { bytes: self.ring_bytes, source }),
            }
        }
    }
}

/// Whether a record is of a thread that has an event of its own, and comes from one inherited from another thread.
fn is_duplicate(threads: &HashSet<u32>, events: &HashMap<u64, Purpose>, event: u64, tid: u32) -> bool {
    let owner = events.get(&event).and_then(|purpose| purpose.thread);
    owner.is_some_and(|owner| owner != tid) && threads.contains(&tid)
}

/// Less is copied where many CPUs fill the buffers.
fn stack_bytes_for(cpus: usize) -> u32 {
    match cpus {
        0..=8 => STACK_BYTES_MAX,
        9..=32 => 32 << 10,
        _ => 16 << 10,
    }
}

/// The CPUs that are online: `/sys/devices/system/cpu/online` is such as `0-3,8`.
fn online_cpus() -> Result<Vec<u32>> {
    let read = |source| Error::System { what: "read /sys/devices/system/cpu/online", source };
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").map_err(read)?;
    parse_cpus(text.trim()).ok_or_else(|| read(io::ErrorKind::InvalidData.into()))
}

fn parse_cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first > 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The time of the events' clock.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn file_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Raises the limit of open files as far as it may be: a thread takes an event on each CPU.
fn allow_many_files() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, many threads are an error that names the limit.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_cpus("0"), Some(vec![0]));
        assert_eq!(parse_cpus("0-2,8,10-11"), Some(vec![0, 1, 2, 8, 10, 11]));
        for wrong in ["", "a", "3-1", "0-4294967295", "1,"] {
            assert_eq!(parse_cpus(wrong), None, "{wrong}");
        }
    }
}
