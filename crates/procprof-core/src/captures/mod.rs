//! Captures: one at a time of each node and type; scheduled ones and those on request share one path.

mod continuous;
mod failure;
mod heap;
mod heap_ends;
mod jobs;
mod load;
mod pause;
mod queue;
mod recorded;
mod run;
mod schedule;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use procprof_agent::Agent;
use procprof_collect::HttpClient;
use procprof_profile::ProfileType;
use procprof_store::Entry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::hosts::Hosts;
use crate::ingest::Ingest;
use crate::kinds::heap_unavailable;
use crate::metrics::Metrics;
use crate::nodes::{Node, Registry, THIS_SERVER_ID};
use crate::servers::Servers;
use crate::settings::Settings;

pub use failure::CaptureFailure;
pub use heap::{HeapError, HeapProfiler, HeapResult};
use heap_ends::HeapEnds;
pub use jobs::{Job, JobState, JobStatus, Jobs};
use pause::Pause;
pub use procprof_collect::SourceState;
pub use run::{Arrived, CaptureRequest};

/// Captures profiles, on schedule and on demand.
pub struct Captures {
    settings: Arc<Settings>,
    registry: Arc<Registry>,
    metrics: Arc<Metrics>,
    ingest: Arc<Ingest>,
    hosts: Arc<Hosts>,
    /// Of the server itself.
    agent: Agent,
    /// Those that share the nodes; `None` without an archive.
    servers: Option<Arc<Servers>>,
    pause: Pause,
    /// Captures that clients follow.
    pub jobs: Jobs,
    in_flight: run::InFlight,
    heap_ends: HeapEnds,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Captures {
    /// Nothing is captured before [`Captures::run_schedule`] or [`Captures::capture`] is called.
    pub fn new(
        ingest: Arc<Ingest>,
        hosts: Arc<Hosts>,
        agent: Agent,
        servers: Option<Arc<Servers>>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Captures {
        let (settings, registry, metrics) =
            (Arc::clone(&ingest.settings), Arc::clone(&ingest.registry), Arc::clone(&ingest.metrics));
        let pause = Pause::open(settings.data.join("paused"));
        metrics.paused.set(i64::from(pause.is_paused()));
        // Whether there are heap profiles of the server itself is known before the first is taken.
        let unavailable = heap_unavailable(&agent);
        registry.note(THIS_SERVER_ID, |health| {
            health.types.entry(ProfileType::Heap).or_default().unavailable = unavailable
        });
        let (jobs, in_flight) = (Jobs::default(), run::InFlight::default());
        let heap_ends = HeapEnds::open(settings.data.join("heap-ends"));
        Captures {
            settings,
            registry,
            metrics,
            ingest,
            hosts,
            agent,
            servers,
            pause,
            jobs,
            in_flight,
            heap_ends,
            tasks,
            stop,
        }
    }

    /// The configuration at this moment.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.settings.config()
    }

    /// Captures a profile, or joins a capture that gives it, and stores it with whatever else the source gives.
    pub async fn capture(
        self: &Arc<Self>,
        node: &Arc<Node>,
        wanted: CaptureRequest,
    ) -> Result<Arc<Entry>, Arc<CaptureFailure>> {
        let profile_type = wanted.profile_type.clone();
        run::capture(self, node, wanted).await?.outcome_for(&profile_type)
    }

    /// Starts a capture that a client follows; `None` when too many are running.
    pub fn start(
        self: &Arc<Self>,
        node: Arc<Node>,
        profile_type: ProfileType,
        seconds: u32,
        by: &str,
    ) -> Option<Arc<Job>> {
        Jobs::start(self, node, profile_type, seconds, by)
    }

    /// Keeps the schedule until `stop`.
    pub async fn run_schedule(self: Arc<Self>, stop: CancellationToken) {
        schedule::run(self, stop).await;
    }

    /// Switches heap profilers off that are on for a while and cannot end by themselves, until `stop`.
    pub async fn run_heap_ends(self: Arc<Self>, stop: CancellationToken) {
        heap_ends::run(self, stop).await;
    }

    /// Whether scheduled captures are paused.
    pub fn is_paused(&self) -> bool {
        self.pause.is_paused()
    }

    /// Pauses or resumes scheduled captures; a restart keeps it so.
    ///
    /// # Errors
    /// It cannot be kept; it holds for this process all the same.
    pub fn set_paused(&self, paused: bool) -> io::Result<()> {
        self.metrics.paused.set(i64::from(paused));
        self.pause.set(paused)
    }

    /// The connections to nodes.
    pub(crate) fn client(&self) -> Arc<HttpClient> {
        self.in_flight.client()
    }

    /// The state of a node's source; `None` before the first capture, and for kinds without one.
    pub fn source_state(&self, node: &Node) -> Option<SourceState> {
        self.in_flight.known_source(node)?.state()
    }

    /// Forgets connections and limits, so that those of a new configuration are made.
    pub fn reconfigure(&self) {
        self.in_flight.reconfigure();
        self.in_flight.forget_sources(&self.registry);
    }
}
