//! One capture, from the wish to the stored profile or the error row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use procprof_collect::{Client, Collected, Entry as Place, Flight, Flights, Leader, Progress, Request, Watch, collect};
use procprof_profile::{Meta, Nanos, ProfileType};
use procprof_store::Entry;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::queue::{Queue, Wait, patience};
use super::{Failure, own};
use crate::app::App;
use crate::ingest::{Arrival, Finding, ingest, now, record};
use crate::metrics::{Captured, Failed};
use crate::nodes::{self, Kind, Node};
use crate::remote::{Remote, process, target};

/// How a capture ended; shared by all who joined it.
pub(crate) type Outcome = Result<Arc<Entry>, Arc<Failure>>;

/// A capture somebody wants.
pub(crate) struct Wish {
    pub(crate) profile_type: ProfileType,
    /// Length; `None` for the schedule's.
    pub(crate) seconds: Option<u32>,
    /// Who asks, for others who hear that they have to wait.
    pub(crate) by: String,
    /// `schedule` or `manual`.
    pub(crate) trigger: &'static str,
    pub(crate) watch: Watch,
    /// Where it shows that it waits; without it, it does not wait for a capture of another length to begin its own.
    pub(crate) wait: Option<Arc<Wait>>,
    /// When the schedule wanted it to begin.
    pub(crate) due: Option<Instant>,
    /// Told what has arrived from the node, before it is taken in; not for a capture that was joined, nor for the server's own.
    pub(crate) arrived: Option<Arrived>,
}

/// Is told what has arrived.
pub(crate) type Arrived = Box<dyn Fn(&Bytes) + Send + Sync>;

/// What captures share.
#[derive(Default)]
pub(crate) struct Captures {
    pub(crate) client: Mutex<Arc<Client>>,
    flights: Flights<Outcome>,
    queue: Queue,
    clusters: Mutex<HashMap<String, Arc<Semaphore>>>,
    turns: Mutex<HashMap<u64, Arc<AsyncMutex<()>>>>,
}

impl Captures {
    /// Forgets connections and limits, so that those of a new configuration are made.
    pub(crate) fn reconfigure(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The connections to nodes.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn cluster(&self, name: &str, limit: u64) -> Arc<Semaphore> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(Semaphore::new(usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS)));
        Arc::clone(clusters.entry(name.to_owned()).or_insert_with(made))
    }

    fn turn(&self, node: u64) -> Arc<AsyncMutex<()>> {
        Arc::clone(self.turns.lock().unwrap_or_else(PoisonError::into_inner).entry(node).or_default())
    }
}

/// Captures a profile, or joins a capture that gives it, and stores it.
pub(crate) async fn capture(app: &Arc<App>, node: &Arc<Node>, wish: Wish) -> Outcome {
    let planned = node.planned(&wish.profile_type);
    let default = planned.map_or(0, |planned| planned.seconds);
    let seconds = wish.seconds.unwrap_or(u32::try_from(default).unwrap_or(0));
    let request = Request { profile_type: wish.profile_type.clone(), seconds: Some(seconds), frequency: None };
    let place = tokio::select! {
        () = wish.watch.cancel.cancelled() => return Err(Arc::new(Failure::cancelled("given up before it began"))),
        place = enter(app, node, &request, &wish) => place?,
    };
    match place {
        Place::Busy(follower) => Err(Arc::new(Failure::busy(format!("busy: {}", at_it(&follower.flight))))),
        Place::Join(follower) => tokio::select! {
            () = wish.watch.cancel.cancelled() => Err(Arc::new(Failure::cancelled("given up while waiting for the capture that was joined"))),
            outcome = follower.wait() => outcome.unwrap_or_else(|gone| Err(Arc::new(Failure::cancelled(&gone.to_string())))),
        },
        Place::Lead(leader) => lead(app, node, request, wish, leader).await,
    }
}

