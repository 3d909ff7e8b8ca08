//! `procprof archive`: profiles as Parquet files that other engines read.

mod ddl;
mod load;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand, ValueHint};
use procprof_archive::{Archive, BucketLimits, CompactLimits, Environment, Hour, Place, ReadLimits, Selection, Span};
use procprof_profile::format::pprof;
use procprof_profile::{Nanos, ProfileType};
use procprof_server::config::value::{Value, byte_count};
use procprof_server::{Config, archive_writer, compact, export, rebuild, verify};
use procprof_store::{Store, StoreOptions};

use self::ddl::Engine;
use self::load::LoadArgs;
use crate::output::print;

/// Findings and failures that are printed, at most.
const SHOWN_MAX: usize = 20;

#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Archive the profiles of a data folder that the archive does not have; exits with status 1 when some cannot be.
    /// The server must not run
    Export(ExportArgs),
    /// Show what an archive has: profiles, bytes, cost by hour
    Stats(StatsArgs),
    /// Read an archive through and compare its tables with each other, and with --data the sums with those of the
    /// profiles that are still there; exits with status 1 when something is wrong
    Verify(VerifyArgs),
    /// Replace the parts in which `verify` finds something wrong by what a data folder still has of them; exits with
    /// status 1 when one has to stay. The server must not run
    Rebuild(RebuildArgs),
    /// Write the sum of archived profiles as pprof
    Merge(MergeArgs),
    /// Merge the parts of each closed day, and drop what exceeds the limits; one at a time, and it may be killed at any
    /// moment. Exits with status 1 when a part cannot be read
    Compact(CompactArgs),
    /// Load the parts of an archive that a database does not have into its tables, and remove those that the archive
    /// has no more; exits with status 1 when some cannot be loaded. It may be killed at any moment
    Load(LoadArgs),
    /// Print the statements that make the views of docs/engines.md over an archive, for another engine
    Ddl(DdlArgs),
}

/// Options of `archive export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Folder of the profiles [default: procprof-data]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<PathBuf>,
    /// Folder of the archive, created if it is missing; or s3://bucket/prefix, gs://… or az://…, with credentials from
    /// the environment
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    archive: PathBuf,
}

/// Options of `archive stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Folder of the archive, or s3://bucket/prefix, gs://… or az://…, with credentials from the environment
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    archive: PathBuf,
}

/// Options of `archive verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Folder of profiles to compare with; the server must not run
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<PathBuf>,
    /// Folder of the archive, or s3://bucket/prefix, gs://… or az://…, with credentials from the environment
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    archive: PathBuf,
}

/// Options of `archive rebuild`.
#[derive(Debug, Args)]
pub(crate) struct RebuildArgs {
    /// Folder of the profiles [default: procprof-data]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<PathBuf>,
    /// Take parts out whose profiles the data folder does not have, too. Where several servers share the archive, do it
    /// on the last of them
    #[arg(long)]
    drop_missing: bool,
    /// Folder of the archive, or s3://bucket/prefix, gs://… or az://…, with credentials from the environment
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    archive: PathBuf,
}

/// Options of `archive merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The type of the profiles
    #[arg(long = "type", value_name = "TYPE", default_value = "cpu")]
    profile_type: String,
    /// Complete at this time or later, for example 2026-11-24T15:00:00Z, or the date alone (UTC)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<jiff::Timestamp>,
    /// Complete before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<jiff::Timestamp>,
    /// Name or id of a node; may be given several times
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// File to write; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Folder of the archive, or s3://bucket/prefix, gs://… or az://…, with credentials from the environment
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    archive: PathBuf,
}

/// Options of `archive compact`.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// Days that are kept, without today (UTC); 0 for no limit
    #[arg(long, value_name = "N")]
    days_max: Option<u32>,
    /// Bytes that are kept, for example "20 GiB"; the oldest hours and days are dropped; 0 for no limit
    #[arg(long, value_name = "N", value_parser = bytes)]
    bytes_max: Option<u64>,
    /// Time for which replaced files stay, so that queries that read them can end; the command waits for it
    #[arg(long, value_name = "N", default_value_t = 60)]
    grace_seconds: u32,
    /// Time for which a compaction that was killed keeps others away
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    lease_seconds: u32,
    /// Folder of the archive, or s3://bucket/prefix, gs://… or az://…, with credentials from the environment
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    archive: PathBuf,
}

/// Options of `archive ddl`.
#[derive(Debug, Args)]
pub(crate) struct DdlArgs {
    /// Also print ten statements that ask
    #[arg(long)]
    statements: bool,
    /// The engine
    #[arg(value_name = "ENGINE", value_enum)]
    engine: Engine,
    /// Folder of the archive, or s3://bucket/prefix, gs://… or az://…, as the engine is to read it
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    archive: PathBuf,
}

