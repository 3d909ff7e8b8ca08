//! Readable values: three significant digits, a unit that fits, and what is counted.
//!
//! `viewer.js` writes the same texts from the same three facts (family, factor, unit).

use procprof_profile::{Meta, Profile};

use crate::display::text::one_line;

/// The unit of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Time,
    Bytes,
    Plain,
}

/// The format of a sample type's values.
#[derive(Clone, Debug)]
pub(crate) struct Amount {
    pub(crate) family: Family,
    /// Nanoseconds or bytes in one unit of the profile.
    pub(crate) factor: f64,
    /// Follows plain numbers; empty for counts.
    pub(crate) unit: String,
    /// The counted quantity, to follow an amount: `CPU time`.
    pub(crate) what: String,
    /// The sample type that it is named by; empty if the profile names it.
    pub(crate) kind: String,
}

/// Names of sample types, and the meaning of their values.
const MEANINGS: &[(&str, &str)] = &[
    ("cpu", "CPU time"),
    ("wall", "wall-clock time"),
    ("samples", "samples"),
    ("alloc_objects", "objects allocated"),
    ("alloc_space", "allocated"),
    ("inuse_objects", "objects in use"),
    ("inuse_space", "in use"),
    ("contentions", "waits for locks"),
    ("delay", "waiting for locks"),
    ("goroutine", "goroutines"),
    ("threads", "threads"),
];

const TIMES: &[(&str, f64)] = &[
    ("nanoseconds", 1.0),
    ("nanosecond", 1.0),
    ("ns", 1.0),
    ("microseconds", 1e3),
    ("us", 1e3),
    ("milliseconds", 1e6),
    ("ms", 1e6),
    ("seconds", 1e9),
    ("s", 1e9),
];
const SIZES: &[(&str, f64)] = &[
    ("bytes", 1.0),
    ("byte", 1.0),
    ("b", 1.0),
    ("kilobytes", 1024.0),
    ("kb", 1024.0),
    ("megabytes", 1_048_576.0),
    ("mb", 1_048_576.0),
];
const TIME_STEPS: &[(f64, f64, &str)] = &[
    (1e3, 1.0, "ns"),
    (1e6, 1e3, "µs"),
    (1e9, 1e6, "ms"),
    (120e9, 1e9, "s"),
    (7200e9, 60e9, "min"),
    (f64::INFINITY, 3600e9, "h"),
];
const BYTE_STEPS: &[(f64, f64, &str)] = &[
    (1024.0, 1.0, "B"),
    (1_048_576.0, 1024.0, "KiB"),
    (1_073_741_824.0, 1_048_576.0, "MiB"),
    (1_099_511_627_776.0, 1_073_741_824.0, "GiB"),
    (f64::INFINITY, 1_099_511_627_776.0, "TiB"),
];

/// What a sample type counts, if it is not what its name says.
pub(crate) fn counts(profile: &Profile, sample_type: usize) -> Option<String> {
    if sample_type != profile.default_sample_type() {
        return None;
    }
    Meta::from_comments(profile.comments()).counts().map(|counts| one_line(counts).into_owned())
}

impl Amount {
    pub(crate) fn new(kind: &str, unit: &str) -> Amount {
        let lower = unit.to_lowercase();
        let find = |known: &[(&str, f64)]| known.iter().find(|(name, _)| *name == lower).map(|(_, factor)| *factor);
        let (family, factor, unit) = match (find(TIMES), find(SIZES)) {
            (Some(factor), _) => (Family::Time, factor, String::new()),
            (_, Some(factor)) => (Family::Bytes, factor, String::new()),
            _ if lower == "count" || lower == kind || lower.is_empty() => (Family::Plain, 1.0, String::new()),
            _ => (Family::Plain, 1.0, unit.to_owned()),
        };
        let what = MEANINGS.iter().find(|(name, _)| *name == kind).map_or(kind, |(_, what)| what).to_owned();
        Amount { family, factor, unit, what, kind: kind.to_owned() }
    }

    /// Amounts of a sample type of a profile.
    pub(crate) fn of_profile(profile: &Profile, sample_type: usize) -> Amount {
        let (kind, unit) = profile.sample_type(sample_type);
        let amount = Amount::new(kind, unit);
        match counts(profile, sample_type) {
            Some(what) => Amount { what, kind: String::new(), ..amount },
            None => amount,
        }
    }

