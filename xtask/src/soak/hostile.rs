//! A server under attack: hostile clients and nodes beside an ordinary load. The load must be served, healthy nodes
//! must keep their schedule, memory must stay flat, and the server must stop on SIGTERM meanwhile: for a third of the
//! time it is stopped and started again at random moments.

mod attack;
mod nodes;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::checks::Checks;
use super::watch;
use crate::http;
use crate::inputs;
use crate::product::{self, Served, sql_port};
use crate::vitals::{Vitals, megabytes};
use nodes::{HEALTHY, INTERVAL};

/// Longest wait of an ordinary client for an answer, also on a fully loaded machine.
const SERVED_WITHIN: Duration = Duration::from_secs(20);
/// Share of the scheduled captures of healthy nodes that must be stored.
const ON_SCHEDULE: f64 = 0.8;
/// Limit of resident memory: the sum of the limits in the configuration below, with room for the allocator.
const RESIDENT_MAX: u64 = 1 << 30;
/// The documented time to stop.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);
/// Least and most time until it is stopped, when it is stopped again and again.
const ROUND: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(40));

/// A user of the server under test who operates it.
const OPERATOR: User = User { name: "load", authorization: "Authorization: Basic bG9hZDpyaWdodA==\r\n" };
/// One who attacks it.
const VIEWER: User = User { name: "vic", authorization: "Authorization: Basic dmljOnJpZ2h0\r\n" };
/// Their password.
const PASSWORD: &str = "right";

/// A user, and the header that signs in.
#[derive(Clone, Copy)]
struct User {
    name: &'static str,
    authorization: &'static str,
}

/// The server for attackers and the load.
struct Target {
    /// `127.0.0.1:PORT`.
    http: String,
    sql_port: String,
    /// A profile of a few kilobytes.
    ordinary: String,
    /// A profile of a few hundred bytes whose text forms are hundreds of megabytes.
    amplified: String,
    /// The header by which the agent of a host, or who has stolen its token, signs in.
    token: String,
}

/// The results of the ordinary load.
#[derive(Default)]
struct Load {
    requests: u32,
    slowest: Duration,
    failures: Vec<String>,
    vitals: Vec<Vitals>,
}

/// Attacks a server for `seconds`.
pub(super) fn run(folder: &Path, seconds: u64, checks: &mut Checks) -> Result<()> {
    let users = folder.join("users");
    add_user(&users, "operator", OPERATOR.name)?;
    add_user(&users, "viewer", VIEWER.name)?;
    let token = add_token(&users, &folder.join("token"))?;
    let config = folder.join("hostile.toml");
    std::fs::write(&config, nodes::config(&nodes::serve()?, &users)).context("write the configuration")?;
    let place = Place { folder: folder.to_owned(), config, token };
    let (begun, whole) = (Instant::now(), Duration::from_secs(seconds));
    let first = whole * 2 / 3;
    let mut stops = Vec::new();
    let mut all = place.attacked(first, &mut stops, |load, target| {
        judge(load, target, first, checks);
    })?;
    let mut seed = std::process::id() | 1;
    while begun.elapsed() < whole {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let time = ROUND.0 + (ROUND.1 - ROUND.0).mul_f64(f64::from(seed >> 8) / f64::from(1 << 24));
        let load = place.attacked(time, &mut stops, |_, _| {})?;
        all.join(load);
    }
    all.served(checks);
    let slowest = stops.iter().max().copied().unwrap_or_default();
    let found = format!("{} times, after {:.1} s at most", stops.len(), slowest.as_secs_f64());
    checks.add("SIGTERM ends it under attack", found, slowest <= STOPPED_WITHIN);
    Ok(())
}

/// What the server is started with.
struct Place {
    folder: PathBuf,
    config: PathBuf,
    token: String,
}

impl Place {
    /// Starts the server, attacks it for a time with `judge` at the end of it, and stops it meanwhile.
    fn attacked(&self, time: Duration, stops: &mut Vec<Duration>, judge: impl FnOnce(&Load, &Target)) -> Result<Load> {
        let data = self.folder.join("hostile");
        let log = data.with_extension("log");
        // The port is that of the last start.
        let _ = std::fs::rename(&log, self.folder.join("before.log"));
        let arguments = ["--config", &self.config.display().to_string(), "--mysql", "127.0.0.1:0"];
        let mut server = Served::start(Command::new(product::procprof()?), &data, &arguments)?;
        let target = Target {
            http: server.address.clone(),
            sql_port: sql_port(&log)?,
            ordinary: push(&server.address, &inputs::node()?)?,
            amplified: push(&server.address, &inputs::amplified()?)?,
            token: self.token.clone(),
        };
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for (name, attack) in attack::ATTACKS {
                let (target, stop) = (&target, &stop);
                let started =
                    thread::Builder::new().name((*name).to_owned()).spawn_scoped(scope, move || attack(target, stop));
                started.with_context(|| format!("start the attack {name}"))?;
            }
            let found = load(&mut server, &target, time).and_then(|load| {
                judge(&load, &target);
                // Under attack, still.
                let begun = Instant::now();
                server.terminate()?;
                stops.push(begun.elapsed());
                Ok(load)
            });
            stop.store(true, Ordering::Relaxed);
            found
        })
    }
}

/// Adds a token that pushes; the header that signs in by it.
fn add_token(users: &Path, file: &Path) -> Result<String> {
    let mut command = Command::new(product::procprof()?);
    command.args(["user", "add", "--role", "push", "--token-file"]).arg(file).arg("--file").arg(users).arg("agent");
    ensure!(command.stdout(Stdio::null()).status().context("run procprof user add")?.success(), "user add failed");
    let token = std::fs::read_to_string(file).context("read a token")?;
    Ok(format!("Authorization: Bearer {}\r\n", token.trim()))
}

