//! Values with units as pprof writes them, for reports that are compared with its own.
//!
//! Units are matched in lower case and without a plural `s`; `minimum` and `auto` choose the largest unit that leaves
//! at least 1.

use super::text::one_line;

struct Unit {
    name: &'static str,
    aliases: &'static [&'static str],
    factor: f64,
}

struct Family {
    units: &'static [Unit],
    /// Name and factor used when nothing else fits.
    default: (&'static str, f64),
}

const fn unit(name: &'static str, aliases: &'static [&'static str], factor: f64) -> Unit {
    Unit { name, aliases, factor }
}

const KI: f64 = 1024.0;

const FAMILIES: &[Family] = &[
    Family {
        units: &[
            unit("B", &["b", "byte"], 1.0),
            unit("kB", &["kb", "kbyte", "kilobyte"], KI),
            unit("MB", &["mb", "mbyte", "megabyte"], KI * KI),
            unit("GB", &["gb", "gbyte", "gigabyte"], KI * KI * KI),
            unit("TB", &["tb", "tbyte", "terabyte"], KI * KI * KI * KI),
            unit("PB", &["pb", "pbyte", "petabyte"], KI * KI * KI * KI * KI),
        ],
        default: ("B", 1.0),
    },
    Family {
        units: &[
            unit("ns", &["ns", "nanosecond"], 1.0),
            unit("us", &["\u{3bc}s", "us", "microsecond"], 1e3),
            unit("ms", &["ms", "millisecond"], 1e6),
            unit("s", &["s", "sec", "second"], 1e9),
            unit("hrs", &["hour", "hr"], 3.6e12),
        ],
        default: ("s", 1e9),
    },
    Family {
        units: &[
            unit("n*GCU", &["nanogcu"], 1e-9),
            unit("u*GCU", &["microgcu"], 1e-6),
            unit("m*GCU", &["milligcu"], 1e-3),
            unit("GCU", &["gcu"], 1.0),
            unit("k*GCU", &["kilogcu"], 1e3),
            unit("M*GCU", &["megagcu"], 1e6),
            unit("G*GCU", &["gigagcu"], 1e9),
            unit("T*GCU", &["teragcu"], 1e12),
            unit("P*GCU", &["petagcu"], 1e15),
        ],
        default: ("GCU", 1.0),
    },
];

impl Family {
    fn find(&self, name: &str) -> Option<&'static Unit> {
        let lower = name.to_lowercase();
        let singular = if lower.chars().count() > 2 { lower.strip_suffix('s').unwrap_or(&lower) } else { &lower };
        self.units.iter().find(|unit| unit.aliases.contains(&singular))
    }

    fn convert(&self, value: f64, from: &str, to: &str) -> Option<(f64, &'static str)> {
        let value = value * self.find(from)?.factor;
        let chosen = match to {
            "minimum" | "auto" => self.units.iter().rfind(|unit| value / unit.factor >= 1.0),
            _ => self.find(to),
        };
        let (name, factor) = chosen.map_or(self.default, |unit| (unit.name, unit.factor));
        Some((value / factor, name))
    }
}

/// The value in another unit, and that unit's name; empty if it is implied.
pub(crate) fn scale<'a>(value: i64, from: &str, to: &'a str) -> (f64, &'a str) {
    if let Some(positive) = value.checked_neg().filter(|positive| *positive > 0) {
        let (value, unit) = scale(positive, from, to);
        return (-value, unit);
    }
    let converted = FAMILIES.iter().find_map(|family| family.convert(value as f64, from, to));
    converted.unwrap_or(match to {
        "count" | "sample" | "unit" | "minimum" | "auto" => (value as f64, ""),
        _ => (value as f64, to),
    })
}

/// The value as text in another unit: `8.73s`, `12.50MB`, `0`.
pub(crate) fn label(value: i64, from: &str, to: &str) -> String {
    let (value, unit) = scale(value, from, to);
    let text = format!("{value:.2}");
    let text = text.strip_suffix(".00").unwrap_or(&text);
    if text == "0" || text == "-0" { "0".to_owned() } else { format!("{text}{}", one_line(unit)) }
}

/// The share as text, at least two digits, at least six characters wide.
pub(crate) fn percentage(value: i64, total: i64) -> String {
    let ratio = if total == 0 { 0.0 } else { (value as f64 / total as f64).abs() * 100.0 };
    if (99.95..=100.05).contains(&ratio) {
        "  100%".to_owned()
    } else if ratio >= 1.0 {
        format!("{ratio:5.2}%")
    } else {
        format!("{:>5}%", two_digits(ratio))
    }
}

/// As `%.2g` in C.
fn two_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.1e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if exponent < -4 {
        return format!("{}e-{:02}", trim(mantissa), -exponent);
    }
    trim(&format!("{value:.*}", usize::try_from(1 - exponent).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_as_pprof_writes_them() {
        let cases: &[(i64, &str, &str, &str)] = &[
            (8_730_000_000, "nanoseconds", "auto", "8.73s"),
            (10_000_000, "nanoseconds", "ms", "10ms"),
            (1536, "bytes", "minimum", "1.50kB"),
            (-1536, "bytes", "minimum", "-1.50kB"),
            (7, "count", "minimum", "7"),
            (0, "bytes", "MB", "0"),
            (1, "bytes", "MB", "0"),
            (5, "count", "widgets", "5widgets"),
            (7_200_000_000_000, "ns", "auto", "2hrs"),
            (1_500_000, "nanoseconds", "\u{3bc}s", "1500us"),
            (1_500, "\u{3bc}s", "auto", "1.50ms"),
            (0, "nanoseconds", "auto", "0"),
            (i64::MIN, "count", "auto", "-9223372036854775808"),
        ];
        for (value, from, to, expected) in cases {
            assert_eq!(label(*value, from, to), *expected, "{value} {from} {to}");
        }
    }

    #[test]
    fn percentages_keep_two_digits() {
        let cases: &[(i64, i64, &str)] = &[
            (1, 1, "  100%"),
            (1, 3, "33.33%"),
            (1, 0, "    0%"),
            (0, 9, "    0%"),
            (5, 1000, "  0.5%"),
            (49, 100_000, "0.049%"),
            (1, 1_000_000, "0.0001%"),
            (12, 100_000_000, "1.2e-05%"),
            (999, 100_000, "    1%"),
            (-1, 3, "33.33%"),
        ];
        for (value, total, expected) in cases {
            assert_eq!(percentage(*value, *total), *expected, "{value}/{total}");
        }
    }
}
