//! `kill -9` of the server at random moments, again and again over the same data; then the catalog deleted.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Place;
use super::checks::{Checks, files};
use super::watch::ids;
use crate::http;
use crate::product::Served;

const ROUNDS: u32 = 50;
/// Least and most milliseconds between its first answer and the kill.
const MOMENT: (u64, u64) = (50, 4000);

/// The data that must survive.
#[derive(Default)]
struct Known {
    profiles: BTreeSet<String>,
    errors: BTreeSet<String>,
    pinned: BTreeSet<String>,
}

impl Known {
    fn from_server(server: &Served) -> Result<Known> {
        let rows = server.rows("profiles", "")?;
        let pinned = rows.iter().filter(|row| row["pinned"] == true).cloned().collect::<Vec<Value>>();
        let errors = server.rows("errors", "")?;
        Ok(Known { profiles: ids(&rows), errors: errors.iter().map(Value::to_string).collect(), pinned: ids(&pinned) })
    }

    /// The number of rows that `later` lacks.
    fn lost(&self, later: &Known) -> [usize; 3] {
        [
            self.profiles.difference(&later.profiles).count(),
            self.errors.difference(&later.errors).count(),
            self.pinned.difference(&later.pinned).count(),
        ]
    }
}

/// Kills it and compares, repeatedly.
pub(super) fn run(place: &Place, checks: &mut Checks) -> Result<()> {
    let mut seed =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("read the clock")?.as_nanos() as u64 | 1;
    eprintln!("xtask: moments from seed {seed:#x}");
    let mut known = Known::default();
    let mut lost = [0; 3];
    let (mut left_over, mut slowest) = (0, Duration::ZERO);
    for round in 0..ROUNDS {
        let start = Instant::now();
        let server = place.serve(&["--set", "self_interval_seconds=1"])?;
        slowest = slowest.max(start.elapsed());
        let found = Known::from_server(&server)?;
        for (sum, more) in lost.iter_mut().zip(known.lost(&found)) {
            *sum += more;
        }
        left_over += files(&place.data.join("profiles"))
            .iter()
            .filter(|path| !path.to_string_lossy().ends_with("-pprof.gz"))
            .count();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        thread::sleep(Duration::from_millis(MOMENT.0 + seed % (MOMENT.1 - MOMENT.0)));
        if round % 10 == 0 {
            pin_newest(&server)?;
        }
        known = Known::from_server(&server)?;
        server.kill()?;
    }
    let [profiles, errors, pins] = lost;
    let stored = format!(
        "{profiles} of {} profiles, {errors} of {} errors, {pins} of {} pins lost",
        known.profiles.len(),
        known.errors.len(),
        known.pinned.len()
    );
    checks.add(format!("nothing is lost by {ROUNDS} times kill -9"), stored, lost == [0; 3]);
    checks.add("no half-written file outlives the next start", left_over.to_string(), left_over == 0);
    checks.add(
        "slowest start after a kill",
        format!("{:.2} s", slowest.as_secs_f64()),
        slowest < Duration::from_secs(10),
    );
    without_catalog(place, checks)?;
    checks.files(&place.data, "after the kills")
}

fn pin_newest(server: &Served) -> Result<()> {
    let newest = server.json("/api/profiles?limit=1")?;
    let Some(id) = newest["profiles"][0]["id"].as_str() else { return Ok(()) };
    let answer = http::request("POST", &server.address, &format!("/api/profiles/{id}/pin"))?;
    ensure!(answer.status < 300, "pinning: {}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    Ok(())
}

/// Profiles and errors, each as text that does not name the server's address: recommended commands contain it, and each
/// start has another.
fn lists(server: &Served) -> Result<[Vec<String>; 2]> {
    let list = |name| -> Result<Vec<String>> {
        Ok(server.rows(name, "")?.iter().map(|row| row.to_string().replace(&server.address, "SERVER")).collect())
    };
    Ok([list("profiles")?, list("errors")?])
}

/// The catalog is made again from files and journal.
fn without_catalog(place: &Place, checks: &mut Checks) -> Result<()> {
    let server = place.serve(&[])?;
    let paused = http::request("POST", &server.address, "/api/pause")?;
    ensure!(paused.status == 200, "pausing: {}", paused.status);
    // The captures in flight are given up within a second, their error rows written.
    thread::sleep(Duration::from_secs(3));
    let before = lists(&server)?;
    server.terminate()?;
    for file in files(&place.data).into_iter().filter(|file| file.to_string_lossy().contains("catalog.sqlite")) {
        std::fs::remove_file(file).context("delete the catalog")?;
    }
    let start = Instant::now();
    let server = place.serve(&[])?;
    let took = start.elapsed();
    let after = lists(&server)?;
    let [profiles, errors] = after.each_ref().map(Vec::len);
    let changed = before.iter().flatten().zip(after.iter().flatten()).find(|(old, new)| old != new);
    let changed = changed.map(|(old, new)| format!("; {old} became {new}")).unwrap_or_default();
    let found = format!("{profiles} profiles, {errors} errors; start {:.2} s{changed}", took.as_secs_f64());
    checks.add("the same list, errors and pins without the catalog", found, before == after);
    server.terminate()
}
