//! One record: its header, and its body by type.

use super::bytes::Bytes;
use super::sample::Sample;
use super::{Layout, field};

const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;
const CGROUP: u32 = 19;

const MISC_MODE: u16 = 7;
const MISC_MMAP_DATA: u16 = 1 << 13;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const PROTECTION_EXECUTE: u32 = 4;

/// The beginning of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of the record.
    pub kind: u32,
    /// Bits whose meaning depends on the type.
    pub misc: u16,
    /// Bytes of the record with this header.
    pub size: u16,
}

/// The mode in which a CPU was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuMode {
    /// In the kernel.
    Kernel,
    /// In a process.
    User,
    /// In a hypervisor or a guest, or not known.
    #[default]
    Other,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A process has mapped a file.
    Mapped(MappedFile<'a>),
    /// A thread has a new name.
    Named {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// The name, at most 15 bytes.
        name: &'a [u8],
        /// Whether the process has executed a program: its address space is new.
        is_exec: bool,
    },
    /// A thread or process begins.
    Forked(Task),
    /// A thread or process ends.
    Exited(Task),
    /// Records that did not fit into the buffer.
    Lost {
        /// Their number.
        records: u64,
    },
    /// The kernel lowers the rate of samples for a while.
    Throttled,
    /// A control group.
    Cgroup {
        /// Its id.
        id: u64,
        /// Its path.
        path: &'a [u8],
    },
    /// A thread begins to run on a CPU, or ceases to.
    Switched(Switch),
    /// A sample.
    Sample(Sample<'a>),
    /// Any other type.
    Other(u32),
}

/// A file that a process has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedFile<'a> {
    /// Process id; `u32::MAX` for the kernel.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Place in the file of the first address.
    pub offset: u64,
    /// What is known of the file besides its path.
    pub identity: FileIdentity<'a>,
    /// Whether it is code.
    pub is_code: bool,
    /// Where its code is executed.
    pub mode: CpuMode,
    /// The path in the process's mount namespace, or a name of the kernel's, such as `//anon` and `[vdso]`.
    pub path: &'a [u8],
}

/// What is known of a mapped file besides its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIdentity<'a> {
    /// Nothing.
    Unknown,
    /// Device and inode.
    Inode {
        /// Major and minor number of the device.
        device: (u32, u32),
        /// The inode; 0 without a file.
        inode: u64,
    },
    /// The build id, up to 20 bytes.
    BuildId(&'a [u8]),
}

/// A thread or process that begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Process id.
    pub pid: u32,
    /// The process that it was forked from.
    pub parent: u32,
    /// Thread id; the process id for a process's first thread.
    pub tid: u32,
}

/// A thread begins to run on a CPU, or ceases to: the fields of `sample_id_all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Time of the event's clock; 0 without `PERF_SAMPLE_TIME`.
    pub time: u64,
    /// The id of the event; 0 without `PERF_SAMPLE_IDENTIFIER`.
    pub id: u64,
    /// Whether it ceases to run.
    pub is_out: bool,
    /// Whether it ceases to run although it could go on: another thread takes its place.
    pub is_preempted: bool,
}

/// Of whom a record tells, as the beginning of its body has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A process, a thread of which has a new name, without executing a program.
    Named(u32),
    /// A process that has mapped something.
    Mapped(u32),
    /// A thread that begins or ends, not the first one of its process.
    Thread,
}

impl Header {
    /// Bytes of a header.
    pub const SIZE: usize = 8;
    /// Bytes of a body that tell of whom it is.
    pub const SUBJECT: usize = 12;

    /// Of whom a record tells, by the beginning of its body; `None` for records of other types.
    pub fn subject(&self, body: &[u8; Self::SUBJECT]) -> Option<Subject> {
        let [pid, second, third] =
            [0, 4, 8].map(|at| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]));
        match self.kind {
            COMM if self.misc & MISC_COMM_EXEC == 0 => Some(Subject::Named(pid)),
            MMAP | MMAP2 => Some(Subject::Mapped(pid)),
            FORK if pid == second => Some(Subject::Thread),
            EXIT if pid != third => Some(Subject::Thread),
            _ => None,
        }
    }

    /// Reads the header at the beginning of a record; `None` if it is cut short or gives a size less than its own.
    pub fn parse(record: &[u8]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = *record.first_chunk()?;
        let size = u16::from_le_bytes([g, h]);
        let header = Self { kind: u32::from_le_bytes([a, b, c, d]), misc: u16::from_le_bytes([e, f]), size };
        (usize::from(size) >= Self::SIZE).then_some(header)
    }

    /// The mode of the CPU that a sample or a mapping is about.
    pub fn mode(&self) -> CpuMode {
        match self.misc & MISC_MODE {
            1 => CpuMode::Kernel,
            2 => CpuMode::User,
            _ => CpuMode::Other,
        }
    }
}

