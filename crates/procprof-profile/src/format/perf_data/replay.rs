//! The records of a recording, one after the other, and the stacks of its samples.

use foldhash::HashMap;

use super::attribute::Attribute;
use super::file::File;
use super::processes::{NameId, Processes};
use super::records::Ordered;
use super::{CodeFiles, NAME, StackEnd};
use crate::format::Limits;
use crate::perf_event::{CONTEXT_KERNEL, CONTEXT_MAX, CONTEXT_USER, CodeMappings, CpuMode, Record, Sample};
use crate::{Error, Result};

/// The row of callers in a stack that was not unwound.
const NOT_UNWOUND: &str = "[callers in the copied stack, not unwound]";
/// The row of callers beyond what was copied.
const CUT: &str = "[callers beyond the copied stack]";
/// The row of user code of 32 bits.
const CODE_OF_32_BITS: &str = "[32-bit code, not unwound]";

/// How the kernel's mapping is called; behind it, the symbol at its first address.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Frame {
    /// Code of a mapping.
    Code(u32, u64),
    /// Code of the kernel.
    Kernel(u64),
    /// An address in no code that is known.
    Nowhere(u64),
    /// A row that stands for what is not known.
    Note(&'static str),
}

/// Whose sample it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) process: Option<NameId>,
    pub(super) thread: Option<NameId>,
}

/// Samples, and the sum of their periods.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    pub(super) samples: u64,
    pub(super) period: u64,
}

/// What has happened to samples and records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Statistics {
    pub(super) lost: u64,
    pub(super) throttled: u64,
    pub(super) malformed: u64,
    /// Copied stacks, and how they ended.
    pub(super) stacks: u64,
    pub(super) to_root: u64,
    pub(super) cut: u64,
    pub(super) deep: u64,
    pub(super) broken: u64,
    pub(super) not_unwound: u64,
    pub(super) code_of_32_bits: u64,
    /// Values of counters of no known event.
    pub(super) unknown_counters: u64,
}

/// All samples of a recording.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) processes: Processes,
    pub(super) mappings: CodeMappings,
    pub(super) frames: Vec<Frame>,
    by_frame: HashMap<Frame, u32>,
    stacks: HashMap<Box<[u32]>, u32>,
    /// What the samples of each event add up to, by owner and stack.
    pub(super) events: Vec<HashMap<(Owner, u32), Amount>>,
    pub(super) statistics: Statistics,
    /// The latest value of each counter, by its id and, where each thread has its own, by the thread.
    counters: HashMap<(u64, u32), u64>,
    /// The times of the first and the last sample.
    pub(super) times: Option<(u64, u64)>,
    /// The symbol at the kernel's first address, and that.
    pub(super) kernel: Option<(String, u64)>,
    /// The frames of the stack at hand, and room for their numbers and for addresses.
    stack: Vec<Frame>,
    numbers: Vec<u32>,
    addresses: Vec<u64>,
}

/// Reads all records.
pub(super) fn replay(
    file: &File<'_>,
    records: Ordered,
    limits: &Limits,
    files: &mut dyn CodeFiles,
) -> Result<Replayed> {
    let mut replayed = Replayed {
        processes: Processes::new(file.data.len()),
        mappings: CodeMappings::default(),
        frames: Vec::new(),
        by_frame: HashMap::default(),
        stacks: HashMap::default(),
        events: file.attributes.iter().map(|_| HashMap::default()).collect(),
        statistics: Statistics::default(),
        counters: HashMap::default(),
        times: None,
        kernel: None,
        stack: Vec::new(),
        numbers: Vec::new(),
        addresses: Vec::new(),
    };
    for (time, event, header, body) in records.iter(file) {
        match Record::parse(header, body, &file.layout(event)) {
            Some(Record::Sample(sample)) => replayed.sample(file, event, time, &sample, limits, files)?,
            Some(record) => replayed.apply(&record, file),
            None => replayed.statistics.malformed += 1,
        }
    }
    // Only numbers are needed from here on.
    replayed.by_frame = HashMap::default();
    replayed.counters = HashMap::default();
    Ok(replayed)
}

impl Replayed {
    fn apply(&mut self, record: &Record<'_>, file: &File<'_>) {
        match record {
            Record::Mapped(mapped) if mapped.mode == CpuMode::User && mapped.is_code => {
                self.processes.mapped(mapped, &file.features);
            }
            Record::Mapped(mapped) if mapped.mode == CpuMode::Kernel && self.kernel.is_none() => {
                if let Some(symbol) = mapped.path.strip_prefix(KERNEL) {
                    self.kernel = Some((String::from_utf8_lossy(symbol).into_owned(), mapped.start));
                }
            }
            Record::Named { pid, tid, name, is_exec } => self.processes.named(*pid, *tid, name, *is_exec),
            Record::Forked(task) => self.processes.forked(*task),
            Record::Lost { records } => self.statistics.lost = self.statistics.lost.saturating_add(*records),
            Record::Throttled => self.statistics.throttled += 1,
            Record::Mapped(_)
            | Record::Exited(_)
            | Record::Switched(_)
            | Record::Cgroup { .. }
            | Record::Sample(_)
            | Record::Other(_) => {}
        }
    }

