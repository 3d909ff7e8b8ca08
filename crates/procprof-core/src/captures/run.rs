//! One capture, from the request to the stored profile or the error row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use procprof_collect::{Flight, FlightRole, Flights, HttpClient, Leader, Progress, Request, Source, Watch};
use procprof_profile::{Nanos, ProfileType};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore};
use tokio::time::Instant;

use super::queue::{Queue, Wait, patience};
use super::recorded::{Recorded, RecordingContext, source_of_node, store_recordings};
use super::{CaptureFailure, Captures};
use crate::hosts::{CaptureOrder, NoCapture};
use crate::ingest::{IngestError, record_error};
use crate::kinds::NodeConfig;
use crate::metrics::{Captured, Failed};
use crate::nodes::{self, Node, PushedBy, Registry, TypeHealth};
use crate::remote::Remote;
use crate::shares::Requester;

/// How a capture ended; shared by all who joined it.
pub(super) type Outcome = Result<Arc<Recorded>, Arc<CaptureFailure>>;

/// A requested capture.
pub struct CaptureRequest {
    pub(super) profile_type: ProfileType,
    /// Further types that are to be recorded with it.
    pub(super) also: Vec<ProfileType>,
    /// Length; `None` for the schedule's.
    pub(super) seconds: Option<u32>,
    /// The requester, named to others that have to wait.
    pub(super) by: String,
    /// `schedule` or `manual`.
    pub(super) trigger: &'static str,
    pub(super) watch: Watch,
    /// Shows its waiting; without it, it does not wait for a capture of another length to begin its own.
    pub(super) wait: Option<Arc<Wait>>,
    /// When it was due by the schedule.
    pub(super) due: Option<Instant>,
    /// Called with the bytes that have arrived from the node, before they are decoded; not for a capture that was
    /// joined, nor for the server's own.
    pub(super) arrived: Option<Arrived>,
}

impl CaptureRequest {
    /// A user's request for one type, which waits while a capture of another length is under way.
    pub fn manual(profile_type: ProfileType, seconds: Option<u32>, by: &str, watch: Watch) -> CaptureRequest {
        let wait = Some(Arc::default());
        CaptureRequest {
            profile_type,
            also: Vec::new(),
            seconds,
            by: by.to_owned(),
            trigger: "manual",
            watch,
            wait,
            due: None,
            arrived: None,
        }
    }
}

/// A callback for bytes that have arrived.
pub type Arrived = Box<dyn Fn(&Bytes) + Send + Sync>;

/// How long a capture holds its slot beyond its own length: one that takes longer waits for its node, or for its turn
/// among children, and frees the slot for the next.
const HOLD: Duration = Duration::from_secs(3);
/// A type that goes on failing in the same way has an error row at most this often.
const ERROR_ROWS_EVERY: Duration = Duration::from_secs(900);

/// The slots of a cluster: as many again for types whose latest capture failed, so that these never delay others.
#[derive(Clone)]
struct ClusterSlots {
    healthy: Arc<Semaphore>,
    failing: Arc<Semaphore>,
}

/// The state shared by running captures.
#[derive(Default)]
pub(super) struct InFlight {
    client: Mutex<Arc<HttpClient>>,
    flights: Flights<Outcome>,
    queue: Queue,
    clusters: Mutex<HashMap<String, ClusterSlots>>,
    turns: Mutex<HashMap<u64, Arc<AsyncMutex<()>>>>,
    /// By node, the source made for it, and for which configuration.
    sources: Mutex<HashMap<u64, KnownSource>>,
}

/// A source, and what it was made for.
struct KnownSource {
    config: NodeConfig,
    stack_depth: u32,
    source: Arc<dyn Source>,
}

