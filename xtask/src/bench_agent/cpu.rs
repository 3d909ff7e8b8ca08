//! CPU samples: what one costs, and how true they are together.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::build::{PROFILERS, Profiler};
use super::run::{Figures, run};
use super::{Effort, median};
use crate::table::Table;

/// Calls of one function, which make a stack of about 70 frames with those around them.
const DEPTH: &str = "64";

/// Rates that are asked for.
const RATES: [u64; 4] = [99, 250, 1000, 4000];

/// Work and period of a thread that works in bursts, microseconds.
const BURSTS: [(&str, &str); 2] = [("1000", "4000"), ("1000", "10000")];

/// All runs of one program.
struct Measured {
    profiler: Profiler,
    program: PathBuf,
    runs: Vec<Result<Figures>>,
}

impl Measured {
    fn median(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        median(self.runs.iter().filter_map(|run| run.as_ref().ok()).map(figure).collect())
    }

    /// A row, or why there is none.
    fn row(&self, what: &str, columns: usize, cells: impl FnOnce(&Self) -> Vec<String>) -> Vec<String> {
        let head = [what, self.profiler.name].into_iter().filter(|text| !text.is_empty()).map(str::to_owned);
        match self.runs.iter().find_map(|run| run.as_ref().err()) {
            Some(error) => {
                let told = format!("{error:#}");
                let last = told.lines().next_back().unwrap_or_default().to_owned();
                head.chain([last]).chain(std::iter::repeat_n(String::new(), columns - 1)).collect()
            }
            None => head.chain(cells(self)).collect(),
        }
    }
}

/// Runs every profiler's program with the same arguments, in turn.
fn interleaved(arguments: &[&str], hz: u64, rounds: usize) -> Result<Vec<Measured>> {
    let build = |profiler: &Profiler| -> Result<Measured> {
        let program = profiler.program().with_context(|| format!("build the program with {}", profiler.name))?;
        Ok(Measured { profiler: *profiler, program, runs: Vec::new() })
    };
    let mut all = PROFILERS.iter().map(build).collect::<Result<Vec<_>>>()?;
    for _ in 0..rounds {
        for measured in &mut all {
            let figures = run(&measured.program, arguments, hz);
            measured.runs.push(figures);
        }
    }
    Ok(all)
}

/// One sample at 70 frames.
pub(super) fn sample(effort: Effort) -> Result<()> {
    let all = interleaved(&["sample", DEPTH], 1, effort.rounds)?;
    let mut table = Table::new(&["profiler", "sample, us", "empty handler, us", "added, us", "goal"]);
    for measured in &all {
        let is_ours = measured.profiler == PROFILERS[0];
        table.row(measured.row("", 4, |measured| {
            let micros = |key: &'static str| measured.median(move |figures| figures.get(key) / 1e3);
            let added = measured.median(|figures| (figures.get("sample_ns") - figures.get("empty_ns")) / 1e3);
            let goal = if is_ours { format!("0.8: {}", verdict(added <= 0.8)) } else { String::new() };
            vec![format!("{:.2}", micros("sample_ns")), format!("{:.2}", micros("empty_ns")), format!("{added:.2}"), goal]
        }));
    }
    table.print(&format!("One CPU sample at 70 frames, signal included (median of {} runs, in turn)", effort.rounds));
    Ok(())
}

/// A busy thread that splits its time 70 to 30, at several rates.
pub(super) fn error(effort: Effort) -> Result<()> {
    let seconds = effort.seconds.to_string();
    let columns = ["rate", "profiler", "used, ms", "told, ms", "error", "samples", "`hot_70` of both", "goal"];
    let mut table = Table::new(&columns);
    for hz in RATES {
        for measured in interleaved(&["error", &hz.to_string(), &seconds], hz, 1)? {
            let is_ours = measured.profiler == PROFILERS[0];
            table.row(measured.row(&format!("{hz} Hz"), 6, |measured| {
                let share =
                    measured.median(|figures| 100.0 * figures.get("hot_70_ms") / (figures.get("hot_70_ms") + figures.get("hot_30_ms")));
                let goal = || format!("1 %: {}", verdict(measured.median(error_percent).abs() <= 1.0));
                let share = if share.is_nan() { "neither seen".to_owned() } else { format!("{share:.1} %") };
                let mut cells = told(measured);
                cells.extend([format!("{:.0}", measured.median(|figures| figures.get("samples"))), share]);
                cells.push(if is_ours { goal() } else { String::new() });
                cells
            }));
        }
    }
    table.print(&format!("CPU time told and used, by the rate asked for ({seconds} s of one busy thread, in turn)"));
    Ok(())
}

/// Threads that sleep between bursts, and threads that live for 20 ms.
pub(super) fn bursts(effort: Effort) -> Result<()> {
    let seconds = effort.seconds.min(8).to_string();
    let mut table = Table::new(&["work", "profiler", "used, ms", "told, ms", "error", "unsampled", "goal"]);
    let mut cases: Vec<(String, Vec<&str>)> = BURSTS
        .iter()
        .map(|(work, period)| (format!("1 ms every {} ms", &period[..period.len() - 3]), vec!["bursts", work, period, &seconds]))
        .collect();
    cases.push(("threads of 20 ms".to_owned(), vec!["short", &seconds]));
    for (what, arguments) in cases {
        for measured in interleaved(&arguments, 99, effort.rounds)? {
            let is_ours = measured.profiler == PROFILERS[0];
            table.row(measured.row(&what, 5, |measured| {
                let unsampled = measured.median(|figures| 100.0 * figures.get("unsampled_ms") / figures.get("used_ms"));
                let is_met = measured.median(error_percent).abs() <= 1.0 && unsampled < 5.0;
                let mut cells = told(measured);
                cells.push(format!("{unsampled:.1} %"));
                cells.push(if is_ours { format!("1 %, and 5 % unsampled: {}", verdict(is_met)) } else { String::new() });
                cells
            }));
        }
    }
    table.print(&format!("Bursts at 99 Hz ({seconds} s each, median of {} runs, in turn)", effort.rounds));
    Ok(())
}

/// Used, told, and the difference.
fn told(measured: &Measured) -> Vec<String> {
    let millis = |key: &'static str| measured.median(move |figures| figures.get(key));
    vec![format!("{:.0}", millis("used_ms")), format!("{:.0}", millis("total_ms")), format!("{:+.2} %", measured.median(error_percent))]
}

fn error_percent(figures: &Figures) -> f64 {
    100.0 * (figures.get("total_ms") / figures.get("used_ms") - 1.0)
}

pub(super) fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}
