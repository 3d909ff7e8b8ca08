//! `procprof report`: any profile file, shown as any report.
//!
//! One flag per row of the report table chooses the kind, one flag per row of the option table is an option; both tables are
//! `procprof-report`'s, so a new report appears here by itself.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, ValueHint, value_parser};
use procprof_profile::{Grammar, Profile, format, merge};
use procprof_report::{OPTIONS, Options, REPORTS, Report, Sources};
use procprof_symbolize::{Binary, BinaryRole};

/// Largest profile file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What `report` was asked for.
#[derive(Debug)]
pub(crate) struct ReportArgs {
    kind: &'static str,
    options: Vec<(&'static str, String)>,
    output: Option<PathBuf>,
    binary: Option<PathBuf>,
    profiles: Vec<PathBuf>,
}

impl clap::Args for ReportArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let kinds = REPORTS.iter().map(|report| {
            Arg::new(report.name)
                .long(report.name)
                .help(report.help)
                .action(ArgAction::SetTrue)
                .help_heading("Reports")
                .conflicts_with_all(REPORTS.iter().map(|other| other.name).filter(|other| *other != report.name).collect::<Vec<_>>())
        });
        let options = OPTIONS.iter().map(|row| {
            let arg = Arg::new(row.key).long(row.key).help(row.help).value_name("VALUE").help_heading("Report options");
            if row.default.is_empty() { arg } else { arg.help(format!("{} [default: {}]", row.help, row.default)) }
        });
        command
            .arg(file_arg("output", "Write to this file; nothing is left there when it fails [default: standard output]").short('o'))
            .arg(file_arg(
                "binary",
                "The binary that was profiled, for addresses without names; marked when it can't be proven to be the one",
            ))
            .args(kinds)
            .args(options)
            .arg(
                Arg::new("profiles")
                    .required(true)
                    .num_args(1..)
                    .value_name("PROFILE")
                    .value_hint(ValueHint::FilePath)
                    .value_parser(value_parser!(PathBuf))
                    .help("Profile files in any format, plain or gzip'd; several are summed"),
            )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for ReportArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let kind = REPORTS.iter().find(|report| matches.get_flag(report.name)).map_or("top", |report| report.name);
        let option = |key: &'static str| matches.get_one::<String>(key).map(|value| (key, value.clone()));
        Ok(ReportArgs {
            kind,
            options: OPTIONS.iter().filter_map(|row| option(row.key)).collect(),
            output: matches.get_one("output").cloned(),
            binary: matches.get_one("binary").cloned(),
            profiles: matches.get_many("profiles").into_iter().flatten().cloned().collect(),
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
    let profiles = arguments.profiles.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
    let profile = match profiles.as_slice() {
        [one] => one.clone(),
        several => merge::merge(&several.iter().collect::<Vec<_>>()).context("sum the profiles")?,
    };
    let profile = symbolized(profile, arguments.binary.as_deref())?;
    let bytes = report.render(&profile, &options, &Sources::default())?;
    match &arguments.output {
        Some(path) => write_whole(path, &bytes).with_context(|| format!("write {}", path.display())),
        None => std::io::stdout().write_all(&bytes).context("write to standard output"),
    }
}

fn file_arg(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").value_hint(ValueHint::FilePath).value_parser(value_parser!(PathBuf)).help(help)
}

fn read(path: &Path) -> Result<Profile> {
    let size = std::fs::metadata(path).with_context(|| format!("open {}", path.display()))?.len();
    if size > FILE_BYTES_MAX {
        bail!("{}: {size} bytes, at most {FILE_BYTES_MAX} are read", path.display());
    }
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let decoded = format::decode(&bytes, &format::Limits::default()).with_context(|| format!("decode {}", path.display()))?;
    for warning in &decoded.warnings {
        eprintln!("procprof: {}: {warning}", path.display());
    }
    decoded.profile.adjusted(Grammar::Pprof).with_context(|| format!("read {} by pprof's rules", path.display()))
}

/// Names what has addresses only, from `binary` and from files of this machine whose build ids prove them.
fn symbolized(profile: Profile, binary: Option<&Path>) -> Result<Profile> {
    let binaries = binary.map(|path| Binary { path: path.to_owned(), role: BinaryRole::Main });
    let mut sources = procprof_symbolize::Sources { binaries: binaries.into_iter().collect(), ..Default::default() };
    let (profile, outcome) = procprof_symbolize::symbolize_profile(profile, &mut sources).context("symbolize")?;
    if outcome.is_unverified() {
        eprintln!("procprof: unverified: nothing proves that the binary given is the one profiled");
    }
    for wanted in outcome.wanted() {
        let build_id = if wanted.build_id.is_empty() { String::new() } else { format!(" with build id {}", wanted.build_id) };
        eprintln!("procprof: names are missing from {}{build_id}; give the file by --binary", wanted.filename);
    }
    Ok(profile)
}

/// Writes beside the target and renames, so that a failure leaves what was there.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // The write's own error is what the user must see; a leftover that can't be removed is not.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
