//! The JDK's Flight Recorder, controlled from outside. A recording that is not stopped ends by itself.

use std::time::{Duration, Instant};

use procprof_profile::Nanos;
use procprof_profile::format::jfr::BASELINE;

use super::attach::Jvm;
use super::chunks::{check_whole, chunks, without_overlap};
use super::folder::{PrivateFolder, TemporaryFolder};
use super::repository::Repository;
use super::settings::{self, Events, FlightSettings, Rows};
use super::{JvmError, answer};
use crate::Admit;
use crate::clock::now;

/// Time limit of a command that needs no work.
const ASKING: Duration = Duration::from_secs(10);
/// The first start of a JVM's life prepares its classes: a second on an idle machine, more than ten on a busy one.
const STARTING: Duration = Duration::from_secs(60);
const STOPPING: Duration = Duration::from_secs(30);

/// How long a JVM may take from listening to knowing the recorder's commands.
const REGISTERING: Duration = Duration::from_secs(10);

/// Time after its length at which a recording that is not stopped ends by itself.
const GRACE: Duration = Duration::from_secs(30);

/// Deepest stack that a JVM keeps.
const STACK_DEPTH_MAX: u32 = 2048;

/// The file of settings for versions that need one.
const SETTINGS_FILE: &str = "procprof.jfc";

/// The Flight Recorder of a JVM. It records into a folder of the JVM's `/tmp`, which is removed when this is dropped.
#[derive(Debug)]
pub struct FlightRecorder {
    jvm: Jvm,
    jdk: String,
    version: u32,
    settings: FlightSettings,
    folder: PrivateFolder,
    /// The folder in which the JVM keeps what it records; known once a recording has begun.
    repository: Option<Repository>,
    recordings: u32,
}

/// A running recording. If it is dropped, it runs until half a minute after its length.
#[derive(Debug)]
pub struct RunningRecording {
    number: u32,
    file: String,
    /// A time before it began.
    since: Nanos,
}

impl FlightRecorder {
    /// Queries the JVM's version and creates the folder.
    ///
    /// # Errors
    /// The JVM does not answer, or the folder cannot be created.
    pub fn open(jvm: Jvm, settings: FlightSettings) -> Result<FlightRecorder, JvmError> {
        let text = jvm.command("VM.version", ASKING)?;
        let (jdk, version) = answer::version(&text).ok_or_else(|| JvmError::Command {
            pid: jvm.pid(),
            command: "VM.version".to_owned(),
            message: format!("no version of a JDK in {:?}", answer::shortened(&text)),
        })?;
        let (uid, gid) = jvm.owner();
        let temporary = TemporaryFolder::open(jvm.pid())?;
        end_left_behind(&jvm, temporary.left_behind(uid));
        let folder = temporary.private(uid, gid)?;
        // Takes effect only before the JVM's first recording; later it has no effect, with the same answer.
        let depth = format!("JFR.configure stackdepth={}", settings.stack_depth.clamp(1, STACK_DEPTH_MAX));
        let text = configured(&jvm, &depth)?;
        if text.contains("jdk.jfr not found") {
            let (command, message) = ("JFR.configure".to_owned(), answer::shortened(&text));
            return Err(JvmError::Command { pid: jvm.pid(), command, message });
        }
        Ok(FlightRecorder { jvm, jdk, version, settings, folder, repository: None, recordings: 0 })
    }

    /// The JVM.
    pub fn jvm(&self) -> &Jvm {
        &self.jvm
    }

    /// Version of its JDK: `17.0.15`.
    pub fn jdk(&self) -> &str {
        &self.jdk
    }

