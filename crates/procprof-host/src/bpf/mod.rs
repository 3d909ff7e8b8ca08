//! Waits measured in the kernel, by programs at its tracepoints: nothing is written at a switch but the numbers of two
//! threads, in memory that the programs and we share.

mod assembler;
mod error;
mod layout;
mod program;

pub use error::BpfError;

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use foldhash::HashMap;

use crate::btf::Btf;
use crate::kernel::{Attached, Event, EventMap, SharedValue, attach};
use crate::processes::has_all_pids;
use crate::reason::Reason;
use crate::waits::Amount;

use layout::{
    CALLS_MAX, CPU_SHIFT, FREED, Kernel, MODE, PID, PROBES, REASON, SAMPLE_BYTES, SINCE, SLOT_SHIFT, STATE, THRESHOLD,
    TID, TOTALS, UNTRACKED, UNWRITTEN, mode, place, state,
};
use program::Plan;

/// Slots for threads: four times those that exist, within these limits.
const SLOTS_MIN: u32 = 1 << 12;
const SLOTS_MAX: u32 = 1 << 16;

/// The threshold of samples to begin with, in nanoseconds: a power of two.
const FIRST_THRESHOLD: u64 = 1 << 20;

/// How waits are measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether all threads are recorded, not only those named and what they start.
    pub(crate) is_host: bool,
    /// Nanoseconds; shorter waits are counted together and not sampled.
    pub(crate) min_wait: u64,
    /// Most samples of a CPU in a second.
    pub(crate) hz: u32,
}

/// The programs, and what they have measured.
#[derive(Debug)]
pub(crate) struct KernelWaits {
    programs: Vec<Attached>,
    slots: SharedValue,
    slot_count: u32,
    control: SharedValue,
    cpus: u32,
    /// Kept open.
    events: EventMap,
    /// Slots of threads that have ended for the reader, and may run a last time.
    ending: Vec<usize>,
    /// By slot, what is known of its thread since the last cut.
    known: HashMap<usize, Known>,
    /// Losses up to the last cut.
    lost_before: Losses,
}

/// What was passed of a thread by the last cut.
#[derive(Clone, Copy, Debug)]
struct Known {
    tid: u32,
    totals: [Amount; Reason::ALL.len()],
    /// A wait that went on: its begin, its reason, and its nanoseconds up to then.
    wait: Option<(u64, Reason, u64)>,
}

/// The waits of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadWaits {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) totals: [Amount; Reason::ALL.len()],
    /// The wait that goes on.
    pub(crate) current: Option<CurrentWait>,
}

/// A wait that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CurrentWait {
    pub(crate) since: u64,
    pub(crate) reason: Reason,
    /// Whether the thread has not been seen to cease.
    pub(crate) is_assumed: bool,
}

/// What a sample tells of its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampledWait {
    pub(crate) tid: u32,
    pub(crate) reason: Reason,
    pub(crate) nanos: u64,
    /// Nanoseconds of shorter waits of its thread that it stands for, its own included; `None` if for itself alone.
    pub(crate) stands_for: Option<u64>,
}

/// What programs could not record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Switches of threads for which there was no slot.
    pub(crate) untracked: u64,
    /// Samples for which there was no space in a buffer.
    pub(crate) unwritten: u64,
}

impl SampledWait {
    /// Reads what [`layout::SAMPLE`] describes; behind it may be padding.
    pub(crate) fn parse(raw: &[u8]) -> Option<Self> {
        let raw = raw.get(..SAMPLE_BYTES as usize)?;
        let [tid_and_reason, nanos, stands_for] = raw.as_chunks().0 else { return None };
        let [tid_and_reason, nanos, stands_for] =
            [tid_and_reason, nanos, stands_for].map(|word| u64::from_le_bytes(*word));
        Some(Self {
            tid: tid_and_reason as u32,
            reason: *Reason::ALL.get((tid_and_reason >> 32) as usize)?,
            nanos,
            stands_for: (stands_for > 0).then_some(stands_for),
        })
    }
}

