//! The viewer in Chromium beside other flame graph viewers, on the same profiles: first paint, zoom, search, bytes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::inputs::walks::{TREES, tree};
use crate::product::{self, Served};
use crate::tools;

/// Nothing is deleted while it is measured, and the largest profile is taken in.
const KEEP: [&str; 2] = ["--set", "proc_profile_file_retained_days=36500"];

pub(super) fn run() -> Result<()> {
    tools::require(&[("node", "nodejs"), ("npm", "npm"), ("chromium", "chromium"), ("go", "golang-go")])?;
    let procprof = product::procprof()?;
    let script = install()?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let foreign = folder.path().join("proc_profile");
    std::fs::create_dir_all(&foreign).context("make a folder")?;
    let mut plan = Vec::new();
    for (number, (name, shape)) in TREES.into_iter().enumerate() {
        let bytes = tree(shape)?;
        let file = folder.path().join(format!("{name}.pb.gz"));
        std::fs::write(&file, &bytes).context("write a profile")?;
        std::fs::write(foreign.join(stored_name(number)), bytes).context("write a profile")?;
        let collapsed = file.with_extension("collapsed");
        // The peer that reads it overflows its stack at a tenth of the largest.
        if name != "n10m" {
            let report = Command::new(&procprof)
                .args(["report", "-collapsed", "-o"])
                .args([&collapsed, &file])
                .status()
                .context("report")?;
            ensure!(report.success(), "procprof report -collapsed of {name} failed");
        }
        plan.push((name, number, file, collapsed));
    }
    let data = folder.path().join("data");
    let import =
        Command::new(&procprof).args(["store", "import", "--tz", "UTC", "--data"]).arg(&data).arg(&foreign).output();
    let import = import.context("import")?;
    ensure!(import.status.success(), "store import: {}", String::from_utf8_lossy(&import.stderr));
    let server = Served::start(Command::new(&procprof), &data, &KEEP)?;
    let rows = server.rows("profiles", "node=imported")?;
    let id_of = |number: usize| {
        let row = rows.iter().find(|row| row["file_name"].as_str() == Some(&stored_name(number)));
        row.and_then(|row| row["id"].as_str()).with_context(|| format!("{} was not imported", stored_name(number)))
    };
    let inputs: Result<Vec<_>> = plan
        .iter()
        .map(|(name, number, file, collapsed)| {
            Ok(serde_json::json!({ "name": name, "page": format!("http://{}/p/{}", server.address, id_of(*number)?), "file": file, "collapsed": collapsed }))
        })
        .collect();
    let plan = folder.path().join("plan.json");
    std::fs::write(&plan, serde_json::to_vec(&inputs?)?).context("write the plan")?;
    let status = Command::new("node").arg(script).arg(plan).stdin(Stdio::null()).status().context("run node")?;
    ensure!(status.success(), "the browser's part failed");
    Ok(())
}

/// A name as StarRocks gives it, a minute after the one before.
fn stored_name(number: usize) -> String {
    format!("cpu-profile-20261101-00{number:02}00-pprof.gz")
}

/// Installs what the script needs; returns the script.
fn install() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../browser-tests/speed");
    let status = Command::new("npm").args(["ci", "--silent", "--prefix"]).arg(&folder).status().context("run npm")?;
    ensure!(status.success(), "npm ci in {} failed", folder.display());
    Ok(folder.join("speed.mjs"))
}
