//! A month of a fleet that only the archive has: the sum of 4.3 million profiles, and a function's share in it. Making
//! the archive takes about a quarter of an hour; `PROCPROF_MONTH` names the folder of one that was made before.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::archive::{Page, Reading, asks, cold_and_warm, get, seconds};
use crate::clients;
use crate::product;
use crate::table::Table;
use crate::tools;
use crate::vitals::megabytes;

const RUNS: usize = 4;
const PROFILES: u64 = 30 * 1440 * 100;
const FROM: &str = "2026-10-25T00:00:00Z";
const TO: &str = "2026-11-24T00:00:00Z";
/// The root of all stacks, which has all of the sum, and one of many other functions.
const FUNCTIONS: [&str; 2] = ["service::module0::work_0", "service::module1203::work_1203"];

pub(super) fn run() -> Result<()> {
    tools::require(&[("mariadb", "mariadb-client")])?;
    clients::ensure_engines()?;
    if let Some(archive) = std::env::var_os("PROCPROF_MONTH") {
        return measured(Path::new(&archive));
    }
    let folder = tempfile::tempdir().context("make a folder")?;
    let archive = folder.path().join("archive");
    let mut make = Command::new("cargo");
    make.args(["bench", "--quiet", "--locked", "-p", "procprof", "-p", "procprof-archive", "--bench", "month", "--"]);
    ensure!(make.arg(&archive).status().context("run cargo bench")?.success(), "make the archive");
    measured(&archive)
}

/// What a server answers about an archive of the month, beside DuckDB with the same files.
fn measured(archive: &Path) -> Result<()> {
    let reading = Reading::start(&product::procprof()?, archive)?;
    let tree = || get(&reading.server, &format!("/merge/tree?node=*&type=cpu&from={FROM}&to={TO}"));
    let page = Page::read(archive)?;
    let mut table = Table::new(&["30 days of 100 nodes", "procprof", "DuckDB on the profiles"]);
    let times = (0..RUNS).map(|_| tree()).collect::<Result<Vec<f64>>>()?;
    table.row(["flame graph, `GET /merge/tree`".to_owned(), cold_and_warm(&times), String::new()]);
    let (from, to) = (&FROM[..10], &TO[..10]);
    for split in ["node", "function"] {
        let call = format!("timeline('*', 'cpu', '{from}', '{to}', '1d', '{split}')");
        let times = (0..RUNS).map(|_| reading.asked(&format!("SELECT * FROM {call}"))).collect::<Result<Vec<f64>>>()?;
        table.row([
            format!("timeline by day and {split}, with the client's start"),
            cold_and_warm(&times),
            String::new(),
        ]);
    }
    for function in FUNCTIONS {
        let call = format!("SELECT cum, profiles FROM top('*', 'cpu', '{from}', '{to}') WHERE function = '{function}'");
        let times = (0..RUNS).map(|_| reading.asked(&call)).collect::<Result<Vec<f64>>>()?;
        let sum = format!(
            "SELECT sum(value) FROM total_values WHERE type = 'cpu' AND kind = 'cpu' AND function_name = '{function}'"
        );
        let ours = reading.answer(&call)?;
        let found = asks("duckdb", &page.views("duckdb"), &[&sum], None)?[0].join("");
        ensure!(ours == format!("{found}\t{PROFILES}"), "{function}: procprof finds {ours:?}, DuckDB {found}");
        let theirs = asks("duckdb", &page.views("duckdb"), &[&sum], Some(RUNS))?;
        let theirs = cold_and_warm(&seconds(&theirs[0])?);
        table.row([format!("share of `{function}` by `top`, with the client's start"), cold_and_warm(&times), theirs]);
    }
    table.print("4.3 million profiles, only in the archive: ms, the first run / the least of the others");
    println!("resident at most: {}", megabytes(reading.server.vitals()?.resident_max));
    reading.server.terminate()
}
