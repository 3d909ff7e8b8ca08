//! As typed to as meant: the output, what is shown, and from which files.

use std::io::IsTerminal;

use procprof_report::jeprof::{Delay, Granularity, Index, Settings};
use procprof_symbolize::IndexFolder;
use procprof_symbolize::binutils::Detail;
use regex::Regex;

use super::grammar::Typed;
use super::names::Copies;

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Text,
    Dot,
    Svg,
    Pdf,
    Collapsed,
    Callgrind,
    Raw,
    Symbols,
    /// `list` or `disasm` of the functions that match [`Request::symbol`].
    Source(&'static str),
    Interactive,
}

/// Threads that are shown one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    All,
    One(u64),
}

/// What was asked for.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) output: Output,
    pub(super) settings: Settings,
    /// The words behind the options: program and profiles.
    pub(super) words: Vec<String>,
    pub(super) base: Option<String>,
    pub(super) drop_negative: bool,
    /// Functions whose source lines or machine code are shown.
    pub(super) symbol: Option<String>,
    pub(super) threads: Option<Threads>,
    /// How long a process is profiled.
    pub(super) seconds: u32,
    /// A library that was not in the memory map.
    pub(super) add_lib: Option<String>,
    /// Folders that the libraries' own are looked for below.
    pub(super) prefixes: Vec<String>,
    /// Which copies with debug information are used.
    pub(super) copies: Copies,
    /// Where what is read of binaries is kept for the next time.
    pub(super) cache: Option<IndexFolder>,
}

impl Request {
    /// What of the names is needed: lines are not read where nothing shows or matches them.
    pub(super) fn detail(&self) -> Detail {
        let Settings { granularity, focus, ignore, retain, exclude, .. } = &self.settings;
        let is_matched = [focus, ignore, retain, exclude].into_iter().any(Option::is_some);
        let by_function = *granularity == Granularity::Functions && !is_matched;
        match self.output {
            Output::Text | Output::Dot | Output::Svg | Output::Pdf if by_function => Detail::Names,
            Output::Symbols => Detail::Names,
            _ => Detail::NamesAndPlaces,
        }
    }

    /// The sample type, as `procprof report` names it; empty where the profile has one only.
    pub(super) fn sample_index(&self) -> &'static str {
        match (self.settings.index, self.settings.delay) {
            (Index::InuseObjects, _) => "inuse_objects",
            (Index::AllocSpace, _) => "alloc_space",
            (Index::AllocObjects, _) => "alloc_objects",
            (Index::InuseSpace, Delay::Contentions) => "contentions",
            (Index::InuseSpace, _) => "",
        }
    }
}

/// Why a request can't be met.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is not clear what is meant; the usage is shown.
    Usage(String),
    /// It is clear, and not done here.
    NotHere(String),
}

/// Outputs that other programs make of ours.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    ("gv", "write --svg or --pdf and open the file"),
    ("evince", "write --pdf and open the file"),
    ("web", "write --svg and open the file in a browser"),
    ("ps", "use --pdf"),
    ("gif", "use --svg"),
    ("test", "jeprof's own unit tests are not part of this program"),
];

/// Outputs by their options.
pub(super) const MODES: &[(&str, Output)] = &[
    ("text", Output::Text),
    ("dot", Output::Dot),
    ("svg", Output::Svg),
    ("pdf", Output::Pdf),
    ("collapsed", Output::Collapsed),
    ("callgrind", Output::Callgrind),
    ("raw", Output::Raw),
    ("symbols", Output::Symbols),
    ("interactive", Output::Interactive),
];

/// Reads what was meant.
pub(super) fn meant(typed: Typed) -> Result<Request, Refusal> {
    let settings = settings(&typed)?;
    let output = output(&typed)?;
    let threads = match typed.value("thread") {
        None => None,
        Some("*") => Some(Threads::All),
        Some(number) => Some(Threads::One(number.parse().map_err(|_| usage(format!("--thread={number} is neither a number nor *")))?)),
    };
    let text = |name| typed.value(name).map(str::to_owned);
    let prefixes = text("lib_prefix").unwrap_or_default();
    let copies = if typed.is_on("debug-syms-by-id") { Copies::ByPathOrBuildId } else { Copies::ByPath };
    Ok(Request {
        output,
        settings,
        base: text("base"),
        symbol: text("list").or_else(|| text("disasm")),
        drop_negative: typed.is_on("drop_negative"),
        threads,
        seconds: number(&typed, "seconds", 30)?,
        add_lib: text("add_lib"),
        copies,
        cache: None,
        prefixes: prefixes.split(',').map(|prefix| prefix.trim_end_matches('/').to_owned()).filter(|prefix| !prefix.is_empty()).collect(),
        words: typed.words,
    })
}

