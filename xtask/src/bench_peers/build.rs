//! The profiled programs: a large Rust one, in two builds, a large C++ one, and each without its debug information.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use anyhow::{Context, Result, ensure};

use super::sources;

/// Units of the C++ program, and instances of its templates in each: about 270 MB.
const CPP_UNITS: usize = 24;
const CPP_INSTANCES: usize = 14;

/// Runs a command to its end; it must succeed.
pub(super) fn finish(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("run {name}"))?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}

/// Builds the SQL engine's workload by a cargo profile, which takes ten minutes or more, and deletes its intermediate
/// files.
pub(super) fn rust(program: &Path, profile: &str) -> Result<()> {
    let folder = program.with_extension("build");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--locked", "--profile", profile]).current_dir(sources().join("datafusion"));
    finish(cargo.env("CARGO_TARGET_DIR", &folder))?;
    let built = folder.join(if profile == "dev" { "debug" } else { profile }).join("datafusion-workload");
    fs::rename(&built, program).with_context(|| format!("take {}", built.display()))?;
    fs::remove_dir_all(&folder).context("delete what the program was made from")
}

/// Builds the C++ workload on all cores, and deletes its objects.
pub(super) fn cpp(program: &Path) -> Result<()> {
    let folder = program.with_extension("build");
    fs::create_dir_all(&folder).context("make a folder")?;
    let compile = |source: &str, definitions: &[String], object: &str| {
        let mut command = Command::new("g++");
        command.args(["-std=c++20", "-O2", "-g", "-gdwarf-5", "-c"]).args(definitions);
        finish(command.arg(sources().join("cpp").join(source)).arg("-o").arg(folder.join(object)))
    };
    let units = Mutex::new(0..CPP_UNITS);
    let worker = || -> Result<()> {
        while let Some(unit) = { units.lock().unwrap_or_else(PoisonError::into_inner).next() } {
            compile(
                "unit.cc",
                &[format!("-DUNIT={unit}"), format!("-DCOUNT={CPP_INSTANCES}")],
                &format!("unit-{unit}.o"),
            )?;
        }
        Ok(())
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a compiling thread panicked"))?)
    })?;
    compile("main.cc", &[], "main.o")?;
    let objects = (0..CPP_UNITS).map(|unit| format!("unit-{unit}.o")).chain(["main.o".to_owned()]);
    finish(
        Command::new("g++").args(objects.map(|object| folder.join(object))).arg("-ljemalloc").arg("-o").arg(program),
    )?;
    fs::remove_dir_all(&folder).context("delete the objects")
}

/// Copies `program` without its debug information, which goes to `debug`; the copy names that file and its checksum.
pub(super) fn strip(program: &Path, stripped: &Path, debug: &Path) -> Result<()> {
    finish(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(debug))?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    finish(Command::new("objcopy").args(["--strip-all", &link]).arg(program).arg(stripped))
}

/// Runs a workload, which leaves `a.heap`, `b.heap` and `big.heap` beside it.
pub(super) fn dump(program: &Path) -> Result<()> {
    let folder = program.parent().context("a program lies in a folder")?;
    let mut command = Command::new(program);
    // The Rust program has jemalloc with a prefix, the C++ one the system's.
    command.env("_RJEM_MALLOC_CONF", "prof:true,prof_accum:true").env("MALLOC_CONF", "prof:true,lg_prof_sample:10");
    finish(command.arg(folder).current_dir(folder))
}
