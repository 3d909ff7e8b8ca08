//! The archive: its size for profiles that recur, the CPU time that writing takes, the sum of a day of ten nodes beside
//! other engines, the statements of docs/engines.md on these, and what a server answers about the day.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use procprof_profile::Nanos;
use procprof_profile::format::{Limits, decode};

use crate::clients;
use crate::inputs::recurring::Process;
use crate::product::{self, Served};
use crate::table::Table;
use crate::tools;
use crate::vitals::children_cpu;

/// The day of the profiles; statements of docs/engines.md are of it.
const DAY: &str = "2026-11-24T00:00:00Z";
const NODES: u64 = 10;
const MINUTES: i64 = 24 * 60;
/// Runs of a command or statement, of which the first is cold and the least of the others is shown.
const RUNS: usize = 4;
const ENGINES: &[&str] = &["duckdb", "clickhouse", "datafusion"];
/// The sum of a day by stack, and the same with names.
const SUMS: &[(&str, &str)] = &[
    ("sum by stack", "SELECT stack, sum(value) FROM samples WHERE type = 'cpu' AND kind = 'cpu' GROUP BY stack"),
    (
        "sum by stack, with names",
        "SELECT stack, caller, function_name, sum(value) FROM self_values WHERE type = 'cpu' AND kind = 'cpu' \
         GROUP BY stack, caller, function_name",
    ),
    ("sum of all", "SELECT sum(value) FROM samples WHERE type = 'cpu' AND kind = 'cpu'"),
];

pub(super) fn run() -> Result<()> {
    tools::require(&[("mariadb", "mariadb-client")])?;
    clients::ensure_engines()?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let procprof = product::procprof()?;
    let mut sizes = Table::new(&["nodes", "profiles", "gzip'd pprof, each", "archive, each", "import", "archiving"]);
    for nodes in [1, NODES] {
        sizes.row(written(&procprof, &folder.path().join(nodes.to_string()), nodes)?);
    }
    sizes.print("Archive: a profile a minute for a day, files by the hour; CPU time in all");
    let archive = folder.path().join(NODES.to_string()).join("archive");
    merged(&procprof, &archive)?;
    served(&procprof, &archive)?;
    compacted(&procprof, &archive)
}

/// Imports and archives profiles; a row of sizes and CPU times.
fn written(procprof: &Path, folder: &Path, nodes: u64) -> Result<Vec<String>> {
    let (process, start) = (Process::new(), DAY.parse::<Timestamp>().context("read the day")?);
    let data = folder.join("data");
    let mut bytes = 0;
    let mut import = 0.0;
    for node in 0..nodes {
        let files = folder.join("files");
        std::fs::create_dir_all(&files).context("make a folder")?;
        for minute in 0..MINUTES {
            let second = minute.cast_unsigned() * 60 + 10 + node;
            // No capture ends exactly when it should.
            let late = second.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let completed = start + Duration::from_secs(second) + Duration::from_micros(late % 200_000);
            let nanos = Nanos(i64::try_from(completed.as_nanosecond()).context("a time of this epoch")?);
            let packed = process.profile(node, nanos)?;
            bytes += packed.len();
            let name = completed.to_zoned(TimeZone::UTC).strftime("cpu-profile-%Y%m%d-%H%M%S-pprof.gz").to_string();
            std::fs::write(files.join(name), packed).context("write an input")?;
        }
        let node = format!("be{node}");
        let words = ["store", "import", "--tz", "UTC", "--node", &node, "--data"];
        import += cpu(Command::new(procprof).args(words).arg(&data).arg(&files))?;
        std::fs::remove_dir_all(&files).context("remove inputs")?;
    }
    let archive = folder.join("archive");
    let export = cpu(Command::new(procprof).args(["archive", "export", "--data"]).arg(&data).arg(&archive))?;
    std::fs::remove_dir_all(&data).context("remove the store")?;
    let profiles = nodes * MINUTES.cast_unsigned();
    let each = |bytes: u64| format!("{} B", bytes / profiles);
    Ok(vec![
        nodes.to_string(),
        profiles.to_string(),
        each(bytes as u64),
        each(size(&archive)?),
        format!("{import:.2} s"),
        format!("{export:.2} s"),
    ])
}

/// The CPU time of a command, in seconds.
fn cpu(command: &mut Command) -> Result<f64> {
    let before = children_cpu()?;
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(children_cpu()? - before)
}

/// Bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// The sum of the day by procprof and by the engines, which must be the same.
fn merged(procprof: &Path, archive: &Path) -> Result<()> {
    let file = archive.with_file_name("sum.pb.gz");
    let mut ours = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        cpu(Command::new(procprof).args(["archive", "merge", "--type", "cpu", "-o"]).arg(&file).arg(archive))?;
        ours.push(start.elapsed().as_secs_f64());
    }
    let sum = decode(&std::fs::read(&file).context("read the sum")?, &Limits::default())?.profile;
    let kind = sum.sample_type_index("cpu").context("the sum has CPU times")?;
    let page = Page::read(archive)?;
    let statements = &page.statements;
    let asked: Vec<&str> =
        SUMS.iter().map(|(_, statement)| *statement).chain(statements.iter().map(|(_, text)| &**text)).collect();
    let mut columns = vec![String::new(), "`procprof archive merge`, a process".to_owned()];
    columns.extend(ENGINES.iter().map(|engine| (*engine).to_owned()));
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&names);
    let mut found = Vec::new();
    for engine in ENGINES {
        let total = &asks(engine, &page.views(engine), &[SUMS[2].1], None)?[0];
        let total = total.first().and_then(|cell| cell.parse::<i64>().ok());
        ensure!(total == Some(sum.total(kind)), "{engine} finds the sum {total:?}, procprof {}", sum.total(kind));
        found.push(asks(engine, &page.views(engine), &asked, Some(RUNS))?);
    }
    let titles =
        SUMS.iter().map(|(title, _)| (*title).to_owned()).chain(statements.iter().map(|(title, _)| title.clone()));
    for (at, title) in titles.enumerate().filter(|(at, _)| *at != 2) {
        let own = if at == 1 { cold_and_warm(&ours) } else { String::new() };
        let theirs: Result<Vec<String>> = found.iter().map(|times| Ok(cold_and_warm(&seconds(&times[at])?))).collect();
        table.row([title, own].into_iter().chain(theirs?));
    }
    table.print(&format!("{NODES} nodes, a profile a minute for a day: ms, the first run / the least of the others"));
    Ok(())
}

/// A server with nothing but an archive, which it does not change.
pub(super) struct Reading {
    pub(super) server: Served,
    /// The port of its SQL server.
    pub(super) port: String,
}

