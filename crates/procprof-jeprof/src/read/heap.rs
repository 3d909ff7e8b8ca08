//! Heap profiles of gperftools: `heap profile: 3: 786432 [3: 786432] @ heap_v2/524288`, then `N: S [N: S] @ STACK`
//! lines.

use procprof_profile::format::StackLines;

use super::Reading;
use super::line::{counts_of, read_stack};
use super::sampling::Sampling;
use super::source::Source;
use crate::stacks::Pcs;
use crate::{ProfileKind, Settings};

/// `heap profile: N: S [N: S] @ TYPE/RATE`, then `N: S [N: S] @ STACK`.
pub(super) fn read(mut source: Source<'_>, header: &str, settings: &Settings, pcs: &mut Pcs) -> Reading {
    let kind = if header.contains("growth") { ProfileKind::Growth } else { ProfileKind::Heap };
    let sampling = heap_sampling(header, &mut source.messages);
    let mut reading = Reading::new(kind, Vec::new());
    let mut lines = StackLines::default();
    while let Some(line) = source.line() {
        if let Some(map) = source.map_behind(line) {
            reading.map = map;
            break;
        }
        let Some((counts, at)) = memchr::memchr(b'@', line).map(|at| (&line[..at], &line[at + 1..])) else { continue };
        let Some(counts) = counts_of(counts) else { continue };
        let stack = read_stack(at, pcs, &mut lines);
        reading.stacks.add(stack, sampling.estimate(counts, settings.index));
    }
    reading.messages = source.messages;
    reading
}

fn heap_sampling(header: &str, messages: &mut Vec<String>) -> Sampling {
    const DISTANCE: f64 = 131_072.0;
    let (counts, source) = header.split_once('@').unwrap_or((header, ""));
    let Some(counts) = counts.strip_prefix("heap profile:").and_then(|counts| counts_of(counts.as_bytes())) else {
        return Sampling::Exact;
    };
    let source = source.trim();
    let (name, rate) = source.split_once('/').unwrap_or((source, ""));
    let digits = rate.len() - rate.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let rate = rate[..digits].parse().unwrap_or(0.0);
    let is_poisson = name.contains("_v2");
    let is_sampled = match name {
        "" => counts[0] == counts[2] && counts[1] == counts[3],
        name => name != "heapprofile" && name.contains("heap"),
    };
    if !is_sampled {
        return Sampling::Exact;
    }
    let distance = if is_poisson { rate } else { rate / 2.0 };
    if distance == 0.0 {
        messages.push("Adjusting heap profiles for 1-in-128KB sampling rate".into());
    } else {
        messages.push(format!("Adjusting heap profiles for 1-in-{distance:.0} sampling rate"));
    }
    if is_poisson {
        messages.push("Heap version 2".into());
    }
    let distance = if distance == 0.0 { DISTANCE } else { distance };
    if is_poisson { Sampling::Poisson(distance) } else { Sampling::Linear(distance) }
}