impl InFlight {
    /// Forgets connections and limits, so that those of a new configuration are made.
    pub(super) fn reconfigure(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The source of a node, made anew where its configuration changed.
    pub(super) fn kept_source(
        &self,
        node: &Node,
        stack_depth: u32,
        make: impl FnOnce() -> Result<Arc<dyn Source>, CaptureFailure>,
    ) -> Result<Arc<dyn Source>, CaptureFailure> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) =
            sources.get(&node.id).filter(|known| known.config == node.config && known.stack_depth == stack_depth)
        {
            return Ok(Arc::clone(&known.source));
        }
        let source = make()?;
        sources.insert(node.id, KnownSource { config: node.config.clone(), stack_depth, source: Arc::clone(&source) });
        Ok(source)
    }

    /// The source that was made for a node as it is configured.
    pub(super) fn known_source(&self, node: &Node) -> Option<Arc<dyn Source>> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.get(&node.id).filter(|known| known.config == node.config).map(|known| Arc::clone(&known.source))
    }

    /// Forgets the sources of nodes that are configured otherwise now, or no more.
    pub(super) fn forget_sources(&self, registry: &Registry) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|id, known| registry.by_id(*id).is_some_and(|node| node.config == known.config));
    }

    /// The connections to nodes.
    pub(super) fn client(&self) -> Arc<HttpClient> {
        Arc::clone(&self.client.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn cluster(&self, name: &str, limit: u64) -> ClusterSlots {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(Semaphore::new(usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS)));
        clusters.entry(name.to_owned()).or_insert_with(|| ClusterSlots { healthy: made(), failing: made() }).clone()
    }

    fn turn(&self, node: u64) -> Arc<AsyncMutex<()>> {
        Arc::clone(self.turns.lock().unwrap_or_else(PoisonError::into_inner).entry(node).or_default())
    }
}

/// Captures a profile, or joins a capture that gives it, and stores it.
pub(super) async fn capture(captures: &Arc<Captures>, node: &Arc<Node>, wanted: CaptureRequest) -> Outcome {
    let planned = node.planned(&wanted.profile_type);
    let default = planned.map_or(0, |planned| planned.seconds);
    let seconds = wanted.seconds.unwrap_or(u32::try_from(default).unwrap_or(0));
    let request =
        wanted.also.iter().cloned().fold(Request::new(wanted.profile_type.clone()).seconds(seconds), Request::and);
    let given_up = |when| Err(Arc::new(CaptureFailure::cancelled(when)));
    loop {
        let role = tokio::select! {
            () = wanted.watch.cancel.cancelled() => return given_up("given up before it began"),
            role = enter(captures, node, &request, &wanted) => role?,
        };
        let outcome = match role {
            FlightRole::Lead(leader) => return lead(captures, node, request, wanted, leader).await,
            FlightRole::Busy(follower) => {
                return Err(Arc::new(CaptureFailure::busy(format!("busy: {}", describe(&follower.flight)))));
            }
            FlightRole::Join(follower) => tokio::select! {
                () = wanted.watch.cancel.cancelled() => return given_up("given up while waiting for the capture that \
                    was joined"),
                outcome = follower.wait() => outcome,
            },
        };
        match outcome {
            // The capture was cancelled by its leader; this one was not.
            Err(_) => {}
            Ok(Err(failure)) if failure.is_cancelled() => {}
            Ok(outcome) => return outcome,
        }
    }
}

/// Leads or joins a capture. A manual request waits until a capture of another length has ended, then begins its own;
/// the schedule waits for it, too, and then skips its own.
async fn enter(
    captures: &Captures,
    node: &Node,
    request: &Request,
    wanted: &CaptureRequest,
) -> Result<FlightRole<Outcome>, Arc<CaptureFailure>> {
    let InFlight { flights, queue, .. } = &captures.in_flight;
    let flight = || {
        let until = Timestamp::now() + SignedDuration::from_secs(i64::from(request.seconds.unwrap_or(0)));
        let until = Nanos(i64::try_from(until.as_nanosecond()).unwrap_or(i64::MAX));
        Flight { node: node.id, request: request.clone(), by: wanted.by.clone(), until }
    };
    let Some(wait) = &wanted.wait else {
        queue.empty(node.id, &wanted.profile_type).await;
        return Ok(match flights.enter(flight()) {
            FlightRole::Busy(follower) => {
                let running = follower.flight.clone();
                drop(follower.wait().await);
                return Err(Arc::new(CaptureFailure::busy(format!("busy: {}", describe(&running)))));
            }
            role => role,
        });
    };
    let mut running = match flights.enter(flight()) {
        FlightRole::Busy(follower) => follower,
        role => return Ok(role),
    };
    let _waiting = queue.enter(node.id, &wanted.profile_type);
    let give_up = Instant::now() + patience(&running.flight, request.seconds.unwrap_or(0));
    loop {
        let current = running.flight.clone();
        wait.begin(format!("waiting: {}", describe(&current)));
        let ended = tokio::time::timeout_at(give_up, running.wait()).await;
        running = match flights.enter(flight()) {
            FlightRole::Busy(_) if ended.is_err() => {
                return Err(Arc::new(CaptureFailure::busy(format!("busy: {}", describe(&current)))));
            }
            FlightRole::Busy(next) => next,
            role => {
                wait.end();
                return Ok(role);
            }
        };
    }
}

