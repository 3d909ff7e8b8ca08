//! [`Servers`]: any number of servers share an archive and the work. Each writes a heartbeat there; of those that are
//! alive and have a node configured, one captures it.
//!
//! A server that falls silent loses its nodes when its lease is over, one that stops gives them up at once. A server
//! that cannot reach the archive goes on with the nodes that it had; the others may take them over meanwhile, and then
//! both capture them: that is reported, and loses nothing. A server whose disk is full gives its nodes to those that
//! have room.

mod heartbeat;
pub mod hot;
mod members;
mod numbers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use procprof_archive::{Objects, Writer};
use procprof_collect::HttpClient;
use procprof_store::Store;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::archiving::OpenArchive;
use crate::error::chain;
use crate::metrics::Metrics;
use crate::nodes::{Node, Registry};
use crate::settings::Settings;

use heartbeat::{Heartbeat, Heartbeats, NodeKey, encode_nodes, heartbeats, put_heartbeat, put_nodes};
use members::Members;
pub use numbers::SharedNumbers;

/// Heartbeats in a lease.
const BEATS: u32 = 3;
/// Beats that a server lets pass before it captures what others may still capture.
const SETTLING: u32 = 2;
/// A server with less free space gives its nodes to others: the profiles of some minutes no longer fit.
const FREE_BYTES_MIN: u64 = 16 << 20;
/// Free space with which it takes them back.
const FREE_BYTES_AGAIN: u64 = 2 * FREE_BYTES_MIN;

/// A server of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// The name under which it writes to the archive.
    pub server: Writer,
    /// URL at which it is reached.
    pub url: String,
    /// Its version.
    pub version: String,
    /// When it was started, by its own clock.
    pub started: Option<Timestamp>,
    /// Whether it is this one.
    pub is_own: bool,
    /// Whether its heartbeat is younger than its lease.
    pub is_alive: bool,
    /// Whether its disk is full, so that others capture its nodes.
    pub is_full: bool,
    /// Configured nodes of this server that it captures.
    pub nodes: usize,
}

/// The servers of an archive, as one of them sees them.
pub struct Servers {
    settings: Arc<Settings>,
    registry: Arc<Registry>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    archive: Arc<OpenArchive>,
    /// URL at which others reach this server.
    url: String,
    /// The connections to others.
    client: HttpClient,
    /// Where requests to others run, once this server does.
    runtime: OnceLock<Handle>,
    lease: Duration,
    started: Timestamp,
    state: Mutex<State>,
    /// Counts changes of who captures what.
    generation: watch::Sender<u64>,
    stop: CancellationToken,
}

/// Keys of nodes by server.
type KeysRead = HashMap<Writer, BTreeSet<NodeKey>>;

#[derive(Default)]
struct State {
    members: Members,
    /// Whether this server captures nodes that others may have.
    has_settled: bool,
    /// Heartbeats written.
    beats: u64,
    /// When the last one was written.
    beaten: Option<Instant>,
    /// The keys of nodes that are written.
    digest: String,
    /// Why the archive could not be written or listed.
    error: Option<String>,
    /// Whether the disk of this server is full.
    is_full: bool,
    /// Whether others may have taken the nodes of this server over.
    is_unseen: bool,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Servers {
    /// A server of an archive that is reached at `url`. Nothing runs yet.
    pub fn new(
        settings: Arc<Settings>,
        registry: Arc<Registry>,
        store: Arc<Store>,
        metrics: Arc<Metrics>,
        archive: Arc<OpenArchive>,
        url: String,
        stop: CancellationToken,
    ) -> Servers {
        let lease = Duration::from_secs(settings.config().server_lease_seconds);
        Servers {
            settings,
            registry,
            store,
            metrics,
            archive,
            url,
            client: HttpClient::new(),
            runtime: OnceLock::new(),
            lease,
            started: Timestamp::now(),
            state: Mutex::default(),
            generation: watch::Sender::new(0),
            stop,
        }
    }

    /// Writes heartbeats and reads those of others until the server stops; gives its nodes up then.
    pub async fn run(self: Arc<Self>) {
        self.runtime.get_or_init(Handle::current);
        let mut nodes = self.registry.changes();
        let mut last = Instant::now();
        loop {
            nodes.mark_unchanged();
            let (own, since) = (Arc::clone(&self), last.elapsed());
            last = Instant::now();
            if let Err(error) = tokio::task::spawn_blocking(move || own.beat(since)).await {
                tracing::error!("servers: {error}");
            }
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep(self.lease / BEATS) => {}
                // Others are to know new nodes at once.
                _ = nodes.changed() => {}
            }
        }
        let own = Arc::clone(&self);
        let farewell = tokio::task::spawn_blocking(move || heartbeat::remove(own.objects(), own.archive.writer)).await;
        if let Ok(Err(error)) = farewell {
            tracing::warn!("servers: the others learn late that this one has stopped: {}", chain(&error));
        }
    }

