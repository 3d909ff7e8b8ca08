//! async-profiler, loaded into a JVM and controlled from outside: one session of CPU, allocations and waits. A session
//! that is not stopped ends by itself.
//!
//! The library is the user's: a file or a jar on this host's disk. It is copied into a private folder of the target's
//! `/tmp` and loaded from there. If the JVM has loaded one already, by itself or for an earlier recording, that one
//! is used: two of them in one process would take each other's signals. A session of another tool is never stopped; one
//! that an earlier procprof left behind is.

mod command;
mod library;
mod session;

use std::path::Path;
use std::time::Duration;

use self::command::{State, Version};
use super::attach::Jvm;
use super::chunks::{check_whole, without_overlap};
use super::folder::{FolderName, PrivateFolder, TemporaryFolder};
use super::{Events, FlightSettings, JvmError};
use crate::Admit;

/// Time limit of a query; the first one loads the library.
const ASKING: Duration = Duration::from_secs(30);
/// The first start of a JVM's life prepares its classes.
const STARTING: Duration = Duration::from_secs(60);
const STOPPING: Duration = Duration::from_secs(30);

/// Time after its length at which a recording that is not stopped ends by itself.
const GRACE: Duration = Duration::from_secs(30);

/// Longest log and longest answer of one command, in bytes.
const TEXT_MAX: u64 = 256 << 10;

const LIBRARY: &str = "libasyncProfiler.so";
const LOG: &str = "command.log";
const ANSWER: &str = "answer.txt";

/// async-profiler in a JVM. It records into a folder of the JVM's `/tmp`, which is removed when this is dropped.
#[derive(Debug)]
pub struct AsyncProfiler {
    jvm: Jvm,
    /// Version of its JDK, if the JVM reports it.
    jdk: Option<String>,
    /// Its path, as the JVM names it.
    library: String,
    version: Version,
    settings: FlightSettings,
    folder: PrivateFolder,
    /// Folders that an earlier procprof left behind, until the sessions that record into them are stopped.
    left_behind: Vec<PrivateFolder>,
    recordings: u32,
}

/// A running session. If it is dropped, it runs until half a minute after its length.
#[derive(Debug)]
pub struct RunningSession {
    file: String,
}

impl AsyncProfiler {
    /// Loads the library at `path` (a file, or a jar with one) into the JVM, unless it has one already, and queries its
    /// version.
    ///
    /// # Errors
    /// The JVM does not answer; [`JvmError::Library`] if it cannot load the library; [`JvmError::Busy`] if a session of
    /// another tool is running.
    pub fn open(jvm: Jvm, path: &Path, settings: FlightSettings) -> Result<AsyncProfiler, JvmError> {
        let pid = jvm.pid();
        let (uid, gid) = jvm.owner();
        let temporary = TemporaryFolder::open(pid)?;
        let (left_behind, folder) = (temporary.left_behind(uid), temporary.private(uid, gid)?);
        let (library, version) = (String::new(), Version::OLDEST);
        let jdk = jvm.command("VM.version", ASKING).ok().and_then(|text| Some(super::answer::version(&text)?.0));
        let profiler = AsyncProfiler { jvm, jdk, library, version, settings, folder, left_behind, recordings: 0 };
        let loaded = session::loaded(profiler.jvm.process()).map_err(|error| match error {
            error if error.is_gone() => JvmError::Gone { pid },
            error => JvmError::io(pid, "read its maps", std::io::Error::other(error)),
        })?;
        let mut found = None;
        for library in loaded {
            match profiler.version_of(&library) {
                Ok(version) => {
                    profiler.make_free(&library)?;
                    found = found.max(Some((version, library)));
                }
                // A copy made for an earlier recording, which the JVM cannot find by its name any more: that recording
                // has ended.
                Err(JvmError::Command { .. }) if is_own_copy(&library) && session::own_recording(pid).is_none() => {}
                Err(error) => return Err(error),
            }
        }
        let (version, library) = match found.filter(|(version, _)| *version >= Version::OLDEST) {
            Some(found) => found,
            None => profiler.copied(path)?,
        };
        Ok(AsyncProfiler { library, version, left_behind: Vec::new(), ..profiler })
    }

    /// The JVM.
    pub fn jvm(&self) -> &Jvm {
        &self.jvm
    }