/// A running capture as clients that have to wait for it see it.
fn describe(flight: &Flight) -> String {
    let until =
        Timestamp::from_nanosecond(i128::from(flight.until.0)).map(|time| format!("{time:.0}")).unwrap_or_default();
    let seconds = flight.request.seconds.unwrap_or(0);
    format!("{} is capturing {} for {seconds} s until {until}", flight.by, flight.request.profile_type)
}

async fn lead(
    captures: &Arc<Captures>,
    node: &Arc<Node>,
    request: Request,
    wanted: CaptureRequest,
    leader: Leader<Outcome>,
) -> Outcome {
    let types: Vec<ProfileType> = request.types().cloned().collect();
    let capturing: Vec<Capturing<'_>> = types.iter().map(|one| Capturing::begin(captures, node.id, one)).collect();
    let result = attempt(captures, node, request, &wanted).await;
    drop(capturing);
    let outcome = result.map(Arc::new).map_err(Arc::new);
    match &outcome {
        Ok(recorded) => {
            for entry in &recorded.stored {
                succeeded(captures, node, &entry.profile_type);
            }
            for (profile_type, failure) in &recorded.failed {
                failed(captures, node, profile_type, failure, true);
            }
        }
        Err(failure) => types.iter().for_each(|one| failed(captures, node, one, failure, false)),
    }
    leader.finish(outcome.clone());
    outcome
}

