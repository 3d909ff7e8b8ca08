//! A JVM as a source of recordings.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use procprof_process::Pid;
use procprof_profile::{Nanos, ProfileType};

use super::engine::Recorder;
use super::{Events, FlightSettings, Jvm, JvmEngine, JvmError, JvmTarget};
use crate::clock::now;
use crate::{
    Admit, CollectError, ContinuousRecording, Instance, MAX_SECONDS, Pending, Progress, Recording, RecordingData,
    Recordings, Request, Result, Source, SourceState, Watch,
};

/// The JVM, and how it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JvmOptions {
    /// The JVM.
    pub target: JvmTarget,
    /// Its profiler.
    pub engine: JvmEngine,
    /// Parameters of recordings.
    pub settings: FlightSettings,
}

/// Records a JVM of this host by its own Flight Recorder, or by async-profiler.
#[derive(Debug)]
pub struct JvmSource(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: JvmOptions,
    /// The recorder of the last recording, while it is not in use.
    idle: Mutex<Option<Box<dyn Recorder>>>,
    /// The facts found by the last attempt to record.
    state: Mutex<SourceState>,
}

impl JvmSource {
    /// A source for that JVM, which need not run yet.
    pub fn new(options: JvmOptions) -> JvmSource {
        let state = SourceState { engine: options.engine.name().to_owned(), ..SourceState::default() };
        JvmSource(Arc::new(Shared { options, idle: Mutex::new(None), state: Mutex::new(state) }))
    }
}

impl JvmSource {
    /// Begins a recording that ends by itself half a minute after `length`, if it is not finished before.
    ///
    /// # Errors
    /// As those of [`Source::record`].
    pub async fn begin_single(&self, request: &Request, length: Duration) -> Result<SingleRecording> {
        let at_work = AtWork::start(&self.0, events(request)?, length).await?;
        Ok(SingleRecording { at_work, first: request.profile_type.clone() })
    }
}

/// A recording of its own, which no other follows. When dropped, it is stopped in the background.
pub struct SingleRecording {
    at_work: AtWork,
    first: ProfileType,
}

impl SingleRecording {
    /// Stops and reads it. Of a JVM that has ended, it has what the JVM has written.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn finish(self) -> Result<Recordings> {
        Ok(self.at_work.cut(self.first, false, None).await?.0)
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Option<Box<dyn Recorder>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, SourceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A recorder that records, and the start of its recording.
    fn begun(&self, events: Events, length: Duration) -> std::result::Result<(Box<dyn Recorder>, Instant), JvmError> {
        let begun =
            self.recorder().and_then(|mut recorder| recorder.begin(events, length).map(|since| (recorder, since)));
        *self.state() = match &begun {
            Ok((recorder, _)) => recorder.state(),
            Err(error) => SourceState {
                pid: self.options.target.find().ok(),
                engine: self.options.engine.name().to_owned(),
                runtime: String::new(),
                limits: vec![format!("Not recorded: {error}.")],
            },
        };
        begun
    }

    /// A recorder of the process that the target names at this moment.
    fn recorder(&self) -> std::result::Result<Box<dyn Recorder>, JvmError> {
        let jvm = Jvm::open(self.options.target.find()?)?;
        let kept = self.idle().take();
        match kept {
            Some(recorder) if recorder.jvm().identity().is_same(&jvm.identity()) => Ok(recorder),
            _ => self.options.engine.open(jvm, self.options.settings.clone()),
        }
    }
}

/// A recorder in use. When dropped, it stops its recording in the background.
struct AtWork {
    shared: Arc<Shared>,
    events: Events,
    length: Duration,
    recorder: Option<Box<dyn Recorder>>,
    started: Nanos,
    since: Instant,
}

impl AtWork {
    async fn start(shared: &Arc<Shared>, events: Events, length: Duration) -> Result<AtWork> {
        let shared = Arc::clone(shared);
        blocking(move || {
            let (recorder, since) = shared.begun(events, length)?;
            let started = Nanos(now().0.saturating_sub(nanos(since.elapsed())));
            Ok(AtWork { shared, events, length, recorder: Some(recorder), started, since })
        })
        .await
    }

    /// The recording since the start or the last cut; with `goes_on`, the next one starts.
    async fn cut(
        mut self,
        first: ProfileType,
        goes_on: bool,
        admit: Option<Admit>,
    ) -> Result<(Recordings, Option<AtWork>)> {
        blocking(move || {
            let Some(mut recorder) = self.recorder.take() else {
                return Err(JvmError::NotFound("the recording has ended".to_owned()));
            };
            let cut = recorder.cut(goes_on.then_some((self.events, self.length)), admit.as_ref());
            let (started, length) = (self.started, cut.ended.saturating_duration_since(self.since));
            (self.started, self.since) = (now(), Instant::now());
            let facts = recorder.facts(self.events);
            let identity = recorder.jvm().identity();
            match cut.next {
                Some(Ok(())) => self.recorder = Some(recorder),
                None => *self.shared.idle() = Some(recorder),
                // The recording is returned rather than the error, which the next start will repeat.
                Some(Err(error)) if cut.bytes.is_err() => return Err(error),
                Some(Err(_)) => {}
            }
            let mut recording = Recording::new(
                first,
                Ok(RecordingData::Encoded(Bytes::from(cut.bytes?))),
                started,
                Nanos(nanos(length)),
            );
            recording.facts.extend(facts.into_iter().map(|(key, value)| (key.to_owned(), value)));
            let origin = format!("JVM {}", identity.pid);
            let instance = Instance { local: Some(identity), ..Instance::default() };
            let going = self.recorder.is_some();
            Ok((Recordings { recordings: vec![recording], origin, instance }, going.then_some(self)))
        })
        .await
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if let Some(mut recorder) = self.recorder.take() {
            let (shared, discard) = (Arc::clone(&self.shared), Discard::begin(recorder.jvm().pid()));
            // Without a thread the recording ends by itself.
            let _ = std::thread::Builder::new().name("jvm-discard".to_owned()).spawn(move || {
                recorder.discard();
                *shared.idle() = Some(recorder);
                // If nobody else has it, this removes the folder in the JVM's `/tmp`.
                drop(shared);
                drop(discard);
            });
        }
    }
}

