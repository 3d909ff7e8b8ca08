//! Options of `report` as users of `go tool pprof` type them: with one dash, and its short names of kinds,
//! granularities and sample types.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command};

use super::ReportArgs;

/// Other names of kinds.
const KIND_ALIASES: &[(&str, &str)] = &[("text", "top"), ("proto", "pprof")];

/// A flag that is short for options with values.
struct Short {
    flag: &'static str,
    options: &'static [(&'static str, &'static str)],
}

const fn short(flag: &'static str, options: &'static [(&'static str, &'static str)]) -> Short {
    Short { flag, options }
}

const SHORTS: &[Short] = &[
    short("functions", &[("granularity", "functions")]),
    short("filefunctions", &[("granularity", "filefunctions")]),
    short("files", &[("granularity", "files")]),
    short("lines", &[("granularity", "lines")]),
    short("addresses", &[("granularity", "addresses")]),
    short("flat", &[("sort", "flat")]),
    short("cum", &[("sort", "cum")]),
    short("inuse_space", &[("sample_index", "inuse_space")]),
    short("inuse_objects", &[("sample_index", "inuse_objects")]),
    short("alloc_space", &[("sample_index", "alloc_space")]),
    short("alloc_objects", &[("sample_index", "alloc_objects")]),
    short("contentions", &[("sample_index", "contentions")]),
    short("total_delay", &[("sample_index", "delay")]),
    short("all_frames", &[("keep_allocators", "true")]),
    short("mean_delay", &[("sample_index", "delay"), ("mean", "true")]),
];

/// Commands of pprof that start another program, then options of jeprof that `report` lacks, each with the
/// alternative.
const ELSEWHERE: &[(&str, &str)] = &[
    ("web", "start procprof report with -http=:0, or write svg and open the file in a browser"),
    ("gv", "write dot and open the file with a graph viewer"),
    ("evince", "write pdf and open the file"),
    ("eog", "write svg and open the file"),
    ("kcachegrind", "write callgrind and open the file"),
    ("ps", "write pdf or dot"),
    ("gif", "write svg"),
    ("png", "write svg"),
    ("show_bytes", "use -unit=B, or procprof jeprof"),
    ("retain", "use -show, or procprof jeprof"),
    ("exclude", "use -hide, or procprof jeprof"),
    ("scale", "use -divide_by, or procprof jeprof"),
    ("thread", "use procprof jeprof"),
    ("maxdegree", "use -edgefraction, or procprof jeprof"),
    ("heapcheck", "use procprof jeprof"),
    ("add_lib", "use -binary, or procprof jeprof"),
    ("lib_prefix", "use -debug-dir, or procprof jeprof"),
];

/// The names of unsupported commands and options.
pub(crate) fn elsewhere() -> impl Iterator<Item = &'static str> {
    ELSEWHERE.iter().map(|(name, _)| *name)
}

/// The alternative to an unsupported command or option.
pub(crate) fn instead(command: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(name, _)| *name == command).map(|(_, instead)| *instead)
}

/// The options for which a name is short.
pub(super) fn long_options(name: &str) -> Option<Vec<(&'static str, String)>> {
    let short = SHORTS.iter().find(|short| short.flag == name)?;
    Some(short.options.iter().map(|(key, value)| (*key, (*value).to_owned())).collect())
}

/// The values of an option that have a short name, if it is an option of such values alone.
pub(super) fn choices(key: &str) -> Vec<&'static str> {
    if key == "sample_index" {
        return Vec::new();
    }
    let own = SHORTS
        .iter()
        .filter(|short| matches!(short.options, [(known, value)] if *known == key && *value == short.flag));
    let mut choices: Vec<&str> = own.map(|short| short.flag).collect();
    choices.sort_unstable();
    choices
}

/// The other name of a kind, if it has one.
pub(crate) fn alias(kind: &str) -> Option<&'static str> {
    KIND_ALIASES.iter().find(|(_, meant)| *meant == kind).map(|(alias, _)| *alias)
}

/// A flag for each short name.
pub(super) fn short_flags() -> impl Iterator<Item = Arg> {
    SHORTS.iter().map(|short| {
        let meant: Vec<String> = short.options.iter().map(|(key, value)| format!("--{key}={value}")).collect();
        let help = format!("Short for {}", meant.join(" "));
        Arg::new(short.flag).long(short.flag).help(help).action(ArgAction::SetTrue).help_heading("Short names")
    })
}

/// The options of the short names given, each with its place on the command line.
pub(super) fn meant(matches: &ArgMatches) -> Vec<(usize, &'static str, String)> {
    let given = SHORTS.iter().filter(|short| matches.get_flag(short.flag));
    let place = |short: &Short| matches.index_of(short.flag).unwrap_or_default();
    given
        .flat_map(|short| short.options.iter().map(move |(key, value)| (place(short), *key, (*value).to_owned())))
        .collect()
}

/// The command line with the options of `report` as they are declared: two dashes before a name, and in it dashes or
/// underscores.
pub(crate) fn as_declared(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_none_or(|command| command != "report") {
        return arguments;
    }
    let options = Declared::new();
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let mut place = 0;
    arguments.retain_mut(|argument| {
        place += 1;
        if place <= 2 || place > end {
            return true;
        }
        match argument.to_str().map_or(Spelled::AsItIs, |argument| options.spelled(argument)) {
            Spelled::AsItIs => {}
            Spelled::As(spelled) => *argument = spelled.into(),
            Spelled::Nothing => return false,
        }
        true
    });
    arguments
}

/// The parsed form of an argument.
enum Spelled {
    AsItIs,
    As(String),
    /// A switch that is off.
    Nothing,
}

