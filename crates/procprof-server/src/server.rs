//! Starting, reloading and stopping a server.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use procprof_agent::Agent;
use procprof_profile::ProfileType;
use procprof_store::{Store, StoreOptions};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::auth::{Door, SqlAccounts, Users};
use crate::captures;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::http;
use crate::imports;
use crate::metrics::Metrics;
use crate::mysql;
use crate::nodes::{ExtraNode, OWN_ID, Registry};
use crate::render::Renders;
use crate::retention;
use crate::sql::{SqlService, discover};
use crate::symbols::Shelf;

/// Children that read binaries, at a time.
const SYMBOLIZERS: usize = 2;

/// Longest packet from a SQL client, in bytes.
const SQL_PACKET_MAX: usize = 16 << 20;
/// Time a SQL client has to log in.
const SQL_LOGIN: Duration = Duration::from_secs(10);
/// Time a SQL client has to take a piece of an answer or to send the rest of a packet.
const SQL_PATIENCE: Duration = Duration::from_secs(30);

/// Time open requests have of the stop's deadline.
const DRAIN: Duration = Duration::from_secs(2);

/// A program to start.
#[derive(Clone, Debug)]
pub struct ChildProgram {
    /// Its executable.
    pub program: PathBuf,
    /// Its first arguments; the task comes behind them.
    pub arguments: Vec<String>,
}

/// What a server is started with.
pub struct ServerOptions {
    /// The configuration, all files merged.
    pub config: Config,
    /// Folder of profiles, journal and catalog.
    pub data: PathBuf,
    /// Address of the HTTP server.
    pub http: SocketAddr,
    /// Whether somebody asked for that address; if not, the next free port is taken when it is in use.
    pub http_explicit: bool,
    /// Where SQL clients connect; `None` for nowhere.
    pub mysql: Option<SqlAddress>,
    /// Whether other machines may reach the server without users and TLS.
    pub insecure: bool,
    /// Nodes beside the configured ones.
    pub extra_nodes: Vec<ExtraNode>,
    /// The agent of this process.
    pub agent: Agent,
    /// This binary as the child that reads binaries: it must call [`crate::symbolize_child_main`] with its last argument.
    pub symbolize_child: ChildProgram,
    /// This binary as the child that draws heap dumps in jeprof's grammar: its last argument is a [`crate::JeprofTask`] as JSON.
    pub jeprof_child: ChildProgram,
}

/// Where SQL clients connect, and as whom.
#[derive(Clone, Copy, Debug)]
pub struct SqlAddress {
    /// Address of the SQL server.
    pub address: SocketAddr,
    /// Whether somebody asked for that address; if not, the next free port is taken when it is in use.
    pub explicit: bool,
    /// Who is let in.
    pub login: SqlLogin,
}

/// Whom the SQL server lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlLogin {
    /// The users of the users file; without one, `root` with a password that is made and kept in the data folder.
    Users,
    /// Everyone, as operator; on loopback only.
    Everyone,
}

/// Starts servers.
pub struct Server;

/// A running server. Dropping it does not stop it; [`ServerHandle::stop`] does.
pub struct ServerHandle {
    app: Arc<App>,
    mysql: Option<SocketAddr>,
    scheme: &'static str,
}

