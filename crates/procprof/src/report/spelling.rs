//! Options of `report` as users of `go tool pprof` type them: with one dash, and its short names of kinds, granularities and sample types.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Args, Command};

use super::ReportArgs;

/// Other names of kinds.
const KIND_ALIASES: &[(&str, &str)] = &[("text", "top"), ("proto", "pprof")];

/// A flag that stands for options with values.
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

/// Commands of pprof that start another program, then options of jeprof that this grammar has not; and what to use in their place.
const ELSEWHERE: &[(&str, &str)] = &[
    ("web", "start procprof report with -http=:0, or write svg and open the file in a browser"),
    ("gv", "write dot and open the file with a viewer of graphs"),
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

/// The names of pprof's commands that are not done here.
pub(super) fn elsewhere() -> impl Iterator<Item = &'static str> {
    ELSEWHERE.iter().map(|(name, _)| *name)
}

/// What to use in place of a command of pprof's that is not done here.
pub(super) fn instead(command: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(name, _)| *name == command).map(|(_, instead)| *instead)
}

/// The options a short name stands for.
pub(super) fn stands_for(name: &str) -> Option<Vec<(&'static str, String)>> {
    let short = SHORTS.iter().find(|short| short.flag == name)?;
    Some(short.options.iter().map(|(key, value)| (*key, (*value).to_owned())).collect())
}

/// The values of an option that have a short name, if it is an option of such values alone.
pub(super) fn choices(key: &str) -> Vec<&'static str> {
    if key == "sample_index" {
        return Vec::new();
    }
    let own = SHORTS.iter().filter(|short| matches!(short.options, [(known, value)] if *known == key && *value == short.flag));
    let mut choices: Vec<&str> = own.map(|short| short.flag).collect();
    choices.sort_unstable();
    choices
}

/// The other name of a kind, if it has one.
pub(super) fn alias(kind: &str) -> Option<&'static str> {
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

/// The options that the short names given stand for.
pub(super) fn meant(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let given = SHORTS.iter().filter(|short| matches.get_flag(short.flag));
    given.flat_map(|short| short.options).map(|(key, value)| (*key, (*value).to_owned())).collect()
}

/// The command line with the options of `report` as they are declared: two dashes before a name, and in it dashes or underscores.
pub(crate) fn as_declared(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_none_or(|command| command != "report") {
        return arguments;
    }
    let options = options();
    for argument in arguments.iter_mut().skip(2).take_while(|argument| *argument != "--") {
        if let Some(spelled) = argument.to_str().and_then(|argument| spelled(argument, &options)) {
            *argument = spelled.into();
        }
    }
    arguments
}

/// One argument, if it is one of these options.
fn spelled(argument: &str, options: &[String]) -> Option<String> {
    let option = argument.strip_prefix('-')?;
    let option = option.strip_prefix('-').unwrap_or(option);
    let name = option.split('=').next()?;
    let dashed = |name: &str| name.replace('_', "-");
    let known = options.iter().find(|known| *known == name).or_else(|| options.iter().find(|known| dashed(known) == dashed(name)))?;
    Some(format!("--{known}{}", &option[name.len()..]))
}

/// Every long option of `report`.
fn options() -> Vec<String> {
    let command = ReportArgs::augment_args(Command::new("report")).arg(Arg::new("help").long("help"));
    let names = command.get_arguments().filter_map(Arg::get_long_and_visible_aliases).flatten();
    names.map(str::to_owned).collect()
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
            ("procprof report -oout -unknown -h x", "procprof report -oout -unknown -h x"),
            (
                "procprof report --keep-allocators -sample-index=delay --debug_dir=/a_b-c x",
                "procprof report --keep_allocators --sample_index=delay --debug-dir=/a_b-c x",
            ),
            ("procprof report -no_cache -text x", "procprof report --no-cache --text x"),
            ("procprof report --no-such_option -", "procprof report --no-such_option -"),
            ("procprof report -- -top", "procprof report -- -top"),
            ("procprof collect -top", "procprof collect -top"),
        ];
        for (typed, meant) in cases {
            assert_eq!(spelled(typed), meant);
        }
    }

    #[test]
    fn short_names_are_no_options_and_stand_for_options() {
        for short in SHORTS {
            assert!(!OPTIONS.iter().any(|row| row.key == short.flag) && !REPORTS.iter().any(|report| report.name == short.flag));
            assert!(short.options.iter().all(|(key, _)| OPTIONS.iter().any(|row| row.key == *key)));
        }
    }
}
