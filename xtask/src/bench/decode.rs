//! Decoding: in the process on one core, and the whole command beside the peers' whole commands on the same files.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::inputs::{self, Input};
use crate::product;
use crate::table::Table;

/// Runs of each command; the best counts.
const RUNS: u32 = 3;
/// Time after which a peer is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Peers of each input; `binary` stands where jeprof and google-pprof want the program that was profiled.
const PEERS: &[(&str, &[&[&str]])] = &[
    ("jemalloc.heap", &[&["jeprof", "--text", "BINARY"], &["go", "tool", "pprof", "-symbolize=none", "-raw"]]),
    ("pprof.pb", &[&["go", "tool", "pprof", "-symbolize=none", "-raw"], &["go", "tool", "pprof", "-symbolize=none", "-top"]]),
    ("gperftools.prof", &[&["go", "tool", "pprof", "-symbolize=none", "-raw"], &["google-pprof", "--text", "BINARY"]]),
    ("contention.txt", &[&["go", "tool", "pprof", "-symbolize=none", "-raw"], &["google-pprof", "--text", "BINARY"]]),
    ("collapsed.txt", &[]),
];

pub(super) fn run() -> Result<()> {
    let status = Command::new("cargo").args(["bench", "--quiet", "--locked", "-p", "procprof-profile", "--bench", "decode"]).status();
    ensure!(status.context("run cargo bench")?.success(), "cargo bench -p procprof-profile failed");
    let decode = product::build(&["-p", "procprof-profile", "--example", "decode"], "examples/decode")?;
    let procprof = product::procprof()?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let mut table = Table::new(&["input", "bytes", "decoding alone", "procprof report --top", "peer", "peer's time"]);
    for Input { name, bytes } in inputs::large()? {
        let file = folder.path().join(name);
        std::fs::write(&file, &bytes).context("write an input")?;
        let alone = alone(&decode, &file)?;
        let mut own = Command::new(&procprof);
        own.args(["report", "--top"]).arg(&file);
        let own = told(best(&mut own)?);
        let peers = PEERS.iter().find(|(input, _)| *input == name).map_or(&[][..], |(_, peers)| peers);
        if peers.is_empty() {
            table.row([name.to_owned(), bytes.len().to_string(), alone.clone(), own.clone(), "none reads it".to_owned(), String::new()]);
        }
        for peer in peers {
            let mut command = Command::new(peer[0]);
            command.args(peer[1..].iter().map(|argument| if *argument == "BINARY" { "/bin/true" } else { argument })).arg(&file);
            let peer = peer.join(" ").replace("BINARY", "/bin/true");
            table.row([name.to_owned(), bytes.len().to_string(), alone.clone(), own.clone(), peer, told(best(&mut command)?)]);
        }
    }
    table.print("Decoding");
    Ok(())
}

/// What the `decode` example tells: the best time and the speed.
fn alone(decode: &Path, file: &Path) -> Result<String> {
    let output = Command::new(decode).arg(file).arg("15").output().context("run the decode example")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().and_then(|line| line.rsplit_once(": "));
    Ok(line.with_context(|| format!("the decode example said {text:?}"))?.1.to_owned())
}

fn told(time: Option<Duration>) -> String {
    time.map_or_else(|| format!("given up after {} s", PATIENCE.as_secs()), |time| format!("{:.2} s", time.as_secs_f64()))
}

/// The best time of some runs; `None` when one takes too long.
fn best(command: &mut Command) -> Result<Option<Duration>> {
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        match once(command)? {
            None => return Ok(None),
            Some(time) => best = best.min(time),
        }
        if best > PATIENCE / 4 {
            break;
        }
    }
    Ok(Some(best))
}

fn once(command: &mut Command) -> Result<Option<Duration>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().with_context(|| format!("run {program}"))?;
    loop {
        if let Some(status) = child.try_wait().context("wait")? {
            ensure!(status.success(), "{program} failed: {command:?}");
            return Ok(Some(start.elapsed()));
        }
        if start.elapsed() > PATIENCE {
            child.kill().context("end it")?;
            child.wait().context("wait")?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
