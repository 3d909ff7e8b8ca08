//! Puts names in place of the numbers of a chunk, and adds what it counts to the recording.

use foldhash::HashMap;

use super::chunk::Chunk;
use super::constants::Constants;
use super::counts::{self, Counts};
use super::cursor::Cursor;
use super::metadata::Unit;
use super::names::class_name;
use super::plan::SLOTS;
use super::recording::{Frame, Key, Measure, NO_CLASS, Recording, Thread};
use super::schema::{Kind, Pool, Schema};
use super::settings::Settings;
use super::{Limits, NAME, waits};
use crate::waits::Wait;
use crate::{Error, Result, StringId};

const UNKNOWN: &str = "[unknown]";
/// The mapping of frames that the JVM made.
const JVM: &str = "[jvm]";
const KERNEL: &str = "[kernel]";
/// The state of samples that async-profiler takes by CPU time; others are of its wall clock.
const BY_CPU_TIME: &str = "STATE_DEFAULT";

/// The stack of a constant, once looked up.
#[derive(Clone, Copy)]
struct Stack {
    place: u32,
    is_cut: bool,
}

/// Looks up what a chunk's numbers stand for, each once.
pub(super) struct Resolver<'c, 'r> {
    chunk: &'c Chunk<'c>,
    schema: &'c Schema,
    constants: &'c Constants,
    recording: &'r mut Recording,
    depth: usize,
    settings: Settings,
    /// Whether "Native" is a frame of a library; the JDK calls its native methods so.
    has_libraries: bool,
    stacks: HashMap<u64, Stack>,
    frames: HashMap<(u64, u32, u64), u32>,
    methods: HashMap<(u64, u64), (StringId, StringId)>,
    classes: HashMap<u64, StringId>,
    threads: HashMap<u64, u32>,
    states: HashMap<u64, bool>,
    stack: Vec<u32>,
}

/// Adds what a chunk counts to the recording.
///
/// # Errors
/// [`Error::TooLarge`] for a stack past the depth limit, and for names that are too large.
pub(super) fn resolve(
    chunk: &Chunk<'_>,
    schema: &Schema,
    constants: &Constants,
    counts: Counts,
    limits: &Limits,
    recording: &mut Recording,
) -> Result<()> {
    let settings = Settings::read(chunk, schema, constants, &counts.notes, &mut recording.facts);
    let mut resolver = Resolver {
        chunk,
        schema,
        constants,
        recording,
        depth: limits.depth,
        settings,
        has_libraries: schema.is_async_profiler,
        stacks: HashMap::default(),
        frames: HashMap::default(),
        methods: HashMap::default(),
        classes: HashMap::default(),
        threads: HashMap::default(),
        states: HashMap::default(),
        stack: Vec::new(),
    };
    resolver.add(counts)?;
    recording.times.push((chunk.start, chunk.start.saturating_add(chunk.duration)));
    Ok(())
}

impl Resolver<'_, '_> {
    fn add(&mut self, counts: Counts) -> Result<()> {
        let Counts { by_event, blocks, freed, lost, allocations, allocated, .. } = counts;
        self.recording.facts.lost = self.recording.facts.lost.saturating_add(lost);
        for address in freed {
            self.recording.blocks.remove(&address);
        }
        let (mut mallocs, mut noted) = (HashMap::default(), HashMap::default());
        for (event, sums) in self.schema.events.iter().zip(by_event) {
            // By number, so that the same file gives the same profile.
            let mut sums: Vec<(counts::Key, [u64; 2])> = sums.into_iter().collect();
            sums.sort_unstable_by_key(|(key, _)| *key);
            for (key, [count, value]) in sums {
                let nanos = match event.unit {
                    Unit::Ticks => self.chunk.nanos(value),
                    Unit::Nanos(each) => value.saturating_mul(u64::from(each)),
                };
                let (measure, value) = self.meaning(event.kind, key.2, count, value, nanos)?;
                let top = self.top_frame(event.kind, key.2)?;
                let wait = self.wait(event.kind, key)?;
                let place = self.sample(measure, key, (top, wait), [count, value])?;
                match event.kind {
                    Kind::Malloc => drop(mallocs.insert(key, place)),
                    Kind::AllocationSample if allocations.as_ref().is_some_and(|all| all.has_noted(key)) => {
                        noted.insert(key, place);
                    }
                    _ => {}
                }
            }
        }
        let kept =
            blocks.into_iter().filter_map(|(address, block)| Some((address, (*mallocs.get(&block.key)?, block.size))));
        self.recording.blocks.extend(kept);
        if let (Some(history), Some(allocations)) = (&mut self.recording.history, allocations) {
            let (threads, all) = (&self.threads, &self.recording.threads.all);
            // It has no number of the kernel.
            let is_virtual = |number| threads.get(&number).is_some_and(|place| all[*place as usize].tid == 0);
            history.add(allocations, &noted, allocated, is_virtual);
        }
        Ok(())
    }

