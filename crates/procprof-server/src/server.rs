//! Starting, reloading and stopping a server.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use procprof_agent::Agent;
use procprof_core::archiving::{self, Environment, OpenArchive, Rhythm};
use procprof_core::auth::Users;
use procprof_core::children::{ChildProgram, Children};
use procprof_core::config::{self, Config};
use procprof_core::file_limit;
use procprof_core::imports;
use procprof_core::ingest::fill_functions;
use procprof_core::listening;
use procprof_core::nodes::{ExtraNode, NodeNumbers, Registry};
use procprof_core::ownership::WatchedFolder;
use procprof_core::servers::SharedNumbers;
use procprof_core::settings::Settings;
use procprof_core::{Error, Result, chain};
use procprof_sql::SqlLogin;
use procprof_store::{Store, StoreOptions};

use crate::parts::{ArchiveOptions, Parts};

/// How often a server that stops looks whether its data folder is free.
const RELEASE_LOOK: Duration = Duration::from_millis(5);
/// Time between two looks at whether nodes that wait for their ids can have them.
const WAITING_LOOK: Duration = Duration::from_secs(5);
/// Longest time that retention waits at a start for what is not archived yet.
const CATCH_UP_MAX: Duration = Duration::from_secs(600);

/// The options of a server's start.
pub struct ServerOptions {
    /// The configuration, all files merged.
    pub config: Config,
    /// Folder of profiles, journal and catalog.
    pub data: PathBuf,
    /// Address of the HTTP server.
    pub http: SocketAddr,
    /// Whether the user has set that address; if not, the next free port is taken when it is in use.
    pub http_explicit: bool,
    /// The SQL listener; `None` for none.
    pub mysql: Option<SqlAddress>,
    /// Whether other machines may reach the server without users and TLS.
    pub insecure: bool,
    /// When profiles are archived.
    pub archiving: Rhythm,
    /// Settings and credentials of an archive in a bucket.
    pub buckets: Environment,
    /// Nodes beside the configured ones.
    pub extra_nodes: Vec<ExtraNode>,
    /// The agent of this process.
    pub agent: Agent,
    /// This binary as the child that reads binaries: it must call [`crate::symbolize_child_main`] with its last
    /// argument.
    pub symbolize_child: ChildProgram,
    /// This binary as the child that draws heap dumps in jeprof's grammar: its last argument is a [`crate::ChildTask`]
    /// of [`crate::JeprofWords`] as JSON.
    pub jeprof_child: ChildProgram,
}

/// The address for SQL clients, and their users.
#[derive(Clone, Copy, Debug)]
pub struct SqlAddress {
    /// Address of the SQL server.
    pub address: SocketAddr,
    /// Whether the user has set that address; if not, the next free port is taken when it is in use.
    pub explicit: bool,
    /// The users that may log in.
    pub login: SqlLogin,
}

/// Starts servers.
pub struct Server;

/// A running server. Dropping it does not stop it; [`ServerHandle::stop`] does.
pub struct ServerHandle {
    parts: Parts,
    mysql: Option<SocketAddr>,
    scheme: &'static str,
}

impl Server {
    /// Makes the checks of [`Server::start`] on a configuration, and reads the files it names. Returns a sentence that
    /// describes it.
    ///
    /// # Errors
    /// As [`Server::start`], except for a port or a data folder in use, which only a start detects.
    pub fn check(config: &Config, http: SocketAddr, mysql: Option<SocketAddr>, insecure: bool) -> Result<String> {
        config.check()?;
        file_limit::raise();
        check_exposure(config, http, insecure)?;
        if let Some(address) = mysql {
            check_ports(http, address)?;
            check_sql_exposure(config, &SqlAddress { address, explicit: true, login: SqlLogin::Users }, insecure)?;
        }
        let users = read_users(config)?.map_or(0, |users| users.iter().count());
        let scheme = match (&config.tls_cert, &config.tls_key) {
            (Some(cert), Some(key)) => listening::tls_acceptor(cert, key).map(|_| "https")?,
            _ => "http",
        };
        let plural = |count: usize, thing: &str| format!("{count} {thing}{}", if count == 1 { "" } else { "s" });
        let who = if config.users_file.is_some() { plural(users, "user") } else { "no users file".to_owned() };
        Ok(format!("the configuration is right: {scheme}://{http}, {}, {who}", plural(config.nodes.len(), "node")))
    }