    /// Sees each change of who captures what.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Whether this server captures a node on schedule.
    pub fn captures(&self, node: &Node) -> bool {
        let Some(key) = NodeKey::new(node, &self.settings.machine) else { return true };
        let state = self.lock();
        state.has_settled && self.owner(&state, key) == self.archive.writer
    }

    /// The URL of the other server that captures a node on schedule, if one does.
    pub fn url_of_other(&self, node: &Node) -> Option<String> {
        let key = NodeKey::new(node, &self.settings.machine)?;
        let state = self.lock();
        let owner = self.owner(&state, key);
        state.members.others().find(|(server, _)| *server == owner).map(|(_, member)| member.heartbeat.url.clone())
    }

    /// All servers of the archive, this one first.
    pub fn all(&self) -> Vec<ServerState> {
        let own = self.archive.writer;
        let keys = self.keys();
        let state = self.lock();
        let mut owned = HashMap::<Writer, usize>::new();
        for key in keys {
            *owned.entry(self.owner(&state, key)).or_default() += 1;
        }
        let count = |server| owned.get(&server).copied().unwrap_or(0);
        let this = ServerState {
            server: own,
            url: self.url.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: Some(self.started),
            is_own: true,
            is_alive: true,
            is_full: state.is_full,
            nodes: count(own),
        };
        let others = state.members.others().map(|(server, member)| ServerState {
            server,
            url: member.heartbeat.url.clone(),
            version: member.heartbeat.version.clone(),
            started: Timestamp::from_millisecond(member.heartbeat.started).ok(),
            is_own: false,
            is_alive: member.is_alive,
            is_full: member.heartbeat.full,
            nodes: count(server),
        });
        std::iter::once(this).chain(others).collect()
    }

    /// What keeps this server from sharing nodes with others.
    pub fn problem(&self) -> Option<String> {
        let state = self.lock();
        let Some(error) = state.error.clone() else {
            drop(state);
            return self.registry.waiting().map(|waiting| waiting.to_string());
        };
        Some(match state.is_unseen {
            true => format!("no heartbeat could be written, so other servers may capture the same nodes: {error}"),
            false => error,
        })
    }

    /// The server that captures a node of this one.
    fn owner(&self, state: &State, node: NodeKey) -> Writer {
        state.members.owner(self.archive.writer, state.is_full, node)
    }

    fn objects(&self) -> &dyn Objects {
        self.archive.known.archive.objects()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self) -> BTreeSet<NodeKey> {
        self.registry.all().iter().filter_map(|node| NodeKey::new(node, &self.settings.machine)).collect()
    }

    /// One heartbeat, `since` the last attempt, and a look at those of others.
    fn beat(&self, since: Duration) {
        // Only the archive's listing moves the clock of leases, by at most the time between two attempts.
        let since = since.min(self.lease / BEATS * 2);
        let is_full = self.is_full();
        let written = self.write_heartbeat(is_full);
        let listed = self.read_heartbeats();
        let mut state = self.lock();
        let before = self.shares(&state);
        state.is_full = is_full;
        let mut error = None;
        match written {
            Ok(()) => {
                state.beats += 1;
                state.beaten = Some(Instant::now());
                if std::mem::take(&mut state.is_unseen) {
                    tracing::warn!("servers: this one is seen again; others may have captured its nodes meanwhile");
                }
            }
            Err(why) => {
                error = Some(chain(&why));
                let is_late = state.beaten.is_none_or(|beaten| beaten.elapsed() > self.lease);
                if is_late && !std::mem::replace(&mut state.is_unseen, true) {
                    tracing::warn!("servers: others may capture the nodes of this one, too: {}", chain(&why));
                }
            }
        }
        match listed {
            Ok((Heartbeats { found, refused }, keys)) => {
                self.listen(&mut state, found, keys, since);
                error = error.or_else(|| refused.map(|refused| chain(&refused)));
            }
            Err(why) => error = Some(chain(&why)),
        }
        // Without a view of others, what is configured is captured: twice is better than not at all.
        state.has_settled |= !state.members.has_company() && (state.members.has_listened() || error.is_some());
        state.has_settled |= state.beats > u64::from(SETTLING);
        if error != state.error
            && let Some(why) = &error
        {
            tracing::warn!("servers: {why}");
        }
        state.error = error;
        let after = self.shares(&state);
        self.metrics.servers_alive.set(1 + state.members.others().filter(|(_, other)| other.is_alive).count() as i64);
        let forgotten = state.members.forgotten();
        drop(state);
        for server in forgotten {
            if let Err(error) = heartbeat::remove(self.objects(), server) {
                tracing::debug!("servers: {}", chain(&error));
            }
        }
        if before != after {
            let configured = self.keys().len();
            if configured > 0 {
                tracing::info!("servers: {} of {configured} nodes are captured here", after.1.len());
            }
            self.generation.send_modify(|generation| *generation += 1);
        }
    }

