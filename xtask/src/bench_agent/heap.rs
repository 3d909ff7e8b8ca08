//! Heap profilers: their cost for an allocation and its freeing, and the accuracy of their totals.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::run::{Figures, run_with};
use super::{Effort, build, median, verdict};
use crate::table::Table;

/// Mean bytes between samples where totals are compared.
const MEAN: &str = "16384";

/// A profiler and its allocator.
struct Arm {
    allocator: &'static str,
    /// None if only the allocator is measured.
    profiler: &'static str,
    features: &'static str,
    /// Environment when costs are measured.
    cost: &'static [(&'static str, &'static str)],
    /// Environment when totals are; none when there is nothing to compare.
    totals: Option<&'static [(&'static str, &'static str)]>,
}

const OURS: &str = "procprof-agent";
const JEMALLOC_OFF: &[(&str, &str)] = &[("_RJEM_MALLOC_CONF", "prof:false")];

/// Each allocator alone before its profilers.
const ARMS: &[Arm] = &[
    Arm { allocator: "glibc", profiler: "", features: "heap", cost: &[], totals: None },
    Arm { allocator: "glibc", profiler: OURS, features: "heap,ours", cost: &[], totals: Some(&[]) },
    Arm { allocator: "jemalloc", profiler: "", features: "heap,jemalloc", cost: JEMALLOC_OFF, totals: None },
    Arm {
        allocator: "jemalloc",
        profiler: OURS,
        features: "heap,jemalloc,ours",
        cost: JEMALLOC_OFF,
        totals: Some(JEMALLOC_OFF),
    },
    Arm {
        allocator: "jemalloc",
        profiler: "its own",
        features: "heap,jemalloc",
        cost: &[("_RJEM_MALLOC_CONF", "prof:true,prof_active:true,lg_prof_sample:19")],
        totals: Some(&[("_RJEM_MALLOC_CONF", "prof:true,prof_active:true,prof_accum:true,lg_prof_sample:14")]),
    },
    Arm {
        allocator: "tcmalloc",
        profiler: "",
        features: "heap,tcmalloc",
        cost: &[("TCMALLOC_SAMPLE_PARAMETER", "0")],
        totals: None,
    },
    Arm {
        allocator: "tcmalloc",
        profiler: "its sampler",
        features: "heap,tcmalloc",
        cost: &[("TCMALLOC_SAMPLE_PARAMETER", "524288")],
        totals: Some(&[("TCMALLOC_SAMPLE_PARAMETER", MEAN)]),
    },
    // It records every allocation, so its totals are exact, and takes its time.
    Arm {
        allocator: "tcmalloc",
        profiler: "its heap profiler (HEAPPROFILE)",
        features: "heap,tcmalloc",
        cost: &[("TCMALLOC_SAMPLE_PARAMETER", "0"), ("HEAPPROFILE", "heap")],
        totals: None,
    },
];

/// Prints both tables.
pub(super) fn measure(effort: Effort) -> Result<()> {
    let programs = ARMS.iter().map(|arm| program(arm.features)).collect::<Result<Vec<_>>>()?;
    cost(&programs, effort)?;
    totals(&programs, effort)
}

/// Builds the program of an arm.
pub(super) fn program(features: &str) -> Result<PathBuf> {
    let link = if features.contains("tcmalloc") { vec![heap_sample()?, "-lstdc++".into()] } else { Vec::new() };
    build::program("heap", features, &link)
}

/// All programs once, to build before measuring.
pub(super) fn programs() -> Result<()> {
    ARMS.iter().try_for_each(|arm| program(arm.features).map(drop))
}

/// Compiles the code that queries tcmalloc.
fn heap_sample() -> Result<OsString> {
    let object = build::folder()?.join("heap_sample.o");
    let mut command = Command::new("g++");
    command.args(["-O2", "-c"]).arg(build::package().join("src/bin/heap/heap_sample.cc")).arg("-o").arg(&object);
    let status = command.status().context("run g++")?;
    ensure!(status.success(), "compile what asks tcmalloc for its profile (libgoogle-perftools-dev)");
    Ok(object.into_os_string())
}

