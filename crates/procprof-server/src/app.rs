//! Everything the parts of a running server share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use procprof_agent::Agent;
use procprof_store::Store;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Door;
use crate::captures::{Captures, Jobs};
use crate::config::Config;
use crate::ingest::Budget;
use crate::metrics::Metrics;
use crate::nodes::Registry;
use crate::render::Renders;
use crate::retention::Retention;
use crate::server::ChildProgram;
use crate::sql::fe::{Dumps, Frontends};
use crate::symbols::{Intakes, Refreshes, Shelf};
use crate::usage::KnownUsage;

/// The running server, as its parts see it.
pub(crate) struct App {
    pub(crate) config: RwLock<Arc<Config>>,
    pub(crate) registry: Registry,
    pub(crate) store: Arc<Store>,
    pub(crate) door: Door,
    pub(crate) metrics: Metrics,
    pub(crate) budget: Budget,
    pub(crate) captures: Captures,
    pub(crate) jobs: Jobs,
    pub(crate) renders: Renders,
    pub(crate) retention: Retention,
    pub(crate) usage: KnownUsage,
    /// Uploaded symbols.
    pub(crate) symbols: Arc<Shelf>,
    pub(crate) intakes: Intakes,
    /// Stored profiles that are getting names.
    pub(crate) refreshes: Refreshes,
    /// Frontends of StarRocks clusters.
    pub(crate) frontends: Frontends,
    /// Dumps that those frontends made.
    pub(crate) dumps: Dumps,
    pub(crate) agent: Agent,
    pub(crate) symbolize_child: ChildProgram,
    pub(crate) jeprof_child: ChildProgram,
    /// Children at a time.
    pub(crate) symbolizers: Semaphore,
    /// Whether scheduled captures are paused.
    pub(crate) paused: watch::Sender<bool>,
    /// Where that is kept.
    pub(crate) pause_file: PathBuf,
    /// Folder of profiles, journal and catalog.
    pub(crate) data: PathBuf,
    /// Counts changes of the nodes.
    pub(crate) generation: watch::Sender<u64>,
    /// Everything that must have ended when the server has.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    /// The address that is bound.
    pub(crate) bound: SocketAddr,
    /// This machine's name.
    pub(crate) machine: String,
}

impl App {
    /// The configuration at this moment.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether scheduled captures are paused.
    pub(crate) fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// Pauses or resumes scheduled captures; a restart keeps it so.
    ///
    /// # Errors
    /// It cannot be kept; it holds for this process all the same.
    pub(crate) fn set_paused(&self, paused: bool) -> std::io::Result<()> {
        self.paused.send_replace(paused);
        self.metrics.paused.set(i64::from(paused));
        match paused {
            true => crate::nodes::write_whole(&self.pause_file, b"scheduled captures are paused\n"),
            false => match std::fs::remove_file(&self.pause_file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}
