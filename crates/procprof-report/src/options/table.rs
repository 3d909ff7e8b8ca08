//! The table of options: one row each, with the parser of its text.

use procprof_profile::diff::Scaling;
use procprof_profile::filter::{Filter, FilterOptions};
use procprof_profile::waits::Wait;
use regex::{Regex, RegexBuilder};

use super::{Granularity, Layout, OptionRow, ShownWaits, Sort};
use crate::{Error, Result};

/// All options, in the order of the help text.
pub const OPTIONS: &[OptionRow] = &[
    OptionRow {
        key: "sample_index",
        default: "",
        help: "Sample type by name or number; by default the profile's own default, or the last",
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
        help: "Omit stacks with a function, file or mapping name that matches this regular expression",
        parse: |options, value| filter(&mut options.filters.ignore, "ignore", value),
    },
    OptionRow {
        key: "hide",
        default: "",
        help: "Remove frames whose function, file or mapping name matches this regular expression",
        parse: |options, value| filter(&mut options.filters.hide, "hide", value),
    },
    OptionRow {
        key: "show",
        default: "",
        help: "Keep only frames whose function, file or mapping name matches this regular expression",
        parse: |options, value| filter(&mut options.filters.show, "show", value),
    },
    OptionRow {
        key: "show_from",
        default: "",
        help: "Remove the callers of the outermost frame that matches this regular expression, and stacks without \
               such a frame",
        parse: |options, value| filter(&mut options.filters.show_from, "show_from", value),
    },
    OptionRow {
        key: "prune_from",
        default: "",
        help: "Remove the callees of functions whose names match this regular expression",
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
        help: "Omit samples with a label that matches; syntax as for tagfocus",
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
        help: "Omit labels whose key matches this regular expression",
        parse: |options, value| filter(&mut options.filters.taghide, "taghide", value),
    },
    OptionRow {
        key: "waits",
        default: "",
        help: "Waits of a JVM that are shown: lock, idle, wait (for anything else) or all; by default lock, but all in \
               the report pprof and if a filter or frame is of the label wait",
        parse: |options, value| {
            let mut shown = ShownWaits::All;
            set_one_of(&mut shown, "waits", value, WAITS)?;
            set(&mut options.waits, Ok(Some(shown)))
        },
    },
    OptionRow {
        key: "tagroot",
        default: "",
        help: "Keys of labels, separated by commas, that become frames below the root of each stack",
        parse: |options, value| set(&mut options.tagroot, Ok(value.to_owned())),
    },
    OptionRow {
        key: "tagleaf",
        default: "",
        help: "Keys of labels, separated by commas, that become frames at the leaf of each stack",
        parse: |options, value| set(&mut options.tagleaf, Ok(value.to_owned())),
    },
    OptionRow {
        key: "symbol",
        default: "",
        help: "Regular expression of the functions that peek, list, disasm and weblist show; by default all",
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
        help: "Show the frames at the leaf that are omitted by default, such as allocators' in heap profiles: true or \
               false",
        parse: |options, value| set_one_of(&mut options.keep_allocators, "keep_allocators", value, SWITCH),
    },
    OptionRow {
        key: "granularity",
        default: "functions",
        help: "What a frame is: functions, filefunctions, files, lines or addresses",
        parse: |options, value| set_one_of(&mut options.granularity, "granularity", value, GRANULARITIES),
    },
    OptionRow {
        key: "showcolumns",
        default: "false",
        help: "Show columns of lines if granularity is lines or addresses: true or false",
        parse: |options, value| set_one_of(&mut options.showcolumns, "showcolumns", value, SWITCH),
    },
    OptionRow {
        key: "intel_syntax",
        default: "false",
        help: "Print machine code of x86 in Intel syntax, not in AT&T syntax: true or false",
        parse: |options, value| set_one_of(&mut options.intel_syntax, "intel_syntax", value, SWITCH),
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
        help: "Most rows of top and tree and nodes of dot, svg and pdf; 0 for all that pass nodefraction; by default \
               all of top and 80 of the others",
        parse: |options, value| set(&mut options.nodecount, number("nodecount", value, 0, 1_000_000).map(Some)),
    },
    OptionRow {
        key: "nodefraction",
        default: "0.005",
        help: "Omit rows and nodes whose cum is below this share of the total, 0 to 1",
        parse: |options, value| set(&mut options.nodefraction, fraction("nodefraction", value)),
    },
    OptionRow {
        key: "edgefraction",
        default: "0.001",
        help: "Omit calls below this share of the total, 0 to 1; top ignores them when it marks a function as inlined",
        parse: |options, value| set(&mut options.edgefraction, fraction("edgefraction", value)),
    },
    OptionRow {
        key: "trim",
        default: "true",
        help: "Apply nodecount, nodefraction and edgefraction; if false, everything is shown: true or false",
        parse: |options, value| set_one_of(&mut options.trim, "trim", value, SWITCH),
    },
    OptionRow {
        key: "call_tree",
        default: "false",
        help: "Separate functions that are reached by different paths, in drawn graphs and callgrind; top and tree \
               join them: true or false",
        parse: |options, value| set_one_of(&mut options.call_tree, "call_tree", value, SWITCH),
    },
    OptionRow {
        key: "drop_negative",
        default: "false",
        help: "Omit functions (in flame graphs and collapsed: stacks) with a negative value; pprof, raw, traces and \
               tags keep them: true or false",
        parse: |options, value| set_one_of(&mut options.drop_negative, "drop_negative", value, SWITCH),
    },
    OptionRow {
        key: "relative_percentages",
        default: "false",
        help: "Show shares of the filtered profile, not of the whole one; flame graphs show both: true or false",
        parse: |options, value| set_one_of(&mut options.relative_percentages, "relative_percentages", value, SWITCH),
    },
    OptionRow {
        key: "mean",
        default: "false",
        help: "Divide by the number of samples, the first sample type; only in texts and drawn graphs: true or false",
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
        help: "Omit the lines about the profile above top and tree: true or false",
        parse: |options, value| set_one_of(&mut options.compact_labels, "compact_labels", value, SWITCH),
    },
    OptionRow {
        key: "trim_path",
        default: "",
        help: "Prefixes to remove from source paths, separated by colons",
        parse: |options, value| set(&mut options.trim_path, Ok(value.to_owned())),
    },
    OptionRow {
        key: "source_path",
        default: "",
        help: "Directories that list searches for sources, separated by colons; the part of a source path before the \
               name of one is removed",
        parse: |options, value| set(&mut options.source_path, Ok(value.to_owned())),
    },
    OptionRow {
        key: "unit",
        default: "minimum",
        help: "Unit of values in texts and drawn graphs: minimum, auto, or a unit such as ms or MB",
        parse: |options, value| {
            options.unit = value.to_owned();
            Ok(())
        },
    },
    OptionRow {
        key: "title",
        default: "",
        help: "Heading of a flame graph; by default the node and the profile type",
        parse: |options, value| {
            options.title = Some(value.to_owned());
            Ok(())
        },
    },
    OptionRow {
        key: "layout",
        default: "flame",
        help: "Place of a flame graph's root: flame (at the bottom) or icicle (at the top)",
        parse: |options, value| set_one_of(&mut options.layout, "layout", value, LAYOUTS),
    },
    OptionRow {
        key: "root",
        default: "",
        help: "Frame name, given once for each step from the root down: show only the part of the call tree below \
               that path",
        parse: |options, value| {
            options.root.push(value.to_owned());
            Ok(())
        },
    },
    OptionRow {
        key: "invert",
        default: "false",
        help: "Show call trees from the leaf: callees at the root, their callers above; in flame graphs, collapsed \
               and json: true or false",
        parse: |options, value| set_one_of(&mut options.invert, "invert", value, SWITCH),
    },
    OptionRow {
        key: "collapse_recursion",
        default: "false",
        help: "Show calls that repeat the up to eight calls just before only once; in flame graphs, collapsed and \
               json: true or false",
        parse: |options, value| set_one_of(&mut options.collapse_recursion, "collapse_recursion", value, SWITCH),
    },
    OptionRow {
        key: "normalize",
        default: "false",
        help: "Compare profiles as if both added up to the same total (true) or had measured for the same time (time)",
        parse: |options, value| set_one_of(&mut options.normalize, "normalize", value, SCALINGS),
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
        help: "Most boxes of a flame graph, 100 to 200000; if there are more, minfraction is raised",
        parse: |options, value| {
            options.maxboxes = number("maxboxes", value, 100, 200_000)?;
            Ok(())
        },
    },
];

