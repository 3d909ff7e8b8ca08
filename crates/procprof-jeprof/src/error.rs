//! Why nothing can be printed.

use std::io;

use crate::ReadError;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why profiles cannot be read, named or printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No profile was named.
    #[error("no profile was named")]
    NoProfile,
    /// A word is neither a file nor an address of a process.
    #[error("{path}: no such file, and no address of a process such as host:port or http://host:port/pprof/heap")]
    NoFile {
        /// The word.
        path: String,
    },
    /// A file cannot be opened.
    #[error("open {path}: {error}")]
    Open {
        /// The file.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// A file cannot be read.
    #[error("read {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The addresses to be named cannot be read.
    #[error("read standard input: {0}")]
    Input(io::Error),
    /// A profile is larger than what is read.
    #[error("{path}: {bytes} bytes, at most {most} are read")]
    TooLarge {
        /// The file.
        path: String,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        most: u64,
    },
    /// A profile is packed.
    #[error("{path}: packed by gzip, so not a profile of gperftools or jemalloc; `procprof report` reads pprof's")]
    Packed {
        /// The file.
        path: String,
    },
    /// A file is no profile.
    #[error("{path}: {error}")]
    Profile {
        /// The file.
        path: String,
        /// The problem.
        error: ReadError,
    },
    /// A profile brings its own names, and a program was named, too.
    #[error("{path}: a symbolized profile cannot be used with a program; try again without it")]
    NamesAndProgram {
        /// The file.
        path: String,
    },
    /// A regular expression cannot be read.
    #[error("{pattern}: {error}")]
    Pattern {
        /// The expression.
        pattern: String,
        /// The problem.
        error: regex::Error,
    },
    /// `--raw` of a profile that was not fetched.
    #[error("--raw/http: jeprof can only dump remote profiles for --raw")]
    RawOfFile,
    /// The output shows no profile.
    #[error("this option stands for no report of one profile")]
    NoReport,
    /// The call graph cannot be drawn.
    #[error(transparent)]
    Drawing(#[from] procprof_report::Error),
}