/// Counts a profile that arrived.
pub(super) fn succeeded(captures: &Captures, node: &Node, profile_type: &ProfileType) {
    let label = Captured { node: node.name().to_owned(), r#type: profile_type.name().to_owned() };
    captures.metrics.captures.get_or_create(&label).inc();
    captures.registry.note(node.id, |health| {
        let own = health.types.entry(profile_type.clone()).or_default();
        (own.last_success, own.unavailable) = (Some(Timestamp::now()), None);
    });
}

/// Counts a failure, and keeps it if the type is collected on schedule; otherwise the requester sees it in the job. A
/// cancelled capture and an unavailable type are no failures. A type that fails again and again in one way has a row
/// now and then; the metrics count every failure. A profile missing from an answer whose others were stored (`is_part`)
/// is always kept: it is reported nowhere else.
pub(super) fn failed(
    captures: &Captures,
    node: &Node,
    profile_type: &ProfileType,
    failure: &CaptureFailure,
    is_part: bool,
) {
    if let Some(why) = failure.unavailable_reason() {
        captures.registry.note(node.id, |health| {
            health.types.entry(profile_type.clone()).or_default().unavailable = Some(why.to_owned())
        });
    }
    let Some(kind) = failure.kind else { return };
    let label =
        Failed { node: node.name().to_owned(), r#type: profile_type.name().to_owned(), code: failure.code.to_owned() };
    captures.metrics.failures.get_or_create(&label).inc();
    if !is_part && !node.planned(profile_type).is_some_and(|planned| planned.on) {
        return;
    }
    let attempt = nodes::FailedAttempt { at: Timestamp::now(), reason: failure.reason.clone() };
    let mut is_news = true;
    captures.registry.note(node.id, |health| {
        let own = health.types.entry(profile_type.clone()).or_default();
        let known =
            own.recorded.filter(|(at, code)| own.failing() && *code == failure.code && at.elapsed() < ERROR_ROWS_EVERY);
        (is_news, own.recorded) = (known.is_none(), known.or(Some((Instant::now(), failure.code))));
        (own.last_failure, own.unavailable) = (Some(attempt), None);
    });
    if !is_news {
        return;
    }
    record_error(
        &captures.ingest,
        Some(node.id),
        Some(profile_type.clone()),
        kind,
        &failure.reason,
        &failure.first_bytes,
    );
}

async fn attempt(
    captures: &Arc<Captures>,
    node: &Arc<Node>,
    request: Request,
    wanted: &CaptureRequest,
) -> Result<Recorded, CaptureFailure> {
    if let Some(of) = &node.pushed_by {
        return pushed(captures, of, &request, wanted).await;
    }
    let cancel = &wanted.watch.cancel;
    let given_up = || CaptureFailure::cancelled("given up before it began");
    // A capture that waits for its turn holds no slot.
    let _turn: Option<OwnedMutexGuard<()>> = match node.kind().takes_turns {
        true => tokio::select! {
            () = cancel.cancelled() => return Err(given_up()),
            turn = captures.in_flight.turn(node.id).lock_owned() => Some(turn),
        },
        false => None,
    };
    let slots = captures.in_flight.cluster(&node.cluster, captures.config().max_concurrent_captures);
    let fails = captures.registry.health(node.id).types.get(&wanted.profile_type).is_some_and(TypeHealth::failing);
    let slots = if fails { slots.failing } else { slots.healthy };
    let slot = tokio::select! {
        () = cancel.cancelled() => return Err(given_up()),
        slot = slots.acquire_owned() => slot.map_err(|_| given_up())?,
    };
    if let Some(due) = wanted.due {
        captures.metrics.start_delay.observe(due.elapsed().as_secs_f64());
    }
    let hold = Duration::from_millis(u64::from(request.seconds.unwrap_or(0)) * 1010) + HOLD;
    let capture = record_and_store(captures, node, &request, wanted);
    tokio::pin!(capture);
    tokio::select! {
        captured = &mut capture => return captured,
        () = tokio::time::sleep(hold) => drop(slot),
    }
    capture.await
}

/// Has the host agent of a node record, and waits for what it sends.
async fn pushed(
    captures: &Captures,
    of: &PushedBy,
    request: &Request,
    wanted: &CaptureRequest,
) -> Result<Recorded, CaptureFailure> {
    let waits = |reason: Option<String>| match (&wanted.wait, reason) {
        (Some(wait), Some(reason)) => wait.begin(reason),
        (Some(wait), None) => wait.end(),
        (None, _) => {}
    };
    let order = CaptureOrder {
        of,
        profile_type: &request.profile_type,
        seconds: request.seconds.unwrap_or(0).max(1),
        cancel: &wanted.watch.cancel,
        waits: &waits,
    };
    match captures.hosts.capture(order).await {
        Ok(entry) => Ok(Recorded { stored: vec![Arc::new(entry)], failed: Vec::new() }),
        Err(NoCapture::Cancelled) => Err(CaptureFailure::cancelled("given up")),
        Err(NoCapture::Silent(why)) => Err(CaptureFailure::capture("agent_silent", why)),
        Err(NoCapture::Failed(why)) => Err(CaptureFailure::capture("agent", why)),
    }
}

/// Records with the node's source and stores what it returned.
async fn record_and_store(
    captures: &Arc<Captures>,
    node: &Arc<Node>,
    request: &Request,
    wanted: &CaptureRequest,
) -> Result<Recorded, CaptureFailure> {
    let source = source_of_node(captures, node).await?;
    // The answer takes memory from the budget while it arrives.
    let reserved = captures.ingest.reserve(&Requester::server());
    let reserved = Arc::new(reserved.map_err(IngestError::from)?);
    let (budget, metrics) = (Arc::clone(&reserved), Arc::clone(&captures.metrics));
    let admit = move |bytes: u64| {
        budget.grow(bytes).inspect_err(|full| metrics.refuse(full.reason())).map_err(|full| full.to_string())
    };
    let watch = Watch { admit: Some(Arc::new(admit)), by: wanted.by.clone(), ..wanted.watch.clone() };
    let answer = source.record(request, &watch).await?;
    drop(watch);
    if let Some(listener) = &wanted.watch.progress {
        listener(Progress::Checking);
    }
    let page = source.symbol_page().filter(|_| node.config.remote_symbols);
    let remote = page.map(|(client, target)| Remote { client, target, watch: wanted.watch.clone() });
    let found = RecordingContext { remote, reserved: Some(reserved) };
    let origin = answer.origin.clone();
    let mut recorded = store_recordings(captures, node, wanted.trigger, wanted.arrived.as_ref(), answer, found).await;
    match recorded.stored.is_empty() {
        false => {
            recorded.note_missing(request, &origin);
            Ok(recorded)
        }
        true => Err(match recorded.failed.is_empty() {
            true => CaptureFailure::capture("no_recording", "the source gave no recording"),
            false => CaptureFailure::clone(&recorded.failed.swap_remove(0).1),
        }),
    }
}

/// Marks a type as being captured for as long as it lives.
struct Capturing<'a> {
    captures: &'a Captures,
    node: u64,
    profile_type: ProfileType,
}

impl<'a> Capturing<'a> {
    fn begin(captures: &'a Captures, node: u64, profile_type: &ProfileType) -> Capturing<'a> {
        captures.registry.note(node, |health| health.types.entry(profile_type.clone()).or_default().capturing = true);
        Capturing { captures, node, profile_type: profile_type.clone() }
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        self.captures
            .registry
            .note(self.node, |health| health.types.entry(self.profile_type.clone()).or_default().capturing = false);
    }
}
