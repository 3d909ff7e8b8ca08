//! Renders a report of a profile file to standard output, with the time it took on standard error:
//! `cargo run -p procprof-report --example render -- KIND FILE [KEY=VALUE ...]`.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use procprof_profile::format::{Limits, decode};
use procprof_report::{Options, Report, Sources};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, file, pairs @ ..] = arguments.as_slice() else { return Err("expected KIND FILE [KEY=VALUE ...]".into()) };
    let pairs = pairs.iter().map(|pair| pair.split_once('=').ok_or("expected KEY=VALUE")).collect::<Result<Vec<_>, _>>()?;
    let options = Options::parse(pairs)?;
    let report = Report::named(kind)?;
    let profile = decode(&std::fs::read(file)?, &Limits::default())?.profile;
    let began = Instant::now();
    let bytes = report.render(&profile, &options, &Sources::default())?;
    eprintln!("{} samples, {} bytes in {:?}", profile.sample_count(), bytes.len(), began.elapsed());
    std::io::stdout().write_all(&bytes)?;
    Ok(())
}
