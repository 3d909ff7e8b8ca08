//! The facts about uploaded symbols besides the index itself.

use procprof_profile::Nanos;
use serde::{Deserialize, Serialize};

use super::SymbolKey;

/// The level of detail of an index; the more, the greater.
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

/// The metadata of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexFacts {
    /// Its key.
    pub(crate) key: SymbolKey,
    /// Name of the file it was made from.
    pub(crate) name: String,
    /// Number of its functions.
    pub(crate) functions: u64,
    /// Their level of detail.
    pub(crate) detail: Detail,
}

/// Uploaded symbols, as listed; kept in `KEY.json` beside the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Their key.
    pub key: SymbolKey,
    /// Name of the file they were made from, without its folder.
    pub name: String,
    /// Size of the index.
    pub bytes: u64,
    /// Number of its functions.
    pub functions: u64,
    /// Their level of detail.
    pub detail: Detail,
    /// When it was stored, UTC nanoseconds.
    pub stored: i64,
    /// The user who uploaded it.
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
