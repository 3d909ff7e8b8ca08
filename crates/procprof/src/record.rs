//! `procprof record`: processes of this host, profiled from outside.

mod hints;
mod jvm;
mod locks;
mod priority;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use procprof_host::{Engine, Filter, Measure, Options, Recorder, Recording, Statistics, Target, UnnamedCode};
use procprof_process::{Pid, Process};
use procprof_profile::{Profile, ProfileType};
use procprof_report::Report;
use tokio::signal::unix::{SignalKind, signal};

use self::jvm::JvmRecording;
use self::priority::Priority;
use crate::jvm_names::JvmNames;
use crate::report;

/// Seconds that running processes are recorded for, unless `--duration` is given.
const SECONDS: f64 = 10.0;
/// Time between two looks at buffers that are not full.
const LOOK: Duration = Duration::from_millis(100);

/// How much later than asked a recording ends before a line tells of it.
const LATE: Duration = Duration::from_millis(500);

/// Most lines about JVMs whose methods have no names.
const LIMITS_MAX: usize = 5;

/// Samples for each second of CPU time, unless `--frequency` is given.
const HZ: u32 = 99;

/// Per cent of CPU time without samples from which a line tells of it.
const UNSAMPLED_SHARE_MIN: f64 = 2.0;

/// The time that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Type {
    /// CPU time
    Cpu,
    /// Time in which threads wait, or are ready to run without a CPU
    OffCpu,
    /// Both
    Wall,
    /// Time in which threads wait for locks
    Lock,
}

/// What records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RecordEngine {
    /// The JVM's own profilers for CPU time and locks of a single JVM; of others, BPF programs for waits where the
    /// kernel runs them, otherwise perf events
    Auto,
    /// Perf events
    Perf,
    /// BPF programs, for waits
    Bpf,
    /// The JVM's own profilers: the Flight Recorder, or async-profiler with ASYNC_PROFILER_LIB
    Jvm,
}

/// Options of `record`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("target").required(true).args(["pid", "all", "cgroup", "comm", "command"])))]
pub(crate) struct RecordArgs {
    /// Record these processes, and what they start meanwhile
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Record all processes of the host
    #[arg(short, long)]
    all: bool,
    /// Record all processes of a control group and those below it: /system.slice/nginx.service
    #[arg(long, value_name = "PATH", value_parser = cgroup_path)]
    cgroup: Option<String>,
    /// Record all processes with this name
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,
    /// With --pid, also record what these processes have started before
    #[arg(long, requires = "pid", conflicts_with_all = ["all", "cgroup", "comm", "command"])]
    children: bool,
    /// Seconds to record for [default: 10, or until the command ends]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<f64>,
    /// Record this time
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = Type::Cpu)]
    measure: Type,
    /// Record by these means
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t = RecordEngine::Auto)]
    engine: RecordEngine,
    /// Count waits shorter than this together, without stacks
    #[arg(long, value_name = "SECONDS", value_parser = min_wait, default_value = "0")]
    min_wait: Duration,
    /// Samples for each second of CPU time [default: 99]; of waits, most stacks sampled in a second for each CPU [default: 100; by perf events 500]
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    frequency: Option<u32>,
    /// Label samples with the names and ids of threads
    #[arg(long)]
    threads: bool,
    /// Bytes of stack copied with each sample; frames beyond are cut [default: 64512, 32768 for waits, less with many CPUs]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(512..=64_512))]
    stack_bytes: Option<u32>,
    /// Write to this file, as pprof unless --format is given
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Show as this report instead of the table of functions: html, collapsed, … (any of `procprof report`)
    #[arg(long, value_name = "REPORT", value_parser = report_name)]
    format: Option<String>,
    /// Serve the profile as web pages on this machine, as `report -http=:` does
    #[arg(long, conflicts_with_all = ["output", "format"])]
    open: bool,
    /// Run this command and record it
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.001..=31_536_000.0).contains(&seconds) { Ok(seconds) } else { Err("0.001 to 31536000 seconds".to_owned()) }
}

fn min_wait(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.0..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("0 to 3600 seconds".to_owned())
    }
}

