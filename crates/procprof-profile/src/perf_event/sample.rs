//! A sample: the fields of `sample_type`, in this order:
//!
//! ```text
//! identifier · ip · pid u32, tid u32 · time · addr · id · stream id · cpu u32, u32 · period
//! values of the counter, or of the counters of a group: [count] · [time enabled] · [time running] · (value, [id], [lost])*
//! call chain: count, addresses · raw: size u32, bytes · branches: count, [index], 24 bytes each
//! user registers: form (0 none, 1 of 32 bits, 2 of 64 bits), one for each bit of the mask
//! user stack: size, bytes, and (if the size is not 0) how many of them were copied
//! weight · data source · transaction · interrupted registers · physical address · cgroup
//! ```

use super::bytes::Bytes;
use super::record::CpuMode;
use super::{Layout, field};

const READ_TOTAL_TIME_ENABLED: u64 = 1;
const READ_TOTAL_TIME_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

const BRANCH_HW_INDEX: u64 = 1 << 17;
const BRANCH_COUNTERS: u64 = 1 << 19;
const REGISTERS_NONE: u64 = 0;
const REGISTERS_64: u64 = 2;

/// A sample; fields that the event does not have are 0 or empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Where the CPU was.
    pub mode: CpuMode,
    /// Id of the event that was opened; of an inherited one, that of its origin.
    pub id: u64,
    /// The instruction pointer.
    pub ip: u64,
    /// Process id; 0 for the idle task.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// The CPU.
    pub cpu: u32,
    /// Events since the previous sample.
    pub period: u64,
    /// Values of the counter, or of the counters of its group.
    pub counters: Counters<'a>,
    /// Addresses from leaf to root, with markers ([`super::CONTEXT_MAX`]) of where they were executed.
    pub callchain: &'a [[u8; 8]],
    /// Data of a tracepoint.
    pub raw: &'a [u8],
    /// Registers of user code; `None` for threads of the kernel, and for code of 32 bits.
    pub registers: Option<Registers<'a>>,
    /// Whether user code is of 32 bits.
    pub is_32_bit: bool,
    /// The user stack from its pointer on, as far as it was copied.
    pub stack: &'a [u8],
    /// The bytes of stack that would have been copied if there were so many.
    pub stack_limit: u64,
    /// Id of the control group.
    pub cgroup: u64,
}

/// Values of counters, each with its id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters<'a> {
    words: &'a [[u8; 8]],
    /// Words of each counter; 0 if counters have no ids, without which their values say nothing.
    width: usize,
}

impl<'a> Counters<'a> {
    fn parse(bytes: &mut Bytes<'a>, format: u64) -> Option<Self> {
        let count = |bits: u64| u64::from((format & bits).count_ones());
        let counters = if format & READ_GROUP != 0 { bytes.u64()? } else { 1 };
        bytes.words(count(READ_TOTAL_TIME_ENABLED | READ_TOTAL_TIME_RUNNING))?;
        let width = 1 + count(READ_ID | READ_LOST);
        let words = bytes.words(counters.checked_mul(width)?)?;
        Some(Self { words, width: if format & READ_ID != 0 { width as usize } else { 0 } })
    }

    /// The id and the value of each counter, which has counted from its start on; nothing for counters without ids.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let words = if self.width == 0 { &[] } else { self.words };
        let counters = words.chunks_exact(self.width.max(2));
        counters.map(|counter| (u64::from_le_bytes(counter[1]), u64::from_le_bytes(counter[0])))
    }
}

/// Registers of user code by the numbers of the kernel (`PERF_REG_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'a> {
    mask: u64,
    values: &'a [[u8; 8]],
}

impl<'a> Registers<'a> {
    /// Registers of a mask, a value for each bit from the lowest on; `None` if the numbers differ.
    pub fn new(mask: u64, values: &'a [[u8; 8]]) -> Option<Self> {
        (mask.count_ones() as usize == values.len()).then_some(Self { mask, values })
    }

    /// The value of a register; `None` if the mask does not have it.
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(number)?;
        (self.mask & bit != 0).then_some(())?;
        let place = (self.mask & (bit - 1)).count_ones() as usize;
        self.values.get(place).map(|value| u64::from_le_bytes(*value))
    }
}

