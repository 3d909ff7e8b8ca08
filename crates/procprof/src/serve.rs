//! `procprof serve`: reads the configuration, starts demo processes if asked, runs the server until a signal ends it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use procprof_agent::Agent;
use procprof_profile::ProfileType;
use procprof_server::{
    ChildProgram, ConfFile, Config, Environment, ExtraNode, Kind, PidSource, Planned, Rhythm, Role, Server,
    ServerHandle, ServerOptions, SqlAddress, SqlLogin,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::allocator;
use crate::cli::{MoreConfig, ServeArgs};
use crate::demo::{self, DemoJvm, DemoProcess};
use crate::log;

/// Time that captures and requests in flight have after a signal to end.
const STOP: Duration = Duration::from_secs(4);
/// Time that threads and children have beyond it; what still runs then is abandoned.
const LEFTOVERS: Duration = Duration::from_millis(500);
/// Time from the signal to the end of the process, whatever happens.
const END: Duration = Duration::from_secs(5);
/// Folder of a demo's profiles when none is given.
const DEMO_DATA: &str = "procprof-demo-data";
/// Seconds between the cuts of the server's own CPU profile in a demo.
const DEMO_CUT_SECONDS: u64 = 5;
/// Seconds between the cuts of the recording of the demo's JVM.
const DEMO_JVM_SECONDS: u64 = 10;
/// Time from a demo's profile to its place in the archive, at least; at most twice that.
const DEMO_ARCHIVE: Duration = Duration::from_secs(30);
/// Id of the demo's backend, as a StarRocks cluster would number it.
const DEMO_BE: u64 = 10_001;
/// Threads that serve requests; captures, files and rendering have threads of their own.
const WORKERS: usize = 2;
/// Stack of a thread, in bytes: statements within their limits recurse in DataFusion, too.
const STACK: usize = 8 << 20;

/// Runs the server until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &ServeArgs) -> Result<()> {
    log::start();
    allocator::limit_c_arenas();
    if let Err(error) = allocator::start_background_threads() {
        tracing::warn!("memory is given back late: no threads of the allocator, error {error}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let served = runtime.block_on(serve(arguments));
    // A report that is being made in a thread would hold the end up for as long as it takes.
    runtime.shutdown_timeout(LEFTOVERS);
    if served.is_ok() {
        tracing::info!("stopped");
    }
    served
}

async fn serve(arguments: &ServeArgs) -> Result<()> {
    let config = own_configuration(arguments)?;
    let demo = if arguments.demo { Some(Demo::start(arguments.idle)?) } else { None };
    let agent = own_agent()?;
    let config_has_users = config.users_file.is_some();
    let handle = Server::start(ServerOptions {
        http: http_address(&config)?,
        http_explicit: arguments.http.is_some() || !arguments.demo,
        mysql: sql_address(arguments, &config)?,
        data: config.data.clone(),
        insecure: arguments.insecure,
        archiving: if arguments.demo { Rhythm::Every(DEMO_ARCHIVE) } else { Rhythm::Hourly },
        buckets: Environment::of_process(),
        extra_nodes: demo.as_ref().map(Demo::nodes).unwrap_or_default(),
        agent,
        symbolize_child: child("symbolize-child")?,
        jeprof_child: child("jeprof-child")?,
        config,
    })
    .await?;
    tracing::info!("open {}", page(&handle));
    if let Some(address) = handle.mysql() {
        let user = if arguments.mysql_no_auth || config_has_users { "NAME" } else { "root" };
        tracing::info!("SQL at {address}: mysql -h {} -P {} -u {user}", address.ip(), address.port());
    }
    wait_for_end(&handle, arguments).await?;
    tracing::info!("stopping");
    end_in_time();
    handle.stop(STOP).await;
    Ok(())
}

/// Ends the process at [`END`] even if nothing else does.
fn end_in_time() {
    let watch = || {
        std::thread::sleep(END);
        tracing::warn!("stopped without waiting for work that did not end in time");
        std::process::exit(0);
    };
    if let Err(error) = std::thread::Builder::new().name("end in time".to_owned()).spawn(watch) {
        tracing::warn!("the end may take longer than {} s: {error}", END.as_secs());
    }
}

/// This binary again, for a task of its own.
fn child(word: &str) -> Result<ChildProgram> {
    let program = std::env::current_exe().context("find this executable")?;
    Ok(ChildProgram { program, arguments: vec![word.to_owned()] })
}

/// Reloads on SIGHUP; returns on SIGTERM and SIGINT.
async fn wait_for_end(handle: &ServerHandle, arguments: &ServeArgs) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    let mut hang_up = signal(SignalKind::hangup()).context("wait for SIGHUP")?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hang_up.recv() => reload(handle, arguments),
        }
    }
}

