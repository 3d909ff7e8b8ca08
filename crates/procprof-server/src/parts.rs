//! The parts of a running server, put together: each is given the handles it needs, and only here are they all.

use std::sync::Arc;

use procprof_agent::Agent;
use procprof_core::archiving::{Archiver, OpenArchive, Rhythm};
use procprof_core::auth::{Authenticator, Users};
use procprof_core::captures::Captures;
use procprof_core::children::Children;
use procprof_core::hosts::Hosts;
use procprof_core::ingest::Ingest;
use procprof_core::metrics::Metrics;
use procprof_core::nodes::Registry;
use procprof_core::render::Renderer;
use procprof_core::resymbolize::Resymbolizer;
use procprof_core::retention::Retention;
use procprof_core::servers::Servers;
use procprof_core::settings::Settings;
use procprof_core::symbols::SymbolStore;
use procprof_core::{Error, Result};
use procprof_sql::Sql;
use procprof_store::Store;
use procprof_web::Web;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// All parts of one server.
pub(crate) struct Parts {
    pub(crate) settings: Arc<Settings>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) captures: Arc<Captures>,
    pub(crate) retention: Arc<Retention>,
    /// `None` without an archive.
    pub(crate) archiver: Option<Arc<Archiver>>,
    /// Those of the archive.
    pub(crate) servers: Option<Arc<Servers>>,
    pub(crate) web: Arc<Web>,
    pub(crate) sql: Arc<Sql>,
    /// Of the server itself.
    pub(crate) agent: Agent,
    /// Everything that must have ended when the server has.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

/// The archive of a server.
pub(crate) struct ArchiveOptions {
    pub(crate) open: Arc<OpenArchive>,
    pub(crate) rhythm: Rhythm,
    /// URL at which other servers of the archive reach this one.
    pub(crate) url: String,
}

impl Parts {
    /// Puts the parts together; nothing runs yet.
    ///
    /// # Errors
    /// The users cannot be taken, or the folder of uploaded symbols or hosts cannot be opened.
    pub(crate) fn new(
        settings: Settings,
        registry: Registry,
        store: Arc<Store>,
        archive: Option<ArchiveOptions>,
        users: Option<Users>,
        children: Children,
        agent: Agent,
    ) -> Result<Parts> {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (settings, registry, children) = (Arc::new(settings), Arc::new(registry), Arc::new(children));
        let metrics = Arc::new(Metrics::new());
        let authenticator = Arc::new(Authenticator::new(users).map_err(|why| Error::Setup { what: "users", why })?);
        let symbols = SymbolStore::open(&settings.data)
            .map_err(|error| Error::Setup { what: "symbols", why: error.to_string() })?;
        let ingest = Arc::new(Ingest::new(
            Arc::clone(&settings),
            Arc::clone(&registry),
            Arc::clone(&store),
            Arc::clone(&metrics),
            Arc::new(symbols),
            Arc::clone(&children),
        ));
        let hosts = Arc::new(Hosts::open(Arc::clone(&ingest), Arc::clone(&authenticator), stop.clone())?);
        let servers = archive.as_ref().map(|ArchiveOptions { open, url, .. }| {
            let (registry, metrics) = (Arc::clone(&registry), Arc::clone(&metrics));
            let (settings, store) = (Arc::clone(&settings), Arc::clone(&store));
            Arc::new(Servers::new(settings, registry, store, metrics, Arc::clone(open), url.clone(), stop.clone()))
        });
        let captures = Arc::new(Captures::new(
            Arc::clone(&ingest),
            Arc::clone(&hosts),
            agent.clone(),
            servers.clone(),
            tasks.clone(),
            stop.clone(),
        ));
        let resymbolizer = Arc::new(Resymbolizer::new(Arc::clone(&ingest), tasks.clone()));
        let archiver = archive.map(|ArchiveOptions { open, rhythm, .. }| {
            let (settings, store, metrics) = (Arc::clone(&settings), Arc::clone(&store), Arc::clone(&metrics));
            let symbols = Arc::clone(&ingest.symbols);
            Arc::new(Archiver::new(settings, store, symbols, metrics, open, rhythm, stop.clone()))
        });
        let retention = {
            let (settings, store, metrics) = (Arc::clone(&settings), Arc::clone(&store), Arc::clone(&metrics));
            Arc::new(Retention::new(settings, store, metrics, archiver.clone()))
        };
        let renderer = Arc::new(Renderer::new(
            Arc::clone(&settings),
            Arc::clone(&store),
            archiver.as_ref().map(|archiver| Arc::clone(&archiver.archive().known)),
            servers.clone(),
            Arc::clone(&metrics),
            stop.clone(),
        ));
        let web = Arc::new(Web {
            settings: Arc::clone(&settings),
            registry: Arc::clone(&registry),
            store: Arc::clone(&store),
            metrics: Arc::clone(&metrics),
            authenticator: Arc::clone(&authenticator),
            audit: Default::default(),
            symbols: Arc::clone(&ingest.symbols),
            ingest: Arc::clone(&ingest),
            hosts: Arc::clone(&hosts),
            captures: Arc::clone(&captures),
            resymbolizer,
            renderer: Arc::clone(&renderer),
            retention: Arc::clone(&retention),
            archiver: archiver.clone(),
            servers: servers.clone(),
            usage: Default::default(),
            activity: Default::default(),
            opened: Default::default(),
            intakes: Default::default(),
            agent: agent.clone(),
            stop: stop.clone(),
        });
        let sql = Arc::new(Sql {
            settings: Arc::clone(&settings),
            registry: Arc::clone(&registry),
            store,
            metrics,
            authenticator: Arc::clone(&authenticator),
            children,
            hosts: Arc::clone(&hosts),
            captures: Arc::clone(&captures),
            renderer,
            clusters: Default::default(),
            tasks: tasks.clone(),
            stop: stop.clone(),
        });
        Ok(Parts {
            settings,
            registry,
            authenticator,
            ingest,
            hosts,
            captures,
            retention,
            archiver,
            servers,
            web,
            sql,
            agent,
            tasks,
            stop,
        })
    }
}
