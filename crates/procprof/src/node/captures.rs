//! Captures that users ask for: recordings of their own beside the continuous one.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail, ensure};
use procprof_host::{Engine, Filter, Measure, Options, Recorder, Target};
use procprof_profile::format::pprof;

use super::shared::{Shared, nanos_since_1970, thread_nanos};

/// Captures at a time; more fail at once.
const CAPTURES_MAX: usize = 4;
/// Longest capture, in seconds.
const SECONDS_MAX: u32 = 3600;
/// Ids that are remembered, so that a command that is repeated is executed once.
const REMEMBERED: usize = 1000;
/// Bytes of a buffer, so that several captures fit into the memory that may be locked.
const BUFFER_BYTES: usize = 512 << 10;
/// Longest time between two looks at the buffers.
const LOOK: Duration = Duration::from_millis(200);

/// The request for a capture.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) capture: String,
    pub(super) service: Option<String>,
    pub(super) profile_type: String,
    pub(super) seconds: u32,
    pub(super) hz: Option<u32>,
}

/// The captures that run, and the ids of those before.
#[derive(Debug, Default)]
pub(super) struct Captures {
    running: Arc<Mutex<HashMap<String, Arc<AtomicBool>>>>,
    seen: VecDeque<String>,
}

impl Captures {
    /// Begins a capture; its profile, or why there is none, goes to the spool.
    pub(super) fn begin(&mut self, shared: &Arc<Shared>, wanted: Wanted) {
        if self.seen.contains(&wanted.capture) {
            return;
        }
        self.seen.push_back(wanted.capture.clone());
        if self.seen.len() > REMEMBERED {
            self.seen.pop_front();
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            if running.len() >= CAPTURES_MAX {
                return fail(shared, &wanted, format!("{CAPTURES_MAX} captures of this host are running"));
            }
            running.insert(wanted.capture.clone(), Arc::clone(&cancelled));
        }
        let (running, shared) = (Arc::clone(&self.running), Arc::clone(shared));
        let capture = wanted.clone();
        let others = Arc::clone(&shared);
        let work = move || {
            if let Err(error) = record(&shared, &wanted, &cancelled) {
                fail(&shared, &wanted, format!("{error:#}"));
            }
            shared.counters.capture_nanos.fetch_add(thread_nanos(), Ordering::Relaxed);
            running.lock().unwrap_or_else(PoisonError::into_inner).remove(&wanted.capture);
        };
        if let Err(error) = std::thread::Builder::new().name("capture".to_owned()).spawn(work) {
            self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&capture.capture);
            fail(&others, &capture, format!("start a thread: {error}"));
        }
    }

    /// Ends a capture early; it fails.
    pub(super) fn cancel(&self, capture: &str) {
        if let Some(cancelled) = self.running.lock().unwrap_or_else(PoisonError::into_inner).get(capture) {
            cancelled.store(true, Ordering::Relaxed);
        }
    }
}

fn fail(shared: &Shared, wanted: &Wanted, why: String) {
    let mut header = shared.header(&wanted.profile_type, wanted.service.clone());
    header.capture = Some(wanted.capture.clone());
    header.start_nanos = nanos_since_1970(SystemTime::now());
    header.failure = Some(why);
    shared.push(&header, &[]);
}

fn record(shared: &Shared, wanted: &Wanted, cancelled: &AtomicBool) -> Result<()> {
    let measure = match &*wanted.profile_type {
        "cpu" => Measure::Cpu,
        "off_cpu" => Measure::OffCpu,
        "wall" => Measure::Wall,
        other => bail!("a host agent records no profiles of type {other}"),
    };
    ensure!((1..=SECONDS_MAX).contains(&wanted.seconds), "a capture takes 1 to {SECONDS_MAX} seconds");
    let options = Options {
        measure,
        engine: Engine::Perf,
        hz: wanted.hz.unwrap_or(shared.settings.hz),
        buffer_bytes: BUFFER_BYTES,
        filter: Filter { service: wanted.service.clone(), ..Filter::default() },
        ..Options::default()
    };
    let mut recorder = Recorder::attach(Target::Host, &options)?;
    let length = Duration::from_secs(wanted.seconds.into());
    let begun = Instant::now();
    while begun.elapsed() < length {
        ensure!(!shared.is_stopping(), "the agent stops");
        ensure!(!cancelled.load(Ordering::Relaxed), "it was cancelled");
        recorder.poll(LOOK.min(length.saturating_sub(begun.elapsed())))?;
    }
    let mut cut = recorder.cut();
    drop(recorder);
    shared.name_own(&mut cut);
    let subject = wanted
        .service
        .as_ref()
        .map_or_else(|| "all processes of the host".to_owned(), |name| format!("service {name}"));
    let Some(profile) = cut.profile(|_, _, _| true, &subject)? else {
        bail!("there is no sample: {subject} used less than {} ms of CPU time", 1000 / options.hz.max(1));
    };
    let mut header = shared.header(&wanted.profile_type, wanted.service.clone());
    header.capture = Some(wanted.capture.clone());
    header.start_nanos = nanos_since_1970(cut.started);
    header.duration_nanos = i64::try_from(cut.duration.as_nanos()).unwrap_or(i64::MAX);
    shared.push(&header, &pprof::encode_gzip(&profile)?);
    Ok(())
}