/// Takes the files as they are now; when they are wrong, the old configuration stays.
fn reload(handle: &ServerHandle, arguments: &ServeArgs) {
    let reloaded = own_configuration(arguments).and_then(|config| Ok(handle.reload(config)?));
    if let Err(error) = reloaded {
        tracing::error!("the configuration stays as it was: {error:#}");
    }
}

/// The configuration of `serve`, with what the command line says.
fn own_configuration(arguments: &ServeArgs) -> Result<Config> {
    let mut config = configuration(arguments.config.as_deref(), &arguments.more)?;
    let is_default = config.self_interval_seconds == Config::defaults().self_interval_seconds;
    if arguments.demo && is_default {
        config.self_interval_seconds = DEMO_CUT_SECONDS;
    }
    if let Some(address) = arguments.http {
        config.http = address.to_string();
    }
    if let Some(address) = arguments.mysql {
        config.mysql = address.to_string();
    }
    match &arguments.data {
        Some(folder) => config.data.clone_from(folder),
        None if arguments.demo && arguments.config.is_none() => config.data = DEMO_DATA.into(),
        None => {}
    }
    Ok(config)
}

/// All sources, the later winning: defaults, the file, StarRocks' files, the command line.
pub(crate) fn configuration(file: Option<&Path>, more: &MoreConfig) -> Result<Config> {
    let mut config = match file {
        Some(path) => Config::read(path)?,
        None => Config::defaults(),
    };
    let variable = |name: &str| std::env::var(name).ok();
    for (path, which) in [(&more.fe_conf, ConfFile::Fe), (&more.be_conf, ConfFile::Be)] {
        if let Some(path) = path {
            config.read_starrocks(path, which, variable)?;
        }
    }
    for setting in &more.set {
        let (name, value) = setting.split_once('=').with_context(|| format!("--set {setting}: expected NAME=VALUE"))?;
        config.set(name, value)?;
    }
    Ok(config)
}

/// The address of the pages by the configuration.
pub(crate) fn http_address(config: &Config) -> Result<SocketAddr> {
    config
        .http
        .parse()
        .with_context(|| format!("http = {:?}: expected an address and a port, as in 127.0.0.1:8030", config.http))
}

/// The address of the SQL server by the configuration, if it has one.
pub(crate) fn mysql_address(config: &Config) -> Result<Option<SocketAddr>> {
    let wrong = || format!("mysql = {:?}: expected an address and a port, as in 127.0.0.1:9030", config.mysql);
    if config.mysql.is_empty() { Ok(None) } else { config.mysql.parse().map(Some).with_context(wrong) }
}

/// The address for SQL clients. If only the HTTP port was set, as by the demo, the next free one is used.
fn sql_address(arguments: &ServeArgs, config: &Config) -> Result<Option<SqlAddress>> {
    let login = if arguments.mysql_no_auth { SqlLogin::Everyone } else { SqlLogin::Users };
    let explicit = arguments.mysql.is_some() || arguments.http.is_none() && !arguments.demo;
    Ok(mysql_address(config)?.map(|address| SqlAddress { address, explicit, login }))
}

