//! Heap profiles of jemalloc: `heap_v2/524288`, then `@ STACK` lines, each with counts of all threads and of each.

use std::collections::BTreeMap;

use super::line::{Counts, counts_of, read_stack};
use super::sampling::Sampling;
use super::source::Source;
use super::{ReadError, Reading};
use crate::jeprof::stacks::{Pcs, Stacks};
use crate::jeprof::{Kind, Settings};

/// `heap_v2/RATE`, then `@ STACK`, each with `t*: N: S [N: S]` and a line for each thread.
pub(super) fn read(mut source: Source<'_>, header: &str, settings: &Settings, pcs: &mut Pcs) -> Result<Reading, ReadError> {
    let digits = header.strip_prefix("heap_v2/").ok_or(ReadError::NoRate)?;
    let digits = &digits[..digits.len() - digits.trim_start_matches(|digit: char| digit.is_ascii_digit()).len()];
    let rate: f64 = digits.parse().map_err(|_| ReadError::NoRate)?;
    let sampling = if rate == 0.0 { Sampling::Exact } else { Sampling::Poisson(rate) };
    let mut reading = Reading::new(Kind::Heap, Vec::new());
    let mut threads: BTreeMap<u64, Stacks> = BTreeMap::new();
    let (mut stack, mut in_header) = (Vec::new(), true);
    while let Some(line) = source.line() {
        if let Some(map) = source.map_behind(line) {
            reading.map = map;
            break;
        }
        let line = line.trim_ascii();
        if let Some(addresses) = line.strip_prefix(b"@") {
            read_stack(addresses, pcs, &mut stack);
            in_header = false;
        } else if let Some((thread, counts)) = thread_counts(line).filter(|_| !in_header) {
            let value = sampling.estimate(counts, settings.index);
            match thread {
                None => reading.stacks.add(&stack, value),
                Some(thread) => threads.entry(thread).or_default().add(&stack, value),
            }
        }
    }
    reading.threads = Some(threads);
    reading.messages = source.messages;
    Ok(reading)
}

/// Reads `t*: …` or `tN: …`.
fn thread_counts(line: &[u8]) -> Option<(Option<u64>, Counts)> {
    let rest = line.strip_prefix(b"t")?;
    let colon = memchr::memchr(b':', rest)?;
    let thread = match &rest[..colon] {
        b"*" => None,
        digits => Some(std::str::from_utf8(digits).ok()?.parse().ok()?),
    };
    Some((thread, counts_of(&rest[colon + 1..])?))
}
