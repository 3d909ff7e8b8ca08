//! A host agent of root, as it is without settings, beside PostgreSQL under load, and programs of a user without
//! privileges that cost it as much as they can, in turns. PostgreSQL's profiles must be complete, and the agent must
//! stay within its limits.

mod attacks;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::checks::Checks;
use crate::product::{self, Running, Served};
use crate::vitals::{Vitals, megabytes};
use crate::{http, table::Table};
use attacks::{ATTACKS, Attack, Programs};

/// The service of PostgreSQL: its program, outside units and containers, of its user.
const SERVICE: &str = "postgres:postgres";
/// Least rate at any moment, in samples for each second of CPU time.
const HZ_MIN: f64 = 17.0;
/// Most memory of the agent.
const RESIDENT_MAX: u64 = 100 << 20;
/// Longest time between the ends of two profiles of PostgreSQL, in seconds: those of a minute.
const GAP_MAX: f64 = 75.0;
/// The part of PostgreSQL's CPU time that is in its profiles, at least.
const COMPLETE: f64 = 0.95;
/// Longest stop of the agent.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);
/// Time between two looks at the agent.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait for the first profile of PostgreSQL, and for the last one.
const PATIENCE: Duration = Duration::from_secs(180);

/// PostgreSQL with a client that keeps it busy.
struct Postgres {
    _client: Running,
    server: Running,
}

impl Postgres {
    fn start(folder: &Path) -> Result<Postgres> {
        let port = free_port()?;
        let script = format!(
            r#"set -e; D={folder}/postgres; mkdir "$D"; chown postgres "$D"; chmod o+x {folder}
bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres | tail -1)"); run="setpriv --reuid=postgres --regid=postgres --clear-groups --pdeathsig KILL"
$run "$bin/initdb" -D "$D/data" -A trust > /dev/null
exec $run "$bin/postgres" -D "$D/data" -p {port} -k "$D" -h 127.0.0.1 2> /dev/null"#,
            folder = folder.display()
        );
        let mut server = Running::new(Command::new("sh").args(["-c", &script]).spawn().context("start PostgreSQL")?);
        let address = ["-h", "127.0.0.1", "-p", &port.to_string(), "-U", "postgres", "postgres"].map(str::to_owned);
        let begun = Instant::now();
        let filled = || {
            let mut command = Command::new("pgbench");
            command.args(["-q", "-i", "-s", "10"]).args(&address).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().context("run pgbench")
        };
        while !filled()?.success() {
            ensure!(begun.elapsed() < PATIENCE && server.ended()?.is_none(), "PostgreSQL does not start");
            thread::sleep(LOOK);
        }
        let mut client = Command::new("pgbench");
        client.args(["-c", "2", "-T", "360000"]).args(&address).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Postgres { _client: Running::new(client.spawn().context("run pgbench")?), server })
    }

    /// CPU time of its processes, those that have ended included, in seconds.
    fn cpu(&self) -> Result<f64> {
        let own = self.server.pid();
        let mut cpu = Vitals::from_pid(own)?;
        for child in std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"))
            .context("list PostgreSQL's processes")?
            .split_ascii_whitespace()
        {
            // One that has just ended is counted by its parent.
            if let Ok(of_child) = child.parse().context("a pid is a number").and_then(Vitals::from_pid) {
                cpu.cpu += of_child.cpu;
            }
        }
        Ok(cpu.cpu + cpu.children_cpu)
    }
}

/// The host agent.
struct Agent {
    running: Running,
    metrics: String,
}

/// What an agent has used and done in a turn.
#[derive(Default)]
struct Turn {
    seconds: f64,
    cpu: f64,
    resident_max: u64,
    hz_min: f64,
    samples: f64,
    lost: f64,
}

impl Agent {
    fn start(procprof: &Path, server: &Served, folder: &Path) -> Result<Agent> {
        let metrics = format!("127.0.0.1:{}", free_port()?);
        let (config, token) = (folder.join("node.toml"), folder.join("token"));
        let text = format!("spool = \"{}\"\nmetrics = \"{metrics}\"\n", folder.join("spool").display());
        std::fs::write(&config, text).context("write the configuration")?;
        std::fs::write(&token, "none").context("write the token")?;
        let log = std::fs::File::create(folder.join("node.log")).context("create a log")?;
        let mut command = Command::new(procprof);
        command.args(["node", "--server", &format!("http://{}", server.address), "--config"]).arg(config);
        command.arg("--token-file").arg(token).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok(Agent { running: Running::new(command.spawn().context("start procprof node")?), metrics })
    }

