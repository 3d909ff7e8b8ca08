//! The inputs: folders with a program, its heap dumps, and the same stacks in the formats that peers read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::parts::PARTS;
use super::{build, convert};

/// The way in which the program of a folder is made.
pub(super) enum Origin {
    /// The SQL engine, by a profile of cargo.
    Rust(&'static str),
    Cpp,
    /// Another folder's program with its debug information in a file of its own.
    Stripped(&'static str),
}

/// A folder below `bench-peers`.
pub(super) struct Input {
    pub(super) folder: &'static str,
    pub(super) program: &'static str,
    origin: Origin,
}

const INPUTS: &[Input] = &[
    Input { folder: "datafusion", program: "datafusion-workload", origin: Origin::Rust("dev") },
    Input { folder: "cpp", program: "cpp-workload", origin: Origin::Cpp },
    Input { folder: "datafusion-stripped", program: "datafusion-workload", origin: Origin::Stripped("datafusion") },
    Input { folder: "cpp-stripped", program: "cpp-workload", origin: Origin::Stripped("cpp") },
    Input { folder: "datafusion-lto", program: "datafusion-workload", origin: Origin::Rust("release") },
];

/// The heap dumps of a program, by their names.
const HEAPS: &[&str] = &["a", "b", "big"];

/// Makes the missing files of all inputs, or of those that the named parts need.
pub(super) fn ensure(root: &Path, only: &[String]) -> Result<()> {
    let wanted = |input: &Input| {
        only.is_empty()
            || PARTS.iter().any(|part| part.needs(input.folder) && only.iter().any(|name| name == part.name))
    };
    for input in INPUTS.iter().filter(|input| wanted(input)) {
        one(root, input).with_context(|| format!("make the input {}", input.folder))?;
    }
    Ok(())
}

/// The input of a folder.
pub(super) fn named(folder: &str) -> Result<&'static Input> {
    INPUTS.iter().find(|input| input.folder == folder).with_context(|| format!("no input {folder:?}"))
}

fn one(root: &Path, input: &Input) -> Result<()> {
    let folder = root.join(input.folder);
    let program = folder.join(input.program);
    fs::create_dir_all(&folder).context("make a folder")?;
    if let Origin::Stripped(other) = input.origin {
        one(root, named(other)?)?;
    }
    once(&program, "building", |file| match input.origin {
        Origin::Rust(profile) => build::rust(file, profile),
        Origin::Cpp => build::cpp(file),
        Origin::Stripped(other) => {
            build::strip(&root.join(other).join(input.program), file, &program.with_extension("debug"))
        }
    })?;
    heaps(root, input, &program)?;
    for heap in HEAPS.iter().map(|name| folder.join(format!("{name}.heap"))) {
        once(&heap.with_extension("pb.gz"), "converting", |file| convert::to_pprof(&heap, file))?;
    }
    let heap = folder.join("a.heap");
    once(&heap.with_extension("legacy"), "converting", |file| convert::to_legacy_text(&heap, file))?;
    once(&heap.with_extension("prof"), "converting", |file| convert::to_cpu_profile(&heap, file))?;
    once(&heap.with_extension("addresses"), "converting", |file| convert::to_addresses(&heap, &program, file))
}

/// The dumps: the program's own, or those of the program it was stripped from, which has the same code at the same
/// addresses.
fn heaps(root: &Path, input: &Input, program: &Path) -> Result<()> {
    let files: Vec<PathBuf> = HEAPS.iter().map(|name| program.with_file_name(format!("{name}.heap"))).collect();
    if files.iter().all(|file| file.exists()) {
        return Ok(());
    }
    let Origin::Stripped(other) = input.origin else {
        eprintln!("xtask: running {}", program.display());
        return build::dump(program);
    };
    let other = root.join(other).join(input.program);
    for file in files {
        let heap = other.with_file_name(file.file_name().context("a heap has a name")?);
        convert::rename_program(&heap, &other, program, &file)?;
    }
    Ok(())
}

/// Makes a file unless it exists; nothing is left under its name if that fails.
fn once(file: &Path, doing: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if file.exists() {
        return Ok(());
    }
    eprintln!("xtask: {doing} {}", file.display());
    let unfinished = file.with_file_name(format!("unfinished-{}", file.file_name().unwrap_or_default().display()));
    make(&unfinished)?;
    fs::rename(&unfinished, file).with_context(|| format!("put {} in its place", file.display()))
}
