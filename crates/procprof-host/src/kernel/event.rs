//! One perf event of a thread or a CPU: a clock that samples when its period has passed, or a counter of switches.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf_event_open_sys as sys;
use procprof_profile::perf_event::{Layout, field};
use sys::bindings::{
    PERF_COUNT_SW_BPF_OUTPUT, PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_DUMMY,
    PERF_COUNT_SW_TASK_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_LOST, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use crate::registers;

/// The subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Everything that runs on the CPU.
    All,
    /// A thread, and what it will start.
    Thread(u32),
    /// A thread alone.
    ThreadAlone(u32),
    /// What the calling thread will start, once that executes a program.
    FutureChildren,
}

/// What samples are taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// Nothing: the event only records what happens.
    Nothing,
    /// CPU time, in nanoseconds.
    CpuTime,
    /// Switches of threads that cease to run.
    Switch,
    /// A program in the kernel, which says what of.
    Program,
}

/// The properties of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    pub(crate) trigger: Trigger,
    /// Of what triggers a sample, so much is between two.
    pub(crate) period: u64,
    /// Whether processes, their threads and mappings are recorded.
    pub(crate) tells_tasks: bool,
    /// Whether all switches are recorded.
    pub(crate) tells_switches: bool,
    /// Whether it counts from the beginning of the recording.
    pub(crate) is_initial: bool,
    /// Bytes of the user stack copied with each sample; a multiple of 8, less than 64 KiB.
    pub(crate) stack_bytes: u32,
    /// Whether samples have what a program adds.
    pub(crate) has_raw: bool,
    /// Whether time in the kernel is sampled.
    pub(crate) kernel: bool,
    /// Bytes in a buffer from which a reader is woken.
    pub(crate) wakeup_bytes: u32,
}

/// An open event, not yet counting.
#[derive(Debug)]
pub(crate) struct Event {
    descriptor: OwnedFd,
    id: u64,
    /// Whether the kernel counts the event's lost records.
    counts_lost: bool,
}

impl Sampling {
    /// The layout of the records. Without the period: where samples have it, the kernel takes one of each switch.
    pub(crate) fn layout(&self) -> Layout {
        let raw = if self.has_raw { field::RAW } else { 0 };
        Layout {
            sample_type: raw
                | field::IDENTIFIER
                | field::IP
                | field::TID
                | field::TIME
                | field::CALLCHAIN
                | field::REGS_USER
                | field::STACK_USER,
            sample_id_all: true,
            user_registers: registers::MASK,
            ..Layout::default()
        }
    }

    fn attributes(&self, subject: Subject) -> perf_event_attr {
        let layout = self.layout();
        let counter = match (self.trigger, subject) {
            (Trigger::Nothing, _) => PERF_COUNT_SW_DUMMY,
            (Trigger::Switch, _) => PERF_COUNT_SW_CONTEXT_SWITCHES,
            (Trigger::Program, _) => PERF_COUNT_SW_BPF_OUTPUT,
            (Trigger::CpuTime, Subject::All) => PERF_COUNT_SW_CPU_CLOCK,
            (Trigger::CpuTime, _) => PERF_COUNT_SW_TASK_CLOCK,
        };
        let mut attributes = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: size_of::<perf_event_attr>() as u32,
            config: counter as u64,
            sample_type: layout.sample_type,
            sample_regs_user: layout.user_registers,
            sample_stack_user: self.stack_bytes,
            clockid: libc::CLOCK_MONOTONIC,
            ..perf_event_attr::default()
        };
        attributes.read_format = u64::from(PERF_FORMAT_LOST);
        attributes.__bindgen_anon_1.sample_period = self.period;
        attributes.__bindgen_anon_2.wakeup_watermark = self.wakeup_bytes;
        attributes.set_watermark(1);
        attributes.set_use_clockid(1);
        attributes.set_disabled(1);
        attributes.set_inherit(u64::from(matches!(subject, Subject::Thread(_) | Subject::FutureChildren)));
        attributes.set_enable_on_exec(u64::from(subject == Subject::FutureChildren && self.is_initial));
        attributes.set_exclude_hv(1);
        attributes.set_exclude_idle(1);
        attributes.set_exclude_kernel(u64::from(!self.kernel));
        // Callers in user code are found by our own tables; what the kernel finds by frame pointers counts where Go
        // changes the stack.
        attributes.set_exclude_callchain_user(0);
        attributes.set_exclude_callchain_kernel(u64::from(!self.kernel));
        attributes.set_sample_id_all(1);
        let tells_tasks = u64::from(self.tells_tasks);
        attributes.set_mmap(tells_tasks);
        attributes.set_mmap2(tells_tasks);
        attributes.set_build_id(tells_tasks);
        attributes.set_comm(tells_tasks);
        attributes.set_comm_exec(tells_tasks);
        attributes.set_task(tells_tasks);
        attributes.set_context_switch(u64::from(self.tells_switches));
        attributes
    }
}

