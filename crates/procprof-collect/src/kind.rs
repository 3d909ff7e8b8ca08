//! The closed set of ways a process is collected from, one row each.

use std::fmt;
use std::str::FromStr;

use procprof_profile::ProfileType;

use crate::route::{DATABEND, GO, PPROF, PROCPROF, Route, STARROCKS_BE};

/// How a process is collected from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A StarRocks backend or compute node: brpc and BE HTTP endpoints.
    StarrocksBe,
    /// A Databend query or meta process: its admin service.
    Databend,
    /// A Go process with `net/http/pprof`.
    Go,
    /// Anything that answers pprof URLs: the usual paths, or one configured URL per profile type.
    Pprof,
    /// A process with our agent.
    Procprof,
}

const KINDS: &[(Kind, &str, &[Route])] = &[
    (Kind::StarrocksBe, "starrocks-be", STARROCKS_BE),
    (Kind::Databend, "databend", DATABEND),
    (Kind::Go, "go", GO),
    (Kind::Pprof, "pprof", PPROF),
    (Kind::Procprof, "procprof", PROCPROF),
];

impl Kind {
    /// Every kind, in the order they are listed.
    pub fn all() -> impl Iterator<Item = Kind> {
        KINDS.iter().map(|(kind, ..)| *kind)
    }

    /// The name in configuration and metadata: `starrocks-be`, `go`, …
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What can be collected from this kind, and its default schedule. For [`Kind::Pprof`] these are the defaults of the types whose
    /// URLs may be configured, and the usual paths of CPU and heap; other types are collected as
    /// [`Window::MomentOrDelta`](crate::Window::MomentOrDelta).
    pub fn routes(self) -> &'static [Route] {
        self.row().1
    }

    /// How `profile_type` is collected from this kind, if it can be.
    pub fn route(self, profile_type: &ProfileType) -> Option<&'static Route> {
        self.routes().iter().find(|route| route.profile_type == *profile_type)
    }

    fn row(self) -> (&'static str, &'static [Route]) {
        let row = KINDS.iter().find(|(kind, ..)| *kind == self);
        row.map_or(("", &[]), |(_, name, routes)| (name, routes))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no kind of process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kind {0:?}: expected one of starrocks-be, databend, go, pprof, procprof")]
pub struct ParseKindError(String);

impl FromStr for Kind {
    type Err = ParseKindError;

    fn from_str(name: &str) -> Result<Kind, ParseKindError> {
        let row = KINDS.iter().find(|(_, known, _)| *known == name);
        row.map(|(kind, ..)| *kind).ok_or_else(|| ParseKindError(name.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_row_and_reads_back() {
        for kind in [Kind::StarrocksBe, Kind::Databend, Kind::Go, Kind::Pprof, Kind::Procprof] {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert!(!kind.routes().is_empty());
            assert!(kind.routes().iter().any(|route| route.schedule.on && route.profile_type == ProfileType::Cpu), "{kind}");
        }
        assert_eq!("jvm ".parse::<Kind>().unwrap_err().to_string().split(':').next(), Some("kind \"jvm \""));
    }
}
