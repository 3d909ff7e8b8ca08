//! Inputs and results of the store.

use procprof_profile::{Meta, Nanos, ProfileId, ProfileType};
use serde::{Deserialize, Serialize};

use super::FunctionTable;
use crate::Format;

/// A profile to be stored.
#[derive(Clone, Debug)]
pub struct NewProfile<'a> {
    /// Its metadata; `id`, `node` and `profile_type` are required.
    pub meta: Meta,
    /// The profile as gzip'd pprof, with the same `meta` in its comments.
    pub encoded: Encoded<'a>,
    /// Its summary for lists.
    pub summary: Summary,
    /// What its functions take; `None` if that is to be computed later ([`Store::without_functions`]).
    ///
    /// [`Store::without_functions`]: crate::Store::without_functions
    pub functions: Option<FunctionTable>,
    /// Start of the capture, UTC nanoseconds.
    pub start: Nanos,
    /// Length of the capture; 0 for a moment.
    pub duration: Nanos,
}

/// The bytes of a profile to be stored.
#[derive(Clone, Copy, Debug)]
pub enum Encoded<'a> {
    /// Written by this process just now, out of the profile and its facts: kept without being read.
    Own(&'a [u8]),
    /// Of another process: read to the end, and its comments compared, before it is kept.
    Received(&'a [u8]),
}

impl<'a> Encoded<'a> {
    /// The bytes.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Encoded::Own(bytes) | Encoded::Received(bytes) => bytes,
        }
    }
}

/// The summary of a profile for lists, computed once when it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The sample types in the profile's order, with their sums.
    pub totals: Vec<Total>,
    /// Number of samples.
    pub samples: u64,
    /// Number of threads that samples name; 0 if they name none, or if the profile was stored by an earlier version.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub threads: u64,
    /// Functions of the program with the largest own values of the default sample type, largest first.
    /// [`Summary::TOP_MAX`] are kept, their names cut at [`Summary::NAME_MAX`] bytes with a final `…`.
    pub top: Vec<TopFunction>,
    /// A small picture of the profile over its duration; the store does not interpret it.
    #[serde(skip)]
    pub thumbnail: Vec<u8>,
}

impl Summary {
    /// Top functions kept.
    pub const TOP_MAX: usize = 16;
    /// Bytes of a function name kept.
    pub const NAME_MAX: usize = 512;

    /// The sum of the sample type that is shown first: the one that the fact `shown` names, or the last.
    pub fn shown(&self, meta: &Meta) -> Option<&Total> {
        let name = meta.more.get("shown");
        self.totals.iter().find(|total| Some(&total.kind) == name).or(self.totals.last())
    }

    pub(crate) fn cut(mut self) -> Summary {
        self.top.truncate(Self::TOP_MAX);
        for function in &mut self.top {
            for name in [&mut function.name, &mut function.leaf, &mut function.caller] {
                if name.len() > Self::NAME_MAX {
                    name.truncate(name.floor_char_boundary(Self::NAME_MAX));
                    name.push('…');
                }
            }
        }
        self
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The sum of one sample type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// The name of the type: `cpu`, `inuse_space`, …
    pub kind: String,
    /// Its unit: `nanoseconds`, `bytes`, `count`, …
    pub unit: String,
    /// The sum.
    pub value: i64,
}

/// A function of the program and its own value, with that of the runtime's functions that it calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopFunction {
    /// The function's name; the runtime's, where stacks have no function of the program.
    pub name: String,
    /// Its own value, in the default sample type's unit.
    pub value: i64,
    /// The runtime's function at the leaf that takes most of the value: the one that locks, waits, copies or allocates
    /// for it. Empty if the function takes more itself; its own name if it is the runtime's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub leaf: String,
    /// The function of the program from which most of the value comes, if it has several callers. Otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caller: String,
}

impl TopFunction {
    /// Whether it is a runtime's, since the stacks have no function of the program.
    pub fn is_runtime(&self) -> bool {
        self.leaf == self.name
    }
}

/// A stored profile, as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its identity.
    pub id: ProfileId,
    /// The node it belongs to.
    pub node: u64,
    /// Its type.
    pub profile_type: ProfileType,
    /// Further metadata. Files made elsewhere have only id, node, type and the trigger `import`.
    pub meta: Meta,
    /// Start of the capture, UTC nanoseconds.
    pub start: Nanos,
    /// Length of the capture; 0 when it was a moment or is unknown.
    pub duration: Nanos,
    /// The time when the collection was complete: `meta.end` if known, otherwise start and duration.
    pub completed: Nanos,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Name of the file within its node, as lists and downloads show it.
    pub file_name: String,
    /// The format of the file.
    pub format: Format,
    /// Whether it is pinned: kept by retention and refused to be deleted.
    pub pinned: bool,
    /// The summary of its content; empty for files made elsewhere.
    pub summary: Summary,
}