/// JVMs whose recordings are stopped in the background.
static DISCARDS: (Mutex<Vec<Pid>>, Condvar) = (Mutex::new(Vec::new()), Condvar::new());

/// A recording of a JVM that is stopped in the background.
struct Discard(Pid);

impl Discard {
    fn begin(pid: Pid) -> Discard {
        DISCARDS.0.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
        Discard(pid)
    }
}

impl Drop for Discard {
    fn drop(&mut self) {
        let mut discards = DISCARDS.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = discards.iter().position(|pid| *pid == self.0) {
            discards.swap_remove(place);
        }
        DISCARDS.1.notify_all();
    }
}

/// Waits until recordings that were dropped are stopped in their JVMs, which happens in the background. A program that
/// ends before leaves them: such a recording ends by itself, and its folder stays until the JVM is recorded again.
/// Returns the JVMs that did not stop theirs in that time.
pub fn wait_for_discards(patience: Duration) -> Vec<Pid> {
    let discards = DISCARDS.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = DISCARDS.1.wait_timeout_while(discards, patience, |discards| !discards.is_empty());
    waited.unwrap_or_else(PoisonError::into_inner).0.clone()
}

fn nanos(length: Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}

/// Runs blocking work outside the threads of the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::result::Result<T, JvmError> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(CollectError::Engine { code: "jvm_failed", why: format!("recording a JVM: {error}") }),
    }
}

/// The events of a request.
fn events(request: &Request) -> Result<Events> {
    let mut events = Events { cpu: false, alloc: false, lock: false };
    for profile_type in request.types() {
        match profile_type {
            ProfileType::Cpu => events.cpu = true,
            ProfileType::Alloc => events.alloc = true,
            ProfileType::Contention => events.lock = true,
            other => return Err(CollectError::Unsupported { kind: "jvm", profile_type: other.clone() }),
        }
    }
    Ok(events)
}

impl Source for JvmSource {
    fn record<'a>(&'a self, request: &'a Request, watch: &'a Watch) -> Pending<'a, Recordings> {
        Box::pin(async move {
            let events = events(request)?;
            let unfit = |why: String| CollectError::Request { profile_type: request.profile_type.clone(), why };
            let seconds = request.seconds.filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
            let seconds = seconds.ok_or_else(|| unfit(format!("a JVM is recorded for 1 to {MAX_SECONDS} seconds")))?;
            let length = Duration::from_secs(u64::from(seconds));
            let cancelled = || CollectError::Cancelled { url: "JVM".to_owned() };
            let at_work = tokio::select! {
                () = watch.cancel.cancelled() => return Err(cancelled()),
                at_work = AtWork::start(&self.0, events, length) => at_work?,
            };
            watch.report(Progress::Sampling { seconds });
            tokio::select! {
                () = watch.cancel.cancelled() => return Err(cancelled()),
                () = tokio::time::sleep(length) => {}
            }
            let (answer, _) = at_work.cut(request.profile_type.clone(), false, watch.admit.clone()).await?;
            watch.report(Progress::Checking);
            Ok(answer)
        })
    }

    fn state(&self) -> Option<SourceState> {
        Some(self.0.state().clone())
    }

    fn begin<'a>(&'a self, request: &'a Request, _by: &'a str) -> Pending<'a, Box<dyn ContinuousRecording>> {
        Box::pin(async move {
            // Cut later than this, a recording has ended by itself some time before.
            let length =
                Duration::from_secs(u64::from(request.seconds.filter(|seconds| *seconds > 0).unwrap_or(600)) * 2);
            let at_work = AtWork::start(&self.0, events(request)?, length).await?;
            let session: Box<dyn ContinuousRecording> =
                Box::new(JvmSession { at_work: Some(at_work), first: request.profile_type.clone() });
            Ok(session)
        })
    }
}

/// A continuous recording: one recording after the other.
struct JvmSession {
    at_work: Option<AtWork>,
    first: ProfileType,
}

impl ContinuousRecording for JvmSession {
    fn cut(&mut self) -> Pending<'_, Recordings> {
        Box::pin(async move {
            let ended = || CollectError::Engine {
                code: "jvm_ended",
                why: "the recording ended with an error before".to_owned(),
            };
            let at_work = self.at_work.take().ok_or_else(ended)?;
            let (answer, next) = at_work.cut(self.first.clone(), true, None).await?;
            self.at_work = next;
            Ok(answer)
        })
    }
}
