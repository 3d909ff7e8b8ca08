//! The command line: options as jeprof parses them, and the resulting request.

mod usage;
mod words;

use procprof_symbolize::binutils::Detail;
use regex::Regex;

pub use usage::USAGE;
pub use words::Typed;

use crate::settings::{DebugCopies, Delay, Granularity, HeapIndex, Settings};

/// The form that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// `--text`: a line for each function.
    Text,
    /// `--dot`: the call graph in Graphviz's language.
    Dot,
    /// `--svg`: the call graph drawn for browsers.
    Svg,
    /// `--pdf`: the call graph drawn on a page.
    Pdf,
    /// `--collapsed`: a line for each stack.
    Collapsed,
    /// `--callgrind`: calls in callgrind's format.
    Callgrind,
    /// `--raw`: a fetched profile with its names.
    Raw,
    /// `--symbols`: names of addresses on standard input.
    Symbols,
    /// `--list`: source lines of the functions that match [`Request::symbol`].
    List,
    /// `--disasm`: machine code of the functions that match [`Request::symbol`].
    Disassembly,
    /// `--interactive`: commands from the keyboard.
    Interactive,
}

/// Threads that are shown one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Each.
    All,
    /// The one of that number.
    One(u64),
}

/// A parsed command line.
#[derive(Debug)]
pub struct Request {
    /// The form that is printed.
    pub output: Output,
    /// The shown part of the profile.
    pub settings: Settings,
    /// The arguments without options: program and profiles.
    pub words: Vec<String>,
    /// A profile that is subtracted.
    pub base: Option<String>,
    /// Whether differences below 0 count as 0.
    pub drop_negative: bool,
    /// Functions whose source lines or machine code are shown.
    pub symbol: Option<String>,
    /// Threads that are printed one by one.
    pub threads: Option<Threads>,
    /// Seconds that a process is profiled for.
    pub seconds: u32,
    /// A library that was not in the memory map.
    pub add_lib: Option<String>,
    /// Folders below which the libraries' paths are searched.
    pub prefixes: Vec<String>,
    /// The copies with debug information that are used.
    pub copies: DebugCopies,
}

impl Request {
    /// Interprets the arguments; without an option for an output, `otherwise` is printed.
    ///
    /// # Errors [`Refusal`] for what is ambiguous or not supported.
    pub fn from_typed(typed: Typed, otherwise: Output) -> Result<Request, Refusal> {
        let settings = settings(&typed)?;
        let output = output(&typed)?.unwrap_or(otherwise);
        let threads = match typed.value("thread") {
            None => None,
            Some("*") => Some(Threads::All),
            Some(number) => Some(Threads::One(thread(number)?)),
        };
        let text = |name| typed.value(name).map(str::to_owned);
        let prefixes = text("lib_prefix").unwrap_or_default();
        let prefixes = prefixes.split(',').map(|prefix| prefix.trim_end_matches('/').to_owned());
        let by_id = typed.is_on("debug-syms-by-id");
        Ok(Request {
            output,
            settings,
            base: text("base"),
            symbol: text("list").or_else(|| text("disasm")),
            drop_negative: typed.is_on("drop_negative"),
            threads,
            seconds: number(&typed, "seconds", 30)?,
            add_lib: text("add_lib"),
            copies: if by_id { DebugCopies::ByPathOrBuildId } else { DebugCopies::ByPath },
            prefixes: prefixes.filter(|prefix| !prefix.is_empty()).collect(),
            words: typed.words,
        })
    }

    /// The needed detail of names: lines are not read if nothing shows or matches them.
    pub fn detail(&self) -> Detail {
        let Settings { granularity, focus, ignore, retain, exclude, .. } = &self.settings;
        let is_matched = [focus, ignore, retain, exclude].into_iter().any(Option::is_some);
        let by_function = *granularity == Granularity::Functions && !is_matched;
        match self.output {
            Output::Text | Output::Dot | Output::Svg | Output::Pdf if by_function => Detail::Names,
            Output::Symbols => Detail::Names,
            _ => Detail::NamesAndPlaces,
        }
    }

