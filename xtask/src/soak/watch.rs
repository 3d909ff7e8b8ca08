//! The long part: collecting on schedule while nodes are killed, replaced and answer garbage, with so little room that
//! retention must delete.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Place;
use super::checks::Checks;
use super::nodes::Nodes;
use crate::http;
use crate::product::Served;
use crate::vitals::{Vitals, megabytes};

/// Room of each node, bytes.
const ROOM: u64 = 64 << 10;
const RETENTION_SECONDS: u64 = 5;
/// The first retry of what failed comes after two minutes.
const BACKOFF: Duration = Duration::from_secs(125);
/// Last resident memory may be larger than first by a share and a constant: caches fill at the start.
const GROWTH: (f64, f64) = (1.15, 2e6);

/// The events, by their share of the time.
const EVENTS: &[(f64, Event)] = &[
    (0.10, Event::KillGo),
    (0.12, Event::RestartGo),
    (0.20, Event::ReplaceDuringCapture),
    (0.30, Event::KillBackend),
    (0.32, Event::RestartBackend),
];

#[derive(Clone, Copy)]
enum Event {
    KillGo,
    RestartGo,
    ReplaceDuringCapture,
    KillBackend,
    RestartBackend,
}

/// The observations.
#[derive(Default)]
struct Seen {
    vitals: Vec<Vitals>,
    profiles: BTreeSet<String>,
    rooms_max: u64,
}

/// Watches for `seconds`.
pub(super) fn run(place: &Place, nodes: &mut Nodes, seconds: u64, checks: &mut Checks) -> Result<()> {
    let room = format!("proc_profile_file_retained_size_bytes={ROOM}");
    let often = format!("retention_interval_seconds={RETENTION_SECONDS}");
    let mut server = place.serve(&["--set", &room, "--set", &often])?;
    let mut seen = Seen::default();
    let whole = Duration::from_secs(seconds);
    let start = Instant::now();
    let mut events = EVENTS.iter();
    let mut next = events.next();
    while start.elapsed() < whole {
        if let Some(status) = server.ended()? {
            bail!("the server ended: {status}");
        }
        if let Some((share, event)) = next
            && start.elapsed() >= whole.mul_f64(*share)
        {
            happen(*event, nodes, &server)?;
            next = events.next();
        }
        look(&server, &mut seen)?;
        thread::sleep(Duration::from_secs(1));
    }
    collected(&server, &seen, whole, checks)?;
    failures(&server, nodes, whole, checks)?;
    memory(&seen.vitals, seconds, checks);
    retention(&server, &seen, checks)?;
    server.terminate()?;
    checks.files(&place.data, "after the watch")
}

fn happen(event: Event, nodes: &mut Nodes, server: &Served) -> Result<()> {
    match event {
        Event::KillGo => nodes.go.kill(),
        Event::RestartGo => nodes.go.restart(),
        Event::KillBackend => nodes.be.kill(),
        Event::RestartBackend => nodes.be.restart(),
        Event::ReplaceDuringCapture => {
            wait_for_capture(server, nodes.restarting.name)?;
            nodes.restarting.restart()
        }
    }
}

