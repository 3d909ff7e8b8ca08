//! CPU time used, beside that of the samples.
//!
//! The events of a thread count its time on the CPU and that of all it starts, and a sample is taken each time that one
//! period of it has passed. Threads that end within a period leave none, nor does what the kernel could not write. The
//! difference is a row of the profile, so that its sum is the time that was used.

use foldhash::HashMap;

use super::{Recorder, Target};
use crate::error::Result;
use crate::kernel::{Event, Sampling, Subject, Trigger};

/// CPU time that the events of a process have counted and sampled, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTime {
    used: u64,
    sampled: u64,
}

impl Recorder {
    /// Adds the CPU time that was used since the last cut and that no sample stands for.
    ///
    /// Of the whole host, nothing is left over: there, the events are those of CPUs, which sample what runs at each tick.
    pub(super) fn take_unsampled(&mut self) {
        if self.target == Target::Host {
            return;
        }
        let Self { rings, others, events, session, .. } = self;
        let mut processes: HashMap<u32, CpuTime> = HashMap::default();
        for event in rings.iter().map(|(event, _)| event).chain(&*others) {
            let Some(purpose) = events.get_mut(&event.id()).filter(|purpose| purpose.trigger == Trigger::CpuTime)
            else {
                continue;
            };
            let counted = processes.entry(purpose.pid.unwrap_or_default()).or_default();
            let used = event.count().unwrap_or(purpose.counted);
            counted.used += used.saturating_sub(purpose.counted);
            counted.sampled += std::mem::take(&mut purpose.sampled);
            purpose.counted = used;
        }
        let mut processes: Vec<_> = processes.into_iter().collect();
        processes.sort_unstable_by_key(|(pid, _)| *pid);
        for (pid, CpuTime { used, sampled }) in processes {
            session.unsampled(pid, used.saturating_sub(sampled));
        }
    }

    /// Keeps the kernel from passing a thread's events on to what the thread has started, and back, instead of switching
    /// between the two: what has passed of a period would be lost with each process that ends, and a process that starts
    /// others all the time would never be sampled.
    pub(super) fn keep_apart(&mut self, tid: u32, pid: u32) -> Result<()> {
        let Some(sampling) = self.samplings.iter().find(|sampling| sampling.trigger == Trigger::CpuTime) else {
            return Ok(());
        };
        let sampling = Sampling { trigger: Trigger::Nothing, tells_tasks: false, stack_bytes: 0, ..*sampling };
        match Event::open(Subject::ThreadAlone(tid), None, &sampling) {
            Ok(event) => self.others.push(event),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(super::refusal(Some(pid), error)),
        }
        Ok(())
    }

    /// Tells of the process that the calling thread has started, for [`Target::FutureChildren`].
    ///
    /// # Errors
    /// [`crate::Error::System`] if there may be no more events.
    pub fn started(&mut self, pid: u32) -> Result<()> {
        if self.target != Target::FutureChildren {
            return Ok(());
        }
        let events = self.events.values_mut().filter(|purpose| purpose.trigger == Trigger::CpuTime);
        events.for_each(|purpose| purpose.pid = Some(pid));
        self.keep_apart(pid, pid)
    }
}
