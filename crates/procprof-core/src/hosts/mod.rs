//! Hosts whose processes are profiled from outside by a host agent (`procprof node`), which sends what it records.
//!
//! ```text
//! heartbeat -> bounded -> admitted (the token's host) -> registered as nodes -> held -> commands
//! push      -> frames  -> admitted                    -> registered          -> ingest -> capture that waits for it
//! ```
//! A host is a node, and so is each of its services. What is known of a host is a file in `DATA/hosts`, so that a
//! restart of the server changes nothing. The server never connects to a host: commands are the answer to a heartbeat.

mod admission;
mod bounded;
mod captures;
mod folder;
mod forget;
mod frames;
mod heartbeat;
mod known;
mod listing;
mod numbering;
pub mod protocol;
mod push;
mod state;
mod symbols;
#[cfg(test)]
mod tests;
mod warning;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::auth::Authenticator;
use crate::error::Result;
use crate::ingest::Ingest;
use crate::nodes::Node;

pub use admission::AdmissionError;
use captures::Waiting;
pub(crate) use captures::{CaptureOrder, NoCapture};
use folder::HostFolder;
pub use frames::{FrameError, FramePart, Frames};
pub use heartbeat::HeartbeatError;
use heartbeat::Seat;
use known::KnownHost;
use listing::ListingSchedule;
use numbering::IdQueue;
pub use push::{Admitted, PushError};
pub use state::{HostState, RATE_MAX, RateError, ServiceState};
pub use warning::HostWarning;

/// Most hosts that are known.
pub const HOSTS_MAX: usize = 5_000;
/// Most services that are known of a host, gone ones included.
pub const KNOWN_SERVICES_MAX: usize = 2_000;
/// Most services of all hosts together.
pub const ALL_SERVICES_MAX: usize = 100_000;
/// Time without a heartbeat after which a host is late, and a service that is not in heartbeats is gone.
pub const LATE: Duration = Duration::from_secs(180);
/// Time without a heartbeat after which a host is gone.
pub const GONE: Duration = Duration::from_secs(24 * 3600);
/// Time after which what is gone is forgotten, once retention has deleted its profiles.
pub const FORGOTTEN: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often is looked for what is forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3600);
/// How often lateness is looked at, and what has changed since is written.
const SWEEP: Duration = Duration::from_secs(15);
/// How often the file of a host is written that sends heartbeats.
const WRITTEN_EVERY: Duration = Duration::from_secs(300);

/// The hosts that have sent something.
pub struct Hosts {
    ingest: Arc<Ingest>,
    authenticator: Arc<Authenticator>,
    folder: HostFolder,
    table: Mutex<Table>,
    /// Read while services are registered, written while some are forgotten.
    registering: tokio::sync::RwLock<()>,
    numbering: IdQueue,
    listing: ListingSchedule,
    /// One file is written at a time.
    writing: tokio::sync::Mutex<()>,
    /// Ids of profiles that are being taken in.
    taking: Mutex<HashMap<u128, watch::Receiver<()>>>,
    /// Captures that wait for their profile, by id.
    waiting: Mutex<HashMap<String, Waiting>>,
    stop: CancellationToken,
}

#[derive(Default)]
struct Table {
    hosts: BTreeMap<String, Host>,
    /// Services of all hosts, and those about to be registered.
    services: usize,
    /// Heartbeats that are held.
    held: usize,
    /// When was looked for what is forgotten.
    looked: Option<Instant>,
}

/// A host, and what is not written about it.
struct Host {
    known: KnownHost,
    /// When it was last heard of, or the server began to listen.
    heard: Instant,
    /// Whether it is known to be late.
    late: bool,
    /// Whether `known` is newer than its file.
    changed: bool,
    /// When its file was written, or read.
    written: Instant,
    seat: Seat,
    /// Its node and those of its services, as they were listed last.
    listed: Vec<Arc<Node>>,
    /// Whether `listed` is older than its services, their labels or types.
    is_stale: bool,
    /// Services that were gone, and when they were counted.
    gone: Option<(Instant, usize)>,
    /// One registration of services at a time.
    registering: Arc<tokio::sync::Mutex<()>>,
}

impl Host {
    fn new(known: KnownHost) -> Host {
        Host {
            known,
            heard: Instant::now(),
            late: false,
            changed: false,
            written: Instant::now(),
            seat: Seat::default(),
            listed: Vec::new(),
            is_stale: false,
            gone: None,
            registering: Arc::default(),
        }
    }
}

impl Hosts {
    /// The hosts of the data folder, as nodes of the registry of `ingest`.
    ///
    /// # Errors
    /// The folder cannot be read or made. A file in it that is broken is an error in the log; its host is registered
    /// anew by its next heartbeat.
    pub fn open(ingest: Arc<Ingest>, authenticator: Arc<Authenticator>, stop: CancellationToken) -> Result<Hosts> {
        let (folder, known) = HostFolder::open(&ingest.settings.data)?;
        let services = known.iter().map(|known| known.services.len()).sum();
        let hosts = known.into_iter().map(|known| (known.facts.id.clone(), Host::new(known))).collect();
        let hosts = Hosts {
            ingest,
            authenticator,
            folder,
            table: Mutex::new(Table { hosts, services, ..Table::default() }),
            registering: tokio::sync::RwLock::default(),
            numbering: IdQueue::default(),
            listing: ListingSchedule::default(),
            writing: tokio::sync::Mutex::default(),
            taking: Mutex::default(),
            waiting: Mutex::default(),
            stop,
        };
        hosts.note_in_host();
        hosts.list_now();
        Ok(hosts)
    }

    fn note_in_host(&self) {
        let table = self.table();
        let services = table.hosts.values().flat_map(|host| host.known.services.values());
        for service in services.filter(|service| service.facts.in_host) {
            self.ingest.registry.note(service.node, |health| health.in_host = true);
        }
    }

    /// Notes which hosts are late and which services are gone, and writes what is known of them, until `stop`.
    pub async fn run(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                _ = ticks.tick() => self.sweep().await,
            }
        }
        self.write_changed(Duration::ZERO).await;
    }

    async fn sweep(&self) {
        self.note_late();
        if let Err(error) = self.forget_gone().await {
            tracing::error!("forget hosts that are gone: {error}; tried again in {} s", FORGET_EVERY.as_secs());
        }
        self.list().await;
        self.write_changed(WRITTEN_EVERY).await;
    }

    /// Writes the files that are older than what is known, and older than this.
    async fn write_changed(&self, age: Duration) {
        let changed: Vec<String> = {
            let table = self.table();
            table
                .hosts
                .iter()
                .filter(|(_, host)| host.changed && host.written.elapsed() >= age)
                .map(|(id, _)| id.clone())
                .collect()
        };
        for id in changed {
            if let Err(error) = self.write(&id).await {
                tracing::error!("{error}; it is written again in {} s", SWEEP.as_secs());
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
