//! What a recording's own events say of how it was made: periods, the recorder, the JVM.

use super::chunk::Chunk;
use super::constants::Constants;
use super::plan::SLOTS;
use super::recording::Facts;
use super::schema::{Kind, Schema};

/// Where no period is said: that of the JDK's own settings, async-profiler's, and of its wall clock, in nanoseconds.
const JDK_PERIOD: u64 = 20_000_000;
const ASYNC_PROFILER_PERIOD: u64 = 10_000_000;
const WALL_PERIOD: u64 = 50_000_000;

/// Values of async-profiler's `event` that are sampled by time.
const BY_TIME: &[&str] = &["", "cpu", "itimer", "ctimer", "wall", "noop"];

/// The settings of one chunk.
#[derive(Debug, Default)]
pub(super) struct Settings {
    execution_period: Option<u64>,
    native_period: Option<u64>,
    wall_period: Option<u64>,
    default_period: u64,
    /// Whether all samples of threads are of async-profiler's wall clock, or none is, by its setting `event`; `None` if
    /// it samples both, which the states of threads tell apart, or does not say.
    pub(super) is_wall: Option<bool>,
}

impl Settings {
    /// Reads them, and notes what is true of the whole recording.
    pub(super) fn read(
        chunk: &Chunk<'_>,
        schema: &Schema,
        constants: &Constants,
        notes: &[(usize, [u64; SLOTS])],
        facts: &mut Facts,
    ) -> Settings {
        let default_period = if schema.is_async_profiler { ASYNC_PROFILER_PERIOD } else { JDK_PERIOD };
        let mut settings = Settings { default_period, ..Settings::default() };
        let text = |place: u64| constants.text(chunk, schema, place).unwrap_or_default();
        facts.is_async_profiler |= schema.is_async_profiler;
        let mut event = String::new();
        for (index, slots) in notes {
            match schema.events[*index].kind {
                Kind::Jvm => {
                    facts.jvm = text(slots[1]);
                    facts.jvm_version = text(slots[2]);
                    continue;
                }
                Kind::Name => continue,
                _ => {}
            }
            let of = schema.events.iter().find(|event| event.id == slots[0]).map(|event| event.kind);
            // Settings of the recording itself, which is an event of its own.
            let of = of.filter(|kind| *kind != Kind::Name);
            match (text(slots[1]).as_str(), of) {
                ("interval", Some(Kind::Execution)) => {
                    settings.execution_period = text(slots[2]).parse().ok().filter(|period| *period > 0)
                }
                ("period", Some(Kind::Execution)) => settings.execution_period = nanos(&text(slots[2])),
                ("period", Some(Kind::NativeMethod)) => settings.native_period = nanos(&text(slots[2])),
                ("wall", _) => settings.wall_period = text(slots[2]).parse().ok().filter(|period| *period > 0),
                ("alloc", _) => facts.allocation_period = text(slots[2]).parse().unwrap_or(0),
                ("version", None) if schema.is_async_profiler => facts.profiler_version = text(slots[2]),
                ("event", None) if schema.is_async_profiler => event = text(slots[2]),
                _ => {}
            }
        }
        let major = facts.profiler_version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        // Before 4.0 it samples one of both.
        let has_both = settings.wall_period.is_some() && major.is_none_or(|major| major >= 4);
        settings.is_wall = match event.as_str() {
            "wall" => Some(true),
            "" if major.is_none_or(|major| major >= 4) => None,
            _ => Some(false).filter(|_| !has_both),
        };
        if !BY_TIME.contains(&event.as_str()) {
            facts.counter = event;
        }
        settings
    }

    /// Time that so many samples of running threads stand for.
    pub(super) fn execution_time(&self, count: u64, facts: &mut Facts) -> u64 {
        let period = self.execution_period.unwrap_or(self.default_period);
        facts.guesses_period |= self.execution_period.is_none() && !facts.is_async_profiler;
        facts.execution_period = period;
        count.saturating_mul(period)
    }

    pub(super) fn native_time(&self, count: u64) -> u64 {
        count.saturating_mul(self.native_period.unwrap_or(self.default_period))
    }

    /// Time that so many samples of the wall clock stand for.
    pub(super) fn wall_time(&self, count: u64, facts: &mut Facts) -> u64 {
        let period = self.wall_period.or(self.execution_period).unwrap_or(WALL_PERIOD);
        facts.wall_period = period;
        count.saturating_mul(period)
    }
}

/// Nanoseconds of a span of time as settings write it: `10 ms`, `20ms`, `1 s`.
fn nanos(text: &str) -> Option<u64> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().ok()?;
    let each = match unit.trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    number.checked_mul(each).filter(|nanos| *nanos > 0)
}

#[cfg(test)]
mod tests {
    use super::nanos;

    #[test]
    fn spans_are_read_with_and_without_a_blank() {
        let cases = [
            ("10 ms", Some(10_000_000)),
            ("20ms", Some(20_000_000)),
            ("1 s", Some(1_000_000_000)),
            ("everyChunk", None),
            ("0 ms", None),
        ];
        for (text, expected) in cases {
            assert_eq!(nanos(text), expected, "{text}");
        }
    }
}
