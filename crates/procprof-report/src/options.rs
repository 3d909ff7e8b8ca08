//! What can be asked of a report: as typed (`key=value`) to as meant, in one place for HTTP, the command line and SQL.
//!
//! [`OPTIONS`] is the list that help texts are made from. An empty value means the default. A key given twice is an error, except
//! `root`, whose values are the names along a path.

use procprof_profile::Profile;
use regex::{Regex, RegexBuilder};

use crate::nearest::nearest;
use crate::{Error, Result};

/// One option: its key, its default as text, and a line of help.
pub struct OptionRow {
    /// The key as typed.
    pub key: &'static str,
    /// The default, as it would be typed; empty when there is none.
    pub default: &'static str,
    /// One line for people.
    pub help: &'static str,
    parse: fn(&mut Options, &str) -> Result<()>,
}

/// All options, in the order of the help text.
pub const OPTIONS: &[OptionRow] = &[
    OptionRow {
        key: "sample_index",
        default: "",
        help: "Sample type by name or number; the profile's own default, else the last",
        parse: |options, value| {
            options.sample_index = value.to_owned();
            Ok(())
        },
    },
    OptionRow {
        key: "focus",
        default: "",
        help: "Keep stacks with a function, file or mapping name that matches this regular expression",
        parse: |options, value| set(&mut options.focus, regex("focus", value)),
    },
    OptionRow {
        key: "ignore",
        default: "",
        help: "Leave out stacks with a function, file or mapping name that matches this regular expression",
        parse: |options, value| set(&mut options.ignore, regex("ignore", value)),
    },
    OptionRow {
        key: "keep_allocators",
        default: "false",
        help: "Show the frames that are left out at the leaf, allocators' in heap profiles: true or false",
        parse: |options, value| set_one_of(&mut options.keep_allocators, "keep_allocators", value, SWITCH),
    },
    OptionRow {
        key: "granularity",
        default: "functions",
        help: "What a frame is: functions, filefunctions, files, lines or addresses",
        parse: |options, value| set_one_of(&mut options.granularity, "granularity", value, GRANULARITIES),
    },
    OptionRow {
        key: "sort",
        default: "flat",
        help: "Order of top: flat or cum",
        parse: |options, value| set_one_of(&mut options.sort, "sort", value, SORTS),
    },
    OptionRow {
        key: "nodecount",
        default: "0",
        help: "Most rows of top; 0 for all that pass nodefraction",
        parse: |options, value| {
            options.nodecount = number("nodecount", value, 0, 1_000_000)?;
            Ok(())
        },
    },
    OptionRow {
        key: "nodefraction",
        default: "0.005",
        help: "Leave rows of top out whose cum is below this share of the total, 0 to 1",
        parse: |options, value| set(&mut options.nodefraction, fraction("nodefraction", value)),
    },
    OptionRow {
        key: "edgefraction",
        default: "0.001",
        help: "Calls below this share of the total do not count when top marks a function as inlined, 0 to 1",
        parse: |options, value| set(&mut options.edgefraction, fraction("edgefraction", value)),
    },
    OptionRow {
        key: "unit",
        default: "minimum",
        help: "Unit of the values of top: minimum, auto, or a unit such as ms or MB",
        parse: |options, value| {
            options.unit = value.to_owned();
            Ok(())
        },
    },
    OptionRow {
        key: "title",
        default: "",
        help: "Heading of a flame graph; the node and the profile type unless given",
        parse: |options, value| {
            options.title = Some(value.to_owned());
            Ok(())
        },
    },
    OptionRow {
        key: "layout",
        default: "flame",
        help: "Where a flame graph's root is: flame (at the bottom) or icicle (at the top)",
        parse: |options, value| set_one_of(&mut options.layout, "layout", value, LAYOUTS),
    },
    OptionRow {
        key: "root",
        default: "",
        help: "Frame name, once for each step from the root down: only the part of the call tree below that path",
        parse: |options, value| {
            options.root.push(value.to_owned());
            Ok(())
        },
    },
    OptionRow {
        key: "minfraction",
        default: "0",
        help: "Merge boxes of a flame graph below this share of the total, 0 to 1",
        parse: |options, value| set(&mut options.minfraction, fraction("minfraction", value)),
    },
    OptionRow {
        key: "maxboxes",
        default: "20000",
        help: "Most boxes a flame graph holds, 100 to 200000; beyond it the share that is merged is raised",
        parse: |options, value| {
            options.maxboxes = number("maxboxes", value, 100, 200_000)?;
            Ok(())
        },
    },
];

/// What makes two frames the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// The function's name.
    #[default]
    Functions,
    /// The function's name and file.
    FileFunctions,
    /// The file.
    Files,
    /// The function's name, file and line.
    Lines,
    /// The address, with the function's name, file and line.
    Addresses,
}

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The value of the function itself.
    #[default]
    Flat,
    /// The value of the function and all it calls.
    Cum,
}

/// Where a flame graph's root is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// At the bottom.
    #[default]
    Flame,
    /// At the top.
    Icicle,
}

const GRANULARITIES: &[(&str, Granularity)] = &[
    ("functions", Granularity::Functions),
    ("filefunctions", Granularity::FileFunctions),
    ("files", Granularity::Files),
    ("lines", Granularity::Lines),
    ("addresses", Granularity::Addresses),
];
const SWITCH: &[(&str, bool)] = &[("true", true), ("false", false)];
const SORTS: &[(&str, Sort)] = &[("flat", Sort::Flat), ("cum", Sort::Cum)];
const LAYOUTS: &[(&str, Layout)] = &[("flame", Layout::Flame), ("icicle", Layout::Icicle)];

