//! A hundred nodes with one CPU profile a minute each, the server on one core: checks that every profile is requested
//! in time and stored.

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

const NODES: usize = 100;
const EVERY: Duration = Duration::from_secs(60);
/// Each node is due at least three times.
const WATCHED: Duration = Duration::from_secs(200);

/// The configuration of the nodes.
struct Fleet {
    /// Length of a capture.
    seconds: u64,
    clusters: usize,
    /// `max_concurrent_captures`, which holds per cluster.
    limit: usize,
}

const FLEETS: &[Fleet] = &[
    Fleet { seconds: 1, clusters: 1, limit: 8 },
    Fleet { seconds: 10, clusters: 1, limit: 8 },
    Fleet { seconds: 10, clusters: 4, limit: 8 },
    Fleet { seconds: 10, clusters: 1, limit: 24 },
];

/// The times of the requests to each node.
type RequestTimes = Arc<Vec<Mutex<Vec<Instant>>>>;

pub(super) fn run() -> Result<()> {
    let body = Arc::new(inputs::node()?);
    let mut table = Table::new(&[
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
        "{NODES} nodes, a profile of {} bytes a minute each, server on one core, {} s",
        body.len(),
        WATCHED.as_secs()
    ));
    Ok(())
}

fn fleet(body: &Arc<Vec<u8>>, shape: &Fleet) -> Result<Vec<String>> {
    let Fleet { seconds, clusters, limit } = *shape;
    let folder = tempfile::tempdir().context("make a folder")?;
    let requests: RequestTimes = Arc::new((0..NODES).map(|_| Mutex::default()).collect());
    let mut config = format!("max_concurrent_captures = {limit}\n");
    for number in 0..NODES {
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
    let server = on_one_core(&folder.path().join("data"), &file)?;
    let begin = Instant::now();
    thread::sleep(WATCHED);
    let end = Instant::now();
    let starts: Vec<Vec<Instant>> =
        requests.iter().map(|times| times.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect();
    // Started captures get their time and two seconds more to be stored.
    thread::sleep(Duration::from_secs(seconds + 2));
    let vitals = server.vitals()?;
    let rows = server.rows("profiles", "type=cpu")?;
    let of = |number: usize| rows.iter().filter(|row| row["node_name"] == format!("node-{number}")).count();
    let all: Vec<usize> = (0..NODES).map(of).collect();
    // Captures started in the meantime are not counted.
    let stored: usize = all.iter().zip(&starts).map(|(stored, starts)| starts.len().min(*stored)).sum();
    let errors = server.rows("errors", "")?.len();
    let begun: usize = starts.iter().map(Vec::len).sum();
    let cpu = vitals.cpu + vitals.children_cpu;
    Ok(vec![
        format!("{seconds} s"),
        clusters.to_string(),
        limit.to_string(),
        format!("{:.1}", NODES as f64 * seconds as f64 / EVERY.as_secs_f64()),
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
        megabytes(vitals.resident_max),
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
