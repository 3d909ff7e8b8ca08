//! The state of a recording: what records change, and the stacks of its samples.

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashSet;
use procprof_profile::perf_event::{
    AddressSpace, CONTEXT_MAX, CONTEXT_USER, CpuMode, Record, Registers, Sample, Switch,
};
use procprof_unwind::{Architecture, Cache, Space};

use crate::blocked::{Doing, look};
use crate::bpf::{SampledWait, ThreadWaits};
use crate::ending::Ending;
use crate::go_stacks::GoStacks;
use crate::images::{Files, Images};
use crate::live_memory::{Failure, ProcessMemory};
use crate::membership::Membership;
use crate::processes::{CodeKnown, Process, Processes, Unwinding};
use crate::reason::Reason;
use crate::registers;
use crate::stacks::{Frame, Owner, StackId, Stacks};
use crate::tally::Tally;
use crate::thorough::{Unwinder, Unwound};
use crate::waits::{Amount, Place, State, Waited, Waits};
use crate::walk::walk;

/// The kernel keeps so many bytes of a name.
const NAME_BYTES: usize = 15;

/// The row of samples of processes that ended before they could be read.
const VANISHED: &str = "[process ended before its code was known]";
/// The row of samples of processes whose maps this user may not read.
const REFUSED: &str = "[process that this user may not read]";
/// The row of samples of processes whose maps are too long to be read.
const OVERSIZED: &str = "[process with more mappings than are read]";
/// The row of samples of processes whose mappings change more often than is followed.
const RESTLESS: &str = "[process that maps code too often]";
/// The row of samples of processes whose code takes too much CPU time.
const OVER_BUDGET: &str = "[code that takes too much CPU time to unwind]";
/// The row of samples of processes that are none of this pid namespace.
const OUTSIDE: &str = "[process outside the pid namespace]";
/// The row of samples of user code of 32 bits.
const CODE_OF_32_BITS: &str = "[32-bit code, not unwound]";
/// The row in the place of the callers that are missing.
pub(crate) const CUT: &str = "[callers beyond the copied stack]";
/// The row of CPU time that was used, but has no samples.
const UNSAMPLED: &str = "[unsampled CPU]";
/// The row of waits of which no stack is known.
const WITHOUT_STACK: &str = "[waiting, stack not sampled]";
/// The row of waits that are shorter than the least duration.
const SHORT: &str = "[waits shorter than the minimum]";
/// The state of a thread on a CPU.
const RUNNING: &str = "running";

/// Bytes of unwind tables and sections at which a recording that is cut forgets those that were not used for longest.
const TABLE_BYTES_MAX: usize = 32 << 20;

/// Most threads whose stacks are read from `/proc` at a time.
const READ_AT_ONCE: usize = 256;