    /// Starts a server in the current tokio runtime; when this returns it answers.
    ///
    /// # Errors
    /// Keys that do not go together, an address that others can reach without users and TLS, one that is taken, a data
    /// folder in use, a file that cannot be read.
    pub async fn start(options: ServerOptions) -> Result<ServerHandle> {
        let ServerOptions {
            config,
            data,
            http: address,
            http_explicit,
            mysql,
            insecure,
            archiving,
            buckets,
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
            (Some(cert), Some(key)) => Some(listening::tls_acceptor(cert, key)?),
            _ => None,
        };
        let listener = listening::bind(address, http_explicit, "--http").await?;
        let bound = listener.local_addr().map_err(|cause| Error::Bind { address: address.to_string(), cause })?;
        let sql_listener = match &mysql {
            Some(sql) => Some(listening::bind(sql.address, sql.explicit, "--mysql").await?),
            None => None,
        };
        let store = open_store(&data, &config).await?;
        let place = |path: PathBuf| {
            WatchedFolder::from_path(path.clone()).map_err(|cause| Error::File { what: "data folder", path, cause })
        };
        let places = vec![place(data.clone())?, place(data.join("profiles"))?];
        let children = Children::new(symbolize_child, jeprof_child, &data);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let archive = open_archive(&data, &config, buckets).await?.map(Arc::new);
        let registry = open_registry(&data, &config, extra_nodes, bound, archive.clone()).await?;
        let settings = Settings::new(config, data, places, bound);
        let url = server_url(&settings, scheme);
        let archive = archive.map(|open| ArchiveOptions { open, rhythm: archiving, url });
        let parts = Parts::new(settings, registry, store, archive, users, children, agent)?;
        warn_of_others(&parts.settings);
        if parts.captures.is_paused() {
            tracing::info!("scheduled captures are paused");
        }
        if let Some((folder, node)) = imports::log_folder(&parts.settings.config(), &parts.registry)? {
            parts.tasks.spawn(imports::take_over(Arc::clone(&parts.ingest), folder, node));
        }
        let sql_bound = match (sql_listener, mysql) {
            (Some(listener), Some(sql)) => Some(spawn_sql(&parts, listener, sql.login, tls.clone())?),
            _ => None,
        };
        spawn_parts(&parts, listener, tls);
        Ok(ServerHandle { parts, mysql: sql_bound, scheme })
    }
}

/// Logs which files others on this machine could change, or read although they are secret.
fn warn_of_others(settings: &Settings) {
    for warning in config::warnings(&settings.config(), &settings.data) {
        tracing::warn!("{warning}");
    }
}

fn spawn_parts(parts: &Parts, listener: tokio::net::TcpListener, tls: Option<tokio_rustls::TlsAcceptor>) {
    parts.tasks.spawn(procprof_web::serve(Arc::clone(&parts.web), listener, tls));
    if let Some(servers) = &parts.servers {
        parts.tasks.spawn(Arc::clone(servers).run());
    }
    parts.tasks.spawn(Arc::clone(&parts.captures).run_schedule(parts.stop.clone()));
    parts.tasks.spawn(Arc::clone(&parts.captures).run_heap_ends(parts.stop.clone()));
    parts.tasks.spawn(Arc::clone(&parts.hosts).run());
    parts.tasks.spawn(register_waiting(parts));
    parts.tasks.spawn(retain(parts));
    parts.tasks.spawn(fill_functions(Arc::clone(&parts.web.store), parts.stop.clone()));
    parts.tasks.spawn(Arc::clone(&parts.sql).run_discovery());
    if let Some(archiver) = &parts.archiver {
        parts.tasks.spawn(Arc::clone(archiver).run());
    }
}

/// Registers the nodes that wait for their ids once these can be had.
fn register_waiting(parts: &Parts) -> impl Future<Output = ()> + use<> {
    let (registry, settings, stop) = (Arc::clone(&parts.registry), Arc::clone(&parts.settings), parts.stop.clone());
    async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(WAITING_LOOK) => {}
            }
            let (own, settings) = (Arc::clone(&registry), Arc::clone(&settings));
            match tokio::task::spawn_blocking(move || own.number_waiting(&settings)).await {
                Ok(Ok(true)) => {
                    tracing::info!("the nodes that waited for their ids are registered");
                    registry.changed();
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::debug!("nodes: {}", chain(&error)),
                Err(error) => tracing::error!("nodes: {error}"),
            }
        }
    }
}

/// Deletes old profiles, once those that are not archived yet have been.
fn retain(parts: &Parts) -> impl Future<Output = ()> + use<> {
    let (retention, archiver, stop) = (Arc::clone(&parts.retention), parts.archiver.clone(), parts.stop.clone());
    async move {
        if let Some(archiver) = archiver {
            archiver.catch_up(CATCH_UP_MAX).await;
        }
        retention.run(stop).await;
    }
}

/// Serves SQL; the address that is bound.
fn spawn_sql(
    parts: &Parts,
    listener: tokio::net::TcpListener,
    login: SqlLogin,
    tls: Option<tokio_rustls::TlsAcceptor>,
) -> Result<SocketAddr> {
    let bound = listener.local_addr().map_err(|cause| Error::Bind { address: "the SQL address".to_owned(), cause })?;
    parts.tasks.spawn(procprof_sql::serve(Arc::clone(&parts.sql), listener, login, tls)?);
    Ok(bound)
}

