//! Units that a name states, as columns and events of other tools have them: `Time_(10ns)`, `cpu(ms)`,
//! `sysTime (elapsed ns)`, `Nanoseconds`.

/// A name, and the unit of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatedUnit<'a> {
    /// Without the unit.
    pub(super) name: &'a str,
    pub(super) unit: &'static str,
    /// Values times this have the unit.
    pub(super) factor: i64,
}

const NANOSECONDS: &str = "nanoseconds";
const BYTES: &str = "bytes";

/// Words for units in lower case and without a plural `s`; kilobytes are binary, as pprof and Xdebug have them.
const UNITS: [(&[&str], &str, i64); 10] = [
    (&["ns", "nsec", "nanosecond"], NANOSECONDS, 1),
    (&["us", "µs", "μs", "usec", "microsecond"], NANOSECONDS, 1_000),
    (&["ms", "msec", "millisecond"], NANOSECONDS, 1_000_000),
    (&["s", "sec", "second"], NANOSECONDS, 1_000_000_000),
    (&["b", "byte"], BYTES, 1),
    (&["kb", "kib", "kilobyte"], BYTES, 1 << 10),
    (&["mb", "mib", "megabyte"], BYTES, 1 << 20),
    (&["gb", "gib", "gigabyte"], BYTES, 1 << 30),
    (&["cycle"], "cycles", 1),
    (&["count"], "count", 1),
];

impl<'a> StatedUnit<'a> {
    /// The unit in the parentheses that a name ends with, or that the name is; `None` if it states none.
    pub(super) fn read(name: &'a str) -> Option<StatedUnit<'a>> {
        let Some((rest, inside)) = name.strip_suffix(')').and_then(|name| name.rsplit_once('(')) else {
            let (unit, factor) = find(name).filter(|_| name.len() > 4)?;
            return Some(StatedUnit { name, unit, factor });
        };
        let word = inside.split_whitespace().next_back()?;
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let times: i64 = if digits == 0 { 1 } else { word[..digits].parse().ok().filter(|times| *times > 0)? };
        let (unit, factor) = find(&word[digits..])?;
        let short = rest.trim_end_matches(['_', ' ']);
        let name = if short.is_empty() { name } else { short };
        Some(StatedUnit { name, unit, factor: factor.checked_mul(times)? })
    }
}

fn find(word: &str) -> Option<(&'static str, i64)> {
    let lower = word.to_lowercase();
    let singular = if lower.chars().count() > 2 { lower.strip_suffix('s').unwrap_or(&lower) } else { &lower };
    UNITS.iter().find(|(words, ..)| words.contains(&singular)).map(|(_, unit, factor)| (*unit, *factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_from_names() {
        for (name, expected) in [
            ("Time_(10ns)", Some(("Time", "nanoseconds", 10))),
            ("Memory_(bytes)", Some(("Memory", "bytes", 1))),
            ("Time_(µs)", Some(("Time", "nanoseconds", 1_000))),
            ("cpu(ms)", Some(("cpu", "nanoseconds", 1_000_000))),
            ("inuse_space(kB)", Some(("inuse_space", "bytes", 1024))),
            ("sysTime (elapsed ns)", Some(("sysTime", "nanoseconds", 1))),
            ("Nanoseconds", Some(("Nanoseconds", "nanoseconds", 1))),
            ("(ns)", Some(("(ns)", "nanoseconds", 1))),
            ("Ir", None),
            ("Bcm", None),
            ("Ms", None),
            ("level(2)", None),
            ("Time_(99999999999999999999ns)", None),
            ("Time_(9999999999999999s)", None),
            (")(", None),
            ("", None),
        ] {
            let read = StatedUnit::read(name).map(|read| (read.name, read.unit, read.factor));
            assert_eq!(read, expected, "{name}");
        }
    }
}