/// What has happened to the samples of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Samples taken of CPU time, and of switches.
    pub samples: u64,
    /// Of these, samples of switches.
    pub samples_of_switches: u64,
    /// Nanoseconds of CPU time that were used, but that no sample stands for: of threads that ended before a sample was
    /// due, and of lost samples. 0 for the whole host.
    pub unsampled: u64,
    /// Waits that have ended, or not yet at the end of the recording.
    pub waits: u64,
    /// Nanoseconds of waits.
    pub waited: u64,
    /// Of these, nanoseconds of waits whose stack is not known.
    pub waited_without_stack: u64,
    /// Of the waits, those shorter than the least duration, which have no stacks.
    pub waits_short: u64,
    /// Nanoseconds of these.
    pub waited_short: u64,
    /// Switches of threads for which programs in the kernel had no memory; their waits are not known.
    pub switches_untracked: u64,
    /// Switches whose counterpart was lost; the wait between them is not known.
    pub switches_unmatched: u64,
    /// Records that the kernel could not write because a buffer was full: samples, and what tells of mappings.
    pub lost: u64,
    /// User stacks unwound or tried.
    pub user_stacks: u64,
    /// User stacks that reach the thread's first frame.
    pub to_root: u64,
    /// User stacks whose copy ends before the thread's first frame.
    pub cut: u64,
    /// User stacks deeper than 1,024 frames.
    pub deep: u64,
    /// User stacks with a caller that can't be found.
    pub broken: u64,
    /// User stacks with words that the copy lacks, read from the process after the sample.
    pub completed: u64,
    /// User stacks of which such words do not count: the thread had left the frames by then, or ended.
    pub read_late: u64,
    /// User stacks of which such words may not be read by this user.
    pub read_refused: u64,
    /// User stacks of which such words were not read, since 10,000 reads a second or 64 MiB a second were, or 64 of one
    /// stack.
    pub read_limited: u64,
    /// User stacks with callers that frame pointers alone tell of, in code without tables, or a word found in the place
    /// of one below the stack pointer that was overwritten.
    pub guessed: u64,
    /// Samples of processes that ended before their code was known.
    pub vanished: u64,
    /// Samples of processes whose maps this user may not read, so that their code is not known.
    pub refused: u64,
    /// Samples of processes whose code is not known, since they have more than 262,144 mappings, or more than 16 MiB of
    /// paths in them.
    pub oversized: u64,
    /// Samples of processes whose code is not known, since they have mapped something more than 10,000 times in a minute.
    pub restless: u64,
    /// Samples of processes whose code has taken as much CPU time as it may until the next cut.
    pub over_budget: u64,
    /// Samples of processes that are none of this pid namespace, so that they are not told apart.
    pub outside: u64,
    /// Samples of 32-bit code, which is not unwound.
    pub code_of_32_bits: u64,
    /// Times that the kernel lowered the rate for a while.
    pub throttled: u64,
    /// Records that could not be read.
    pub malformed: u64,
    /// Mappings that did not fit into an address space.
    pub mappings_refused: u64,
    /// Bytes of unwind tables and sections in memory at the end.
    pub table_bytes: u64,
    /// Nanoseconds of CPU time for opening files with code and making their tables, which the number of samples does not
    /// change.
    pub preparation: u64,
}

/// A function of the name of a process and of what it belongs to.
type Holds = dyn Fn(&str, &Membership) -> bool + Send + Sync;

/// A condition on the name of a process and on what it belongs to.
#[derive(Clone)]
pub struct Condition(Arc<Holds>);

