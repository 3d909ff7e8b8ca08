//! The options of reports, parsed from `key=value` in one place for HTTP, the command line and SQL.
//!
//! [`OPTIONS`] is the list that help texts are made from. An empty value means the default. A key given twice is an
//! error, except `root`, whose values are the names along a path.

pub(crate) mod nearest;

mod table;

use procprof_profile::Profile;
use procprof_profile::diff::Scaling;
use procprof_profile::filter::FilterOptions;
use procprof_profile::waits::{self, Wait};
use regex::Regex;

use crate::options::nearest::nearest;
use crate::{Budget, Error, Result};
pub use table::OPTIONS;

/// One option: its key, its default as text, and a line of help.
pub struct OptionRow {
    /// The key as typed.
    pub key: &'static str,
    /// The default, as it would be typed; empty when there is none.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
    parse: fn(&mut Options, &str) -> Result<()>,
}

/// The parts of frames that are compared.
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

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The value of the function itself.
    #[default]
    Flat,
    /// The value of the function and all it calls.
    Cum,
}

/// The waits of a profile of contention that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownWaits {
    /// All.
    All,
    /// One kind, and waits of no known kind.
    Only(Wait),
}

/// The place of a flame graph's root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// At the bottom.
    #[default]
    Flame,
    /// At the top.
    Icicle,
}

/// The parsed options of one report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sample type by name or number; empty for the default. Resolved by [`Options::sample_type`].
    pub sample_index: String,
    /// The filters of samples, frames and labels; each text is checked.
    pub filters: FilterOptions,
    /// The waits that are shown; by default those for locks, but all in the report `pprof`, and if a filter or a frame
    /// is of the label of waits.
    pub waits: Option<ShownWaits>,
    /// Functions that `peek` and `list` show; by default all.
    pub symbol: Option<Regex>,
    /// Charge inlined functions to the function they were inlined into.
    pub noinlines: bool,
    /// Show the frames at the leaf that are omitted by default.
    pub keep_allocators: bool,
    /// The granularity of frames.
    pub granularity: Granularity,
    /// Whether lines have columns.
    pub showcolumns: bool,
    /// Keys of labels that become frames at the root, separated by commas.
    pub tagroot: String,
    /// Keys of labels that become frames at the leaf, separated by commas.
    pub tagleaf: String,
    /// Machine code in Intel syntax instead of AT&T's.
    pub intel_syntax: bool,
    /// Order of rows.
    pub sort: Sort,
    /// Most rows or nodes; 0 for no limit, `None` for the report's default.
    pub nodecount: Option<usize>,
    /// Rows and nodes below this share of the total are omitted and counted.
    pub nodefraction: f64,
    /// Calls below this share of the total are omitted, and ignored when `top` marks inlined functions.
    pub edgefraction: f64,
    /// Whether those three apply.
    pub trim: bool,
    /// Separate functions that are reached by different paths.
    pub call_tree: bool,
    /// Omit negative values.
    pub drop_negative: bool,
    /// Shares of the filtered profile.
    pub relative_percentages: bool,
    /// Divide by the number of samples.
    pub mean: bool,
    /// Divide all values by this; above 0.
    pub divide_by: f64,
    /// Omit the lines about the profile.
    pub compact_labels: bool,
    /// Prefixes to remove from source paths, separated by colons.
    pub trim_path: String,
    /// Directories with sources, separated by colons.
    pub source_path: String,
    /// Unit of values in text and dot, as pprof writes them.
    pub unit: String,
    /// Heading of a flame graph; `None` for the default.
    pub title: Option<String>,
    /// The place of a flame graph's root.
    pub layout: Layout,
    /// Path of frame names from the root down; only the part below it is shown.
    pub root: Vec<String>,
    /// Walk stacks from their leaf: callees at the root of call trees.
    pub invert: bool,
    /// Leave out calls that repeat the calls just before, in call trees.
    pub collapse_recursion: bool,
    /// The scaling of the base of a difference.
    pub normalize: Scaling,
    /// Flame graph boxes below this share of the total are merged.
    pub minfraction: f64,
    /// Most boxes of a flame graph.
    pub maxboxes: usize,
    /// The limits of the report, set by the caller and never parsed.
    pub budget: Budget,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sample_index: String::new(),
            filters: FilterOptions::default(),
            waits: None,
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
            invert: false,
            collapse_recursion: false,
            normalize: Scaling::AsMeasured,
            minfraction: 0.0,
            maxboxes: 20_000,
            budget: Budget::default(),
        }
    }
}

impl Options {
    /// Parses options. Pairs with an empty value are ignored.
    ///
    /// # Errors
    /// [`Error::UnknownOption`] for a key that is not in [`OPTIONS`], [`Error::Value`] for an invalid value or a key
    /// given twice.
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

    /// The given filters with their keys, as pprof lists them above a report.
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

    /// The waits that are shown: those for locks, unless an option chooses others or names the label of waits.
    pub(crate) fn shown_waits(&self) -> ShownWaits {
        let filters = [&self.filters.tagfocus, &self.filters.tagignore];
        let is_filtered = filters.iter().any(|filter| filter.split('=').next() == Some(waits::LABEL));
        let frames = [&self.tagroot, &self.tagleaf];
        let is_frame = frames.iter().any(|keys| keys.split(',').any(|key| key == waits::LABEL));
        let default = if is_filtered || is_frame { ShownWaits::All } else { ShownWaits::Only(Wait::Lock) };
        self.waits.unwrap_or(default)
    }

    /// The value divided by `divide_by`.
    pub(crate) fn divided(&self, value: i64) -> i64 {
        if self.divide_by == 1.0 { value } else { (value as f64 * (1.0 / self.divide_by)) as i64 }
    }

    /// Index of the sample type to show.
    ///
    /// # Errors
    /// [`Error::Value`] when the profile has no such sample type; the message lists its sample types.
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
    Error::UnknownOption {
        key: key.chars().take(200).collect(),
        nearest: nearest(key, OPTIONS.iter().map(|row| row.key)),
    }
}

#[cfg(test)]
mod tests;
