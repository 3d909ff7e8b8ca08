//! Waits of a recording that programs in the kernel measure.

use std::io;

use foldhash::HashSet;
use procprof_process::Process;

use super::{Opening, Purpose, Recorder, THREAD_ROUNDS, Target, WAITS_HZ_BY_BPF, nanos};
use crate::blocked::{Doing, call, look};
use crate::bpf::{BpfError, KernelWaits, Settings};
use crate::error::Result;
use crate::kernel::{Event, Sampling, Subject, Trigger};
use crate::measure::{Engine, Measure};
use crate::reason::Reason;

impl Recorder {
    /// What measures waits: perf events or BPF programs.
    pub fn engine(&self) -> Engine {
        if self.programs.is_some() { Engine::Bpf } else { Engine::Perf }
    }

    /// Why BPF programs don't measure waits, if they were tried.
    pub fn without_bpf(&self) -> Option<&BpfError> {
        self.without_programs.as_ref()
    }

    /// Has waits measured by programs in the kernel, or else by records of switches.
    pub(super) fn measure_waits(&mut self, opening: &mut Opening) -> Result<()> {
        let by_switches = self.samplings.clone();
        if self.options.engine != Engine::Perf {
            // Tasks are told of without their switches, which the programs see.
            self.samplings.retain(|sampling| sampling.trigger != Trigger::Switch);
            self.samplings.iter_mut().for_each(|sampling| {
                (sampling.tells_switches, sampling.has_raw) = (false, true);
            });
            match self.attach_programs(opening) {
                Ok(programs) => {
                    self.layout = self.samplings[0].layout();
                    self.programs = Some(programs);
                    self.session.find_scheduler();
                    return Ok(());
                }
                Err(error) if self.options.engine == Engine::Bpf => return Err(error.into()),
                Err(error) => self.without_programs = Some(error),
            }
            self.forget_events();
            self.samplings = by_switches;
        }
        self.session.record_waits(nanos(self.options.min_wait));
        Ok(())
    }

    /// Whether events of all CPUs tell of tasks, although only some processes are recorded: programs sample those, and
    /// the kernel would take time at each switch for events of a thread.
    pub(super) fn hears_all(&self) -> bool {
        let is_of_processes = matches!(self.target, Target::Processes(_));
        is_of_processes && self.programs.is_some() && self.options.measure == Measure::OffCpu
    }

    /// Opens an event with a buffer on each CPU, for samples of programs, and attaches these.
    fn attach_programs(&mut self, opening: &mut Opening) -> std::result::Result<KernelWaits, BpfError> {
        let failed = |source| BpfError::system("open a perf event for samples of programs", source);
        for cpu in opening.cpus.clone() {
            let first = self.samplings[0];
            let sampling = Sampling {
                trigger: Trigger::Program,
                period: 1,
                tells_tasks: false,
                wakeup_bytes: (opening.ring_bytes / 4) as u32,
                ..first
            };
            let event = Event::open(Subject::All, Some(cpu), &sampling).map_err(failed)?;
            let ring = opening.map(&event).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
            event.enable().map_err(failed)?;
            self.events.insert(event.id(), Purpose::new(&sampling, None, None));
            self.ring_places.insert((cpu, true), self.rings.len());
            self.rings.push((event, ring));
        }
        let outputs: Vec<(u32, &Event)> =
            opening.cpus.iter().copied().zip(self.rings.iter().map(|(event, _)| event)).collect();
        let settings = Settings {
            is_host: self.target == Target::Host,
            min_wait: nanos(self.options.min_wait),
            hz: self.options.waits_hz.unwrap_or(WAITS_HZ_BY_BPF),
        };
        let programs = KernelWaits::attach(&outputs, &settings)?;
        if self.target == Target::FutureChildren {
            programs.record_children_of(std::process::id(), rustix::thread::gettid().as_raw_nonzero().get() as u32);
        }
        Ok(programs)
    }

    /// Takes what programs have measured since the last cut.
    pub(super) fn take_measured(&mut self, end: u64) {
        let (min_wait, stack_bytes) = (nanos(self.options.min_wait), self.stack_bytes());
        let Some(programs) = &mut self.programs else { return };
        for thread in programs.cut(end) {
            self.session.thread_waits(&thread, end, min_wait, stack_bytes);
        }
        let losses = programs.losses();
        self.session.statistics.lost = self.session.statistics.lost.max(losses.unwritten);
        self.session.statistics.switches_untracked = losses.untracked;
    }
}

/// Has programs measure all threads of a process; those that these start meanwhile are seen by a program.
pub(super) fn record_threads(programs: &KernelWaits, process: &Process, start: u64) {
    let pid = process.pid().0;
    let mut known = HashSet::default();
    for _ in 0..THREAD_ROUNDS {
        let threads = process.threads().unwrap_or_default();
        let new: Vec<u32> = threads.iter().map(|thread| thread.tid.0).filter(|tid| known.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        for tid in new {
            let doing = call(pid, tid);
            programs.record(pid, tid, start, doing.map_or(Reason::Other, Reason::of_call));
            if doing.is_none() && look(pid, tid, 0) == Doing::Running {
                programs.runs(tid);
            }
        }
    }
}
