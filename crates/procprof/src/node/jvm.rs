//! JVMs that a rule has recorded by their own Flight Recorder: CPU time, allocations and lock waits, without a gap.
//!
//! A JVM is recorded by perf events until its own recording has begun, and from then on by that alone; one that can't
//! be attached to stays with perf events.

use std::collections::{BTreeMap, HashMap};
use std::io::{Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use procprof_collect::jvm::{FlightSettings, JvmEngine, JvmOptions, JvmSource, JvmTarget};
use procprof_collect::{ContinuousRecording, Recording, RecordingData, Recordings, Request, Source};
use procprof_process::{Identity, Pid, Process};
use procprof_profile::ProfileType;

use super::decoder::{self, Fact};
use super::shared::Shared;

/// The requester of recordings, for others that wait for a JVM meanwhile.
const REQUESTER: &str = "procprof node";
/// Most JVMs that are recorded at a time, and most of one user, so that nobody's keep out those of all others.
const JVMS_MAX: usize = 50;
const JVMS_OF_USER_MAX: usize = 37;
/// Time between two looks at the processes that run.
const LOOK: Duration = Duration::from_secs(1);
/// Time after which a JVM that failed is tried again.
const RETRY: Duration = Duration::from_secs(300);
/// What is recorded.
const TYPES: [ProfileType; 3] = [ProfileType::Cpu, ProfileType::Alloc, ProfileType::Contention];

/// A JVM whose rule has it recorded by its own means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) identity: Identity,
    pub(super) service: String,
    /// The number of its user.
    pub(super) user: u32,
    /// Its own labels; those of the service are what all its processes have.
    pub(super) labels: BTreeMap<String, String>,
}

