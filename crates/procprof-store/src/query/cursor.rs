//! Pages of a list.

use std::fmt;
use std::str::FromStr;

use procprof_profile::{Nanos, ProfileId};

use crate::{Entry, Error};

/// Largest number of rows of one page.
pub const PAGE_MAX: usize = 1000;

/// The requested page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest<C> {
    /// Requested rows, at most [`PAGE_MAX`]; larger values are reduced to it.
    pub limit: usize,
    /// [`Page::next`] of the page before; `None` for the first.
    pub after: Option<C>,
}

impl<C> PageRequest<C> {
    /// The first `limit` rows.
    pub fn first(limit: usize) -> PageRequest<C> {
        PageRequest { limit, after: None }
    }

    /// The `limit` rows after a cursor.
    pub fn after(limit: usize, cursor: C) -> PageRequest<C> {
        PageRequest { limit, after: Some(cursor) }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The rows.
    pub rows: Vec<T>,
    /// The cursor of the next page; `None` if this is the last. Only this marks the end: a page may have fewer rows
    /// than requested.
    pub next: Option<C>,
}

/// A place in the list of profiles, which is ordered newest first by completion, then by id, descending. Its text is
/// opaque to callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) completed: Nanos,
    pub(crate) id: ProfileId,
}

impl Cursor {
    /// The place after an entry of the list.
    pub fn after(entry: &Entry) -> Cursor {
        Cursor { completed: entry.completed, id: entry.id }
    }

    /// The completion of the profile that it is behind.
    pub fn completed(&self) -> Nanos {
        self.completed
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.completed.0, self.id)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Cursor, Error> {
        let parsed = text.split_once('.').and_then(|(completed, id)| Some((completed.parse().ok()?, id.parse().ok()?)));
        let (completed, id) = parsed.ok_or_else(|| Error::Argument {
            what: "cursor",
            text: text.chars().take(64).collect(),
            why: "expected the cursor of an earlier page",
        })?;
        Ok(Cursor { completed: Nanos(completed), id })
    }
}
