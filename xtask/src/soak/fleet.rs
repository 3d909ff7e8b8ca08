//! Two host agents, each in namespaces of its own, and a server that goes away, agents that are killed, a full disk, a
//! clock that jumps, hundreds of short processes, and a token that is revoked. What was in a spool is stored, once,
//! unless it was counted as lost.

mod host;

use std::collections::{BTreeSet, HashSet};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::checks::Checks;
use crate::{http, product};
use host::{Host, Inside};

/// Time between two looks into the spools.
const LOOK: Duration = Duration::from_millis(5);
/// Longest wait for the spools to be sent at the end.
const PATIENCE: Duration = Duration::from_secs(120);
/// The operator whose requests read the result.
const OPERATOR: &str = "operator:a long password of the soak";

/// The server and the agents.
struct Fleet {
    procprof: PathBuf,
    folder: PathBuf,
    address: String,
    server: Option<product::Running>,
    agents: Vec<Agent>,
}

struct Agent {
    name: &'static str,
    host: Host,
    spool: PathBuf,
    metrics: String,
    running: Option<Inside>,
    /// Profiles lost, as counted by agents that were killed.
    lost: u64,
}

/// Runs it for that long.
pub(super) fn run(folder: &Path, seconds: u64, checks: &mut Checks) -> Result<()> {
    let mut fleet = Fleet::new(folder)?;
    let is_over = AtomicBool::new(false);
    let spools: Vec<PathBuf> = fleet.agents.iter().map(|agent| agent.spool.clone()).collect();
    let (seen, happened) = thread::scope(|scope| -> Result<_> {
        let seen = scope.spawn(|| watch(&spools, &is_over));
        let happened = fleet.live(seconds, checks);
        is_over.store(true, Ordering::Relaxed);
        Ok((seen.join().ok().context("watch the spools")?, happened))
    })?;
    happened?;
    let stored = fleet.profiles()?;
    let ids: HashSet<&str> = stored.iter().filter_map(|row| row["id"].as_str()).collect();
    for (agent, seen) in fleet.agents.iter().zip(&seen) {
        let missing = seen.iter().filter(|id| !ids.contains(id.as_str())).count() as u64;
        let found = format!("{missing} of {} missing, {} counted as lost", seen.len(), agent.lost);
        checks.add(format!("what was in the spool of {} is stored", agent.name), found, missing <= agent.lost);
    }
    let times: BTreeSet<String> =
        stored.iter().map(|row| format!("{} {} {}", row["node"], row["type"], row["start"])).collect();
    checks.add("no profile twice", format!("{} of {}", times.len(), stored.len()), times.len() == stored.len());
    fleet.stop()
}

