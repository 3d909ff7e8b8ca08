//! The engines that record a JVM, behind one interface: the Flight Recorder of its JDK, and async-profiler.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::chunks::without_overlap;
use super::{AsyncProfiler, Events, FlightRecorder, FlightSettings, Jvm, JvmError, RunningRecording, RunningSession};
use crate::{Admit, SourceState};

/// The profiler of a JVM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum JvmEngine {
    /// The Flight Recorder of its JDK.
    #[default]
    FlightRecorder,
    /// async-profiler: a library, or a jar with one, on this host's disk.
    AsyncProfiler(PathBuf),
}

const FLIGHT_RECORDER: &str = "JDK Flight Recorder";
const ASYNC_PROFILER: &str = "async-profiler";

impl JvmEngine {
    /// The names of engines, the default first.
    pub const WORDS: &'static [&'static str] = &["auto", "jfr", "async-profiler"];

    /// The environment variable with the default path of the library.
    pub const LIBRARY_VARIABLE: &'static str = "ASYNC_PROFILER_LIB";

    /// The engine of a name, given the configured library: `auto` is async-profiler with a library, otherwise the Flight
    /// Recorder.
    ///
    /// # Errors
    /// The word is none of [`JvmEngine::WORDS`], or async-profiler is wanted without a library.
    pub fn chosen(word: &str, library: Option<PathBuf>) -> Result<JvmEngine, String> {
        match (word, library) {
            ("jfr", _) | ("auto", None) => Ok(JvmEngine::FlightRecorder),
            ("auto" | "async-profiler", Some(library)) => Ok(JvmEngine::AsyncProfiler(library)),
            ("async-profiler", None) => Err(format!(
                "async-profiler needs its library: a path to libasyncProfiler.so or async-profiler.jar, or {} in the \
                 environment",
                JvmEngine::LIBRARY_VARIABLE
            )),
            (other, _) => Err(format!("{other:?} is no engine; expected {}", JvmEngine::WORDS.join(", "))),
        }
    }

    /// Its name without a version.
    pub(super) fn name(&self) -> &'static str {
        match self {
            JvmEngine::FlightRecorder => FLIGHT_RECORDER,
            JvmEngine::AsyncProfiler(_) => ASYNC_PROFILER,
        }
    }

    /// Prepares a JVM to be recorded by it.
    pub(super) fn open(&self, jvm: Jvm, settings: FlightSettings) -> Result<Box<dyn Recorder>, JvmError> {
        Ok(match self {
            JvmEngine::FlightRecorder => Box::new(ByFlightRecorder {
                recorder: FlightRecorder::open(jvm, settings)?,
                running: None,
                baseline: Vec::new(),
                last_chunk: None,
            }),
            JvmEngine::AsyncProfiler(library) => {
                Box::new(ByAsyncProfiler { profiler: AsyncProfiler::open(jvm, library, settings)?, running: None })
            }
        })
    }
}

/// An engine in one JVM. It makes one recording at a time.
pub(super) trait Recorder: Debug + Send {
    /// The JVM.
    fn jvm(&self) -> &Jvm;

    /// The runtime, the engine, and what is not recorded.
    fn state(&self) -> SourceState;

    /// Facts about its recordings: `engine`, and `cpu-source` if CPU is recorded.
    fn facts(&self, events: Events) -> Vec<(&'static str, String)>;

    /// Starts a recording; returns its start.
    fn begin(&mut self, events: Events, length: Duration) -> Result<Instant, JvmError>;

    /// Stops the recording, and starts the next one if `next` describes it. `admit` is called before the file is read.
    fn cut(&mut self, next: Option<(Events, Duration)>, admit: Option<&Admit>) -> Cut;

    /// Stops a recording without reading it, if there is one.
    fn discard(&mut self);
}

/// The recording up to a cut.
pub(super) struct Cut {
    /// The file.
    pub(super) bytes: Result<Vec<u8>, JvmError>,
    /// When the file ends.
    pub(super) ended: Instant,
    /// Whether the next recording has begun; `None` if none was requested.
    pub(super) next: Option<Result<(), JvmError>>,
}

fn nothing_running() -> JvmError {
    JvmError::NotFound("the recording has ended".to_owned())
}

/// The Flight Recorder: the next recording starts before the last one stops, and their overlap is kept once.
#[derive(Debug)]
struct ByFlightRecorder {
    recorder: FlightRecorder,
    running: Option<RunningRecording>,
    /// The chunk that precedes each recording after the first.
    baseline: Vec<u8>,
    /// The start of the last chunk that was returned.
    last_chunk: Option<u64>,
}

impl Recorder for ByFlightRecorder {
    fn jvm(&self) -> &Jvm {
        self.recorder.jvm()
    }

