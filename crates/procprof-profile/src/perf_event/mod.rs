//! Records of perf events, as Linux writes them to ring buffers and `perf record` to files; x86-64 and AArch64,
//! little-endian.
//!
//! ```text
//! record   type u32, misc u16, size u16 (of the whole record), body
//! MMAP     1   pid u32, tid u32, address u64, length u64, file offset u64, name
//! LOST     2   id u64, records lost u64
//! COMM     3   pid u32, tid u32, name                                 misc bit 13: the process has executed a program
//! EXIT     4   pid u32, parent u32, tid u32, its parent u32, time u64
//! THROTTLE 5, UNTHROTTLE 6
//! FORK     7   as EXIT
//! SAMPLE   9   the fields of `sample_type`, see `sample.rs`
//! MMAP2    10  as MMAP up to the offset; device major u32, minor u32, inode u64, generation u64, or (misc bit 14)
//!              size of the build id u8, u8, u16, build id of 20 bytes; protection u32, flags u32, name
//! SWITCH   14  nothing                            misc bit 13: the thread ceases to run, bit 14: it was preempted
//! SWITCH_CPU_WIDE 15, as SWITCH; the other thread's pid u32, tid u32
//! LOST_SAMPLES 13, NAMESPACES 16, CGROUP 19 id u64, path
//! ```
//!
//! Names end with a zero byte and are padded to 8 bytes. With `sample_id_all`, all records but samples end with those
//! of `pid tid time id stream cpu identifier` that `sample_type` has. Source: `include/uapi/linux/perf_event.h` of
//! Linux.

mod address_space;
mod bytes;
mod code_mappings;
mod image_key;
mod record;
mod sample;

pub use address_space::{AddressSpace, ImageId, MappedCode};
pub use code_mappings::CodeMappings;
pub use image_key::ImageKey;
pub use record::{CpuMode, FileIdentity, Header, MappedFile, Record, Subject, Switch, Task};
pub use sample::{Counters, Registers, Sample};

/// The fields that the records of an event have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The fields of samples, `PERF_SAMPLE_*`.
    pub sample_type: u64,
    /// Whether records other than samples end with fields of `sample_type`.
    pub sample_id_all: bool,
    /// The form of counter values in samples, `PERF_FORMAT_*`.
    pub read_format: u64,
    /// The user registers in samples, a bit each.
    pub user_registers: u64,
    /// The interrupted registers in samples, a bit each.
    pub interrupted_registers: u64,
    /// The form of branch stacks in samples, `PERF_SAMPLE_BRANCH_*`.
    pub branch_sample_type: u64,
}

/// Bits of `sample_type` in the order of the fields.
pub mod field {
    /// The instruction pointer.
    pub const IP: u64 = 1;
    /// Process and thread id.
    pub const TID: u64 = 1 << 1;
    /// Time of the event's clock.
    pub const TIME: u64 = 1 << 2;
    /// An address that the event is about.
    pub const ADDR: u64 = 1 << 3;
    /// Values of the counter.
    pub const READ: u64 = 1 << 4;
    /// Call chain.
    pub const CALLCHAIN: u64 = 1 << 5;
    /// Id of the event that was opened.
    pub const ID: u64 = 1 << 6;
    /// The CPU.
    pub const CPU: u64 = 1 << 7;
    /// Events since the previous sample.
    pub const PERIOD: u64 = 1 << 8;
    /// Id of the event itself.
    pub const STREAM_ID: u64 = 1 << 9;
    /// Data of a tracepoint.
    pub const RAW: u64 = 1 << 10;
    /// Recent branches.
    pub const BRANCH_STACK: u64 = 1 << 11;
    /// Registers of user code.
    pub const REGS_USER: u64 = 1 << 12;
    /// Copy of the user stack.
    pub const STACK_USER: u64 = 1 << 13;
    /// Cost of the event.
    pub const WEIGHT: u64 = 1 << 14;
    /// Source of data.
    pub const DATA_SRC: u64 = 1 << 15;
    /// Id of the event, at a place that does not depend on other fields.
    pub const IDENTIFIER: u64 = 1 << 16;
    /// State of a transaction.
    pub const TRANSACTION: u64 = 1 << 17;
    /// Registers of the interrupted code.
    pub const REGS_INTR: u64 = 1 << 18;
    /// Physical address.
    pub const PHYS_ADDR: u64 = 1 << 19;
    /// Control group.
    pub const CGROUP: u64 = 1 << 21;
    /// Cost of the event in three parts.
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// Values in a call chain from here on say where the addresses behind them were executed.
pub const CONTEXT_MAX: u64 = -4095_i64 as u64;
/// Behind it, a call chain is the kernel's.
pub const CONTEXT_KERNEL: u64 = -128_i64 as u64;
/// Behind it, a call chain is the process's.
pub const CONTEXT_USER: u64 = -512_i64 as u64;

#[cfg(test)]
mod tests;
