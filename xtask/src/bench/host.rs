//! `procprof record` and `procprof node` beside `perf`, samply, bpftrace and the OpenTelemetry profiler: what they cost,
//! what they find, and how soon.
//!
//! CPU times are those of the programs themselves, and wall times are marked: other work on the machine makes those
//! longer. The kernel's share of a sample is part of the work that is lost, which pairs of runs measure.

mod agent;
mod opentelemetry;
mod programs;
mod samply;
mod targets;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::programs::{
    Beside, Bpftrace, Pace, Programs, Recording, paced, perf_record, recorded, summary_number, switched,
};
use self::samply::Samply;
use crate::product;
use crate::table::Table;
use crate::tools;
use crate::vitals::children_cpu;

/// Pairs of runs with and without a recording.
const PAIRS: usize = 5;

pub(super) fn run() -> Result<()> {
    tools::require(&[
        ("perf", "linux-perf"),
        ("bpftrace", "bpftrace"),
        ("go", "golang-go"),
        ("taskset", "util-linux"),
    ])?;
    let programs = Programs::build()?;
    let samply = Samply::install()?;
    let procprof = product::procprof()?;
    agent::cost(&procprof, &programs)?;
    agent::first_flame_graph(&procprof, &programs)?;
    samples(&procprof, &samply, &programs)?;
    targets::roots(&procprof, &programs)?;
    slow_down(&procprof, &programs)?;
    switches(&procprof, &programs)?;
    table_after_interrupt(&procprof, &samply)
}

