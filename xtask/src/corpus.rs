//! `cargo xtask corpus DIR`: compares every profile of a folder with its expected contents.
//!
//! `NAME` with a `NAME.string` beside it is compared with that text, the `String()` of google/pprof's `profile`
//! package, by structure: numbering and unused table entries do not matter. A pprof file without one is decoded,
//! encoded again, and both are read by `go tool pprof -raw`, which must print the same. Recordings (`.jfr`) are
//! compared with the collapsed stacks beside them ([`recordings`]). Any other file must decode; sources of programs are
//! passed over.

mod expectation;
mod facts;
mod recordings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use procprof_profile::format::{self, Decoded, Limits, pprof};
use procprof_profile::{Grammar, Profile};

use facts::Facts;

/// Differences shown for a file.
const SHOWN: usize = 5;

/// Checks every file and prints a line for each.
pub(crate) fn run(folder: &Path) -> Result<()> {
    let files = files(folder)?;
    let mut wrong = 0;
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        match check(file) {
            Ok(summary) => println!("ok       {name} ({summary})"),
            Err(error) => {
                wrong += 1;
                println!("differs  {name}: {error:#}");
            }
        }
    }
    ensure!(wrong == 0, "{wrong} of {} files differ", files.len());
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let is_other =
            path.extension().is_some_and(|end| ["string", "java", "collapsed"].iter().any(|other| end == *other));
        if path.is_file() && !is_other {
            files.push(path);
        }
    }
    files.sort();
    ensure!(!files.is_empty(), "no files in {}", folder.display());
    Ok(files)
}

fn check(file: &Path) -> Result<String> {
    let bytes = fs::read(file).context("read")?;
    let Decoded { profile, format, .. } = format::decode(&bytes, &Limits::default())?;
    if format == "jfr" {
        return Ok(format!("{format}, {} as jfrconv's", recordings::check(file, &bytes)?));
    }
    let profile = profile.adjusted(Grammar::Pprof)?;
    let expectation = PathBuf::from(format!("{}.string", file.display()));
    if expectation.exists() {
        let text = fs::read_to_string(&expectation).context("read the expectation")?;
        compare(&expectation::parse(&text)?, &Facts::from_profile(&profile))?;
        return Ok(format!("{format}, as expected"));
    }
    if format == "pprof" {
        compare_raw(file, &profile)?;
        return Ok(format!("{format}, the same to go tool pprof"));
    }
    Ok(format!("{format}, decodes; nothing to compare with"))
}

fn compare(expected: &Facts, found: &Facts) -> Result<()> {
    let differences = expected.differences(found);
    let shown = differences[..differences.len().min(SHOWN)].join("\n  ");
    let more = differences.len().saturating_sub(SHOWN);
    ensure!(more == 0, "\n  {shown}\n  and {more} more");
    ensure!(differences.is_empty(), "\n  {shown}");
    Ok(())
}

fn compare_raw(file: &Path, profile: &Profile) -> Result<()> {
    let again = std::env::temp_dir().join(format!("procprof-corpus-{}.pb.gz", std::process::id()));
    fs::write(&again, pprof::encode_gzip(profile)?).context("write a temporary file")?;
    let texts = raw(file).and_then(|original| Ok((original, raw(&again)?)));
    fs::remove_file(&again).context("remove the temporary file")?;
    let (original, encoded) = texts?;
    match original.lines().zip(encoded.lines()).find(|(original, encoded)| original != encoded) {
        Some((original, encoded)) => {
            bail!("go tool pprof -raw prints {original:?} of it and {encoded:?} of what we encode")
        }
        None if original.len() != encoded.len() => bail!("go tool pprof -raw prints more of one than of the other"),
        None => Ok(()),
    }
}

fn raw(file: &Path) -> Result<String> {
    let run = Command::new("go").args(["tool", "pprof", "-raw", "-symbolize=none"]).arg(file).output();
    let output = run.context("run go (the Go toolchain is needed to compare pprof files)")?;
    ensure!(output.status.success(), "go tool pprof: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
