//! The graph of a large program's heap over SQL: a procprof server, a node that serves the program's dumps as a backend
//! does, and the `mariadb` client.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::inputs;
use super::parts::{Goal, Part};
use crate::answerer::{self, Answer};
use crate::product::{self, Served, sql_port};
use crate::table::Table;

const RUNS: usize = 5;
const QUICK_RUNS: usize = 3;
const STATEMENT: &str = "admin execute on 10001 'System.print(HeapProf.getInstance().dump_dot_snapshot())'";

/// The cost of a statement.
struct Taken {
    wall: Duration,
    /// CPU time of the server and its children, in seconds.
    cpu: f64,
    lines: usize,
}

/// Measures the first dump without an index, and the second with the one that the first has left; prints a table.
pub(super) fn part(part: &Part, root: &Path, quick: bool) -> Result<()> {
    let bench = Bench::start(&root.join(part.folder), inputs::named(part.folder)?.program)?;
    let runs = if quick { QUICK_RUNS } else { RUNS };
    let mut table =
        Table::new(&["statement", "index", "runs", "wall", "least", "user+sys of the server", "lines", "goal"]);
    let cold = (0..runs).map(|_| bench.cold(part.profile)).collect::<Result<Vec<_>>>()?;
    table.row(cells("none", cold, part.cold.as_ref()));
    let warm = (0..runs).map(|_| bench.warm(part.learned, part.second)).collect::<Result<Vec<_>>>()?;
    table.row(cells("there", warm, part.warm.as_ref()));
    table.print(&format!("{}: {}", part.name, part.what));
    Ok(())
}

fn cells(index: &str, mut runs: Vec<Taken>, goal: Option<&Goal>) -> [String; 8] {
    runs.sort_by_key(|run| run.wall);
    let median = &runs[runs.len() / 2];
    let goal = goal.map(|goal| {
        let met = median.wall.as_secs_f64() <= goal.seconds;
        format!("{} s: {}", goal.seconds, if met { "met" } else { "missed" })
    });
    [
        "`dump_dot_snapshot()`".to_owned(),
        index.to_owned(),
        runs.len().to_string(),
        format!("{:.3} s", median.wall.as_secs_f64()),
        format!("{:.3} s", runs[0].wall.as_secs_f64()),
        format!("{:.2} s", median.cpu),
        median.lines.to_string(),
        goal.unwrap_or_default(),
    ]
}

/// A server and its node.
struct Bench {
    folder: PathBuf,
    dump: Arc<Mutex<Arc<Vec<u8>>>>,
    server: Served,
    data: PathBuf,
    port: String,
    _scratch: tempfile::TempDir,
}

impl Bench {
    fn start(folder: &Path, program: &str) -> Result<Bench> {
        let scratch = tempfile::tempdir().context("make a folder")?;
        let dump = Arc::new(Mutex::new(Arc::default()));
        let served = Arc::clone(&dump);
        let http = answerer::serve(move |target| match target {
            "/pprof/heap" => {
                Answer { status: "200 OK", body: Arc::clone(&served.lock().unwrap_or_else(PoisonError::into_inner)) }
            }
            _ => Answer { status: "404 Not Found", body: Arc::default() },
        })?;
        let config = format!(
            "proc_profile_cpu_enable = false\nproc_profile_mem_enable = false\n[[node]]\nname = \"be\"\nid = 10001\nkind = \"starrocks-be\"\n\
             http = \"127.0.0.1:{http}\"\nbinary = {:?}\npid_lookup = \"off\"\n",
            folder.join(program)
        );
        let (file, data) = (scratch.path().join("procprof.toml"), scratch.path().join("data"));
        fs::write(&file, config).context("write the configuration")?;
        let file = file.display().to_string();
        let arguments = ["--config", &file, "--mysql", "127.0.0.1:0", "--mysql-no-auth"];
        let server = Served::start(Command::new(product::procprof()?), &data, &arguments)?;
        let port = sql_port(&data.with_extension("log"))?;
        Ok(Bench { folder: folder.to_owned(), dump, server, data, port, _scratch: scratch })
    }

    /// With an empty symbol cache.
    fn cold(&self, profile: &str) -> Result<Taken> {
        self.forget()?;
        self.statement(profile)
    }

    /// With the symbol cache of another dump.
    fn warm(&self, learned: &str, profile: &str) -> Result<Taken> {
        self.cold(learned)?;
        self.statement(profile)
    }

    fn forget(&self) -> Result<()> {
        match fs::remove_dir_all(self.data.join("cache/symbols")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context("forget what was read of binaries")
            }
            _ => Ok(()),
        }
    }

    /// Requests the graph of a dump.
    fn statement(&self, profile: &str) -> Result<Taken> {
        let heap = self.folder.join(format!("{profile}.heap"));
        let dump = fs::read(&heap).with_context(|| format!("read {}", heap.display()))?;
        *self.dump.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(dump);
        let mut client = Command::new("mariadb");
        client
            .args(["--no-defaults", "--host=127.0.0.1", "--user=bench", "--skip-ssl", "-N", "-r", "-B"])
            .arg(format!("--port={}", self.port));
        let before = self.cpu()?;
        let began = Instant::now();
        let output = client.args(["-e", STATEMENT]).output().context("run mariadb")?;
        let wall = began.elapsed();
        ensure!(
            output.status.success() && output.stdout.starts_with(b"digraph"),
            "{STATEMENT}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        Ok(Taken { wall, cpu: self.cpu()? - before, lines })
    }

    fn cpu(&self) -> Result<f64> {
        self.server.vitals().map(|vitals| vitals.cpu + vitals.children_cpu)
    }
}