/// The agent of the server's own process, its heap profiler awake.
fn own_agent() -> Result<Agent> {
    let agent =
        procprof_agent::start(procprof_agent::Config { jemalloc: Some(demo::jemalloc()), ..Default::default() })?;
    if let Err(error) = agent.heap_activate(None) {
        tracing::warn!("no heap profiles of the server itself: {error}");
    }
    Ok(agent)
}

fn page(handle: &ServerHandle) -> String {
    format!("{}/proc_profile", handle.url())
}

/// The demo's two processes.
struct Demo {
    fe: DemoFrontend,
    be: DemoProcess,
    is_idle: bool,
}

/// The demo's frontend, a JVM like a real one where this machine has `java`.
enum DemoFrontend {
    Jvm(DemoJvm),
    Process(DemoProcess),
}

impl DemoFrontend {
    fn start() -> Result<DemoFrontend> {
        match DemoJvm::start() {
            Ok(jvm) => Ok(DemoFrontend::Jvm(jvm)),
            Err(error) => {
                tracing::info!(
                    "demo-fe is not a JVM ({error:#}); with a JDK of version 11 or later on the PATH it is one \
                     (Debian: default-jdk-headless)"
                );
                DemoProcess::start("fe", false).map(DemoFrontend::Process)
            }
        }
    }
}

impl Demo {
    fn start(is_idle: bool) -> Result<Demo> {
        let fe = match is_idle {
            true => DemoFrontend::Process(DemoProcess::start("fe", true)?),
            false => DemoFrontend::start()?,
        };
        Ok(Demo { fe, be: DemoProcess::start("be", is_idle)?, is_idle })
    }

    fn nodes(&self) -> Vec<ExtraNode> {
        let on = !self.is_idle;
        let cpu = Planned { profile_type: ProfileType::Cpu, on, seconds: 5, every: 10 };
        let heap = Planned { profile_type: ProfileType::Heap, on, seconds: 0, every: 10 };
        let contention = Planned { profile_type: ProfileType::Contention, on, seconds: 5, every: 20 };
        let mutex = Planned { profile_type: ProfileType::Mutex, ..contention.clone() };
        let schedule = vec![cpu, heap, contention, mutex];
        let fe = match &self.fe {
            DemoFrontend::Jvm(jvm) => jvm_node("demo-fe", jvm),
            DemoFrontend::Process(process) => node(None, "demo-fe", Role::Fe, process, schedule.clone()),
        };
        vec![fe, node(Some(DEMO_BE), "demo-be", Role::Be, &self.be, schedule)]
    }
}

/// A JVM, all of whose types are recorded together and without gaps.
fn jvm_node(name: &str, jvm: &DemoJvm) -> ExtraNode {
    let pid = jvm.pid();
    let types = [ProfileType::Cpu, ProfileType::Alloc, ProfileType::Contention];
    let planned = |profile_type| Planned { profile_type, on: true, seconds: DEMO_JVM_SECONDS, every: DEMO_JVM_SECONDS };
    ExtraNode {
        id: None,
        name: name.to_owned(),
        role: Role::Fe,
        kind: Kind::JVM,
        address: String::new(),
        pid: Some(PidSource(std::sync::Arc::new(move || Some(pid)))),
        schedule: types.into_iter().map(planned).collect(),
        demo: true,
    }
}

fn node(id: Option<u64>, name: &str, role: Role, process: &DemoProcess, schedule: Vec<Planned>) -> ExtraNode {
    let pid = process.pid();
    ExtraNode {
        id,
        name: name.to_owned(),
        role,
        kind: Kind::PROCPROF,
        address: process.address.to_string(),
        pid: Some(PidSource(std::sync::Arc::new(move || Some(pid)))),
        schedule,
        demo: true,
    }
}