/// The path of a control group, as `/proc/PID/cgroup` or below the file system of groups.
fn cgroup_path(text: &str) -> Result<String, String> {
    // Where groups of both versions are mounted, those of version 2 are in a folder of their own.
    let mounts = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let path = mounts.iter().find_map(|mount| text.strip_prefix(mount)).unwrap_or(text);
    match path {
        "" => Ok("/".to_owned()),
        path if path.starts_with('/') => Ok(path.to_owned()),
        _ => Err("the path of a control group begins with /".to_owned()),
    }
}

fn report_name(text: &str) -> Result<String, String> {
    let report = Report::named(text).map_err(|error| error.to_string())?;
    match report.takes_symbol() {
        true => Err(format!("{text} is about a function; record to a file and use procprof report -{text}=REGEX")),
        false => Ok(text.to_owned()),
    }
}

/// Records, names the addresses and shows the profile.
pub(crate) fn run(arguments: &RecordArgs) -> Result<()> {
    let stop = stop_by_signals()?;
    let priority = Priority::raise();
    let target = match arguments {
        RecordArgs { all: true, .. } | RecordArgs { cgroup: Some(_), .. } | RecordArgs { comm: Some(_), .. } => {
            Target::Host
        }
        RecordArgs { command, .. } if !command.is_empty() => Target::FutureChildren,
        RecordArgs { pid, .. } => Target::Processes(pid.clone()),
    };
    let process = match arguments.pid.as_slice() {
        [pid] => Process::open(Pid(*pid)).ok().map(|process| process.identity()),
        _ => None,
    };
    if arguments.engine == RecordEngine::Bpf && arguments.measure == Type::Cpu {
        bail!("--engine bpf records waits: --type off-cpu, wall or lock");
    }
    if let Some(recording) = jvm_recording(arguments)? {
        recording.about.iter().for_each(|line| eprintln!("procprof: {line}"));
        let progress = progress(arguments, Some(arguments.duration.unwrap_or(SECONDS)));
        let profile = recording.finish(&stop, &progress)?;
        progress.finish_and_clear();
        drop(priority);
        return shown(arguments, profile);
    }
    let is_off_cpu = matches!(arguments.measure, Type::OffCpu | Type::Lock);
    let frequency = arguments.frequency.filter(|_| !is_off_cpu).unwrap_or(HZ);
    let options = Options {
        measure: match arguments.measure {
            Type::Cpu => Measure::Cpu,
            Type::OffCpu | Type::Lock => Measure::OffCpu,
            Type::Wall => Measure::Wall,
        },
        engine: match arguments.engine {
            // A JVM that is chosen is recorded by now.
            RecordEngine::Auto | RecordEngine::Jvm => Engine::Auto,
            RecordEngine::Perf => Engine::Perf,
            RecordEngine::Bpf => Engine::Bpf,
        },
        min_wait: arguments.min_wait,
        hz: frequency,
        waits_hz: arguments.frequency.filter(|_| is_off_cpu),
        stack_bytes: arguments.stack_bytes,
        threads: arguments.threads,
        children: arguments.children,
        filter: Filter { name: arguments.comm.clone(), cgroup: arguments.cgroup.clone(), ..Filter::default() },
        ..Options::default()
    };
    let mut recorder = Recorder::attach(target, &options)?;
    let begun = Instant::now();
    if !recorder.samples_kernel() {
        let missing = if is_off_cpu { "stacks of short waits are" } else { "time in the kernel is" };
        eprintln!("procprof: {missing} not sampled: it takes CAP_PERFMON or kernel.perf_event_paranoid=1");
    }
    if let Some(reason) = recorder.without_bpf() {
        eprintln!("procprof: waits are recorded by perf events, at a cost for each switch: {reason}");
    }
    if let Some(line) = nobody_yet(arguments, &mut recorder) {
        eprintln!("procprof: {line}");
    }
    let mut child = priority.without(|| start(&arguments.command))?;
    if let Some(child) = &child {
        recorder.started(child.id())?;
    }
    let duration = arguments.duration.or_else(|| child.is_none().then_some(SECONDS));
    let limit = duration.map(Duration::from_secs_f64);
    let progress = progress(arguments, duration);
    while !stop.load(Ordering::Relaxed) && limit.is_none_or(|limit| begun.elapsed() < limit) {
        let left = limit.map_or(LOOK, |limit| limit.saturating_sub(begun.elapsed()).min(LOOK));
        let statistics = recorder.poll(left)?;
        progress.set_message(running(begun.elapsed(), &statistics));
        progress.tick();
        if recorder.is_over() || has_ended(&mut child)? {
            break;
        }
    }
    let elapsed = begun.elapsed();
    let jvm_names = JvmNames::default();
    let recording = recorder
        .finish_with(|generated| jvm_names.ask(generated.iter().map(|pid| (*pid, String::new())), SystemTime::now()))?;
    progress.finish_and_clear();
    if let Some(limit) = limit.filter(|limit| elapsed > *limit + LATE) {
        eprintln!("procprof: {}", late(elapsed, limit));
    }
    if let Some(child) = &mut child
        && matches!(child.try_wait(), Ok(None))
    {
        eprintln!("procprof: the command goes on as process {}", child.id());
    }
    for line in summary(&recording.statistics, elapsed, options.measure, frequency) {
        eprintln!("procprof: {line}");
    }
    for UnnamedCode { pid, why } in &recording.unnamed {
        eprintln!("procprof: generated code of process {pid} has no names: {why}");
    }
    let Recording { profile, files, statistics, .. } = recording;
    let period = 1_000_000_000 / u64::from(frequency);
    let is_empty = profile.sample_count() == 0;
    match options.measure {
        Measure::OffCpu if is_empty => bail!("nothing was recorded: no thread ceased to run"),
        Measure::Cpu if statistics.samples == 0 && statistics.unsampled < period => bail!(
            "no sample was taken: what was recorded used {:.1} ms of CPU time, and one is taken after each {:.1} ms",
            statistics.unsampled as f64 / 1e6,
            period as f64 / 1e6
        ),
        Measure::Wall if is_empty => bail!("nothing was recorded: no thread ran or ceased to run"),
        Measure::Cpu | Measure::OffCpu | Measure::Wall => {}
    }
    let mut profile = report::named_here(profile, &files, process)?;
    if arguments.measure == Type::Lock {
        profile = locks::lock_waits(profile, &subject(arguments))?;
        if profile.sample_count() == 0 {
            bail!("no thread waited for a lock");
        }
        eprintln!("procprof: {}", locks::left_out(&profile, statistics.waited));
    }
    for line in jvm_names.limits("").into_iter().take(LIMITS_MAX).chain(hints::hints(&profile)) {
        eprintln!("procprof: {line}");
    }
    drop(priority);
    shown(arguments, profile)
}