impl Server {
    /// Starts a server in the current tokio runtime; when this returns it answers.
    ///
    /// # Errors
    /// Keys that do not go together, an address that others can reach without users and TLS, one that is taken, a data folder in use, a file that cannot be read.
    pub async fn start(options: ServerOptions) -> Result<ServerHandle> {
        let ServerOptions {
            config,
            data,
            http: address,
            http_explicit,
            mysql,
            insecure,
            extra_nodes,
            agent,
            symbolize_child,
            jeprof_child,
        } = options;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        config.check()?;
        check_exposure(&config, address, insecure)?;
        if let Some(sql) = &mysql {
            check_sql_exposure(&config, sql, insecure)?;
        }
        let users = read_users(&config)?;
        if users.is_none() {
            tracing::info!("no users_file: everyone who can reach {address} is operator");
        }
        let tls = match (&config.tls_cert, &config.tls_key) {
            (Some(cert), Some(key)) => Some(http::tls_acceptor(cert, key)?),
            _ => None,
        };
        let listener = http::bind(address, http_explicit, "--http").await?;
        let bound = listener.local_addr().map_err(|cause| Error::Bind { address: address.to_string(), cause })?;
        let sql_listener = match &mysql {
            Some(sql) => Some(http::bind(sql.address, sql.explicit, "--mysql").await?),
            None => None,
        };
        let store = open_store(&data, &config).await?;
        let shelf = Shelf::open(&data).map_err(|error| Error::Setup { what: "symbols", why: error.to_string() })?;
        let registry = Registry::open(&data, &config, extra_nodes, &bound.to_string())?;
        let pause_file = data.join("paused");
        let paused = pause_file.exists();
        let app = Arc::new(App {
            renders: Renders::new(config.render_concurrency_max),
            config: RwLock::new(Arc::new(config)),
            registry,
            store,
            door: Door::new(users).map_err(|why| Error::Setup { what: "users", why })?,
            metrics: Metrics::new(),
            budget: Default::default(),
            captures: Default::default(),
            jobs: Default::default(),
            retention: Default::default(),
            usage: Default::default(),
            symbols: Arc::new(shelf),
            intakes: Default::default(),
            refreshes: Default::default(),
            frontends: Default::default(),
            dumps: Default::default(),
            agent,
            symbolize_child,
            jeprof_child,
            symbolizers: Semaphore::new(SYMBOLIZERS),
            paused: watch::Sender::new(paused),
            pause_file,
            data,
            generation: watch::Sender::new(0),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            bound,
            machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        });
        app.metrics.paused.set(i64::from(paused));
        if paused {
            tracing::info!("scheduled captures are paused");
        }
        note_own_heap(&app);
        if let Some((folder, node)) = imports::log_folder(&app.config(), &app.registry)? {
            app.tasks.spawn(imports::take_over(Arc::clone(&app), folder, node));
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        let sql_bound = match (sql_listener, mysql) {
            (Some(listener), Some(sql)) => Some(spawn_sql(&app, listener, sql.login, tls.clone())?),
            _ => None,
        };
        spawn_parts(&app, listener, tls);
        Ok(ServerHandle { app, mysql: sql_bound, scheme })
    }
}

/// Whether there are heap profiles of the server itself is known before the first is taken.
fn note_own_heap(app: &App) {
    let unavailable = captures::heap_unavailable(&app.agent);
    app.registry.note(OWN_ID, |health| health.types.entry(ProfileType::Heap).or_default().unavailable = unavailable);
}

fn spawn_parts(app: &Arc<App>, listener: tokio::net::TcpListener, tls: Option<tokio_rustls::TlsAcceptor>) {
    let config = app.config();
    let limits = http::Limits {
        connections: usize::try_from(config.http_connections_max).unwrap_or(512),
        header: Duration::from_secs(config.http_header_seconds_max),
        drain: DRAIN,
    };
    let router = http::router(app);
    app.tasks.spawn(http::serve(listener, router, tls, limits, app.stop.clone()));
    app.tasks.spawn(captures::run_schedule(Arc::clone(app), app.stop.clone()));
    app.tasks.spawn(retention::run(Arc::clone(app), app.stop.clone()));
    app.tasks.spawn(discover::run(Arc::clone(app), app.stop.clone()));
}

/// Serves SQL; the address that is bound.
fn spawn_sql(
    app: &Arc<App>,
    listener: tokio::net::TcpListener,
    login: SqlLogin,
    tls: Option<tokio_rustls::TlsAcceptor>,
) -> Result<SocketAddr> {
    let bound = listener.local_addr().map_err(|cause| Error::Bind { address: "the SQL address".to_owned(), cause })?;
    let accounts = match login {
        SqlLogin::Users => SqlAccounts::users(app)?,
        SqlLogin::Everyone => SqlAccounts::open(app),
    };
    let config = app.config();
    let limits = mysql::Limits {
        connections: usize::try_from(config.mysql_connections_max).unwrap_or(256),
        packet: SQL_PACKET_MAX,
        login: SQL_LOGIN,
        idle: Duration::from_secs(config.mysql_idle_seconds_max),
        patience: SQL_PATIENCE,
    };
    let service = Arc::new(SqlService::new(app));
    app.tasks.spawn(mysql::serve(listener, service, Arc::new(accounts), tls, limits, app.stop.clone()));
    Ok(bound)
}

impl ServerHandle {
    /// The address where SQL clients connect, if they may.
    pub fn mysql(&self) -> Option<SocketAddr> {
        self.mysql
    }

