//! Decoding: in the process on one core, and the whole command beside the peers' whole commands on the same files.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::inputs::{self, Input};
use crate::product;
use crate::table::Table;

/// Runs of each command, of which the best is used.
const RUNS: u32 = 3;
/// Time after which a peer is ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// The commands compared on an input.
struct Comparison {
    input: &'static str,
    /// A peer's table has a row for each address without a name; procprof's then has them too.
    granularity: &'static str,
    /// Commands; `BINARY` is replaced by the profiled program, which jeprof and google-pprof need.
    peers: &'static [&'static [&'static str]],
}

const GO_RAW: &[&str] = &["go", "tool", "pprof", "-symbolize=none", "-raw"];
const GO_TOP: &[&str] = &["go", "tool", "pprof", "-symbolize=none", "-top"];
const GOOGLE: &[&str] = &["google-pprof", "--text", "BINARY"];

const COMPARISONS: &[Comparison] = &[
    Comparison { input: "jemalloc.heap", granularity: "addresses", peers: &[&["jeprof", "--text", "BINARY"]] },
    Comparison { input: "pprof.pb", granularity: "functions", peers: &[GO_RAW, GO_TOP] },
    Comparison { input: "gperftools.prof", granularity: "addresses", peers: &[GO_RAW, GOOGLE] },
    Comparison { input: "contention.txt", granularity: "addresses", peers: &[GO_RAW, GOOGLE] },
    Comparison { input: "collapsed.txt", granularity: "functions", peers: &[] },
];

pub(super) fn run() -> Result<()> {
    let status = Command::new("cargo")
        .args(["bench", "--quiet", "--locked", "-p", "procprof-profile", "--bench", "decode"])
        .status();
    ensure!(status.context("run cargo bench")?.success(), "cargo bench -p procprof-profile failed");
    let decode = product::build(&["-p", "procprof-profile", "--example", "decode"], "examples/decode")?;
    let procprof = product::procprof()?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let mut table = Table::new(&[
        "input",
        "bytes",
        "decoding alone",
        "granularity",
        "procprof report --top",
        "peer",
        "peer's time",
    ]);
    for Input { name, bytes } in inputs::large()? {
        let comparison = COMPARISONS.iter().find(|row| row.input == name).with_context(|| format!("compare {name}"))?;
        let file = folder.path().join(name);
        std::fs::write(&file, &bytes).context("write an input")?;
        let own = best(
            Command::new(&procprof).args(["report", "--top", "--granularity", comparison.granularity]).arg(&file),
        )?;
        ensure!(matches!(own, Run::Took(_)), "procprof report {name}: {}", shown(own));
        let ours = [
            name.to_owned(),
            bytes.len().to_string(),
            alone(&decode, &file)?,
            comparison.granularity.to_owned(),
            shown(own),
        ];
        if comparison.peers.is_empty() {
            table.row(ours.iter().cloned().chain(["none reads it".to_owned(), String::new()]));
        }
        for peer in comparison.peers {
            let peer: Vec<&str> =
                peer.iter().map(|argument| if *argument == "BINARY" { "/bin/true" } else { argument }).collect();
            let time = best(Command::new(peer[0]).args(&peer[1..]).arg(&file))?;
            table.row(ours.iter().cloned().chain([peer.join(" "), shown(time)]));
        }
    }
    table.print("Decoding");
    Ok(())
}

/// The output of the `decode` example: the best time and the speed.
fn alone(decode: &Path, file: &Path) -> Result<String> {
    let output = Command::new(decode).arg(file).arg("15").output().context("run the decode example")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().and_then(|line| line.rsplit_once(": "));
    Ok(line.with_context(|| format!("the decode example said {text:?}"))?.1.to_owned())
}

/// The result of a command.
#[derive(Clone, Copy)]
enum Run {
    Took(Duration),
    Failed,
    GivenUp,
}

fn shown(run: Run) -> String {
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
