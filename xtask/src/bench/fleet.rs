//! A hundred nodes with one CPU profile a minute each, the server on one core, and a thousand on two servers with one
//! archive: checks that every profile is requested in time and stored.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::answerer::{self, Answer};
use crate::inputs;
use crate::product::{self, Served};
use crate::table::Table;
use crate::vitals::megabytes;

const EVERY: Duration = Duration::from_secs(60);
/// Each node is due at least three times.
const WATCHED: Duration = Duration::from_secs(200);

/// The configuration of the nodes.
struct Fleet {
    nodes: usize,
    /// One has a core of its own; several share the machine, and an archive.
    servers: usize,
    /// Length of a capture.
    seconds: u64,
    clusters: usize,
    /// `max_concurrent_captures`, which holds per cluster.
    limit: usize,
}

const FLEETS: &[Fleet] = &[
    Fleet { nodes: 100, servers: 1, seconds: 1, clusters: 1, limit: 8 },
    Fleet { nodes: 100, servers: 1, seconds: 10, clusters: 1, limit: 8 },
    Fleet { nodes: 100, servers: 1, seconds: 10, clusters: 4, limit: 8 },
    Fleet { nodes: 100, servers: 1, seconds: 10, clusters: 1, limit: 24 },
    Fleet { nodes: 1000, servers: 2, seconds: 1, clusters: 1, limit: 24 },
];

/// The times of the requests to each node.
type RequestTimes = Arc<Vec<Mutex<Vec<Instant>>>>;

pub(super) fn run() -> Result<()> {
    let body = Arc::new(inputs::node()?);
    let mut table = Table::new(&[
        "nodes",
        "servers",
        "capture",
        "clusters",
        "limit each",
        "at a time, on average",
        "due",
        "requested",
        "of these stored",
        "errors",
        "all nodes begun after",
        "longest between two starts",
        "CPU time",
        "a profile",
        "RSS, largest",
    ]);
    for shape in FLEETS {
        table.row(fleet(&body, shape)?);
    }
    table.print(&format!(
        "A profile of {} bytes a minute of each node, a single server on one core, {} s",
        body.len(),
        WATCHED.as_secs()
    ));
    Ok(())
}

fn fleet(body: &Arc<Vec<u8>>, shape: &Fleet) -> Result<Vec<String>> {
    let Fleet { nodes, servers, seconds, clusters, limit } = *shape;
    let folder = tempfile::tempdir().context("make a folder")?;
    let requests: RequestTimes = Arc::new((0..nodes).map(|_| Mutex::default()).collect());
    let mut config = format!("max_concurrent_captures = {limit}\n");
    for number in 0..nodes {
        let port = node(body, seconds, number, &requests)?;
        config.push_str(&format!(
            "[[node]]\nname = \"node-{number}\"\nkind = \"go\"\nhttp = \"127.0.0.1:{port}\"\ncluster = \"cluster-{}\"\npid_lookup = \"off\"\n\
             schedule.cpu = {{ seconds = {seconds}, every = {} }}\nschedule.heap = {{ on = false }}\nschedule.goroutine = {{ on = false }}\n",
            number % clusters,
            EVERY.as_secs(),
        ));
    }
    let file = folder.path().join("procprof.toml");
    std::fs::write(&file, config).context("write the configuration")?;
    let archive = format!("archive={}", folder.path().join("archive").display());
    let start = |number: usize| {
        let data = folder.path().join(format!("data-{number}"));
        match servers {
            1 => on_one_core(&data, &file),
            _ => {
                let words = ["--config", &file.display().to_string(), "--set", &archive].map(str::to_owned);
                Served::start(Command::new(product::procprof()?), &data, &words.each_ref().map(String::as_str))
            }
        }
    };
    let running = (0..servers).map(start).collect::<Result<Vec<Served>>>()?;
    let begin = Instant::now();
    thread::sleep(WATCHED);
    let end = Instant::now();
    let starts: Vec<Vec<Instant>> =
        requests.iter().map(|times| times.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect();
    // Started captures get their time and two seconds more to be stored.
    thread::sleep(Duration::from_secs(seconds + 2));
    let (mut cpu, mut resident, mut errors) = (0.0, 0, 0);
    let mut of: HashMap<String, usize> = HashMap::new();
    for server in &running {
        let vitals = server.vitals()?;
        cpu += vitals.cpu + vitals.children_cpu;
        resident = resident.max(vitals.resident_max);
        errors += server.rows("errors", "")?.len();
        for row in server.rows("profiles", "type=cpu")? {
            *of.entry(row["node_name"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    running.into_iter().try_for_each(Served::terminate)?;
    let of = |number: usize| of.get(&format!("node-{number}")).copied().unwrap_or_default();
    let all: Vec<usize> = (0..nodes).map(of).collect();
    // Captures started in the meantime are not counted.
    let stored: usize = all.iter().zip(&starts).map(|(stored, starts)| starts.len().min(*stored)).sum();
    let begun: usize = starts.iter().map(Vec::len).sum();
    Ok(vec![
        nodes.to_string(),
        servers.to_string(),
        format!("{seconds} s"),
        clusters.to_string(),
        limit.to_string(),
        format!("{:.1}", nodes as f64 * seconds as f64 / EVERY.as_secs_f64()),
        starts.iter().map(|starts| due(starts, end)).sum::<usize>().to_string(),
        begun.to_string(),
        stored.to_string(),
        errors.to_string(),
        starts
            .iter()
            .map(|starts| starts.first())
            .max()
            .flatten()
            .map_or_else(String::new, |first| seconds_of(*first - begin)),
        seconds_of(
            starts.iter().flat_map(|starts| starts.windows(2)).map(|pair| pair[1] - pair[0]).max().unwrap_or_default(),
        ),
        format!("{cpu:.2} s"),
        format!("{:.1} ms", cpu * 1e3 / all.iter().sum::<usize>() as f64),
        megabytes(resident),
    ])
}

fn on_one_core(data: &Path, config: &Path) -> Result<Served> {
    let mut command = Command::new("taskset");
    command.args(["-c", "1"]).arg(product::procprof()?);
    Served::start(command, data, &["--config", &config.display().to_string()])
}

/// A node that responds after the time of a capture.
fn node(body: &Arc<Vec<u8>>, seconds: u64, number: usize, requests: &RequestTimes) -> Result<u16> {
    let (body, requests) = (Arc::clone(body), Arc::clone(requests));
    answerer::serve(move |target| {
        if !target.starts_with("/debug/pprof/profile") {
            return Answer { status: "404 Not Found", body: Arc::default() };
        }
        requests[number].lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        thread::sleep(Duration::from_secs(seconds));
        Answer { status: "200 OK", body: Arc::clone(&body) }
    })
}

/// Captures that should have begun by `end`, counted from the node's first.
fn due(starts: &[Instant], end: Instant) -> usize {
    starts.first().map_or(0, |first| ((end - *first).as_secs_f64() / EVERY.as_secs_f64()) as usize + 1)
}

fn seconds_of(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