impl Condition {
    /// A condition by a function, which is called once for each process, and again where its name or what it belongs to
    /// changes.
    pub fn new(holds: impl Fn(&str, &Membership) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Condition")
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Condition {}

/// The processes whose samples are kept; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those with this name, as the kernel has it: of a longer one, the first 15 bytes.
    pub name: Option<String>,
    /// Those in this control group or one below it: its path as in `/proc/PID/cgroup`.
    pub cgroup: Option<String>,
    /// Those of this service ([`crate::Membership::service`]).
    pub service: Option<String>,
    /// Those for which this holds.
    pub condition: Option<Condition>,
}

impl Filter {
    fn takes(&self, process: &Process) -> bool {
        let has_name = |name: &String| process.name.as_bytes() == &name.as_bytes()[..name.len().min(NAME_BYTES)];
        let is_in = |group: &String| {
            let below = process.membership.cgroup.strip_prefix(group.trim_end_matches('/'));
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        let is_of = |service: &String| process.membership.service(&process.name) == *service;
        self.name.as_ref().is_none_or(has_name)
            && self.cgroup.as_ref().is_none_or(is_in)
            && self.service.as_ref().is_none_or(is_of)
            && self.condition.as_ref().is_none_or(|Condition(holds)| holds(&process.name, &process.membership))
    }
}

/// The state of a recording.
#[derive(Debug)]
pub(crate) struct Session {
    architecture: Architecture,
    pub(crate) processes: Processes,
    pub(crate) images: Images,
    pub(crate) stacks: Stacks,
    pub(crate) statistics: Statistics,
    /// The waits of threads, if they are recorded.
    waits: Option<Waits<StackId>>,
    /// The sampled ones of the waits that programs in the kernel measure.
    tally: Tally<StackId>,
    /// The code of the kernel's scheduler from which programs are called; empty where there are none.
    scheduler: Range<u64>,
    /// The time of the last cut.
    cut_at: u64,
    /// Whether samples tell if their thread runs or waits.
    has_states: bool,
    has_threads: bool,
    /// Most CPU time for opening the files of a process and making their tables, between two cuts; unlimited if `None`.
    preparation_max: Option<Duration>,
    filter: Filter,
    cache: Cache,
    pub(crate) memory: ProcessMemory,
    generation: u16,
    addresses: Vec<u64>,
    frames: Vec<Frame>,
}

impl Session {
    pub(crate) fn new(architecture: Architecture, has_threads: bool, filter: Filter) -> Self {
        Self {
            architecture,
            processes: Processes::new(has_threads),
            images: Images::new(architecture),
            stacks: Stacks::default(),
            statistics: Statistics::default(),
            waits: None,
            tally: Tally::default(),
            scheduler: 0..0,
            cut_at: 0,
            has_states: false,
            has_threads,
            preparation_max: None,
            filter,
            cache: Cache::new(),
            memory: ProcessMemory::default(),
            generation: 0,
            addresses: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Limits the CPU time for opening the files of a process and making their tables, between two cuts.
    pub(crate) fn limit_preparation(&mut self, longest: Duration) {
        self.preparation_max = Some(longest);
    }

    /// Samples tell whether their thread runs or waits.
    pub(crate) fn tell_states(&mut self) {
        self.has_states = true;
    }

    /// Records the waits of threads by their switches; those shorter than so many nanoseconds are counted together.
    pub(crate) fn record_waits(&mut self, min_wait: u64) {
        self.waits = Some(Waits::new(min_wait));
    }

    /// A thread exists when the recording begins.
    pub(crate) fn thread_exists(&mut self, pid: u32, tid: u32, start: u64) {
        if let Some(waits) = &mut self.waits {
            waits.exists(pid, tid, start);
        }
    }

    /// Reads a process that has been running.
    pub(crate) fn read_process(&mut self, pid: u32) {
        self.processes.read(pid, &mut self.images);
    }

    /// The code of a process is not known any more, since its mappings change more often than is followed.
    pub(crate) fn lose_code(&mut self, pid: u32) {
        self.processes.lose_code(pid);
    }

    /// Whether a record is of a process that is known, or of one that such a process starts.
    pub(crate) fn concerns(&self, record: &Record<'_>) -> bool {
        match record {
            Record::Mapped(mapped) => self.processes.contains(mapped.pid),
            Record::Named { pid, .. } => self.processes.contains(*pid),
            Record::Forked(task) => self.processes.contains(task.parent),
            Record::Exited(task) => self.processes.contains(task.pid),
            _ => true,
        }
    }

    /// Applies a record.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        match record {
            Record::Mapped(mapped) if mapped.mode == CpuMode::User && mapped.is_code => {
                self.processes.mapped(mapped, &mut self.images);
            }
            Record::Named { pid, tid, name, is_exec } => self.processes.named(*pid, *tid, name, *is_exec),
            Record::Forked(task) => {
                if let Some(waits) = &mut self.waits {
                    waits.begins(task.tid);
                }
                self.processes.forked(*task);
            }
            Record::Exited(task) => {
                if let Some((pid, waited)) = self.waits.as_mut().and_then(|waits| waits.exited(task.tid)) {
                    self.add_waited(pid, task.tid, waited);
                }
                self.processes.exited(*task);
            }
            Record::Switched(switch) => self.switched(switch),
            Record::Lost { records } => self.statistics.lost += records,
            Record::Throttled => self.statistics.throttled += 1,
            Record::Sample(sample) => self.sample(sample),
            Record::Mapped(_) | Record::Cgroup { .. } | Record::Other(_) => {}
        }
    }

