//! The permitted dependencies between the workspace's crates: the arrows of ARCHITECTURE.md, compared with
//! `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;

/// The page with the arrows, and the beginning of their block.
const PAGE: &str = "ARCHITECTURE.md";
const BLOCK: &str = "```arrows\n";

/// Dependencies of the agent's default build, the agent itself not counted, stay below this.
const AGENT_CRATES: usize = 20;

/// Fails with every normal or build dependency between the workspace's crates that the page does not have; those of
/// tests are not checked.
pub(crate) fn check() -> Result<()> {
    let page = std::fs::read_to_string(PAGE).with_context(|| format!("read {PAGE}"))?;
    let allowed = allowed(&page)?;
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().context("read packages of cargo metadata")?;
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let from = package["name"].as_str().unwrap_or_default();
        if cargo::TOOLS.contains(&from) {
            continue;
        }
        let Some(allowed) = allowed.get(short(from)) else {
            wrong.push(format!("{from} has no line among the arrows of {PAGE}"));
            continue;
        };
        let arrows = uses(package).filter(|to| ours.contains(to) && !allowed.contains(short(to)));
        wrong.extend(arrows.map(|to| format!("{from} -> {to} is not allowed")));
    }
    if !wrong.is_empty() {
        bail!("arrows between crates:\n  {}", wrong.join("\n  "));
    }
    check_agent_size()
}

/// The permitted dependencies of each crate, by the lines `crate -> crate, crate` of the page.
fn allowed(page: &str) -> Result<BTreeMap<&str, BTreeSet<&str>>> {
    let block = page
        .split_once(BLOCK)
        .and_then(|(_, rest)| rest.split_once("```"))
        .with_context(|| format!("find the arrows of {PAGE}"))?
        .0;
    let line = |line| {
        let (from, to): (&str, &str) =
            str::split_once(line, "->").with_context(|| format!("{PAGE}: {line:?} is no arrow"))?;
        Ok((from.trim(), to.split(',').map(str::trim).filter(|to| *to != "nothing").collect()))
    };
    block.lines().map(line).collect()
}

/// A crate's name on the page.
fn short(name: &str) -> &str {
    name.strip_prefix("procprof-").unwrap_or(name)
}

fn metadata() -> Result<Value> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("run cargo metadata")?;
    serde_json::from_slice(&output.stdout).context("read cargo metadata")
}

fn uses(package: &Value) -> impl Iterator<Item = &str> {
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    dependencies
        .iter()
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str())
}

fn check_agent_size() -> Result<()> {
    let tree = Command::new("cargo")
        .args([
            "tree",
            "-p",
            "procprof-agent",
            "-e",
            "normal",
            "--prefix",
            "none",
            "--target",
            "x86_64-unknown-linux-gnu",
        ])
        .output()
        .context("run cargo tree")?;
    let text = String::from_utf8_lossy(&tree.stdout).into_owned();
    let crates: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let count = crates.len().saturating_sub(1);
    if count == 0 || count >= AGENT_CRATES {
        bail!("procprof-agent depends on {count} crates by default; the limit is below {AGENT_CRATES}:\n{text}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_are_read_from_the_page() {
        let allowed = allowed("# A\n```arrows\na -> nothing\nb   -> a, c\n```\n").unwrap();
        assert_eq!((allowed["a"].len(), allowed["b"].iter().copied().collect::<Vec<_>>()), (0, vec!["a", "c"]));
        assert!(super::allowed("```arrows\nnonsense\n```").is_err() && super::allowed("none").is_err());
    }
}
