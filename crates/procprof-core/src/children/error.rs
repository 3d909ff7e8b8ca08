//! Why a child gave no answer, with the configuration key that limits it where one does.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

use super::limits::{AnswerLimit, ChildLimits, MEMORY_KEY, SECONDS_KEY};

/// Why a child gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It took longer than it may.
    #[error("not done after {SECONDS_KEY} = {seconds} s")]
    TooLong {
        /// The limit.
        seconds: u64,
    },
    /// It needs more memory than it may have.
    #[error("needs more than {MEMORY_KEY} = {}", bytes_text(*.bytes))]
    OutOfMemory {
        /// The limit.
        bytes: u64,
    },
    /// Its answer is larger than it may be.
    #[error("{}", too_much(.0))]
    TooMuch(AnswerLimit),
    /// It ended without an answer.
    #[error("the child ended with {status}: {}", first_line(.complaint))]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// Its standard error.
        complaint: String,
    },
    /// It could not be started or talked to.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Beginnings of messages about memory that the system refused: of Rust's allocator, and of the C library.
const MEMORY_MESSAGES: [&str; 2] = ["memory allocation of ", "Cannot allocate memory"];

impl ChildError {
    /// The error of a child that ended with that status and those lines on standard error.
    pub(super) fn from_end(status: ExitStatus, complaint: String, limits: &ChildLimits) -> ChildError {
        if status.signal() == Some(Signal::XCPU.as_raw()) {
            return ChildError::TooLong { seconds: limits.seconds };
        }
        match MEMORY_MESSAGES.iter().any(|message| complaint.contains(message)) {
            true => ChildError::OutOfMemory { bytes: limits.memory },
            false => ChildError::Ended { status, complaint },
        }
    }
}

fn first_line(complaint: &str) -> &str {
    complaint.lines().find(|line| !line.is_empty()).unwrap_or("no message")
}

fn too_much(limit: &AnswerLimit) -> String {
    let AnswerLimit { bytes, key } = limit;
    match key {
        Some((key, value)) => {
            format!("the answer has more than {bytes} bytes, the most with {key} = {}", bytes_text(*value))
        }
        None => format!("the answer has more than {bytes} bytes"),
    }
}

/// Bytes as the configuration writes them: in the largest unit that leaves a whole number.
fn bytes_text(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = |(shift, _): &(u32, &str)| bytes != 0 && bytes.is_multiple_of(1_u64 << shift);
    match units.into_iter().find(fits) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(raw: i32, complaint: &str) -> String {
        let limits = ChildLimits { memory: 512 << 20, seconds: 60 };
        ChildError::from_end(ExitStatus::from_raw(raw), complaint.to_owned(), &limits).to_string()
    }

    #[test]
    fn the_limit_that_ended_a_child_is_named_by_its_key() {
        let aborted = Signal::ABORT.as_raw();
        let out_of_memory = "needs more than symbolize_memory_bytes_max = 512 MiB";
        assert_eq!(end(aborted, "memory allocation of 4096 bytes failed\n"), out_of_memory);
        assert_eq!(end(1 << 8, "jeprof: open a: Cannot allocate memory (os error 12)\n"), out_of_memory);
        assert_eq!(end(Signal::XCPU.as_raw(), ""), "not done after symbolize_seconds_max = 60 s");
        assert_eq!(end(1 << 8, "\nno such file\n"), "the child ended with exit status: 1: no such file");
        assert_eq!(end(Signal::KILL.as_raw(), ""), "the child ended with signal: 9 (SIGKILL): no message");
    }

    #[test]
    fn an_answer_that_is_too_large_names_what_limits_it() {
        let limit = AnswerLimit { bytes: 5 << 20, key: Some(("profile_bytes_max", 1 << 20)) };
        let text = ChildError::TooMuch(limit).to_string();
        assert_eq!(text, "the answer has more than 5242880 bytes, the most with profile_bytes_max = 1 MiB");
        let text = ChildError::TooMuch(AnswerLimit { bytes: 9, key: None }).to_string();
        assert_eq!(text, "the answer has more than 9 bytes");
    }

    #[test]
    fn bytes_read_as_in_the_configuration() {
        assert_eq!(
            [1 << 40, 3 << 30, 1536 << 20, 1025, 0].map(bytes_text),
            ["1 TiB", "3 GiB", "1536 MiB", "1025 B", "0 B"]
        );
    }
}
