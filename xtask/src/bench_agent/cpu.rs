//! CPU profilers, each in a program of its own: run in turn, and the cost of a sample.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::build::{OURS, PEERS, Profiler};
use super::run::{Figures, run_with};
use super::{Effort, median, verdict};
use crate::table::Table;

/// Calls of one function, which make stacks of 24, 72 and 128 frames with those around them.
const DEPTHS: [&str; 3] = ["16", "64", "120"];

/// All runs of one program.
pub(super) struct Measured {
    pub(super) profiler: Profiler,
    program: PathBuf,
    runs: Vec<Result<Figures>>,
}

impl Measured {
    /// The median of its runs.
    pub(super) fn median(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        median(self.runs.iter().filter_map(|run| run.as_ref().ok()).map(figure).collect())
    }

    /// Why there are no figures, if there are none.
    pub(super) fn failure(&self) -> Option<String> {
        self.runs.iter().find_map(|run| run.as_ref().err()).map(|error| format!("{error:#}"))
    }

    /// A row that begins with these cells and the profiler's name; if there are no figures, the reason replaces
    /// `columns` cells.
    pub(super) fn row(&self, what: &[&str], columns: usize, cells: impl FnOnce(&Self) -> Vec<String>) -> Vec<String> {
        let head = what.iter().copied().chain([self.profiler.name]).map(str::to_owned);
        match self.failure() {
            Some(failure) => head.chain([failure]).chain(std::iter::repeat_n(String::new(), columns - 1)).collect(),
            None => head.chain(cells(self)).collect(),
        }
    }
}

/// Runs every profiler's program with the same arguments, in turn.
pub(super) fn interleaved(profilers: &[Profiler], arguments: &[&str], hz: u64, rounds: usize) -> Result<Vec<Measured>> {
    let build = |profiler: &Profiler| -> Result<Measured> {
        let program = profiler.program().with_context(|| format!("build the program with {}", profiler.name))?;
        Ok(Measured { profiler: *profiler, program, runs: Vec::new() })
    };
    let mut all = profilers.iter().map(build).collect::<Result<Vec<_>>>()?;
    for _ in 0..rounds {
        for measured in &mut all {
            let engine = measured.profiler.engine;
            let figures = run_with(&measured.program, arguments, |command| {
                // gperftools reads its rate here; the others get it as an argument.
                command.env("CPUPROFILE_FREQUENCY", hz.to_string()).env("PROFILERS_ENGINE", engine);
            });
            measured.runs.push(figures);
        }
    }
    Ok(all)
}

/// The cost of a sample, including the signal.
pub(super) fn sample(effort: Effort) -> Result<()> {
    let profilers: Vec<Profiler> = [OURS].into_iter().chain(PEERS).collect();
    let rounds = effort.rounds;
    let by_depth = DEPTHS
        .iter()
        .map(|depth| interleaved(&profilers, &["sample", depth], 1, rounds))
        .collect::<Result<Vec<_>>>()?;
    let mut table = Table::new(&["frames", "profiler", "a sample, us", "an empty handler, us", "added, us", "goal"]);
    for measured in by_depth.iter().flatten() {
        let frames = format!("{:.0}", measured.median(|figures| figures.get("frames")));
        table.row(measured.row(&[&frames], 4, |measured| {
            let micros = |key: &'static str| format!("{:.2}", measured.median(move |figures| figures.get(key) / 1e3));
            let added = measured.median(added_micros);
            let is_goal = measured.profiler.is_ours() && frames == "72";
            let goal = if is_goal { format!("0.8 us: {}", verdict(added <= 0.8)) } else { String::new() };
            vec![micros("sample_ns"), micros("empty_ns"), format!("{added:.2}"), goal]
        }));
    }
    table.print(&format!("One CPU sample, signal included (CPU time; median of {rounds} runs, in turn)"));
    let mut table = Table::new(&["profiler", "a frame more in a sample, ns"]);
    for ((shallow, deep), profiler) in by_depth[0].iter().zip(&by_depth[2]).zip(&profilers) {
        let frames = deep.median(|figures| figures.get("frames")) - shallow.median(|figures| figures.get("frames"));
        let nanos = 1e3 * (deep.median(added_micros) - shallow.median(added_micros));
        table.row([profiler.name.to_owned(), format!("{:.1}", nanos / frames)]);
    }
    table.print("Unwinding and keeping a frame, from the deepest and the shallowest stacks above");
    Ok(())
}

fn added_micros(figures: &Figures) -> f64 {
    (figures.get("sample_ns") - figures.get("empty_ns")) / 1e3
}