impl<'a> Sample<'a> {
    pub(super) fn parse(mode: CpuMode, body: &'a [u8], layout: &Layout) -> Option<Self> {
        let mut bytes = Bytes(body);
        let has = |bit: u64| layout.sample_type & bit != 0;
        let word = |bytes: &mut Bytes<'a>, bit: u64| if has(bit) { bytes.u64() } else { Some(0) };
        let identifier = word(&mut bytes, field::IDENTIFIER)?;
        let ip = word(&mut bytes, field::IP)?;
        let thread = word(&mut bytes, field::TID)?;
        let time = word(&mut bytes, field::TIME)?;
        word(&mut bytes, field::ADDR)?;
        let id = word(&mut bytes, field::ID)?;
        word(&mut bytes, field::STREAM_ID)?;
        let cpu = word(&mut bytes, field::CPU)? as u32;
        let period = word(&mut bytes, field::PERIOD)?;
        let counters =
            if has(field::READ) { Counters::parse(&mut bytes, layout.read_format)? } else { Counters::default() };
        let callchain = if has(field::CALLCHAIN) { counted(&mut bytes)? } else { &[] };
        let raw = if has(field::RAW) { raw(&mut bytes)? } else { &[] };
        if has(field::BRANCH_STACK) {
            skip_branches(&mut bytes, layout.branch_sample_type)?;
        }
        let (mut registers, mut is_32_bit) = (None, false);
        if has(field::REGS_USER) {
            let form = bytes.u64()?;
            if form != REGISTERS_NONE {
                let values = bytes.words(layout.user_registers.count_ones().into())?;
                (registers, is_32_bit) = (Registers::new(layout.user_registers, values), form != REGISTERS_64);
            }
        }
        let (stack, stack_limit) = if has(field::STACK_USER) { stack(&mut bytes)? } else { (&[][..], 0) };
        word(&mut bytes, field::WEIGHT | field::WEIGHT_STRUCT)?;
        word(&mut bytes, field::DATA_SRC)?;
        word(&mut bytes, field::TRANSACTION)?;
        if has(field::REGS_INTR) && bytes.u64()? != REGISTERS_NONE {
            bytes.words(layout.interrupted_registers.count_ones().into())?;
        }
        word(&mut bytes, field::PHYS_ADDR)?;
        let cgroup = word(&mut bytes, field::CGROUP)?;
        Some(Self {
            mode,
            id: if has(field::IDENTIFIER) { identifier } else { id },
            ip,
            pid: thread as u32,
            tid: (thread >> 32) as u32,
            time,
            cpu,
            period,
            counters,
            callchain,
            raw,
            registers: registers.filter(|_| !is_32_bit),
            is_32_bit,
            stack,
            stack_limit,
            cgroup,
        })
    }
}

fn counted<'a>(bytes: &mut Bytes<'a>) -> Option<&'a [[u8; 8]]> {
    let count = bytes.u64()?;
    bytes.words(count)
}

fn raw<'a>(bytes: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let size = bytes.take(4)?.first_chunk().map(|size| u32::from_le_bytes(*size))?;
    bytes.take(usize::try_from(size).ok()?)
}

/// The bytes that were copied, and how many were asked for.
fn stack<'a>(bytes: &mut Bytes<'a>) -> Option<(&'a [u8], u64)> {
    let size = bytes.u64()?;
    if size == 0 {
        return Some((&[], 0));
    }
    let copy = bytes.take(usize::try_from(size).ok()?)?;
    let copied = usize::try_from(bytes.u64()?).ok()?.min(copy.len());
    Some((&copy[..copied], size))
}

fn skip_branches(bytes: &mut Bytes<'_>, format: u64) -> Option<()> {
    let count = bytes.u64()?;
    if format & BRANCH_HW_INDEX != 0 {
        bytes.u64()?;
    }
    let of_each = if format & BRANCH_COUNTERS != 0 { 4 } else { 3 };
    bytes.words(count.checked_mul(of_each)?).map(drop)
}