    /// The meaning of a CPU sample of this JVM.
    pub fn cpu_source(&self) -> &'static str {
        match self.version {
            25.. => "jdk.CPUTimeSample: CPU time of Java threads",
            _ => {
                "jdk.ExecutionSample: threads seen running Java code, not CPU time; native code, JIT compiler and GC \
                 are not seen"
            }
        }
    }

    /// The parts that are not recorded, with the reason: a sentence each.
    pub(super) fn limits(&self) -> Vec<String> {
        let cpu = match self.version {
            25.. => {
                "CPU: Java threads only; JIT compiler and garbage collector are not sampled (async-profiler samples \
                 them)."
            }
            _ => {
                "CPU: samples of threads that run Java code, not CPU time, without native code, JIT compiler and garbage collector: this \
                 needs JDK 25 or async-profiler."
            }
        };
        vec![
            cpu.to_owned(),
            format!("Stacks: {}; profiles have the number of stacks that were cut.", self.stack_depth()),
        ]
    }

    /// The number of frames that it keeps of a stack, as far as that can be known: a JVM that ignores the setting gives
    /// the same answer.
    pub(super) fn stack_depth(&self) -> String {
        let depth = self.settings.stack_depth.clamp(1, STACK_DEPTH_MAX);
        format!("{depth} frames if nothing had recorded this JVM before procprof, else 64")
    }

    /// Starts a recording of these events, to be stopped after `length`.
    ///
    /// # Errors
    /// As [`Jvm::command`]; [`JvmError::Command`] where the JVM has no Flight Recorder.
    pub fn start(&mut self, events: Events, length: Duration) -> Result<RunningRecording, JvmError> {
        self.start_named("", &settings::rows(self.version, events, &self.settings), length)
    }

    /// The same where no recording of ours is going on. It also returns the chunk that the bytes of this recording and
    /// of those that follow it without a gap are to begin with, so that they are read without what threads had
    /// allocated before; and when the recording began.
    ///
    /// # Errors
    /// As [`FlightRecorder::start`] and [`FlightRecorder::stop`].
    pub fn start_first(
        &mut self,
        events: Events,
        length: Duration,
    ) -> Result<(RunningRecording, Vec<u8>, Instant), JvmError> {
        if !settings::needs_baseline(self.version, events) {
            return Ok((self.start(events, length)?, Vec::new(), Instant::now()));
        }
        let baseline = self.start_named(BASELINE, &settings::baseline(), Duration::ZERO)?;
        let started = self.start(events, length);
        let since = Instant::now();
        let baseline = self.stop(baseline, None);
        let running = started?;
        match baseline {
            // The next chunk begins with the recording.
            Ok(bytes) => {
                let first = chunks(&bytes).next().and_then(Result::ok);
                Ok((running, first.map_or_else(Vec::new, |(_, chunk)| chunk.to_vec()), since))
            }
            Err(error) => {
                self.discard(running);
                Err(error)
            }
        }
    }

    fn start_named(&mut self, suffix: &str, rows: &Rows, length: Duration) -> Result<RunningRecording, JvmError> {
        self.recordings += 1;
        let file = format!("{}.jfr", self.recordings);
        let words = if settings::are_inline(self.version) {
            settings::inline(rows)
        } else {
            self.folder.remove(SETTINGS_FILE);
            let (uid, gid) = self.jvm.owner();
            self.folder.put(SETTINGS_FILE, settings::document(rows).as_bytes(), uid, gid)?;
            format!("settings={}/{SETTINGS_FILE}", self.folder.path)
        };
        // By the folder's name, a later procprof recognizes the recording as its own.
        let line = format!(
            "JFR.start name={}{suffix} maxsize={}M duration={}s filename={}/{file} {words}",
            self.folder.name,
            (self.folder.room(self.settings.bytes_max)? >> 20).max(1),
            (length + GRACE).as_secs(),
            self.folder.path,
        );
        let since = now();
        let text = self.jvm.command(&line, STARTING)?;
        let number = answer::started(&text).ok_or_else(|| self.refused("JFR.start", &text))?;
        if self.repository.is_none() {
            // Needed only where the JVM is killed.
            let configuration = self.jvm.command("JFR.configure", ASKING).unwrap_or_default();
            self.repository = Repository::open(self.jvm.pid(), &configuration);
        }
        Ok(RunningRecording { number, file, since })
    }

    /// Stops a recording and returns its file, which has complete chunks. `admit` is called before it is read. Of a JVM
    /// that has ended, these are the chunks that it has written: all, or all but the last second if it was killed.
    ///
    /// # Errors
    /// As [`Jvm::command`]; [`JvmError::CutShort`] where the file is not whole, [`JvmError::TooLarge`],
    /// [`JvmError::NoRoom`], [`JvmError::Suspicious`].
    pub fn stop(&mut self, recording: RunningRecording, admit: Option<&Admit>) -> Result<Vec<u8>, JvmError> {
        let RunningRecording { number, file, since } = recording;
        let line = format!("JFR.stop name={number} filename={}/{file}", self.folder.path);
        let answered = self.jvm.command(&line, STOPPING);
        // Twice the requested size, since only complete chunks are kept.
        let bytes_max = self.settings.bytes_max.saturating_mul(2);
        let taken = self.folder.take(&file, bytes_max, admit);
        let text = match answered {
            Err(error) if self.jvm.has_ended() => {
                let chunks = self.left(taken, since, bytes_max);
                return if chunks.is_empty() { Err(error) } else { Ok(chunks) };
            }
            answered => answered?,
        };
        match taken {
            Ok(bytes) => {
                check_whole(&bytes).map_err(|why| JvmError::CutShort { pid: self.jvm.pid(), why })?;
                Ok(bytes)
            }
            Err(JvmError::Io { .. }) if !answer::stopped(&text) => Err(self.refused("JFR.stop", &text)),
            Err(error) => Err(error),
        }
    }

    /// The complete chunks that a JVM which has ended has left of a recording.
    fn left(&self, taken: Result<Vec<u8>, JvmError>, since: Nanos, bytes_max: u64) -> Vec<u8> {
        // A JVM that exits writes its recordings to their files.
        let (chunks, _) = without_overlap(&taken.unwrap_or_default(), None);
        match &self.repository {
            Some(repository) if chunks.is_empty() => repository.chunks_since(since.0.cast_unsigned(), bytes_max),
            _ => chunks,
        }
    }

    /// Stops a recording without reading it.
    pub fn discard(&mut self, recording: RunningRecording) {
        // If this fails, the recording ends by itself.
        let _ = self.jvm.command(&format!("JFR.stop name={}", recording.number), STOPPING);
        self.folder.remove(&recording.file);
    }

    fn refused(&self, command: &str, text: &str) -> JvmError {
        JvmError::Command { pid: self.jvm.pid(), command: command.to_owned(), message: answer::shortened(text) }
    }
}

/// Stops the recordings into folders that an earlier procprof left behind, and removes these folders.
fn end_left_behind(jvm: &Jvm, folders: Vec<PrivateFolder>) {
    if folders.is_empty() {
        return;
    }
    // If this fails, the recordings end by themselves.
    let text = jvm.command("JFR.check", ASKING).unwrap_or_default();
    for (number, name) in answer::recordings(&text) {
        let name = name.strip_suffix(BASELINE).unwrap_or(name);
        if folders.iter().any(|folder| folder.name == name) {
            let _ = jvm.command(&format!("JFR.stop name={number}"), STOPPING);
        }
    }
}

/// Configures the recorder. A JVM that is just starting listens before it knows the recorder's commands.
fn configured(jvm: &Jvm, line: &str) -> Result<String, JvmError> {
    let start = Instant::now();
    loop {
        match jvm.command(line, STARTING) {
            Err(JvmError::Command { message, .. })
                if message.contains("Unknown diagnostic command") && start.elapsed() < REGISTERING =>
            {
                std::thread::sleep(Duration::from_millis(200));
            }
            answer => return answer,
        }
    }
}