impl KernelWaits {
    /// Lets programs measure from now on; samples go to the events, one of each CPU.
    ///
    /// # Errors
    /// [`BpfError`], if the kernel can't or may not run them.
    pub(crate) fn attach(outputs: &[(u32, &Event)], settings: &Settings) -> Result<Self, BpfError> {
        // Programs see the numbers of the first one.
        if !has_all_pids() {
            return Err(BpfError::PidNamespace);
        }
        let types = std::fs::read("/sys/kernel/btf/vmlinux").map_err(BpfError::NoTypes)?;
        let kernel = Kernel::find(&Btf::parse(&types)?)?;
        let cpus = outputs.iter().map(|(cpu, _)| cpu + 1).max().unwrap_or(1);
        let room = cpus.next_power_of_two();
        let slot_count = slots_for(threads());
        let new = |error| BpfError::system("create a BPF map", error);
        let slots = SharedValue::new(slot_count << SLOT_SHIFT).map_err(new)?;
        let control = SharedValue::new(CALLS_MAX + (room << CPU_SHIFT)).map_err(new)?;
        let events = EventMap::new(room).map_err(new)?;
        for (cpu, event) in outputs {
            events.set(*cpu, event).map_err(|error| BpfError::system("write to a BPF map", error))?;
        }
        let mut waits = Self {
            programs: Vec::new(),
            slots,
            slot_count,
            control,
            cpus: room,
            events,
            ending: Vec::new(),
            known: HashMap::default(),
            lost_before: Losses::default(),
        };
        waits.initialize();
        let plan = Plan {
            kernel: &kernel,
            slots: waits.slots.as_fd(),
            slot_count,
            control: waits.control.as_fd(),
            cpus: room,
            events: waits.events.as_fd(),
            is_host: settings.is_host,
            min_wait: settings.min_wait,
            hz: settings.hz,
        };
        // The one that samples comes first: it must be there when the other has chosen a wait.
        let mut programs = vec![("procprof_sample", plan.sample(), kernel.sched_exit)];
        if !settings.is_host {
            programs.push(("procprof_fork", plan.fork(), kernel.sched_process_fork));
            programs.push(("procprof_exec", plan.exec(), kernel.sched_process_exec));
        }
        programs.push(("procprof_switch", plan.switch(), kernel.sched_switch));
        let mut attached = Vec::new();
        for (name, code, tracepoint) in programs {
            let code = code.map_err(|error| BpfError::assembly(name, error))?;
            attached.push(attach(name, &code, tracepoint).map_err(|rejected| BpfError::rejected(name, &rejected))?);
        }
        waits.programs = attached;
        Ok(waits)
    }

    fn initialize(&self) {
        let mut reasons = [0; CALLS_MAX as usize];
        for (call, reason) in reasons.iter_mut().enumerate() {
            *reason = Reason::of_call(call as libc::c_long) as u8;
        }
        for (place, word) in reasons.as_chunks().0.iter().enumerate() {
            self.control.double(8 * place).store(u64::from_ne_bytes(*word), Relaxed);
        }
        for cpu in 0..self.cpus {
            self.control.double(self.control_of(cpu, THRESHOLD)).store(FIRST_THRESHOLD, Relaxed);
        }
    }

    /// Records a thread that is taken to wait since `time` for a reason, until it is seen to run.
    pub(crate) fn record(&self, pid: u32, tid: u32, time: u64, reason: Reason) {
        if self.find(tid).is_none() && !self.insert(pid, tid, (time, reason), mode::RECORDED) {
            self.control.double(self.control_of(0, UNTRACKED)).fetch_add(1, Relaxed);
        }
    }

    /// A thread is found to run: unless it has been seen to cease since, it did all the time.
    pub(crate) fn runs(&self, tid: u32) {
        if let Some(slot) = self.find(tid) {
            let state = self.slots.word(slot + STATE as usize);
            let _ = state.compare_exchange(state::ASSUMED, state::RUNS, Relaxed, Relaxed);
        }
    }

    /// Records what a thread starts, once it executes a program.
    pub(crate) fn record_children_of(&self, pid: u32, tid: u32) {
        // All slots are free.
        self.insert(pid, tid, (0, Reason::Other), mode::PARENT);
    }

    /// False if there is no free slot for a thread.
    fn insert(&self, pid: u32, tid: u32, (time, reason): (u64, Reason), mode: u32) -> bool {
        for slot in self.places(tid) {
            let owner = self.slots.word(slot + TID as usize);
            let free = owner.load(Relaxed);
            if (free == 0 || free == FREED) && owner.compare_exchange(free, tid, Acquire, Relaxed).is_ok() {
                // A program may have made a slot at the same time, which then is the first that it finds.
                if self.find(tid).is_some_and(|first| first != slot) {
                    owner.store(FREED, Release);
                    return true;
                }
                self.slots.word(slot + PID as usize).store(pid, Relaxed);
                self.slots.double(slot + SINCE as usize).store(time, Relaxed);
                self.slots.word(slot + REASON as usize).store(reason as u32, Relaxed);
                self.slots.word(slot + STATE as usize).store(state::ASSUMED, Relaxed);
                self.slots.word(slot + MODE as usize).store(mode, Release);
                return true;
            }
        }
        false
    }

    /// What a thread waited that has ended. It is not recorded any more.
    pub(crate) fn take(&mut self, tid: u32) -> Option<ThreadWaits> {
        let is_its = |slot: &usize| {
            let word = |offset: u32| self.slots.word(slot + offset as usize).load(Acquire);
            word(TID) == tid && word(MODE) != mode::NOT
        };
        // It may have run for the last time, and a later thread may have its number by now, in a place behind it.
        let slot = self.places(tid).find(is_its)?;
        let waits = self.read(slot).map(|thread| self.since_cut(slot, thread));
        self.known.remove(&slot);
        self.slots.word(slot + MODE as usize).store(mode::NOT, Release);
        self.ending.push(slot);
        waits
    }