    /// Takes a sample of CPU time.
    fn sample(&mut self, sample: &Sample<'_>) {
        let Some(stack) = self.stack(sample) else { return };
        let owner = self.owner(sample.pid, sample.tid, RUNNING, None);
        self.stacks.add(&owner, stack, Amount { count: 1, nanos: sample.period });
    }

    /// Adds CPU time, in nanoseconds, of a process and what it started, that no sample stands for.
    pub(crate) fn unsampled(&mut self, pid: u32, nanos: u64) {
        if nanos > 0 {
            self.statistics.unsampled += nanos;
            let (owner, stack) = (self.owner(pid, pid, RUNNING, None), self.stacks.stack(&[Frame::Note(UNSAMPLED)]));
            self.stacks.add(&owner, stack, Amount { count: 0, nanos });
        }
    }

    /// Takes a sample of a thread that is about to cease to run.
    pub(crate) fn ceases(&mut self, sample: &Sample<'_>) {
        if self.has_ended(sample.tid) {
            return;
        }
        let Some(stack) = self.stack(sample) else { return };
        self.statistics.samples_of_switches += 1;
        if let Some(waits) = &mut self.waits {
            waits.sampled(sample.pid, sample.tid, stack, sample.period);
        }
    }

    /// Takes a sample of a thread that has waited, as a program in the kernel has measured.
    pub(crate) fn has_waited(&mut self, sample: &Sample<'_>) {
        let Some(wait) = SampledWait::parse(sample.raw).filter(|wait| wait.tid == sample.tid) else {
            self.statistics.malformed += 1;
            return;
        };
        let Some(stack) = self.stack(sample) else { return };
        self.statistics.samples_of_switches += 1;
        // What was before belongs to another cut.
        let nanos = wait.nanos.min(sample.time.saturating_sub(self.cut_at));
        self.tally.sampled(sample.tid, wait.reason, stack, nanos, wait.stands_for);
    }

    fn switched(&mut self, switch: &Switch) {
        // The idle task has no pid.
        if switch.pid != 0
            && !self.has_ended(switch.tid)
            && self.takes(switch.pid)
            && let Some(waits) = &mut self.waits
        {
            waits.switched(switch);
        }
    }

    fn has_ended(&self, tid: u32) -> bool {
        self.waits.as_ref().is_some_and(|waits| waits.has_ended(tid))
    }

    /// Reads where threads are that wait for long, or since the recording began; `clock` tells the time of events.
    pub(crate) fn read_waiting(&mut self, stack_bytes: u32, clock: impl Fn() -> u64) {
        let Some(waits) = &mut self.waits else { return };
        for (pid, tid) in waits.without_stack(clock(), READ_AT_ONCE) {
            let doing = look(pid, tid, stack_bytes as usize);
            let time = clock();
            let stack = match &doing {
                Doing::Waiting(place) => Some(self.waiting_stack(pid, place, stack_bytes)),
                Doing::Running | Doing::Unknown => None,
            };
            let Some(waits) = &mut self.waits else { return };
            match stack {
                Some(stack) => waits.read(tid, stack, time),
                None if doing == Doing::Running => waits.runs(tid),
                None => {}
            }
        }
    }

    /// The stack of a thread that waits in a call of the kernel: of its registers few are known.
    fn waiting_stack(&mut self, pid: u32, place: &crate::blocked::Place, stack_limit: u32) -> StackId {
        let (mask, values) = registers::of_call(self.architecture, place.sp, place.pc, &place.arguments);
        let sample = Sample {
            mode: CpuMode::User,
            pid,
            registers: Registers::new(mask, &values),
            stack: &place.stack,
            stack_limit: stack_limit.into(),
            ..Sample::default()
        };
        self.frames.clear();
        self.user_frames(&sample);
        self.stacks.stack(&self.frames)
    }