    fn sample(
        &mut self,
        file: &File<'_>,
        event: usize,
        time: u64,
        sample: &Sample<'_>,
        limits: &Limits,
        files: &mut dyn CodeFiles,
    ) -> Result<()> {
        let Some(attribute) = file.attributes.get(event) else { return Ok(()) };
        self.stack.clear();
        let is_copied = attribute.copies_stacks() && (sample.registers.is_some() || sample.is_32_bit);
        self.add_chain(sample, is_copied);
        if is_copied {
            self.add_copied(sample, files);
        }
        if self.stack.len() > limits.depth {
            let limit = limits.depth as u64;
            return Err(Error::TooLarge { format: NAME, what: "frames of a stack", limit });
        }
        let stack = self.stack_id();
        let (process, thread) = self.processes.names(sample.pid, sample.tid);
        let owner = Owner { pid: sample.pid, tid: sample.tid, process, thread };
        if attribute.reads_counters() {
            self.add_counters(file, attribute, sample, (owner, stack));
        } else {
            let period = attribute.fixed_period().unwrap_or(sample.period);
            let period = if sample.period > 0 { sample.period } else { period };
            self.add(event, (owner, stack), period);
        }
        if time > 0 {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
        Ok(())
    }

    fn add(&mut self, event: usize, place: (Owner, u32), period: u64) {
        let amount = self.events[event].entry(place).or_default();
        amount.samples += 1;
        amount.period = amount.period.saturating_add(period);
    }

    /// Adds a sample to each event of a group whose counter has counted since the sample before, as `perf` does.
    fn add_counters(&mut self, file: &File<'_>, attribute: &Attribute, sample: &Sample<'_>, place: (Owner, u32)) {
        let thread = if attribute.has_counters_per_thread() { sample.tid } else { 0 };
        for (id, value) in sample.counters.iter() {
            let Some(event) = file.event_with_id(id) else {
                self.statistics.unknown_counters += 1;
                continue;
            };
            let before = self.counters.insert((id, thread), value).unwrap_or(0);
            if value != before {
                self.add(event, place, value.wrapping_sub(before));
            }
        }
    }

    /// Adds the call chain that the kernel has written, without its user part where the stack is copied; the
    /// interrupted instruction where there is no chain.
    fn add_chain(&mut self, sample: &Sample<'_>, is_copied: bool) {
        let (mut mode, mut depth) = (sample.mode, 0);
        let leaf = [sample.ip.to_le_bytes()];
        let chain = if sample.callchain.is_empty() { &leaf[..] } else { sample.callchain };
        for word in chain {
            let address = u64::from_le_bytes(*word);
            if address >= CONTEXT_MAX {
                depth = 0;
                mode = match address {
                    CONTEXT_KERNEL => CpuMode::Kernel,
                    CONTEXT_USER => CpuMode::User,
                    _ => CpuMode::Other,
                };
                continue;
            }
            // Behind the first, addresses are where calls return to.
            let address = address.wrapping_sub(u64::from(depth > 0));
            depth += 1;
            let frame = match mode {
                CpuMode::User if is_copied => continue,
                CpuMode::User => self.code_frame(sample.pid, address),
                CpuMode::Kernel => Frame::Kernel(address),
                CpuMode::Other => Frame::Nowhere(address),
            };
            self.stack.push(frame);
        }
    }

    /// Adds the frames of a copied stack, and counts how it ended.
    fn add_copied(&mut self, sample: &Sample<'_>, files: &mut dyn CodeFiles) {
        if sample.is_32_bit {
            self.statistics.code_of_32_bits += 1;
            self.stack.push(Frame::Note(CODE_OF_32_BITS));
            return;
        }
        let mut addresses = std::mem::take(&mut self.addresses);
        addresses.clear();
        let code = self.processes.code(sample.pid);
        let end = code.map_or(StackEnd::Broken, |code| files.unwind(code, sample, &mut addresses));
        if addresses.is_empty() && sample.mode == CpuMode::User {
            addresses.push(sample.ip);
        }
        for address in &addresses {
            let frame = self.code_frame(sample.pid, *address);
            self.stack.push(frame);
        }
        self.addresses = addresses;
        let statistics = &mut self.statistics;
        statistics.stacks += 1;
        let (count, note) = match end {
            StackEnd::Root => (&mut statistics.to_root, None),
            StackEnd::Cut => (&mut statistics.cut, Some(CUT)),
            StackEnd::Deep => (&mut statistics.deep, Some(CUT)),
            StackEnd::Broken => (&mut statistics.broken, None),
            StackEnd::NotUnwound => (&mut statistics.not_unwound, Some(NOT_UNWOUND)),
        };
        *count += 1;
        self.stack.extend(note.map(Frame::Note));
    }

    fn code_frame(&mut self, pid: u32, address: u64) -> Frame {
        match self.processes.code(pid).and_then(|code| code.space.find(address)) {
            Some(mapped) => {
                let (number, address) = self.mappings.place(mapped, address);
                Frame::Code(number, address)
            }
            None => Frame::Nowhere(address),
        }
    }

    /// The number of the stack at hand.
    fn stack_id(&mut self) -> u32 {
        self.numbers.clear();
        for frame in &self.stack {
            let number = *self.by_frame.entry(*frame).or_insert_with(|| {
                self.frames.push(*frame);
                self.frames.len() as u32 - 1
            });
            self.numbers.push(number);
        }
        if let Some(stack) = self.stacks.get(&*self.numbers) {
            return *stack;
        }
        let number = self.stacks.len() as u32;
        self.stacks.insert(self.numbers.as_slice().into(), number);
        number
    }

    /// The frames of all stacks by number, leaf first.
    pub(super) fn stacks(&self) -> Vec<&[u32]> {
        let mut by_number = vec![&[][..]; self.stacks.len()];
        for (frames, number) in &self.stacks {
            by_number[*number as usize] = frames;
        }
        by_number
    }
}
