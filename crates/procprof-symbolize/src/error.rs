//! Errors of opening an image or starting to symbolize.

use std::io;
use std::path::PathBuf;

use crate::Reason;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of opening an image or starting to symbolize.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file can't be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is larger than allowed.
    #[error("{}: {bytes} bytes, more than the limit of {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file does not begin as an ELF file does.
    #[error("{}: not an ELF file", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// The file begins as an ELF file does, but its headers are broken.
    #[error("{}: broken ELF file: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        what: String,
    },
    /// The file has neither debug information nor symbols for an index.
    #[error("{}: no debug information and no symbols", path.display())]
    NothingToIndex {
        /// The file.
        path: PathBuf,
    },
    /// The bytes are no symbol index, or not one of this version, or broken.
    #[error("symbol index: {what}")]
    Index {
        /// The problem.
        what: String,
    },
    /// The profile's addresses are still return addresses: call `Profile::adjusted` first.
    #[error("the profile's addresses are not adjusted to call sites")]
    NotAdjusted,
    /// The answer of a symbol page is malformed.
    #[error("symbol answer: line {line}: expected {expected}")]
    SymbolAnswer {
        /// The line, from 1.
        line: usize,
        /// The expected text.
        expected: &'static str,
    },
    /// The symbols do not fit into one profile.
    #[error(transparent)]
    Profile(#[from] procprof_profile::Error),
}

impl Error {
    /// Why a file with this error can't be used.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => Reason::FileMissing,
            Self::Io { .. } => Reason::FileUnreadable,
            Self::TooLarge { .. } => Reason::TooLarge,
            Self::NotElf { .. } => Reason::NotElf,
            _ => Reason::Damaged,
        }
    }
}