    /// Ends the recording of waits.
    pub(crate) fn finish_waits(&mut self, end: u64) {
        let Some(mut waits) = self.waits.take() else { return };
        self.statistics.switches_unmatched = waits.unmatched;
        for (pid, tid, waited) in waits.finish(end) {
            self.add_waited(pid, tid, waited);
        }
    }

    /// Takes out what was recorded up to now, and forgets what has no more use.
    pub(crate) fn cut(&mut self, end: u64) -> (Stacks, Files, Statistics) {
        self.tally = Tally::default();
        self.cut_at = end;
        if let Some(mut waits) = self.waits.take() {
            self.statistics.switches_unmatched = std::mem::take(&mut waits.unmatched);
            for (pid, tid, waited) in waits.cut(end) {
                self.add_waited(pid, tid, waited);
            }
            self.waits = Some(waits);
        }
        let mut statistics = std::mem::take(&mut self.statistics);
        statistics.mappings_refused = std::mem::take(&mut self.processes.mappings_refused);
        statistics.table_bytes = self.images.memory() as u64;
        statistics.preparation = nanos(std::mem::take(&mut self.images.preparation));
        let stacks = std::mem::take(&mut self.stacks);
        let files = self.files(&stacks);
        self.processes.forget_ended();
        self.processes.look_again();
        if let Some(waits) = &mut self.waits {
            waits.forget(|pid| !self.processes.contains(pid));
            let carried = self.stacks.carry(&stacks, waits.held().collect::<HashSet<_>>());
            waits.rename(|stack| carried[&stack]);
        }
        stacks.mappings.all().iter().for_each(|mapping| self.images.note_use(mapping.image));
        let mut used = self.processes.images();
        used.extend(self.stacks.mappings.all().iter().map(|mapping| mapping.image));
        self.images.forget(|image| used.contains(&image));
        if self.images.memory() > TABLE_BYTES_MAX && self.images.shrink_tables(TABLE_BYTES_MAX / 4 * 3) {
            self.processes.forget_unwinding();
            self.cache = Cache::new();
        }
        (stacks, files, statistics)
    }

    /// Forgets all unwind tables; they are made again as stacks need them.
    pub(crate) fn forget_tables(&mut self) {
        self.images.forget_tables();
        self.processes.forget_unwinding();
        self.cache = Cache::new();
    }

    /// The files of what has samples.
    pub(crate) fn files(&self, stacks: &Stacks) -> Files {
        stacks.mappings.all().iter().map(|mapping| (mapping.image, self.images.facts(mapping.image))).collect()
    }

    /// Takes what programs in the kernel have measured of a thread that has ended.
    pub(crate) fn thread_waited(&mut self, thread: &ThreadWaits) {
        if self.takes(thread.pid) {
            let waited = self.tally.waited(thread.tid, &thread.totals);
            self.add_waited(thread.pid, thread.tid, waited);
        }
    }

    /// Takes what programs in the kernel have measured of a thread until the end of the recording. If it waits then,
    /// its stack is looked up.
    pub(crate) fn thread_waits(&mut self, thread: &ThreadWaits, end: u64, min_wait: u64, stack_bytes: u32) {
        let (pid, tid) = (thread.pid, thread.tid);
        if !self.takes(pid) {
            return;
        }
        if let Some(wait) = thread.current {
            let amount = Amount { count: 1, nanos: end.saturating_sub(wait.since) };
            let state = if wait.reason.is_preempted() { State::Preempted } else { State::Blocked };
            let doing = match state {
                State::Blocked if amount.nanos >= min_wait => look(pid, tid, stack_bytes as usize),
                State::Blocked | State::Preempted => Doing::Unknown,
            };
            let place = match &doing {
                _ if amount.nanos < min_wait => Some(Place::Short),
                Doing::Waiting(place) => Some(Place::Stack(self.waiting_stack(pid, place, stack_bytes))),
                // It has run all the time.
                Doing::Running if wait.is_assumed => None,
                Doing::Running | Doing::Unknown => Some(Place::Unknown),
            };
            let reason = (!wait.is_assumed).then_some(wait.reason);
            let waited = place.map(|place| Waited { state, reason, place, amount });
            self.add_waited(pid, tid, waited.into_iter().collect());
        }
        self.thread_waited(thread);
    }