impl Event {
    /// Opens an event on a CPU, or on any; the kernel sees to it that a thread is counted only while it runs there.
    pub(crate) fn open(subject: Subject, cpu: Option<u32>, sampling: &Sampling) -> io::Result<Self> {
        let pid = match subject {
            Subject::All => -1,
            Subject::Thread(tid) | Subject::ThreadAlone(tid) => {
                i32::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?
            }
            Subject::FutureChildren => 0,
        };
        let mut attributes = sampling.attributes(subject);
        let mut opened = open(&mut attributes, pid, cpu);
        // Kernels before 6.0 do not count what an event lost, those before 5.12 know no build ids in records.
        let without: [fn(&mut perf_event_attr); 2] =
            [|attributes| attributes.read_format = 0, |attributes| attributes.set_build_id(0)];
        for remove in without {
            let Err(error) = &opened else { break };
            if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::E2BIG)) {
                remove(&mut attributes);
                attributes.size = size_of::<perf_event_attr>() as u32;
                opened = open(&mut attributes, pid, cpu);
            }
        }
        let opened = opened?;
        let mut id = 0_u64;
        // SAFETY: the descriptor is that of an event, and the kernel writes one u64 to `id`.
        checked(unsafe { sys::ioctls::ID(opened.as_raw_fd(), &raw mut id) })?;
        Ok(Self { descriptor: opened, id, counts_lost: attributes.read_format != 0 })
    }

    /// Lets the event write to the buffer of another one on the same CPU.
    pub(crate) fn write_to(&self, other: &Self) -> io::Result<()> {
        // SAFETY: both are descriptors of events.
        checked(unsafe { sys::ioctls::SET_OUTPUT(self.descriptor(), other.descriptor()) })
    }

    /// Begins to count.
    pub(crate) fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is that of an event; the call takes no pointer.
        checked(unsafe { sys::ioctls::ENABLE(self.descriptor(), 0) })
    }

    /// Stops counting.
    pub(crate) fn disable(&self) -> io::Result<()> {
        // SAFETY: as in `enable`.
        checked(unsafe { sys::ioctls::DISABLE(self.descriptor(), 0) })
    }

    /// Samples at another period from now on.
    pub(crate) fn set_period(&self, period: u64) -> io::Result<()> {
        // SAFETY: the descriptor is that of an event, and the kernel reads one u64 from `period`.
        checked(unsafe { sys::ioctls::PERIOD(self.descriptor(), (&raw const period) as u64) })
    }

    /// Records that did not fit into its buffer; `None` if the kernel does not count them.
    pub(crate) fn lost(&self) -> Option<u64> {
        self.values().and_then(|[_, lost]| lost)
    }

    /// What it has counted, of a clock in nanoseconds, with the events inherited from it.
    pub(crate) fn count(&self) -> Option<u64> {
        self.values().and_then(|[count, _]| count)
    }

    /// The counter's value and the number of lost records, where the kernel counts them.
    fn values(&self) -> Option<[Option<u64>; 2]> {
        let mut bytes = [0; 16];
        let length = rustix::io::read(&self.descriptor, &mut bytes).ok()?;
        let mut values = bytes.get(..length)?.as_chunks().0.iter().map(|value| u64::from_ne_bytes(*value));
        Some([values.next(), values.next().filter(|_| self.counts_lost)])
    }

    /// The id in its samples, and in those of events inherited from it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn descriptor(&self) -> libc::c_int {
        self.descriptor.as_raw_fd()
    }
}

fn open(attributes: &mut perf_event_attr, pid: i32, cpu: Option<u32>) -> io::Result<OwnedFd> {
    let cpu = cpu.map_or(Ok(-1), i32::try_from).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: the kernel reads as many bytes of `attributes` as its `size`, and may write that field.
    let descriptor = unsafe { sys::perf_event_open(attributes, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC.into()) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else has.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