    /// What a sum counts towards, and how much it is.
    fn meaning(&mut self, kind: Kind, state: u64, count: u64, value: u64, nanos: u64) -> Result<(Measure, u64)> {
        Ok(match kind {
            Kind::CpuTime => (Measure::CpuTime, nanos),
            Kind::Execution if self.is_wall(state) => {
                (Measure::Wall, self.settings.wall_time(count, &mut self.recording.facts))
            }
            Kind::Execution => (Measure::Execution, self.settings.execution_time(count, &mut self.recording.facts)),
            Kind::NativeMethod => (Measure::NativeMethod, self.settings.native_time(count)),
            Kind::Wall => (Measure::Wall, self.settings.wall_time(count, &mut self.recording.facts)),
            Kind::AllocationSample => (Measure::AllocationSample, value),
            Kind::AllocationBuffer => (Measure::AllocationBuffer, value),
            Kind::LiveObject => (Measure::LiveObject, value),
            Kind::Monitor | Kind::Park => (Measure::Lock, nanos),
            Kind::MethodTrace => (Measure::MethodTrace, nanos),
            Kind::NativeLock => (Measure::NativeLock, nanos),
            Kind::Malloc | Kind::Free | Kind::Allocated | Kind::Name | Kind::Setting | Kind::Jvm | Kind::Lost => {
                (Measure::NativeMemory, value)
            }
        })
    }

    /// Whether samples in that state are of async-profiler's wall clock.
    fn is_wall(&mut self, state: u64) -> bool {
        if !self.schema.is_async_profiler {
            return false;
        }
        if let Some(is_wall) = self.settings.is_wall {
            return is_wall;
        }
        let (chunk, schema, constants) = (self.chunk, self.schema, self.constants);
        let by_cpu =
            || constants.text_of(chunk, schema, Pool::ThreadState, state).is_some_and(|name| name == BY_CPU_TIME);
        !*self.states.entry(state).or_insert_with(by_cpu)
    }

    /// The frame on top of a stack that stands for a class or a traced method.
    fn top_frame(&mut self, kind: Kind, number: u64) -> Result<u32> {
        match kind {
            _ if number == 0 => Ok(NO_CLASS),
            Kind::Execution => Ok(NO_CLASS),
            Kind::MethodTrace => self.frame(number, 0, 0),
            _ => self.class_frame(number),
        }
    }

    /// The kind of wait of a contended monitor or a parked thread.
    fn wait(&mut self, kind: Kind, (stack, _, class): counts::Key) -> Result<Option<Wait>> {
        match kind {
            Kind::Monitor => return Ok(Some(Wait::Lock)),
            Kind::Park => {}
            _ => return Ok(None),
        }
        let class = self.class(class)?;
        // async-profiler records no park but of locks, and does not write their classes.
        if self.schema.is_async_profiler && class == StringId(0) {
            return Ok(Some(Wait::Lock));
        }
        let place = self.stack(stack)?.place;
        let recording = &*self.recording;
        let name = |frame: &u32| recording.strings.get(recording.frames.all[*frame as usize].name).unwrap_or_default();
        let class = recording.strings.get(class).unwrap_or_default();
        Ok(Some(waits::of_park(class, recording.stacks.get(place).iter().map(name))))
    }

    /// Adds to a sample; its position among the measure's.
    fn sample(
        &mut self,
        measure: Measure,
        (stack, thread, _): counts::Key,
        (class, wait): (u32, Option<Wait>),
        values: [u64; 2],
    ) -> Result<u32> {
        let stack = self.stack(stack)?;
        let thread = self.thread(thread)?;
        let samples = &mut self.recording.samples[measure as usize];
        if self.recording.stacks.get(stack.place).is_empty() {
            samples.bare = samples.bare.saturating_add(values[0]);
        }
        if stack.is_cut {
            samples.cut = samples.cut.saturating_add(values[0]);
        }
        Ok(self.recording.add(measure, Key { stack: stack.place, thread, class, wait }, values))
    }

    fn get(&self, pool: Pool, number: u64) -> Option<[u64; SLOTS]> {
        self.constants.get(self.chunk, self.schema, pool, number)
    }

    fn text_of(&self, pool: Pool, number: u64) -> Option<String> {
        self.constants.text_of(self.chunk, self.schema, pool, number)
    }

