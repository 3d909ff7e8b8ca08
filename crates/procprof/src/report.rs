//! `procprof report`: renders profiles of any format as any report.
//!
//! The flags of reports and of their options are made from the tables of `procprof-report`, so a new report needs no
//! change here. With `--base` or `--diff_base`, the report shows a difference.

mod code;
mod compatible;
mod naming;
mod perf;
mod saved;
mod shell;
mod source;
mod sources;
pub(crate) mod spelling;
mod web;

use std::borrow::Cow;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use self::compatible::Compatible;
use self::naming::Naming;
use self::source::{Fetching, Origin};
use self::sources::Reach;
use self::web::Web;
use crate::fetch::TlsFiles;
use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, ValueHint, value_parser};
use procprof_process::Identity;
use procprof_profile::Profile;
use procprof_profile::diff::{self, Scaling};
use procprof_profile::format::FORMATS;
use procprof_report::{Error, OPTIONS, OptionRow, Options, REPORTS, Report, Sources};
use procprof_server::ReportServer;
use procprof_symbolize::ProvenFile;

pub(crate) use naming::cache;
pub(crate) use spelling::{as_declared, suggesting};

/// Rows of the table that `record` prints at its end.
const TERMINAL_ROWS: &str = "25";

/// The command line of `report`.
#[derive(Debug)]
pub(crate) struct ReportArgs {
    /// The report; `None` if the command line names none.
    kind: Option<&'static str>,
    options: Vec<(&'static str, String)>,
    output: Option<PathBuf>,
    naming: Naming,
    compatible: Compatible,
    base: Option<Base>,
    fetching: Fetching,
    web: Option<Web>,
    profiles: Vec<PathBuf>,
}

/// The base of a comparison.
#[derive(Clone, Debug)]
struct Base {
    profiles: Vec<PathBuf>,
    /// Whether percentages are of the base.
    is_measure: bool,
    /// How the profile is scaled to the base first.
    scaling: Scaling,
}

impl clap::Args for ReportArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let kinds = REPORTS.iter().map(kind_arg);
        let options = OPTIONS.iter().map(option_arg);
        command
            .args_override_self(true)
            .arg(
                file_arg(
                    "output",
                    "Write to this file; it is written only if the report succeeds [default: standard output]",
                )
                .short('o'),
            )
            .args(Naming::args())
            .args(Compatible::args())
            .args(kinds)
            .arg(event_arg())
            .args(base_args())
            .args(fetching_args())
            .args(web_args())
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
                    .help(
                        "Profiles: files in any format, plain or compressed, - for standard input, URLs or host:port of running \
                        processes; several are merged. The first of several may be the binary",
                    ),
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
        compatible::refuse_elsewhere(matches)?;
        let report = REPORTS.iter().find(is_given);
        let option = |key: &'static str| {
            matches.get_one::<String>(key).map(|value| (matches.index_of(key).unwrap_or_default(), key, value.clone()))
        };
        let symbol = report.filter(|report| report.takes_symbol()).and_then(|report| option(report.name));
        let mut given: Vec<_> = OPTIONS.iter().filter_map(|row| option(row.key)).collect();
        given.extend(spelling::meant(matches));
        given.extend(symbol.map(|(place, _, symbol)| (place, "symbol", symbol)));
        let options = last_of_each(given);
        let paths = |id: &str| -> Vec<PathBuf> { matches.get_many(id).into_iter().flatten().cloned().collect() };
        let base = ["base", "diff_base"].into_iter().find(|id| matches.contains_id(id)).map(|id| Base {
            profiles: paths(id),
            is_measure: id == "diff_base",
            // Other words are no options, which is found when these are parsed.
            scaling: match matches.get_one::<String>(NORMALIZE).map(String::as_str) {
                Some("true") => Scaling::SameTotal,
                Some("time") => Scaling::SameTime,
                _ => Scaling::AsMeasured,
            },
        });
        Ok(ReportArgs {
            kind: report.map(|report| report.name),
            options,
            output: matches.get_one("output").cloned(),
            naming: Naming::from_matches(matches),
            compatible: Compatible::from_matches(matches),
            base,
            fetching: fetching(matches),
            web: matches
                .get_one::<String>("http")
                .map(|address| Web { address: address.clone(), opens_browser: !matches.get_flag("no_browser") }),
            profiles: paths("profiles"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The options by key. Of several with one key, such as `-cum -flat`, the last one counts, as with `go tool pprof`.
fn last_of_each(mut given: Vec<(usize, &'static str, String)>) -> Vec<(&'static str, String)> {
    given.sort_by_key(|(place, ..)| *place);
    let mut options: Vec<(&'static str, String)> = Vec::new();
    for (_, key, value) in given {
        options.retain(|(known, _)| *known != key);
        options.push((key, value));
    }
    options
}

/// Renders the report and writes it; on a terminal, without a report on the command line, starts a session.
pub(crate) fn run(arguments: &ReportArgs) -> Result<()> {
    let report = Report::named(arguments.kind.unwrap_or("top"))?;
    let options = Options::parse(arguments.options.iter().map(|(key, value)| (*key, value.as_str())))?;
    let (program, files) = program_and_profiles(arguments);
    let naming = |profile, origin: Option<Origin<'_>>| {
        let profile = if origin.is_none() { arguments.compatible.applied(profile)? } else { profile };
        if !arguments.compatible.names() {
            return Ok(profile);
        }
        arguments.compatible.styled(arguments.naming.symbolized(profile, program, origin)?)
    };
    // The flame graph shows both sides of a difference, so the samples of the base are marked.
    let shows_both = arguments.web.is_some() || arguments.kind == Some("html");
    let base = arguments.base.as_ref().map(|base| Base { is_measure: base.is_measure || shows_both, ..base.clone() });
    let profile = source::load(files, base.as_ref(), &arguments.fetching, &naming)?;
    if let Some(web) = &arguments.web {
        let server = report_server(arguments, profile, arguments.naming.binaries(program), Reach::of_pages(&options))?;
        return web.serve(server);
    }
    let is_session = arguments.kind.is_none() && arguments.output.is_none();
    if is_session && std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return shell::run(&profile, arguments.options.clone(), arguments.naming.binaries(program));
    }
    let sources = sources_of(report, &profile, &options, &arguments.naming.binaries(program), &Reach::Anywhere)?;
    write(report, profile, &options, &sources, arguments.output.as_deref())
}

/// Writes the report to the file, else to standard output. Standard error has what its format cannot say.
fn write(report: &Report, profile: Profile, options: &Options, sources: &Sources, output: Option<&Path>) -> Result<()> {
    let unstated = report.unstated(&profile, options)?;
    match output {
        Some(path) => {
            let content = |file: &mut std::fs::File| -> Result<()> {
                Ok(report.write(Cow::Owned(profile), options, sources, file)?)
            };
            procprof_files::write_over_by(path, content).with_context(|| format!("write {}", path.display()))?;
        }
        None => print(report, profile, options, sources)?,
    }
    if let Some(unstated) = unstated {
        eprintln!("procprof: {unstated}");
    }
    Ok(())
}

/// The server of the web pages of a profile, or of a difference whose base is labelled.
fn report_server(
    arguments: &ReportArgs,
    profile: Profile,
    binaries: Vec<PathBuf>,
    reach: Reach,
) -> Result<ReportServer> {
    let compared = diff::split(&profile)?;
    let profile = match (&arguments.base, &compared) {
        (Some(Base { is_measure: false, .. }), Some((profile, base))) => diff::diff(base, profile)?,
        _ => profile,
    };
    let name = match arguments.profiles.as_slice() {
        [] => String::new(),
        [.., last] if arguments.profiles.len() <= 2 => last.display().to_string(),
        [first, others @ ..] => format!("{} and {} others", first.display(), others.len()),
    };
    Ok(ReportServer {
        name,
        profile,
        compared,
        options: arguments.options.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        sources: Box::new(move |report, profile, options| sources_of(report, profile, options, &binaries, &reach)),
    })
}

/// A report of profile files, for `procprof jeprof`.
pub(crate) fn of_files(
    kind: &str,
    options: &[(&'static str, String)],
    binary: Option<&Path>,
    profiles: Vec<PathBuf>,
    base: Option<PathBuf>,
) -> Result<Vec<u8>> {
    let report = Report::named(kind)?;
    let options = Options::parse(options.iter().map(|(key, value)| (*key, value.as_str())))?;
    let base = base.map(|base| Base { profiles: vec![base], is_measure: false, scaling: Scaling::AsMeasured });
    let naming = Naming::plain();
    let named = |profile, origin: Option<Origin<'_>>| naming.symbolized(profile, binary, origin);
    let profile = source::load(&profiles, base.as_ref(), &Fetching::default(), &named)?;
    rendered(report, Cow::Owned(profile), &options, &naming.binaries(binary))
}

/// Names the addresses of a profile that was just recorded on this machine.
pub(crate) fn named_here(profile: Profile, files: &[ProvenFile], process: Option<Identity>) -> Result<Profile> {
    Naming::plain().of_this_boot(profile, files, process)
}

/// Writes a symbolized profile as a report: to a file, by default as pprof, or else to standard output. With neither
/// file nor report, saves the profile where fetched ones are saved, and prints the table of functions.
pub(crate) fn show(profile: Profile, kind: Option<&str>, output: Option<&Path>) -> Result<()> {
    let of_terminal = [("nodecount", TERMINAL_ROWS)];
    let options = match (kind, output) {
        (None, None) => Options::parse(of_terminal)?,
        _ => Options::default(),
    };
    let report = Report::named(kind.unwrap_or(if output.is_some() { "pprof" } else { "top" }))?;
    let sources = sources_of(report, &profile, &options, &[], &Reach::Anywhere)?;
    let kept = if kind.is_none() && output.is_none() { saved::save(&profile) } else { None };
    write(report, profile, &options, &sources, output)?;
    if let Some(path) = kept {
        eprintln!("Flame graph: procprof report -http=: {}", path.display());
    }
    Ok(())
}

/// Serves the pages of a profile with names, as `-http` does, until the process is signalled to end. The profile is kept
/// where fetched ones are.
pub(crate) fn serve(profile: Profile, name: String) -> Result<()> {
    saved::save(&profile);
    let reach = Reach::of_pages(&Options::default());
    let server = ReportServer {
        name,
        profile,
        compared: None,
        options: Vec::new(),
        sources: Box::new(move |report, profile, options| sources_of(report, profile, options, &[], &reach)),
    };
    Web { address: ":".to_owned(), opens_browser: true }.serve(server)
}

/// The report, with the sources and the machine code of this machine that it shows.
fn rendered(report: &Report, profile: Cow<'_, Profile>, options: &Options, binaries: &[PathBuf]) -> Result<Vec<u8>> {
    let sources = sources_of(report, &profile, options, binaries, &Reach::Anywhere)?;
    let mut bytes = Vec::new();
    report.write(profile, options, &sources, &mut bytes)?;
    Ok(bytes)
}

fn sources_of(
    report: &Report,
    profile: &Profile,
    options: &Options,
    binaries: &[PathBuf],
    reach: &Reach,
) -> procprof_report::Result<Sources> {
    let mut sources = sources::read(report, profile, options, reach)?;
    code::read(report, profile, options, binaries, &mut sources)?;
    Ok(sources)
}

/// The flag of a report; reports about functions, such as `peek` and `list`, take a regular expression.
fn kind_arg(report: &Report) -> Arg {
    let others: Vec<&str> = REPORTS.iter().map(|other| other.name).filter(|other| *other != report.name).collect();
    let arg =
        Arg::new(report.name).long(report.name).help(report.help).help_heading("Reports").conflicts_with_all(others);
    let arg = if report.takes_symbol() { arg.value_name("REGEX") } else { arg.action(ArgAction::SetTrue) };
    match spelling::alias(report.name) {
        Some(alias) => arg.visible_alias(alias),
        None => arg,
    }
}

/// The report option that needs a base, and its help on this command line.
const NORMALIZE: &str = "normalize";
const SCALED: &str =
    "Scale the profile first so that it adds up to the base; with =time, to the time the base measured";

/// The flag of a report option; a switch without a value is on.
fn option_arg(row: &OptionRow) -> Arg {
    let arg = Arg::new(row.key).long(row.key).help(row.help).value_name("VALUE").help_heading("Report options");
    let arg = if row.default.is_empty() { arg } else { arg.help(format!("{} [default: {}]", row.help, row.default)) };
    let arg = if row.key == NORMALIZE { arg.requires("compared").help(SCALED).help_heading("Comparing") } else { arg };
    let is_switch = ["true", "false"].contains(&row.default);
    if is_switch { arg.num_args(0..=1).require_equals(true).default_missing_value("true") } else { arg }
}

fn base_args() -> [Arg; 2] {
    let base = |name, help| file_arg(name, help).action(ArgAction::Append).help_heading("Comparing");
    [
        base("base", "Subtract this profile; may be given several times"),
        base("diff_base", "As --base, with percentages of the base instead of the difference"),
    ]
}

fn fetching_args() -> [Arg; 5] {
    let arg = |name: &'static str, value, help| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading("Running processes")
    };
    let number = |name, help| arg(name, "N", help).value_parser(value_parser!(u32).range(1..=86_400));
    let file =
        |name, help| arg(name, "FILE", help).value_hint(ValueHint::FilePath).value_parser(value_parser!(PathBuf));
    [
        number("seconds", "Seconds to profile for"),
        number("timeout", "Seconds to wait for the profile [default: 1.5 times the seconds to profile for, else 60]"),
        file("tls_ca", "Certificates (PEM) to trust instead of the system's: of authorities, or of the process itself"),
        file("tls_cert", "Client certificate (PEM)"),
        file("tls_key", "Private key (PEM) of the client certificate"),
    ]
}

fn event_arg() -> Arg {
    let formats: Vec<&str> =
        FORMATS.iter().filter(|format| format.events.is_some()).map(|format| format.name).collect();
    let help = format!(
        "Event whose profile is shown, for files with a profile per event ({}): for jfr cpu, wall, alloc, lock, live, \
         nativemem, nativelock, native or trace, otherwise as named in the file [default: the first that has samples]",
        formats.join(", ")
    );
    Arg::new("event").long("event").value_name("EVENT").help(help)
}

fn web_args() -> [Arg; 2] {
    let kinds = REPORTS.iter().map(|report| report.name).chain(["output"]);
    let arg = |name: &'static str, help| Arg::new(name).long(name).help(help).help_heading("In the browser");
    [
        arg(
            "http",
            "Serve the profile as web pages at host:port; without a host on loopback only, without a port on a free one",
        )
        .value_name("ADDR")
        .require_equals(false)
        .conflicts_with_all(kinds),
        arg("no_browser", "Do not open a browser").action(ArgAction::SetTrue).requires("http"),
    ]
}

fn fetching(matches: &ArgMatches) -> Fetching {
    let number = |id: &str| matches.get_one(id).copied().unwrap_or(0);
    let file = |id: &str| matches.get_one(id).cloned();
    Fetching {
        event: matches.get_one("event").cloned(),
        seconds: number("seconds"),
        timeout: number("timeout"),
        tls: TlsFiles { ca: file("tls_ca"), cert: file("tls_cert"), key: file("tls_key") },
        names: matches.get_one::<String>("symbolize").is_none_or(|mode| !mode.ends_with("local")),
    }
}

/// The program, if it is the first of several files, and the profiles.
fn program_and_profiles(arguments: &ReportArgs) -> (Option<&Path>, &[PathBuf]) {
    match arguments.profiles.as_slice() {
        [first, rest @ ..] if !rest.is_empty() && is_elf(first) => (Some(first), rest),
        profiles => (None, profiles),
    }
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok_and(|()| magic == *b"\x7fELF")
}

fn file_arg(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FILE")
        .value_hint(ValueHint::FilePath)
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

/// Prints the report while it is rendered; a closed pipe is no failure.
fn print(report: &Report, profile: Profile, options: &Options, sources: &Sources) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let is_gone = |kind: std::io::ErrorKind| kind == std::io::ErrorKind::BrokenPipe;
    match report.write(Cow::Owned(profile), options, sources, &mut out) {
        Err(Error::Write { kind, .. }) if is_gone(kind) => return Ok(()),
        Err(error @ Error::Write { .. }) => return Err(error).context("write to standard output"),
        written => written?,
    }
    match out.flush() {
        Err(error) if is_gone(error.kind()) => Ok(()),
        flushed => flushed.context("write to standard output"),
    }
}