    /// The sample type, as `procprof report` names it; empty if the profile has only one.
    pub fn sample_index(&self) -> &'static str {
        match (self.settings.index, self.settings.delay) {
            (HeapIndex::InuseObjects, _) => "inuse_objects",
            (HeapIndex::AllocSpace, _) => "alloc_space",
            (HeapIndex::AllocObjects, _) => "alloc_objects",
            (HeapIndex::InuseSpace, Delay::Contentions) => "contentions",
            (HeapIndex::InuseSpace, _) => "",
        }
    }
}

/// Why a command line is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is invalid; the usage is printed.
    Usage(String),
    /// It is valid, but not supported.
    Unsupported(String),
}

/// Options for outputs that other programs make of these, each with what to do instead.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("gv", "write --svg or --pdf and open the file"),
    ("evince", "write --pdf and open the file"),
    ("web", "write --svg and open the file in a browser"),
    ("ps", "use --pdf"),
    ("gif", "use --svg"),
    ("test", "jeprof's own unit tests are not part of this program"),
];

/// Outputs by their options; those that take a value are not among them.
pub const MODES: &[(&str, Output)] = &[
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

fn usage(message: impl Into<String>) -> Refusal {
    Refusal::Usage(message.into())
}

fn thread(number: &str) -> Result<u64, Refusal> {
    number.parse().map_err(|_| usage(format!("--thread={number} is neither a number nor *")))
}

/// The output of an option, if it has one.
fn output(typed: &Typed) -> Result<Option<Output>, Refusal> {
    let sources = [("list", Output::List), ("disasm", Output::Disassembly)];
    let sources = sources.into_iter().filter(|(name, _)| typed.value(name).is_some()).map(|(_, output)| output);
    let elsewhere: Vec<&(&str, &str)> = ELSEWHERE.iter().filter(|(name, _)| typed.is_on(name)).collect();
    let here: Vec<Output> = MODES.iter().filter(|(name, _)| typed.is_on(name)).map(|(_, output)| *output).collect();
    let sources: Vec<Output> = sources.collect();
    if elsewhere.iter().filter(|(name, _)| *name != "test").count() + here.len() + sources.len() > 1 {
        return Err(usage("Only specify one output mode"));
    }
    if let Some((name, instead)) = elsewhere.first() {
        return Err(Refusal::Unsupported(format!("--{name} is not done here; {instead}")));
    }
    Ok(sources.first().or(here.first()).copied())
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

fn index(typed: &Typed) -> Result<HeapIndex, Refusal> {
    let choices = [
        ("inuse_space", HeapIndex::InuseSpace),
        ("inuse_objects", HeapIndex::InuseObjects),
        ("alloc_space", HeapIndex::AllocSpace),
        ("alloc_objects", HeapIndex::AllocObjects),
    ];
    one_of(typed, &choices, HeapIndex::InuseSpace, "Specify at most on of --inuse/--alloc options")
}

/// The first one that is on is used.
fn delay(typed: &Typed) -> Delay {
    let choices = [("total_delay", Delay::Total), ("contentions", Delay::Contentions), ("mean_delay", Delay::Mean)];
    choices.into_iter().find(|(name, _)| typed.is_on(name)).map_or(Delay::Total, |(_, delay)| delay)
}

fn pattern(typed: &Typed, name: &str) -> Result<Option<Regex>, Refusal> {
    let Some(text) = typed.value(name) else { return Ok(None) };
    Regex::new(text).map(Some).map_err(|error| Refusal::Unsupported(format!("--{name}={text}: {error}")))
}

fn number<T: std::str::FromStr>(typed: &Typed, name: &str, otherwise: T) -> Result<T, Refusal> {
    match typed.value(name) {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| usage(format!("--{name}={text} is no number"))),
    }
}
