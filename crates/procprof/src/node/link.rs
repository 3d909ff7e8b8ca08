//! The connection to the server: heartbeats, which bring commands, and pushes. The agent makes all requests.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use procprof_server::protocol::{
    Command, Heartbeat, HeartbeatAnswer, Outcome, PUSH_MEDIA_TYPE, PushAnswer, WAIT_SECONDS_MAX,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode, header};
use tokio::sync::mpsc;

use super::captures::{Captures, Wanted};
use super::sampler::Ask;
use super::shared::{Shared, nanos_since_1970};
use super::spool;

/// Longest wait of a heartbeat for commands.
const WAIT_SECONDS: u32 = 20;
/// Longest time that an answer may take beside that wait.
const ANSWER: Duration = Duration::from_secs(20);
/// Longest time for a push.
const PUSH: Duration = Duration::from_secs(120);
/// Bytes and profiles of a push.
const BATCH_BYTES: u64 = 4 << 20;
const BATCH_PROFILES: usize = 200;
/// Time after which a push is tried though nothing was added.
const IDLE: Duration = Duration::from_secs(60);
/// Shortest and longest pause after a failure.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Shortest time between two heartbeats without commands.
const HEARTBEAT_MIN: Duration = Duration::from_secs(1);
/// Largest answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Difference of the clocks that is worth a message, in milliseconds.
const SKEW_MILLI_MAX: i64 = 5000;

/// The server, as requests reach it.
pub(super) struct Link {
    client: reqwest::Client,
    base: String,
    token_file: PathBuf,
}

/// A request that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server can't be reached, or the token not be read.
    #[error("{0:#}")]
    NotReached(anyhow::Error),
    /// The server refuses.
    #[error("{status}: {why}")]
    Refused { status: StatusCode, why: String },
}

impl Link {
    pub(super) fn new(client: reqwest::Client, base: &str, token_file: PathBuf) -> Result<Self> {
        let base = base.trim_end_matches('/').to_owned();
        let is_url = base.starts_with("http://") || base.starts_with("https://");
        ensure!(is_url, "--server {base}: expected http://HOST:PORT or https://HOST:PORT");
        Ok(Self { client, base, token_file })
    }

    /// The token, as the file has it now.
    pub(super) fn token(&self) -> Result<String> {
        let file = &self.token_file;
        let token = std::fs::read_to_string(file).with_context(|| format!("read the token {}", file.display()))?;
        let token = token.trim().to_owned();
        ensure!(!token.is_empty(), "the token {} is empty", file.display());
        Ok(token)
    }

    pub(super) fn request(&self, method: Method, path: &str) -> Result<RequestBuilder> {
        Ok(self.client.request(method, format!("{}{path}", self.base)).bearer_auth(self.token()?))
    }

    /// Sends a request and reads its answer.
    pub(super) async fn ask(&self, request: Result<RequestBuilder>, longest: Duration) -> Result<Vec<u8>, Failure> {
        let request = request.map_err(Failure::NotReached)?.timeout(longest);
        let asking = || format!("ask {}", self.base);
        let response = request.send().await.with_context(asking).map_err(Failure::NotReached)?;
        let status = response.status();
        let body = bounded(response).await.map_err(Failure::NotReached)?;
        if status.is_success() {
            return Ok(body);
        }
        let problem: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
        let why = problem.as_ref().and_then(|problem| problem["error"].as_str()).map(str::to_owned);
        let why = why.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
        Err(Failure::Refused { status, why: why.chars().take(500).collect() })
    }
}

