//! Errors of the agent, with the facts a caller needs to act on them.

use crate::options::CpuEngine;
use std::time::SystemTime;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A sampling rate outside 1 to [`crate::MAX_HZ`].
    #[error("frequency {hz}: expected 1 to {} samples a second", crate::options::MAX_HZ)]
    Frequency {
        /// The requested rate, samples per second.
        hz: u32,
    },
    /// Another rate is being sampled at, or by another engine; one process has one sampler.
    #[error(
        "CPU is being sampled at {hz} Hz by {owner} {}; ask for frequency={hz} to share it{}",
        until_text(.until), engine_text(*.engine)
    )]
    Busy {
        /// The rate that is running.
        hz: u32,
        /// Its engine.
        engine: CpuEngine,
        /// The client that requested it.
        owner: String,
        /// When it ends; `None` when it runs until stopped.
        until: Option<SystemTime>,
    },
    /// Wall time is being captured already.
    #[error("wall time is being captured by {owner} {}", until_text(&Some(*.until)))]
    WallBusy {
        /// The client that requested it.
        owner: String,
        /// When it ends.
        until: SystemTime,
    },
    /// Growth of the heap is being measured already.
    #[error("growth is being measured by {owner} {}", until_text(&Some(*.until)))]
    GrowthBusy {
        /// The client that requested it.
        owner: String,
        /// When it ends.
        until: SystemTime,
    },
    /// The kernel, its settings or a filter refuse perf events, and no other engine was permitted.
    #[error("perf events: {why}; engine=auto takes what is permitted")]
    PerfRefused {
        /// The system's reason.
        why: String,
    },
    /// Too many captures at once.
    #[error("{limit} CPU captures are running already")]
    TooManyCaptures {
        /// How many may run at once.
        limit: usize,
    },
    /// This process is a fork of the one in which the capture or the agent was started.
    #[error(
        "this process was forked from process {parent}, where the profiler was started; start an agent of its own here"
    )]
    Forked {
        /// The process that started it.
        parent: u32,
    },
    /// The agent was stopped while the operation ran.
    #[error("the agent was stopped")]
    Stopped,
    /// The client closed its connection while the operation ran, so this error reaches no client.
    #[error("the client has left")]
    ClientLeft,
    /// A capture might not fit below a limit of the process's memory.
    #[error(
        "a capture may need {} MiB, and {} MiB are left below the limit ({limit})",
        needed.div_ceil(1 << 20), left >> 20
    )]
    NoRoom {
        /// The limit, as a shell shows it.
        limit: &'static str,
        /// Bytes that are left below it.
        left: u64,
        /// Bytes that the capture may take.
        needed: u64,
    },
    /// Naming addresses might take more memory than a limit of the process's control groups leaves.
    #[error(
        "naming addresses may take {} MiB, and {} MiB are left below {}",
        needed.div_ceil(1 << 20), left >> 20, file.display()
    )]
    NoRoomForNames {
        /// The file that states the limit.
        file: std::path::PathBuf,
        /// Bytes that are left below it.
        left: u64,
        /// Bytes that it may take.
        needed: u64,
    },
    /// The process's allocator had no memory left while the operation ran.
    #[error("the process has no memory left; the capture was given up")]
    OutOfMemory,
    /// This operating system has not what the operation needs.
    #[error("{what}: this build of procprof-agent captures on Linux only")]
    Unsupported {
        /// The refused operation.
        what: &'static str,
    },
    /// A call of the operating system failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// jemalloc was not started with profiling.
    #[error("{}", heap_unavailable(.variable, *.compiled_in, .hint))]
    HeapUnavailable {
        /// The environment variable this process's jemalloc reads.
        variable: &'static str,
        /// Whether this jemalloc was built with profiling at all.
        compiled_in: bool,
        /// The current values of such variables, as an addition to the sentence; may be empty.
        hint: String,
    },
    /// No jemalloc was named in [`crate::Config`].
    #[error(
        "heap profiles need jemalloc as this process's allocator, named in Config::jemalloc, or SampledAlloc (feature \
         heap) around any other"
    )]
    NoJemalloc,
    /// jemalloc keeps no totals of all allocations.
    #[error("allocation totals are off in this process's jemalloc: start it with {variable}=prof:true,prof_accum:true")]
    NoTotals {
        /// The environment variable this process's jemalloc reads.
        variable: &'static str,
    },
    /// jemalloc refused a control.
    #[error("jemalloc control {name}: {source}")]
    Mallctl {
        /// The control.
        name: &'static str,
        /// Its reason.
        source: std::io::Error,
    },
    /// A heap dump larger than [`crate::MAX_DUMP_BYTES`].
    #[error("heap dump of {bytes} bytes: at most {} are read", crate::options::MAX_DUMP_BYTES)]
    DumpTooLarge {
        /// Its size.
        bytes: u64,
    },
    /// jemalloc has no prefix for files (`prof_prefix`), and so writes none by itself.
    #[error("this process's jemalloc writes no dumps by itself")]
    NoDumpFiles,
    /// No dump file of that name.
    #[error("no heap dump {name:?}")]
    NoSuchDumpFile {
        /// The requested name.
        name: String,
    },
    /// jemalloc is still writing this file, or has left it unfinished.
    #[error("heap dump {name:?} is not written to its end")]
    DumpFileUnfinished {
        /// The file.
        name: String,
    },
    /// The configuration can't be used.
    #[error("configuration: {what}")]
    Config {
        /// The reason.
        what: String,
    },
    /// Nothing that is loaded calls the C library in a way that could be followed.
    #[error(
        "waits for locks can't be seen: nothing in this program imports syscall or pthread_mutex_lock from the C \
         library (is it statically linked?)"
    )]
    NoLockHooks,
    /// Waits for locks are not being recorded.
    #[error(
        "waits for locks are not recorded: ask for ?seconds=N, or switch it on by POST /debug/pprof/contention/enable"
    )]
    ContentionOff,
    /// A profile could not be built or encoded.
    #[error("build the profile: {0}")]
    Profile(#[from] procprof_profile::Error),
    /// The symbols found do not fit into a profile.
    #[cfg(all(feature = "symbolize", target_os = "linux"))]
    #[error("symbolize: {0}")]
    Symbolize(#[from] procprof_symbolize::Error),
}

fn until_text(until: &Option<SystemTime>) -> String {
    match until.map(|end| end.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()) {
        Some(end) => format!("until {}", crate::moment::utc_text(end)),
        None => "continuously".to_owned(),
    }
}

fn engine_text(engine: CpuEngine) -> String {
    if engine == CpuEngine::Auto { String::new() } else { format!(" (engine={} or auto)", engine.name()) }
}

fn heap_unavailable(variable: &str, compiled_in: bool, hint: &str) -> String {
    if !compiled_in {
        return "heap profiling is not built into this process's jemalloc (build it with --enable-prof)".to_owned();
    }
    format!("heap profiling is off in this process: start it with {variable}=prof:true{hint}")
}
