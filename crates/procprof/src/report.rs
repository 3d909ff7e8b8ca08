//! `procprof report`: any profile file, shown as any report.
//!
//! One flag per row of the report table chooses the kind, one flag per row of the option table is an option; both tables are
//! `procprof-report`'s, so a new report appears here by itself. With `--base` or `--diff_base` the profile is what it has more than those.

mod saved;
mod source;
mod sources;
mod spelling;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, ValueHint, value_parser};
use procprof_profile::Profile;
use procprof_report::{OPTIONS, OptionRow, Options, REPORTS, Report};
use procprof_symbolize::{Binary, BinaryRole};

use self::source::{Fetching, Origin};
use crate::fetch::{TlsFiles, write_over};

pub(crate) use spelling::with_two_dashes;

/// What `report` was asked for.
#[derive(Debug)]
pub(crate) struct ReportArgs {
    kind: &'static str,
    options: Vec<(&'static str, String)>,
    output: Option<PathBuf>,
    binary: Option<PathBuf>,
    base: Option<Base>,
    fetching: Fetching,
    profiles: Vec<PathBuf>,
}

/// What the profiles are compared with.
#[derive(Debug)]
struct Base {
    profiles: Vec<PathBuf>,
    /// Whether shares are of the base.
    is_measure: bool,
    /// Whether the profile is scaled to the base first.
    normalize: bool,
}

impl clap::Args for ReportArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let kinds = REPORTS.iter().map(kind_arg);
        let options = OPTIONS.iter().map(option_arg);
        command
            .arg(file_arg("output", "Write to this file; nothing is left there when it fails [default: standard output]").short('o'))
            .arg(file_arg(
                "binary",
                "The binary that was profiled, for addresses without names; marked when it can't be proven to be the one",
            ))
            .args(kinds)
            .args(base_args())
            .args(fetching_args())
            .group(ArgGroup::new("compared").args(["base", "diff_base"]))
            .args(options)
            .args(spelling::short_flags())
            .arg(
                Arg::new("profiles")
                    .required(true)
                    .num_args(1..)
                    .value_name("PROFILE")
                    .value_hint(ValueHint::FilePath)
                    .value_parser(value_parser!(PathBuf))
                    .help("Profiles: files in any format, plain or gzip'd, - for standard input, URLs or host:port of running processes; several are summed. The first of several may be the binary"),
            )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for ReportArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |report: &&Report| match report.takes_symbol() {
            true => matches.contains_id(report.name),
            false => matches.get_flag(report.name),
        };
        let report = REPORTS.iter().find(is_given);
        let option = |key: &'static str| matches.get_one::<String>(key).map(|value| (key, value.clone()));
        let symbol = report.filter(|report| report.takes_symbol()).and_then(|report| option(report.name));
        let mut options: Vec<_> = OPTIONS.iter().filter_map(|row| option(row.key)).collect();
        options.extend(spelling::meant(matches));
        options.extend(symbol.map(|(_, symbol)| ("symbol", symbol)));
        let paths = |id: &str| -> Vec<PathBuf> { matches.get_many(id).into_iter().flatten().cloned().collect() };
        let base = ["base", "diff_base"].into_iter().find(|id| matches.contains_id(id)).map(|id| Base {
            profiles: paths(id),
            is_measure: id == "diff_base",
            normalize: matches.get_flag("normalize"),
        });
        Ok(ReportArgs {
            kind: report.map_or("top", |report| report.name),
            options,
            output: matches.get_one("output").cloned(),
            binary: matches.get_one("binary").cloned(),
            base,
            fetching: fetching(matches),
            profiles: paths("profiles"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Renders the report and writes it out.
pub(crate) fn run(arguments: &ReportArgs) -> Result<()> {
    let report = Report::named(arguments.kind)?;
    let options = Options::parse(arguments.options.iter().map(|(key, value)| (*key, value.as_str())))?;
    let (binary, files) = binary_and_profiles(arguments)?;
    let naming = |profile, origin: Option<Origin<'_>>| symbolized(profile, binary, origin);
    let profile = source::load(files, arguments.base.as_ref(), &arguments.fetching, &naming)?;
    let sources = sources::read(report, &profile, &options)?;
    let bytes = report.render(&profile, &options, &sources)?;
    match &arguments.output {
        Some(path) => write_over(path, &bytes).with_context(|| format!("write {}", path.display())),
        None => print(&bytes).context("write to standard output"),
    }
}

/// A flag for a kind; peek and list take the functions they are about.
fn kind_arg(report: &Report) -> Arg {
    let others: Vec<&str> = REPORTS.iter().map(|other| other.name).filter(|other| *other != report.name).collect();
    let arg = Arg::new(report.name).long(report.name).help(report.help).help_heading("Reports").conflicts_with_all(others);
    let arg = if report.takes_symbol() { arg.value_name("REGEX") } else { arg.action(ArgAction::SetTrue) };
    match spelling::alias(report.name) {
        Some(alias) => arg.visible_alias(alias),
        None => arg,
    }
}

/// A flag for a report option; a switch is on without a value.
fn option_arg(row: &OptionRow) -> Arg {
    let arg = Arg::new(row.key).long(row.key).help(row.help).value_name("VALUE").help_heading("Report options");
    let arg = if row.default.is_empty() { arg } else { arg.help(format!("{} [default: {}]", row.help, row.default)) };
    let is_switch = ["true", "false"].contains(&row.default);
    if is_switch { arg.num_args(0..=1).require_equals(true).default_missing_value("true") } else { arg }
}

fn base_args() -> [Arg; 3] {
    let base = |name, help| file_arg(name, help).action(ArgAction::Append).help_heading("Comparing");
    [
        base("base", "Show what the profile has more than this one; may be given several times"),
        base("diff_base", "As --base, with shares of the base instead of the difference"),
        Arg::new("normalize")
            .long("normalize")
            .help("Scale the profile first so that it adds up to the base")
            .requires("compared")
            .action(ArgAction::SetTrue)
            .help_heading("Comparing"),
    ]
}

fn fetching_args() -> [Arg; 5] {
    let arg = |name: &'static str, value, help| Arg::new(name).long(name).value_name(value).help(help).help_heading("Running processes");
    let number = |name, help| arg(name, "N", help).value_parser(value_parser!(u32).range(1..=86_400));
    let file = |name, help| arg(name, "FILE", help).value_hint(ValueHint::FilePath).value_parser(value_parser!(PathBuf));
    [
        number("seconds", "Seconds to profile for"),
        number("timeout", "Seconds to wait for the profile [default: one and a half times those to profile for, else 60]"),
        file("tls_ca", "Certificates (PEM) to trust instead of the system's"),
        file("tls_cert", "Certificate (PEM) to show to the process"),
        file("tls_key", "Key (PEM) of that certificate"),
    ]
}

fn fetching(matches: &ArgMatches) -> Fetching {
    let number = |id: &str| matches.get_one(id).copied().unwrap_or(0);
    let file = |id: &str| matches.get_one(id).cloned();
    Fetching {
        seconds: number("seconds"),
        timeout: number("timeout"),
        tls: TlsFiles { ca: file("tls_ca"), cert: file("tls_cert"), key: file("tls_key") },
        names: true,
    }
}

/// The binary, by its flag or as the first of several files, and the profiles.
fn binary_and_profiles(arguments: &ReportArgs) -> Result<(Option<&Path>, &[PathBuf])> {
    match arguments.profiles.as_slice() {
        [first, rest @ ..] if !rest.is_empty() && is_elf(first) => match &arguments.binary {
            Some(binary) => bail!("two binaries: {} and {}", binary.display(), first.display()),
            None => Ok((Some(first), rest)),
        },
        profiles => Ok((arguments.binary.as_deref(), profiles)),
    }
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok_and(|()| magic == *b"\x7fELF")
}

fn file_arg(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").value_hint(ValueHint::FilePath).value_parser(value_parser!(PathBuf)).help(help)
}

/// Prints; a reader that has seen enough and is gone is no failure.
fn print(bytes: &[u8]) -> std::io::Result<()> {
    match std::io::stdout().write_all(bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Names what has addresses only, from `binary`, from files of this machine whose build ids prove them, and from the process itself, if
/// it is known; what stays unnamed then is told when all profiles are joined.
fn symbolized(profile: Profile, binary: Option<&Path>, origin: Option<Origin<'_>>) -> Result<Profile> {
    let binaries = binary.map(|path| Binary { path: path.to_owned(), role: BinaryRole::Main });
    let mut sources = procprof_symbolize::Sources { binaries: binaries.into_iter().collect(), ..Default::default() };
    let is_part = origin.is_some();
    if let Some(origin) = origin {
        (sources.fetch, sources.process) = (origin.names, origin.process);
    }
    let (profile, outcome) = procprof_symbolize::symbolize_profile(profile, &mut sources).context("symbolize")?;
    if let Some(error) = &outcome.remote_error {
        eprintln!("procprof: the process was asked for names: {error}");
    }
    if is_part {
        return Ok(profile);
    }
    if outcome.is_unverified() {
        eprintln!("procprof: unverified: nothing proves that the binary given is the one profiled");
    }
    for wanted in outcome.wanted() {
        let build_id = if wanted.build_id.is_empty() { String::new() } else { format!(" with build id {}", wanted.build_id) };
        eprintln!("procprof: names are missing from {}{build_id}; give the file by --binary", wanted.filename);
    }
    Ok(profile)
}