    fn metric(&self, name: &str) -> Result<f64> {
        let page = http::request("GET", &self.metrics, "/metrics")?.body;
        let page = String::from_utf8_lossy(&page).into_owned();
        let found =
            page.lines().find_map(|line| line.strip_prefix("procprof_node_")?.strip_prefix(name)?.strip_prefix(' '));
        found.and_then(|value| value.parse().ok()).with_context(|| format!("the agent has no metric {name}"))
    }

    fn vitals(&mut self) -> Result<Vitals> {
        if let Some(status) = self.running.ended()? {
            bail!("the agent has ended with {status}");
        }
        Vitals::from_pid(self.running.pid())
    }

    /// Watches it for a time.
    fn watch(&mut self, time: Duration, mut is_attacked: impl FnMut() -> Result<bool>) -> Result<Turn> {
        let (begun, before) = (Instant::now(), self.vitals()?);
        let counts = |agent: &Agent| {
            Ok::<_, anyhow::Error>((agent.metric("samples_total")?, agent.metric("samples_lost_total")?))
        };
        let (samples, lost) = counts(self)?;
        let mut turn = Turn { hz_min: f64::INFINITY, ..Turn::default() };
        while begun.elapsed() < time {
            ensure!(is_attacked()?, "a hostile program has ended by itself");
            turn.resident_max = turn.resident_max.max(self.vitals()?.resident);
            turn.hz_min = turn.hz_min.min(self.metric("hz")?);
            thread::sleep(LOOK);
        }
        let (after, (samples_after, lost_after)) = (self.vitals()?, counts(self)?);
        turn.seconds = begun.elapsed().as_secs_f64();
        turn.cpu = after.cpu + after.children_cpu - before.cpu - before.children_cpu;
        turn.samples = samples_after - samples;
        turn.lost = lost_after - lost;
        Ok(turn)
    }
}

/// Runs all attacks within about `seconds`.
pub(super) fn run(folder: &Path, seconds: u64, checks: &mut Checks) -> Result<()> {
    let procprof = product::procprof()?;
    let programs = Programs::build(folder)?;
    let server = Served::start(Command::new(&procprof), &folder.join("data"), &["--mysql", "127.0.0.1:0"])?;
    let postgres = Postgres::start(folder)?;
    let mut agent = Agent::start(&procprof, &server, folder)?;
    let begun = Instant::now();
    while profiles(&server)?.is_empty() {
        ensure!(begun.elapsed() < PATIENCE, "there is no profile of {SERVICE}");
        thread::sleep(LOOK);
    }
    let (begun, cpu) = (now()?, postgres.cpu()?);
    let mut table = Table::new(&["neighbours", "agent's CPU", "memory at most", "least rate", "samples", "lost"]);
    let time = Duration::from_secs(seconds) / u32::try_from(ATTACKS.len()).unwrap_or(u32::MAX);
    for attack in ATTACKS {
        turn(&mut agent, &programs, attack, time, (&mut table, checks))?;
    }
    let (ended, cpu) = (now()?, postgres.cpu()? - cpu);
    table.print(&format!("`procprof node` beside PostgreSQL, each for {} s", time.as_secs()));
    // The profile of the last moment comes with the next cut.
    let waiting = Instant::now();
    while profiles(&server)?.last().is_none_or(|last| last.end < ended) {
        ensure!(waiting.elapsed() < PATIENCE, "profiles of {SERVICE} stop");
        thread::sleep(LOOK);
    }
    judge(&profiles(&server)?, (begun, ended), cpu, checks);
    let lost = agent.metric("spool_lost_total")? + agent.metric("profiles_refused_total")?;
    checks.add("no profile is lost", format!("{lost}"), lost == 0.0);
    let stop = Instant::now();
    let status = agent.running.terminate()?;
    let took = stop.elapsed();
    checks.add(
        "the agent stops",
        format!("{status} after {:.1} s", took.as_secs_f64()),
        status.success() && took < STOPPED_WITHIN,
    );
    server.terminate()
}