fn usage(message: impl Into<String>) -> Refusal {
    Refusal::Usage(message.into())
}

fn output(typed: &Typed) -> Result<Output, Refusal> {
    let sources = ["list", "disasm"].into_iter().filter(|name| typed.value(name).is_some());
    let elsewhere: Vec<&(&str, &str)> = ELSEWHERE.iter().filter(|(name, _)| typed.is_on(name)).collect();
    let here: Vec<Output> = MODES.iter().filter(|(name, _)| typed.is_on(name)).map(|(_, output)| *output).collect();
    let sources: Vec<&str> = sources.collect();
    if elsewhere.iter().filter(|(name, _)| *name != "test").count() + here.len() + sources.len() > 1 {
        return Err(usage("Only specify one output mode"));
    }
    if let Some((name, instead)) = elsewhere.first() {
        return Err(Refusal::NotHere(format!("--{name} is not done here; {instead}")));
    }
    if let Some(name) = sources.first() {
        return Ok(Output::Source(name));
    }
    let otherwise = if std::io::stdout().is_terminal() { Output::Interactive } else { Output::Text };
    Ok(here.first().copied().unwrap_or(otherwise))
}

fn settings(typed: &Typed) -> Result<Settings, Refusal> {
    let default = Settings::default();
    Ok(Settings {
        granularity: granularity(typed)?,
        index: index(typed)?,
        delay: delay(typed),
        contentions_unit: typed.is_on("contentions"),
        show_bytes: typed.is_on("show_bytes"),
        cumulative: typed.is_on("cum"),
        focus: pattern(typed, "focus")?,
        ignore: pattern(typed, "ignore")?,
        retain: pattern(typed, "retain")?,
        exclude: pattern(typed, "exclude")?,
        node_count: number(typed, "nodecount", default.node_count)?,
        node_fraction: number(typed, "nodefraction", default.node_fraction)?,
        edge_fraction: number(typed, "edgefraction", default.edge_fraction)?,
        degree_max: number(typed, "maxdegree", default.degree_max)?,
        heap_check: typed.is_on("heapcheck"),
        ..default
    })
}

/// The one of several that is on.
fn one_of<T: Copy>(typed: &Typed, choices: &[(&str, T)], otherwise: T, message: &str) -> Result<T, Refusal> {
    let on: Vec<T> = choices.iter().filter(|(name, _)| typed.is_on(name)).map(|(_, choice)| *choice).collect();
    match on.as_slice() {
        [] => Ok(otherwise),
        [one] => Ok(*one),
        _ => Err(usage(message)),
    }
}

fn granularity(typed: &Typed) -> Result<Granularity, Refusal> {
    let choices = [
        ("functions", Granularity::Functions),
        ("lines", Granularity::Lines),
        ("addresses", Granularity::Addresses),
        ("files", Granularity::Files),
    ];
    one_of(typed, &choices, Granularity::Functions, "Only specify one output granularity option")
}

fn index(typed: &Typed) -> Result<Index, Refusal> {
    let choices = [
        ("inuse_space", Index::InuseSpace),
        ("inuse_objects", Index::InuseObjects),
        ("alloc_space", Index::AllocSpace),
        ("alloc_objects", Index::AllocObjects),
    ];
    one_of(typed, &choices, Index::InuseSpace, "Specify at most on of --inuse/--alloc options")
}

/// The first one that is on counts.
fn delay(typed: &Typed) -> Delay {
    let choices = [("total_delay", Delay::Total), ("contentions", Delay::Contentions), ("mean_delay", Delay::Mean)];
    choices.into_iter().find(|(name, _)| typed.is_on(name)).map_or(Delay::Total, |(_, delay)| delay)
}

fn pattern(typed: &Typed, name: &str) -> Result<Option<Regex>, Refusal> {
    let Some(text) = typed.value(name) else { return Ok(None) };
    Regex::new(text).map(Some).map_err(|error| Refusal::NotHere(format!("--{name}={text}: {error}")))
}

fn number<T: std::str::FromStr>(typed: &Typed, name: &str, otherwise: T) -> Result<T, Refusal> {
    match typed.value(name) {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| usage(format!("--{name}={text} is no number"))),
    }
}