    /// Frees the slots of threads that have run for the last time.
    pub(crate) fn free_ended(&mut self) {
        let Self { slots, ending, .. } = self;
        ending.retain(|slot| {
            let has_ended = slots.word(slot + STATE as usize).load(Acquire) == state::ENDED;
            if has_ended {
                (8..1 << SLOT_SHIFT).step_by(8).for_each(|offset| slots.double(slot + offset).store(0, Relaxed));
                slots.word(slot + TID as usize).store(FREED, Release);
            }
            !has_ended
        });
    }

    /// Stops measuring.
    pub(crate) fn stop(&mut self) {
        self.programs.clear();
    }

    /// What all recorded threads waited since the last cut, but for those taken; of waits that go on, up to now.
    pub(crate) fn cut(&mut self, now: u64) -> Vec<ThreadWaits> {
        let mut cut = Vec::new();
        for slot in (0..self.slot_count as usize).map(|number| number << SLOT_SHIFT) {
            let Some(thread) = self.read(slot) else { continue };
            let wait = thread.current.map(|wait| (wait.since, wait.reason, now.saturating_sub(wait.since)));
            let known = Known { tid: thread.tid, totals: thread.totals, wait };
            let thread = self.since_cut(slot, thread);
            self.known.insert(slot, known);
            cut.push(thread);
        }
        cut
    }

    /// A thread without what was passed of it by the last cut.
    fn since_cut(&self, slot: usize, mut thread: ThreadWaits) -> ThreadWaits {
        let Some(known) = self.known.get(&slot).filter(|known| known.tid == thread.tid) else { return thread };
        for (total, before) in thread.totals.iter_mut().zip(known.totals) {
            *total = total.without(before);
        }
        let Some((since, reason, nanos)) = known.wait else { return thread };
        match &mut thread.current {
            Some(wait) if wait.since == since => wait.since = since.saturating_add(nanos),
            _ => {
                let short = if reason.is_preempted() { Reason::ShortPreempted } else { Reason::ShortBlocked };
                let is_of = |reason: &Reason| thread.totals[*reason as usize].nanos >= nanos;
                let ended_as = [reason, short].into_iter().find(is_of).unwrap_or(reason);
                let total = &mut thread.totals[ended_as as usize];
                total.nanos = total.nanos.saturating_sub(nanos);
            }
        }
        thread
    }

    /// What could not be recorded since the last call.
    pub(crate) fn losses(&mut self) -> Losses {
        let sum =
            |field| (0..self.cpus).map(|cpu| self.control.double(self.control_of(cpu, field)).load(Relaxed)).sum();
        let all = Losses { untracked: sum(UNTRACKED), unwritten: sum(UNWRITTEN) };
        let before = std::mem::replace(&mut self.lost_before, all);
        Losses { untracked: all.untracked - before.untracked, unwritten: all.unwritten - before.unwritten }
    }

    /// What is in the slot of a recorded thread.
    fn read(&self, slot: usize) -> Option<ThreadWaits> {
        let word = |offset: u32| self.slots.word(slot + offset as usize).load(Acquire);
        let double = |offset: u32| self.slots.double(slot + offset as usize).load(Relaxed);
        if matches!(word(TID), 0 | FREED) || word(MODE) != mode::RECORDED {
            return None;
        }
        let mut totals = [Amount::default(); Reason::ALL.len()];
        for (total, offset) in totals.iter_mut().zip((TOTALS..).step_by(16)) {
            *total = Amount { count: double(offset), nanos: double(offset + 8) };
        }
        let is_assumed = word(STATE) == state::ASSUMED;
        let waits = is_assumed || word(STATE) == state::WAITS;
        let reason = Reason::ALL.get(word(REASON) as usize).copied().unwrap_or(Reason::Other);
        let current = waits.then(|| CurrentWait { since: double(SINCE), reason, is_assumed });
        Some(ThreadWaits { pid: word(PID), tid: word(TID), totals, current })
    }

    /// The slot of a thread, as programs find it.
    fn find(&self, tid: u32) -> Option<usize> {
        let word = |slot: &usize, offset: u32| self.slots.word(slot + offset as usize).load(Acquire);
        let mut places = self.places(tid).take_while(|slot| word(slot, TID) != 0);
        places.find(|slot| word(slot, TID) == tid && word(slot, STATE) != state::ENDED)
    }

    fn places(&self, tid: u32) -> impl Iterator<Item = usize> {
        let slots = self.slot_count;
        (0..PROBES).map(move |probe| (place(tid, probe, slots) as usize) << SLOT_SHIFT)
    }

    #[allow(clippy::unused_self)]
    fn control_of(&self, cpu: u32, field: u32) -> usize {
        (CALLS_MAX + (cpu << CPU_SHIFT) + field) as usize
    }
}

fn slots_for(threads: u32) -> u32 {
    threads.saturating_mul(4).clamp(SLOTS_MIN, SLOTS_MAX).next_power_of_two()
}

/// The threads of the host; of `/proc/loadavg` the fourth word is such as `2/180`.
fn threads() -> u32 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = text.split(' ').nth(3).and_then(|word| word.split_once('/')?.1.parse().ok());
    all.unwrap_or(0)
}

#[cfg(test)]
mod tests;