    /// The address that is bound.
    pub fn addr(&self) -> SocketAddr {
        self.app.bound
    }

    /// The URL of the server without a path: `https://127.0.0.1:8030` if it serves TLS, else with `http`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.addr())
    }

    /// Takes a new configuration: nodes, schedules, limits, users. Returns the keys whose change needs a restart.
    ///
    /// # Errors
    /// Keys that do not go together, a users file that cannot be read, or an id file that cannot be written; then the old configuration stays.
    pub fn reload(&self, config: Config) -> Result<Vec<&'static str>> {
        config.check()?;
        let users = read_users(&config)?;
        let old = self.app.config();
        if old.users_file.is_some() && users.is_none() && !self.app.bound.ip().is_loopback() {
            return Err(Error::Config("users_file: taking it away needs a restart".to_owned()));
        }
        self.app.registry.configure(&config, &self.app.bound.to_string())?;
        let restart = old.needs_restart(&config);
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        if !restart.is_empty() {
            tracing::warn!("changed, but in effect only after a restart: {}", restart.join(", "));
        }
        self.app.door.replace(users);
        *self.app.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        self.app.captures.reconfigure();
        self.app.generation.send_modify(|generation| *generation += 1);
        tracing::info!("configuration reloaded");
        Ok(restart)
    }

    /// Stops: accepts nothing more, gives captures up, waits for what is being stored, at most for `deadline` (5 s is enough). Returns whether
    /// everything had ended by then; nothing half-written stays either way.
    pub async fn stop(self, deadline: Duration) -> bool {
        self.app.stop.cancel();
        self.app.agent.stop();
        self.app.tasks.close();
        let ended = tokio::time::timeout(deadline, self.app.tasks.wait()).await.is_ok();
        if !ended {
            tracing::warn!("stopped with work still under way");
        }
        ended
    }
}

/// Refuses an address that other machines can reach unless users and TLS are configured.
fn check_exposure(config: &Config, address: SocketAddr, insecure: bool) -> Result<()> {
    if address.ip().is_loopback() || insecure {
        return Ok(());
    }
    let mut missing = Vec::new();
    if config.users_file.is_none() {
        missing.push("users_file");
    }
    if config.tls_cert.is_none() || config.tls_key.is_none() {
        missing.push("tls_cert and tls_key");
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::Exposed { address: address.to_string(), missing: missing.join(", ") }),
    }
}

/// Refuses a SQL address that other machines can reach unless users and TLS are configured, and always to let everyone in there.
fn check_sql_exposure(config: &Config, sql: &SqlAddress, insecure: bool) -> Result<()> {
    if sql.login == SqlLogin::Everyone && !sql.address.ip().is_loopback() {
        return Err(Error::Config(format!("--mysql-no-auth: {} can be reached from other machines", sql.address)));
    }
    check_exposure(config, sql.address, insecure)
}

fn read_users(config: &Config) -> Result<Option<Users>> {
    config.users_file.as_deref().map(Users::read).transpose()
}

async fn open_store(data: &Path, config: &Config) -> Result<Arc<Store>> {
    let options = StoreOptions { pinned_bytes_max: config.pinned_bytes_max, ..StoreOptions::default() };
    let data = data.to_owned();
    let opened = tokio::task::spawn_blocking(move || {
        // A folder that is there already keeps its mode.
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(&data);
        made.map_err(|cause| Error::File { what: "data folder", path: data.clone(), cause })?;
        Store::open(data, options).map_err(|error| match error {
            procprof_store::Error::Locked { .. } => Error::DataInUse(error.to_string()),
            error => error.into(),
        })
    });
    let store = opened.await.map_err(|error| Error::Setup { what: "store", why: error.to_string() })??;
    Ok(Arc::new(store))
}
