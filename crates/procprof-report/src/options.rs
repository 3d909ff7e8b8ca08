//! What can be asked of a report: as typed (`key=value`) to as meant, in one place for HTTP, the command line and SQL.
//!
//! [`OPTIONS`] is the list that help texts are made from. An empty value means the default. A key given twice is an error, except
//! `root`, whose values are the names along a path.

use procprof_profile::Profile;
use procprof_profile::filter::{Filter, FilterOptions};
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
        parse: |options, value| filter(&mut options.filters.focus, "focus", value),
    },
    OptionRow {
        key: "ignore",
        default: "",
        help: "Leave out stacks with a function, file or mapping name that matches this regular expression",
        parse: |options, value| filter(&mut options.filters.ignore, "ignore", value),
    },
    OptionRow {
        key: "hide",
        default: "",
        help: "Take frames out whose function, file or mapping name matches this regular expression",
        parse: |options, value| filter(&mut options.filters.hide, "hide", value),
    },
    OptionRow {
        key: "show",
        default: "",
        help: "Take all frames out but those whose function, file or mapping name matches this regular expression",
        parse: |options, value| filter(&mut options.filters.show, "show", value),
    },
    OptionRow {
        key: "show_from",
        default: "",
        help: "Take out the callers of the outermost frame that matches this regular expression, and stacks without one",
        parse: |options, value| filter(&mut options.filters.show_from, "show_from", value),
    },
    OptionRow {
        key: "prune_from",
        default: "",
        help: "Take out what functions call whose names match this regular expression",
        parse: |options, value| filter(&mut options.filters.prune_from, "prune_from", value),
    },
    OptionRow {
        key: "tagfocus",
        default: "",
        help: "Keep samples with a label that matches: [key=]regex[,regex...] or [key=]range, such as 32kb or 4mb:64mb",
        parse: |options, value| filter(&mut options.filters.tagfocus, "tagfocus", value),
    },
    OptionRow {
        key: "tagignore",
        default: "",
        help: "Leave out samples with a label that matches, written as for tagfocus",
        parse: |options, value| filter(&mut options.filters.tagignore, "tagignore", value),
    },
    OptionRow {
        key: "tagshow",
        default: "",
        help: "Keep labels whose key matches this regular expression",
        parse: |options, value| filter(&mut options.filters.tagshow, "tagshow", value),
    },
    OptionRow {
        key: "taghide",
        default: "",
        help: "Leave out labels whose key matches this regular expression",
        parse: |options, value| filter(&mut options.filters.taghide, "taghide", value),
    },
    OptionRow {
        key: "symbol",
        default: "",
        help: "Regular expression of the functions that peek and list are about; all unless given",
        parse: |options, value| set(&mut options.symbol, regex("symbol", value)),
    },
    OptionRow {
        key: "noinlines",
        default: "false",
        help: "Charge inlined functions to the function they were inlined into: true or false",
        parse: |options, value| set_one_of(&mut options.noinlines, "noinlines", value, SWITCH),
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
        default: "",
        help: "Most rows of top and tree and nodes of dot; 0 for all that pass nodefraction; unless given, all of top and 80 of the others",
        parse: |options, value| set(&mut options.nodecount, number("nodecount", value, 0, 1_000_000).map(Some)),
    },
    OptionRow {
        key: "nodefraction",
        default: "0.005",
        help: "Leave out rows and nodes whose cum is below this share of the total, 0 to 1",
        parse: |options, value| set(&mut options.nodefraction, fraction("nodefraction", value)),
    },
    OptionRow {
        key: "edgefraction",
        default: "0.001",
        help: "Leave out calls below this share of the total, 0 to 1; top does not count them when it marks a function as inlined",
        parse: |options, value| set(&mut options.edgefraction, fraction("edgefraction", value)),
    },
    OptionRow {
        key: "trim",
        default: "true",
        help: "Whether nodecount, nodefraction and edgefraction count; without, everything is shown: true or false",
        parse: |options, value| set_one_of(&mut options.trim, "trim", value, SWITCH),
    },
    OptionRow {
        key: "call_tree",
        default: "false",
        help: "Keep functions apart that are reached by different paths, in dot and callgrind; top and tree join them: true or false",
        parse: |options, value| set_one_of(&mut options.call_tree, "call_tree", value, SWITCH),
    },
    OptionRow {
        key: "drop_negative",
        default: "false",
        help: "Leave out functions (in flame graphs and collapsed: stacks) with a negative value; pprof, raw, traces and tags keep them: true or false",
        parse: |options, value| set_one_of(&mut options.drop_negative, "drop_negative", value, SWITCH),
    },
    OptionRow {
        key: "relative_percentages",
        default: "false",
        help: "Shares of what focus and the other filters leave, not of the whole profile; flame graphs show both: true or false",
        parse: |options, value| set_one_of(&mut options.relative_percentages, "relative_percentages", value, SWITCH),
    },
    OptionRow {
        key: "mean",
        default: "false",
        help: "Divide by the number of samples, the first sample type; only in reports of text and dot: true or false",
        parse: |options, value| set_one_of(&mut options.mean, "mean", value, SWITCH),
    },
    OptionRow {
        key: "divide_by",
        default: "1",
        help: "Divide all values by this number above 0; raw shows them as they are",
        parse: |options, value| set(&mut options.divide_by, divisor("divide_by", value)),
    },
    OptionRow {
        key: "compact_labels",
        default: "false",
        help: "Leave out the lines about the profile above top and tree: true or false",
        parse: |options, value| set_one_of(&mut options.compact_labels, "compact_labels", value, SWITCH),
    },
    OptionRow {
        key: "trim_path",
        default: "",
        help: "Beginnings to cut from source paths, separated by colons",
        parse: |options, value| set(&mut options.trim_path, Ok(value.to_owned())),
    },
    OptionRow {
        key: "source_path",
        default: "",
        help: "Directories that list searches for sources, separated by colons; what comes before one's name in a source path is cut",
        parse: |options, value| set(&mut options.source_path, Ok(value.to_owned())),
    },
    OptionRow {
        key: "unit",
        default: "minimum",
        help: "Unit of values in text and dot: minimum, auto, or a unit such as ms or MB",
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
    /// Which samples, frames and labels are kept; each text is checked.
    pub filters: FilterOptions,
    /// Functions that `peek` and `list` are about; all unless given.
    pub symbol: Option<Regex>,
    /// Charge inlined functions to the function they were inlined into.
    pub noinlines: bool,
    /// Show the frames that are left out at the leaf unless asked for.
    pub keep_allocators: bool,
    /// What a frame is.
    pub granularity: Granularity,
    /// Order of rows.
    pub sort: Sort,
    /// Most rows or nodes; 0 for no limit, `None` for what the report shows unless asked.
    pub nodecount: Option<usize>,
    /// Rows and nodes below this share of the total are left out and counted.
    pub nodefraction: f64,
    /// Calls below this share of the total are left out, and passed over when `top` marks inlined functions.
    pub edgefraction: f64,
    /// Whether those three count.
    pub trim: bool,
    /// Keep functions apart that are reached by different paths.
    pub call_tree: bool,
    /// Leave out what has a negative value.
    pub drop_negative: bool,
    /// Shares of what the filters leave.
    pub relative_percentages: bool,
    /// Divide by the number of samples.
    pub mean: bool,
    /// Divide all values by this; above 0.
    pub divide_by: f64,
    /// Leave out the lines about the profile.
    pub compact_labels: bool,
    /// Beginnings to cut from source paths, separated by colons.
    pub trim_path: String,
    /// Directories with sources, separated by colons.
    pub source_path: String,
    /// Unit of values in text and dot, as pprof spells them.
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
            filters: FilterOptions::default(),
            symbol: None,
            noinlines: false,
            keep_allocators: false,
            granularity: Granularity::default(),
            sort: Sort::default(),
            nodecount: None,
            nodefraction: 0.005,
            edgefraction: 0.001,
            trim: true,
            call_tree: false,
            drop_negative: false,
            relative_percentages: false,
            mean: false,
            divide_by: 1.0,
            compact_labels: false,
            trim_path: String::new(),
            source_path: String::new(),
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

    /// The filters that are given, with their keys, as pprof lists them above a report.
    pub(crate) fn active_filters(&self) -> Vec<(&'static str, &str)> {
        let filters = &self.filters;
        let all = [
            ("focus", &filters.focus),
            ("ignore", &filters.ignore),
            ("hide", &filters.hide),
            ("show", &filters.show),
            ("show_from", &filters.show_from),
            ("tagfocus", &filters.tagfocus),
            ("tagignore", &filters.tagignore),
            ("tagshow", &filters.tagshow),
            ("taghide", &filters.taghide),
        ];
        all.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.as_str())).collect()
    }

    /// The value divided by `divide_by`.
    pub(crate) fn divided(&self, value: i64) -> i64 {
        if self.divide_by == 1.0 { value } else { (value as f64 * (1.0 / self.divide_by)) as i64 }
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

/// Keeps the text of a filter that can be read.
fn filter(slot: &mut String, key: &'static str, value: &str) -> Result<()> {
    if key.starts_with("tagf") || key.starts_with("tagi") {
        let tag = FilterOptions { tagfocus: value.to_owned(), ..FilterOptions::default() };
        Filter::parse(&tag).map_err(|error| Error::value(key, value, error.to_string()))?;
    } else {
        regex(key, value)?;
    }
    value.clone_into(slot);
    Ok(())
}

fn divisor(key: &'static str, value: &str) -> Result<f64> {
    let number = value.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| Error::value(key, value, "expected a number above 0"))
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
