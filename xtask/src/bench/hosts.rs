//! 1,000 and 2,000 simulated hosts with six profiles a minute each, and two users who browse: failed requests, latency
//! of pages, memory and CPU time of the server, and those of the simulated hosts apart.
//!
//! `PROCPROF_BENCH_HOSTS=100,200` simulates other numbers of hosts, `PROCPROF_BENCH_SECONDS=60` for another time.

mod agent;
mod connection;
mod user;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::agent::SimulatedHost;
use self::user::User;
use crate::inputs;
use crate::product::{self, Served};
use crate::table::Table;
use crate::tools;
use crate::vitals::{Vitals, megabytes};

const HOSTS: [usize; 2] = [1_000, 2_000];
const WATCHED: Duration = Duration::from_secs(600);
/// Services of each host, which have one profile a minute each.
const SERVICES: usize = 6;
/// Time between two pushes of a host.
const PUSH_EVERY: Duration = Duration::from_secs(60);
const USERS: usize = 2;
/// Different contents of profiles.
const CONTENTS: u64 = 60;
/// Stack of a thread of a simulated host.
const STACK_BYTES: usize = 128 << 10;
/// Longest wait for the end of what is under way.
const ENDING: Duration = Duration::from_secs(60);

/// Requests of all simulated hosts.
#[derive(Default)]
struct Traffic {
    heartbeats: AtomicU64,
    heartbeats_failed: AtomicU64,
    pushes: AtomicU64,
    pushes_failed: AtomicU64,
    stored: AtomicU64,
    not_stored: AtomicU64,
    connections: AtomicU64,
}

/// State that simulated hosts and users share.
struct Simulation {
    /// `127.0.0.1:PORT` of the server.
    address: String,
    contents: Vec<Vec<u8>>,
    traffic: Traffic,
    is_over: AtomicBool,
}

pub(super) fn run() -> Result<()> {
    tools::ensure_present(&[("mariadb", "mariadb-client")])?;
    let watched = match std::env::var("PROCPROF_BENCH_SECONDS") {
        Ok(seconds) => Duration::from_secs(seconds.parse().context("PROCPROF_BENCH_SECONDS")?),
        Err(_) => WATCHED,
    };
    let counts = match std::env::var("PROCPROF_BENCH_HOSTS") {
        Ok(hosts) => {
            hosts.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>().context("PROCPROF_BENCH_HOSTS")?
        }
        Err(_) => HOSTS.to_vec(),
    };
    let mut load = Table::new(&[
        "hosts",
        "heartbeats, failed",
        "pushes, failed",
        "profiles stored, not stored",
        "connections opened",
        "CPU of the server",
        "RSS at the end, anonymous; largest",
        "CPU of the simulated hosts and users",
    ]);
    let mut pages =
        Table::new(&["hosts", "page", "requests, failed", "bytes, largest", "latency, median", "99 %", "worst"]);
    for hosts in counts {
        simulate(hosts, watched, &mut load, &mut pages).with_context(|| format!("simulate {hosts} hosts"))?;
    }
    load.print(&format!("Hosts with {SERVICES} profiles a minute each, for {} s", watched.as_secs()));
    pages.print(&format!("Pages that {USERS} users open meanwhile"));
    Ok(())
}

fn simulate(hosts: usize, watched: Duration, load: &mut Table, pages: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let data = folder.path().join("data");
    let words = ["--mysql", "127.0.0.1:0", "--mysql-no-auth", "--set", "archive="];
    let server = Served::start(Command::new(product::procprof()?), &data, &words)?;
    let sql_port = product::sql_port(&data.with_extension("log"))?;
    let simulation = Arc::new(Simulation {
        address: server.address.clone(),
        contents: (0..CONTENTS).map(inputs::small).collect::<Result<_>>()?,
        traffic: Traffic::default(),
        is_over: AtomicBool::new(false),
    });
    let (before, own_before) = (server.vitals()?, Vitals::from_pid(std::process::id())?);
    let mut threads = Vec::with_capacity(2 * hosts);
    for number in 0..hosts {
        let host = SimulatedHost::new(number, hosts);
        for run in [SimulatedHost::send_heartbeats, SimulatedHost::push_profiles] {
            let (host, simulation) = (host.clone(), Arc::clone(&simulation));
            let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || run(&host, &simulation));
            threads.push(thread.context("start a thread of a host")?);
        }
    }
    let users: Vec<_> = (0..USERS)
        .map(|number| {
            let (user, simulation) = (User::new(number, hosts, &sql_port), Arc::clone(&simulation));
            thread::spawn(move || user.browse(&simulation))
        })
        .collect();
    thread::sleep(watched);
    let (vitals, own) = (server.vitals()?, Vitals::from_pid(std::process::id())?);
    simulation.is_over.store(true, Ordering::Relaxed);
    let mut visits: BTreeMap<&str, user::Visits> = BTreeMap::new();
    for user in users {
        for (page, own) in user.join().expect("a user panicked")? {
            visits.entry(page).or_default().add(own);
        }
    }
    let end = Instant::now();
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        ensure!(end.elapsed() < ENDING, "simulated hosts do not end within {} s", ENDING.as_secs());
        thread::sleep(Duration::from_millis(20));
    }
    server.terminate()?;
    let traffic = &simulation.traffic;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let cores = |seconds: f64| format!("{seconds:.1} s, {:.0} % of a core", 100.0 * seconds / watched.as_secs_f64());
    load.row([
        hosts.to_string(),
        format!("{}, {}", count(&traffic.heartbeats), count(&traffic.heartbeats_failed)),
        format!("{}, {}", count(&traffic.pushes), count(&traffic.pushes_failed)),
        format!("{}, {}", count(&traffic.stored), count(&traffic.not_stored)),
        count(&traffic.connections).to_string(),
        cores(vitals.cpu + vitals.children_cpu - before.cpu - before.children_cpu),
        format!("{}, {}; {}", megabytes(vitals.resident), megabytes(vitals.anonymous), megabytes(vitals.resident_max)),
        cores(own.cpu + own.children_cpu - own_before.cpu - own_before.children_cpu),
    ]);
    for (page, visits) in visits {
        pages.row(visits.row(hosts, page));
    }
    Ok(())
}

impl Simulation {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits for a time, or less if the simulation ends.
    fn rest(&self, time: Duration) {
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < time {
            thread::sleep((time - begun.elapsed().min(time)).min(Duration::from_secs(1)));
        }
    }
}
