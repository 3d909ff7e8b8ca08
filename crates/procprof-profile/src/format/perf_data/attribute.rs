//! One event of a recording: `struct perf_event_attr` of Linux, and the ids of what was opened for it.
//!
//! ```text
//! 0 type u32 · 4 size u32 · 8 config u64 · 16 period or frequency u64 · 24 sample type u64
//! 32 form of counter values u64 · 40 flags u64 (bit 1: inherit, 10: frequency, 18: sample_id_all)
//! 72 form of branches u64
//! 80 user registers u64 · 88 bytes of stack u32 · 96 interrupted registers u64
//! ```
//! Source: `include/uapi/linux/perf_event.h` of Linux.

use crate::perf_event::{Layout, field};

/// Bytes of the first version.
pub(super) const SIZE_MIN: usize = 64;

const SOFTWARE: u32 = 1;
const FLAG_INHERIT: u64 = 1 << 1;
const FLAG_FREQUENCY: u64 = 1 << 10;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const BRANCH_CALL_STACK: u64 = 1 << 11;

/// Names of the hardware's and the software's events by number.
const HARDWARE_NAMES: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
const SOFTWARE_NAMES: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

/// An event.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    kind: u32,
    config: u64,
    period: u64,
    flags: u64,
    stack_bytes: u32,
    pub(super) layout: Layout,
    /// As `perf` names it; empty if the file does not tell.
    pub(super) name: String,
}

impl Attribute {
    /// Reads an attribute of at least [`SIZE_MIN`] bytes; what an older version does not have is 0.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |place: usize| {
            let chunk = bytes.get(place..).and_then(|rest| rest.first_chunk());
            chunk.map_or(0, |word| u64::from_le_bytes(*word))
        };
        (bytes.len() >= SIZE_MIN).then_some(())?;
        let flags = word(40);
        Some(Self {
            kind: word(0) as u32,
            config: word(8),
            period: word(16),
            flags,
            stack_bytes: word(88) as u32,
            layout: Layout {
                sample_type: word(24),
                sample_id_all: flags & FLAG_SAMPLE_ID_ALL != 0,
                read_format: word(32),
                user_registers: word(80),
                interrupted_registers: word(96),
                branch_sample_type: word(72),
            },
            name: String::new(),
        })
    }

    /// The event's name with its modifiers: `task-clock:u`.
    pub(super) fn name(&self) -> String {
        let number = usize::try_from(self.config).unwrap_or(usize::MAX);
        let known = match self.kind {
            0 => HARDWARE_NAMES.get(number),
            SOFTWARE => SOFTWARE_NAMES.get(number),
            _ => None,
        };
        match known {
            _ if !self.name.is_empty() => self.name.clone(),
            Some(name) => (*name).to_owned(),
            None => format!("type {} config {:#x}", self.kind, self.config),
        }
    }

    /// Whether its periods are nanoseconds.
    pub(super) fn is_clock(&self) -> bool {
        self.kind == SOFTWARE && self.config < 2
    }

    /// Whether it counts what a processor worked.
    pub(super) fn is_work(&self) -> bool {
        let name = self.name();
        let is_cycles = |word: &str| ["cycles", "cpu-cycles", "cpu_core", "cpu_atom"].contains(&word);
        self.is_clock() || (self.kind == 0 && self.config == 0) || name.split([':', '/']).take(2).any(is_cycles)
    }

    /// The period of all samples, where it is fixed.
    pub(super) fn fixed_period(&self) -> Option<u64> {
        (self.flags & FLAG_FREQUENCY == 0).then_some(self.period)
    }

    /// Samples for each second that were asked for.
    pub(super) fn frequency(&self) -> Option<u64> {
        (self.flags & FLAG_FREQUENCY != 0).then_some(self.period)
    }

    /// Whether samples have values of counters, from which their periods are computed.
    pub(super) fn reads_counters(&self) -> bool {
        const READ_ID: u64 = 1 << 2;
        self.layout.sample_type & field::READ != 0 && self.layout.read_format & READ_ID != 0
    }

    /// Whether each thread has counters of its own under the ids of the event.
    pub(super) fn has_counters_per_thread(&self) -> bool {
        self.flags & FLAG_INHERIT != 0
    }

    /// Whether samples have registers and a copy of the stack.
    pub(super) fn copies_stacks(&self) -> bool {
        let fields = field::REGS_USER | field::STACK_USER;
        self.layout.sample_type & fields == fields
    }

    /// The bytes of stack that are copied.
    pub(super) fn stack_bytes(&self) -> u32 {
        self.stack_bytes
    }

    /// Whether the callers in user code are in branch records of the processor, which are not read.
    pub(super) fn has_branch_call_stacks(&self) -> bool {
        self.layout.sample_type & field::BRANCH_STACK != 0 && self.layout.branch_sample_type & BRANCH_CALL_STACK != 0
    }
}
