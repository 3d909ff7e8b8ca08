//! `procprof node`: profiles the services of this host all the time, and sends the profiles to a server.

mod captures;
mod decoder;
mod discovery;
mod dumps;
mod governor;
mod jvm;
mod link;
mod metrics;
mod once;
mod privileges;
mod rules;
mod sampler;
mod settings;
mod shared;
mod spool;
mod symbols;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueHint};
use procprof_host::Recorder;
use procprof_server::protocol::HostFacts;
use sha2::{Digest, Sha256};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::decoder::{DecodeChildArgs, decode_child};
use self::link::{Link, Receivers};
use self::privileges::JvmUse;
use self::rules::{Engine, Rule, Treatment};
use self::settings::Settings;
use self::shared::{Shared, nanos_since_1970};
use self::spool::Spool;
pub(crate) use self::symbols::index_child;

/// Time at the end in which the last profiles are made.
const LAST_CUT: Duration = Duration::from_millis(2500);
/// Time at the end in which JVMs give their recordings, where rules have them recorded.
const LAST_RECORDINGS: Duration = Duration::from_secs(30);
/// Time at the end in which what is in the spool is still sent. With that of the last profiles, it is below 5 s.
const LAST_PUSH: Duration = Duration::from_millis(1000);

/// Options of `node`.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// Address of the server
    #[arg(long, value_name = "URL", env = "PROCPROF_SERVER")]
    server: Option<String>,
    /// File with the token of this host
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) to trust instead of the system's: the server's authority, or its own (self-signed)
    /// certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ca_file: Option<PathBuf>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Print what would be profiled and what can't be, and why; nothing is sent
    #[arg(long)]
    once: bool,
}

/// Options of the hidden process that reads symbols.
#[derive(Debug, Args)]
pub(crate) struct IndexChildArgs {
    /// Limit of its memory
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_bytes: u64,
    /// The path of the file that is standard input
    pub(crate) path: PathBuf,
}

/// Runs the agent until it gets SIGTERM or ^C.
pub(crate) fn run(arguments: NodeArgs) -> Result<()> {
    let mut settings = match &arguments.config {
        Some(path) => Settings::read(path)?,
        None => Settings::defaults(),
    };
    if let Some(server) = arguments.server {
        settings.server = server;
    }
    if let Some(file) = arguments.token_file {
        settings.token_file = file;
    }
    settings.ca_file = arguments.ca_file.or(settings.ca_file);
    let jvm_use = jvm_use(&settings);
    if arguments.once {
        let symbols = privileges::kernel_symbols().err();
        let mut missing = privileges::keep_needed(jvm_use).context("give up privileges")?;
        missing.extend(symbols);
        return crate::output::print(once::text(&settings, &missing)?);
    }
    ensure!(!settings.server.is_empty(), "no server is given: --server URL, or `server` in the configuration");
    ensure!(!settings.token_file.as_os_str().is_empty(), "no token is given: --token-file FILE, or `token_file`");
    crate::log::start();
    let spool = Spool::open(&settings.spool, settings.spool_bytes_max, settings.spool_free_bytes_min)?;
    privileges::allow_locked_memory();
    // Programs in the kernel take privileges that nothing else does.
    let off_cpu = settings.rules.iter().any(|rule| rule.off_cpu);
    let off_cpu = if off_cpu { Some(sampler::attach_off_cpu(&settings)?) } else { None };
    let kallsyms = privileges::copy_kernel_symbols(&settings.spool);
    let mut missing = privileges::keep_needed(jvm_use).context("give up privileges")?;
    if let Err(why) = &kallsyms {
        missing.push(why.clone());
    }
    let client = crate::remote::client(settings.ca_file.as_deref())?;
    let link = Link::new(client, &settings.server, settings.token_file.clone())?;
    link.token()?;
    let recorder = sampler::attach(settings.hz)?;
    if !recorder.samples_kernel() && missing.is_empty() {
        missing.push("time in the kernel is not sampled: kernel.perf_event_paranoid".to_owned());
    }
    missing.iter().for_each(|missing| tracing::warn!("missing: {missing}"));
    let host = host_facts(&settings, missing)?;
    tracing::info!("host {} ({}): {} samples for each second of CPU time", host.name, host.id, host.hz);
    let shared = Arc::new(Shared::new(settings, kallsyms.ok(), spool, host));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let ended = runtime.block_on(serve(&shared, &link, recorder, off_cpu));
    // Threads that still work, whatever for, end with the process.
    runtime.shutdown_background();
    ended
}