fn cost(programs: &[PathBuf], effort: Effort) -> Result<()> {
    let rounds = 3 * effort.rounds;
    let scratch = tempfile::tempdir().context("make a folder")?;
    let mut runs: Vec<Vec<Figures>> = ARMS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((arm, program), runs) in ARMS.iter().zip(programs).zip(&mut runs) {
            let is_slow = arm.cost.iter().any(|(name, _)| *name == "HEAPPROFILE");
            if is_slow && !runs.is_empty() {
                continue;
            }
            runs.push(run_with(program, &["cost", if is_slow { "3" } else { "31" }], |command| {
                command.envs(arm.cost.iter().copied()).current_dir(scratch.path());
            })?);
        }
    }
    let mut table =
        Table::new(&["allocator", "profiler", "a pair of 64 bytes, ns", "added, ns", "4,096 kept, ns", "added, ns"]);
    let mut alone = 0;
    for (index, arm) in ARMS.iter().enumerate() {
        if arm.profiler.is_empty() {
            alone = index;
        }
        let mut cells = vec![arm.allocator.to_owned(), arm.profiler.to_owned()];
        for key in ["pair_ns", "kept_ns"] {
            cells.push(format!("{:.1}", median(runs[index].iter().map(|run| run.get(key)).collect())));
            let added = runs[index].iter().zip(&runs[alone]).map(|(with, without)| with.get(key) - without.get(key));
            cells.push(if index == alone { String::new() } else { format!("{:+.1}", median(added.collect())) });
        }
        table.row(cells);
    }
    table.print(&format!(
        "An allocation and its freeing, sampled each 512 KiB (CPU time; median of {rounds} processes each, in turn; \
         added: to the same allocator alone)"
    ));
    Ok(())
}

fn totals(programs: &[PathBuf], effort: Effort) -> Result<()> {
    let rounds = 4 * effort.rounds;
    let mut table = Table::new(&[
        "allocator",
        "profiler",
        "samples",
        "live: error",
        "largest",
        "allocated: error",
        "largest",
        "goal",
    ]);
    for (arm, program) in ARMS.iter().zip(programs) {
        let Some(environment) = arm.totals else { continue };
        let mut runs = Vec::new();
        for _ in 0..rounds {
            runs.push(run_with(program, &["totals", MEAN], |command| {
                command.envs(environment.iter().copied());
            })?);
        }
        let errors = |estimate: &str, exact: &str| -> Vec<f64> {
            runs.iter()
                .map(|run| (100.0 * (run.get(estimate) / run.get(exact) - 1.0)).abs())
                .filter(|error| !error.is_nan())
                .collect()
        };
        let shown = |errors: &[f64]| match errors {
            [] => ["not reported".to_owned(), String::new()],
            _ => [
                format!("{:.2} %", median(errors.to_vec())),
                format!("{:.2} %", errors.iter().copied().fold(0.0, f64::max)),
            ],
        };
        let (live, allocated) = (errors("live_told", "live"), errors("allocated_told", "allocated"));
        let mut cells = vec![arm.allocator.to_owned(), arm.profiler.to_owned()];
        cells.push(format!("{:.0}", median(runs.iter().map(|run| run.get("samples")).collect())));
        cells.extend(shown(&live));
        cells.extend(shown(&allocated));
        cells.push(if arm.profiler == OURS {
            format!("3 %: {}", verdict(median(live) <= 3.0 && median(allocated) <= 3.0))
        } else {
            String::new()
        });
        table.row(cells);
    }
    table.print(&format!(
        "Heap totals beside exact ones, two threads, sampled each 16 KiB (median and largest of {rounds} processes)"
    ));
    Ok(())
}