/// CPU time of a recording for each sample: of many samples, less that of few.
fn samples(procprof: &Path, samply: &Samply, programs: &Programs) -> Result<()> {
    const SECONDS: u64 = 8;
    type Measure<'a> = &'a dyn Fn(u32, u32) -> Result<(f64, f64)>;
    let ours = |pid: u32, hz: u32| {
        let before = children_cpu()?;
        let arguments = ["-p", &pid.to_string(), "-F", &hz.to_string(), "-d", &SECONDS.to_string()];
        let told = recorded(procprof, &arguments)?;
        let samples = summary_number(&told, " samples in").context("count of samples")?;
        Ok((samples, children_cpu()? - before))
    };
    let ways: [(&str, Measure<'_>); 2] =
        [("`procprof record -p`", &ours), ("`samply record -p`", &|pid, hz| samply.samples(pid, hz, SECONDS))];
    let mut table = Table::new(&["what", "samples", "CPU time", "a sample"]);
    for (name, measure) in ways {
        let at = |hz| {
            let work = Pace::start(&programs.pace, "work", 60)?;
            measure(work.pid(), hz)
        };
        let ((few, few_cpu), (many, many_cpu)) = (at(49)?, at(3999)?);
        let each = 1e6 * (many_cpu - few_cpu) / (many - few).max(1.0);
        table.row([
            format!("{name}, 72 frames, 3999 Hz less 49 Hz"),
            format!("{:.0}", many - few),
            format!("{:.2} s", many_cpu - few_cpu),
            format!("{each:.1} us"),
        ]);
    }
    table.print("CPU time of the recorder for a sample, the copy of the stack and the reading of it included");
    Ok(())
}

/// Work for each second of CPU time with a recording of the host and without, in turns.
fn slow_down(procprof: &Path, programs: &Programs) -> Result<()> {
    let mut rates: [Vec<f64>; 3] = Default::default();
    for _ in 0..PAIRS {
        rates[0].push(paced(&programs.pace, "work", 2)?.for_each_second());
        let recording = Recording::start(procprof, &["-a", "-F", "99"])?;
        rates[1].push(paced(&programs.pace, "work", 2)?.for_each_second());
        recording.stop()?;
        rates[2].push(paced(&programs.pace, "work", 2)?.for_each_second());
    }
    let [before, with, after] = &rates;
    let changes = |of: &[f64]| -> Vec<f64> {
        before.iter().zip(of).map(|(before, with)| 100.0 * (with / before - 1.0)).collect()
    };
    let mut table = Table::new(&["compared with the run before", "median", "each"]);
    for (what, of) in [("with `record -a -F 99`", with), ("without", after)] {
        let changes = changes(of);
        let each: Vec<String> = changes.iter().map(|change| format!("{change:+.1}")).collect();
        table.row([what.to_owned(), format!("{:+.2} %", median(&changes)), each.join(" ")]);
    }
    table.print(&format!("Work of a target for each second of its CPU time, {PAIRS} times in turns"));
    Ok(())
}

/// What bpftrace runs: the time off CPU of each thread, by the name of its command.
const OFF_CPU: &str = "tracepoint:sched:sched_switch { @since[args->prev_pid] = nsecs; if (@since[args->next_pid]) { \
                       @off[args->next_comm] = sum(nsecs - @since[args->next_pid]); } }";

/// Switches between two threads with recordings of waits, in turns.
fn switches(procprof: &Path, programs: &Programs) -> Result<()> {
    const SECONDS: u64 = 4;
    /// In a round trip of the byte, where both threads share a CPU.
    const SWITCHES: f64 = 2.0;
    let ours = |engine| Recording::start(procprof, &["-a", "--type", "off-cpu", "--engine", engine]).map(Box::new);
    type Start<'a> = &'a dyn Fn() -> Result<Option<Box<dyn Beside>>>;
    let ways: [(&str, Start<'_>); 4] = [
        ("none", &|| Ok(None)),
        ("`record -a --type off-cpu`, BPF", &|| Ok(Some(ours("bpf")?))),
        ("`record -a --type off-cpu --engine perf`", &|| Ok(Some(ours("perf")?))),
        ("bpftrace, off-CPU time by command, no stacks", &|| Ok(Some(Box::new(Bpftrace::start(OFF_CPU)?)))),
    ];
    let mut measured: [[Vec<f64>; 3]; 4] = Default::default();
    for _ in 0..PAIRS {
        for ((_, start), [rates, costs, used]) in ways.iter().zip(&mut measured) {
            let recording = start()?;
            let cpu = || recording.as_ref().map_or(Ok(0.0), |recording| recording.cpu());
            let before = cpu()?;
            let pace = switched(&programs.pace, SECONDS)?;
            used.push((cpu()? - before) / SECONDS as f64);
            recording.map(Beside::end).transpose()?;
            rates.push(pace.rounds * SWITCHES / SECONDS as f64);
            costs.push(pace.cpu * 1e9 / (pace.rounds * SWITCHES));
        }
    }
    let mut table = Table::new(&[
        "recording",
        "switches a second",
        "CPU time of one",
        "added at 100,000 a second",
        "recorder's CPU",
    ]);
    let unrecorded = median(&measured[0][1]);
    for ((name, _), [rates, costs, used]) in ways.iter().zip(&measured) {
        let cost = median(costs);
        table.row([
            (*name).to_owned(),
            format!("{:.0}", median(rates)),
            format!("{cost:.0} ns"),
            format!("{:.2} %", 100.0 * (cost - unrecorded) * 1e-9 * 100_000.0),
            format!("{:.1} %", 100.0 * median(used)),
        ]);
    }
    table.print(&format!("A byte to and fro between two threads on one CPU, medians of {PAIRS} times in turns"));
    Ok(())
}

/// From ^C to the table of functions, of a large program.
fn table_after_interrupt(procprof: &Path, samply: &Samply) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let mut target = large_program(procprof, folder.path())?;
    let bytes = std::fs::metadata(target.get_program()).context("look at the program")?.len();
    let mut table = Table::new(&["command", "wall", "CPU"]);
    target.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let target = product::Running::new(target.spawn().context("start the program")?);
    std::thread::sleep(Duration::from_secs(1));
    let cache = tempfile::tempdir().context("make a folder")?;
    for run in ["first", "again"] {
        let recording =
            Recording::start_with_cache(procprof, &["-p", &target.pid().to_string(), "-F", "999"], cache.path())?;
        std::thread::sleep(Duration::from_secs(5));
        let (began, before) = (Instant::now(), children_cpu()?);
        let running = recording.cpu()?;
        recording.stop()?;
        let cpu = children_cpu()? - before - running;
        let wall = began.elapsed().as_secs_f64();
        table.row([format!("`procprof record -p`, {run}"), format!("{wall:.2} s"), format!("{cpu:.2} s")]);
    }
    let file = cache.path().join("perf.data");
    perf_record(&["-F", "999", "--call-graph", "dwarf", "-p", &target.pid().to_string()], &file, 5)?;
    let (began, before) = (Instant::now(), children_cpu()?);
    let mut report = Command::new("perf");
    report.args(["report", "--stdio", "--no-children", "-g", "none", "-i"]).arg(&file);
    programs::quiet(&mut report)?;
    table.row([
        "`perf report` of `perf record --call-graph dwarf`".to_owned(),
        format!("{:.2} s", began.elapsed().as_secs_f64()),
        format!("{:.2} s", children_cpu()? - before),
    ]);
    let (wall, cpu) = samply.end(target.pid(), 999, 5)?;
    table.row(["`samply record -p`, profile and names".to_owned(), format!("{wall:.2} s"), format!("{cpu:.2} s")]);
    table.print(&format!("From ^C to the table of functions, a program of {:.2} GB", bytes as f64 / 1e9));
    Ok(())
}

/// The largest program there is: that of `bench-peers`, once it has been built, or the command itself.
fn large_program(procprof: &Path, folder: &Path) -> Result<Command> {
    let engine = product::target()?.join("bench-peers/datafusion/datafusion-workload");
    if engine.exists() {
        let mut command = Command::new(engine);
        command.env("_RJEM_MALLOC_CONF", "prof:true").arg(folder);
        return Ok(command);
    }
    let mut command = Command::new(procprof);
    command.args(["demo-node", "--role", "be"]);
    Ok(command)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}
