//! `archive load`: an archive mirrored into the tables of a database.
//!
//! | module | content |
//! |---|---|
//! | `target` | where to, as typed |
//! | `plan` | which parts are loaded and removed together; pure |
//! | `tables` | the statements that make and change tables; pure |
//! | `rows` | rows as SQL and JSON, in pieces; pure |
//! | `database` | a step, in a transaction where the engine has them |
//! | `connection`, `stream_load` | the MySQL protocol, and StarRocks over HTTP |

mod connection;
mod database;
mod plan;
mod rows;
mod stream_load;
mod tables;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use procprof_archive::{Archive, Part};

use self::database::{Database, FailedPart, Moved};
use self::plan::{Step, plan};
use self::target::{Security, Target};

/// Listings of an archive that compaction changes meanwhile, at most.
const LISTINGS_MAX: u32 = 16;
/// Time after which a step has a line of its own.
const SLOW: Duration = Duration::from_secs(5);

/// Options of `archive load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// File with the user's password; without it, PROCPROF_LOAD_PASSWORD has it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    password_file: Option<PathBuf>,
    /// Certificates (PEM) to trust instead of the system's; with them, this host is connected to by TLS, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_tls")]
    ca_file: Option<PathBuf>,
    /// Connect to other hosts without TLS
    #[arg(long)]
    no_tls: bool,
    /// Also remove parts from the database that the archive neither has nor has ever replaced
    #[arg(long)]
    remove_unknown: bool,
    /// Folder of the archive, or s3://bucket/prefix, gs://… or az://…, with credentials from the environment
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    archive: PathBuf,
    /// The database: mysql://USER@HOST:PORT/DATABASE, or starrocks://USER@HOST:PORT/DATABASE?http=HOST:PORT
    #[arg(value_name = "TARGET")]
    target: String,
}

/// What a load has done.
#[derive(Debug, Default)]
struct Done {
    loaded: usize,
    removed: usize,
    already_there: usize,
    moved: Moved,
    failed: BTreeMap<Part, String>,
    /// Days whose parts stay as they are, with the reason.
    unclear: Vec<String>,
}

pub(super) fn run(arguments: &LoadArgs) -> Result<ExitCode> {
    let begun = Instant::now();
    let target: Target = arguments.target.parse()?;
    let security = Security::new(arguments.password_file.clone(), arguments.ca_file.clone(), arguments.no_tls)?;
    let archive = super::opened(&arguments.archive)?;
    let mut database = Database::open(&target, &security)?;
    let done = mirror(&archive, &mut database, arguments.remove_unknown)?;
    if done.loaded > 0 {
        database.analyze()?;
    }
    database.close()?;
    println!(
        "{} parts with {} rows loaded in {} bytes, {} removed, {} already there; {:.1} s",
        done.loaded,
        done.moved.rows,
        done.moved.bytes,
        done.removed,
        done.already_there,
        begun.elapsed().as_secs_f64()
    );
    let failed: Vec<String> = done.unclear.into_iter().chain(done.failed.into_values()).collect();
    Ok(super::report("failed", &failed))
}

/// Loads what the archive has, and removes what it has no more.
fn mirror(archive: &Archive, database: &mut Database, remove_unknown: bool) -> Result<Done> {
    let mut done = Done::default();
    let mut failed: BTreeSet<Part> = BTreeSet::new();
    for listing in 0..LISTINGS_MAX {
        let parts = archive.parts()?;
        done.unclear = parts.unclear_days().map(|(_, error)| error.to_string()).collect();
        let (mut loaded, mut begun) = (database.parts()?, database.begun_parts()?);
        for listed in [&mut loaded, &mut begun] {
            listed.retain(|part| !parts.unclear.contains_key(&part.hour.day()));
        }
        let archived: BTreeSet<Part> = parts.whole.into_keys().collect();
        if !remove_unknown {
            check_known(archive, &archived, loaded.union(&begun))?;
        }
        if listing == 0 {
            done.already_there = archived.intersection(&loaded).count();
        }
        let steps = plan(&archived, &loaded, &begun, &failed);
        if steps.is_empty() {
            return Ok(done);
        }
        if !run_steps(archive, database, steps, &mut failed, &mut done)? {
            return Ok(done);
        }
    }
    bail!("the archive changes all the time: {LISTINGS_MAX} listings were made; what was loaded is whole")
}

/// Runs steps; whether the archive has to be listed again, since a part was gone when it was read.
fn run_steps(
    archive: &Archive,
    database: &mut Database,
    steps: Vec<Step>,
    failed: &mut BTreeSet<Part>,
    done: &mut Done,
) -> Result<bool> {
    let bar = bar(steps.len());
    for step in steps {
        bar.set_message(step.add.first().or(step.remove.first()).map(Part::name).unwrap_or_default());
        let begun = Instant::now();
        match database.run(archive, &step) {
            Ok(moved) => {
                done.loaded += step.add.len();
                done.removed += step.remove.len();
                done.moved.rows += moved.rows;
                done.moved.bytes += moved.bytes;
                if begun.elapsed() >= SLOW {
                    bar.suspend(|| eprintln!("{}", line(&step, moved, begun.elapsed())));
                }
            }
            Err(error) => {
                let why = format!("{error:#}");
                let Some(FailedPart { part, is_of_archive, is_end: false, .. }) = error.downcast_ref() else {
                    return Err(error);
                };
                if *is_of_archive && !archive.parts()?.whole.contains_key(part) {
                    return Ok(true);
                }
                failed.insert(*part);
                done.failed.insert(*part, why);
            }
        }
        bar.inc(1);
    }
    Ok(false)
}

/// Refuses a database with parts that the archive does not know: it is probably another archive's.
fn check_known<'a>(archive: &Archive, archived: &BTreeSet<Part>, listed: impl Iterator<Item = &'a Part>) -> Result<()> {
    let gone: BTreeSet<Part> = listed.filter(|part| !archived.contains(part)).copied().collect();
    let unknown: Vec<Part> = gone.difference(&archive.were_replaced(&gone)?).copied().collect();
    let Some(first) = unknown.first() else { return Ok(()) };
    bail!(
        "the database has {} parts that the archive neither has nor has replaced, the first {}: they are of another \
         archive, or their files were deleted; --remove-unknown removes them",
        unknown.len(),
        first.name()
    )
}

fn line(step: &Step, moved: Moved, time: Duration) -> String {
    let names = |verb: &str, parts: &[Part]| match parts {
        [] => String::new(),
        [part] => format!("{} {verb}; ", part.name()),
        [first, ..] => format!("{} and {} more {verb}; ", first.name(), parts.len() - 1),
    };
    let (added, removed) = (names("loaded", &step.add), names("removed", &step.remove));
    format!("{added}{removed}{} rows, {} bytes, {:.1} s", moved.rows, moved.bytes, time.as_secs_f64())
}

/// A bar on the terminal; nothing when standard error is none.
fn bar(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("[{bar:40}] {pos} of {len} {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
