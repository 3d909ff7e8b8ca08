//! Profiles of the server itself, from the agent inside it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use procprof_agent::{Agent, CpuCapture, CpuOptions, Request as AgentRequest};
use procprof_collect::Request;
use procprof_process::{Identity, Pid};
use procprof_profile::format::{self, Decoded, Limits};
use procprof_profile::{Nanos, Profile, ProfileType};
use procprof_store::Entry;
use tokio_util::sync::CancellationToken;

use super::run::{failed, meta, succeeded};
use super::{Failure, Wish};
use crate::app::App;
use crate::ingest::{Arrival, Finding, ingest, now};
use crate::nodes::{Node, Planned};

/// One capture somebody asked for.
pub(super) async fn capture(app: &Arc<App>, node: &Node, request: &Request, wish: &Wish) -> Result<Entry, Failure> {
    match request.profile_type {
        ProfileType::Cpu => {
            let length = Duration::from_secs(u64::from(request.seconds.unwrap_or(10).max(1)));
            let started = now();
            let options = CpuOptions { owner: wish.by.clone(), until: SystemTime::now().checked_add(length), ..CpuOptions::default() };
            let running = start(options).await?;
            tokio::select! {
                () = wish.watch.cancel.cancelled() => return Err(Failure::cancelled("given up")),
                () = tokio::time::sleep(length) => {}
            }
            let profile = blocking(move || running.finish()).await?;
            store(app, node, wish.trigger, profile, started).await
        }
        ProfileType::Heap => {
            if let Some(why) = heap_unavailable(&app.agent) {
                return Err(Failure::unavailable(&why));
            }
            let agent = app.agent.clone();
            let started = now();
            let bytes = Bytes::from(blocking(move || agent.heap_dump()).await?);
            let decoded = decode(bytes.clone()).await?;
            if decoded.profile.sample_count() == 0 {
                return Err(Failure::nothing_sampled());
            }
            let meta = meta(node, &ProfileType::Heap, wish.trigger, now());
            let arrival = Arrival { meta, bytes, decoded: Some(decoded), window: (started, Nanos(0)), finding: own_process() };
            Ok(ingest(app, arrival).await?)
        }
        ref other => Err(Failure::capture("unsupported", format!("the server itself has no {other} profile"))),
    }
}

async fn decode(bytes: Bytes) -> Result<Decoded, Failure> {
    let done = tokio::task::spawn_blocking(move || format::decode(&bytes, &Limits::default())).await;
    let decoded = done.map_err(|_| Failure::cancelled("the server is stopping"))?;
    decoded.map_err(|error| Failure::capture("agent", error.to_string()))
}

/// Why the server's own heap cannot be dumped at this moment; `None` while its profiler is available and active.
pub(crate) fn heap_unavailable(agent: &Agent) -> Option<String> {
    /// What the agent tells; the rest of it is for people.
    #[derive(serde::Deserialize)]
    struct Status {
        available: bool,
        active: bool,
    }
    let answer = agent.handle(&AgentRequest::get("/debug/pprof/heap/status"));
    let sentence = || String::from_utf8_lossy(&answer.body).trim().to_owned();
    if answer.status != 200 {
        return Some(sentence());
    }
    match serde_json::from_slice(&answer.body) {
        Ok(Status { available: true, active: true }) => None,
        Ok(Status { available: true, active: false }) => {
            Some("the heap profiler is switched off; POST /debug/pprof/heap/enable switches it on".to_owned())
        }
        Ok(Status { available: false, .. }) => Some("the server was started without jemalloc's heap profiler".to_owned()),
        Err(_) => Some(format!("the heap profiler's state is unknown: {}", sentence())),
    }
}

/// The continuous CPU profile: cut at each interval, ended when `stop` is cancelled or captures are paused.
pub(super) async fn continuous(app: &Arc<App>, node: &Arc<Node>, planned: &Planned, stop: &CancellationToken) -> Result<(), Failure> {
    let mut running = start(CpuOptions { owner: "schedule".to_owned(), ..CpuOptions::default() }).await?;
    let every = Duration::from_secs(planned.every);
    let mut started = now();
    let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut storing: Option<tokio::task::JoinHandle<()>> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = beat.tick() => {}
        }
        // While the one before is being stored there is no cut: this one becomes longer, and nothing is lost.
        if storing.as_ref().is_some_and(|task| !task.is_finished()) {
            continue;
        }
        let (again, profile) = blocking(move || {
            let profile = running.cut()?;
            Ok((running, profile))
        })
        .await?;
        running = again;
        let (own, owner, from) = (Arc::clone(app), Arc::clone(node), std::mem::replace(&mut started, now()));
        storing = Some(app.tasks.spawn(async move {
            match store(&own, &owner, "schedule", profile, from).await {
                Ok(_) => succeeded(&own, &owner, &ProfileType::Cpu),
                Err(failure) => failed(&own, &owner, &ProfileType::Cpu, &failure),
            }
        }));
    }
}

async fn store(app: &Arc<App>, node: &Node, trigger: &str, profile: Profile, started: Nanos) -> Result<Entry, Failure> {
    let end = now();
    let meta = meta(node, &ProfileType::Cpu, trigger, end);
    let decoded = Decoded { profile, format: "agent", warnings: Vec::new() };
    let window = (started, Nanos(end.0.saturating_sub(started.0)));
    let arrival = Arrival { meta, bytes: Bytes::new(), decoded: Some(decoded), window, finding: own_process() };
    Ok(ingest(app, arrival).await?)
}

fn own_process() -> Finding {
    Finding { process: Identity::of(Pid::current()).ok(), ..Finding::default() }
}

async fn start(options: CpuOptions) -> Result<CpuCapture, Failure> {
    blocking(move || CpuCapture::start(&options)).await
}

/// The agent's calls wait for its sampler, up to a tenth of a second.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> procprof_agent::Result<T> + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| Failure::cancelled("the server is stopping"))?;
    done.map_err(|error| Failure::capture("agent", error.to_string()))
}
