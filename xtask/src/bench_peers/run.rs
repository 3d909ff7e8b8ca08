//! One part: all its lines in turn, several times, and the table of their costs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::inputs::{self, Input};
use super::measure::{self, Ended, Taken, Watch};
use super::parts::{Answer, Goal, Part, Row, Who};
use super::peers::Programs;
use crate::table::Table;
use crate::vitals::megabytes;

const RUNS: usize = 5;
const QUICK_RUNS: usize = 3;
/// A line that has taken this long in all, in seconds, is not run again.
const ENOUGH: f64 = 30.0;
/// A run that takes this long is ended.
const PATIENCE: Duration = Duration::from_secs(120);
/// jeprof on the largest dump takes three minutes.
const JEPROF_PATIENCE: Duration = Duration::from_secs(300);

/// Measures a part and prints its table.
pub(super) fn part(part: &Part, root: &Path, programs: &Programs, quick: bool) -> Result<()> {
    let input = inputs::named(part.folder)?;
    let bench = Bench {
        part,
        input,
        folder: root.join(part.folder),
        programs,
        scratch: tempfile::tempdir().context("make a folder")?,
    };
    bench.learn()?;
    let wanted = |row: &&Row| !(quick && row.who == Who::SlowPeer);
    let mut tallies: Vec<Tally> = part
        .rows
        .iter()
        .filter(wanted)
        .map(|row| Tally { row, runs: Vec::new(), failure: None, printed: Vec::new() })
        .collect();
    for round in 0..=if quick { QUICK_RUNS } else { RUNS } {
        let watch = if round == 0 { Watch::Memory } else { Watch::Time };
        for tally in tallies.iter_mut().filter(|tally| tally.goes_on()) {
            bench.once(tally, watch)?;
        }
    }
    bench.print(&tallies);
    tallies.iter().filter(|tally| tally.row.who == Who::Warm).try_for_each(|tally| bench.check_same(tally))
}

/// The runs of a line so far.
struct Tally<'a> {
    row: &'a Row,
    /// The first is watched closely: its time is used only if there is no other.
    runs: Vec<Taken>,
    /// Why it is not run again.
    failure: Option<String>,
    /// The output of its last run.
    printed: Vec<u8>,
}

impl Tally<'_> {
    fn goes_on(&self) -> bool {
        self.failure.is_none() && self.runs.iter().map(|run| run.wall).sum::<f64>() < ENOUGH
    }

    /// The runs whose time is used.
    fn timed(&self) -> &[Taken] {
        if self.runs.len() > 1 { &self.runs[1..] } else { &self.runs }
    }

    /// The median of all runs.
    fn wall(&self) -> Option<f64> {
        median(self.timed().iter().map(|run| run.wall))
    }

    fn lines(&self) -> usize {
        self.printed.iter().filter(|byte| **byte == b'\n').count()
    }

    fn anonymous(&self) -> u64 {
        self.runs.iter().map(|run| run.memory.anonymous).max().unwrap_or(0)
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A part that is being measured.
struct Bench<'a> {
    part: &'a Part,
    input: &'a Input,
    folder: PathBuf,
    programs: &'a Programs,
    scratch: TempDir,
}