/// Leads or joins a capture. People wait for one of another length to end; the schedule waits, too, and then leaves it at that.
async fn enter(app: &App, node: &Node, request: &Request, wish: &Wish) -> Result<Place<Outcome>, Arc<Failure>> {
    let Captures { flights, queue, .. } = &app.captures;
    let flight = || {
        let until = Timestamp::now() + SignedDuration::from_secs(i64::from(request.seconds.unwrap_or(0)));
        let until = Nanos(i64::try_from(until.as_nanosecond()).unwrap_or(i64::MAX));
        Flight { node: node.id, request: request.clone(), by: wish.by.clone(), until }
    };
    let Some(wait) = &wish.wait else {
        queue.empty(node.id, &wish.profile_type).await;
        return Ok(match flights.enter(flight()) {
            Place::Busy(follower) => {
                let running = follower.flight.clone();
                drop(follower.wait().await);
                return Err(Arc::new(Failure::busy(format!("busy: {}", at_it(&running)))));
            }
            place => place,
        });
    };
    let mut running = match flights.enter(flight()) {
        Place::Busy(follower) => follower,
        place => return Ok(place),
    };
    let _waiting = queue.enter(node.id, &wish.profile_type);
    let give_up = Instant::now() + patience(&running.flight, request.seconds.unwrap_or(0));
    loop {
        let told = running.flight.clone();
        wait.begin(format!("waiting: {}", at_it(&told)));
        let ended = tokio::time::timeout_at(give_up, running.wait()).await;
        running = match flights.enter(flight()) {
            Place::Busy(_) if ended.is_err() => return Err(Arc::new(Failure::busy(format!("busy: {}", at_it(&told))))),
            Place::Busy(next) => next,
            place => {
                wait.end();
                return Ok(place);
            }
        };
    }
}

fn at_it(flight: &Flight) -> String {
    let until = Timestamp::from_nanosecond(i128::from(flight.until.0)).map(|time| format!("{time:.0}")).unwrap_or_default();
    let seconds = flight.request.seconds.unwrap_or(0);
    format!("{} is capturing {} for {seconds} s until {until}", flight.by, flight.request.profile_type)
}

async fn lead(app: &Arc<App>, node: &Arc<Node>, request: Request, wish: Wish, leader: Leader<Outcome>) -> Outcome {
    let profile_type = wish.profile_type.clone();
    let capturing = Capturing::begin(app, node.id, &profile_type);
    let result = attempt(app, node, request, &wish).await;
    drop(capturing);
    let outcome = match result {
        Ok(entry) => {
            succeeded(app, node, &profile_type);
            Ok(Arc::new(entry))
        }
        Err(failure) => {
            failed(app, node, &profile_type, &failure);
            Err(Arc::new(failure))
        }
    };
    leader.finish(outcome.clone());
    outcome
}

