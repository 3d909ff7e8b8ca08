//! Which crate of the workspace may use which: the table of ARCHITECTURE.md, compared with `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Allowed normal and build dependencies between our crates; dev-dependencies of tests are free.
const ARROWS: &[(&str, &[&str])] = &[
    ("procprof-profile", &[]),
    ("procprof-process", &["procprof-profile"]),
    ("procprof-report", &["procprof-profile"]),
    ("procprof-store", &["procprof-profile"]),
    ("procprof-symbolize", &["procprof-profile", "procprof-process"]),
    ("procprof-unwind", &[]),
    ("procprof-collect", &["procprof-profile", "procprof-process"]),
    ("procprof-agent", &["procprof-profile", "procprof-process", "procprof-symbolize", "procprof-unwind"]),
    // Nothing may depend on it: it exports `malloc`.
    ("procprof-preload", &["procprof-agent"]),
    (
        "procprof-server",
        &[
            "procprof-profile",
            "procprof-process",
            "procprof-report",
            "procprof-store",
            "procprof-symbolize",
            "procprof-collect",
            "procprof-agent",
        ],
    ),
    (
        "procprof",
        &[
            "procprof-profile",
            "procprof-process",
            "procprof-report",
            "procprof-store",
            "procprof-symbolize",
            "procprof-collect",
            "procprof-agent",
            "procprof-server",
        ],
    ),
];

/// Dependencies of the agent's default build, the agent itself not counted, stay below this.
const AGENT_CRATES: usize = 20;

/// Fails with every arrow that the table does not have.
pub(crate) fn check() -> Result<()> {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = ARROWS.iter().map(|(from, to)| (*from, to.iter().copied().collect())).collect();
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().context("read packages of cargo metadata")?;
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let from = package["name"].as_str().unwrap_or_default();
        if from == "xtask" {
            continue;
        }
        let Some(allowed) = allowed.get(from) else {
            wrong.push(format!("{from} has no row in the table of arrows"));
            continue;
        };
        let arrows = uses(package).filter(|to| ours.contains(to) && !allowed.contains(to));
        wrong.extend(arrows.map(|to| format!("{from} -> {to} is not allowed")));
    }
    if !wrong.is_empty() {
        bail!("arrows between crates:\n  {}", wrong.join("\n  "));
    }
    check_agent_size()
}

fn metadata() -> Result<Value> {
    let output = Command::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]).output().context("run cargo metadata")?;
    serde_json::from_slice(&output.stdout).context("read cargo metadata")
}

fn uses(package: &Value) -> impl Iterator<Item = &str> {
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    dependencies.iter().filter(|dependency| dependency["kind"] != "dev").filter_map(|dependency| dependency["name"].as_str())
}

fn check_agent_size() -> Result<()> {
    let tree = Command::new("cargo")
        .args(["tree", "-p", "procprof-agent", "-e", "normal", "--prefix", "none", "--target", "x86_64-unknown-linux-gnu"])
        .output()
        .context("run cargo tree")?;
    let text = String::from_utf8_lossy(&tree.stdout).into_owned();
    let crates: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let count = crates.len().saturating_sub(1);
    if count == 0 || count >= AGENT_CRATES {
        bail!("procprof-agent pulls in {count} crates by default, fewer than {AGENT_CRATES} wanted:\n{text}");
    }
    Ok(())
}
