//! A server under attack: hostile clients and nodes beside an ordinary load. The load must be served, healthy nodes
//! must keep their schedule, memory must stay flat, and the server must stop on SIGTERM meanwhile.

mod attack;
mod nodes;

use std::path::Path;
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
/// The documented time to stop, doubled for a fully loaded machine.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// A user of the server under test, and the header that signs in.
const USER: &str = "load";
const PASSWORD: &str = "right";
const AUTHORIZATION: &str = "Authorization: Basic bG9hZDpyaWdodA==\r\n";

/// The server for attackers and the load.
struct Target {
    /// `127.0.0.1:PORT`.
    http: String,
    sql_port: String,
    /// A profile of a few kilobytes.
    ordinary: String,
    /// A profile of a few hundred bytes whose text forms are hundreds of megabytes.
    amplified: String,
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
    add_user(&users)?;
    let config = folder.join("hostile.toml");
    std::fs::write(&config, nodes::config(&nodes::serve()?, &users)).context("write the configuration")?;
    let data = folder.join("hostile");
    let arguments = ["--config", &config.display().to_string(), "--mysql", "127.0.0.1:0"];
    let mut server = Served::start(Command::new(product::procprof()?), &data, &arguments)?;
    let target = Target {
        http: server.address.clone(),
        sql_port: sql_port(&data.with_extension("log"))?,
        ordinary: push(&server.address, &inputs::node()?)?,
        amplified: push(&server.address, &inputs::amplified()?)?,
    };
    let stop = AtomicBool::new(false);
    let whole = Duration::from_secs(seconds);
    thread::scope(|scope| {
        for (name, attack) in attack::ATTACKS {
            let (target, stop) = (&target, &stop);
            let started =
                thread::Builder::new().name((*name).to_owned()).spawn_scoped(scope, move || attack(target, stop));
            started.with_context(|| format!("start the attack {name}"))?;
        }
        let found = load(&mut server, &target, whole).and_then(|load| {
            judge(&load, &target, whole, checks);
            // Under attack, still.
            stopped(server, checks)
        });
        stop.store(true, Ordering::Relaxed);
        found
    })
}

fn add_user(users: &Path) -> Result<()> {
    let mut command = Command::new(product::procprof()?);
    command
        .args(["user", "add", "--role", "operator", "--file"])
        .arg(users)
        .arg(USER)
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
    let answer = http::send("POST", address, "/api/push?node=healthy-0&type=cpu", AUTHORIZATION, profile)?;
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
            load.ask("SQL", || statement(target, "SELECT COUNT(*) FROM profiles").map(drop));
        }
        thread::sleep(Duration::from_secs(1));
    }
    Ok(load)
}

impl Load {
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
    let answer = http::send("GET", address, path, AUTHORIZATION, &[])?;
    ensure!(answer.status == 200, "status {}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    Ok(())
}

/// Runs a statement by MariaDB's client.
fn statement(target: &Target, text: &str) -> Result<String> {
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "--host=127.0.0.1", "--skip-ssl", "-N", "-B", "--connect-timeout=20"]);
    client.args([format!("--port={}", target.sql_port), format!("--user={USER}"), format!("--password={PASSWORD}")]);
    let output = client.args(["-e", text]).output().context("run mariadb")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn judge(load: &Load, target: &Target, whole: Duration, checks: &mut Checks) {
    let first = load.failures.first().map(|failure| format!("; the first: {failure}")).unwrap_or_default();
    checks.add(
        "an ordinary client is served under attack",
        format!(
            "{} of {} requests failed, slowest {:.2} s{first}",
            load.failures.len(),
            load.requests,
            load.slowest.as_secs_f64()
        ),
        load.failures.is_empty(),
    );
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
    let most = load.vitals.iter().map(|vitals| vitals.resident_max).max().unwrap_or(0);
    checks.add("resident memory is bounded", format!("{} at most", megabytes(most)), most <= RESIDENT_MAX);
}

/// Stored scheduled profiles of a node.
fn scheduled(target: &Target, node: &str) -> Result<u64> {
    let id = format!("(SELECT id FROM nodes WHERE name = '{node}')");
    let text =
        statement(target, &format!("SELECT COUNT(*) FROM profiles WHERE node = {id} AND `trigger` = 'schedule'"))?;
    text.trim().parse().with_context(|| format!("profiles of {node}: {text:?}"))
}

fn stopped(server: Served, checks: &mut Checks) -> Result<()> {
    let start = Instant::now();
    server.terminate()?;
    let took = start.elapsed();
    checks.add("SIGTERM ends it under attack", format!("after {:.1} s", took.as_secs_f64()), took <= STOPPED_WITHIN);
    Ok(())
}