    fn stack(&mut self, number: u64) -> Result<Stack> {
        if let Some(stack) = self.stacks.get(&number) {
            return Ok(*stack);
        }
        let slots = if self.schema.has_stacks() { self.get(Pool::StackTrace, number) } else { None };
        let mut frames = std::mem::take(&mut self.stack);
        frames.clear();
        if let Some(slots) = slots {
            self.read_frames(slots[1], &mut frames)?;
        }
        let place = self.recording.stacks.place(&frames)?;
        self.stack = frames;
        let stack = Stack { place, is_cut: slots.is_some_and(|slots| slots[0] != 0) };
        self.stacks.insert(number, stack);
        Ok(stack)
    }

    fn read_frames(&mut self, place: u64, frames: &mut Vec<u32>) -> Result<()> {
        let mut cursor = Cursor::new(self.chunk.bytes, usize::try_from(place).unwrap_or(usize::MAX));
        let mut slots = [0; SLOTS];
        for _ in 0..cursor.number().unwrap_or(0) {
            if self.schema.frame.read(&mut cursor, &mut slots).is_none() {
                break;
            }
            if frames.len() == self.depth {
                return Err(Error::TooLarge { format: NAME, what: "frames of a stack", limit: self.depth as u64 });
            }
            // Lines below 0 stand for none.
            let line = u32::try_from(slots[1]).ok().filter(|line| *line <= i32::MAX as u32).unwrap_or(0);
            frames.push(self.frame(slots[0], line, slots[2])?);
        }
        Ok(())
    }

    #[inline]
    fn frame(&mut self, method: u64, line: u32, kind: u64) -> Result<u32> {
        if let Some(frame) = self.frames.get(&(method, line, kind)) {
            return Ok(*frame);
        }
        let (name, mapping) = self.method(method, kind)?;
        let frame = self.recording.frames.place(Frame { name, mapping, line });
        self.frames.insert((method, line, kind), frame);
        Ok(frame)
    }

    /// The name of a method and where it is from.
    fn method(&mut self, method: u64, kind: u64) -> Result<(StringId, StringId)> {
        if let Some(known) = self.methods.get(&(method, kind)) {
            return Ok(*known);
        }
        let kind_name = self.text_of(Pool::FrameType, kind).unwrap_or_default();
        let slots = self.get(Pool::Method, method).unwrap_or_default();
        let name = self.text_of(Pool::Symbol, slots[1]).unwrap_or_default();
        let (name, mapping) = match kind_name.as_str() {
            "Kernel" => (name, KERNEL.to_owned()),
            // A native frame's class is its library.
            "Native" | "C++" if self.has_libraries => (name, self.class_text(slots[0])),
            _ => {
                let class = self.class(slots[0])?;
                let class = self.recording.strings.get(class).unwrap_or_default();
                let separator = if class.is_empty() || name.is_empty() { "" } else { "." };
                (format!("{class}{separator}{name}"), JVM.to_owned())
            }
        };
        let name = self.recording.intern(if name.is_empty() { UNKNOWN } else { &name })?;
        let known = (name, self.recording.intern(&mapping)?);
        self.methods.insert((method, kind), known);
        Ok(known)
    }

    fn class_text(&self, class: u64) -> String {
        self.text_of_symbol(self.get(Pool::Class, class))
    }

    fn text_of_symbol(&self, slots: Option<[u64; SLOTS]>) -> String {
        slots.and_then(|slots| self.text_of(Pool::Symbol, slots[0])).unwrap_or_default()
    }

    fn class(&mut self, class: u64) -> Result<StringId> {
        if let Some(name) = self.classes.get(&class) {
            return Ok(*name);
        }
        let name = self.recording.intern(&class_name(&self.class_text(class)))?;
        self.classes.insert(class, name);
        Ok(name)
    }

    /// The frame that stands for a class behind the leaf.
    fn class_frame(&mut self, class: u64) -> Result<u32> {
        let name = self.class(class)?;
        if name == StringId(0) {
            return Ok(NO_CLASS);
        }
        let mapping = self.recording.intern(JVM)?;
        Ok(self.recording.frames.place(Frame { name, mapping, line: 0 }))
    }

    fn thread(&mut self, number: u64) -> Result<u32> {
        if let Some(thread) = self.threads.get(&number) {
            return Ok(*thread);
        }
        let slots = self.get(Pool::Thread, number);
        let text = |place: u64| self.constants.text(self.chunk, self.schema, place).filter(|name| !name.is_empty());
        let name = slots.and_then(|slots| text(slots[2]).or_else(|| text(slots[0]))).unwrap_or_default();
        let tid = slots.and_then(|slots| u32::try_from(slots[1]).ok()).unwrap_or(0);
        let name = self.recording.intern(&name)?;
        let thread = self.recording.threads.place(Thread { name, tid });
        self.threads.insert(number, thread);
        Ok(thread)
    }
}