impl Fleet {
    fn new(folder: &Path) -> Result<Self> {
        let procprof = product::procprof()?;
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).context("find a port")?.port();
        let address = format!("127.0.0.1:{port}");
        let users = folder.join("users");
        let config = format!(
            "http = \"{address}\"\nmysql = \"\"\nusers_file = \"{}\"\nself_interval_seconds = 600\n",
            users.display()
        );
        std::fs::write(folder.join("server.toml"), config).context("write the configuration")?;
        let (name, password) = OPERATOR.split_once(':').unwrap_or_default();
        let add = format!(
            "printf '%s\\n' '{password}' | {} user add --role operator --file {} {name}",
            procprof.display(),
            users.display()
        );
        run_shell(&add)?;
        let mut fleet = Self { procprof, folder: folder.to_owned(), address, server: None, agents: Vec::new() };
        let clock = host::build_clock(folder)?;
        let full = folder.join("spool-b");
        std::fs::create_dir(&full).context("make a folder")?;
        run_shell(&format!("mount -t tmpfs -o size=2m procprof-soak {}", full.display()))?;
        for (name, id) in [("a", 'a'), ("b", 'b')] {
            fleet.add_token(name)?;
            let port = TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .context("find a port")?
                .port();
            let (spool, metrics) = (folder.join(format!("spool-{name}")), format!("127.0.0.1:{port}"));
            let config = format!(
                "host_id = \"{}\"\nname = \"host-{name}\"\ncut_seconds = 5\ncpu_milli_min = 0\nspool = \"{}\"\n\
                 spool_free_bytes_min = 0\nmetrics = \"{metrics}\"\npush_symbols = false\ncpu_milli_max = 1000\n",
                id.to_string().repeat(32),
                spool.display()
            );
            std::fs::write(folder.join(format!("{name}.toml")), config).context("write the configuration")?;
            let host = Host::start(name, folder, &clock)?;
            fleet.agents.push(Agent { name, host, spool, metrics, running: None, lost: 0 });
        }
        fleet.serve()?;
        for place in 0..fleet.agents.len() {
            fleet.start_agent(place)?;
        }
        Ok(fleet)
    }

    /// Starts procprof, or a command that does, with its messages in a file.
    fn spawn(&self, mut command: Command, arguments: &[&str], log: &str) -> Result<Child> {
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(self.folder.join(log)).context("open a log")?;
        command.args(arguments).current_dir(&self.folder).stdout(Stdio::null()).stderr(log);
        command.spawn().context("start procprof")
    }

    fn serve(&mut self) -> Result<()> {
        let arguments = ["serve", "--config", "server.toml", "--data", "data"];
        let child = self.spawn(Command::new(&self.procprof), &arguments, "server.log")?;
        self.server = Some(product::Running::new(child));
        let begun = Instant::now();
        while http::request("GET", &self.address, "/api/nodes").is_err() {
            ensure!(begun.elapsed() < PATIENCE, "the server does not answer");
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn start_agent(&mut self, place: usize) -> Result<()> {
        let name = self.agents[place].name;
        let (server, token, config) =
            (format!("http://{}", self.address), format!("{name}.token"), format!("{name}.toml"));
        let arguments = ["node", "--server", &server, "--token-file", &token, "--config", &config];
        let command = self.agents[place].host.command(&self.procprof);
        let child = self.spawn(command, &arguments, &format!("{name}.log"))?;
        self.agents[place].running = Some(Inside::find(child)?);
        Ok(())
    }

    fn kill_agent(&mut self, place: usize) -> Result<()> {
        self.agents[place].lost += lost(&self.agents[place].metrics);
        match self.agents[place].running.take() {
            Some(running) => running.kill(),
            None => Ok(()),
        }
    }

    fn add_token(&self, name: &str) -> Result<()> {
        let (program, folder) = (self.procprof.display(), self.folder.display());
        run_shell(&format!(
            "rm -f {folder}/{name}.token; {program} user add --file {folder}/users --role push --token-file \
             {folder}/{name}.token agent-{name}"
        ))
    }

    /// Has the server read its users again.
    fn reload(&self) -> Result<()> {
        let server = self.server.as_ref().context("the server runs")?;
        run_shell(&format!("kill -HUP {}", server.pid()))
    }

    fn live(&mut self, seconds: u64, checks: &mut Checks) -> Result<()> {
        let part = |share: f64| Duration::from_secs_f64(seconds as f64 * share);
        let announce = |what: &str| eprintln!("xtask: {what}");
        thread::sleep(part(0.15));
        announce("the server is away");
        self.server.take().context("the server runs")?.kill()?;
        thread::sleep(part(0.17));
        self.serve()?;
        thread::sleep(part(0.05));
        announce("an agent is killed, eight times");
        for round in 0..8_u32 {
            self.kill_agent(0)?;
            self.start_agent(0)?;
            thread::sleep(part(0.02).mul_f64(0.5 + f64::from(round % 3) / 2.0));
        }
        announce("the disk of the other is full, and the server away");
        let filler = self.agents[1].spool.join("filler");
        self.server.take().context("the server runs")?.kill()?;
        // It fills what there is, and then fails.
        let _ = Command::new("dd")
            .args(["if=/dev/zero", &format!("of={}", filler.display()), "bs=4k"])
            .stderr(Stdio::null())
            .status();
        thread::sleep(part(0.1));
        std::fs::remove_file(&filler).context("empty the disk")?;
        self.serve()?;
        thread::sleep(part(0.04));
        announce("the clock of a host jumps by an hour, and back");
        for seconds in [3600, 0] {
            self.agents[0].host.set_clock(seconds)?;
            thread::sleep(part(0.04));
            let (begun, is_near) = (Instant::now(), |skew: f64| (skew - f64::from(seconds)).abs() < 5.0);
            let mut skew = None;
            // It is found out with the next heartbeat.
            while !skew.is_some_and(is_near) && begun.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(500));
                skew = metric(&self.agents[0].metrics, "procprof_node_clock_skew_seconds ");
            }
            let found = skew.map_or("no answer".to_owned(), |skew| format!("{skew} s"));
            let is_told = skew.is_some_and(is_near);
            checks.add(format!("the agent reports a clock {seconds} s ahead"), found, is_told);
        }
        announce("a token is revoked");
        run_shell(&format!("{} user remove --file {}/users agent-a", self.procprof.display(), self.folder.display()))?;
        self.reload()?;
        thread::sleep(part(0.07));
        let waiting = files(&self.agents[0].spool).len();
        checks.add("profiles wait while the token is revoked", waiting.to_string(), waiting > 0);
        self.add_token("a")?;
        self.reload()?;
        thread::sleep(part(0.05));
        announce("the spools are sent");
        let begun = Instant::now();
        for place in 0..self.agents.len() {
            // Recording goes on: each profile of now must be sent later.
            let waiting: Vec<String> = files(&self.agents[place].spool);
            while files(&self.agents[place].spool).iter().any(|file| waiting.contains(file))
                && begun.elapsed() < PATIENCE
            {
                thread::sleep(Duration::from_millis(100));
            }
        }
        for agent in &mut self.agents {
            agent.lost += lost(&agent.metrics);
            let running = agent.running.take().context("the agent runs")?;
            let ended = running.terminate()?;
            let waiting = files(&agent.spool).len();
            let found = format!("{ended}, {waiting} wait");
            checks.add(format!("{} ends with an empty spool", agent.name), found, ended.success() && waiting == 0);
        }
        Ok(())
    }

    fn profiles(&self) -> Result<Vec<Value>> {
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        loop {
            let url = format!("http://{}/api/profiles?limit=1000&cursor={cursor}", self.address);
            let output = Command::new("curl").args(["-s", "-u", OPERATOR, &url]).output().context("run curl")?;
            let page: Value = serde_json::from_slice(&output.stdout)
                .with_context(|| format!("list profiles: {}", String::from_utf8_lossy(&output.stdout)))?;
            rows.extend(page["profiles"].as_array().context("a list of profiles")?.iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        rows.retain(|row| row.to_string().contains("host-"));
        Ok(rows)
    }

    fn stop(mut self) -> Result<()> {
        let ended = self.server.take().context("the server runs")?.terminate()?;
        ensure!(ended.success(), "the server ended with {ended}");
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.agents.iter_mut().for_each(|agent| drop(agent.running.take()));
        // Nothing else is mounted there.
        let _ = run_shell(&format!("umount {}", self.folder.join("spool-b").display()));
    }
}

fn run_shell(line: &str) -> Result<()> {
    let status = Command::new("sh").args(["-c", line]).stdout(Stdio::null()).status().context("run sh")?;
    ensure!(status.success(), "{line}: {status}");
    Ok(())
}

/// Profiles that an agent has counted as lost; 0 if it does not answer.
fn lost(metrics: &str) -> u64 {
    metric(metrics, "procprof_node_spool_lost_total ").map_or(0, |lost| lost as u64)
}

/// A figure of an agent, by its name with a space behind it.
fn metric(address: &str, name: &str) -> Option<f64> {
    let page = http::request("GET", address, "/metrics").ok()?.body;
    String::from_utf8_lossy(&page).lines().find_map(|line| line.strip_prefix(name)?.parse().ok())
}

/// The names of profiles in a spool.
fn files(spool: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(spool).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".frame")).collect()
}

/// The ids of all profiles that are in the spools at some time.
fn watch(spools: &[PathBuf], is_over: &AtomicBool) -> Vec<BTreeSet<String>> {
    let mut seen = vec![BTreeSet::new(); spools.len()];
    while !is_over.load(Ordering::Relaxed) {
        for (spool, seen) in spools.iter().zip(&mut seen) {
            let id = |name: String| Some(name.strip_suffix(".frame")?.split_once('-')?.1.to_owned());
            seen.extend(files(spool).into_iter().filter_map(id));
        }
        thread::sleep(LOOK);
    }
    seen
}
