//! Errors of attaching to a JVM and of recording it.

use std::io;
use std::time::Duration;

use procprof_process::Pid;

use crate::CollectError;

/// An error of attaching to a JVM, or of recording it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JvmError {
    /// No process fits, or several do.
    #[error("{0}")]
    NotFound(String),
    /// The process has ended, or another one has its pid now.
    #[error("process {pid} is gone")]
    Gone {
        /// The pid.
        pid: Pid,
    },
    /// It does not handle SIGQUIT, which makes a JVM listen; it would end any other program.
    #[error(
        "process {pid} does not handle SIGQUIT: it is not a JVM, has only begun to start, or runs with -Xrs and has no \
         attach socket"
    )]
    NotAJvm {
        /// The pid.
        pid: Pid,
    },
    /// The process belongs to another user.
    #[error(
        "attach refused: process {pid} runs as user {theirs}, procprof as user {own}; only the same user or root may"
    )]
    OtherUser {
        /// The pid.
        pid: Pid,
        /// User id of the process.
        theirs: u32,
        /// Our effective user id.
        own: u32,
    },
    /// It handled the signal and did not begin to listen. It is not signalled again before it restarts: each time it
    /// prints all its stacks.
    #[error(
        "attach refused: process {pid} did not begin to listen (-XX:+DisableAttachMechanism, or it hangs); not tried \
         again before it restarts"
    )]
    NotListening {
        /// The pid.
        pid: Pid,
    },
    /// It is not known to be a JVM that can be attached to, so nothing was sent to it.
    #[error("process {pid} is not attached to: {why}")]
    NotAttachable {
        /// The pid.
        pid: Pid,
        /// The reason, or the fact that is missing to know it.
        why: &'static str,
    },
    /// It answered, but wrote no perf map.
    #[error("process {pid} wrote no names of its compiled methods: {why}")]
    NoMap {
        /// The pid.
        pid: Pid,
        /// The fault of the file.
        why: &'static str,
    },
    /// A file in its folder for temporary files is not one that a JVM creates.
    #[error("process {pid}: {path}: {why}")]
    Suspicious {
        /// The pid.
        pid: Pid,
        /// The path of the file in the process.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No complete answer in time: it is stopped, or hangs.
    #[error("process {pid}: no answer to {command} within {:.0} s: it is stopped or hangs", after.as_secs_f64())]
    Timeout {
        /// The pid.
        pid: Pid,
        /// The command.
        command: String,
        /// The time limit.
        after: Duration,
    },
    /// It answered with an error.
    #[error("process {pid}: {command}: {message}")]
    Command {
        /// The pid.
        pid: Pid,
        /// The command.
        command: String,
        /// First lines of the answer.
        message: String,
    },
    /// There is no library of async-profiler that it can load.
    #[error("process {pid}: async-profiler: {why}")]
    Library {
        /// The pid.
        pid: Pid,
        /// The error of the configured one.
        why: String,
    },
    /// A session of async-profiler that is not procprof's is running; it is left alone.
    #[error("process {pid}: busy: {by} is recording")]
    Busy {
        /// The pid.
        pid: Pid,
        /// The owner of the session, as far as known.
        by: String,
    },
    /// The recording exceeds the limit.
    #[error("process {pid}: the recording has {bytes} bytes, more than {limit}")]
    TooLarge {
        /// The pid.
        pid: Pid,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The memory budget has no space for the recording at this moment.
    #[error("process {pid}: no room for the recording: {why}")]
    NoRoom {
        /// The pid.
        pid: Pid,
        /// The exhausted limit.
        why: String,
    },
    /// Its file system is too full to begin a recording.
    #[error("process {pid}: its /tmp has {} free, {} are needed", megabytes(*free), megabytes(*needed))]
    NoSpace {
        /// The pid.
        pid: Pid,
        /// What is free, in bytes.
        free: u64,
        /// What is needed, in bytes.
        needed: u64,
    },
    /// The recording is not whole: the file system of the target is full, or the JVM was ended.
    #[error("process {pid}: the recording is cut short ({why}); its file system may be full")]
    CutShort {
        /// The pid.
        pid: Pid,
        /// What is missing.
        why: String,
    },
    /// A failed system call.
    #[error("process {pid}: {doing}: {source}")]
    Io {
        /// The pid.
        pid: Pid,
        /// The operation.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl JvmError {
    /// A short name that does not change between versions.
    pub fn code(&self) -> &'static str {
        match self {
            JvmError::NotFound(_) => "jvm_not_found",
            JvmError::Gone { .. } => "jvm_gone",
            JvmError::NotAJvm { .. } => "not_a_jvm",
            JvmError::OtherUser { .. } | JvmError::NotListening { .. } | JvmError::NotAttachable { .. } => {
                "attach_refused"
            }
            JvmError::NoMap { .. } => "jvm_no_map",
            JvmError::Suspicious { .. } => "jvm_suspicious",
            JvmError::Timeout { .. } => "timeout",
            JvmError::Command { .. } => "jvm_refused",
            JvmError::Library { .. } => "jvm_library",
            JvmError::Busy { .. } => "busy",
            JvmError::TooLarge { .. } => "too_large",
            JvmError::NoRoom { .. } => "no_room",
            JvmError::NoSpace { .. } => "jvm_no_space",
            JvmError::CutShort { .. } => "jvm_cut_short",
            JvmError::Io { .. } => "jvm_io",
        }
    }

    pub(super) fn io(pid: Pid, doing: impl Into<String>, source: impl Into<io::Error>) -> JvmError {
        JvmError::Io { pid, doing: doing.into(), source: source.into() }
    }
}

/// Bytes as errors name them: `3.5 MiB`.
fn megabytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl From<JvmError> for CollectError {
    fn from(error: JvmError) -> CollectError {
        match error {
            JvmError::Busy { pid, by } => {
                CollectError::Busy { url: format!("process {pid}"), by: Some(by), until: None, message: String::new() }
            }
            error => CollectError::Engine { code: error.code(), why: error.to_string() },
        }
    }
}
