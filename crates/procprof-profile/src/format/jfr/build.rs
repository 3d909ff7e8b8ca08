//! Builds one profile from a recording's tables, with what its samples need of them.

use foldhash::HashMap;

use super::NAME;
use super::profiles::{EventRow, NO_THREAD, Sample};
use super::recording::{Key, Measure, NO_CLASS, Recording};
use crate::{
    Function, FunctionId, Label, Line, Location, LocationId, Mapping, MappingId, Meta, Nanos, Profile, ProfileBuilder,
    Result, StringId, waits,
};

/// The frame of a sample without a stack.
const NO_STACK: &str = "[no stack]";

pub(super) struct Builder<'r> {
    recording: &'r Recording,
    builder: ProfileBuilder,
    /// The location of each frame, once it is needed.
    locations: Vec<Option<LocationId>>,
    /// Few: a library or a part of the JVM each.
    mappings: Vec<(StringId, MappingId)>,
    functions: HashMap<StringId, FunctionId>,
    stack: Vec<LocationId>,
    labels: Vec<Label>,
}

impl<'r> Builder<'r> {
    pub(super) fn new(recording: &'r Recording, types: &[(&str, &str)]) -> Builder<'r> {
        Builder {
            recording,
            builder: ProfileBuilder::new(types),
            locations: vec![None; recording.frames.all.len()],
            mappings: Vec::new(),
            functions: HashMap::default(),
            stack: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Adds a sample with its first `width` values.
    pub(super) fn add(&mut self, sample: &Sample, width: usize) {
        let (mut stack, recording) = (std::mem::take(&mut self.stack), self.recording);
        stack.clear();
        if sample.key.class != NO_CLASS {
            stack.push(self.location(sample.key.class));
        }
        let frames = recording.stacks.get(sample.key.stack);
        stack.extend(frames.iter().map(|frame| self.location(*frame)));
        if frames.is_empty() {
            stack.push(self.builder.frame(NO_STACK));
        }
        let values = sample.values.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        self.set_labels(&sample.key);
        self.builder.sample(&stack, &values[..width], &self.labels);
        self.stack = stack;
    }

    fn set_labels(&mut self, key: &Key) {
        self.labels.clear();
        if let Some(wait) = key.wait {
            self.labels.push(self.builder.text_label(waits::LABEL, wait.name()));
        }
        if key.thread == NO_THREAD {
            return;
        }
        let thread = self.recording.threads.all[key.thread as usize];
        let name = self.recording.strings.get(thread.name).unwrap_or_default();
        if !name.is_empty() {
            let label = self.builder.text_label("thread", name);
            self.labels.push(label);
        }
        if thread.tid != 0 {
            let label = self.builder.number_label("tid", i64::from(thread.tid), "");
            self.labels.push(label);
        }
    }

    fn location(&mut self, frame: u32) -> LocationId {
        if let Some(location) = self.locations[frame as usize] {
            return location;
        }
        let recording = self.recording;
        let row = recording.frames.all[frame as usize];
        let function = *self.functions.entry(row.name).or_insert_with(|| {
            let name = self.builder.intern(recording.strings.get(row.name).unwrap_or_default());
            self.builder.function(Function { name, system_name: name, ..Function::default() })
        });
        let mapping = self.mapping(row.mapping);
        let line = Line { function, line: i64::from(row.line), column: 0 };
        let location = self.builder.location(Location { mapping, ..Location::default() }, &[line]);
        self.locations[frame as usize] = Some(location);
        location
    }

    fn mapping(&mut self, name: StringId) -> Option<MappingId> {
        let text = self.recording.strings.get(name).filter(|name| !name.is_empty())?;
        if let Some((_, known)) = self.mappings.iter().find(|(known, _)| *known == name) {
            return Some(*known);
        }
        let filename = self.builder.intern(text);
        let mapping = Mapping { filename, has_functions: true, has_line_numbers: true, ..Mapping::default() };
        let mapping = self.builder.mapping(mapping);
        self.mappings.push((name, mapping));
        Some(mapping)
    }

    /// Adds times, period and facts.
    ///
    /// # Errors
    /// As [`ProfileBuilder::finish`].
    pub(super) fn finish(mut self, row: &EventRow, measure: Measure, warnings: &mut Vec<String>) -> Result<Profile> {
        let recording = self.recording;
        let facts = &recording.facts;
        let (start, duration) = recording.window();
        self.builder.time(Nanos(start), Nanos(duration));
        let period = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
        match measure {
            Measure::Execution if facts.counter.is_empty() => {
                self.builder.period("cpu", "nanoseconds", period(facts.execution_period))
            }
            Measure::Execution => self.builder.period(&facts.counter, "count", period(facts.execution_period)),
            Measure::Wall => self.builder.period("wall", "nanoseconds", period(facts.wall_period)),
            Measure::AllocationBuffer if facts.allocation_period > 0 => {
                self.builder.period("space", "bytes", period(facts.allocation_period));
            }
            _ => {}
        }
        if measure == Measure::Execution && facts.guesses_period {
            warnings.push(format!(
                "{NAME}: cpu: no setting gives the period of jdk.ExecutionSample; times are by that of the JDK, 20 ms"
            ));
        }
        let mut meta = Meta {
            profile_type: row.kind.clone(),
            engine: if facts.is_async_profiler { "async-profiler" } else { "jfr" }.to_owned(),
            instance_version: facts.jvm_version.clone(),
            means: means(measure, facts.is_async_profiler).to_owned(),
            ..Meta::default()
        };
        if measure == Measure::Execution && facts.counter.is_empty() && !facts.is_async_profiler {
            meta.set_counts(Meta::JAVA_CODE);
        }
        let samples = &recording.samples[measure as usize];
        meta.truncated = Some(samples.cut).filter(|cut| *cut > 0);
        meta.lost = Some(facts.lost).filter(|lost| *lost > 0 && measure == Measure::CpuTime);
        if samples.bare > 0 {
            meta.more.insert("samples-without-stack".to_owned(), samples.bare.to_string());
        }
        if measure == Measure::AllocationSample && facts.allocated_before > 0 {
            meta.more.insert("bytes-allocated-before".to_owned(), facts.allocated_before.to_string());
        }
        for (key, value) in [("jvm", &facts.jvm), ("engine-version", &facts.profiler_version)] {
            if !value.is_empty() {
                meta.more.insert(key.to_owned(), value.clone());
            }
        }
        for fact in meta.to_comments() {
            self.builder.comment(&fact);
        }
        self.builder.finish()
    }
}

/// What the numbers of a measure mean, in a sentence.
fn means(measure: Measure, is_async_profiler: bool) -> &'static str {
    match measure {
        Measure::CpuTime => "CPU time of Java threads; garbage collector and compiler threads are not sampled",
        Measure::Execution if is_async_profiler => "CPU time, native code and the kernel included",
        Measure::Execution => "samples of threads that run Java code, in turns; not CPU time",
        Measure::Wall => "time of threads, running or not",
        Measure::AllocationSample | Measure::AllocationBuffer => "bytes allocated, estimated from samples",
        Measure::LiveObject => "sampled objects that were still alive; not scaled to all objects",
        Measure::Lock if is_async_profiler => "time that threads waited for locks of Java",
        Measure::Lock => "time that threads waited, by the label wait: for locks, idle for work, or for something else",
        Measure::NativeLock => "time that threads waited for locks of native code",
        Measure::NativeMemory => "memory from malloc, as sampled; in use is what nothing has freed",
        Measure::NativeMethod => "samples of threads that are in native methods, running or waiting",
        Measure::MethodTrace => "time of traced methods from call to return",
    }
}