    fn state(&self) -> SourceState {
        SourceState {
            pid: Some(self.jvm().pid()),
            engine: FLIGHT_RECORDER.to_owned(),
            runtime: format!("JDK {}", self.recorder.jdk()),
            limits: self.recorder.limits(),
        }
    }

    fn facts(&self, events: Events) -> Vec<(&'static str, String)> {
        let mut facts = vec![("engine", format!("{FLIGHT_RECORDER} of JDK {}", self.recorder.jdk()))];
        facts.push(("stack-depth", self.recorder.stack_depth()));
        if events.cpu {
            facts.push(("cpu-source", self.recorder.cpu_source().to_owned()));
        }
        facts
    }

    fn begin(&mut self, events: Events, length: Duration) -> Result<Instant, JvmError> {
        self.last_chunk = None;
        let (running, baseline, since) = self.recorder.start_first(events, length)?;
        (self.running, self.baseline) = (Some(running), baseline);
        Ok(since)
    }

    fn cut(&mut self, next: Option<(Events, Duration)>, admit: Option<&Admit>) -> Cut {
        let Some(running) = self.running.take() else {
            return Cut { bytes: Err(nothing_running()), ended: Instant::now(), next: None };
        };
        let next =
            next.map(|(events, length)| self.recorder.start(events, length).map(|next| self.running = Some(next)));
        let ended = Instant::now();
        let bytes = self.recorder.stop(running, admit).map(|bytes| {
            let (bytes, last_chunk) = without_overlap(&bytes, self.last_chunk);
            self.last_chunk = last_chunk;
            [self.baseline.as_slice(), &bytes].concat()
        });
        Cut { bytes, ended, next }
    }

    fn discard(&mut self) {
        if let Some(running) = self.running.take() {
            self.recorder.discard(running);
        }
    }
}

/// async-profiler, which has one session at a time: the next one starts some tenths of a second after the last one has
/// stopped.
#[derive(Debug)]
struct ByAsyncProfiler {
    profiler: AsyncProfiler,
    running: Option<RunningSession>,
}

impl Recorder for ByAsyncProfiler {
    fn jvm(&self) -> &Jvm {
        self.profiler.jvm()
    }

    fn state(&self) -> SourceState {
        SourceState {
            pid: Some(self.jvm().pid()),
            engine: format!("{ASYNC_PROFILER} {}", self.profiler.version()),
            runtime: self.profiler.jdk().map_or_else(String::new, |jdk| format!("JDK {jdk}")),
            limits: vec!["Between two recordings there are some tenths of a second that no recording has.".to_owned()],
        }
    }

    fn facts(&self, events: Events) -> Vec<(&'static str, String)> {
        let mut facts = vec![("engine", format!("{ASYNC_PROFILER} {}", self.profiler.version()))];
        facts.push(("stack-depth", format!("{} frames", self.profiler.stack_depth())));
        if events.cpu {
            facts.push((
                "cpu-source",
                "CPU time of all threads, native code, JIT compiler and GC among them".to_owned(),
            ));
        }
        facts
    }

    fn begin(&mut self, events: Events, length: Duration) -> Result<Instant, JvmError> {
        self.running = Some(self.profiler.start(events, length)?);
        Ok(Instant::now())
    }

    fn cut(&mut self, next: Option<(Events, Duration)>, admit: Option<&Admit>) -> Cut {
        let ended = Instant::now();
        let bytes =
            self.running.take().ok_or_else(nothing_running).and_then(|running| self.profiler.stop(running, admit));
        let next = next.map(|(events, length)| self.begin(events, length).map(drop));
        Cut { bytes, ended, next }
    }

    fn discard(&mut self) {
        if let Some(running) = self.running.take() {
            self.profiler.discard(running);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_async_profiler_where_a_library_is_configured() {
        let library = || Some(PathBuf::from("/opt/async-profiler.jar"));
        let by_library = Ok(JvmEngine::AsyncProfiler("/opt/async-profiler.jar".into()));
        assert_eq!(JvmEngine::chosen("auto", None), Ok(JvmEngine::FlightRecorder));
        assert_eq!(JvmEngine::chosen("jfr", library()), Ok(JvmEngine::FlightRecorder));
        assert_eq!(
            (JvmEngine::chosen("auto", library()), JvmEngine::chosen("async-profiler", library())),
            (by_library.clone(), by_library)
        );
        assert!(JvmEngine::chosen("async-profiler", None).unwrap_err().contains("ASYNC_PROFILER_LIB"));
        assert!(JvmEngine::chosen("perf", None).unwrap_err().contains("auto, jfr, async-profiler"));
    }
}
