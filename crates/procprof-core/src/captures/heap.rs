//! The heap profiler of one node: its state, its switch, and dumps.
//!
//! | control of the kind | state and switch | dump |
//! |---|---|---|
//! | own agent | the agent inside this process | its heap profile |
//! | agent | `/debug/pprof/heap/{enable,disable,status}` | its heap profile |
//! | brpc's flag | `je_prof_active`, where the process has it | `/pprof/heap` |
//! | environment | none: what it is started with | its heap profile |
//! | none | none | its heap profile |
//!
//! What a process cannot do is a [`HeapRefusal`], an answer like any other; what keeps a node from answering is a
//! failure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use procprof_agent::HeapStatus;
use procprof_collect::{CollectError, HttpClient, ProfileUrl, Target, Watch, fetch_text, post_text};
use procprof_profile::ProfileType;
use procprof_store::Entry;
use tokio_util::sync::CancellationToken;

use super::queue::Wait;
use super::{Arrived, CaptureFailure, CaptureRequest, Captures};
use crate::kinds::HeapControl;
use crate::nodes::Node;
use crate::remote::target;

/// Largest answer of a switch, in bytes.
const ANSWER_MAX: u64 = 64 << 10;
/// Time for an answer of a switch.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The heap profiler of a node.
pub struct HeapProfiler<'a> {
    captures: &'a Arc<Captures>,
    node: &'a Arc<Node>,
}

/// The result of a request to a heap profiler.
pub type HeapResult<T> = Result<T, HeapError>;

/// Why an operation on a heap profiler failed.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// The process cannot do it: a retry fails, too, until the process is configured otherwise.
    #[error(transparent)]
    Refused(#[from] HeapRefusal),
    /// The node did not answer, or not with what it should.
    #[error("{0}")]
    Failed(String),
}

/// An operation that a process cannot do, as a sentence with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeapRefusal {
    /// In the process's own words, or the agent's.
    #[error("{0}")]
    OfProcess(String),
    /// A backend without the flag, or without brpc.
    #[error(
        "{node} has no brpc flag je_prof_active, so its heap profiler cannot be switched from here: configure the cluster's FE, or start it with \
         JEMALLOC_CONF=prof:true,prof_active:true"
    )]
    NoFlag {
        /// The node's name.
        node: String,
    },
    /// A backend that has the flag and refuses to change it.
    #[error(
        "{node} does not switch its heap profiler: {error}; it takes JEMALLOC_CONF=prof:true at its start, and brpc's \
         flags must not be immutable"
    )]
    FlagRefused {
        /// The node's name.
        node: String,
        /// Its answer.
        error: CollectError,
    },
    /// A process that is configured by its environment alone.
    #[error(
        "{node} cannot be switched while it runs: start it with MALLOC_CONF=prof:true,prof_active:{active} (a build with the feature \
         memory-profiling)"
    )]
    AtStartOnly {
        /// The node's name.
        node: String,
        /// Whether it was to be switched on.
        active: bool,
    },
    /// A kind of node without a switch.
    #[error("the heap profiler of a node of kind {kind} cannot be switched from here")]
    NoSwitch {
        /// The kind.
        kind: &'static str,
    },
    /// A kind of node whose profiler's state cannot be queried.
    #[error("whether the heap profiler of a node of kind {kind} is on cannot be asked")]
    NoState {
        /// The kind.
        kind: &'static str,
    },
    /// A heap profile without a sample.
    #[error(
        "{node}: nothing was sampled yet: switch its heap profiler on with enable_prof(), let the process work for a \
         while, then dump again"
    )]
    NothingSampled {
        /// The node's name.
        node: String,
    },
    /// A program that was built without a heap profiler.
    #[error("{node} is built without heap profiles: build it with the cargo feature memory-profiling")]
    NotBuilt {
        /// The node's name.
        node: String,
    },
    /// A process that was started without its heap profiler.
    #[error("{reason}; {remedy}")]
    NotStarted {
        /// Its answer.
        reason: String,
        /// The settings it has to be started with.
        remedy: &'static str,
    },
}