/// Counts a profile that arrived.
pub(super) fn succeeded(app: &App, node: &Node, profile_type: &ProfileType) {
    let label = Captured { node: node.name().to_owned(), r#type: profile_type.name().to_owned() };
    app.metrics.captures.get_or_create(&label).inc();
    app.registry.note(node.id, |health| {
        let own = health.types.entry(profile_type.clone()).or_default();
        (own.last_success, own.unavailable) = (Some(Timestamp::now()), None);
    });
}

/// Counts a failure, and keeps it if the type is collected on schedule: else who asked sees it in the job. What was cancelled or is not
/// available is none.
pub(super) fn failed(app: &App, node: &Node, profile_type: &ProfileType, failure: &Failure) {
    if let Some(why) = failure.unavailable_reason() {
        app.registry.note(node.id, |health| health.types.entry(profile_type.clone()).or_default().unavailable = Some(why.to_owned()));
    }
    let Some(kind) = failure.kind else { return };
    let label = Failed { node: node.name().to_owned(), r#type: profile_type.name().to_owned(), code: failure.code.to_owned() };
    app.metrics.failures.get_or_create(&label).inc();
    if !node.planned(profile_type).is_some_and(|planned| planned.on) {
        return;
    }
    let told = nodes::Failure { at: Timestamp::now(), reason: failure.reason.clone() };
    app.registry.note(node.id, |health| {
        let own = health.types.entry(profile_type.clone()).or_default();
        (own.last_failure, own.unavailable) = (Some(told), None);
    });
    record(app, Some(node.id), Some(profile_type.clone()), kind, &failure.reason, &failure.first_bytes);
}

async fn attempt(app: &Arc<App>, node: &Arc<Node>, request: Request, wish: &Wish) -> Result<Entry, Failure> {
    let cancel = &wish.watch.cancel;
    let given_up = || Failure::cancelled("given up before it began");
    let cluster = app.captures.cluster(&node.cluster, app.config().max_concurrent_captures);
    let _permit: SemaphorePermit<'_> = tokio::select! {
        () = cancel.cancelled() => return Err(given_up()),
        permit = cluster.acquire() => permit.map_err(|_| given_up())?,
    };
    // brpc's profilers disturb each other: on one backend they take turns.
    let _turn: Option<OwnedMutexGuard<()>> = match node.kind() {
        Kind::StarrocksBe => tokio::select! {
            () = cancel.cancelled() => return Err(given_up()),
            turn = app.captures.turn(node.id).lock_owned() => Some(turn),
        },
        _ => None,
    };
    if let Some(due) = wish.due {
        app.metrics.start_delay.observe(due.elapsed().as_secs_f64());
    }
    match node.kind() {
        Kind::Own => own::capture(app, node, &request, wish).await,
        _ => collected(app, node, request, wish).await,
    }
}

async fn collected(app: &Arc<App>, node: &Arc<Node>, request: Request, wish: &Wish) -> Result<Entry, Failure> {
    let config = app.config();
    let target = Arc::new(target(node, &config).await?);
    let client = app.captures.client();
    let got = collect(&client, &target, &request, &wish.watch).await.map_err(|error| match node.kind() {
        Kind::Procprof => Failure::of_agent(error, &wish.profile_type),
        _ => error.into(),
    })?;
    if let Some(listener) = &wish.watch.progress {
        listener(Progress::Checking);
    }
    let finding = Finding {
        process: process(node, got.instance.local),
        binary: node.config.binary.clone(),
        remote: node.config.remote_symbols.then(|| Remote { client, target, watch: wish.watch.clone() }),
    };
    let Collected { bytes, decoded, started, finished, instance, .. } = got;
    let mut meta = meta(node, &wish.profile_type, wish.trigger, finished);
    meta.instance_start = instance.start_time();
    if let Some(arrived) = &wish.arrived {
        arrived(&bytes);
    }
    let window = (started, Nanos(i64::from(request.seconds.unwrap_or(0)) * 1_000_000_000));
    Ok(ingest(app, Arrival { meta, bytes, decoded: Some(decoded), window, finding }).await?)
}

/// What is known of any profile of a node.
pub(super) fn meta(node: &Node, profile_type: &ProfileType, trigger: &str, end: Nanos) -> Meta {
    Meta {
        node: Some(node.id),
        node_name: node.name().to_owned(),
        role: node.role().name().to_owned(),
        kind: node.kind().name().to_owned(),
        cluster: node.cluster.clone(),
        labels: node.config.labels.clone(),
        profile_type: Some(profile_type.clone()),
        trigger: trigger.to_owned(),
        end: Some(if end.0 > 0 { end } else { now() }),
        ..Meta::default()
    }
}

/// Marks a type as being captured for as long as it lives.
struct Capturing<'a> {
    app: &'a App,
    node: u64,
    profile_type: ProfileType,
}

impl<'a> Capturing<'a> {
    fn begin(app: &'a App, node: u64, profile_type: &ProfileType) -> Capturing<'a> {
        app.registry.note(node, |health| health.types.entry(profile_type.clone()).or_default().capturing = true);
        Capturing { app, node, profile_type: profile_type.clone() }
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        self.app.registry.note(self.node, |health| health.types.entry(self.profile_type.clone()).or_default().capturing = false);
    }
}
