//! Children of the server: its own executable again, to read what may be hostile or huge.
//!
//! A child is started as `EXECUTABLE ARGS... TASK`, with an environment of one variable: `PROCPROF_CACHE_DIR`, the folder in which it keeps what it
//! read of binaries for the next one (`DATA/cache`; it may be deleted at any time). It limits its own memory and CPU time before it reads anything,
//! answers on standard output, and complains on standard error. It is killed when nobody waits for it any more.

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use procprof_symbolize::IndexFolder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::app::App;
use crate::server::ChildProgram;

/// The variable that names the folder of what was read of binaries.
const CACHE_DIR: &str = "PROCPROF_CACHE_DIR";
/// Size the indexes in it may have together, in bytes; beyond it those used longest ago make room.
const INDEXES_BYTES_MAX: u64 = 1 << 30;
/// Bytes kept of what a child complains of.
const COMPLAINT_MAX: u64 = 16 << 10;

/// A child to be run.
pub(crate) struct Child<'a> {
    pub(crate) program: &'a ChildProgram,
    /// Its last argument.
    pub(crate) task: String,
    /// Its standard input, in pieces.
    pub(crate) input: Vec<Bytes>,
    /// Most time it may take, in seconds.
    pub(crate) seconds: u64,
    /// Largest answer, in bytes.
    pub(crate) answer_max: u64,
}

/// Why a child gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error("not done after symbolize_seconds_max = {seconds} s")]
    TooLong { seconds: u64 },
    #[error("the child answered more than {bytes} bytes")]
    TooMuch { bytes: u64 },
    #[error("the child ended with {status}: {}", .complaint.lines().find(|line| !line.is_empty()).unwrap_or("no message"))]
    Ended { status: ExitStatus, complaint: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs a child when it is its turn, and gives its answer.
///
/// # Errors
/// It took too long, answered too much, ended badly, or could not be started.
pub(crate) async fn run(app: &App, child: Child<'_>) -> Result<Vec<u8>, ChildError> {
    let _turn = app.symbolizers.acquire().await.map_err(io::Error::other)?;
    let seconds = child.seconds;
    let answer = tokio::time::timeout(Duration::from_secs(seconds), answer(app, child)).await;
    answer.unwrap_or(Err(ChildError::TooLong { seconds }))
}

async fn answer(app: &App, child: Child<'_>) -> Result<Vec<u8>, ChildError> {
    let Child { program, task, input, answer_max: bytes, .. } = child;
    let mut child = tokio::process::Command::new(&program.program)
        .args(&program.arguments)
        .arg(task)
        .env_clear()
        .env(CACHE_DIR, app.data.join("cache"))
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
            // A child that ended early is told by its status, not by the broken pipe.
            if stdin.write_all(&piece).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let (mut answer, mut complaint) = (Vec::new(), Vec::new());
    let read = async {
        stdout.take(bytes + 1).read_to_end(&mut answer).await?;
        if answer.len() as u64 > bytes { Err(ChildError::TooMuch { bytes }) } else { Ok(()) }
    };
    let listen = async {
        (&mut stderr).take(COMPLAINT_MAX).read_to_end(&mut complaint).await?;
        // The rest is let go of, so that the child does not wait for someone to hear it.
        tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
        Ok(())
    };
    tokio::try_join!(write, read, listen)?;
    let status = child.wait().await?;
    match status.success() {
        true => Ok(answer),
        false => Err(ChildError::Ended { status, complaint: String::from_utf8_lossy(&complaint).into_owned() }),
    }
}

/// Where this process, a child of a server, keeps what it reads of binaries; `None` unless the server has said where.
pub fn child_indexes() -> Option<IndexFolder> {
    let folder = std::env::var_os(CACHE_DIR).map(PathBuf::from)?;
    Some(IndexFolder::new(folder.join("symbols"), INDEXES_BYTES_MAX))
}