    /// Amounts of time in nanoseconds, of nothing in particular.
    pub(crate) fn nanoseconds() -> Amount {
        Amount::new("", "nanoseconds")
    }

    /// The value with its unit: `8.73 s`, `-12.5 MiB`, `1,234`.
    pub(crate) fn text(&self, value: i64) -> String {
        let sign = if value < 0 { "-" } else { "" };
        let steps = match self.family {
            Family::Time => TIME_STEPS,
            Family::Bytes => BYTE_STEPS,
            Family::Plain => {
                let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
                return format!("{sign}{}{unit}", grouped(value.unsigned_abs()));
            }
        };
        if value == 0 {
            return if self.family == Family::Time { "0 s".to_owned() } else { "0 B".to_owned() };
        }
        let base = value.unsigned_abs() as f64 * self.factor;
        let (_, step, unit) = steps.iter().find(|(below, ..)| base < *below).unwrap_or(&steps[steps.len() - 1]);
        let scaled = base / step;
        let whole = base < steps[0].0 && base.fract() == 0.0;
        let decimals = if whole || scaled >= 100.0 { 0 } else { 1 + usize::from(scaled < 10.0) };
        format!("{sign}{scaled:.decimals$} {unit}")
    }

    /// The value with its unit and what it counts: `8.73 s CPU time`.
    pub(crate) fn sentence(&self, value: i64) -> String {
        format!("{} {}", self.text(value), self.what)
    }
}

/// The number with a comma between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The share in percent with two decimals: `34.21%`, `<0.01%`; `0%` and `100%` only where exact.
pub(crate) fn percent(value: i64, total: i64) -> String {
    if total == 0 || value == 0 {
        return "0%".to_owned();
    }
    if value == total {
        return "100%".to_owned();
    }
    let share = value as f64 / total as f64 * 100.0;
    if share.abs() < 0.005 {
        "<0.01%".to_owned()
    } else if (99.995..100.0).contains(&share) {
        ">99.99%".to_owned()
    } else {
        format!("{share:.2}%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_fit_their_size() {
        let cases: &[(&str, &str, i64, &str)] = &[
            ("cpu", "nanoseconds", 8_730_000_000, "8.73 s CPU time"),
            ("cpu", "nanoseconds", 999, "999 ns CPU time"),
            ("cpu", "nanoseconds", 1_500, "1.50 µs CPU time"),
            ("cpu", "nanoseconds", 119_900_000_000, "120 s CPU time"),
            ("cpu", "nanoseconds", 120_000_000_000, "2.00 min CPU time"),
            ("delay", "milliseconds", -25, "-25.0 ms waiting for locks"),
            ("inuse_space", "bytes", 13_107_200, "12.5 MiB in use"),
            ("inuse_space", "bytes", 0, "0 B in use"),
            ("samples", "count", 1_234_567, "1,234,567 samples"),
            ("widgets", "boxes", 7, "7 boxes widgets"),
        ];
        for (kind, unit, value, expected) in cases {
            assert_eq!(Amount::new(kind, unit).sentence(*value), *expected);
        }
        assert_eq!(percent(1, 3), "33.33%");
        assert_eq!(percent(1, 1_000_000), "<0.01%");
        assert_eq!(percent(999_999, 1_000_000), ">99.99%");
        assert_eq!(percent(7, 7), "100%");
        assert_eq!(percent(0, 3), "0%");
        assert_eq!(percent(1, 0), "0%");
    }

    #[test]
    fn a_profile_can_name_what_its_default_type_counts() {
        let mut builder = procprof_profile::ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let mut meta = Meta::default();
        meta.set_counts(Meta::JAVA_CODE);
        meta.to_comments().iter().for_each(|comment| builder.comment(comment));
        let profile = builder.finish().unwrap();
        let sentence = |sample_type| Amount::of_profile(&profile, sample_type).sentence(3_950_000_000);
        assert_eq!(sentence(1), "3.95 s time of Java code");
        assert_eq!(sentence(0), "3,950,000,000 samples");
    }
}
