//! Errors of the server, and their form in HTTP answers.

use std::io;
use std::path::PathBuf;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why the server cannot start, be configured, or carry out a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{what} {}: {cause}", path.display())]
    File {
        /// The use of the file.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The system's reason, part of the message.
        cause: io::Error,
    },
    /// A file cannot be used: a newer server has written it.
    #[error(transparent)]
    Files(#[from] procprof_files::Error),
    /// A file that others must not be able to change, or to read.
    #[error(
        "{what} {}: other users of this machine may {may} it (mode {mode:o}); chmod o-rw {}",
        path.display(), path.display()
    )]
    OpenToOthers {
        /// The use of the file.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The permission of others: read or write.
        may: &'static str,
    },
    /// Text that is not TOML.
    #[error("{place}: {why}")]
    Toml {
        /// File and line.
        place: String,
        /// The parser's reason.
        why: String,
    },
    /// An unknown key.
    #[error("{place}: unknown key {key:?}{}", hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    UnknownKey {
        /// File and line.
        place: String,
        /// The key as written.
        key: String,
        /// A sentence about the key that was probably meant.
        hint: Option<String>,
    },
    /// A value its key refuses.
    #[error("{place}: {key}: {why}")]
    WrongValue {
        /// File and line.
        place: String,
        /// The key.
        key: String,
        /// The expected value.
        why: String,
    },
    /// A name or an id two nodes claim.
    #[error("{place}: node: its {what} is that of {holder}")]
    Duplicate {
        /// File and line of the second.
        place: String,
        /// The name or id.
        what: String,
        /// The node that has it already.
        holder: String,
    },
    /// Keys that contradict each other.
    #[error("configuration: {0}")]
    Config(String),
    /// A users file with a line that cannot be read.
    #[error("users file {}:{line}: {why}", path.display())]
    Users {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The reason.
        why: String,
    },
    /// A user that cannot be added.
    #[error("user {name:?}: {why}")]
    User {
        /// The name given.
        name: String,
        /// The reason.
        why: String,
    },
    /// A data folder another server works in; the text names both.
    #[error("{0}; --data DIR uses another folder")]
    DataInUse(String),
    /// An address other machines can reach, without users or without TLS.
    #[error("{address} can be reached from other machines: give {missing}, or --insecure to serve without")]
    Exposed {
        /// The requested address.
        address: String,
        /// The missing protection.
        missing: String,
    },
    /// The address cannot be bound.
    #[error("{address} is in use{holder}; {flag} ADDR serves elsewhere")]
    PortTaken {
        /// The requested address.
        address: String,
        /// ` by NAME (pid N)` where it could be found out.
        holder: String,
        /// The flag that moves our port.
        flag: &'static str,
    },
    /// The address cannot be bound for another reason.
    #[error("bind {address}: {cause}")]
    Bind {
        /// The requested address.
        address: String,
        /// The system's reason, part of the message.
        cause: io::Error,
    },
    /// A certificate or key that cannot be used.
    #[error("tls: {0}")]
    Tls(String),
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] procprof_store::Error),
    /// The archive refuses.
    #[error(transparent)]
    Archive(#[from] procprof_archive::Error),
    /// A stored profile that cannot be decoded.
    #[error(transparent)]
    Profile(#[from] procprof_profile::Error),
    /// A part of the server that could not be set up.
    #[error("{what}: {why}")]
    Setup {
        /// The part.
        what: &'static str,
        /// The reason.
        why: String,
    },
}

impl Error {
    /// Whether an archive lacks a file that it had, since a compaction has replaced it.
    pub(crate) fn is_of_vanished_file(&self) -> bool {
        matches!(self, Error::Archive(error) if error.is_not_found())
    }
}

/// An error with its sources, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