/// The recording of a single JVM by its own profilers, where these are chosen or record what is asked for. Without
/// `--engine jvm`, one that can't begin is none, and a message tells why.
fn jvm_recording(arguments: &RecordArgs) -> Result<Option<JvmRecording>> {
    let is_chosen = arguments.engine == RecordEngine::Jvm;
    let profile_type = match arguments.measure {
        Type::Cpu => Some(ProfileType::Cpu),
        Type::Lock => Some(ProfileType::Contention),
        Type::OffCpu | Type::Wall => None,
    };
    let (&[pid], Some(profile_type)) = (arguments.pid.as_slice(), profile_type) else {
        return if is_chosen { bail!("--engine jvm records one process, and CPU time or locks") } else { Ok(None) };
    };
    let is_jvm = jvm::is_jvm(pid);
    match arguments.engine {
        RecordEngine::Perf | RecordEngine::Bpf => return Ok(None),
        RecordEngine::Auto if !is_jvm || arguments.children => return Ok(None),
        RecordEngine::Jvm if !is_jvm => bail!("process {pid} is no JVM"),
        RecordEngine::Auto | RecordEngine::Jvm => {}
    }
    let limit = Duration::from_secs_f64(arguments.duration.unwrap_or(SECONDS));
    match JvmRecording::begin(pid, profile_type, arguments.frequency.unwrap_or(HZ), limit) {
        Ok(recording) => Ok(Some(recording)),
        Err(error) if is_chosen => Err(error),
        Err(error) => {
            eprintln!("procprof: process {pid} is recorded by perf events, not by its JVM: {error:#}");
            Ok(None)
        }
    }
}