    /// Most frames that it keeps of a stack.
    pub(super) fn stack_depth(&self) -> u32 {
        self.settings.stack_depth.clamp(1, command::STACK_DEPTH_MAX)
    }

    /// Version of its JDK: `17.0.15`; `None` if the JVM does not report it.
    pub fn jdk(&self) -> Option<&str> {
        self.jdk.as_deref()
    }

    /// Version of the library: `4.5`.
    pub fn version(&self) -> String {
        self.version.to_string()
    }

    /// Copies the library into the private folder, and queries its version.
    fn copied(&self, path: &Path) -> Result<(Version, String), JvmError> {
        let pid = self.jvm.pid();
        let unfit = |why: String| JvmError::Library { pid, why };
        let bytes = library::read(path).map_err(unfit)?;
        if self.folder.forbids_programs()? {
            return Err(unfit("/tmp is mounted noexec there: no library can be loaded from it".to_owned()));
        }
        let (uid, gid) = self.jvm.owner();
        self.folder.remove(LIBRARY);
        self.folder.put(LIBRARY, &bytes, uid, gid)?;
        let library = format!("{}/{LIBRARY}", self.folder.path);
        let version = self.version_of(&library)?;
        if version < Version::OLDEST {
            return Err(unfit(format!(
                "{}: async-profiler {version}; {} or later is needed: earlier ones may end a JVM while they walk its \
                 stacks",
                path.display(),
                Version::OLDEST
            )));
        }
        Ok((version, library))
    }

    /// Starts a recording of these events, to be stopped after `length`.
    ///
    /// # Errors
    /// As [`Jvm::load_agent`]; [`JvmError::Busy`] if a session of another tool is running.
    pub fn start(&mut self, events: Events, length: Duration) -> Result<RunningSession, JvmError> {
        // The file is written during the recording; `stop` limits what is read of it.
        self.folder.room(self.settings.bytes_max)?;
        self.make_free(&self.library)?;
        self.recordings += 1;
        let file = session::file_name(self.recordings);
        let path = format!("{}/{file}", self.folder.path);
        let options = command::start(self.version, events, &self.settings, length.saturating_add(GRACE), &path);
        let log = self.run(&self.library, &options, STARTING)?;
        match command::error(&log) {
            None => Ok(RunningSession { file }),
            // Another tool has started one meanwhile.
            Some(_) if command::was_running(&log) => Err(self.busy(None)),
            Some(error) => Err(self.refused("start", error)),
        }
    }

    /// Stops a recording and returns its file, which has complete chunks. `admit` is called before it is read. Of a JVM
    /// that has exited, these are the chunks that it has written.
    ///
    /// # Errors
    /// As [`Jvm::load_agent`]; [`JvmError::CutShort`] where the file is not whole, [`JvmError::TooLarge`],
    /// [`JvmError::NoRoom`], [`JvmError::Suspicious`].
    pub fn stop(&mut self, session: RunningSession, admit: Option<&Admit>) -> Result<Vec<u8>, JvmError> {
        let pid = self.jvm.pid();
        let RunningSession { file } = session;
        let answered = self.run(&self.library, &command::stop(&format!("{}/{file}", self.folder.path)), STOPPING);
        let taken = self.folder.take(&file, self.settings.bytes_max.saturating_mul(2), admit);
        let log = match answered {
            // A JVM that exits ends the session, and the file is written.
            Err(error) if self.jvm.has_ended() => {
                let (chunks, _) = without_overlap(&taken.unwrap_or_default(), None);
                return if chunks.is_empty() { Err(error) } else { Ok(chunks) };
            }
            answered => answered?,
        };
        let cut_short = |why: String| JvmError::CutShort { pid, why };
        match command::error(&log) {
            // It ended by itself, and wrote its file then.
            Some(_) if command::was_idle(&log) => {}
            Some(error) => return Err(self.refused("stop", error)),
            None if command::is_incomplete(&log) => {
                return Err(cut_short("async-profiler could not write all of it".to_owned()));
            }
            None => {}
        }
        let bytes = taken?;
        check_whole(&bytes).map_err(cut_short)?;
        Ok(bytes)
    }