fn add_user(users: &Path, role: &str, name: &str) -> Result<()> {
    let mut command = Command::new(product::procprof()?);
    command
        .args(["user", "add", "--role", role, "--file"])
        .arg(users)
        .arg(name)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.spawn().context("run procprof user add")?;
    let mut stdin = child.stdin.take().context("write the password")?;
    std::io::Write::write_all(&mut stdin, PASSWORD.as_bytes()).context("write the password")?;
    drop(stdin);
    ensure!(child.wait()?.success(), "procprof user add failed");
    Ok(())
}

/// Stores a profile; returns its id.
fn push(address: &str, profile: &[u8]) -> Result<String> {
    let answer = http::send("POST", address, "/api/push?node=healthy-0&type=cpu", OPERATOR.authorization, profile)?;
    let text = String::from_utf8_lossy(&answer.body);
    ensure!(answer.status == 201, "push: {}: {text}", answer.status);
    let stored: serde_json::Value = serde_json::from_str(&text).with_context(|| format!("push: {text}"))?;
    Ok(stored["id"].as_str().context("the id of a pushed profile")?.to_owned())
}

/// An ordinary client, once a second for that long.
fn load(server: &mut Served, target: &Target, whole: Duration) -> Result<Load> {
    let mut load = Load::default();
    let start = Instant::now();
    while start.elapsed() < whole {
        if let Some(status) = server.ended()? {
            bail!("the server ended under attack: {status}");
        }
        load.vitals.push(server.vitals()?);
        let report = format!("/p/{}?format=top", target.ordinary);
        for path in ["/healthz", "/api/profiles?limit=10", &report] {
            load.ask(path, || get(&target.http, path));
        }
        if load.vitals.len().is_multiple_of(5) {
            load.ask("SQL", || statement(target, OPERATOR, "SELECT COUNT(*) FROM profiles").map(drop));
        }
        thread::sleep(Duration::from_secs(1));
    }
    Ok(load)
}

impl Load {
    fn join(&mut self, other: Load) {
        self.requests += other.requests;
        self.slowest = self.slowest.max(other.slowest);
        self.failures.extend(other.failures);
        self.vitals.extend(other.vitals);
    }

    /// What became of all requests, and the memory of all starts.
    fn served(&self, checks: &mut Checks) {
        let first = self.failures.first().map(|failure| format!("; the first: {failure}")).unwrap_or_default();
        let (failed, slowest) = (self.failures.len(), self.slowest.as_secs_f64());
        let found = format!("{failed} of {} requests failed, slowest {slowest:.2} s{first}", self.requests);
        checks.add("an ordinary client is served under attack", found, self.failures.is_empty());
        let most = self.vitals.iter().map(|vitals| vitals.resident_max).max().unwrap_or(0);
        checks.add("resident memory is bounded", format!("{} at most", megabytes(most)), most <= RESIDENT_MAX);
    }

    fn ask(&mut self, what: &str, question: impl FnOnce() -> Result<()>) {
        let start = Instant::now();
        let answer = question();
        let took = start.elapsed();
        self.requests += 1;
        self.slowest = self.slowest.max(took);
        match answer {
            Err(error) => self.failures.push(format!("{what}: {error:#}")),
            Ok(()) if took > SERVED_WITHIN => {
                self.failures.push(format!("{what}: answered after {:.1} s", took.as_secs_f64()))
            }
            Ok(()) => {}
        }
    }
}

fn get(address: &str, path: &str) -> Result<()> {
    let answer = http::send("GET", address, path, OPERATOR.authorization, &[])?;
    ensure!(answer.status == 200, "status {}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    Ok(())
}

/// MariaDB's client, as a user.
fn client(target: &Target, user: User) -> Command {
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "--host=127.0.0.1", "--skip-ssl", "-N", "-B", "--connect-timeout=20"]);
    let (port, user) = (format!("--port={}", target.sql_port), format!("--user={}", user.name));
    client.args([port, user, format!("--password={PASSWORD}")]);
    client
}

/// Runs a statement by MariaDB's client.
fn statement(target: &Target, user: User, text: &str) -> Result<String> {
    let mut client = client(target, user);
    let output = client.args(["-e", text]).output().context("run mariadb")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn judge(load: &Load, target: &Target, whole: Duration, checks: &mut Checks) {
    let due = whole.as_secs() / INTERVAL.as_secs();
    for number in 0..HEALTHY {
        let name = format!("healthy-{number}");
        let (found, holds) = match scheduled(target, &name) {
            Ok(taken) => (format!("{taken} of {due} captures"), taken as f64 >= due as f64 * ON_SCHEDULE),
            Err(error) => (format!("{error:#}"), false),
        };
        checks.add(format!("{name} keeps its schedule"), found, holds);
    }
    watch::memory(&load.vitals, whole.as_secs(), checks);
}

/// Stored scheduled profiles of a node.
fn scheduled(target: &Target, node: &str) -> Result<u64> {
    let id = format!("(SELECT id FROM nodes WHERE name = '{node}')");
    let text = statement(
        target,
        OPERATOR,
        &format!("SELECT COUNT(*) FROM profiles WHERE node = {id} AND `trigger` = 'schedule'"),
    )?;
    text.trim().parse().with_context(|| format!("profiles of {node}: {text:?}"))
}
