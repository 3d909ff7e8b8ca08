//! Why a statement has no result: MySQL's error code, SQL state, and a sentence.

use std::fmt;

/// A class of errors with MySQL's number and SQL state for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlErrorKind {
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
    /// An unknown table or view.
    UnknownTable,
    /// An unknown column.
    UnknownColumn,
    /// An unknown function.
    UnknownFunction,
    /// An unknown database.
    UnknownDatabase,
    /// An unknown system variable.
    UnknownVariable,
    /// A system variable that is not to be set.
    ReadOnlyVariable,
    /// A value that a system variable does not take.
    WrongValue,
    /// A time zone that is not this server's.
    UnknownTimeZone,
    /// An unknown character set.
    UnknownCharset,
    /// An unknown collation.
    UnknownCollation,
    /// An unknown prepared statement.
    UnknownStatement,
    /// An unknown connection.
    UnknownThread,
    /// An unknown command byte.
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
    /// Anything else; see the message.
    Other,
}

impl SqlErrorKind {
    /// MySQL's number and SQL state.
    pub(crate) fn code(self) -> (u16, &'static str) {
        match self {
            SqlErrorKind::Malformed => (1835, "HY000"),
            SqlErrorKind::Syntax => (1064, "42000"),
            SqlErrorKind::NotSupported => (1235, "42000"),
            SqlErrorKind::Denied => (1227, "42000"),
            SqlErrorKind::Login => (1045, "28000"),
            SqlErrorKind::TooManyConnections => (1040, "08004"),
            SqlErrorKind::NeedsTls => (3159, "HY000"),
            SqlErrorKind::UnknownTable => (1146, "42S02"),
            SqlErrorKind::UnknownColumn => (1054, "42S22"),
            SqlErrorKind::UnknownFunction => (1305, "42000"),
            SqlErrorKind::UnknownDatabase => (1049, "42000"),
            SqlErrorKind::UnknownVariable => (1193, "HY000"),
            SqlErrorKind::ReadOnlyVariable => (1238, "HY000"),
            SqlErrorKind::WrongValue => (1231, "42000"),
            SqlErrorKind::UnknownTimeZone => (1298, "HY000"),
            SqlErrorKind::UnknownCharset => (1115, "42000"),
            SqlErrorKind::UnknownCollation => (1273, "HY000"),
            SqlErrorKind::UnknownStatement => (1243, "HY000"),
            SqlErrorKind::UnknownThread => (1094, "HY000"),
            SqlErrorKind::UnknownCommand => (1047, "08S01"),
            SqlErrorKind::PacketTooLarge => (1153, "08S01"),
            SqlErrorKind::Killed => (1317, "70100"),
            SqlErrorKind::TimedOut => (3024, "HY000"),
            SqlErrorKind::Limit => (1226, "42000"),
            SqlErrorKind::Shutdown => (1053, "08S01"),
            SqlErrorKind::WrongArguments => (1210, "HY000"),
            SqlErrorKind::Other => (1105, "HY000"),
        }
    }
}

/// An error for the client; the connection goes on unless the protocol itself is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlError {
    /// Its class.
    pub(crate) kind: SqlErrorKind,
    /// One sentence: the thing, the place, what to do.
    pub(crate) text: String,
}

impl SqlError {
    /// An error of a class with its sentence.
    pub(crate) fn new(kind: SqlErrorKind, text: impl Into<String>) -> SqlError {
        SqlError { kind, text: text.into() }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, state) = self.kind.code();
        write!(f, "{code} ({state}): {}", self.text)
    }
}