/// Waits until a CPU capture of the node is running for a while.
fn wait_for_capture(server: &Served, node: &str) -> Result<()> {
    for _ in 0..200 {
        let answer = server.json(&format!("/api/nodes/{node}"))?;
        let types = answer["types"].as_array().context("types of a node")?;
        if types.iter().any(|row| row["type"] == "cpu" && row["capturing"] == true) {
            thread::sleep(Duration::from_millis(500));
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("{node} was not captured within 20 s")
}

fn look(server: &Served, seen: &mut Seen) -> Result<()> {
    seen.vitals.push(server.vitals()?);
    if seen.vitals.len().is_multiple_of(4) {
        seen.profiles.extend(ids(&server.rows("profiles", "")?));
        let rooms = server.json("/api/retention?limit=1000")?;
        let largest = rooms["nodes"].as_array().into_iter().flatten().filter_map(|node| node["bytes"].as_u64()).max();
        seen.rooms_max = seen.rooms_max.max(largest.unwrap_or(0));
    }
    Ok(())
}

/// Ids of rows.
pub(super) fn ids(rows: &[Value]) -> BTreeSet<String> {
    rows.iter().filter_map(|row| row["id"].as_str()).map(str::to_owned).collect()
}

/// Whether the nodes that stayed whole, or came back, gave profiles until the end.
fn collected(server: &Served, seen: &Seen, whole: Duration, checks: &mut Checks) -> Result<()> {
    checks.add(
        "profiles are collected",
        format!("{} seen", seen.profiles.len()),
        seen.profiles.len() as u64 > whole.as_secs() / 5,
    );
    let came_back = whole.mul_f64(0.6) > BACKOFF;
    for (node, types) in
        [("go", &["cpu", "heap", "goroutine"][..]), ("be", &["cpu", "contention", "heap"]), ("restarting", &["cpu"])]
    {
        let answer = server.json(&format!("/api/nodes/{node}"))?;
        for wanted in types {
            let row = answer["types"].as_array().into_iter().flatten().find(|row| row["type"] == *wanted);
            let (good, bad) = row.map_or(("", ""), |row| {
                (row["last_success"].as_str().unwrap_or(""), row["last_error"]["at"].as_str().unwrap_or(""))
            });
            if came_back {
                checks.add(
                    format!("{node} {wanted}: profiles again after its failure"),
                    format!("last profile {good}, last failure {bad}"),
                    good > bad,
                );
            } else {
                checks.add(format!("{node} {wanted}: profiles"), format!("last profile {good}"), !good.is_empty());
            }
        }
    }
    Ok(())
}

/// Whether each failure is a row with its reason.
fn failures(server: &Served, nodes: &Nodes, whole: Duration, checks: &mut Checks) -> Result<()> {
    let broken = nodes.garbage.iter().map(|(name, _)| (*name, true));
    let killed = [("go", false), ("be", false), ("restarting", false)];
    for (name, garbage) in killed.into_iter().chain(broken) {
        let rows = server.rows("errors", &format!("node={name}"))?;
        let message = rows.last().and_then(|row| row["message"].as_str()).unwrap_or_default();
        let few = rows.len() as u64 <= 3 * (2 + whole.as_secs() / 120);
        checks.add(
            format!("{name}: an error row, and no flood"),
            format!("{} rows; the first: {message}", rows.len()),
            !message.is_empty() && few,
        );
        if garbage {
            let stored = server.rows("profiles", &format!("node={name}"))?.len();
            checks.add(format!("{name}: nothing stored"), stored.to_string(), stored == 0);
        }
    }
    Ok(())
}

/// Whether resident memory is flat over the quarters of the time.
pub(super) fn memory(vitals: &[Vitals], seconds: u64, checks: &mut Checks) {
    let quarter = (vitals.len() / 4).max(1);
    let means: Vec<f64> = vitals
        .chunks(quarter)
        .take(4)
        .map(|quarter| quarter.iter().map(|look| look.resident as f64).sum::<f64>() / quarter.len() as f64)
        .collect();
    let quarters: Vec<String> = means.iter().map(|mean| megabytes(*mean as u64)).collect();
    let flat = means[means.len() - 1] <= means[0] * GROWTH.0 + GROWTH.1;
    checks.add("resident memory is flat, by quarters", quarters.join(", "), flat);
    if let (Some(first), Some(last)) = (vitals.first(), vitals.last()) {
        let (own, children) = (last.cpu - first.cpu, last.children_cpu - first.children_cpu);
        checks.add(
            "CPU time",
            format!("{own:.1} s own, {children:.1} s of symbolizing children, in {seconds} s"),
            true,
        );
    }
}

/// Whether exactly the excess was deleted.
fn retention(server: &Served, seen: &Seen, checks: &mut Checks) -> Result<()> {
    let paused = http::request("POST", &server.address, "/api/pause")?;
    anyhow::ensure!(paused.status == 200, "pausing: {}", paused.status);
    thread::sleep(Duration::from_secs(2 * RETENTION_SECONDS + 2));
    let rows = server.rows("profiles", "")?;
    let deleted = seen.profiles.difference(&ids(&rows)).count();
    checks.add(
        "retention deletes",
        format!(
            "{deleted} of {} seen, {} left; a node had {} at most",
            seen.profiles.len(),
            rows.len(),
            megabytes(seen.rooms_max)
        ),
        deleted > 0,
    );
    let answer = server.json("/api/retention?limit=1000")?;
    let over: Vec<String> = answer["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        // The newest of each type is kept, whatever its size.
        .filter(|node| node["bytes"].as_u64() > Some(ROOM) && node["profiles"].as_u64() > Some(3))
        .map(|node| format!("node {} has {}", node["node"], node["bytes"]))
        .collect();
    let found = if over.is_empty() { format!("none above {ROOM} bytes") } else { over.join(", ") };
    checks.add("every node keeps to its room", found, over.is_empty());
    let resumed = http::request("POST", &server.address, "/api/resume")?;
    anyhow::ensure!(resumed.status == 200, "resuming: {}", resumed.status);
    Ok(())
}