impl Bench<'_> {
    /// Reads the files, so that the next run does not wait for the disk: while a peer works for a minute the kernel may
    /// drop them.
    fn warm_page_cache(&self) -> Result<()> {
        for entry in fs::read_dir(&self.folder).context("list a folder")? {
            let path = entry.context("list a folder")?.path();
            if path.is_file() {
                let mut file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
                std::io::copy(&mut file, &mut std::io::sink()).with_context(|| format!("read {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// The index that reports of another dump left.
    fn learned(&self) -> PathBuf {
        self.scratch.path().join("learned")
    }

    fn learn(&self) -> Result<()> {
        if !self.part.rows.iter().any(|row| row.who == Who::Warm) {
            return Ok(());
        }
        fs::create_dir(self.learned()).context("make a folder")?;
        for grammar in ["jeprof", "report"] {
            let line = format!("procprof {grammar} --dot {} {}.heap", self.input.program, self.part.learned);
            match self.run(&line, &self.learned(), JEPROF_PATIENCE, Watch::Time)? {
                Ended::Well(_) => {}
                Ended::Badly(why) => bail!("{line}: {why}"),
                Ended::GivenUp => bail!("{line}: given up"),
            }
        }
        Ok(())
    }

    fn output(&self) -> PathBuf {
        self.scratch.path().join("output")
    }

    fn run(&self, line: &str, cache: &Path, patience: Duration, watch: Watch) -> Result<Ended> {
        // A single program replaces its shell.
        let line = if line.contains('|') { line.to_owned() } else { format!("exec {line}") };
        let mut command = Command::new("bash");
        command.args(["-o", "pipefail", "-c", &line]).current_dir(&self.folder);
        let own: [(&str, &OsStr); 5] = [
            ("PATH", &self.programs.path),
            ("GIMLI", self.programs.gimli.as_os_str()),
            ("PROCPROF_CACHE_DIR", cache.as_os_str()),
            ("PPROF_TMPDIR", self.scratch.path().as_os_str()),
            ("JEPROF_TMPDIR", self.scratch.path().as_os_str()),
        ];
        command.envs(own).env_remove("DEBUGINFOD_URLS").env_remove("PPROF_BINARY_PATH");
        measure::run(&mut command, &self.output(), patience, watch)
    }

    fn line(&self, row: &Row) -> String {
        let profile = if row.who == Who::Warm { self.part.second } else { self.part.profile };
        row.line.replace("PROGRAM", self.input.program).replace("PROFILE", profile)
    }

    /// Runs a line once more.
    fn once(&self, tally: &mut Tally, watch: Watch) -> Result<()> {
        let line = self.line(tally.row);
        let empty = tempfile::tempdir_in(self.scratch.path()).context("make a folder")?;
        let learned = self.learned();
        let cache = empty.path();
        if tally.row.who == Who::Warm {
            // Each run finds the index of the other dump, and nothing of the runs before.
            copy_folder(&learned, cache)?;
        }
        let patience = if line.starts_with("jeprof") { JEPROF_PATIENCE } else { PATIENCE };
        self.warm_page_cache()?;
        match self.run(&line, cache, patience, watch)? {
            Ended::Well(taken) => tally.runs.push(taken),
            Ended::Badly(why) => tally.failure = Some(why),
            Ended::GivenUp => tally.failure = Some(format!("given up after {} s", patience.as_secs())),
        }
        tally.printed = fs::read(self.output()).context("read what a line printed")?;
        let ours = matches!(tally.row.who, Who::Cold | Who::Warm);
        ensure!(
            !ours || tally.failure.is_none() && tally.lines() > 0,
            "{line}: {}",
            tally.failure.as_deref().unwrap_or("printed nothing")
        );
        Ok(())
    }

    /// The output with an index is the same as without.
    fn check_same(&self, tally: &Tally) -> Result<()> {
        let line = self.line(tally.row);
        let empty = tempfile::tempdir_in(self.scratch.path()).context("make a folder")?;
        ensure!(
            matches!(self.run(&line, empty.path(), PATIENCE, Watch::Time)?, Ended::Well(_)),
            "{line} fails without an index"
        );
        let printed = fs::read(self.output()).context("read what a line printed")?;
        ensure!(printed == tally.printed, "{line} prints something else with an index than without");
        Ok(())
    }

    fn print(&self, tallies: &[Tally]) {
        let mut table = Table::new(&[
            "command",
            "index",
            "runs",
            "wall",
            "user+sys",
            "anonymous",
            "of files",
            "lines",
            "procprof is faster by",
            "with index",
            "goal",
        ]);
        let ours = |answer: Answer, who: Who| {
            let tally = tallies.iter().find(|tally| tally.row.answer == answer && tally.row.who == who);
            tally.and_then(Tally::wall)
        };
        for tally in tallies {
            let answer = tally.row.answer;
            table.row(self.cells(tally, ours(answer, Who::Cold), ours(answer, Who::Warm)));
        }
        table.print(&format!("{}: {}", self.part.name, self.part.what));
    }

    fn cells(&self, tally: &Tally, cold: Option<f64>, warm: Option<f64>) -> [String; 11] {
        let index = match tally.row.who {
            Who::Cold => "none",
            Who::Warm => "there",
            Who::Peer | Who::SlowPeer => "",
        };
        let peer = index.is_empty();
        let faster = |ours: Option<f64>| match (tally.wall(), ours) {
            (Some(wall), Some(ours)) if peer => format!("{:.1}×", wall / ours),
            _ => String::new(),
        };
        let most = |bytes: fn(&Taken) -> u64| tally.runs.iter().map(bytes).max().map_or_else(String::new, megabytes);
        [
            format!("`{}`", self.line(tally.row).replace('|', "\\|")),
            index.to_owned(),
            tally.timed().len().to_string(),
            tally.failure.clone().or(tally.wall().map(|wall| format!("{wall:.3} s"))).unwrap_or_default(),
            median(tally.timed().iter().map(|run| run.cpu)).map_or_else(String::new, |cpu| format!("{cpu:.2} s")),
            most(|run| run.memory.anonymous),
            most(|run| run.memory.file),
            tally.lines().to_string(),
            faster(cold),
            faster(warm),
            self.goal(tally, cold),
        ]
    }

    /// The goal, and whether it is met.
    fn goal(&self, tally: &Tally, cold: Option<f64>) -> String {
        let verdict = |goal: &Option<Goal>| {
            let (Some(goal), Some(wall)) = (goal, tally.wall()) else { return String::new() };
            let mut verdict = format!("{} s: {}", goal.seconds, met(wall <= goal.seconds));
            if let Some(anonymous) = goal.anonymous {
                verdict += &format!(", {} MB: {}", anonymous / 1_000_000, met(tally.anonymous() <= anonymous));
            }
            verdict
        };
        match tally.row.who {
            Who::Cold => verdict(&self.part.cold),
            Who::Warm => verdict(&self.part.warm),
            Who::Peer | Who::SlowPeer => {
                let times = self.part.times.iter().find(|(line, _)| *line == tally.row.line);
                match (times, tally.wall(), cold) {
                    (Some((_, times)), Some(wall), Some(cold)) => format!("{times}×: {}", met(wall / cold >= *times)),
                    _ => String::new(),
                }
            }
        }
    }
}

fn met(reached: bool) -> &'static str {
    if reached { "met" } else { "missed" }
}

/// Copies the files of a folder, and of those in it.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).context("make a folder")?;
    for entry in fs::read_dir(from).context("list a folder")? {
        let path = entry.context("list a folder")?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &copy)?;
        } else {
            fs::copy(&path, &copy).with_context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}