/// The long options of `report`, and which of them are switches; some of those take a value.
struct Declared {
    names: Vec<String>,
    switches: Vec<String>,
    valued_switches: Vec<String>,
}

impl Declared {
    fn new() -> Declared {
        let command =
            ReportArgs::augment_args(Command::new("report")).arg(Arg::new("help").long("help").action(ArgAction::Help));
        let names = |arg: &Arg| {
            arg.get_long_and_visible_aliases().unwrap_or_default().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let is_switch = |arg: &&Arg| matches!(arg.get_action(), ArgAction::SetTrue);
        let all = command.get_arguments().flat_map(names);
        let valued = procprof_report::OPTIONS.iter().filter(|row| ["true", "false"].contains(&row.default));
        Declared {
            names: all.collect(),
            switches: command.get_arguments().filter(is_switch).flat_map(names).collect(),
            valued_switches: valued.map(|row| row.key.to_owned()).collect(),
        }
    }

    fn spelled(&self, argument: &str) -> Spelled {
        let Some(option) = argument.strip_prefix('-') else { return Spelled::AsItIs };
        let is_double = option.starts_with('-');
        let option = option.strip_prefix('-').unwrap_or(option);
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let dashed = |name: &str| name.replace('_', "-");
        let equal = |known: &&String| *known == name;
        let known =
            self.names.iter().find(equal).or_else(|| self.names.iter().find(|known| dashed(known) == dashed(name)));
        let Some(known) = known else {
            // So that the name that is nearest can be suggested: with one dash it would be read letter by letter.
            let is_word = name.len() > 1 && name.starts_with(|c: char| c.is_ascii_alphabetic() && !"oVh".contains(c));
            return if is_word && !is_double { Spelled::As(format!("--{option}")) } else { Spelled::AsItIs };
        };
        let Some(value) = value else { return Spelled::As(format!("--{known}")) };
        match truth(value) {
            Some(true) if self.switches.contains(known) => Spelled::As(format!("--{known}")),
            Some(false) if self.switches.contains(known) => Spelled::Nothing,
            Some(truth) if self.valued_switches.contains(known) => Spelled::As(format!("--{known}={truth}")),
            _ => Spelled::As(format!("--{known}={value}")),
        }
    }
}

/// The error for an unknown option with the name that is nearest, letters in the wrong order being one mistake, as it
/// is typed with `go tool pprof`.
pub(crate) fn suggesting(mut error: clap::Error) -> clap::Error {
    let typed = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(typed)) if error.kind() == ErrorKind::UnknownArgument => {
            typed.trim_start_matches('-').to_owned()
        }
        _ => return error,
    };
    let is_of_report = std::env::args_os().nth(1).is_some_and(|command| command == "report");
    let most = typed.len() / 3 + 1;
    let names = Declared::new().names;
    let nearest =
        names.iter().map(|name| (distance(&typed, name), name)).filter(|(distance, _)| *distance <= most).min();
    if let Some((_, name)) = nearest.filter(|_| is_of_report) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("-{name}")));
    }
    error
}

/// Letters to insert, remove, replace, or exchange with the next.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (i, j) in (0..=one.len()).flat_map(|i| (0..=other.len()).map(move |j| (i, j))) {
        if i == 0 || j == 0 {
            rows[i][j] = i + j;
            continue;
        }
        let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
        let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
        if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
            least = least.min(rows[i - 2][j - 2] + 1);
        }
        rows[i][j] = least;
    }
    rows[one.len()][other.len()]
}

/// A truth value as Go's flags take it.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use procprof_report::{OPTIONS, REPORTS};

    use super::*;

    #[test]
    fn one_dash_and_either_word_joint_do_where_the_name_is_known() {
        let spelled = |words: &str| {
            let arguments = words.split(' ').map(OsString::from);
            as_declared(arguments).iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let cases = [
            ("procprof report -top -cum -focus=a x", "procprof report --top --cum --focus=a x"),
            ("procprof report -o out --dot -mean x", "procprof report -o out --dot --mean x"),
            ("procprof report -oout -unknown -h x", "procprof report -oout --unknown -h x"),
            ("procprof report -tpo -V --odd -", "procprof report --tpo -V --odd -"),
            (
                "procprof report -top=true -svg=false -mean=0 -trim=T -focus=1 x",
                "procprof report --top --mean=false --trim=true --focus=1 x",
            ),
            (
                "procprof report --keep-allocators -sample-index=delay --debug_dir=/a_b-c x",
                "procprof report --keep_allocators --sample_index=delay --debug-dir=/a_b-c x",
            ),
            ("procprof report -no_cache -text x", "procprof report --no-cache --text x"),
            ("procprof report --no-such_option -", "procprof report --no-such_option -"),
            ("procprof report -- -top -svg=false", "procprof report -- -top -svg=false"),
            ("procprof collect -top", "procprof collect -top"),
        ];
        for (typed, meant) in cases {
            assert_eq!(spelled(typed), meant);
        }
    }

    #[test]
    fn letters_in_the_wrong_order_are_one_mistake() {
        let cases = [
            ("tpo", "top", 1),
            ("top", "top", 0),
            ("focsu", "focus", 1),
            ("peak", "peek", 1),
            ("", "svg", 3),
            ("ab", "ba", 1),
        ];
        for (one, other, expected) in cases {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn short_names_are_no_options_and_stand_for_options() {
        for short in SHORTS {
            assert!(
                !OPTIONS.iter().any(|row| row.key == short.flag)
                    && !REPORTS.iter().any(|report| report.name == short.flag)
            );
            assert!(short.options.iter().all(|(key, _)| OPTIONS.iter().any(|row| row.key == *key)));
        }
    }
}