/// What the search for processes, perf events and the recordings of JVMs share.
#[derive(Debug, Default)]
pub(super) struct Jvms {
    chosen: Mutex<Vec<Chosen>>,
    /// The JVMs that are recorded, by pid, since when.
    recorded: Mutex<HashMap<u32, SystemTime>>,
    /// By service and pid: why a JVM is not recorded, or what is missing in its recording.
    limits: Mutex<BTreeMap<String, BTreeMap<u32, Vec<String>>>>,
    /// Cuts that were lost: at the end of a JVM, or because they could not be read or decoded.
    cuts_lost: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Jvms {
    pub(super) fn set_chosen(&self, chosen: Vec<Chosen>) {
        *locked(&self.chosen) = chosen;
    }

    /// The JVMs that were recorded by their own means at that time and since, by pid.
    pub(super) fn recorded_since(&self, time: SystemTime) -> Vec<u32> {
        locked(&self.recorded).iter().filter(|(_, since)| **since <= time).map(|(pid, _)| *pid).collect()
    }

    /// The services of JVMs that are recorded by their own means.
    pub(super) fn services(&self) -> Vec<String> {
        let recorded = locked(&self.recorded);
        let chosen = locked(&self.chosen);
        chosen.iter().filter(|jvm| recorded.contains_key(&jvm.identity.pid.0)).map(|jvm| jvm.service.clone()).collect()
    }

    /// What is not recorded of a service, and why.
    pub(super) fn limits(&self, service: &str) -> Vec<String> {
        let limits = locked(&self.limits);
        let mut lines: Vec<String> =
            limits.get(service).into_iter().flat_map(BTreeMap::values).flatten().cloned().collect();
        // Those of a JDK are the same for each JVM.
        lines.sort();
        lines.dedup();
        lines
    }

    fn set_limits(&self, jvm: &Chosen, lines: Vec<String>) {
        locked(&self.limits).entry(jvm.service.clone()).or_default().insert(jvm.identity.pid.0, lines);
    }

    fn forget_limits(&self, jvm: &Chosen) {
        let mut limits = locked(&self.limits);
        let Some(of_service) = limits.get_mut(&jvm.service) else { return };
        of_service.remove(&jvm.identity.pid.0);
        if of_service.is_empty() {
            limits.remove(&jvm.service);
        }
    }

    fn lose_cut(&self) {
        self.cuts_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Cuts that were lost since the start.
    pub(super) fn cuts_lost(&self) -> u64 {
        self.cuts_lost.load(Ordering::Relaxed)
    }
}

/// Records the chosen JVMs until the agent stops.
pub(super) async fn run(shared: &Arc<Shared>) {
    let mut running: HashMap<(Pid, u64), (u32, tokio::task::JoinHandle<()>)> = HashMap::new();
    let mut refused: Vec<Chosen> = Vec::new();
    loop {
        running.retain(|_, (_, task)| !task.is_finished());
        let chosen = locked(&shared.jvms.chosen).clone();
        for jvm in std::mem::take(&mut refused) {
            shared.jvms.forget_limits(&jvm);
        }
        for jvm in chosen {
            let key = (jvm.identity.pid, jvm.identity.start_ticks);
            if running.contains_key(&key) {
                continue;
            }
            if let Some(why) = full(running.values().map(|(user, _)| *user), jvm.user) {
                let line = format!("JVM {} is recorded by perf events alone: {why}", jvm.identity.pid);
                shared.jvms.set_limits(&jvm, vec![line]);
                refused.push(jvm);
                continue;
            }
            shared.begin_jvm();
            let (user, shared) = (jvm.user, Arc::clone(shared));
            let task = async move {
                record_again(&shared, &jvm).await;
                shared.end_jvm();
            };
            running.insert(key, (user, tokio::spawn(task)));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The reason for which one more JVM of a user is not recorded, given the users of those that are.
fn full(users: impl Iterator<Item = u32> + Clone, user: u32) -> Option<String> {
    let of_user = users.clone().filter(|own| *own == user).count();
    if users.count() >= JVMS_MAX {
        return Some(format!("{JVMS_MAX} JVMs are recorded already"));
    }
    (of_user >= JVMS_OF_USER_MAX).then(|| format!("{JVMS_OF_USER_MAX} JVMs of its user are recorded already"))
}

/// Whether a process runs, and the agent does.
fn goes_on(shared: &Shared, jvm: &Chosen) -> bool {
    !shared.is_stopping()
        && Process::open(jvm.identity.pid).is_ok_and(|process| process.identity().is_same(&jvm.identity))
}

/// Records a JVM until it ends; after an error once more, a while later.
async fn record_again(shared: &Arc<Shared>, jvm: &Chosen) {
    while goes_on(shared, jvm) {
        let ended = record(shared, jvm).await;
        locked(&shared.jvms.recorded).remove(&jvm.identity.pid.0);
        let Err(error) = ended else { break };
        if !goes_on(shared, jvm) {
            tracing::info!("JVM {} of {}: {error:#}", jvm.identity.pid, jvm.service);
            break;
        }
        tracing::warn!("JVM {} of {}: {error:#}; it is recorded by perf events", jvm.identity.pid, jvm.service);
        let line = format!("JVM {} is recorded by perf events alone: {error:#}", jvm.identity.pid);
        shared.jvms.set_limits(jvm, vec![line]);
        let failed = tokio::time::Instant::now();
        while failed.elapsed() < RETRY && goes_on(shared, jvm) {
            tokio::time::sleep(LOOK).await;
        }
    }
    if !shared.is_stopping() {
        shared.jvms.forget_limits(jvm);
    }
}

/// Records a JVM until it or the agent ends.
async fn record(shared: &Arc<Shared>, jvm: &Chosen) -> Result<()> {
    let source = source(shared, jvm);
    let seconds = u32::try_from(shared.settings.cut_seconds).unwrap_or(u32::MAX);
    let mut running = source.begin(&request().seconds(seconds), REQUESTER).await?;
    let limits = source.state().map_or_else(Vec::new, |state| state.limits);
    shared.jvms.set_limits(jvm, limits);
    locked(&shared.jvms.recorded).insert(jvm.identity.pid.0, SystemTime::now());
    let ended = cuts(shared, jvm, &mut *running).await;
    ended.inspect_err(|_| shared.jvms.lose_cut())
}

/// Cuts a recording until the JVM or the agent ends; with an error the cut that was due is lost.
async fn cuts(shared: &Arc<Shared>, jvm: &Chosen, running: &mut dyn ContinuousRecording) -> Result<()> {
    let interval = Duration::from_secs(shared.settings.cut_seconds);
    let mut due = tokio::time::Instant::now() + interval;
    loop {
        tokio::time::sleep(LOOK.min(due.saturating_duration_since(tokio::time::Instant::now()))).await;
        // What a JVM has recorded can be read when it has ended, too.
        let is_last = !goes_on(shared, jvm);
        if tokio::time::Instant::now() < due && !is_last {
            continue;
        }
        let cut = running.cut().await.context("read its recording")?;
        due += interval;
        let (own, chosen) = (Arc::clone(shared), jvm.clone());
        let pushed = tokio::task::spawn_blocking(move || push(&own, &chosen, &cut));
        if let Err(error) = pushed.await.context("decode its recording")? {
            shared.jvms.lose_cut();
            tracing::error!("JVM {} of {}: {error:#}; this cut is lost", jvm.identity.pid, jvm.service);
        }
        if is_last {
            return Ok(());
        }
    }
}

fn source(shared: &Shared, jvm: &Chosen) -> JvmSource {
    let cpu_interval = Duration::from_millis(u64::from(1000 / shared.settings.hz.max(1)).max(1));
    let settings = FlightSettings { cpu_interval, ..FlightSettings::default() };
    JvmSource::new(JvmOptions { target: JvmTarget::Pid(jvm.identity.pid), engine: JvmEngine::FlightRecorder, settings })
}

fn request() -> Request {
    let [first, others @ ..] = TYPES;
    others.into_iter().fold(Request::new(first), Request::and)
}

/// Gives the profiles of a cut to the spool.
fn push(shared: &Shared, jvm: &Chosen, cut: &Recordings) -> Result<()> {
    // What it publishes may have come since it was chosen.
    let known = locked(&shared.jvms.chosen).iter().find(|own| own.identity.is_same(&jvm.identity)).cloned();
    let labels = known.map_or_else(|| jvm.labels.clone(), |known| known.labels);
    for recording in &cut.recordings {
        for decoded in profiles(shared, jvm.identity, recording)? {
            if !TYPES.iter().any(|wanted| wanted.name() == decoded.profile_type) {
                continue;
            }
            let mut header = shared.header(&decoded.profile_type, Some(jvm.service.clone()));
            (header.start_nanos, header.duration_nanos) = (recording.started.0, recording.length.0);
            header.labels.clone_from(&labels);
            header.labels.insert("pid".to_owned(), jvm.identity.pid.to_string());
            shared.push(&header, &decoded.profile);
        }
    }
    Ok(())
}

/// The profiles of a recording, decoded by a child process.
fn profiles(shared: &Shared, process: Identity, recording: &Recording) -> Result<Vec<decoder::Decoded>> {
    let bytes = match &recording.content {
        Ok(RecordingData::Encoded(bytes)) => bytes,
        Ok(RecordingData::Decoded(..)) => bail!("its recording has no bytes"),
        Err(error) => bail!("{error}"),
    };
    let mut file = tempfile::tempfile_in(&shared.settings.spool).context("keep its recording")?;
    file.write_all(bytes).context("keep its recording")?;
    file.seek(SeekFrom::Start(0)).context("keep its recording")?;
    let facts: Vec<Fact> = recording.facts.iter().map(|(key, value)| Fact(key.clone(), value.clone())).collect();
    decoder::decode(shared, process, "recording.jfr", &facts, file)
}

#[cfg(test)]
mod tests {
    use super::full;

    #[test]
    fn a_user_leaves_places_for_the_jvms_of_others() {
        let users = |own: usize, others: usize| [vec![1000; own], vec![33; others]].concat();
        let why = |own, others| full(users(own, others).into_iter(), 1000);
        assert_eq!((why(0, 0), why(36, 13)), (None, None));
        assert_eq!(why(37, 0).as_deref(), Some("37 JVMs of its user are recorded already"));
        assert_eq!(why(20, 30).as_deref(), Some("50 JVMs are recorded already"));
    }
}