/// One attack, for that long.
fn turn(
    agent: &mut Agent,
    programs: &Programs,
    attack: &Attack,
    time: Duration,
    (table, checks): (&mut Table, &mut Checks),
) -> Result<()> {
    let name = attack.name;
    let mut neighbours = (attack.start)(programs).with_context(|| name.to_owned())?;
    let turn = agent.watch(time, || Ok(!neighbours.ended()?)).with_context(|| name.to_owned())?;
    let cpu = turn.cpu / turn.seconds * 100.0;
    let memory = megabytes(turn.resident_max);
    checks.add(format!("{name}: the agent's CPU"), format!("{cpu:.2} % of a core"), cpu < attack.cpu_max);
    checks.add(format!("{name}: its memory"), memory.clone(), turn.resident_max < RESIDENT_MAX);
    checks.add(format!("{name}: its rate"), format!("{} Hz at least", turn.hz_min), turn.hz_min >= HZ_MIN);
    let [rate, samples, lost] = [turn.hz_min, turn.samples, turn.lost].map(|number| number.to_string());
    table.row([name.to_owned(), format!("{cpu:.2} %"), memory, rate, samples, lost]);
    Ok(())
}

/// A CPU profile of PostgreSQL; times are seconds since the epoch.
struct Stored {
    start: f64,
    end: f64,
    samples: f64,
    cpu: f64,
}

/// Those that are stored, the oldest first.
fn profiles(server: &Served) -> Result<Vec<Stored>> {
    let node = server.json(&format!("/api/nodes?q={SERVICE}"))?["nodes"][0]["id"].clone();
    if node.is_null() {
        return Ok(Vec::new());
    }
    let rows = server.rows("profiles", &format!("type=cpu&node={node}"))?;
    rows.iter().rev().map(stored).collect()
}

fn stored(row: &Value) -> Result<Stored> {
    let time = |name: &str| -> Result<f64> {
        let text = row[name].as_str().with_context(|| format!("a profile has no {name}"))?;
        let time: jiff::Timestamp = text.parse().with_context(|| format!("{name}: {text}"))?;
        Ok(time.as_nanosecond() as f64 / 1e9)
    };
    let total = |kind: &str| {
        let totals = row["totals"].as_array().into_iter().flatten();
        let found = totals.filter(|total| total["kind"] == kind).find_map(|total| total["value"].as_f64());
        found.with_context(|| format!("a profile has no total of {kind}: {row}"))
    };
    Ok(Stored { start: time("start")?, end: time("end")?, samples: total("samples")?, cpu: total("cpu")? / 1e9 })
}

/// Judges PostgreSQL's profiles between two moments, in which it has used that much CPU time.
fn judge(profiles: &[Stored], (begun, ended): (f64, f64), cpu: f64, checks: &mut Checks) {
    // What of a profile is in the time, as if its samples were spread evenly.
    let share = |profile: &Stored| {
        let within = profile.end.min(ended) - profile.start.max(begun);
        (within / (profile.end - profile.start)).clamp(0.0, 1.0)
    };
    let sum = |of: fn(&Stored) -> f64| profiles.iter().map(|profile| share(profile) * of(profile)).sum::<f64>();
    let (samples, recorded) = (sum(|profile| profile.samples), sum(|profile| profile.cpu));
    let gap = profiles.windows(2).map(|pair| pair[1].end - pair[0].end).fold(0.0, f64::max);
    let found = format!("{} profiles, the ends of two {gap:.0} s apart at most", profiles.len());
    checks.add("PostgreSQL has a profile of each minute", found, gap < GAP_MAX);
    let rate = samples / cpu;
    checks.add(
        "PostgreSQL's samples",
        format!("{samples:.0} of {cpu:.0} s of CPU time, {rate:.1} a second"),
        rate >= HZ_MIN,
    );
    let part = recorded / cpu;
    checks.add("PostgreSQL's CPU time in its profiles", format!("{:.1} %", part * 100.0), part >= COMPLETE);
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}

/// Now, in seconds since the epoch.
fn now() -> Result<f64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).context("read the clock")?;
    Ok(now.as_secs_f64())
}