async fn bounded(mut response: Response) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.context("read the answer")? {
        ensure!(body.len() + piece.len() <= ANSWER_BYTES_MAX, "the answer is larger than {ANSWER_BYTES_MAX} bytes");
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The pause after failures: it doubles, with jitter so that hosts do not ask in step.
#[derive(Debug, Default)]
struct BackOff {
    failures: u32,
}

impl BackOff {
    fn pause(&mut self) -> Duration {
        let longest = PAUSE_MIN.saturating_mul(1 << self.failures.min(16)).min(PAUSE_MAX);
        self.failures += 1;
        with_jitter(longest)
    }

    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Half of a time to all of it.
fn with_jitter(longest: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) % 1000;
    longest / 2 + longest.mul_f64(random as f64 / 2000.0)
}

/// Parts of the agent that commands and answers are for.
#[derive(Clone)]
pub(super) struct Receivers {
    pub(super) sampler: Sender<Ask>,
    pub(super) wanted_symbols: mpsc::Sender<Vec<String>>,
}

impl Receivers {
    fn wanted(&self, build_ids: Vec<String>) {
        if !build_ids.is_empty() {
            // While one list is worked on, the next answer names the rest again.
            let _ = self.wanted_symbols.try_send(build_ids);
        }
    }
}

/// Sends heartbeats until the agent stops; does what their answers ask for.
pub(super) async fn heartbeats(shared: &Arc<Shared>, link: &Link, receivers: &Receivers) {
    let mut back_off = BackOff::default();
    let mut captures = Captures::default();
    let mut is_skewed = false;
    // The first is answered at once, so that the server knows the host when profiles come.
    let mut wait_seconds = 0;
    loop {
        let begun = tokio::time::Instant::now();
        let (host, services) = shared.report();
        let sent_nanos = nanos_since_1970(SystemTime::now());
        let heartbeat = Heartbeat { host, services, sent_nanos, wait_seconds };
        let longest = ANSWER + Duration::from_secs(u64::from(wait_seconds.min(WAIT_SECONDS_MAX)));
        let request = link.request(Method::POST, "/api/hosts/heartbeat").and_then(|request| {
            let body = serde_json::to_vec(&heartbeat).context("write a heartbeat")?;
            Ok(request.header(header::CONTENT_TYPE, "application/json").body(body))
        });
        let asked = link.ask(request, longest).await;
        let answer = asked.and_then(|body| parse::<HeartbeatAnswer>(&body));
        match answer {
            Ok(answer) => {
                if back_off.failures > 0 {
                    tracing::info!("the server answers again");
                }
                back_off.reset();
                wait_seconds = WAIT_SECONDS;
                is_skewed = told_skew(shared, &answer, is_skewed);
                receivers.wanted(answer.wanted_symbols);
                let has_commands = !answer.commands.is_empty();
                for command in answer.commands {
                    obey(shared, receivers, &mut captures, command);
                }
                // A server that holds as many heartbeats as it may says when the next one may come.
                let next = Duration::from_secs(answer.next_seconds.min(60).into());
                if !has_commands || !next.is_zero() {
                    tokio::time::sleep_until(begun + HEARTBEAT_MIN.max(next)).await;
                }
            }
            Err(failure) => {
                shared.counters.failed_requests.fetch_add(1, Ordering::Relaxed);
                let pause = back_off.pause();
                tracing::warn!("heartbeat: {failure}; tried again in {:.0} s", pause.as_secs_f64());
                tokio::time::sleep(pause).await;
            }
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).context("this is no procprof server").map_err(Failure::NotReached)
}

/// Reports when the clocks differ, and when they no longer do.
fn told_skew(shared: &Shared, answer: &HeartbeatAnswer, was_skewed: bool) -> bool {
    // The answer takes a while, which counts as skew of the server; the limit is far above it.
    let skew = (nanos_since_1970(SystemTime::now()) - answer.server_nanos) / 1_000_000;
    shared.counters.skew_milli.store(skew.cast_unsigned(), Ordering::Relaxed);
    let is_skewed = skew.abs() > SKEW_MILLI_MAX;
    if is_skewed && !was_skewed {
        let side = if skew > 0 { "ahead of" } else { "behind" };
        tracing::warn!("the clock of this host is {:.1} s {side} the server's", skew.abs() as f64 / 1000.0);
    } else if was_skewed && !is_skewed {
        tracing::info!("the clock of this host is that of the server again");
    }
    is_skewed
}

fn obey(shared: &Arc<Shared>, receivers: &Receivers, captures: &mut Captures, command: Command) {
    match command {
        Command::Capture { capture, service, profile_type, seconds, hz } => {
            captures.begin(shared, Wanted { capture, service, profile_type, seconds, hz });
        }
        Command::Cancel { capture } => captures.cancel(&capture),
        // The recording ends with the agent alone.
        Command::Rate { hz } => drop(receivers.sampler.send(Ask::Rate(hz.map(|hz| hz.clamp(1, 1000))))),
    }
}

/// Sends what is in the spool until the agent stops.
pub(super) async fn pushes(shared: &Arc<Shared>, link: &Link, receivers: &Receivers) {
    let mut back_off = BackOff::default();
    let mut batch_bytes = BATCH_BYTES;
    loop {
        let batch = shared.spool().batch(batch_bytes, BATCH_PROFILES);
        if batch.is_empty() {
            // Whatever comes meanwhile is noticed by the next look.
            let _ = tokio::time::timeout(IDLE, shared.filled.notified()).await;
            continue;
        }
        let names: HashMap<String, String> =
            batch.iter().map(|(name, _)| (spool::id(name).to_owned(), name.clone())).collect();
        let body: Vec<u8> = batch.into_iter().flat_map(|(_, frame)| frame).collect();
        let request = link.request(Method::POST, "/api/hosts/push");
        let request = request.map(|request| request.header(header::CONTENT_TYPE, PUSH_MEDIA_TYPE).body(body));
        let asked = link.ask(request, PUSH).await;
        let answer = asked.and_then(|body| parse::<PushAnswer>(&body));
        let pause = match answer {
            Ok(answer) => {
                back_off.reset();
                batch_bytes = BATCH_BYTES;
                settle(shared, receivers, &names, answer)
            }
            Err(failure) => {
                shared.counters.failed_requests.fetch_add(1, Ordering::Relaxed);
                let is_of_body = matches!(&failure, Failure::Refused { status, .. }
                    if matches!(status.as_u16(), 400 | 413 | 415 | 422));
                if is_of_body && names.len() == 1 {
                    names.values().for_each(|name| shared.spool().settle(name));
                    shared.counters.refused.fetch_add(1, Ordering::Relaxed);
                    tracing::error!("the server refuses a profile: {failure}");
                    None
                } else if is_of_body {
                    // One of them, or all of them together: find out which.
                    batch_bytes = 1;
                    None
                } else {
                    let pause = back_off.pause();
                    tracing::warn!("push: {failure}; tried again in {:.0} s", pause.as_secs_f64());
                    Some(pause)
                }
            }
        };
        shared.spool().end_batch();
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Removes what the server has answered for from the spool; the time to wait if it takes no more now.
fn settle(
    shared: &Shared,
    receivers: &Receivers,
    names: &HashMap<String, String>,
    answer: PushAnswer,
) -> Option<Duration> {
    let (mut pause, mut settled) = (None, 0);
    for pushed in answer.profiles {
        let Some(name) = names.get(&pushed.id) else { continue };
        match pushed.outcome {
            Outcome::Stored | Outcome::Known => {
                shared.counters.sent.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Refused { reason } => {
                shared.counters.refused.fetch_add(1, Ordering::Relaxed);
                tracing::error!("the server refuses profile {}: {reason}", pushed.id);
            }
            Outcome::Later { reason, seconds } => {
                let wait = Duration::from_secs(u64::from(seconds)).clamp(PAUSE_MIN, PAUSE_MAX * 10);
                if pause.is_none_or(|pause| pause < wait) {
                    tracing::warn!("the server takes no profiles for {} s: {reason}", wait.as_secs());
                    pause = Some(wait);
                }
                continue;
            }
        }
        settled += 1;
        shared.spool().settle(name);
    }
    receivers.wanted(answer.wanted_symbols);
    // A server that answers for none of them would be asked again and again.
    let pause = if settled == 0 { Some(pause.unwrap_or(PAUSE_MAX)) } else { pause };
    pause.map(with_jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_minute() {
        let mut back_off = BackOff::default();
        for longest in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            let pause = back_off.pause().as_secs_f64();
            assert!((0.5 * f64::from(longest)..=f64::from(longest)).contains(&pause), "{pause} of {longest}");
        }
        assert!((0..100).all(|_| back_off.pause() <= PAUSE_MAX));
        back_off.reset();
        assert!(back_off.pause() <= PAUSE_MIN);
    }
}