/// The options of one report, read and checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sample type by name or number; empty for the default. Resolved by [`Options::sample_type`].
    pub sample_index: String,
    /// Keep stacks that match.
    pub focus: Option<Regex>,
    /// Leave out stacks that match.
    pub ignore: Option<Regex>,
    /// Show the frames that are left out at the leaf unless asked for.
    pub keep_allocators: bool,
    /// What a frame is.
    pub granularity: Granularity,
    /// Order of `top`.
    pub sort: Sort,
    /// Most rows of `top`; 0 for no limit.
    pub nodecount: usize,
    /// Rows of `top` below this share of the total are left out and counted.
    pub nodefraction: f64,
    /// Calls below this share of the total are passed over when `top` marks inlined functions.
    pub edgefraction: f64,
    /// Unit of values in `top`, as pprof spells them.
    pub unit: String,
    /// Heading of a flame graph; `None` for the default.
    pub title: Option<String>,
    /// Where a flame graph's root is.
    pub layout: Layout,
    /// Path of frame names from the root down; only what is below it is shown.
    pub root: Vec<String>,
    /// Flame graph boxes below this share of the total are merged.
    pub minfraction: f64,
    /// Most boxes a flame graph holds.
    pub maxboxes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sample_index: String::new(),
            focus: None,
            ignore: None,
            keep_allocators: false,
            granularity: Granularity::default(),
            sort: Sort::default(),
            nodecount: 0,
            nodefraction: 0.005,
            edgefraction: 0.001,
            unit: "minimum".to_owned(),
            title: None,
            layout: Layout::default(),
            root: Vec::new(),
            minfraction: 0.0,
            maxboxes: 20_000,
        }
    }
}

impl Options {
    /// Reads options as typed. Pairs with an empty value are passed over.
    ///
    /// # Errors
    /// [`Error::UnknownOption`] for a key that is not in [`OPTIONS`], [`Error::Value`] for a value it cannot have or a key given twice.
    pub fn parse<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Options> {
        let mut options = Options::default();
        let mut seen = Vec::new();
        for (key, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
            let row = OPTIONS.iter().find(|row| row.key == key).ok_or_else(|| unknown(key))?;
            if row.key != "root" && seen.contains(&row.key) {
                return Err(Error::value(row.key, value, "given twice"));
            }
            seen.push(row.key);
            (row.parse)(&mut options, value)?;
        }
        Ok(options)
    }

    /// Whether an option of that key exists, for callers that must tell report options from their own.
    pub fn knows(key: &str) -> bool {
        OPTIONS.iter().any(|row| row.key == key)
    }

    /// Index of the sample type to show.
    ///
    /// # Errors
    /// [`Error::Value`] when the profile has no such sample type; the message names those it has.
    pub fn sample_type(&self, profile: &Profile) -> Result<usize> {
        let wanted = self.sample_index.as_str();
        if wanted.is_empty() {
            return Ok(profile.default_sample_type());
        }
        let count = profile.sample_types().len();
        if let Ok(index) = wanted.parse::<usize>() {
            let why = || format!("expected 0 to {}", count - 1);
            return if index < count { Ok(index) } else { Err(Error::value("sample_index", wanted, why())) };
        }
        let plain = wanted.strip_prefix("inuse_").unwrap_or(wanted);
        let found = profile.sample_type_index(wanted).or_else(|| profile.sample_type_index(plain));
        found.ok_or_else(|| {
            let names: Vec<&str> = (0..count).map(|index| profile.sample_type(index).0).collect();
            Error::value("sample_index", wanted, format!("the profile has {}", names.join(", ")))
        })
    }
}

fn unknown(key: &str) -> Error {
    Error::UnknownOption { key: key.chars().take(200).collect(), nearest: nearest(key, OPTIONS.iter().map(|row| row.key)) }
}

fn set<T>(slot: &mut T, value: Result<T>) -> Result<()> {
    *slot = value?;
    Ok(())
}

fn set_one_of<T: Copy>(slot: &mut T, key: &'static str, value: &str, known: &[(&str, T)]) -> Result<()> {
    match known.iter().find(|(name, _)| *name == value) {
        Some((_, meant)) => *slot = *meant,
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return Err(Error::value(key, value, format!("expected {}", names.join(", "))));
        }
    }
    Ok(())
}

/// Compiles to at most 2 MiB, so that a pattern from a query costs little.
fn regex(key: &'static str, value: &str) -> Result<Option<Regex>> {
    let compiled = RegexBuilder::new(value).size_limit(2 << 20).build();
    compiled.map(Some).map_err(|error| Error::value(key, value, error.to_string()))
}

fn number(key: &'static str, value: &str, least: usize, most: usize) -> Result<usize> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| Error::value(key, value, format!("expected a number from {least} to {most}")))
}

fn fraction(key: &'static str, value: &str) -> Result<f64> {
    let fraction = value.parse().ok().filter(|fraction| (0.0..=1.0).contains(fraction));
    fraction.ok_or_else(|| Error::value(key, value, "expected a number from 0 to 1"))
}

#[cfg(test)]
mod tests;
