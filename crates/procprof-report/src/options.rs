//! What can be asked of a report: as typed (`key=value`) to as meant, in one place for HTTP, the command line and SQL.
//!
//! [`OPTIONS`] is the list that help texts are made from. An empty value means the default. A key given twice is an error, except
//! `root`, whose values are the names along a path.

mod table;

use procprof_profile::Profile;
use procprof_profile::filter::FilterOptions;
use regex::Regex;

use crate::nearest::nearest;
use crate::{Error, Result};
pub use table::OPTIONS;

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
    /// Whether lines have columns.
    pub showcolumns: bool,
    /// Labels that are frames at the root, by key, separated by commas.
    pub tagroot: String,
    /// Labels that are frames at the leaf, by key, separated by commas.
    pub tagleaf: String,
    /// Machine code in Intel's spelling instead of AT&T's.
    pub intel_syntax: bool,
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
            showcolumns: false,
            tagroot: String::new(),
            tagleaf: String::new(),
            intel_syntax: false,
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

#[cfg(test)]
mod tests;