impl<'a> HeapProfiler<'a> {
    /// That of `node`.
    pub fn new(captures: &'a Arc<Captures>, node: &'a Arc<Node>) -> HeapProfiler<'a> {
        HeapProfiler { captures, node }
    }

    /// Whether its state can be queried and switched from here while its process runs.
    pub fn has_switch(&self) -> bool {
        let control = self.node.kind().heap;
        !self.node.past && matches!(control, HeapControl::ThisServer | HeapControl::Agent | HeapControl::BrpcFlag)
    }

    /// Whether it samples.
    pub async fn is_active(&self) -> HeapResult<bool> {
        /// The part of an agent's answer that is read.
        #[derive(serde::Deserialize)]
        struct Status {
            active: bool,
        }
        match self.node.kind().heap {
            HeapControl::ThisServer => Ok(self.own(|agent| agent.heap_status()).await?.active),
            HeapControl::Agent => {
                let answer = self.ask_agent("status").await?;
                let status: Status = serde_json::from_str(&answer).map_err(|error| self.failed(&error))?;
                Ok(status.active)
            }
            HeapControl::BrpcFlag => {
                // A page without the flag is an answer, too.
                let page = self.ask_flag("").await?;
                flag(&page).ok_or_else(|| self.no_flag().into())
            }
            HeapControl::Environment | HeapControl::None => {
                Err(HeapRefusal::NoState { kind: self.node.kind().name() }.into())
            }
        }
    }

    /// Switches sampling on or off, until it is switched again.
    pub async fn set_active(&self, active: bool) -> HeapResult<()> {
        if active {
            return self.activate(None).await;
        }
        match self.node.kind().heap {
            HeapControl::ThisServer => self.own(|agent| agent.heap_deactivate(None)).await.map(drop)?,
            HeapControl::Agent => self.ask_agent("disable").await.map(drop)?,
            HeapControl::BrpcFlag => self.ask_flag("?setvalue=false").await.map(drop)?,
            HeapControl::Environment | HeapControl::None => return Err(self.not_switched(false)),
        }
        self.note_end(None).map(drop)
    }

    /// Switches sampling on; with a length, it ends by itself: an agent's even without this server, a backend's by this
    /// server, after a restart too.
    pub async fn activate(&self, length: Option<Duration>) -> HeapResult<()> {
        // The end is kept first: a server that is killed after the switch still ends it.
        let before = self.note_end(length.and_then(|length| Timestamp::now().checked_add(length).ok()))?;
        let activated = self.switch_on(length).await;
        if activated.is_err() {
            self.note_end(before)?;
        }
        activated
    }

    async fn switch_on(&self, length: Option<Duration>) -> HeapResult<()> {
        match self.node.kind().heap {
            HeapControl::ThisServer => self.own(move |agent| agent.heap_activate(length)).await.map(drop),
            HeapControl::Agent => {
                let length = length.map(|length| format!("?for={}s", length.as_secs())).unwrap_or_default();
                self.ask_agent(&format!("enable{length}")).await.map(drop)
            }
            HeapControl::BrpcFlag => self.ask_flag("?setvalue=true").await.map(drop),
            HeapControl::Environment | HeapControl::None => Err(self.not_switched(true)),
        }
    }

    /// Keeps when sampling ends; the end that was kept before.
    fn note_end(&self, end: Option<Timestamp>) -> HeapResult<Option<Timestamp>> {
        let kept = self.captures.heap_ends.set(self.node.id, end);
        kept.map_err(|error| self.failed(&format_args!("the end of heap profiling cannot be kept: {error}")))
    }

    /// When sampling ends by itself, where it was switched on from here for a while.
    pub fn ends(&self) -> Option<Timestamp> {
        self.captures.heap_ends.get(self.node.id).filter(|end| *end > Timestamp::now())
    }

    fn not_switched(&self, active: bool) -> HeapError {
        match self.node.kind().heap {
            HeapControl::Environment => HeapRefusal::AtStartOnly { node: self.name(), active }.into(),
            _ => HeapRefusal::NoSwitch { kind: self.node.kind().name() }.into(),
        }
    }

    /// Takes a dump and stores it, until `stop`.
    pub async fn dump(&self, by: &str, stop: CancellationToken, arrived: Option<Arrived>) -> HeapResult<Arc<Entry>> {
        let wanted = CaptureRequest {
            profile_type: ProfileType::Heap,
            also: Vec::new(),
            seconds: Some(0),
            by: by.to_owned(),
            trigger: "manual",
            watch: Watch { cancel: stop, ..Watch::default() },
            wait: Some(Arc::<Wait>::default()),
            due: None,
            arrived,
        };
        self.captures.capture(self.node, wanted).await.map_err(|failure| self.lack(&failure))
    }

    /// The reason for a missing dump in the process, if that is what the failure of a capture means.
    fn lack(&self, failure: &CaptureFailure) -> HeapError {
        let (node, reason) = (self.name(), failure.reason.clone());
        // Not a failure, and a retry would not help.
        if failure.kind.is_none() {
            return HeapRefusal::OfProcess(reason).into();
        }
        let refusal = match (self.node.kind().heap, failure.code) {
            (_, "no_samples") => HeapRefusal::NothingSampled { node },
            (HeapControl::Environment, "not_found") => HeapRefusal::NotBuilt { node },
            (HeapControl::Environment, "server_error") => {
                HeapRefusal::NotStarted { reason, remedy: "start it with MALLOC_CONF=prof:true" }
            }
            (HeapControl::BrpcFlag, "not_a_profile") => HeapRefusal::NotStarted {
                reason,
                remedy: "its jemalloc needs prof:true in JEMALLOC_CONF (be.conf: jemalloc_conf) when it starts",
            },
            _ => return HeapError::Failed(reason),
        };
        refusal.into()
    }

    /// Calls the agent inside this process, which may wait for a thread of its own.
    async fn own(
        &self,
        ask: impl FnOnce(&procprof_agent::Agent) -> procprof_agent::Result<HeapStatus> + Send + 'static,
    ) -> HeapResult<HeapStatus> {
        let agent = self.captures.agent.clone();
        let asked = tokio::task::spawn_blocking(move || ask(&agent)).await.map_err(|error| self.failed(&error))?;
        asked.map_err(|error| HeapRefusal::OfProcess(error.to_string()).into())
    }

    /// Sends a request to the agent in the node's process; a refusal is a sentence.
    async fn ask_agent(&self, what: &str) -> HeapResult<String> {
        let (client, target) = self.remote().await?;
        let url = self.url(&target.http.to_string(), &format!("/debug/pprof/heap/{what}"))?;
        let answer = match what {
            "status" => fetch_text(&client, &target, &url, ANSWER_MAX, ANSWER_TIME).await,
            _ => post_text(&client, &target, &url, ANSWER_MAX, ANSWER_TIME).await,
        };
        match answer {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(
                CollectError::Refused { message, .. }
                | CollectError::Server { message, .. }
                | CollectError::NotFound { message, .. }
                | CollectError::Busy { message, .. },
            ) if !message.is_empty() => Err(HeapRefusal::OfProcess(message).into()),
            Err(error) => Err(HeapError::Failed(error.to_string())),
        }
    }

    /// The page of brpc's flag `je_prof_active`.
    async fn ask_flag(&self, question: &str) -> HeapResult<String> {
        let (client, target) = self.remote().await?;
        let Some(brpc) = &target.brpc else { return Err(self.no_flag().into()) };
        let url = self.url(&brpc.to_string(), &format!("/flags/je_prof_active{question}"))?;
        fetch_text(&client, &target, &url, ANSWER_MAX, ANSWER_TIME).await.map_err(|error| match error {
            // No such flag, or no such page.
            CollectError::NotFound { .. } | CollectError::Server { status: 501, .. } => self.no_flag().into(),
            error @ (CollectError::Refused { .. }
            | CollectError::Forbidden { .. }
            | CollectError::Server { .. }
            | CollectError::Busy { .. }) => HeapRefusal::FlagRefused { node: self.name(), error }.into(),
            error => HeapError::Failed(error.to_string()),
        })
    }

    async fn remote(&self) -> HeapResult<(Arc<HttpClient>, Target)> {
        let target =
            target(self.node, &self.captures.config()).await.map_err(|error| HeapError::Failed(error.to_string()))?;
        Ok((self.captures.client(), target))
    }

    fn url(&self, base: &str, path: &str) -> HeapResult<ProfileUrl> {
        let url = format!("{}{path}", base.trim_end_matches('/'));
        url.parse().map_err(|error: CollectError| self.failed(&error))
    }

    fn name(&self) -> String {
        self.node.name().to_owned()
    }

    fn no_flag(&self) -> HeapRefusal {
        HeapRefusal::NoFlag { node: self.name() }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> HeapError {
        HeapError::Failed(format!("{}: {error}", self.node.name()))
    }
}

/// Whether brpc's page of one flag shows it as on; `None` if the flag is not on it.
///
/// ```text
/// Name | Value | Description | Defined At
/// ---------------------------------------
/// je_prof_active (R) | true (default:false) | control jemalloc prof.active, … | src/brpc/details/jemalloc_profiler.cpp
/// ```
fn flag(page: &str) -> Option<bool> {
    let line = page.lines().find(|line| line.starts_with("je_prof_active"))?;
    let value = line.split('|').nth(1)?;
    value.split_whitespace().next().map(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::flag;

    #[test]
    fn a_flag_is_read_from_brpcs_page() {
        let page = |line: &str| {
            format!("Name | Value | Description | Defined At\n---------------------------------------\n{line}\n")
        };
        for (line, value) in [
            (
                "je_prof_active (R) | true (default:false) | control jemalloc prof.active | jemalloc_profiler.cpp",
                Some(true),
            ),
            ("je_prof_active (R) | false | control jemalloc prof.active | jemalloc_profiler.cpp", Some(false)),
            ("", None),
        ] {
            assert_eq!(flag(&page(line)), value, "{line:?}");
        }
    }
}