    fn add_waited(&mut self, pid: u32, tid: u32, waited: Vec<Waited<StackId>>) {
        for Waited { state, reason, place, amount } in waited {
            self.statistics.waits += amount.count;
            self.statistics.waited += amount.nanos;
            let stack = match place {
                Place::Stack(stack) => stack,
                Place::Unknown => {
                    self.statistics.waited_without_stack += amount.nanos;
                    self.stacks.stack(&[Frame::Note(WITHOUT_STACK)])
                }
                Place::Short => {
                    self.statistics.waits_short += amount.count;
                    self.statistics.waited_short += amount.nanos;
                    self.stacks.stack(&[Frame::Note(SHORT)])
                }
            };
            let owner = self.owner(pid, tid, state.name(), reason.and_then(Reason::name));
            self.stacks.add(&owner, stack, amount);
        }
    }

    /// Finds the kernel's scheduler for the samples of programs, while this process may read the kernel's addresses.
    pub(crate) fn find_scheduler(&mut self) {
        self.scheduler = scheduler();
    }

    /// Whether samples of a process are kept.
    /// The number of known processes that the filter takes.
    pub(crate) fn recorded_processes(&mut self) -> usize {
        self.processes.pids().into_iter().filter(|pid| self.takes(*pid)).count()
    }

    fn takes(&mut self, pid: u32) -> bool {
        if !self.processes.contains(pid) {
            self.processes.read(pid, &mut self.images);
        }
        self.processes.read_membership(pid);
        let Some(process) = self.processes.get_mut(pid) else { return false };
        let is_taken = process.is_taken.unwrap_or_else(|| self.filter.takes(process));
        process.is_taken = Some(is_taken);
        is_taken
    }

    /// The stack of a sample; `None` if its process is not recorded.
    fn stack(&mut self, sample: &Sample<'_>) -> Option<StackId> {
        if !self.takes(sample.pid) {
            return None;
        }
        self.statistics.samples += 1;
        self.frames.clear();
        self.frames.extend(kernel_frames(sample));
        if !sample.raw.is_empty() {
            // Up to the kernel's function that switches, the frames are those of the program that samples.
            let is_switch = |frame: &Frame| matches!(frame, Frame::Kernel(address) if self.scheduler.contains(address));
            let behind = self.frames.iter().position(is_switch).map_or(0, |place| place + 1);
            self.frames.drain(..behind);
        }
        let has_user_code = sample.registers.is_some() || sample.is_32_bit || sample.mode == CpuMode::User;
        if has_user_code {
            self.user_frames(sample);
        }
        Some(self.stacks.stack(&self.frames))
    }

    fn owner(&mut self, pid: u32, tid: u32, state: &'static str, reason: Option<&'static str>) -> Owner {
        let process = self.processes.get_mut(pid);
        let name = process.as_ref().map_or_else(String::new, |process| process.name.clone());
        let membership = process.as_ref().map(|process| Arc::clone(&process.membership)).unwrap_or_default();
        let thread = process.and_then(|process| process.threads.get(&tid)).cloned();
        let thread = thread.unwrap_or_else(|| name.clone());
        let state = self.has_states.then_some(state);
        Owner { pid, process: name, thread: self.has_threads.then_some((tid, thread)), membership, state, reason }
    }

