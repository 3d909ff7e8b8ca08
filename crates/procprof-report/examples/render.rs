//! Renders a report of a profile file to standard output, with the time the fastest of some runs took on standard
//! error: `cargo run -p procprof-report --example render -- KIND FILE [KEY=VALUE ...]`.

#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use procprof_profile::format::{Limits, decode};
use procprof_report::{Options, Report, Sources};

const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, file, pairs @ ..] = arguments.as_slice() else {
        return Err("expected KIND FILE [KEY=VALUE ...]".into());
    };
    let pairs =
        pairs.iter().map(|pair| pair.split_once('=').ok_or("expected KEY=VALUE")).collect::<Result<Vec<_>, _>>()?;
    let options = Options::parse(pairs)?;
    let report = Report::named(kind)?;
    let profile = decode(&std::fs::read(file)?, &Limits::default())?.profile;
    let mut bytes = Vec::new();
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let began = Instant::now();
        bytes = report.render(&profile, &options, &Sources::default())?;
        best = best.min(began.elapsed());
    }
    eprintln!("{} samples, {} bytes, {best:?} at best of {RUNS}", profile.sample_count(), bytes.len());
    std::io::stdout().write_all(&bytes)?;
    Ok(())
}