impl ServerHandle {
    /// The address where SQL clients connect, if they may.
    pub fn mysql(&self) -> Option<SocketAddr> {
        self.mysql
    }

    /// The address that is bound.
    pub fn addr(&self) -> SocketAddr {
        self.parts.settings.bound
    }

    /// The URL of the server without a path: `https://127.0.0.1:8030` if it serves TLS, else with `http`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.addr())
    }

    /// Takes a new configuration: nodes, schedules, limits, users. Returns the keys whose change needs a restart.
    ///
    /// # Errors
    /// Keys that do not go together, a users file that cannot be read, or an id file that cannot be written; then the
    /// old configuration stays.
    pub fn reload(&self, config: Config) -> Result<Vec<&'static str>> {
        config.check()?;
        let users = read_users(&config)?;
        let old = self.parts.settings.config();
        if old.users_file.is_some() && users.is_none() {
            return Err(Error::Config(
                "users_file: without it everyone would be let in; taking it away needs a restart".to_owned(),
            ));
        }
        self.parts.registry.configure(&config, &self.parts.settings.bound.to_string())?;
        let restart = old.needs_restart(&config);
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        if !restart.is_empty() {
            tracing::warn!("changed, but in effect only after a restart: {}", restart.join(", "));
        }
        self.parts.authenticator.replace(users);
        self.parts.settings.replace(config);
        warn_of_others(&self.parts.settings);
        self.parts.captures.reconfigure();
        self.parts.registry.changed();
        tracing::info!("configuration reloaded");
        Ok(restart)
    }

    /// Stops: accepts nothing more, gives captures up, waits for what is being stored, at most for `deadline` (5 s is
    /// enough). Returns whether everything had ended by then; nothing half-written stays either way.
    pub async fn stop(self, deadline: Duration) -> bool {
        let until = tokio::time::Instant::now() + deadline;
        self.parts.stop.cancel();
        self.parts.agent.stop();
        self.parts.tasks.close();
        let ended = tokio::time::timeout(deadline, self.parts.tasks.wait()).await.is_ok();
        if !ended {
            tracing::warn!("work that did not end within {} s is given up", deadline.as_secs_f64());
        }
        // Threads whose answers nobody waits for may still have the data folder, which the next server needs.
        let held = self.parts.web.store.held();
        drop(self);
        while held.strong_count() > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(RELEASE_LOOK).await;
        }
        if held.strong_count() > 0 {
            tracing::warn!("the data folder is in use for some time more, by what could not be ended");
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

/// Refuses one port for both servers.
fn check_ports(http: SocketAddr, mysql: SocketAddr) -> Result<()> {
    let is_same_host = http.ip() == mysql.ip() || http.ip().is_unspecified() || mysql.ip().is_unspecified();
    match is_same_host && http.port() == mysql.port() && http.port() != 0 {
        true => Err(Error::Config(format!("http and mysql: both are to listen at port {}", http.port()))),
        false => Ok(()),
    }
}

/// Refuses a SQL address that other machines can reach unless users and TLS are configured, and always to let everyone
/// in there.
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

async fn open_archive(data: &Path, config: &Config, buckets: Environment) -> Result<Option<OpenArchive>> {
    let (data, config) = (data.to_owned(), config.clone());
    let opened = tokio::task::spawn_blocking(move || archiving::open(&config, &data, &buckets));
    opened.await.map_err(|error| Error::Setup { what: "archive", why: error.to_string() })?
}

async fn open_registry(
    data: &Path,
    config: &Config,
    extra: Vec<ExtraNode>,
    bound: SocketAddr,
    archive: Option<Arc<OpenArchive>>,
) -> Result<Registry> {
    let (data, config) = (data.to_owned(), config.clone());
    let shared = archive.map(|archive| Arc::new(SharedNumbers::new(archive)) as Arc<dyn NodeNumbers>);
    let opened = tokio::task::spawn_blocking(move || Registry::open(&data, &config, extra, &bound.to_string(), shared));
    opened.await.map_err(|error| Error::Setup { what: "nodes", why: error.to_string() })?
}

/// The URL at which other servers reach this one: by the name of the machine where it listens at every address.
fn server_url(settings: &Settings, scheme: &str) -> String {
    let config = settings.config();
    if !config.server_url.is_empty() {
        return config.server_url.trim_end_matches('/').to_owned();
    }
    let bound = settings.bound;
    let host = if bound.ip().is_unspecified() { settings.machine.clone() } else { bound.ip().to_string() };
    let host = if bound.is_ipv6() && host.contains(':') { format!("[{host}]") } else { host };
    format!("{scheme}://{host}:{}{}", bound.port(), config.base_path)
}