    /// Adds the frames of user code, and counts how the walk ended.
    fn user_frames(&mut self, sample: &Sample<'_>) {
        let statistics = &mut self.statistics;
        if sample.is_32_bit {
            statistics.code_of_32_bits += 1;
            return self.frames.push(Frame::Note(CODE_OF_32_BITS));
        }
        statistics.user_stacks += 1;
        let process = self.processes.get_mut(sample.pid);
        let code = process.as_ref().map_or(CodeKnown::Vanished, |process| process.code);
        let (Some(process), CodeKnown::Yes) = (process, code) else {
            let (count, note) = match code {
                CodeKnown::Refused => (&mut statistics.refused, REFUSED),
                CodeKnown::Oversized => (&mut statistics.oversized, OVERSIZED),
                CodeKnown::Restless => (&mut statistics.restless, RESTLESS),
                CodeKnown::Outside => (&mut statistics.outside, OUTSIDE),
                CodeKnown::Vanished | CodeKnown::Yes => (&mut statistics.vanished, VANISHED),
            };
            *count += 1;
            return self.frames.push(Frame::Note(note));
        };
        if self.preparation_max.is_some_and(|longest| process.preparation >= longest) {
            statistics.over_budget += 1;
            return self.frames.push(Frame::Note(OVER_BUDGET));
        }
        if process.moved_text.is_due()
            && process.moved_text.recognize(sample.pid, &mut process.space, &mut self.images, &mut self.memory)
        {
            process.unwinding = None;
        }
        let mut has_unwinding = process.unwinding.is_some();
        let unwound = loop {
            if !has_unwinding {
                let number = self.generation.checked_add(1);
                if number.is_none() {
                    // All numbers of address spaces are used: begin anew, with nothing that remembers the old ones.
                    self.processes.forget_unwinding();
                    self.cache = Cache::new();
                }
                self.generation = number.unwrap_or(1);
            }
            let Some(process) = self.processes.get_mut(sample.pid) else { return };
            let (images, generation) = (&mut self.images, self.generation);
            let before = images.preparation;
            let unwinding = process.unwinding.get_or_insert_with(|| Unwinding::new(&process.space, images, generation));
            let walked = unwinding.walk(
                self.architecture,
                &process.space,
                images,
                &self.cache,
                Some(&mut self.memory),
                sample,
                &mut self.addresses,
            );
            process.preparation += images.preparation.saturating_sub(before);
            match walked {
                WalkOutcome::Whole(unwound) => break unwound,
                WalkOutcome::Opened if self.preparation_max.is_none_or(|longest| process.preparation < longest) => {
                    (process.unwinding, has_unwinding) = (None, false);
                }
                WalkOutcome::Opened => {
                    process.unwinding = None;
                    self.statistics.over_budget += 1;
                    return self.frames.push(Frame::Note(OVER_BUDGET));
                }
            }
        };
        let Some(process) = self.processes.get_mut(sample.pid) else { return };
        for address in &self.addresses {
            let frame = match process.space.find(*address) {
                Some(mapped) => self.stacks.code_frame(mapped, *address),
                None => Frame::Nowhere(*address),
            };
            self.frames.push(frame);
        }
        self.note(&unwound);
    }