/// A line for a name or control group that no process has now.
fn nobody_yet(arguments: &RecordArgs, recorder: &mut Recorder) -> Option<String> {
    let nobody = match (&arguments.comm, &arguments.cgroup) {
        (_, Some(path)) if !is_cgroup(path) => format!("there is no control group {path}"),
        (None, Some(path)) => format!("no process is in control group {path}"),
        (Some(name), None) => format!("no process is named {name}"),
        (Some(name), Some(path)) => format!("no process in control group {path} is named {name}"),
        (None, None) => return None,
    };
    let is_nobody = recorder.recorded_processes() == 0;
    is_nobody.then(|| format!("{nobody} now; such processes that start meanwhile are recorded"))
}

/// Whether there is a control group with this path, in any hierarchy.
fn is_cgroup(path: &str) -> bool {
    let root = std::path::Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = path.trim_start_matches('/');
    hierarchies.chain([root.to_owned()]).any(|hierarchy| hierarchy.join(below).is_dir())
}

/// Shows a profile with names as the options want it.
fn shown(arguments: &RecordArgs, profile: Profile) -> Result<()> {
    if arguments.open {
        return report::serve(profile, subject(arguments));
    }
    report::show(profile, arguments.format.as_deref(), arguments.output.as_deref())
}

/// Set by ^C and SIGTERM.
fn stop_by_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let (mut interrupted, mut terminated) = {
        let _guard = runtime.enter();
        let listen = |kind| signal(kind).context("listen for signals");
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    let flag = Arc::clone(&stop);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupted.recv() => {}
                _ = terminated.recv() => {}
            }
            flag.store(true, Ordering::Relaxed);
        });
    });
    Ok(stop)
}

/// Starts the command, if there is one. Must be called by the thread that attached the recorder.
fn start(command: &[OsString]) -> Result<Option<Child>> {
    let [program, arguments @ ..] = command else { return Ok(None) };
    let child = Command::new(program).args(arguments).spawn();
    child.map(Some).with_context(|| format!("run {}", program.display()))
}

fn has_ended(child: &mut Option<Child>) -> Result<bool> {
    let Some(child) = child else { return Ok(false) };
    let status = child.try_wait().context("wait for the command")?;
    if let Some(status) = status.filter(|status| !status.success()) {
        eprintln!("procprof: the command ended with {status}");
    }
    Ok(status.is_some())
}

/// A line about a recording that took longer than asked.
fn late(elapsed: Duration, limit: Duration) -> String {
    let (elapsed, limit) = (elapsed.as_secs_f64(), limit.as_secs_f64());
    format!("recorded for {elapsed:.1} s instead of {limit:.1} s: the recorder had too little CPU time")
}

/// A line on the terminal while a recording runs; when standard error is no terminal, one when it has begun.
fn progress(arguments: &RecordArgs, duration: Option<f64>) -> ProgressBar {
    let subject = subject(arguments);
    let bar = ProgressBar::new_spinner();
    if bar.is_hidden() {
        let end = duration.map_or_else(|| "until it ends".to_owned(), |seconds| format!("for {seconds} s"));
        eprintln!("procprof: recording {subject} {end}");
    }
    if let Ok(style) = ProgressStyle::with_template("{spinner} recording {prefix}: {msg}") {
        bar.set_style(style);
    }
    bar.with_prefix(subject)
}