/// Records and sends until a signal comes or the recording fails.
async fn serve(shared: &Arc<Shared>, link: &Link, recorder: Recorder, off_cpu: Option<Recorder>) -> Result<()> {
    let mut interrupted = signal(SignalKind::interrupt()).context("listen for signals")?;
    let mut terminated = signal(SignalKind::terminate()).context("listen for signals")?;
    let (sampler, asks) = mpsc::channel();
    let (wanted_symbols, wanted) = tokio::sync::mpsc::channel(1);
    let receivers = Receivers { sampler: sampler.clone(), wanted_symbols };
    let mut recordings = tokio::task::JoinSet::new();
    let own = Arc::clone(shared);
    recordings.spawn_blocking(move || sampler::run(&own, recorder, &asks));
    if let Some(recorder) = off_cpu {
        let own = Arc::clone(shared);
        recordings.spawn_blocking(move || sampler::run_off_cpu(&own, recorder));
    }
    dumps::start(shared)?;
    let listener = match &*shared.settings.metrics {
        "" => None,
        address => Some(metrics::listen(address).await?),
    };
    let metrics = async {
        match listener {
            Some(listener) => metrics::serve(shared, listener).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
        ended = recordings.join_next() => ended.map_or(Ok(()), |ended| ended.context("record")?),
        () = link::heartbeats(shared, link, &receivers) => Ok(()),
        () = link::pushes(shared, link, &receivers) => Ok(()),
        () = jvm::run(shared) => Ok(()),
        () = symbols::run(shared, link, &sampler, wanted) => Ok(()),
        () = metrics => Ok(()),
    };
    shared.stop.store(true, Ordering::Relaxed);
    shared.spool().end_batch();
    tracing::info!("stopping: sending what is left");
    let last = async {
        while recordings.join_next().await.is_some() {}
        // The profiles of the last cut are made by a thread of their own.
        while shared.unfinished_cuts() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(LAST_CUT, last).await.is_err() {
        tracing::error!("the profiles of the last cut are lost: they take more than {} s", LAST_CUT.as_secs_f64());
    }
    let jvms = async {
        while shared.is_recording_jvms() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(LAST_RECORDINGS, jvms).await.is_err() {
        tracing::error!("the last recordings of JVMs are lost: they take more than {} s", LAST_RECORDINGS.as_secs());
    }
    let all_sent = async {
        while shared.spool().waiting().0 > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = all_sent => {}
        () = link::pushes(shared, link, &receivers) => {}
        () = tokio::time::sleep(LAST_PUSH) => {}
    }
    let waiting = shared.spool().waiting().0;
    if waiting > 0 {
        tracing::info!("{waiting} profiles stay in the spool until the next start");
    }
    ended
}

/// What may be done with JVMs by the rules.
fn jvm_use(settings: &Settings) -> JvmUse {
    if settings.rules.iter().any(|rule| rule.engine == Engine::Jvm) {
        return JvmUse::Recordings;
    }
    let is_asked = |rule: &Rule| rule.jvm_names && rule.treatment != Treatment::Exclude;
    // Rules behind one without conditions decide nothing.
    let last = settings.rules.iter().position(Rule::matches_all);
    let rules = last.map_or(&*settings.rules, |last| &settings.rules[..=last]);
    let are_others_asked = last.is_none() && settings.profile_others;
    if are_others_asked || rules.iter().any(is_asked) { JvmUse::Names } else { JvmUse::Nothing }
}

fn host_facts(settings: &Settings, missing: Vec<String>) -> Result<HostFacts> {
    let system = rustix::system::uname();
    let name =
        if settings.name.is_empty() { system.nodename().to_string_lossy().into_owned() } else { settings.name.clone() };
    let memory = rustix::system::sysinfo();
    Ok(HostFacts {
        id: host_id(settings)?,
        name,
        kernel: system.release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        memory_bytes: memory.totalram as u64 * u64::from(memory.mem_unit),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_nanos: nanos_since_1970(SystemTime::now()),
        labels: settings.labels.clone(),
        hz: settings.hz,
        hz_wanted: settings.hz,
        missing,
        ..HostFacts::default()
    })
}

/// The configured id, or one derived from the machine's, which is not to be told to others as it is.
fn host_id(settings: &Settings) -> Result<String> {
    if !settings.host_id.is_empty() {
        return Ok(settings.host_id.clone());
    }
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let machine = machine.trim();
    ensure!(
        machine.len() == 32 && machine.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "this host has no /etc/machine-id; give it a host_id in the configuration"
    );
    let digest = Sha256::digest(format!("procprof node {machine}"));
    Ok(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}
