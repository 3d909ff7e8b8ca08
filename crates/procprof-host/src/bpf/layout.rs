//! Memory that the programs and we share, and where the kernel's own structures have what programs read.
//!
//! A slot of a thread has 256 bytes. Numbers at offsets from its beginning: thread, process (4 bytes each), the begin of
//! its wait (8), its state and reason (4 each), nanoseconds of waits since the last sample (8), its mode (4), and from
//! [`TOTALS`] on for each reason the number of waits and their nanoseconds (8 each). The slot of a thread is the first
//! with its number among [`PROBES`] places, and a place that never had one ends the search.
//!
//! The other value has a reason for each system call (1 byte), then 128 bytes for each CPU.

use crate::btf::Btf;
use crate::reason::Reason;

use super::BpfError;

pub(super) const SLOT_SHIFT: i32 = 8;
pub(super) const TID: u32 = 0;
pub(super) const PID: u32 = 4;
pub(super) const SINCE: u32 = 8;
pub(super) const STATE: u32 = 16;
pub(super) const REASON: u32 = 20;
pub(super) const UNSAMPLED: u32 = 24;
pub(super) const MODE: u32 = 32;
pub(super) const TOTALS: u32 = 40;

/// Places where the slot of a thread may be.
pub(super) const PROBES: u32 = 8;
const PROBE_DISTANCE: u32 = 977;
/// In place of a thread, a slot that had one.
pub(super) const FREED: u32 = u32::MAX;

/// Numbers of system calls with a reason of their own.
pub(super) const CALLS_MAX: u32 = 512;
pub(super) const CPU_SHIFT: i32 = 7;
pub(super) const THRESHOLD: u32 = 0;
pub(super) const WINDOW_END: u32 = 8;
pub(super) const SAMPLES: u32 = 16;
pub(super) const UNWRITTEN: u32 = 24;
pub(super) const UNTRACKED: u32 = 32;
pub(super) const WANTED: u32 = 40;
/// What a sample tells of its wait: thread and reason (4 bytes each), nanoseconds, and the nanoseconds that it stands
/// for, 0 if for itself alone.
pub(super) const SAMPLE: u32 = 48;
pub(super) const SAMPLE_BYTES: u32 = 24;

/// Whether a thread runs.
pub(super) mod state {
    pub(in super::super) const RUNS: u32 = 0;
    /// It is taken to wait since the recording began.
    pub(in super::super) const ASSUMED: u32 = 1;
    pub(in super::super) const WAITS: u32 = 2;
    pub(in super::super) const ENDED: u32 = 3;
}

/// Whether the waits of a thread are recorded.
pub(super) mod mode {
    /// Not yet, or no more.
    pub(in super::super) const NOT: u32 = 0;
    pub(in super::super) const RECORDED: u32 = 1;
    /// Once it executes a program.
    pub(in super::super) const PENDING: u32 = 2;
    /// Not, but what it starts becomes pending.
    pub(in super::super) const PARENT: u32 = 3;
}

/// The number of a place, among so many, which are a power of two.
pub(super) fn place(tid: u32, probe: u32, slots: u32) -> u32 {
    tid.wrapping_add(distance(probe)) & (slots - 1)
}

pub(super) fn distance(probe: u32) -> u32 {
    probe * PROBE_DISTANCE
}

const _: () = assert!(TOTALS as usize + 16 * Reason::ALL.len() <= 1 << SLOT_SHIFT);
const _: () = assert!(SAMPLE + SAMPLE_BYTES <= 1 << CPU_SHIFT);

/// Where tasks of this kernel have what programs read, and the tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    pub(super) pid: u32,
    pub(super) tgid: u32,
    pub(super) flags: u32,
    /// The byte and the bit of `in_iowait`.
    pub(super) in_iowait: (u32, i32),
    pub(super) system_call: u32,
    /// Of tasks, where their state is; `None` if a tracepoint tells it.
    pub(super) state: Option<u32>,
    pub(super) sched_switch: u32,
    pub(super) sched_exit: u32,
    pub(super) sched_process_fork: u32,
    pub(super) sched_process_exec: u32,
}

impl Kernel {
    /// Finds all of them in the kernel's types.
    pub(super) fn find(types: &Btf<'_>) -> Result<Self, BpfError> {
        let tracepoint = |name: &'static str| {
            let id = types.typedef(&format!("btf_trace_{name}"));
            id.ok_or(BpfError::NoTracepoint { name })
        };
        let field = |structure: &'static str, name: &'static str| {
            let missing = BpfError::NoField { structure, name };
            types.field(structure, name).ok_or(missing)
        };
        let bytes = |structure, name| field(structure, name).map(|field| field.bit_offset / 8);
        let sched_switch = tracepoint("sched_switch")?;
        // With the state as fourth argument, behind one that all have, since Linux 5.18.
        let tells_state = types.parameters(sched_switch).is_some_and(|parameters| parameters >= 5);
        let state = || bytes("task_struct", "__state").or_else(|_| bytes("task_struct", "state"));
        let in_iowait = field("task_struct", "in_iowait")?.bit_offset;
        Ok(Self {
            pid: bytes("task_struct", "pid")?,
            tgid: bytes("task_struct", "tgid")?,
            flags: bytes("task_struct", "flags")?,
            in_iowait: (in_iowait / 8, 1 << (in_iowait % 8)),
            system_call: bytes("pt_regs", if cfg!(target_arch = "aarch64") { "syscallno" } else { "orig_ax" })?,
            state: if tells_state { None } else { Some(state()?) },
            sched_switch: sched_switch.0,
            sched_exit: tracepoint("sched_exit_tp")?.0,
            sched_process_fork: tracepoint("sched_process_fork")?.0,
            sched_process_exec: tracepoint("sched_process_exec")?.0,
        })
    }
}