    /// Whether the disk of this server takes no more profiles; as before if that cannot be told.
    fn is_full(&self) -> bool {
        let was_full = self.lock().is_full;
        let least = if was_full { FREE_BYTES_AGAIN } else { FREE_BYTES_MIN };
        let is_full = match self.store.free_bytes() {
            Ok(free) => free < least,
            Err(error) => {
                tracing::debug!("servers: {}", chain(&error));
                was_full
            }
        };
        match (was_full, is_full) {
            (false, true) => {
                tracing::warn!("servers: the disk is full; servers with room capture the nodes of this one")
            }
            (true, false) => tracing::info!("servers: the disk has room again"),
            _ => {}
        }
        is_full
    }

    fn write_heartbeat(&self, full: bool) -> Result<()> {
        let (text, digest) = encode_nodes(&self.keys())?;
        let (known, beat) = {
            let state = self.lock();
            (state.digest.clone(), state.beats + 1)
        };
        let own = self.archive.writer;
        if known != digest {
            put_nodes(self.objects(), own, &text)?;
            self.lock().digest.clone_from(&digest);
        }
        let heartbeat = Heartbeat {
            url: self.url.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started.as_millisecond(),
            beat,
            lease: self.lease.as_secs(),
            nodes: digest,
            full,
        };
        put_heartbeat(self.objects(), own, &heartbeat)
    }

    /// The heartbeats of others, and the keys of nodes that are not known yet. Nothing waits for the storage meanwhile.
    fn read_heartbeats(&self) -> Result<(Heartbeats, KeysRead)> {
        let mut others = heartbeats(self.objects())?;
        others.found.retain(|(server, _)| *server != self.archive.writer);
        let unread = self.lock().members.unread(&others.found);
        let mut keys = HashMap::new();
        for (server, digest) in unread {
            match heartbeat::nodes(self.objects(), server, &digest) {
                Ok(nodes) => drop(keys.insert(server, nodes)),
                Err(error) => tracing::debug!("servers: {}", chain(&error)),
            }
        }
        Ok((others, keys))
    }

    fn listen(&self, state: &mut State, found: Vec<(Writer, Heartbeat)>, mut keys: KeysRead, since: Duration) {
        let was_alive = alive(&state.members);
        state.members.listen(found, since, |server, _| keys.remove(&server));
        let is_alive = alive(&state.members);
        for (server, member) in state.members.others() {
            match (was_alive.contains(&server), is_alive.contains(&server)) {
                (false, true) => tracing::info!("servers: {} ({server}) is alive", member.heartbeat.url),
                (true, false) => tracing::warn!("servers: {} ({server}) is silent", member.heartbeat.url),
                _ => {}
            }
        }
        for server in was_alive.into_iter().filter(|server| state.members.others().all(|(other, _)| other != *server)) {
            tracing::info!("servers: {server} has stopped");
        }
    }

    /// Whether this server captures shared nodes, and which.
    fn shares(&self, state: &State) -> (bool, BTreeSet<NodeKey>) {
        let is_own = |key: &NodeKey| state.has_settled && self.owner(state, *key) == self.archive.writer;
        (state.has_settled, self.keys().into_iter().filter(is_own).collect())
    }
}

fn alive(members: &Members) -> BTreeSet<Writer> {
    members.others().filter(|(_, member)| member.is_alive).map(|(server, _)| server).collect()
}
