//! The heap of one node: its profiler's switch, dumps, and their drawings.
//!
//! A StarRocks BE of a cluster with `fe_query` is switched and dumped by its frontend; the dump is stored from
//! `/pprof/heap` meanwhile. Every other node's profiler is reached by [`HeapProfiler`].
//!
//! What a process cannot do is a sentence in the result, as the seeds' own answers are; what keeps a node from
//! answering is a [`SqlError`].

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use procprof_core::captures::{Arrived, HeapError, HeapProfiler, HeapResult};
use procprof_core::nodes::{Node, THIS_SERVER_ID};
use procprof_core::remote::process;
use procprof_core::shares::Requester;
use procprof_process::Identity;
use procprof_profile::{ProfileId, ProfileType};
use procprof_report::Report;
use procprof_store::Entry;
use tokio::sync::oneshot;

use super::heap_graph::{self, Program};
use super::script::{Call, Drawing};
use super::starrocks::heap::FeNode;
use crate::Sql;
use crate::mysql::{Caller, SqlError, SqlErrorKind};

/// The output of a method without a result: the object it was called on.
const INSTANCE: &str = "instance of HeapProf";
/// Before a dump's profile id, so that its name looks like the files StarRocks names.
const SNAPSHOT: &str = "heap_profile.";
/// The start of jemalloc's text.
const JEMALLOC: &[u8] = b"heap_v2/";
/// Time to take a dump for the store while a frontend makes its own.
const STORE_TIME: Duration = Duration::from_secs(60);

/// A node, as a script sees it.
pub(super) struct NodeHeap<'a> {
    sql: &'a Arc<Sql>,
    node: Arc<Node>,
    by: &'a Caller,
}

fn other(text: impl Into<String>) -> SqlError {
    SqlError::new(SqlErrorKind::Other, text)
}

/// A refusal of the process is printed; a node that does not answer fails the statement.
fn sentence<T>(result: HeapResult<T>) -> Result<Result<T, String>, SqlError> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(HeapError::Refused(refusal)) => Ok(Err(refusal.to_string())),
        Err(HeapError::Failed(why)) => Err(other(why)),
    }
}

