//! What is known of uploaded symbols besides the index itself.

use procprof_profile::Nanos;
use serde::{Deserialize, Serialize};

use super::SymbolKey;

/// How much an index tells of an address; the more, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Functions only: made from a symbol table.
    Functions,
    /// Functions, files, lines and inlined frames: made from debug information.
    Lines,
}

impl Detail {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Detail::Functions => "functions",
            Detail::Lines => "functions, lines and inlined frames",
        }
    }
}

/// What an index says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexFacts {
    /// What it is kept by.
    pub(crate) key: SymbolKey,
    /// Name of the file it was made from.
    pub(crate) name: String,
    /// Functions it knows.
    pub(crate) functions: u64,
    /// What it tells of them.
    pub(crate) detail: Detail,
}

/// Uploaded symbols, as listed; kept in `KEY.json` beside the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What they are known by.
    pub key: SymbolKey,
    /// Name of the file they were made from, without its folder.
    pub name: String,
    /// Size of the index.
    pub bytes: u64,
    /// Functions it knows.
    pub functions: u64,
    /// What it tells of them.
    pub detail: Detail,
    /// When it was stored, UTC nanoseconds.
    pub stored: i64,
    /// Who sent it.
    pub by: String,
    /// When a profile was last named by it, UTC nanoseconds, to the hour.
    pub last_used: Option<i64>,
}

impl Record {
    /// The moment by which the least used goes first.
    pub(crate) fn last_wanted(&self) -> Nanos {
        Nanos(self.last_used.unwrap_or(self.stored).max(self.stored))
    }
}
