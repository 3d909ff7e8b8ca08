//! How to read what a chunk has: plans for the events and constants that profiles are made of, worked out from its
//! metadata.

use foldhash::HashMap;

use super::metadata::{Metadata, Unit};
use super::plan::{Plan, Planner};

/// What an event is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A sample of a running thread; async-profiler's wall clock mode has them, too.
    Execution,
    CpuTime,
    Wall,
    NativeMethod,
    AllocationSample,
    /// A new thread-local buffer, or an object outside one.
    AllocationBuffer,
    LiveObject,
    /// A contended entry into a monitor.
    Monitor,
    /// A parked thread: a wait for a lock, for work, or for something else.
    Park,
    NativeLock,
    /// A call of a method that is traced.
    MethodTrace,
    Malloc,
    Free,
    /// What a thread has allocated since it started.
    Allocated,
    /// The name of a recording that the chunk belongs to.
    Name,
    Setting,
    Jvm,
    Lost,
}

/// Slots of an event's plan, in the order of [`EventRow::fields`].
pub(super) const THREAD: usize = 0;
pub(super) const STACK: usize = 1;
/// The class of an object, the state of a thread, or a method.
pub(super) const CLASS: usize = 2;
pub(super) const VALUE: usize = 3;
/// Another value, whose meaning is the kind's.
pub(super) const OTHER: usize = 4;
pub(super) const ADDRESS: usize = 5;

/// A kind of event that is read.
struct EventRow {
    name: &'static str,
    kind: Kind,
    fields: [&'static str; 6],
}

const fn row(name: &'static str, kind: Kind, fields: [&'static str; 6]) -> EventRow {
    EventRow { name, kind, fields }
}

const NONE: &str = "";

const EVENTS: &[EventRow] = &[
    row("jdk.ExecutionSample", Kind::Execution, ["sampledThread", "stackTrace", "state", NONE, NONE, NONE]),
    row("jdk.CPUTimeSample", Kind::CpuTime, ["eventThread", "stackTrace", NONE, "samplingPeriod", NONE, NONE]),
    row("profiler.WallClockSample", Kind::Wall, ["sampledThread", "stackTrace", NONE, "samples", NONE, NONE]),
    row("jdk.NativeMethodSample", Kind::NativeMethod, ["sampledThread", "stackTrace", NONE, NONE, NONE, NONE]),
    row(
        "jdk.ObjectAllocationSample",
        Kind::AllocationSample,
        ["eventThread", "stackTrace", "objectClass", "weight", "startTime", NONE],
    ),
    row(
        "jdk.ObjectAllocationInNewTLAB",
        Kind::AllocationBuffer,
        ["eventThread", "stackTrace", "objectClass", "tlabSize", "allocationSize", NONE],
    ),
    row(
        "jdk.ObjectAllocationOutsideTLAB",
        Kind::AllocationBuffer,
        ["eventThread", "stackTrace", "objectClass", NONE, "allocationSize", NONE],
    ),
    row(
        "profiler.LiveObject",
        Kind::LiveObject,
        ["eventThread", "stackTrace", "objectClass", "allocationSize", NONE, NONE],
    ),
    row("jdk.JavaMonitorEnter", Kind::Monitor, ["eventThread", "stackTrace", "monitorClass", "duration", NONE, NONE]),
    row("jdk.ThreadPark", Kind::Park, ["eventThread", "stackTrace", "parkedClass", "duration", NONE, NONE]),
    row("profiler.NativeLock", Kind::NativeLock, ["eventThread", "stackTrace", NONE, "duration", NONE, NONE]),
    row("jdk.MethodTrace", Kind::MethodTrace, ["eventThread", "stackTrace", "method", "duration", NONE, NONE]),
    row("profiler.Malloc", Kind::Malloc, ["eventThread", "stackTrace", NONE, "size", NONE, "address"]),
    row("profiler.Free", Kind::Free, [NONE, NONE, NONE, NONE, NONE, "address"]),
    row("jdk.ThreadAllocationStatistics", Kind::Allocated, ["thread", NONE, NONE, "allocated", "startTime", NONE]),
    row("jdk.ActiveRecording", Kind::Name, [NONE, "name", NONE, NONE, NONE, NONE]),
    // Of which event, the setting's name, its value.
    row("jdk.ActiveSetting", Kind::Setting, ["id", "name", "value", NONE, NONE, NONE]),
    row("jdk.JVMInformation", Kind::Jvm, [NONE, "jvmName", "jvmVersion", NONE, NONE, NONE]),
    row("jdk.CPUTimeSamplesLost", Kind::Lost, [NONE, NONE, NONE, "lostSamples", NONE, NONE]),
];

