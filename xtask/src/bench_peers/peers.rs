//! The programs that are timed: procprof, those of the system, and the peers that are not in Debian, installed below
//! `bench-peers/tools`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build::finish;
use super::sources;
use crate::product;

const ADDR2LINE: &str = "0.27.1";
const INFERNO: &str = "0.12.8";

/// The programs and their paths.
pub(super) struct Programs {
    /// The search path that has all of them.
    pub(super) path: OsString,
    /// gimli's addr2line, which must not be found before that of binutils.
    pub(super) gimli: PathBuf,
    /// One line each: name and version.
    pub(super) versions: Vec<String>,
}

/// Builds procprof, installs missing programs, and gets the version of each.
pub(super) fn ensure(root: &Path) -> Result<Programs> {
    let tools = root.join("tools");
    let bin = tools.join("bin");
    let gimli = tools.join("gimli");
    fs::create_dir_all(&bin).context("make a folder")?;
    link(&product::procprof()?, &bin.join("procprof"))?;
    link(&resolve(&tools)?, &bin.join("resolve"))?;
    install(&tools, "inferno", INFERNO, &["--bin", "inferno-flamegraph"], &bin.join("inferno-flamegraph"))?;
    install(&gimli, "addr2line", ADDR2LINE, &["--features", "bin"], &gimli.join("bin/addr2line"))?;
    google_pprof(&bin)?;
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin.clone()).chain(std::env::split_paths(&old)))
        .context("make a search path")?;
    let versions = versions(&bin, &path)?;
    Ok(Programs { path, gimli: gimli.join("bin/addr2line"), versions })
}

/// Builds the driver of the libraries, including the current procprof.
fn resolve(tools: &Path) -> Result<PathBuf> {
    let folder = tools.join("resolve-build");
    let mut cargo = Command::new("cargo");
    // Its lock file follows the dependencies of the workspace's crates, which `cargo xtask check` does not see here.
    cargo.args(["build", "--quiet", "--release"]).current_dir(sources().join("resolve"));
    finish(cargo.env("CARGO_TARGET_DIR", &folder))?;
    Ok(folder.join("release/resolve"))
}

fn install(root: &Path, name: &str, version: &str, more: &[&str], program: &Path) -> Result<()> {
    if program.exists() {
        return Ok(());
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["install", "--quiet", "--locked", "--version", version, "--root"]).arg(root).args(more).arg(name);
    finish(&mut cargo).with_context(|| format!("install {name} {version}"))
}

/// The newest google/pprof, by Go's module proxy.
fn google_pprof(bin: &Path) -> Result<()> {
    if bin.join("pprof").exists() {
        return Ok(());
    }
    finish(Command::new("go").args(["install", "github.com/google/pprof@latest"]).env("GOBIN", bin))
        .context("install github.com/google/pprof")
}

fn link(program: &Path, name: &Path) -> Result<()> {
    if name.is_symlink() {
        fs::remove_file(name).context("take a link away")?;
    }
    let program = program.canonicalize().with_context(|| format!("find {}", program.display()))?;
    std::os::unix::fs::symlink(program, name).context("make a link")
}

/// The version line of each program.
fn versions(bin: &Path, path: &OsString) -> Result<Vec<String>> {
    let version_of = |program: &str, arguments: &[&str], mark: &str| -> Result<String> {
        let output = Command::new(program)
            .args(arguments)
            .env("PATH", path)
            .output()
            .with_context(|| format!("run {program}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|line| line.contains(mark)).map(str::trim);
        Ok(line
            .with_context(|| format!("no version in the output of {program}"))?
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "))
    };
    let pprof = bin.join("pprof").display().to_string();
    let module = version_of("go", &["version", "-m", &pprof], "\tmod\t")?;
    let lock = fs::read_to_string(sources().join("resolve/Cargo.lock")).context("read a lock file")?;
    Ok(vec![
        version_of("procprof", &["--version"], "procprof")?,
        version_of("jeprof", &["--version"], "part of")?,
        version_of("google-pprof", &["--version"], "part of")?,
        version_of("go", &["version"], "go version")?,
        module.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" "),
        version_of("llvm-symbolizer", &["--version"], "LLVM version")?,
        version_of("addr2line", &["--version"], "addr2line")?,
        format!("gimli's addr2line {ADDR2LINE}"),
        format!("blazesym {}", locked(&lock, "blazesym")?),
        format!("wholesym {}", locked(&lock, "wholesym")?),
        format!("inferno {INFERNO}"),
    ])
}

/// The version of a crate in a lock file.
fn locked<'a>(lock: &'a str, name: &str) -> Result<&'a str> {
    let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).map(|(_, rest)| rest);
    let version = entry.and_then(|rest| rest.split('"').next()).unwrap_or_default();
    ensure!(!version.is_empty(), "no {name} in the lock file");
    Ok(version)
}