    /// Stops a recording without reading it.
    pub fn discard(&mut self, session: RunningSession) {
        // If this fails, the recording ends by itself.
        let _ = self.run(&self.library, &command::stop(&format!("{}/{}", self.folder.path, session.file)), STOPPING);
        self.folder.remove(&session.file);
    }

    /// Stops a session that an earlier procprof left behind.
    ///
    /// # Errors
    /// [`JvmError::Busy`] if the session is of another tool.
    fn make_free(&self, library: &str) -> Result<(), JvmError> {
        let text = self.answer_of(library, "status")?;
        let seconds = match State::read(&text) {
            Some(State::Idle) => return Ok(()),
            Some(State::Running(seconds)) => seconds,
            None => return Err(self.refused("status", &super::answer::shortened(&text))),
        };
        let left_behind = session::own_recording(self.jvm.pid()).filter(|recording| self.is_left_behind(recording));
        let Some(recording) = left_behind else { return Err(self.busy(Some(seconds))) };
        let log = self.run(library, &command::stop(&recording.path), STOPPING)?;
        match command::error(&log) {
            Some(error) if !command::was_idle(&log) => Err(self.refused("stop", error)),
            _ => Ok(()),
        }
    }

    /// Whether a recording will not be stopped otherwise: stopping it failed before, or the procprof that started it has
    /// ended.
    fn is_left_behind(&self, recording: &session::OwnRecording) -> bool {
        let is_in = |folder: &PrivateFolder| folder.name == recording.folder;
        is_in(&self.folder) || self.left_behind.iter().any(is_in) || recording.is_removed && !recording.has_live_maker()
    }

    /// The error of a JVM with a session of another tool.
    fn busy(&self, seconds: Option<u64>) -> JvmError {
        let pid = self.jvm.pid();
        let by = match session::own_recording(pid) {
            Some(recording) if recording.begun.maker.0 == std::process::id() => {
                "another recording of this procprof".to_owned()
            }
            Some(recording) => format!("procprof with pid {}", recording.begun.maker),
            None => "an async-profiler session of the process itself or of another tool".to_owned(),
        };
        let since = seconds.map_or_else(String::new, |seconds| format!(" (begun {seconds} s ago)"));
        JvmError::Busy { pid, by: format!("{by}{since}") }
    }

    fn version_of(&self, library: &str) -> Result<Version, JvmError> {
        let text = self.answer_of(library, "version")?;
        Version::read(&text).ok_or_else(|| self.refused("version", &super::answer::shortened(&text)))
    }

    /// The answer to a query, which the library writes to a file.
    fn answer_of(&self, library: &str, question: &str) -> Result<String, JvmError> {
        self.folder.remove(ANSWER);
        let log = self.run(library, &format!("{question},file={}/{ANSWER}", self.folder.path), ASKING)?;
        if let Some(error) = command::error(&log) {
            return Err(self.refused(question, error));
        }
        let bytes = self.folder.take(ANSWER, TEXT_MAX, None)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs the library with options, and returns its log; the caller handles errors in it.
    fn run(&self, library: &str, options: &str, timeout: Duration) -> Result<String, JvmError> {
        self.folder.remove(LOG);
        let loaded = self.jvm.load_agent(library, &format!("{options},log={}/{LOG}", self.folder.path), timeout);
        let log = match self.folder.take(LOG, TEXT_MAX, None) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            // A library that was not loaded wrote none.
            Err(JvmError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        match loaded {
            Ok(()) => Ok(log),
            Err(JvmError::Command { .. }) if command::error(&log).is_some() => Ok(log),
            Err(JvmError::Command { pid, message, .. }) => {
                let command = format!("load {library} ({})", options.split(',').next().unwrap_or_default());
                Err(JvmError::Command { pid, command, message })
            }
            Err(error) => Err(error),
        }
    }

    fn refused(&self, command: &str, message: &str) -> JvmError {
        let command = format!("async-profiler {command}");
        JvmError::Command { pid: self.jvm.pid(), command, message: super::answer::shortened(message) }
    }
}

/// Whether a library is, or was, in a folder that procprof made.
fn is_own_copy(library: &str) -> bool {
    let folder = Path::new(library).parent().and_then(Path::file_name).and_then(|name| name.to_str());
    folder.and_then(FolderName::read).is_some()
}