/// How to read events of one type.
#[derive(Debug)]
pub(super) struct EventPlan {
    pub(super) id: u64,
    pub(super) kind: Kind,
    pub(super) plan: Plan,
    /// What the time in the slot `VALUE` counts.
    pub(super) unit: Unit,
}

/// Constants that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    StackTrace,
    Method,
    Class,
    Symbol,
    Thread,
    FrameType,
    ThreadState,
    Text,
}

/// How many pools are kept.
pub(super) const POOLS: usize = 8;

/// The class of each pool and the fields that are taken; the slot of a field is its position.
const POOL_ROWS: [(Pool, &str, &[&str]); POOLS] = [
    (Pool::StackTrace, "jdk.types.StackTrace", &["truncated", "frames"]),
    (Pool::Method, "jdk.types.Method", &["type", "name"]),
    (Pool::Class, "java.lang.Class", &["name"]),
    (Pool::Symbol, "jdk.types.Symbol", &["string"]),
    (Pool::Thread, "java.lang.Thread", &["osName", "osThreadId", "javaName"]),
    (Pool::FrameType, "jdk.types.FrameType", &["description"]),
    (Pool::ThreadState, "jdk.types.ThreadState", &["name"]),
    (Pool::Text, "java.lang.String", &["text"]),
];

const FRAME: &[&str] = &["method", "lineNumber", "type"];

/// How to read a chunk.
#[derive(Debug)]
pub(super) struct Schema {
    metadata: Metadata,
    pub(super) events: Vec<EventPlan>,
    /// The class of each kept pool, if it has one.
    classes: [Option<u64>; POOLS],
    kept: [Plan; POOLS],
    pub(super) frame: Plan,
    skipped: HashMap<u64, Plan>,
    steps_left: usize,
    /// Whether async-profiler wrote it.
    pub(super) is_async_profiler: bool,
}

impl Schema {
    /// Plans for these metadata, read from that many bytes. What a file's classes do not allow is not planned, and so
    /// not read.
    pub(super) fn new(metadata: Metadata, bytes: usize) -> Schema {
        let mut planner = Planner::new(&metadata, bytes);
        let mut events = Vec::new();
        for row in EVENTS {
            let Some(id) = metadata.class_named(row.name) else { continue };
            let Some(plan) = planner.plan(id, &row.fields) else { continue };
            let unit = unit(&metadata, id, row.fields[VALUE]);
            events.push(EventPlan { id, kind: row.kind, plan: plan.without_rest(), unit });
        }
        let classes = POOL_ROWS.map(|(_, name, _)| metadata.class_named(name));
        let kept = std::array::from_fn(|pool| {
            let fields = POOL_ROWS[pool].2;
            classes[pool].and_then(|class| planner.plan(class, fields)).unwrap_or_default()
        });
        let frame = metadata
            .class_named("jdk.types.StackFrame")
            .and_then(|class| planner.plan(class, FRAME))
            .unwrap_or_default();
        let steps_left = planner.steps_left();
        let is_async_profiler = metadata.classes().any(|(_, name)| name.starts_with("profiler."));
        Schema { metadata, events, classes, kept, frame, skipped: HashMap::default(), steps_left, is_async_profiler }
    }

    /// The pool with the constants of that class, if they are kept.
    pub(super) fn pool(&self, class: u64) -> Option<Pool> {
        let index = self.classes.iter().position(|known| *known == Some(class))?;
        // What cannot be planned with its fields is passed over.
        POOL_ROWS.get(index).map(|(pool, ..)| *pool).filter(|_| (0..3).any(|slot| self.kept[index].fills(slot)))
    }

    pub(super) fn plan(&self, pool: Pool) -> &Plan {
        &self.kept[pool as usize]
    }

    /// Whether frames have a method, a line and a type, and stacks have frames.
    pub(super) fn has_stacks(&self) -> bool {
        (0..FRAME.len()).all(|slot| self.frame.fills(slot)) && self.plan(Pool::StackTrace).fills(1)
    }

    /// How to pass over constants of a class; `None` if the metadata have no such class.
    pub(super) fn skipping(&mut self, class: u64) -> Option<&Plan> {
        if !self.skipped.contains_key(&class) {
            let mut planner = Planner::new(&self.metadata, self.steps_left);
            let plan = planner.plan(class, &[])?;
            self.steps_left = planner.steps_left();
            self.skipped.insert(class, plan);
        }
        self.skipped.get(&class)
    }
}

fn unit(metadata: &Metadata, class: u64, field: &str) -> Unit {
    let fields = metadata.class(class).map_or(&[][..], |(_, fields)| fields);
    fields.iter().find(|candidate| metadata.text(candidate.name) == field).map_or(Unit::Ticks, |field| field.unit)
}
