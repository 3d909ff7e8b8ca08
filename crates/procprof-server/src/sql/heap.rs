//! The heap of one node: its profiler's switch, dumps, and their drawings.
//!
//! | node | switch | dump |
//! |---|---|---|
//! | our agent, the server itself | `/debug/pprof/heap/{enable,disable,status}` | its heap profile |
//! | StarRocks BE of a cluster with `fe_query` | its frontend | its frontend; stored from `/pprof/heap` meanwhile |
//! | StarRocks BE | brpc's flag `je_prof_active`, where it has one | `/pprof/heap` |
//! | Databend | none: its `MALLOC_CONF` | `/debug/mem/pprof/profile` |
//! | others | none | their heap profile |
//!
//! What a process cannot do is a sentence in the result, as the seeds' own answers are; what keeps a node from answering is a [`Failure`].

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use procprof_agent::Request as AgentRequest;
use procprof_collect::{Client, CollectError, ProfileUrl, Target, Watch, fetch_text, post_text};
use procprof_process::Identity;
use procprof_profile::{ProfileId, ProfileType};
use procprof_report::Report;
use procprof_store::Entry;
use tokio::sync::oneshot;

use super::drawing::{self, Program};
use super::fe::heap::FeNode;
use super::script::{Call, Drawing};
use crate::app::App;
use crate::captures::{Arrived, Failure as CaptureFailure, Wish, capture};
use crate::mysql::{Failure, FailureKind};
use crate::nodes::{Kind, Node, OWN_ID};
use crate::remote::{process, target};
use crate::render::render;

/// What a method that gives nothing prints: the object it was called on.
const INSTANCE: &str = "instance of HeapProf";
/// Before a dump's profile id, so that its name looks like the files StarRocks names.
const SNAPSHOT: &str = "heap_profile.";
/// What jemalloc's text begins with.
const JEMALLOC: &[u8] = b"heap_v2/";
/// Largest answer of a switch, in bytes.
const ANSWER_MAX: u64 = 64 << 10;
/// Time to take a dump for the store while a frontend makes its own.
const STORE_TIME: Duration = Duration::from_secs(60);
/// Time for an answer of a switch.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// A node, as a script sees it.
pub(super) struct NodeHeap<'a> {
    app: &'a Arc<App>,
    node: Arc<Node>,
    by: &'a str,
}

/// What the agent tells of its heap profiler.
#[derive(serde::Deserialize)]
struct Status {
    active: bool,
}

fn other(text: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Other, text)
}

