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
    /// Too many connections of the user.
    TooManyUserConnections,
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
    /// Wrong number of arguments of a function.
    WrongCount,
    /// A number that its type can't have.
    OutOfRange,
    /// A text that is no date or time where one is wanted.
    WrongMoment,
    /// A column that may be one of several.
    Ambiguous,
    /// Two columns of the same name.
    DuplicateColumn,
    /// A column that is neither grouped nor aggregated.
    NotGrouped,
    /// A function of groups where there are none.
    WrongGroup,
    /// A derived table without a name.
    NeedsAlias,
    /// Queries of a set operation with different numbers of columns.
    WrongColumnCount,
    /// A row where a value is wanted, or one of another length.
    OperandColumns,
    /// A subquery for a value that has several rows.
    SubqueryRows,
    /// A hint that names an index; there are none.
    UnknownKey,
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
            SqlErrorKind::TooManyUserConnections => (1203, "42000"),
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
            SqlErrorKind::WrongCount => (1582, "42000"),
            SqlErrorKind::OutOfRange => (1690, "22003"),
            SqlErrorKind::WrongMoment => (1525, "HY000"),
            SqlErrorKind::Ambiguous => (1052, "23000"),
            SqlErrorKind::DuplicateColumn => (1060, "42S21"),
            SqlErrorKind::NotGrouped => (1055, "42000"),
            SqlErrorKind::WrongGroup => (1111, "HY000"),
            SqlErrorKind::NeedsAlias => (1248, "42000"),
            SqlErrorKind::WrongColumnCount => (1222, "21000"),
            SqlErrorKind::OperandColumns => (1241, "21000"),
            SqlErrorKind::SubqueryRows => (1242, "21000"),
            SqlErrorKind::UnknownKey => (1176, "42000"),
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

impl std::error::Error for SqlError {}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, state) = self.kind.code();
        write!(f, "{code} ({state}): {}", self.text)
    }
}