    fn note(&mut self, Unwound { ending, is_guessed, is_completed, failure }: &Unwound) {
        let statistics = &mut self.statistics;
        statistics.guessed += u64::from(*is_guessed);
        statistics.completed += u64::from(*is_completed);
        match failure {
            Some(Failure::Late) => statistics.read_late += 1,
            Some(Failure::Refused) => statistics.read_refused += 1,
            Some(Failure::Limit) => statistics.read_limited += 1,
            None => {}
        }
        let count = match ending {
            Ending::Root => &mut statistics.to_root,
            Ending::Cut => &mut statistics.cut,
            Ending::Deep => &mut statistics.deep,
            Ending::Lost(_) | Ending::NoRegisters => &mut statistics.broken,
        };
        *count += 1;
        if matches!(ending, Ending::Cut | Ending::Deep) {
            self.frames.push(Frame::Note(CUT));
        }
    }
}

/// The kernel's part of a call chain, and where it has none the interrupted instruction, if that was in the kernel.
fn kernel_frames(sample: &Sample<'_>) -> impl Iterator<Item = Frame> {
    let words = sample.callchain.iter().map(|word| u64::from_le_bytes(*word));
    let mut chain =
        words.take_while(|word| *word != CONTEXT_USER).filter(|address| *address < CONTEXT_MAX).enumerate().peekable();
    let leaf = (sample.mode == CpuMode::Kernel && chain.peek().is_none()).then_some(sample.ip);
    // Behind the first, addresses are where calls return to.
    let calls = chain.map(|(depth, address)| address.wrapping_sub(u64::from(depth > 0)));
    leaf.into_iter().chain(calls).map(Frame::Kernel)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The code of the function that switches, `__schedule`; nothing where this user may not know addresses of the kernel.
/// A line of `/proc/kallsyms` is such as `ffffffff81e2f2a0 T schedule`, in the order of addresses.
fn scheduler() -> Range<u64> {
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else { return 0..0 };
    let mut symbols = BufReader::with_capacity(1 << 16, file).lines().map_while(Result::ok);
    let address = |line: &str| line.split(' ').next().and_then(|address| u64::from_str_radix(address, 16).ok());
    let start = symbols.find(|line| line.ends_with(" __schedule")).and_then(|line| address(&line)).unwrap_or(0);
    let end = symbols.filter_map(|line| address(&line)).find(|address| *address > start).unwrap_or(start);
    if start == 0 { 0..0 } else { start..end }
}

/// The outcome of a walk by the tables of an address space.
#[derive(Debug)]
pub(crate) enum WalkOutcome {
    /// A stack.
    Whole(Unwound),
    /// It led into images that were opened now: the tables of the address space have to be gathered anew.
    Opened,
}

impl Unwinding {
    /// The tables of the images that are open.
    pub(crate) fn new(space: &AddressSpace, images: &Images, generation: u16) -> Self {
        let code: Vec<_> = space.code().iter().map(|mapped| images.code(mapped)).collect();
        let go = GoStacks::new(space, &code, images);
        let mut of_code: Vec<_> =
            space.code().iter().map(|mapped| mapped.image).filter(|image| images.is_open(*image)).collect();
        of_code.sort_unstable();
        of_code.dedup();
        Self { space: Space::new(code, generation), images: of_code, go }
    }

    /// Replaces `addresses` by those of a sample's user stack, once all tables that it needs are there. What the copy of
    /// the stack lacks is read from `memory`, if the process can still be read.
    #[expect(clippy::too_many_arguments, reason = "the parts of a session, which are borrowed apart")]
    pub(crate) fn walk(
        &self,
        architecture: Architecture,
        code: &AddressSpace,
        images: &mut Images,
        cache: &Cache,
        mut memory: Option<&mut ProcessMemory>,
        sample: &Sample<'_>,
        addresses: &mut Vec<u64>,
    ) -> WalkOutcome {
        let walked = loop {
            addresses.clear();
            let go = (&self.go, &mut *images, memory.as_deref_mut());
            let walked = walk(architecture, &self.space, cache, go, sample, addresses);
            if self.lacks_images(code, images, addresses) {
                return WalkOutcome::Opened;
            }
            let mut is_compiled = false;
            for image in &self.images {
                is_compiled |= images.compile_wanted(*image);
            }
            if !is_compiled {
                break walked;
            }
        };
        let thorough = Unwinder { architecture, space: &self.space, cache, code, images };
        let unwound = thorough.complete(walked, memory, sample, addresses);
        if self.lacks_images(code, images, addresses) { WalkOutcome::Opened } else { WalkOutcome::Whole(unwound) }
    }

    /// Opens the images of code that a stack leads into; whether one is open whose tables these are without.
    fn lacks_images(&self, code: &AddressSpace, images: &mut Images, addresses: &[u64]) -> bool {
        let mut is_any = false;
        for mapped in addresses.iter().filter_map(|address| code.find(*address)) {
            is_any |= self.images.binary_search(&mapped.image).is_err() && images.is_opened(mapped.image);
        }
        is_any
    }
}

#[cfg(test)]
mod tests;
