//! The closed set of profile types, one row each: name, file prefix, label, sample types.

use std::fmt;
use std::str::FromStr;

/// What a profile is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProfileType {
    /// CPU time.
    Cpu,
    /// Wall time, on and off CPU.
    Wall,
    /// Time off CPU: blocked, or ready to run without a CPU.
    OffCpu,
    /// Bytes and objects allocated during the capture.
    Alloc,
    /// Live heap.
    Heap,
    /// Waiting for locks, charged to the waiter.
    Contention,
    /// Waiting for locks, charged to the holder.
    Mutex,
    /// Goroutines by stack.
    Goroutine,
    /// Goroutines that can never be woken, by stack.
    GoroutineLeak,
    /// Any other, under the source's own name (lower-case letters, digits, `_`).
    Other(String),
}

struct Row {
    name: &'static str,
    prefix: &'static str,
    label: &'static str,
    sample_types: &'static [(&'static str, &'static str)],
}

const HEAP: &[(&str, &str)] =
    &[("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")];
const DELAYS: &[(&str, &str)] = &[("contentions", "count"), ("delay", "nanoseconds")];

const ROWS: &[(ProfileType, Row)] = &[
    (
        ProfileType::Cpu,
        Row { name: "cpu", prefix: "cpu", label: "CPU", sample_types: &[("samples", "count"), ("cpu", "nanoseconds")] },
    ),
    (
        ProfileType::Wall,
        Row {
            name: "wall",
            prefix: "wall",
            label: "Wall",
            sample_types: &[("samples", "count"), ("wall", "nanoseconds")],
        },
    ),
    (
        ProfileType::OffCpu,
        Row {
            name: "off_cpu",
            prefix: "off_cpu",
            label: "Off CPU",
            sample_types: &[("waits", "count"), ("off_cpu", "nanoseconds")],
        },
    ),
    (
        ProfileType::Alloc,
        Row {
            name: "alloc",
            prefix: "mem",
            label: "Memory (Allocation)",
            sample_types: &[("alloc_objects", "count"), ("alloc_space", "bytes")],
        },
    ),
    (ProfileType::Heap, Row { name: "heap", prefix: "heap", label: "Heap (in use)", sample_types: HEAP }),
    (
        ProfileType::Contention,
        Row { name: "contention", prefix: "contention", label: "Contention", sample_types: DELAYS },
    ),
    (ProfileType::Mutex, Row { name: "mutex", prefix: "mutex", label: "Contention (holder)", sample_types: DELAYS }),
    (
        ProfileType::Goroutine,
        Row { name: "goroutine", prefix: "goroutine", label: "Goroutines", sample_types: &[("goroutine", "count")] },
    ),
    (
        ProfileType::GoroutineLeak,
        Row {
            name: "goroutineleak",
            prefix: "goroutineleak",
            label: "Leaked goroutines",
            sample_types: &[("goroutineleak", "count")],
        },
    ),
];

/// The types without a row that have a name for people.
const LABELS: &[(&str, &str)] = &[("recording", "Recording")];

impl ProfileType {
    /// The types with a row of their own, in the order they are listed.
    pub fn known() -> impl Iterator<Item = &'static ProfileType> {
        ROWS.iter().map(|(kind, _)| kind)
    }

    /// The name in URLs, SQL and configuration: `cpu`, `alloc`, …
    pub fn name(&self) -> &str {
        match (self.row(), self) {
            (Some(row), _) => row.name,
            (None, ProfileType::Other(name)) => name,
            (None, _) => "other",
        }
    }

    /// The beginning of file names: `cpu`, `mem` for allocations, …
    pub fn prefix(&self) -> &str {
        self.row().map_or_else(|| self.name(), |row| row.prefix)
    }

    /// The name for people.
    pub fn label(&self) -> &str {
        if let Some(row) = self.row() {
            return row.label;
        }
        let name = self.name();
        LABELS.iter().find(|(known, _)| *known == name).map_or(name, |(_, label)| label)
    }

    /// Names and units of the sample types, in order; empty when the source decides.
    pub fn sample_types(&self) -> &'static [(&'static str, &'static str)] {
        self.row().map_or(&[], |row| row.sample_types)
    }

    /// The type whose files begin with `prefix`.
    pub fn from_prefix(prefix: &str) -> Option<ProfileType> {
        match ROWS.iter().find(|(_, row)| row.prefix == prefix) {
            Some((kind, _)) => Some(kind.clone()),
            None => prefix.parse().ok(),
        }
    }

    fn row(&self) -> Option<&'static Row> {
        ROWS.iter().find(|(kind, _)| kind == self).map(|(_, row)| row)
    }
}

impl fmt::Display for ProfileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that cannot be a profile type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile type {0:?}: expected 1 to 32 of a-z, 0-9 and _")]
pub struct ParseProfileTypeError(String);

impl FromStr for ProfileType {
    type Err = ParseProfileTypeError;

    fn from_str(name: &str) -> Result<ProfileType, ParseProfileTypeError> {
        if let Some((kind, _)) = ROWS.iter().find(|(_, row)| row.name == name) {
            return Ok(kind.clone());
        }
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(legal) {
            return Err(ParseProfileTypeError(name.chars().take(64).collect()));
        }
        Ok(ProfileType::Other(name.to_owned()))
    }
}
