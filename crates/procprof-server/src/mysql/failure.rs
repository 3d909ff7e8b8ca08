//! Why a statement has no result: MySQL's error code, SQL state, and a sentence.

use std::fmt;

/// A class of errors with MySQL's number and SQL state for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// A packet that breaks the protocol's rules.
    Malformed,
    /// A statement that cannot be parsed.
    Syntax,
    /// A statement that is understood, but not offered here.
    NotSupported,
    /// The user may not do this.
    Denied,
    /// Wrong name or password.
    Login,
    /// Too many connections.
    TooManyConnections,
    /// A transport that must be encrypted.
    NeedsTls,
    /// A table or view nobody knows.
    UnknownTable,
    /// A column nobody knows.
    UnknownColumn,
    /// A function nobody knows.
    UnknownFunction,
    /// A database nobody knows.
    UnknownDatabase,
    /// A system variable nobody knows.
    UnknownVariable,
    /// A prepared statement nobody made.
    UnknownStatement,
    /// A connection nobody has.
    UnknownThread,
    /// A command byte nobody knows.
    UnknownCommand,
    /// A packet longer than the limit.
    PacketTooLarge,
    /// Ended by `KILL`.
    Killed,
    /// Longer than a statement may take.
    TimedOut,
    /// More than a limit allows; the sentence names it.
    Limit,
    /// The server stops.
    Shutdown,
    /// Wrong value or number of arguments.
    WrongArguments,
    /// Anything else; the sentence says what.
    Other,
}

impl FailureKind {
    /// MySQL's number and SQL state.
    pub(crate) fn code(self) -> (u16, &'static str) {
        match self {
            FailureKind::Malformed => (1835, "HY000"),
            FailureKind::Syntax => (1064, "42000"),
            FailureKind::NotSupported => (1235, "42000"),
            FailureKind::Denied => (1227, "42000"),
            FailureKind::Login => (1045, "28000"),
            FailureKind::TooManyConnections => (1040, "08004"),
            FailureKind::NeedsTls => (3159, "HY000"),
            FailureKind::UnknownTable => (1146, "42S02"),
            FailureKind::UnknownColumn => (1054, "42S22"),
            FailureKind::UnknownFunction => (1305, "42000"),
            FailureKind::UnknownDatabase => (1049, "42000"),
            FailureKind::UnknownVariable => (1193, "HY000"),
            FailureKind::UnknownStatement => (1243, "HY000"),
            FailureKind::UnknownThread => (1094, "HY000"),
            FailureKind::UnknownCommand => (1047, "08S01"),
            FailureKind::PacketTooLarge => (1153, "08S01"),
            FailureKind::Killed => (1317, "70100"),
            FailureKind::TimedOut => (3024, "HY000"),
            FailureKind::Limit => (1226, "42000"),
            FailureKind::Shutdown => (1053, "08S01"),
            FailureKind::WrongArguments => (1210, "HY000"),
            FailureKind::Other => (1105, "HY000"),
        }
    }
}

/// An error for the client; the connection goes on unless the protocol itself is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Its class.
    pub(crate) kind: FailureKind,
    /// One sentence: the thing, the place, what to do.
    pub(crate) text: String,
}

impl Failure {
    /// An error of a class with its sentence.
    pub(crate) fn new(kind: FailureKind, text: impl Into<String>) -> Failure {
        Failure { kind, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, state) = self.kind.code();
        write!(f, "{code} ({state}): {}", self.text)
    }
}
