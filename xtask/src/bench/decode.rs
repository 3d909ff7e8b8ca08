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
    ("jemalloc.heap", &[&["jeprof", "--text", "BINARY"]]),
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
        let own = best(&mut own)?;
        ensure!(matches!(own, Run::Took(_)), "procprof report {name}: {}", told(own));
        let own = told(own);
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

/// How a command ended.
#[derive(Clone, Copy)]
enum Run {
    Took(Duration),
    Failed,
    GivenUp,
}

fn told(run: Run) -> String {
    match run {
        Run::Took(time) => format!("{:.2} s", time.as_secs_f64()),
        Run::Failed => "does not read it".to_owned(),
        Run::GivenUp => format!("given up after {} s", PATIENCE.as_secs()),
    }
}

/// The best of some runs, or the first that does not end well.
fn best(command: &mut Command) -> Result<Run> {
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        match once(command)? {
            Run::Took(time) => best = best.min(time),
            other => return Ok(other),
        }
        if best > PATIENCE / 4 {
            break;
        }
    }
    Ok(Run::Took(best))
}

fn once(command: &mut Command) -> Result<Run> {
    let program = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("run {program}"))?;
    loop {
        if let Some(status) = child.try_wait().context("wait")? {
            return Ok(if status.success() { Run::Took(start.elapsed()) } else { Run::Failed });
        }
        if start.elapsed() > PATIENCE {
            child.kill().context("end it")?;
            child.wait().context("wait")?;
            return Ok(Run::GivenUp);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
