//! Decodes a file some times and prints its format, oddities, totals and the speed:
//! `cargo run --release --example decode -- FILE [ROUNDS]`.

#![allow(clippy::disallowed_methods)]

use std::time::Instant;

use procprof_profile::Grammar;
use procprof_profile::format::{Limits, decode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: decode FILE [ROUNDS]")?;
    let rounds: u32 = arguments.next().map_or(Ok(1), |rounds| rounds.parse())?;
    let bytes = std::fs::read(&path)?;
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        decode(&bytes, &Limits::default())?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let decoded = decode(&bytes, &Limits::default())?;
    let megabytes = bytes.len() as f64 / 1e6;
    println!(
        "{path}: {}, {megabytes:.2} MB, best of {rounds}: {:.1} ms, {:.0} MB/s",
        decoded.format,
        best * 1e3,
        megabytes / best
    );
    decoded.warnings.iter().for_each(|warning| println!("warning: {warning}"));
    println!(
        "{} samples, {} locations, {} mappings",
        decoded.profile.sample_count(),
        decoded.profile.locations().len(),
        decoded.profile.mappings().len()
    );
    let adjusted = decoded.profile.clone().adjusted(Grammar::Pprof)?;
    for index in 0..adjusted.sample_types().len() {
        let (kind, unit) = adjusted.sample_type(index);
        println!(
            "{kind}/{unit}: {} measured, {} as pprof reads it",
            decoded.profile.total(index),
            adjusted.total(index)
        );
    }
    Ok(())
}
