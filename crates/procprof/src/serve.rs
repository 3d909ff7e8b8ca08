//! `procprof serve`: reads the configuration, starts demo processes if asked, runs the server until a signal ends it.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use procprof_agent::{Agent, Request};
use procprof_profile::ProfileType;
use procprof_server::{
    ChildProgram, ConfFile, Config, ExtraNode, Kind, PidSource, Planned, Role, Server, ServerHandle, ServerOptions, SqlAddress, SqlLogin,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::allocator;
use crate::cli::ServeArgs;
use crate::demo::{self, DemoProcess};

/// Time that captures and requests in flight have once a signal asks the server to end.
const STOP: Duration = Duration::from_secs(5);
/// Folder of a demo's profiles when none is given.
const DEMO_DATA: &str = "procprof-demo-data";
/// Seconds between the cuts of the server's own CPU profile in a demo.
const DEMO_CUT_SECONDS: u64 = 5;
/// Id of the demo's backend, as a StarRocks cluster would number it.
const DEMO_BE: u64 = 10_001;
/// Threads that serve requests; captures, files and rendering have threads of their own.
const WORKERS: usize = 2;

/// Runs the server until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &ServeArgs) -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    if let Err(error) = allocator::start_background_threads() {
        tracing::warn!("memory is given back late: no threads of the allocator, error {error}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().context("start the runtime")?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &ServeArgs) -> Result<()> {
    let config = configuration(arguments)?;
    let demo = if arguments.demo { Some(Demo::start()?) } else { None };
    let agent = own_agent()?;
    let config_has_users = config.users_file.is_some();
    let handle = Server::start(ServerOptions {
        http: address(arguments, &config)?,
        http_explicit: arguments.http.is_some() || !arguments.demo,
        mysql: sql_address(arguments, &config)?,
        data: data_folder(arguments, &config),
        insecure: arguments.insecure,
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
    handle.stop(STOP).await;
    tracing::info!("stopped");
    Ok(())
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
    let reloaded = configuration(arguments).and_then(|config| Ok(handle.reload(config)?));
    if let Err(error) = reloaded {
        tracing::error!("the configuration stays as it was: {error:#}");
    }
}

/// All sources, the later winning: defaults, the file, StarRocks' files, the command line.
fn configuration(arguments: &ServeArgs) -> Result<Config> {
    let mut config = match &arguments.config {
        Some(path) => Config::read(path)?,
        None => Config::defaults(),
    };
    if arguments.demo {
        config.self_interval_seconds = DEMO_CUT_SECONDS;
    }
    let variable = |name: &str| std::env::var(name).ok();
    for (path, which) in [(&arguments.fe_conf, ConfFile::Fe), (&arguments.be_conf, ConfFile::Be)] {
        if let Some(path) = path {
            config.read_starrocks(path, which, variable)?;
        }
    }
    for setting in &arguments.set {
        let (name, value) = setting.split_once('=').with_context(|| format!("--set {setting}: expected NAME=VALUE"))?;
        config.set(name, value)?;
    }
    Ok(config)
}

fn address(arguments: &ServeArgs, config: &Config) -> Result<SocketAddr> {
    match arguments.http {
        Some(address) => Ok(address),
        None => {
            config.http.parse().with_context(|| format!("http = {:?}: expected an address and a port, as in 127.0.0.1:8030", config.http))
        }
    }
}

/// Where SQL clients connect. Who has moved only the HTTP port, as the demo does, gets the next free one.
fn sql_address(arguments: &ServeArgs, config: &Config) -> Result<Option<SqlAddress>> {
    let login = if arguments.mysql_no_auth { SqlLogin::Everyone } else { SqlLogin::Users };
    let (address, explicit) = match arguments.mysql {
        Some(address) => (address, true),
        None if config.mysql.is_empty() => return Ok(None),
        None => {
            let address = config.mysql.parse();
            let address =
                address.with_context(|| format!("mysql = {:?}: expected an address and a port, as in 127.0.0.1:9030", config.mysql))?;
            (address, arguments.http.is_none() && !arguments.demo)
        }
    };
    Ok(Some(SqlAddress { address, explicit, login }))
}

fn data_folder(arguments: &ServeArgs, config: &Config) -> PathBuf {
    match &arguments.data {
        Some(folder) => folder.clone(),
        None if arguments.demo && arguments.config.is_none() => DEMO_DATA.into(),
        None => config.data.clone(),
    }
}

/// The agent of the server's own process, its heap profiler awake.
fn own_agent() -> Result<Agent> {
    let agent = procprof_agent::start(procprof_agent::Config { jemalloc: Some(demo::jemalloc()), ..Default::default() })?;
    let answer = agent.handle(&Request::post("/debug/pprof/heap/enable", &[]));
    if answer.status != 200 {
        tracing::warn!("no heap profiles of the server itself: {}", String::from_utf8_lossy(&answer.body).trim());
    }
    Ok(agent)
}

fn page(handle: &ServerHandle) -> String {
    format!("{}/proc_profile", handle.url())
}

/// The demo's two processes.
struct Demo {
    fe: DemoProcess,
    be: DemoProcess,
}

impl Demo {
    fn start() -> Result<Demo> {
        Ok(Demo { fe: DemoProcess::start("fe")?, be: DemoProcess::start("be")? })
    }

    fn nodes(&self) -> Vec<ExtraNode> {
        let cpu = Planned { profile_type: ProfileType::Cpu, on: true, seconds: 5, every: 10 };
        let heap = Planned { profile_type: ProfileType::Heap, on: true, seconds: 0, every: 10 };
        let contention = Planned { profile_type: ProfileType::Contention, on: true, seconds: 5, every: 20 };
        let mutex = Planned { profile_type: ProfileType::Mutex, ..contention.clone() };
        let schedule = vec![cpu, heap, contention, mutex];
        vec![node(None, "demo-fe", Role::Fe, &self.fe, schedule.clone()), node(Some(DEMO_BE), "demo-be", Role::Be, &self.be, schedule)]
    }
}

fn node(id: Option<u64>, name: &str, role: Role, process: &DemoProcess, schedule: Vec<Planned>) -> ExtraNode {
    let pid = process.pid();
    ExtraNode {
        id,
        name: name.to_owned(),
        role,
        kind: Kind::Procprof,
        address: process.address.to_string(),
        pid: Some(PidSource(std::sync::Arc::new(move || Some(pid)))),
        schedule,
        demo: true,
    }
}
