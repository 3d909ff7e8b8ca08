//! A server with ten nodes at rest: each node was collected once and is not due again.

use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::inputs;
use crate::product::{self, Served};
use crate::table::Table;
use crate::vitals::megabytes;
use crate::{answerer, http};

const NODES: usize = 10;
/// First captures are spread over a minute.
const SETTLE: Duration = Duration::from_secs(66);
/// Time over which CPU time is measured.
const WATCHED: Duration = Duration::from_secs(60);

pub(super) fn run() -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let body = Arc::new(inputs::node()?);
    let port = answerer::serve(move |_| answerer::Answer { status: "200 OK", body: Arc::clone(&body) })?;
    let node = |number| {
        format!(
            "[[node]]\nname = \"node-{number}\"\nkind = \"go\"\nhttp = \"127.0.0.1:{port}\"\n\
             schedule.cpu = {{ seconds = 1, every = 86400 }}\nschedule.heap = {{ on = false }}\nschedule.goroutine = {{ on = false }}\n"
        )
    };
    let config = folder.path().join("procprof.toml");
    std::fs::write(&config, (0..NODES).map(node).collect::<String>()).context("write the configuration")?;
    let server = Served::start(
        Command::new(product::procprof()?),
        &folder.path().join("data"),
        &["--config", &config.display().to_string()],
    )?;
    thread::sleep(SETTLE);
    let stored = server.rows("profiles", "type=cpu")?.iter().filter(|row| row["node"] != 1).count();
    ensure!(stored == NODES, "{stored} of {NODES} nodes have a profile");
    let answer = http::request("GET", &server.address, "/proc_profile?node=1")?;
    ensure!(answer.status == 200, "the list page answers {}", answer.status);
    let before = server.vitals()?;
    thread::sleep(WATCHED);
    let after = server.vitals()?;
    let mut table = Table::new(&["what", "measured"]);
    table.row(["resident".to_owned(), megabytes(after.resident)]);
    table.row(["of it anonymous".to_owned(), megabytes(after.anonymous)]);
    table.row(["largest ever resident".to_owned(), megabytes(after.resident_max)]);
    table.row([format!("CPU time in {} s", WATCHED.as_secs()), format!("{:.2} s", after.cpu - before.cpu)]);
    table.row(["of children".to_owned(), format!("{:.2} s", after.children_cpu - before.children_cpu)]);
    table.print(&format!("Server at rest, {NODES} nodes"));
    Ok(())
}