impl<'a> Record<'a> {
    /// Reads the record behind a header; `None` if a field is cut short.
    pub fn parse(header: Header, body: &'a [u8], layout: &Layout) -> Option<Self> {
        if header.kind == SAMPLE {
            return Sample::parse(header.mode(), body, layout).map(Record::Sample);
        }
        let mut bytes = Bytes(layout.without_trailer(body)?);
        Some(match header.kind {
            MMAP | MMAP2 => Record::Mapped(mapped(header, bytes)?),
            COMM => {
                let (pid, tid) = bytes.pair()?;
                Record::Named { pid, tid, name: bytes.name(), is_exec: header.misc & MISC_COMM_EXEC != 0 }
            }
            FORK => Record::Forked(task(bytes)?),
            EXIT => Record::Exited(task(bytes)?),
            LOST => {
                bytes.u64()?;
                Record::Lost { records: bytes.u64()? }
            }
            LOST_SAMPLES => Record::Lost { records: bytes.u64()? },
            THROTTLE => Record::Throttled,
            SWITCH | SWITCH_CPU_WIDE => Record::Switched(switch(header, body, layout)?),
            CGROUP => Record::Cgroup { id: bytes.u64()?, path: bytes.name() },
            kind => Record::Other(kind),
        })
    }

    /// The time of the record behind a header; `None` if it has none.
    pub fn time(header: Header, body: &[u8], layout: &Layout) -> Option<u64> {
        let before = match header.kind {
            SAMPLE => words(layout.sample_type & (field::IDENTIFIER | field::IP | field::TID)),
            _ if layout.sample_id_all => {
                body.len().checked_sub(layout.trailer())? + words(layout.sample_type & field::TID)
            }
            _ => return None,
        };
        (layout.sample_type & field::TIME != 0).then_some(())?;
        Bytes(body.get(before..)?).u64()
    }
}

impl Layout {
    /// Bytes of the fields at the end of records other than samples.
    fn trailer(&self) -> usize {
        const FIELDS: u64 = field::TID | field::TIME | field::ID | field::STREAM_ID | field::CPU | field::IDENTIFIER;
        if self.sample_id_all { words(self.sample_type & FIELDS) } else { 0 }
    }

    fn without_trailer<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        body.get(..body.len().checked_sub(self.trailer())?)
    }
}

/// Bytes of fields of a word each.
fn words(fields: u64) -> usize {
    8 * fields.count_ones() as usize
}

fn mapped(header: Header, mut bytes: Bytes<'_>) -> Option<MappedFile<'_>> {
    let (pid, _) = bytes.pair()?;
    let (start, length, offset) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let (identity, is_code) = match header.kind {
        MMAP => (FileIdentity::Unknown, header.misc & MISC_MMAP_DATA == 0),
        _ => {
            let identity = file_identity(header, bytes.take(24)?)?;
            let (protection, _) = bytes.pair()?;
            (identity, protection & PROTECTION_EXECUTE != 0)
        }
    };
    Some(MappedFile { pid, start, length, offset, identity, is_code, mode: header.mode(), path: bytes.name() })
}

fn file_identity(header: Header, bytes: &[u8]) -> Option<FileIdentity<'_>> {
    if header.misc & MISC_MMAP_BUILD_ID != 0 {
        let (size, id) = (usize::from(*bytes.first()?), bytes.get(4..)?);
        return Some(id.get(..size).filter(|id| !id.is_empty()).map_or(FileIdentity::Unknown, FileIdentity::BuildId));
    }
    let mut bytes = Bytes(bytes);
    let (device, inode) = (bytes.pair()?, bytes.u64()?);
    Some(FileIdentity::Inode { device, inode })
}

fn task(mut bytes: Bytes<'_>) -> Option<Task> {
    let (pid, parent) = bytes.pair()?;
    let (tid, _) = bytes.pair()?;
    Some(Task { pid, parent, tid })
}

/// Reads who is switched from the fields behind the body; `None` without thread.
fn switch(header: Header, body: &[u8], layout: &Layout) -> Option<Switch> {
    let has = |bit: u64| layout.sample_type & bit != 0;
    let trailer = body.get(body.len().checked_sub(layout.trailer())?..)?;
    (layout.sample_id_all && has(field::TID)).then_some(())?;
    let mut bytes = Bytes(trailer);
    let (pid, tid) = bytes.pair()?;
    let time = if has(field::TIME) { bytes.u64()? } else { 0 };
    let identifier = trailer.last_chunk().filter(|_| has(field::IDENTIFIER));
    Some(Switch {
        pid,
        tid,
        time,
        id: identifier.map_or(0, |id| u64::from_le_bytes(*id)),
        is_out: header.misc & MISC_SWITCH_OUT != 0,
        is_preempted: header.misc & MISC_SWITCH_OUT_PREEMPT != 0,
    })
}
