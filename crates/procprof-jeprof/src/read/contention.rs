//! Contention profiles: `NAME = VALUE` lines, then `CYCLES COUNT @ STACK`.

use procprof_profile::format::StackLines;

use super::Reading;
use super::line::{Numbers, read_stack};
use super::source::Source;
use crate::stacks::Pcs;
use crate::{Delay, ProfileKind, Settings};

/// `NAME = VALUE` lines, then `CYCLES COUNT @ STACK`; all other lines may be the memory map.
pub(super) fn read(mut source: Source<'_>, settings: &Settings, pcs: &mut Pcs) -> Reading {
    const GUESSED_GIGAHERTZ: f64 = 2.8;
    let mut reading = Reading::new(ProfileKind::Contention, Vec::new());
    let (mut gigahertz, mut period, mut lines) = (None, 1.0, StackLines::default());
    while let Some(line) = source.line() {
        if let Some((cycles, count, addresses)) = delay(line) {
            let nanos = cycles / gigahertz.unwrap_or(GUESSED_GIGAHERTZ) * period;
            let stack = read_stack(addresses, pcs, &mut lines);
            let value = match (settings.delay, count.map(|count| count * period)) {
                (Delay::Total, _) | (_, None) => nanos,
                (Delay::Contentions, Some(count)) => count,
                (Delay::Mean, Some(0.0)) => 0.0,
                (Delay::Mean, Some(count)) => nanos / count,
            };
            reading.stacks.add(stack, value);
            continue;
        }
        let text = String::from_utf8_lossy(line);
        match text.split_once('=').filter(|_| text.starts_with(|letter: char| letter.is_ascii_lowercase())) {
            Some((name, value)) => match (name.trim(), value.trim()) {
                ("cycles/second", value) => {
                    gigahertz = value.parse::<f64>().ok().map(|hertz| hertz / 1e9).filter(|rate| *rate > 0.0)
                }
                ("sampling period", value) => period = value.parse().unwrap_or(1.0),
                ("ms since reset" | "discarded samples", _) => {}
                (name, value) => {
                    source
                        .messages
                        .push(format!("Ignoring unnknown variable in /contention output: '{name}' = '{value}'"));
                }
            },
            None => {
                reading.map.push_str(&text);
                reading.map.push('\n');
            }
        }
    }
    if gigahertz.is_none() {
        source.messages.push(format!("No cycles/second entry in profile; Guessing {GUESSED_GIGAHERTZ:.1} GHz"));
    }
    reading.messages = source.messages;
    reading
}

/// Reads `CYCLES COUNT @ STACK` or the older `CYCLES @ STACK`.
fn delay(line: &[u8]) -> Option<(f64, Option<f64>, &[u8])> {
    let at = memchr::memchr(b'@', line)?;
    let mut numbers = Numbers { rest: &line[..at] };
    let cycles = numbers.number()?;
    let count = numbers.number();
    numbers.rest.trim_ascii().is_empty().then_some((cycles, count, &line[at + 1..]))
}
