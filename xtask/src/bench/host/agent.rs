//! The host agent: its cost on a busy host, its memory with many processes, and the time until users see something.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::children_cpu;
use super::opentelemetry::{Cost, OpenTelemetry};
use super::programs::{Pace, Programs, perf_record};
use crate::http;
use crate::product::{Running, Served};
use crate::table::Table;
use crate::vitals::megabytes;

/// Time over which its cost is measured, in seconds: two cuts.
const SECONDS: u64 = 120;
/// Time over which peers are measured, in seconds.
const PEER_SECONDS: u64 = 40;
/// Processes beside the busy ones.
const PROCESSES: usize = 200;
/// Longest wait for a flame graph.
const PATIENCE: Duration = Duration::from_secs(180);
/// CPU time of the kernel for a sample, in seconds, as the agent reckons it.
const KERNEL_SECONDS: f64 = 20e-6;

/// An agent that sends to a server.
struct Agent {
    _running: Running,
    metrics: String,
}

impl Agent {
    fn start(procprof: &Path, server: &Served, folder: &Path, more: &str) -> Result<Agent> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let metrics = port.context("find a free port")?.to_string();
        let (config, token) = (folder.join("node.toml"), folder.join("token"));
        let spool = folder.join("spool");
        let text = format!(
            "host_id = \"00112233445566778899aabbccddeeff\"\nspool = \"{}\"\nmetrics = \"{metrics}\"\n{more}",
            spool.display()
        );
        std::fs::write(&config, text).context("write the configuration")?;
        std::fs::write(&token, "none").context("write the token")?;
        let mut command = Command::new(procprof);
        command.args(["node", "--server", &format!("http://{}", server.address), "--config"]).arg(config);
        command.arg("--token-file").arg(token).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Agent { _running: Running::new(command.spawn().context("start procprof node")?), metrics })
    }

    /// A row of its metrics; `None` while it does not answer yet.
    fn metric(&self, name: &str) -> Option<f64> {
        let answer = http::request("GET", &self.metrics, "/metrics").ok()?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let row = text.lines().find_map(|line| line.strip_prefix(&format!("procprof_node_{name} ")))?;
        row.parse().ok()
    }

    /// Waits until it has cut its recording so many times that some profiles were sent.
    fn await_profiles(&self, least: f64) -> Result<()> {
        let began = Instant::now();
        while self.metric("profiles_sent_total").is_none_or(|sent| sent < least) {
            if began.elapsed() > PATIENCE {
                bail!("the agent sends no profiles");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

fn server(procprof: &Path, folder: &Path) -> Result<Served> {
    Served::start(Command::new(procprof), &folder.join("data"), &["--mysql", "127.0.0.1:0"])
}

/// CPU time and memory on a host with two busy programs and many others.
pub(super) fn cost(procprof: &Path, programs: &Programs) -> Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let peer = OpenTelemetry::build()?;
    let mut table =
        Table::new(&["what", "its CPU", "samples", "with 20 us of the kernel a sample", "of the host", "memory"]);
    let others: Vec<Running> =
        (0..PROCESSES).map(|_| Pace::start(&programs.pace, "tick", 600)).collect::<Result<_>>()?;
    for hz in [19u32, 99] {
        let busy: Vec<Running> = (0..cpus).map(|_| Pace::start(&programs.pace, "work", 600)).collect::<Result<_>>()?;
        let folder = tempfile::tempdir().context("make a folder")?;
        let served = server(procprof, folder.path())?;
        let limits = format!("hz = {hz}\ncpu_milli_max = 1000\n");
        let agent = Agent::start(procprof, &served, folder.path(), &limits)?;
        agent.await_profiles(1.0)?;
        let read = || -> Result<[f64; 2]> {
            let metric = |name| agent.metric(name).context("the agent has no metrics");
            Ok([metric("cpu_seconds_total")?, metric("samples_total")?])
        };
        let [cpu, samples] = read()?;
        std::thread::sleep(Duration::from_secs(SECONDS));
        let [cpu_after, samples_after] = read()?;
        let (cpu, samples) = ((cpu_after - cpu) / SECONDS as f64, samples_after - samples);
        let whole = cpu + samples * KERNEL_SECONDS / SECONDS as f64;
        let memory = agent.metric("resident_bytes").context("the agent has no metrics")?;
        let name = format!("`procprof node`, {hz} Hz, {} processes", PROCESSES + cpus);
        row(&mut table, &name, (cpu, samples, whole), cpus, megabytes(memory as u64));
        let file = folder.path().join("perf.data");
        let before = children_cpu()?;
        drop(agent);
        perf_record(&["-a", "-F", &hz.to_string(), "--call-graph", "dwarf"], &file, PEER_SECONDS)?;
        let cpu = (children_cpu()? - before) / PEER_SECONDS as f64;
        let name = format!("`perf record -a -F {hz} --call-graph dwarf`, recording alone");
        row(&mut table, &name, (cpu, f64::NAN, f64::NAN), cpus, String::new());
        let Cost { cpu, resident } = peer.cost(hz, PEER_SECONDS)?;
        let name = format!("OpenTelemetry eBPF profiler, {hz} Hz, without its BPF programs");
        row(&mut table, &name, (cpu, f64::NAN, f64::NAN), cpus, megabytes(resident));
        drop(busy);
    }
    drop(others);
    table.print(&format!("A host of {cpus} busy CPUs for {SECONDS} s, of peers for {PEER_SECONDS} s"));
    Ok(())
}

fn row(table: &mut Table, name: &str, (cpu, samples, whole): (f64, f64, f64), cpus: usize, memory: String) {
    let percent = |share: f64| if share.is_nan() { String::new() } else { format!("{:.2} %", 100.0 * share) };
    let samples = if samples.is_nan() { String::new() } else { format!("{samples:.0}") };
    table.row([name.to_owned(), percent(cpu), samples, percent(whole), percent(whole / cpus as f64), memory]);
}

/// From the start of an agent with default settings to a flame graph with names in the server.
pub(super) fn first_flame_graph(procprof: &Path, programs: &Programs) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let served = server(procprof, folder.path())?;
    let program: PathBuf = folder.path().join("pace-first");
    std::fs::copy(&programs.pace, &program).context("copy the program")?;
    let _busy = Pace::start(&program, "work", 600)?;
    let began = Instant::now();
    let _agent = Agent::start(procprof, &served, folder.path(), "")?;
    let mut first = None;
    loop {
        let rows = served.rows("profiles", "type=cpu")?;
        let own = rows.iter().find(|row| row.to_string().contains("pace-first"));
        if let Some(id) = own.and_then(|row| row["id"].as_str()) {
            first.get_or_insert_with(|| began.elapsed());
            let page = http::request("GET", &served.address, &format!("/p/{id}?format=collapsed"))?;
            if String::from_utf8_lossy(&page.body).contains("spin") {
                break;
            }
        }
        if began.elapsed() > PATIENCE {
            let errors: Vec<Value> = served.rows("errors", "")?;
            bail!("no flame graph with names: {errors:?}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut table = Table::new(&["since the start of `procprof node`", "wall"]);
    table.row(["first profile of the service".to_owned(), format!("{:.1} s", first.unwrap_or_default().as_secs_f64())]);
    table.row(["its flame graph with names".to_owned(), format!("{:.1} s", began.elapsed().as_secs_f64())]);
    table.print("The first flame graph");
    Ok(())
}
