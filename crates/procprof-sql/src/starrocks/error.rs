//! Errors of frontends. Every message names the frontend and its cluster.

use std::time::Duration;

use mysql_async::{DriverError, Error, IoError};

use crate::mysql::{SqlError, SqlErrorKind};

/// Why a frontend gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeError {
    /// None of the addresses could be reached; each with its reason.
    #[error("{fe}: cannot be reached: {}", .why.join("; "))]
    Unreachable { fe: String, why: Vec<String> },
    /// The user or the password of the configuration is refused, or lacks a privilege.
    #[error("{fe}: access denied: {message}; fe_query gives the user and the password")]
    Denied { fe: String, message: String },
    /// The frontend's own error.
    #[error("{fe}: error {code} ({state}): {message}")]
    Server { fe: String, code: u16, state: String, message: String },
    /// It took too long.
    #[error("{fe}: no answer within {} s", .after.as_secs())]
    Timeout { fe: String, after: Duration },
    /// More than is taken.
    #[error("{fe}: the answer has more than {limit}")]
    TooLarge { fe: String, limit: String },
    /// The connection broke while the statement ran, as it does when a frontend restarts.
    #[error("{fe}: the connection broke: {why}")]
    Broken { fe: String, why: String },
    /// TLS is required and not available, or the certificate is not trusted.
    #[error("{fe}: TLS: {why}")]
    Tls { fe: String, why: String },
    /// The password cannot be read.
    #[error("{fe}: {why}")]
    Password { fe: String, why: String },
    /// Not the answer of a frontend.
    #[error("{fe}: {why}")]
    Strange { fe: String, why: String },
}

/// MySQL's and StarRocks' codes for users and privileges: wrong password, unknown user, missing privileges.
const DENIED: [u16; 6] = [1044, 1045, 1142, 1227, 1698, 5203];

impl FeError {
    /// The error for a failure of the client library.
    pub(super) fn from_client(fe: &str, error: Error) -> FeError {
        let fe = fe.to_owned();
        match error {
            Error::Server(error) if DENIED.contains(&error.code) => FeError::Denied { fe, message: error.message },
            Error::Server(error) => {
                FeError::Server { fe, code: error.code, state: error.state, message: error.message }
            }
            Error::Driver(DriverError::NoClientSslFlagFromServer) => {
                FeError::Tls { fe, why: "the frontend offers none; set tls = false, or set it up there".to_owned() }
            }
            Error::Driver(DriverError::ConnectionClosed) => FeError::Broken { fe, why: "it was closed".to_owned() },
            Error::Io(IoError::Tls(error)) => FeError::Tls { fe, why: error.to_string() },
            Error::Io(IoError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                FeError::Tls { fe, why: error.to_string() }
            }
            Error::Io(IoError::Io(error)) => FeError::Broken { fe, why: error.to_string() },
            other => FeError::Strange { fe, why: other.to_string() },
        }
    }

    /// The reason alone.
    pub(super) fn bare(&self) -> String {
        match self {
            FeError::Broken { why, .. } | FeError::Strange { why, .. } => why.clone(),
            FeError::Timeout { after, .. } => format!("no answer within {} s", after.as_secs()),
            other => other.to_string(),
        }
    }

    /// Whether another frontend of the cluster may do better.
    pub(super) fn try_another(&self) -> bool {
        matches!(self, FeError::Broken { .. } | FeError::Timeout { .. } | FeError::Strange { .. })
    }

    /// Whether the statement is unknown to the frontend.
    pub(crate) fn is_unknown_statement(&self) -> bool {
        matches!(self, FeError::Server { code: 1064, .. })
    }
}

impl From<FeError> for SqlError {
    fn from(error: FeError) -> SqlError {
        let kind = match error {
            FeError::Timeout { .. } => SqlErrorKind::TimedOut,
            FeError::TooLarge { .. } => SqlErrorKind::Limit,
            _ => SqlErrorKind::Other,
        };
        SqlError::new(kind, error.to_string())
    }
}
