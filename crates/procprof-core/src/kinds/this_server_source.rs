//! Recordings of the server itself, by the agent inside it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use procprof_agent::{Agent, CpuCapture, CpuOptions};
use procprof_collect::{
    CollectError, ContinuousRecording, Instance, Pending, Recording, RecordingData, Recordings, Request, Source, Watch,
};
use procprof_process::{Identity, Pid};
use procprof_profile::format::{self, Decoded, Limits};
use procprof_profile::{Nanos, ProfileType};

use crate::clock::now;

/// As errors name it.
const ORIGIN: &str = "the server itself";

/// The process of the server.
pub(super) struct ThisServerSource(pub(super) Agent);

/// Its CPU time, recorded until it is dropped.
struct ThisServerRecording {
    running: Option<CpuCapture>,
    started: Nanos,
}

impl ThisServerSource {
    async fn record_one(&self, request: &Request, watch: &Watch) -> Result<Recordings, CollectError> {
        match request.profile_type {
            ProfileType::Cpu => {
                let length = Duration::from_secs(u64::from(request.seconds.unwrap_or(10).max(1)));
                let started = now();
                let until = SystemTime::now().checked_add(length);
                let running = start(CpuOptions { owner: watch.by.clone(), until, ..CpuOptions::default() }).await?;
                tokio::select! {
                    () = watch.cancel.cancelled() => return Err(CollectError::Cancelled { url: ORIGIN.to_owned() }),
                    () = tokio::time::sleep(length) => {}
                }
                let profile = blocking(move || running.finish()).await?;
                Ok(cpu(Decoded::new(profile, "agent", Vec::new()), started))
            }
            ProfileType::Heap => {
                if let Some(why) = heap_unavailable(&self.0) {
                    return Err(CollectError::Unavailable { why });
                }
                let (agent, started) = (self.0.clone(), now());
                let bytes = Bytes::from(blocking(move || agent.heap_dump()).await?);
                let length = bytes.len() as u64;
                let decoded = decode(bytes).await?;
                if decoded.profile.sample_count() == 0 {
                    return Err(CollectError::NothingYet);
                }
                Ok(answer(Recording::new(
                    ProfileType::Heap,
                    Ok(RecordingData::Decoded(Box::new(decoded), length)),
                    started,
                    Nanos(0),
                )))
            }
            ref other => Err(CollectError::Engine {
                code: "unsupported",
                why: format!("the server itself has no {other} profile"),
            }),
        }
    }
}

impl Source for ThisServerSource {
    fn record<'a>(&'a self, request: &'a Request, watch: &'a Watch) -> Pending<'a, Recordings> {
        Box::pin(self.record_one(request, watch))
    }

    fn begin<'a>(&'a self, _request: &'a Request, by: &'a str) -> Pending<'a, Box<dyn ContinuousRecording>> {
        Box::pin(async move {
            let running = start(CpuOptions { owner: by.to_owned(), ..CpuOptions::default() }).await?;
            Ok(Box::new(ThisServerRecording { running: Some(running), started: now() }) as Box<dyn ContinuousRecording>)
        })
    }
}

impl ContinuousRecording for ThisServerRecording {
    fn cut(&mut self) -> Pending<'_, Recordings> {
        Box::pin(async move {
            let ended = || CollectError::Engine { code: "agent", why: "the recording has ended".to_owned() };
            let mut running = self.running.take().ok_or_else(ended)?;
            let (running, profile) = blocking(move || {
                let profile = running.cut()?;
                Ok((running, profile))
            })
            .await?;
            self.running = Some(running);
            let started = std::mem::replace(&mut self.started, now());
            Ok(cpu(Decoded::new(profile, "agent", Vec::new()), started))
        })
    }
}

fn cpu(decoded: Decoded, started: Nanos) -> Recordings {
    let length = Nanos(now().0.saturating_sub(started.0));
    answer(Recording::new(ProfileType::Cpu, Ok(RecordingData::Decoded(Box::new(decoded), 0)), started, length))
}

fn answer(recording: Recording) -> Recordings {
    let instance = Instance { local: Identity::read(Pid::current()).ok(), ..Instance::default() };
    Recordings { recordings: vec![recording], origin: ORIGIN.to_owned(), instance }
}

/// Why the server's own heap cannot be dumped at this moment; `None` while its profiler is available and active.
pub(crate) fn heap_unavailable(agent: &Agent) -> Option<String> {
    let status = match agent.heap_status() {
        Ok(status) => status,
        Err(error) => return Some(error.to_string()),
    };
    match (status.available, status.active) {
        (true, true) => None,
        (true, false) => {
            Some("the heap profiler is switched off; POST /debug/pprof/heap/enable switches it on".to_owned())
        }
        (false, _) => Some("the server was started without jemalloc's heap profiler".to_owned()),
    }
}

async fn decode(bytes: Bytes) -> Result<Decoded, CollectError> {
    let done = tokio::task::spawn_blocking(move || format::decode(&bytes, &Limits::default())).await;
    done.map_err(|_| stopping())?.map_err(|error| failed(&error))
}

async fn start(options: CpuOptions) -> Result<CpuCapture, CollectError> {
    blocking(move || CpuCapture::start(&options)).await
}

/// The agent's calls wait for its sampler, up to a tenth of a second.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> procprof_agent::Result<T> + Send + 'static,
) -> Result<T, CollectError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| stopping())?;
    done.map_err(|error| failed(&error))
}

fn failed(error: &dyn std::error::Error) -> CollectError {
    CollectError::Engine { code: "agent", why: error.to_string() }
}

fn stopping() -> CollectError {
    CollectError::Cancelled { url: "the server is stopping".to_owned() }
}