impl<'a> NodeHeap<'a> {
    pub(super) fn new(sql: &'a Arc<Sql>, node: Arc<Node>, by: &'a Caller) -> NodeHeap<'a> {
        NodeHeap { sql, node, by }
    }

    /// The output of a call.
    pub(super) async fn call(&self, call: &Call) -> Result<String, SqlError> {
        match FeNode::from_node(self.sql, &self.node).filter(|node| node.takes(call)) {
            Some(node) => self.forward(&node, call).await,
            None => self.call_profiler(call).await,
        }
    }

    /// The output of the cluster's frontend. A dump is on the node then, so another one is taken for the store, as far
    /// as the node permits.
    async fn forward(&self, node: &FeNode<'_>, call: &Call) -> Result<String, SqlError> {
        if !matches!(call, Call::Snapshot | Call::Dump(_)) {
            return node.run(call).await;
        }
        let (printed, stored) = tokio::join!(node.run(call), tokio::time::timeout(STORE_TIME, self.snapshot(None)));
        let why = match stored {
            Ok(Ok(Ok(_))) => return printed,
            Ok(Ok(Err(why))) => why,
            Ok(Err(failure)) => failure.text,
            Err(_) => format!("not taken within {} s", STORE_TIME.as_secs()),
        };
        tracing::warn!("{}: the frontend's dump is not stored as a profile: {why}", self.node.name());
        printed
    }

    async fn call_profiler(&self, call: &Call) -> Result<String, SqlError> {
        match call {
            Call::Enable(active) => {
                Ok(sentence(self.profiler().set_active(*active).await)?
                    .map_or_else(|why| why, |()| INSTANCE.to_owned()))
            }
            Call::HasEnable => {
                Ok(sentence(self.profiler().is_active().await)?.map_or_else(|why| why, |active| active.to_string()))
            }
            Call::Snapshot => {
                Ok(self.snapshot(None).await?.map_or_else(|why| why, |entry| format!("{SNAPSHOT}{}", entry.id)))
            }
            Call::Dump(drawing) => self.dump_and_render(*drawing).await,
            Call::ToDot(name) => {
                let entry = self.dump(name).await?;
                self.render(Drawing::Dot, None, &entry).await
            }
            Call::DiffDot(base, name) => {
                let (base, entry) = (self.dump(base).await?, self.dump(name).await?);
                self.render(Drawing::Dot, Some(&base), &entry).await
            }
        }
    }

    /// Takes a dump and stores it; the inner `Err` is a sentence with the reason for a missing dump and the remedy.
    async fn snapshot(&self, arrived: Option<Arrived>) -> Result<Result<Arc<Entry>, String>, SqlError> {
        let stop = self.sql.stop.child_token();
        // The capture ends when the client no longer waits for the statement.
        let _given_up = stop.clone().drop_guard();
        sentence(self.profiler().dump(&self.by.principal.name, stop, arrived).await)
    }

    fn profiler(&self) -> HeapProfiler<'_> {
        HeapProfiler::new(&self.sql.captures, &self.node)
    }

    /// A dump of this node by the name that `snapshot()` gave.
    async fn dump(&self, name: &str) -> Result<Arc<Entry>, SqlError> {
        let unknown = || {
            let name: String = name.chars().take(80).collect();
            SqlError::new(
                SqlErrorKind::WrongArguments,
                format!("'{name}' is no dump of node {}; snapshot() gives names of dumps", self.node.id),
            )
        };
        let id: ProfileId = name.strip_prefix(SNAPSHOT).and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
        let store = Arc::clone(&self.sql.store);
        let entry =
            tokio::task::spawn_blocking(move || store.get(id)).await.map_err(|error| other(error.to_string()))?;
        entry
            .ok()
            .filter(|entry| entry.node == self.node.id && entry.profile_type == ProfileType::Heap)
            .map(Arc::new)
            .ok_or_else(unknown)
    }

    /// Takes a dump, and draws it while it is stored where the dump as it came can be drawn.
    async fn dump_and_render(&self, drawing: Drawing) -> Result<String, SqlError> {
        let (tell, told) = oneshot::channel();
        let tell = Mutex::new(Some(tell));
        let arrived = move |bytes: &Bytes| {
            if let Some(tell) = tell.lock().unwrap_or_else(PoisonError::into_inner).take() {
                // The receiver may be gone.
                let _ = tell.send(bytes.clone());
            }
        };
        let (snapshot, drawn) =
            tokio::join!(self.snapshot(Some(Box::new(arrived))), self.render_on_arrival(drawing, told));
        match (snapshot?, drawn) {
            (Err(why), _) => Ok(why),
            (Ok(entry), Some(drawn)) => Ok(self.with_link(drawing, drawn?, &entry)),
            (Ok(entry), None) => self.render(drawing, None, &entry).await,
        }
    }

    /// A dump drawn as it came; `None` if it is not jemalloc's text, or its names are not to be had from a program
    /// here.
    async fn render_on_arrival(
        &self,
        drawing: Drawing,
        arrived: oneshot::Receiver<Bytes>,
    ) -> Option<Result<String, SqlError>> {
        let option = option(drawing)?;
        let dump = arrived.await.ok().filter(|dump| dump.starts_with(JEMALLOC))?;
        heap_graph::jeprof_of_dump(self.sql, option, &self.program(), dump).await
    }

    async fn render(&self, drawing: Drawing, base: Option<&Entry>, entry: &Entry) -> Result<String, SqlError> {
        let Some(option) = option(drawing) else { return self.flamegraph(entry).await };
        let drawn = heap_graph::jeprof(self.sql, option, self.program(), base, entry).await?;
        // There is no page of a difference to link to.
        Ok(if base.is_none() { self.with_link(drawing, drawn, entry) } else { drawn })
    }

    /// A graph with the link to its page, where that is set.
    fn with_link(&self, drawing: Drawing, drawn: String, entry: &Entry) -> String {
        if drawing == Drawing::Dot {
            heap_graph::with_link(drawn, &self.sql.config().sql_link_base, entry.id)
        } else {
            drawn
        }
    }

    async fn flamegraph(&self, entry: &Entry) -> Result<String, SqlError> {
        let report = Report::named("flamegraph").map_err(|error| other(error.to_string()))?;
        let made = self
            .sql
            .renderer
            .render(&entry.into(), report, &[], &Requester::new(&self.by.principal, self.by.peer.ip()))
            .await
            .map_err(|error| other(error.to_string()))?;
        String::from_utf8(made.to_vec()).map_err(|error| other(error.to_string()))
    }

    /// The program behind the node, where it is on this machine.
    fn program(&self) -> Program {
        if self.node.id == THIS_SERVER_ID {
            return Program::from_pid(std::process::id());
        }
        match (process(&self.node, listener(&self.node.address)), &self.node.config.binary) {
            (Some(identity), _) => Program::from_pid(identity.pid.0),
            (None, Some(binary)) => Program::File(binary.clone()),
            (None, None) => Program::Elsewhere,
        }
    }
}

/// jeprof's option for a drawing; a flame graph is a report of ours.
fn option(drawing: Drawing) -> Option<&'static str> {
    match drawing {
        Drawing::Flamegraph => None,
        Drawing::Dot => Some("--dot"),
        Drawing::Svg => Some("--svg"),
        Drawing::Collapsed => Some("--collapsed"),
        Drawing::Text => Some("--text"),
    }
}

/// The process that listens at an address of this machine.
fn listener(address: &str) -> Option<Identity> {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address: SocketAddr = address.split('/').next()?.replace("localhost", "127.0.0.1").parse().ok()?;
    let listeners = address.ip().is_loopback().then(|| procprof_process::listeners_on(address.port()))?.ok()?;
    let owner = listeners
        .iter()
        .filter(|listener| listener.accepts(address.ip()))
        .find_map(|listener| listener.owners.first())?;
    Identity::read(owner.pid).ok()
}
