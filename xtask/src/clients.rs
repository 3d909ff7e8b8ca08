//! The MySQL clients of other languages that the tests log in with, fetched from their registries into `target/mysql-clients`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Where the tests' clients and what they need are listed.
const CLIENTS: &str = "crates/procprof/tests/mysql/clients";
/// Connector/J, as Maven names it.
const CONNECTOR_J: &str = "com.mysql:mysql-connector-j:9.5.0";

/// Fetches what is not there yet.
pub(crate) fn ensure() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    let (listed, place) = (root.join(CLIENTS), root.join("target/mysql-clients"));
    std::fs::create_dir_all(&place).with_context(|| format!("create {}", place.display()))?;
    let python = place.join("python");
    once(&place, "python", &std::fs::read_to_string(listed.join("requirements.txt"))?, || {
        run(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
        run(Command::new(python.join("bin/pip")).args(["install", "-q", "-r"]).arg(listed.join("requirements.txt")))
    })?;
    once(&place, "node", &std::fs::read_to_string(listed.join("package-lock.json"))?, || {
        let node = place.join("node");
        std::fs::create_dir_all(&node).with_context(|| format!("create {}", node.display()))?;
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(listed.join(file), node.join(file)).with_context(|| format!("copy {file}"))?;
        }
        run(Command::new("npm").args(["ci", "--silent", "--prefix"]).arg(&node))
    })?;
    once(&place, "java", CONNECTOR_J, || {
        let folder = format!("-DoutputDirectory={}", place.join("java").display());
        run(Command::new("mvn").args([
            "-q",
            "-B",
            "dependency:copy",
            &format!("-Dartifact={CONNECTOR_J}"),
            "-Dmdep.stripVersion=true",
            &folder,
        ]))
    })?;
    let sources = std::fs::read_to_string(listed.join("main.go"))? + &std::fs::read_to_string(listed.join("go.sum"))?;
    once(&place, "go", &sources, || {
        run(Command::new("go").current_dir(&listed).args(["build", "-o"]).arg(place.join("go/client")).arg("."))
    })
}

/// Fetches a client unless it was fetched for the same `version`.
fn once(place: &Path, name: &str, version: &str, fetch: impl FnOnce() -> Result<()>) -> Result<()> {
    let mark = place.join(format!("{name}.version"));
    if std::fs::read_to_string(&mark).is_ok_and(|fetched| fetched == version) {
        return Ok(());
    }
    eprintln!("xtask: fetching the {name} client of MySQL");
    match std::fs::remove_dir_all(place.join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).context("remove an older client"),
        _ => {}
    }
    fetch().with_context(|| format!("fetch the {name} client of MySQL"))?;
    std::fs::write(&mark, version).with_context(|| format!("write {}", mark.display()))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