pub(crate) fn run(command: &ArchiveCommand) -> Result<ExitCode> {
    match command {
        ArchiveCommand::Export(arguments) => run_export(arguments),
        ArchiveCommand::Stats(arguments) => stats(arguments),
        ArchiveCommand::Verify(arguments) => run_verify(arguments),
        ArchiveCommand::Rebuild(arguments) => run_rebuild(arguments),
        ArchiveCommand::Merge(arguments) => merge(arguments),
        ArchiveCommand::Compact(arguments) => run_compact(arguments),
        ArchiveCommand::Load(arguments) => load::run(arguments),
        ArchiveCommand::Ddl(arguments) => {
            let text = ddl::ddl(arguments.engine, &place(&arguments.archive)?, arguments.statements)?;
            print(text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A time with its zone or offset, a time in UTC, or the first moment of a date there.
fn moment(text: &str) -> std::result::Result<jiff::Timestamp, String> {
    let in_utc = || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let found = text.parse().ok().or_else(|| in_utc().map(|time| time.timestamp()));
    found.ok_or_else(|| "expected a time, such as 2026-11-24T15:00:00Z, or a date".to_owned())
}

fn bytes(text: &str) -> std::result::Result<u64, String> {
    byte_count(&Value::Text(text.to_owned()))
}

/// Where an archive is. A text that is refused is not shown, since it may have a password.
fn place(archive: &Path) -> Result<Place> {
    match archive.to_str() {
        Some(text) => Ok(text.parse()?),
        None => Ok(Place::Folder(archive.to_owned())),
    }
}

fn opened(archive: &Path) -> Result<Archive> {
    let objects = place(archive)?.open(&Environment::of_process(), BucketLimits::default())?;
    Ok(Archive::new(objects, ReadLimits::default()))
}

fn run_export(arguments: &ExportArgs) -> Result<ExitCode> {
    let data = arguments.data.clone().unwrap_or_else(|| Config::defaults().data);
    ensure!(data.is_dir(), "{} is no folder", data.display());
    let store = Store::open(&data, StoreOptions::default())?;
    let place = place(&arguments.archive)?;
    let objects = place.create(&Environment::of_process(), BucketLimits::default())?;
    let archive = Archive::new(objects, ReadLimits::default());
    let done = export(&store, &archive, archive_writer(&data)?, None).with_context(|| format!("export to {place}"))?;
    let mut line = format!("{} profiles archived in {} bytes", done.written.profiles, done.written.bytes);
    if let Some(each) = done.written.bytes.checked_div(done.written.profiles) {
        line.push_str(&format!(", {each} each"));
    }
    line.push_str(&format!("; {} already there", done.already_there));
    if done.no_profiles > 0 {
        line.push_str(&format!("; {} pages and recordings left out", done.no_profiles));
    }
    println!("{line}");
    Ok(report("failed", &done.failed))
}

fn run_verify(arguments: &VerifyArgs) -> Result<ExitCode> {
    let archive = opened(&arguments.archive)?;
    let store = match &arguments.data {
        Some(data) if !data.is_dir() => bail!("{} is no folder", data.display()),
        Some(data) => Some(Store::open(data, StoreOptions::default())?),
        None => None,
    };
    let found = verify(&archive, store.as_ref())?;
    println!(
        "{} profiles with {} values in {} parts; {} compared with their files; {} wrong",
        found.profiles,
        found.rows,
        found.parts,
        found.compared,
        found.wrong.len()
    );
    if found.replaced > 0 {
        println!("{} parts are replaced; the next compaction removes them", found.replaced);
    }
    if found.unfinished > 0 {
        println!("{} parts are unfinished: their samples belong to no profile", found.unfinished);
    }
    Ok(report("wrong", &found.wrong))
}

fn run_rebuild(arguments: &RebuildArgs) -> Result<ExitCode> {
    let data = arguments.data.clone().unwrap_or_else(|| Config::defaults().data);
    ensure!(data.is_dir(), "{} is no folder", data.display());
    let archive = opened(&arguments.archive)?;
    let store = Store::open(&data, StoreOptions::default())?;
    let done = rebuild(&store, &archive, archive_writer(&data)?, arguments.drop_missing)?;
    report("wrong", &done.wrong);
    let written = done.exported.written;
    println!(
        "{} parts read; {} at fault, {} of them replaced; {} profiles archived anew in {} bytes",
        done.parts,
        done.withdrawn + done.kept.len() as u64,
        done.withdrawn,
        written.profiles,
        written.bytes
    );
    if done.dropped > 0 {
        println!("{} profiles dropped, which the data folder does not have", done.dropped);
    }
    let failed = report("failed", &done.exported.failed);
    let kept = report("stays", &done.kept);
    Ok(if failed == ExitCode::SUCCESS { kept } else { failed })
}

/// Prints findings; they make the status 1.
fn report(what: &str, findings: &[String]) -> ExitCode {
    for finding in findings.iter().take(SHOWN_MAX) {
        eprintln!("{what}: {finding}");
    }
    if findings.len() > SHOWN_MAX {
        eprintln!("{what}: {} more", findings.len() - SHOWN_MAX);
    }
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn stats(arguments: &StatsArgs) -> Result<ExitCode> {
    let archive = opened(&arguments.archive)?;
    let parts = archive.parts()?;
    let mut hours: std::collections::BTreeMap<(Hour, Span), (u64, u64)> = std::collections::BTreeMap::new();
    let mut failed = Vec::new();
    for (part, bytes) in &parts.whole {
        let profiles = match archive.ids(*part) {
            Ok(ids) => ids.len() as u64,
            Err(error) => {
                failed.push(error.to_string());
                continue;
            }
        };
        let sums = hours.entry((part.hour, part.span)).or_default();
        sums.0 += profiles;
        sums.1 += bytes;
    }
    let line = |name: &str, (profiles, bytes): (u64, u64)| {
        format!("{name:<24}{profiles:>10}{bytes:>14}{:>16}\n", bytes.checked_div(profiles).unwrap_or(0))
    };
    let mut table = format!("{:<24}{:>10}{:>14}{:>16}\n", "hour (UTC)", "profiles", "bytes", "bytes/profile");
    for ((hour, span), sums) in &hours {
        let name = hour.to_string().replace("date=", "").replace("/hour=", " ");
        let day = name.split(' ').next().unwrap_or(&name);
        table += &line(if *span == Span::Day { day } else { &name }, *sums);
    }
    let all = hours.values().fold((0, 0), |all, hour| (all.0 + hour.0, all.1 + hour.1));
    table += &line("all", all);
    if !parts.replaced.is_empty() {
        table += &format!(
            "{} parts with {} bytes are replaced\n",
            parts.replaced.len(),
            parts.replaced.values().sum::<u64>()
        );
    }
    if !parts.unfinished.is_empty() {
        table += &format!("{} parts are unfinished\n", parts.unfinished.len());
    }
    print(table)?;
    failed.extend(parts.wrong());
    Ok(report("wrong", &failed))
}

fn run_compact(arguments: &CompactArgs) -> Result<ExitCode> {
    let archive = opened(&arguments.archive)?;
    let seconds = |seconds: u32| Nanos(i64::from(seconds) * 1_000_000_000);
    let limits = CompactLimits {
        days_max: arguments.days_max.filter(|days| *days > 0),
        bytes_max: arguments.bytes_max.filter(|bytes| *bytes > 0),
        grace: seconds(arguments.grace_seconds),
        lease: seconds(arguments.lease_seconds),
        ..CompactLimits::default()
    };
    let mut done = compact(&archive, &limits)?;
    println!(
        "{} parts with {} bytes became {} with {}; {} with {} bytes dropped",
        done.replaced, done.replaced_bytes, done.written, done.written_bytes, done.dropped, done.dropped_bytes
    );
    if done.repeated > 0 {
        println!("{} profiles that another part has, too, left out", done.repeated);
    }
    let mut removed = done.removed + done.left_over;
    while let Some(until) = done.waits_until {
        let left = i128::from(until.0) - jiff::Timestamp::now().as_nanosecond();
        std::thread::sleep(Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
        let failed = std::mem::take(&mut done.failed);
        done = compact(&archive, &limits)?;
        done.failed = failed;
        removed += done.removed + done.left_over;
    }
    if removed > 0 {
        println!("{removed} parts removed");
    }
    Ok(report("failed", &done.failed))
}

fn merge(arguments: &MergeArgs) -> Result<ExitCode> {
    let nanos = |time: &jiff::Timestamp| i64::try_from(time.as_nanosecond()).map(Nanos).context("time out of range");
    let profile_type: ProfileType = arguments.profile_type.parse()?;
    if let (Some(from), Some(to)) = (arguments.from, arguments.to) {
        ensure!(from < to, "--from {from} is not before --to {to}");
    }
    let selection = Selection {
        from: arguments.from.as_ref().map(nanos).transpose()?,
        to: arguments.to.as_ref().map(nanos).transpose()?,
        types: vec![profile_type],
        nodes: arguments.node.clone(),
        ..Selection::default()
    };
    let merged = opened(&arguments.archive)?.merge(&selection)?;
    let Some(merged) = merged else { bail!("no profile of that type, time and node in the archive") };
    let encoded = pprof::encode_gzip(&merged.profile)?;
    if arguments.output.as_os_str() == "-" {
        print(&encoded)?;
    } else {
        procprof_files::replace(&arguments.output, &encoded, 0o666)?;
    }
    eprintln!("{} profiles", merged.profiles);
    Ok(ExitCode::SUCCESS)
}