fn subject(arguments: &RecordArgs) -> String {
    match arguments {
        RecordArgs { comm: Some(name), .. } => format!("processes named {name}"),
        RecordArgs { cgroup: Some(path), .. } => format!("control group {path}"),
        RecordArgs { all: true, .. } => "all processes".to_owned(),
        RecordArgs { command, pid, .. } => command.first().map_or_else(
            || format!("process {}", pid.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
            |program| program.display().to_string(),
        ),
    }
}

fn running(elapsed: Duration, statistics: &Statistics) -> String {
    let lost = if statistics.lost > 0 { format!(", {} lost", statistics.lost) } else { String::new() };
    format!("{:.1} s, {} samples{lost}", elapsed.as_secs_f64(), statistics.samples)
}

/// A line about CPU time that was used and not sampled, where that is more than threads have at their ends anyway.
fn unsampled(nanos: u64, sampled: f64, hz: u32) -> Option<String> {
    let (seconds, period) = (nanos as f64 / 1e9, 1.0 / f64::from(hz));
    let share = 100.0 * seconds / (seconds + sampled);
    (seconds > period && share >= UNSAMPLED_SHARE_MIN).then(|| {
        format!(
            "{seconds:.2} s more ({share:.0} % of the CPU time used) has no samples: threads that ran less than \
             {:.1} ms, or lost samples; a higher --frequency or --all samples more of it",
            1000.0 * period
        )
    })
}

/// What was recorded, and what of it is missing or incomplete.
fn summary(statistics: &Statistics, elapsed: Duration, measure: Measure, hz: u32) -> Vec<String> {
    let Statistics { samples, user_stacks, to_root, .. } = *statistics;
    let (elapsed, seconds) = (elapsed.as_secs_f64(), |nanos: u64| nanos as f64 / 1e9);
    let mut lines = Vec::new();
    let cpu_samples = samples - statistics.samples_of_switches;
    if measure != Measure::OffCpu {
        let cpu = cpu_samples as f64 / f64::from(hz);
        lines.push(format!("{cpu_samples} samples in {elapsed:.1} s at {hz} Hz: {cpu:.2} s of CPU time"));
        lines.extend(unsampled(statistics.unsampled, cpu, hz));
    }
    if measure != Measure::Cpu {
        let Statistics { waits, waited, samples_of_switches, .. } = *statistics;
        let waited = seconds(waited);
        lines.push(format!(
            "{waits} waits in {elapsed:.1} s: {waited:.2} s; {samples_of_switches} stacks of them sampled"
        ));
    }
    if statistics.waits_short > 0 {
        let (count, time) = (statistics.waits_short, seconds(statistics.waited_short));
        lines.push(format!("{count} of the waits, {time:.2} s, are shorter than the minimum and have no stacks"));
    }
    if statistics.waited_without_stack > 0 {
        lines.push(format!("{:.2} s of waits are without a stack", seconds(statistics.waited_without_stack)));
    }
    let share = |count: u64| 100.0 * count as f64 / user_stacks.max(1) as f64;
    if to_root < user_stacks {
        let reasons = [
            (statistics.cut, "end with the copied part of the stack; --stack-bytes makes it longer"),
            (statistics.deep, "are deeper than 1,024 frames"),
            (statistics.broken, "have a caller that can't be found"),
            (statistics.read_late, "had changed before their part beyond the copy was read"),
            (statistics.read_refused, "go on in memory that this user may not read; it takes CAP_SYS_PTRACE"),
            (statistics.read_limited, "go on in memory that was not read, at the limit of reads (docs/record.md)"),
            (statistics.vanished, "are of processes that ended before their code was known"),
            (statistics.refused, "are of processes whose maps this user may not read; it takes CAP_SYS_PTRACE"),
            (statistics.oversized, "are of processes with more mappings than are read (docs/node.md)"),
            (statistics.restless, "are of processes that map code more often than is followed (docs/node.md)"),
            (statistics.outside, "are of processes outside this pid namespace; it takes the host's (--pid=host)"),
        ];
        lines.push(format!("{:.1} % of {user_stacks} stacks reach the thread's first frame", share(to_root)));
        let told = reasons.into_iter().filter(|(count, _)| *count > 0);
        lines.extend(told.map(|(count, reason)| format!("{count} stacks ({:.1} %) {reason}", share(count))));
    }
    let amounts = [
        (statistics.lost, "records, of samples or mappings, were lost: the buffers were full"),
        (statistics.code_of_32_bits, "samples are of 32-bit code, whose callers are not known"),
        (statistics.throttled, "times the kernel lowered the rate (kernel.perf_cpu_time_max_percent)"),
        (statistics.malformed, "records could not be read"),
        (statistics.switches_unmatched, "waits are of unknown length: the record of their end was lost"),
        (
            statistics.switches_untracked,
            "switches are of threads for which there was no memory: their waits are not known",
        ),
        (statistics.mappings_refused, "mappings were more than a process may have here"),
    ];
    lines.extend(amounts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    lines
}