const WAITS: &[(&str, ShownWaits)] = &[
    ("all", ShownWaits::All),
    (Wait::Lock.name(), ShownWaits::Only(Wait::Lock)),
    (Wait::Idle.name(), ShownWaits::Only(Wait::Idle)),
    (Wait::Other.name(), ShownWaits::Only(Wait::Other)),
];

const GRANULARITIES: &[(&str, Granularity)] = &[
    ("functions", Granularity::Functions),
    ("filefunctions", Granularity::FileFunctions),
    ("files", Granularity::Files),
    ("lines", Granularity::Lines),
    ("addresses", Granularity::Addresses),
];
const SWITCH: &[(&str, bool)] = &[("true", true), ("false", false)];
const SCALINGS: &[(&str, Scaling)] =
    &[("true", Scaling::SameTotal), ("false", Scaling::AsMeasured), ("time", Scaling::SameTime)];
const SORTS: &[(&str, Sort)] = &[("flat", Sort::Flat), ("cum", Sort::Cum)];
const LAYOUTS: &[(&str, Layout)] = &[("flame", Layout::Flame), ("icicle", Layout::Icicle)];

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

/// Compiles to at most 2 MiB, so that a pattern from a query is cheap.
fn regex(key: &'static str, value: &str) -> Result<Option<Regex>> {
    let compiled = RegexBuilder::new(value).size_limit(2 << 20).build();
    compiled.map(Some).map_err(|error| Error::value(key, value, error.to_string()))
}

/// Stores the text of a filter that compiles.
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
