//! `procprof collect`: profiles of one process into a folder, once or as a daemon; takes the place of
//! `collect_be_profile.sh`.
//!
//! As typed ([`Args`]) becomes as meant ([`settings::Settings`]) once; then [`round`] captures, [`mod@file`] keeps,
//! [`cleanup`] removes, and [`daemon`] repeats. What differs from the script on purpose is listed in `docs/collect.md`.

mod be_conf;
mod cleanup;
mod daemon;
mod file;
mod journal;
pub(crate) mod jvm;
mod pid_file;
mod round;
mod settings;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum;
use procprof_profile::ProfileType;

use journal::Journal;
use settings::{Environment, Settings};

/// Options of `collect`, as typed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What to collect
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = ProfilingType::Cpu)]
    pub(crate) profiling_type: ProfilingType,
    /// Length of one capture in seconds, 1 to 3600 [default: 10; with --url of a heap or another snapshot: none]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) duration: Option<u32>,
    /// Seconds from the start of one round to the start of the next, with --daemon [default:
    /// COLLECT_BE_PROFILE_INTERVAL of be.conf or the environment, else 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    pub(crate) interval: Option<u32>,
    /// Remove profiles older than this many days
    #[arg(long, value_name = "DAYS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) cleanup_days: u32,
    /// Remove the oldest profiles while all together are larger than this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2_147_483_648)]
    pub(crate) cleanup_size: u64,
    /// brpc port of the backend on this host [default: brpc_port of be.conf, else 8060]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "url")]
    pub(crate) brpc_port: Option<u16>,
    /// Folder in which proc_profile is created [default: sys_log_dir of be.conf, else $STARROCKS_HOME/log, else
    /// the current folder]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) output_dir: Option<PathBuf>,
    /// StarRocks be.conf to read [default: $STARROCKS_HOME/conf/be.conf if it is there]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) be_conf: Option<PathBuf>,
    /// Run in the background: one round per interval
    #[arg(long)]
    pub(crate) daemon: bool,
    /// The background process itself
    #[arg(long, hide = true)]
    pub(crate) daemon_internal: bool,
    /// Source of names: the process on this host, or none (the answer is stored as received)
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Symbolize::Host)]
    pub(crate) symbolize: Symbolize,
    /// Any profile endpoint, instead of a backend on this host
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url)]
    pub(crate) url: Option<String>,
    /// A Java process on this host, instead of a backend: JDK 17 or later, of the same user unless this is root.
    /// Nothing is installed in it
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=4_194_304),
        conflicts_with_all = ["url", "brpc_port", "daemon", "profiling_type"])]
    pub(crate) pid: Option<u32>,
    /// What to record of the Java process, all at the same time
    #[arg(
        long = "type",
        value_enum,
        value_name = "TYPES",
        value_delimiter = ',',
        requires = "pid",
        default_value = "cpu,alloc,lock"
    )]
    pub(crate) types: Vec<JvmType>,
}

/// The profile types of a Java process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JvmType {
    /// CPU time, or before JDK 25 samples of threads that run Java code
    Cpu,
    /// Allocated bytes
    Alloc,
    /// Waiting for locks
    Lock,
}

impl JvmType {
    fn profile_type(self) -> ProfileType {
        match self {
            JvmType::Cpu => ProfileType::Cpu,
            JvmType::Alloc => ProfileType::Alloc,
            JvmType::Lock => ProfileType::Contention,
        }
    }
}

/// The profile types of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfilingType {
    /// CPU time
    Cpu,
    /// Waiting for locks
    Contention,
    /// CPU time, then waiting for locks
    Both,
}

/// The source of names for addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Symbolize {
    /// The process on this host that listens on the port
    Host,
    /// No symbolization
    None,
}

impl ProfilingType {
    /// In the order of a round.
    fn profile_types(self) -> Vec<ProfileType> {
        match self {
            ProfilingType::Cpu => vec![ProfileType::Cpu],
            ProfilingType::Contention => vec![ProfileType::Contention],
            ProfilingType::Both => vec![ProfileType::Cpu, ProfileType::Contention],
        }
    }
}

/// Runs `collect`. One round exits with 1 when any of its captures failed; everything else that stops it is an error.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let settings = Settings::new(&args, &Environment::of_process())?;
    if args.daemon && !args.daemon_internal {
        return daemon::start(&settings);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().context("start runtime")?;
    if args.daemon_internal {
        return runtime.block_on(daemon::serve(&settings));
    }
    let journal = Journal::terminal();
    for warning in &settings.warnings {
        journal.warning(warning);
    }
    let succeeded = match args.pid {
        Some(pid) => runtime.block_on(jvm::once(&settings, &journal, pid, &args))?,
        None => runtime.block_on(round::once(&settings, &journal))?,
    };
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
