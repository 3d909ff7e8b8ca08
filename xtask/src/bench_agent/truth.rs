//! The accuracy of CPU profiles: reported time beside used time, its distribution over functions, and whether stacks
//! are complete.

use anyhow::Result;

use super::build::{GPERFTOOLS, OURS, OURS_PERF, PEERS, PPROF_RS, Profiler};
use super::cpu::{Measured, interleaved};
use super::run::Figures;
use super::{Effort, verdict};
use crate::table::Table;

/// Requested rates.
const RATES: [u64; 4] = [99, 250, 1000, 4000];

/// Work and period of a thread that works in bursts, microseconds.
const BURSTS: [(&str, &str); 2] = [("1000", "4000"), ("1000", "10000")];

/// The rate of the split, which makes 20,000 samples of 21 seconds.
const SPLIT_HZ: u64 = 1000;

/// One of each kind of timers: pprof-rs's modes have the same.
const TIMERS: [Profiler; 4] = [OURS, OURS_PERF, PPROF_RS, GPERFTOOLS];

/// One busy thread at several rates.
pub(super) fn error(effort: Effort) -> Result<()> {
    let seconds = effort.seconds.to_string();
    let mut table = Table::new(&["rate", "profiler", "used, ms", "reported, ms", "error", "samples", "goal"]);
    for hz in RATES {
        for measured in interleaved(&TIMERS, &["error", &hz.to_string(), &seconds], hz, 1)? {
            table.row(measured.row(&[&format!("{hz} Hz")], 5, |measured| {
                let is_met = measured.median(error_percent).abs() <= 1.0;
                let mut cells = cells_of(measured);
                cells.push(samples(measured));
                cells.push(goal(measured, &format!("1 %: {}", verdict(is_met))));
                cells
            }));
        }
    }
    table
        .print(&format!("CPU time reported and used, by the requested rate ({seconds} s of one busy thread, in turn)"));
    Ok(())
}

/// A thread that splits its time 70 to 30.
pub(super) fn split(effort: Effort) -> Result<()> {
    let seconds = if effort.is_quick { effort.seconds } else { 21 }.to_string();
    let mut table = Table::new(&["profiler", "samples", "in `hot_70` or `hot_30`", "of these in `hot_70`", "goal"]);
    let profilers: Vec<Profiler> = [OURS_PERF].into_iter().chain(PEERS).collect();
    for measured in interleaved(&profilers, &["error", &SPLIT_HZ.to_string(), &seconds], SPLIT_HZ, 1)? {
        table.row(measured.row(&[], 4, |measured| {
            let both = |figures: &Figures| figures.get("hot_70_ms") + figures.get("hot_30_ms");
            let known = measured
                .median(|figures| 100.0 * both(figures) / (figures.get("total_ms") - figures.get("unsampled_ms")));
            let share = measured.median(|figures| 100.0 * figures.get("hot_70_ms") / both(figures));
            let shown = if share.is_nan() { "neither seen".to_owned() } else { format!("{share:.1} %") };
            let goal = goal(measured, &format!("69 to 71 %: {}", verdict((share - 70.0).abs() <= 1.0)));
            vec![samples(measured), format!("{known:.1} %"), shown, goal]
        }));
    }
    table.print(&format!(
        "A thread that is 70 % in one function and 30 % in another ({seconds} s at {SPLIT_HZ} Hz, in turn)"
    ));
    Ok(())
}

/// Threads that sleep between bursts, and threads that live for 20 ms.
pub(super) fn bursts(effort: Effort) -> Result<()> {
    let (seconds, rounds) = ((effort.seconds + 1).to_string(), effort.rounds.min(3));
    let mut table = Table::new(&["work", "profiler", "used, ms", "reported, ms", "error", "unsampled", "goal"]);
    let mut cases: Vec<(String, Vec<&str>)> = BURSTS
        .iter()
        .map(|(work, period)| {
            (format!("1 ms every {} ms", &period[..period.len() - 3]), vec!["bursts", work, period, &seconds])
        })
        .collect();
    cases.push(("threads of 20 ms".to_owned(), vec!["short", &seconds]));
    for (what, arguments) in cases {
        for measured in interleaved(&TIMERS, &arguments, 99, rounds)? {
            table.row(measured.row(&[&what], 5, |measured| {
                let unsampled = measured.median(|figures| 100.0 * figures.get("unsampled_ms") / figures.get("used_ms"));
                let (is_true, is_seen) = (measured.median(error_percent).abs() <= 1.0, unsampled < 5.0);
                let goal =
                    goal(measured, &format!("1 %: {}; under 5 % unsampled: {}", verdict(is_true), verdict(is_seen)));
                let mut cells = cells_of(measured);
                cells.push(if measured.profiler.is_ours() { format!("{unsampled:.1} %") } else { String::new() });
                cells.push(goal);
                cells
            }));
        }
    }
    table.print(&format!("Bursts at 99 Hz ({seconds} s each, median of {rounds} runs, in turn)"));
    Ok(())
}

/// Stacks of Rust and glibc code that reach the function a thread begins in.
pub(super) fn roots(effort: Effort) -> Result<()> {
    let seconds = effort.seconds.to_string();
    let mut table = Table::new(&["profiler", "samples", "to the thread's root", "goal"]);
    let profilers: Vec<Profiler> = [OURS_PERF].into_iter().chain(PEERS).collect();
    for measured in interleaved(&profilers, &["roots", &SPLIT_HZ.to_string(), &seconds], SPLIT_HZ, 1)? {
        table.row(measured.row(&[], 3, |measured| {
            let share = measured.median(|figures| 100.0 * figures.get("rooted") / figures.get("samples"));
            vec![
                samples(measured),
                format!("{share:.2} %"),
                goal(measured, &format!("99.5 %: {}", verdict(share >= 99.5))),
            ]
        }));
    }
    table.print(&format!(
        "Stacks of a thread that sorts, formats, hashes, allocates and copies ({seconds} s at {SPLIT_HZ} Hz, in turn)"
    ));
    Ok(())
}

/// Used and reported time, and the difference.
fn cells_of(measured: &Measured) -> Vec<String> {
    let millis = |key: &'static str| measured.median(move |figures| figures.get(key));
    vec![
        format!("{:.0}", millis("used_ms")),
        format!("{:.0}", millis("total_ms")),
        format!("{:+.2} %", measured.median(error_percent)),
    ]
}

fn samples(measured: &Measured) -> String {
    format!("{:.0}", measured.median(|figures| figures.get("samples")))
}

/// Goals apply to procprof only.
fn goal(measured: &Measured, goal: &str) -> String {
    if measured.profiler.is_ours() { goal.to_owned() } else { String::new() }
}

fn error_percent(figures: &Figures) -> f64 {
    100.0 * (figures.get("total_ms") / figures.get("used_ms") - 1.0)
}