impl<'a> NodeHeap<'a> {
    pub(super) fn new(app: &'a Arc<App>, node: Arc<Node>, by: &'a str) -> NodeHeap<'a> {
        NodeHeap { app, node, by }
    }

    /// What a call prints.
    pub(super) async fn call(&self, call: &Call) -> Result<String, Failure> {
        match FeNode::of(self.app, &self.node).filter(|node| node.takes(call)) {
            Some(node) => self.forwarded(&node, call).await,
            None => self.own(call).await,
        }
    }

    /// What the cluster's frontend makes of it. A dump lies on the node then, so the same is taken for the store, as well as the node gives it.
    async fn forwarded(&self, node: &FeNode<'_>, call: &Call) -> Result<String, Failure> {
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

    async fn own(&self, call: &Call) -> Result<String, Failure> {
        match call {
            Call::Enable(active) => self.switch(*active).await,
            Call::HasEnable => self.has_enable().await,
            Call::Snapshot => Ok(self.snapshot(None).await?.map_or_else(|why| why, |entry| format!("{SNAPSHOT}{}", entry.id))),
            Call::Dump(drawing) => self.dump_drawn(*drawing).await,
            Call::ToDot(name) => {
                let entry = self.dump(name).await?;
                self.draw(Drawing::Dot, None, &entry).await
            }
            Call::DiffDot(base, name) => {
                let (base, entry) = (self.dump(base).await?, self.dump(name).await?);
                self.draw(Drawing::Dot, Some(&base), &entry).await
            }
        }
    }

    async fn switch(&self, active: bool) -> Result<String, Failure> {
        let word = if active { "enable" } else { "disable" };
        match self.node.kind() {
            Kind::Own | Kind::Procprof => {
                Ok(self.agent(&format!("/debug/pprof/heap/{word}")).await?.map_or_else(|why| why, |_| INSTANCE.to_owned()))
            }
            Kind::StarrocksBe => {
                self.brpc_flag(&format!("?setvalue={active}")).await.map(|told| told.map_or_else(|why| why, |_| INSTANCE.to_owned()))
            }
            Kind::Databend => Ok(format!(
                "{} cannot be switched while it runs: start it with MALLOC_CONF=prof:true,prof_active:{active} (a build with the feature \
                 memory-profiling)",
                self.node.name()
            )),
            kind => Ok(format!("the heap profiler of a node of kind {kind} cannot be switched from here")),
        }
    }

    async fn has_enable(&self) -> Result<String, Failure> {
        match self.node.kind() {
            Kind::Own | Kind::Procprof => {
                let told = match self.agent("/debug/pprof/heap/status").await? {
                    Ok(told) => told,
                    Err(why) => return Ok(why),
                };
                let status: Status = serde_json::from_str(&told).map_err(|error| other(format!("{}: {error}", self.node.name())))?;
                Ok(status.active.to_string())
            }
            Kind::StarrocksBe => {
                // A page without the flag is an answer, too.
                let told = self.brpc_flag("").await?;
                let is_on = told.and_then(|page| flag(&page).map(|on| on.to_string()).ok_or_else(|| self.no_switch()));
                Ok(is_on.unwrap_or_else(|why| why))
            }
            kind => Ok(format!("whether the heap profiler of a node of kind {kind} is on cannot be asked")),
        }
    }

    /// Asks the agent; `Err` inside is a sentence it refuses with.
    async fn agent(&self, path: &str) -> Result<Result<String, String>, Failure> {
        let changes = !path.ends_with("/status");
        if self.node.kind() == Kind::Own {
            let request = if changes { AgentRequest::post(path, &[]) } else { AgentRequest::get(path) };
            let answer = self.app.agent.handle(&request);
            let text = String::from_utf8_lossy(&answer.body).trim().to_owned();
            return Ok(if answer.status == 200 { Ok(text) } else { Err(text) });
        }
        let (client, target) = self.remote().await?;
        let url = self.url(&target.http.to_string(), path)?;
        let answer = match changes {
            true => post_text(&client, &target, &url, ANSWER_MAX, ANSWER_TIME).await,
            false => fetch_text(&client, &target, &url, ANSWER_MAX, ANSWER_TIME).await,
        };
        refusal_or(answer)
    }

    /// brpc's flag `je_prof_active`, as its page says it.
    async fn brpc_flag(&self, question: &str) -> Result<Result<String, String>, Failure> {
        let (client, target) = self.remote().await?;
        let Some(brpc) = &target.brpc else { return Ok(Err(self.no_switch())) };
        let url = self.url(&brpc.to_string(), &format!("/flags/je_prof_active{question}"))?;
        match fetch_text(&client, &target, &url, ANSWER_MAX, ANSWER_TIME).await {
            Ok(page) => Ok(Ok(page)),
            // No such flag, or no such page.
            Err(CollectError::NotFound { .. } | CollectError::Server { status: 501, .. }) => Ok(Err(self.no_switch())),
            Err(error @ (CollectError::Refused { .. } | CollectError::Forbidden { .. } | CollectError::Server { .. })) => Ok(Err(format!(
                "{} does not switch its heap profiler: {error}; it takes JEMALLOC_CONF=prof:true at its start, and brpc's flags must not be immutable",
                self.node.name()
            ))),
            Err(error) => Err(other(error.to_string())),
        }
    }

    fn no_switch(&self) -> String {
        format!(
            "{} has no brpc flag je_prof_active, so its heap profiler cannot be switched from here: configure the cluster's FE, or start it with \
             JEMALLOC_CONF=prof:true,prof_active:true",
            self.node.name()
        )
    }

    async fn remote(&self) -> Result<(Arc<Client>, Target), Failure> {
        let target = target(&self.node, &self.app.config()).await.map_err(|error| other(error.to_string()))?;
        Ok((self.app.captures.client(), target))
    }

    fn url(&self, base: &str, path: &str) -> Result<ProfileUrl, Failure> {
        let url = format!("{}{path}", base.trim_end_matches('/'));
        url.parse().map_err(|error| other(format!("{}: {error}", self.node.name())))
    }

    /// Takes a dump and stores it; `Err` inside is a sentence that says why there is none and what to do.
    async fn snapshot(&self, arrived: Option<Arrived>) -> Result<Result<Arc<Entry>, String>, Failure> {
        let stop = self.app.stop.child_token();
        // The capture ends when nobody waits for the statement any more.
        let _given_up = stop.clone().drop_guard();
        let wish = Wish {
            profile_type: ProfileType::Heap,
            seconds: Some(0),
            by: self.by.to_owned(),
            trigger: "manual",
            watch: Watch { cancel: stop, progress: None },
            wait: Some(Arc::default()),
            due: None,
            arrived,
        };
        match capture(self.app, &self.node, wish).await {
            Ok(entry) => Ok(Ok(entry)),
            // Nobody's fault, and nothing that a second try would mend.
            Err(failure) if failure.kind.is_none() => Ok(Err(failure.reason.clone())),
            Err(failure) => self.lack(&failure).map(Err).ok_or_else(|| other(failure.reason.clone())),
        }
    }

    /// What the process lacks to give a dump, if that is what its answer means.
    fn lack(&self, failure: &CaptureFailure) -> Option<String> {
        let (name, reason) = (self.node.name(), &failure.reason);
        match (self.node.kind(), failure.code) {
            (_, "no_samples") => Some(format!(
                "{name}: nothing was sampled yet: switch its heap profiler on with enable_prof(), let the process work for a while, then dump again"
            )),
            (Kind::Databend, "not_found") => {
                Some(format!("{name} is built without heap profiles: build it with the cargo feature memory-profiling"))
            }
            (Kind::Databend, "server_error") => Some(format!("{reason}; start it with MALLOC_CONF=prof:true")),
            (Kind::StarrocksBe, "not_a_profile") => {
                Some(format!("{reason}; its jemalloc needs prof:true in JEMALLOC_CONF (be.conf: jemalloc_conf) when it starts"))
            }
            _ => None,
        }
    }

    /// A dump of this node by the name that `snapshot()` gave.
    async fn dump(&self, name: &str) -> Result<Arc<Entry>, Failure> {
        let unknown = || {
            let name: String = name.chars().take(80).collect();
            Failure::new(
                FailureKind::WrongArguments,
                format!("'{name}' is no dump of node {}; snapshot() gives names of dumps", self.node.id),
            )
        };
        let id: ProfileId = name.strip_prefix(SNAPSHOT).and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
        let store = Arc::clone(&self.app.store);
        let entry = tokio::task::spawn_blocking(move || store.get(id)).await.map_err(|error| other(error.to_string()))?;
        entry.ok().filter(|entry| entry.node == self.node.id && entry.profile_type == ProfileType::Heap).map(Arc::new).ok_or_else(unknown)
    }

    /// Takes a dump, and draws it while it is stored where the dump as it came can be drawn.
    async fn dump_drawn(&self, drawing: Drawing) -> Result<String, Failure> {
        let (tell, told) = oneshot::channel();
        let tell = Mutex::new(Some(tell));
        let arrived = move |bytes: &Bytes| {
            if let Some(tell) = tell.lock().unwrap_or_else(PoisonError::into_inner).take() {
                // Nobody needs to wait for it.
                let _ = tell.send(bytes.clone());
            }
        };
        let (snapshot, drawn) = tokio::join!(self.snapshot(Some(Box::new(arrived))), self.drawn_at_once(drawing, told));
        match (snapshot?, drawn) {
            (Err(why), _) => Ok(why),
            (Ok(entry), Some(drawn)) => Ok(self.linked(drawing, drawn?, &entry)),
            (Ok(entry), None) => self.draw(drawing, None, &entry).await,
        }
    }

    /// A dump drawn as it came; `None` if it is not jemalloc's text, or its names are not to be had from a program here.
    async fn drawn_at_once(&self, drawing: Drawing, arrived: oneshot::Receiver<Bytes>) -> Option<Result<String, Failure>> {
        let option = option(drawing)?;
        let dump = arrived.await.ok().filter(|dump| dump.starts_with(JEMALLOC))?;
        let Program::File(program) = self.program() else { return None };
        Some(drawing::jeprof_of_dump(self.app, option, &program, dump).await)
    }

    async fn draw(&self, drawing: Drawing, base: Option<&Entry>, entry: &Entry) -> Result<String, Failure> {
        let Some(option) = option(drawing) else { return self.flamegraph(entry).await };
        let drawn = drawing::jeprof(self.app, option, self.program(), base, entry).await?;
        // There is no page of a difference to link to.
        Ok(if base.is_none() { self.linked(drawing, drawn, entry) } else { drawn })
    }

    /// A graph with the link to its page, where that is set.
    fn linked(&self, drawing: Drawing, drawn: String, entry: &Entry) -> String {
        if drawing == Drawing::Dot { drawing::with_link(drawn, &self.app.config().sql_link_base, entry.id) } else { drawn }
    }

    async fn flamegraph(&self, entry: &Entry) -> Result<String, Failure> {
        let report = Report::named("flamegraph").map_err(|error| other(error.to_string()))?;
        let made = render(self.app, entry, report, &[]).await.map_err(|problem| other(problem.message))?;
        String::from_utf8(made.to_vec()).map_err(|error| other(error.to_string()))
    }

    /// The program behind the node, where it is on this machine.
    fn program(&self) -> Program {
        if self.node.id == OWN_ID {
            return Program::of(std::process::id());
        }
        match (process(&self.node, listener(&self.node.address)), &self.node.config.binary) {
            (Some(identity), _) => Program::of(identity.pid.0),
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

/// Who listens at an address of this machine.
fn listener(address: &str) -> Option<Identity> {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address: SocketAddr = address.split('/').next()?.replace("localhost", "127.0.0.1").parse().ok()?;
    let listeners = address.ip().is_loopback().then(|| procprof_process::listeners_on(address.port()))?.ok()?;
    let owner = listeners.iter().filter(|listener| listener.accepts(address.ip())).find_map(|listener| listener.owners.first())?;
    Identity::of(owner.pid).ok()
}

/// What was answered; an answer that refuses is a sentence, silence a failure.
fn refusal_or(answer: Result<String, CollectError>) -> Result<Result<String, String>, Failure> {
    match answer {
        Ok(text) => Ok(Ok(text.trim().to_owned())),
        Err(CollectError::Refused { message, .. } | CollectError::Server { message, .. } | CollectError::NotFound { message, .. })
            if !message.is_empty() =>
        {
            Ok(Err(message))
        }
        Err(error) => Err(other(error.to_string())),
    }
}

/// Whether brpc's page of one flag says that it is on; `None` if the flag is not on it.
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
        let page = |line: &str| format!("Name | Value | Description | Defined At\n---------------------------------------\n{line}\n");
        for (line, value) in [
            ("je_prof_active (R) | true (default:false) | control jemalloc prof.active | jemalloc_profiler.cpp", Some(true)),
            ("je_prof_active (R) | false | control jemalloc prof.active | jemalloc_profiler.cpp", Some(false)),
            ("", None),
        ] {
            assert_eq!(flag(&page(line)), value, "{line:?}");
        }
    }
}
