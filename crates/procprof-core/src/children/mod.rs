//! Child processes of the server: its own executable again, to read what may be hostile or huge.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the turns of children, and the one place where a child is started |
//! | `limits.rs` | the limits, their configuration keys, and the child's side that sets them |
//! | `task.rs` | the protocol, as the child reads it |
//! | `error.rs` | why there is no answer, with the key that limits it |
//!
//! A child is started as `EXECUTABLE ARGS... TASK`. Its environment is one variable, `PROCPROF_CACHE_DIR`: the folder
//! that caches its parsed binaries for the next child (`DATA/cache`; it may be deleted at any time). It sets its limits
//! before it reads anything, takes its input from standard input, answers on standard output, and prints errors to
//! standard error. It is killed when its answer is no longer needed.

mod error;
mod limits;
mod task;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use procprof_symbolize::IndexFolder;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub use error::ChildError;
pub use limits::AnswerLimit;
pub(crate) use limits::ChildLimits;
pub use task::{ChildTask, JeprofWords, frame_length};
pub(crate) use task::{frame, split_frame};

use crate::config::Config;
use crate::shares::Requester;
use crate::turns::Turns;

/// A program to start.
#[derive(Clone, Debug)]
pub struct ChildProgram {
    /// Its executable.
    pub program: PathBuf,
    /// Its first arguments; the task comes behind them.
    pub arguments: Vec<String>,
}

/// The variable that names the folder of what was read of binaries.
const CACHE_DIR: &str = "PROCPROF_CACHE_DIR";
/// Size the indexes in it may have together, in bytes; beyond it those used longest ago make room.
const INDEXES_BYTES_MAX: u64 = 1 << 30;
/// Bytes kept of a child's standard error.
const COMPLAINT_MAX: u64 = 16 << 10;

/// A child to be run.
pub(crate) struct Child<'a, W> {
    /// The requester whose turn it is.
    pub(crate) requester: Requester,
    pub(crate) program: &'a ChildProgram,
    /// The part of its task beside the limits.
    pub(crate) work: W,
    /// Its standard input, in pieces.
    pub(crate) input: Vec<Bytes>,
    pub(crate) limits: ChildLimits,
    pub(crate) answer: AnswerLimit,
}

/// Largest answer in jeprof's grammar, in bytes.
const DRAWING_MAX: u64 = 256 << 20;
/// Children that read binaries, at a time: users and tokens have two of the slots together, one of them each.
const CHILD_SLOTS: u64 = 3;
/// Children that decode large profiles, at a time. Requesters take turns: none has more than one in the queue.
const LARGE_CHILD_SLOTS: u64 = 1;

/// Starts children, few at a time.
pub struct Children {
    /// Decodes and symbolizes.
    pub(crate) symbolize: ChildProgram,
    /// Draws in jeprof's grammar.
    jeprof: ChildProgram,
    /// The folder that keeps what they read of binaries.
    cache: PathBuf,
    turns: Turns,
    large_turns: Turns,
}

impl Children {
    /// Children of a server with this data folder.
    pub fn new(symbolize: ChildProgram, jeprof: ChildProgram, data: &Path) -> Children {
        let (turns, large_turns) = (Turns::new(CHILD_SLOTS, u64::MAX), Turns::new(LARGE_CHILD_SLOTS, u64::MAX));
        Children { symbolize, jeprof, cache: data.join("cache"), turns, large_turns }
    }

    /// The output of jeprof's grammar for heap dumps, which its words name `{0}`, `{1}`.
    ///
    /// # Errors
    /// As those of any child; jeprof's own error is in [`ChildError::Ended`].
    pub async fn jeprof(&self, words: Vec<String>, dumps: Vec<Bytes>, config: &Config) -> Result<Vec<u8>, ChildError> {
        let child = Child {
            requester: Requester::server(),
            program: &self.jeprof,
            work: JeprofWords { words },
            input: dumps.into_iter().flat_map(frame).collect(),
            limits: ChildLimits::from_config(config),
            answer: AnswerLimit { bytes: DRAWING_MAX, key: None },
        };
        self.run(child).await
    }

    /// Runs a child when it is its turn, and returns its answer.
    ///
    /// # Errors
    /// It took too long, answered too much, ended badly, or could not be started.
    pub(crate) async fn run<W: Serialize>(&self, child: Child<'_, W>) -> Result<Vec<u8>, ChildError> {
        self.run_in_turn(&self.turns, child).await
    }

    /// The same with the turns of those that take much memory.
    pub(crate) async fn run_large<W: Serialize>(&self, child: Child<'_, W>) -> Result<Vec<u8>, ChildError> {
        self.run_in_turn(&self.large_turns, child).await
    }

    async fn run_in_turn<W: Serialize>(&self, turns: &Turns, child: Child<'_, W>) -> Result<Vec<u8>, ChildError> {
        let Child { requester, program, work, input, limits, answer } = child;
        let task = serde_json::to_string(&ChildTask { limits, work }).map_err(io::Error::other)?;
        // Only as many wait as ingest lets in.
        let turn = turns.enter(&requester).map_err(|_| io::Error::other("too many children wait"))?;
        let _slot = turn.slot().await.ok_or_else(|| io::Error::other("the server is stopping"))?;
        let run = self.run_now(program, task, input, &limits, &answer);
        let answered = tokio::time::timeout(Duration::from_secs(limits.seconds), run).await;
        answered.unwrap_or(Err(ChildError::TooLong { seconds: limits.seconds }))
    }

    async fn run_now(
        &self,
        program: &ChildProgram,
        task: String,
        input: Vec<Bytes>,
        limits: &ChildLimits,
        answer_limit: &AnswerLimit,
    ) -> Result<Vec<u8>, ChildError> {
        let mut child = tokio::process::Command::new(&program.program)
            .args(&program.arguments)
            .arg(task)
            .env_clear()
            .env(CACHE_DIR, &self.cache)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(mut stderr)) = (stdin, stdout, stderr) else {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        };
        let write = async move {
            for piece in input {
                // The status of a child that ended early is more precise than the broken pipe.
                if stdin.write_all(&piece).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let (mut answer, mut complaint) = (Vec::new(), Vec::new());
        let read = async {
            stdout.take(answer_limit.bytes + 1).read_to_end(&mut answer).await?;
            let is_too_large = answer.len() as u64 > answer_limit.bytes;
            if is_too_large { Err(ChildError::TooMuch(*answer_limit)) } else { Ok(()) }
        };
        let listen = async {
            (&mut stderr).take(COMPLAINT_MAX).read_to_end(&mut complaint).await?;
            // The rest is read and dropped, so that the child does not wait for room in the pipe.
            tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
            Ok(())
        };
        tokio::try_join!(write, read, listen)?;
        let status = child.wait().await?;
        match status.success() {
            true => Ok(answer),
            false => Err(ChildError::from_end(status, String::from_utf8_lossy(&complaint).into_owned(), limits)),
        }
    }
}

/// The folder in which this process, a child of a server, keeps what it reads of binaries; `None` if the server named
/// none.
pub fn child_indexes() -> Option<IndexFolder> {
    let folder = std::env::var_os(CACHE_DIR).map(PathBuf::from)?;
    Some(IndexFolder::new(folder.join("symbols"), INDEXES_BYTES_MAX))
}
