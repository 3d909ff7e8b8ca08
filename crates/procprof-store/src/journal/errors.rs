//! Error rows: what failed, where and when, for users to read. They are stored in the journal.

use std::fmt;
use std::str::FromStr;

use procprof_profile::{Nanos, ProfileType};
use serde::{Deserialize, Serialize};

use crate::{Error, PAGE_MAX, Page, PageRequest};

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The node could not be reached, or did not answer in time.
    Capture,
    /// The node's response was not a profile.
    Refused,
    /// The process restarted during the capture.
    Restarted,
    /// Symbols could not be found where they were expected.
    Symbolize,
    /// The profile could not be stored, for example because the disk is full.
    Storage,
    /// A file could not be deleted by retention.
    Retention,
    /// A file could not be imported.
    Import,
}

const KINDS: [(ErrorKind, &str); 7] = [
    (ErrorKind::Capture, "capture"),
    (ErrorKind::Refused, "refused"),
    (ErrorKind::Restarted, "restarted"),
    (ErrorKind::Symbolize, "symbolize"),
    (ErrorKind::Storage, "storage"),
    (ErrorKind::Retention, "retention"),
    (ErrorKind::Import, "import"),
];

impl ErrorKind {
    /// Its name in lists, SQL and the journal.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ErrorKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<ErrorKind, Error> {
        let unknown = || Error::Argument {
            what: "error kind",
            text: name.chars().take(64).collect(),
            why: "not a kind of error",
        };
        KINDS.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind).ok_or_else(unknown)
    }
}

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRow {
    /// The affected node, if any.
    pub node: Option<u64>,
    /// The affected type of profile, if any.
    pub profile_type: Option<ProfileType>,
    /// The time, UTC nanoseconds.
    pub time: Nanos,
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The reason as text; truncated to [`ErrorRow::REASON_MAX`] bytes.
    pub reason: String,
    /// First bytes of a refused response; truncated to [`ErrorRow::FIRST_BYTES_MAX`].
    pub first_bytes: Vec<u8>,
}

impl ErrorRow {
    /// Bytes of a reason kept.
    pub const REASON_MAX: usize = 1024;
    /// Bytes of a refused response kept.
    pub const FIRST_BYTES_MAX: usize = 256;

    pub(crate) fn cut(mut self) -> ErrorRow {
        self.reason.truncate(self.reason.floor_char_boundary(Self::REASON_MAX));
        self.first_bytes.truncate(Self::FIRST_BYTES_MAX);
        self
    }
}

/// A stored error row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorEntry {
    /// Its number, ascending in the order of recording, never used again. The cursor of
    /// [`Store::list_errors`](crate::Store::list_errors).
    pub number: u64,
    /// The failure.
    pub row: ErrorRow,
}

/// The filter of error rows. Empty lists and `None` match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorFilter {
    /// Of any of these nodes.
    pub nodes: Vec<u64>,
    /// Of any of these types.
    pub types: Vec<ProfileType>,
    /// Of any of these kinds.
    pub kinds: Vec<ErrorKind>,
    /// At this moment or later.
    pub from: Option<Nanos>,
    /// Before this moment.
    pub to: Option<Nanos>,
}

impl ErrorFilter {
    fn lets_through(&self, row: &ErrorRow) -> bool {
        (self.nodes.is_empty() || row.node.is_some_and(|node| self.nodes.contains(&node)))
            && (self.types.is_empty() || row.profile_type.as_ref().is_some_and(|kind| self.types.contains(kind)))
            && (self.kinds.is_empty() || self.kinds.contains(&row.kind))
            && self.from.is_none_or(|from| row.time >= from)
            && self.to.is_none_or(|to| row.time < to)
    }

    /// A page of `entries`, which come newest first.
    pub(crate) fn page<'a>(
        &self,
        entries: impl Iterator<Item = &'a ErrorEntry>,
        page: &PageRequest<u64>,
    ) -> Page<ErrorEntry, u64> {
        let limit = page.limit.clamp(1, PAGE_MAX);
        let wanted =
            |entry: &&ErrorEntry| page.after.is_none_or(|after| entry.number < after) && self.lets_through(&entry.row);
        let mut rows: Vec<ErrorEntry> = entries.filter(wanted).take(limit + 1).cloned().collect();
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|entry| entry.number);
        Page { rows, next }
    }
}

/// An error row as a line of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ErrorJson {
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    node: Option<u64>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none", default)]
    profile_type: Option<String>,
    time: i64,
    kind: String,
    reason: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    first: String,
}

impl From<&ErrorEntry> for ErrorJson {
    fn from(entry: &ErrorEntry) -> ErrorJson {
        let row = &entry.row;
        ErrorJson {
            number: entry.number,
            node: row.node,
            profile_type: row.profile_type.as_ref().map(|kind| kind.name().to_owned()),
            time: row.time.0,
            kind: row.kind.name().to_owned(),
            reason: row.reason.clone(),
            first: row.first_bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

impl ErrorJson {
    /// The entry, or `None` if a value is invalid.
    pub(crate) fn entry(&self) -> Option<ErrorEntry> {
        let digits = self.first.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let row = ErrorRow {
            node: self.node,
            profile_type: self.profile_type.as_ref().map(|name| name.parse()).transpose().ok()?,
            time: Nanos(self.time),
            kind: self.kind.parse().ok()?,
            reason: self.reason.clone(),
            first_bytes: digits.map(byte).collect::<Option<_>>()?,
        };
        Some(ErrorEntry { number: self.number, row: row.cut() })
    }
}
