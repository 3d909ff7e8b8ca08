//! Units of memory and time in label ranges, spelled as pprof spells them.

struct Unit {
    name: &'static str,
    aliases: &'static [&'static str],
    factor: f64,
}

struct Family {
    /// Default unit, for values whose requested unit is of no family or of another one.
    default: (&'static str, f64),
    units: &'static [Unit],
}

const fn unit(name: &'static str, aliases: &'static [&'static str], factor: f64) -> Unit {
    Unit { name, aliases, factor }
}

const FAMILIES: &[Family] = &[
    Family {
        default: ("B", 1.0),
        units: &[
            unit("B", &["b", "byte"], 1.0),
            unit("kB", &["kb", "kbyte", "kilobyte"], (1u64 << 10) as f64),
            unit("MB", &["mb", "mbyte", "megabyte"], (1u64 << 20) as f64),
            unit("GB", &["gb", "gbyte", "gigabyte"], (1u64 << 30) as f64),
            unit("TB", &["tb", "tbyte", "terabyte"], (1u64 << 40) as f64),
            unit("PB", &["pb", "pbyte", "petabyte"], (1u64 << 50) as f64),
        ],
    },
    Family {
        default: ("s", 1e9),
        units: &[
            unit("ns", &["ns", "nanosecond"], 1.0),
            unit("us", &["μs", "us", "microsecond"], 1e3),
            unit("ms", &["ms", "millisecond"], 1e6),
            unit("s", &["s", "sec", "second"], 1e9),
            unit("hrs", &["hour", "hr"], 3600e9),
        ],
    },
];

/// A value in `from` taken to `to`, and the unit it is in then; a unit of no family stays what it is called.
pub(super) fn scale(value: i64, from: &str, to: &str) -> (f64, String) {
    for family in FAMILIES {
        let Some(from) = family.find(from) else { continue };
        let amount = value as f64 * from.factor;
        return match family.find(to) {
            Some(to) => (amount / to.factor, to.name.to_owned()),
            None => (amount / family.default.1, family.default.0.to_owned()),
        };
    }
    let to = if matches!(to, "count" | "sample" | "unit") { "" } else { to };
    (value as f64, to.to_owned())
}

impl Family {
    fn find(&self, name: &str) -> Option<&Unit> {
        let name = name.to_lowercase();
        let name = if name.len() > 2 { name.strip_suffix('s').unwrap_or(&name) } else { &name };
        self.units.iter().find(|unit| unit.aliases.contains(&name))
    }
}
