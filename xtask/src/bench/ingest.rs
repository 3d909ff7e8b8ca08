//! How many profiles a server takes in when they are pushed as fast as it can, and what archiving them costs.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::pages::time_field;
use crate::inputs;
use crate::product::{self, Served};
use crate::table::Table;
use crate::vitals::{children_cpu, megabytes};

const CLIENTS: usize = 8;
const WATCHED: Duration = Duration::from_secs(30);
/// 1 September 2026, UTC; profiles are a second apart.
const START: i64 = 1_788_220_800;
const KEEP: [&str; 6] =
    ["--set", "proc_profile_cpu_enable=false", "--set", "proc_profile_file_retained_days=36500", "--set", "archive="];

pub(super) fn run() -> Result<()> {
    let procprof = product::procprof()?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let data = folder.path().join("data");
    let body = inputs::node()?;
    let server = Served::start(Command::new(&procprof), &data, &KEEP)?;
    let (next, begin) = (AtomicUsize::new(0), Instant::now());
    let before = server.vitals()?;
    let pushed: Result<Vec<usize>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| push(&server, &body, &next, begin))).collect();
        clients.into_iter().map(|client| client.join().expect("a client panicked")).collect()
    });
    let pushed: usize = pushed?.into_iter().sum();
    let seconds = begin.elapsed().as_secs_f64();
    let vitals = server.vitals()?;
    let cpu = vitals.cpu + vitals.children_cpu - before.cpu - before.children_cpu;
    server.terminate()?;
    let before = children_cpu()?;
    let mut export = Command::new(&procprof);
    export.args(["archive", "export", "--data"]).arg(&data).arg(folder.path().join("archive"));
    let output = export.stdin(Stdio::null()).output().context("archive")?;
    ensure!(output.status.success(), "archive export: {}", String::from_utf8_lossy(&output.stderr));
    let archiving = children_cpu()? - before;
    let mut table =
        Table::new(&["pushed and stored", "a second", "CPU of the server, each", "RSS, largest", "archiving, each"]);
    let each = |seconds: f64| format!("{:.2} ms", seconds * 1e3 / pushed as f64);
    table.row([
        pushed.to_string(),
        format!("{:.0}", pushed as f64 / seconds),
        each(cpu),
        megabytes(vitals.resident_max),
        format!("{} ({:.0} %)", each(archiving), 100.0 * archiving / cpu),
    ]);
    table.print(&format!("Profiles of {} bytes with names, {CLIENTS} clients on the same machine", body.len()));
    Ok(())
}

/// Pushes one profile after the other; how many were stored.
fn push(server: &Served, body: &[u8], next: &AtomicUsize, begin: Instant) -> Result<usize> {
    let mut pushed = 0;
    while begin.elapsed() < WATCHED {
        let number = i64::try_from(next.fetch_add(1, Ordering::Relaxed)).context("a number of a profile")?;
        // Another member of the file, whose time counts.
        let mut own = GzEncoder::new(body.to_vec(), Compression::fast());
        own.write_all(&time_field(START + number)).context("pack a time")?;
        let own = own.finish().context("pack a time")?;
        let answer = crate::http::send("POST", &server.address, "/api/push?node=procprof&type=cpu", "", &own)?;
        ensure!(answer.status == 201, "push: {}: {}", answer.status, String::from_utf8_lossy(&answer.body));
        pushed += 1;
    }
    Ok(pushed)
}