impl Reading {
    pub(super) fn start(procprof: &Path, archive: &Path) -> Result<Reading> {
        let folder = archive.with_file_name("serving");
        let data = folder.join("data");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).context("remove a folder")?;
        }
        std::fs::create_dir_all(&folder).context("make a folder")?;
        // Another server seems to compact.
        let (leases, until) = (archive.join("leases"), Timestamp::now().as_millisecond() + 3_600_000);
        std::fs::create_dir_all(&leases).context("make a folder")?;
        std::fs::write(leases.join("compaction-0000000900"), format!("000000000000feed {until}"))
            .context("take a lease")?;
        let archive = format!("archive={}", archive.display());
        let quiet = ["--mysql", "127.0.0.1:0", "--mysql-no-auth", "--set", "proc_profile_cpu_enable=false"];
        let server = Served::start(Command::new(procprof), &data, &[&quiet[..], &["--set", &archive]].concat())?;
        let port = product::sql_port(&data.with_extension("log"))?;
        Ok(Reading { server, port })
    }

    fn client(&self, statement: &str) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--skip-ssl", "-h127.0.0.1", "-uroot", "-P", &self.port, "procprof", "-N", "-e", statement]);
        command
    }

    /// The wall time of a statement by MariaDB's client, in seconds.
    pub(super) fn asked(&self, statement: &str) -> Result<f64> {
        timed(&mut self.client(statement))
    }

    /// Its answer, without the names of its columns.
    pub(super) fn answer(&self, statement: &str) -> Result<String> {
        let output = self.client(statement).output().context("run mariadb")?;
        ensure!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// What a server, which has none of the files, answers about the day of the archive.
fn served(procprof: &Path, archive: &Path) -> Result<()> {
    let nodes = "SELECT DISTINCT node FROM profiles";
    let nodes = format!("SELECT string_agg(CAST(node AS VARCHAR), '&node=') FROM ({nodes})");
    let nodes = asks("duckdb", &Page::read(archive)?.views("duckdb"), &[&nodes], None)?[0].join("");
    let reading = Reading::start(procprof, archive)?;
    let range = |to: &str| format!("node={nodes}&type=cpu&from={DAY}&to=2026-11-{to}:00Z");
    let tree = |to| get(&reading.server, &format!("/merge/tree?{}", range(to)));
    let split = |split: &str| {
        let call = format!("timeline('*', 'cpu', '2026-11-24', '2026-11-25', '1h', '{split}')");
        reading.asked(&format!("SELECT * FROM {call}"))
    };
    let mut table = Table::new(&["asked of a server", "first", "again, least of three"]);
    let mut row = |what: &str, ask: &dyn Fn() -> Result<f64>| {
        let times = (0..RUNS).map(|_| ask()).collect::<Result<Vec<f64>>>()?;
        let least = times[1..].iter().copied().fold(f64::INFINITY, f64::min);
        table.row([what.to_owned(), format!("{:.0} ms", times[0] * 1e3), format!("{:.0} ms", least * 1e3)]);
        anyhow::Ok(())
    };
    row("flame graph of the day, `GET /merge/tree`", &|| tree("25T00:00"))?;
    row("of the day but its last hour, none of which is new", &|| tree("24T23:00"))?;
    row("`SELECT * FROM timeline(…, '1h', 'node')`, with the client's start", &|| split("node"))?;
    row("`SELECT * FROM timeline(…, '1h', 'function')`, likewise", &|| split("function"))?;
    table.print(&format!("{NODES} nodes, a profile a minute for a day, only in the archive"));
    println!("resident at most: {}", crate::vitals::megabytes(reading.server.vitals()?.resident_max));
    reading.server.terminate()
}

/// The archive with a file of each table for the day.
fn compacted(procprof: &Path, archive: &Path) -> Result<()> {
    std::fs::remove_dir_all(archive.join("leases")).context("give the lease back")?;
    let compact = cpu(Command::new(procprof).args(["archive", "compact"]).arg(archive))?;
    let after = size(archive)?;
    let file = archive.with_file_name("sum.pb.gz");
    let merge =
        || timed(Command::new(procprof).args(["archive", "merge", "--type", "cpu", "-o"]).arg(&file).arg(archive));
    let times = (0..RUNS).map(|_| merge()).collect::<Result<Vec<f64>>>()?;
    let profiles = NODES * MINUTES.cast_unsigned();
    let mut table = Table::new(&["profiles", "archive, each", "CPU time of `archive compact`", "`archive merge`, ms"]);
    table.row([
        profiles.to_string(),
        format!("{} B", after / profiles),
        format!("{compact:.2} s"),
        cold_and_warm(&times),
    ]);
    table.print("The same archive with files by the day");
    Ok(())
}

/// The wall time of a request that must succeed, in seconds.
pub(super) fn get(server: &Served, path: &str) -> Result<f64> {
    let start = Instant::now();
    let answer = crate::http::send("GET", &server.address, path, "Accept-Encoding: gzip\r\n", &[])?;
    ensure!(answer.status == 200, "{path}: {}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    Ok(start.elapsed().as_secs_f64())
}

/// The wall time of a command that must succeed, in seconds.
pub(super) fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    cpu(command)?;
    Ok(start.elapsed().as_secs_f64())
}

pub(super) fn seconds(cells: &[String]) -> Result<Vec<f64>> {
    cells.iter().map(|cell| cell.parse().with_context(|| format!("read the time {cell:?}"))).collect()
}

pub(super) fn cold_and_warm(seconds: &[f64]) -> String {
    let least = seconds.iter().skip(1).copied().fold(f64::INFINITY, f64::min);
    format!("{:.0} / {:.0}", seconds.first().copied().unwrap_or_default() * 1e3, least * 1e3)
}

/// The statements of docs/engines.md, for an archive.
pub(super) struct Page {
    text: String,
    /// Those that ask, with their headings.
    statements: Vec<(String, String)>,
}

impl Page {
    pub(super) fn read(archive: &Path) -> Result<Page> {
        let text = std::fs::read_to_string(root()?.join("docs/engines.md")).context("read docs/engines.md")?;
        let text = text.replace("ARCHIVE", &archive.display().to_string());
        let headed = text.split("\n### ").filter_map(|part| {
            let (title, rest) = part.split_once('\n')?;
            Some((title.to_owned(), blocks(rest, "sql").pop()?))
        });
        let statements: Vec<(String, String)> = headed.collect();
        ensure!(!statements.is_empty(), "docs/engines.md has no statements");
        Ok(Page { text, statements })
    }

    /// Those that make an engine's views.
    pub(super) fn views(&self, engine: &str) -> Vec<String> {
        let blocks = [blocks(&self.text, &format!("sql {engine}")), blocks(&self.text, "sql all")].concat();
        let views = blocks.iter().flat_map(|block| block.split(";\n"));
        views.map(|view| view.trim().trim_end_matches(';').to_owned()).collect()
    }
}

/// The blocks of a page that begin with these words.
fn blocks(text: &str, words: &str) -> Vec<String> {
    let begin = format!("\n```{words}\n");
    text.split(&begin).skip(1).filter_map(|rest| rest.split("\n```").next()).map(str::to_owned).collect()
}

fn root() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(own.parent().context("xtask lies in the workspace")?.to_owned())
}

/// The first row of each statement on an engine with these views, or the times of so many runs.
pub(super) fn asks(
    engine: &str,
    views: &[String],
    statements: &[&str],
    runs: Option<usize>,
) -> Result<Vec<Vec<String>>> {
    use std::io::Write;
    let folder = tempfile::tempdir().context("make a folder")?;
    let root = root()?;
    let mut command = Command::new(root.join("target/engines/python/bin/python"));
    command.arg(root.join("crates/procprof-archive/tests/engines/run.py")).arg(engine).arg(folder.path());
    command.args(runs.map(|runs| runs.to_string())).current_dir(folder.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("run an engine")?;
    let input = format!("{}\0\0{}", views.join("\0"), statements.join("\0"));
    child.stdin.take().context("the engine's input")?.write_all(input.as_bytes()).context("write statements")?;
    let output = child.wait_with_output().context("wait for an engine")?;
    ensure!(output.status.success(), "{engine} failed");
    let text = String::from_utf8(output.stdout).context("read an engine's rows")?;
    let row = |text: &str| text.lines().next().unwrap_or_default().split('\t').map(str::to_owned).collect();
    Ok(text.split('\0').map(row).collect())
}
