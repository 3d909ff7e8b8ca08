//! The kinds of nodes: one file and one row of [`KINDS`] each.
//!
//! Configuration and its reference page, default schedules, error texts, the API's list of kinds, captures and the
//! control of a node's heap profiler read the rows; no other code distinguishes kinds.

mod databend;
#[cfg(test)]
mod fake;
mod go;
mod host;
mod jvm;
mod node_config;
mod options;
mod pprof;
mod procprof;
mod role;
mod row;
mod starrocks_be;
mod starrocks_fe;
mod this_server;
mod this_server_source;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::FromStr;

use procprof_collect::{Endpoints, Offer};
use procprof_profile::ProfileType;

pub(crate) use jvm::keeps_recordings;
pub use node_config::{Auth, NodeConfig, PidLookup, ScheduleRow, Tls};
pub(crate) use node_config::{has_port, host_port};
pub(crate) use options::{NodeOption, OptionType, OptionValue};
pub use role::Role;
pub(crate) use row::KindRow;
pub(crate) use row::{HeapControl, Interval, KindSource, SourceContext};
pub(crate) use this_server_source::heap_unavailable;

/// Every kind, in the order they are listed.
static KINDS: &[&KindRow] = &[
    &starrocks_be::ROW,
    &databend::ROW,
    &go::ROW,
    &pprof::ROW,
    &procprof::ROW,
    &jvm::ROW,
    &starrocks_fe::ROW,
    &host::HOST,
    &host::PROCESS,
    &this_server::ROW,
];

/// Kinds that exist in tests only.
#[cfg(test)]
static TEST_KINDS: &[&KindRow] = &[&fake::ROW];
#[cfg(not(test))]
static TEST_KINDS: &[&KindRow] = &[];

/// How a node is collected: a row of the table.
#[derive(Clone, Copy)]
pub struct Kind(&'static KindRow);

impl Kind {
    /// A StarRocks backend or compute node.
    pub const STARROCKS_BE: Kind = Kind(&starrocks_be::ROW);
    /// A StarRocks frontend.
    pub(crate) const STARROCKS_FE: Kind = Kind(&starrocks_fe::ROW);
    /// Any URLs that answer profiles.
    pub const PPROF: Kind = Kind(&pprof::ROW);
    /// A process with our agent.
    pub const PROCPROF: Kind = Kind(&procprof::ROW);
    /// A Java process of this host.
    pub const JVM: Kind = Kind(&jvm::ROW);
    /// A host with a host agent.
    pub const HOST: Kind = Kind(&host::HOST);
    /// The processes of a service on such a host.
    pub const PROCESS: Kind = Kind(&host::PROCESS);
    /// The server itself.
    pub const THIS_SERVER: Kind = Kind(&this_server::ROW);

    /// Every kind, in the order they are listed.
    pub fn all() -> impl Iterator<Item = Kind> {
        Kind::documented().chain(TEST_KINDS.iter().copied().map(Kind))
    }

    /// The kinds of the reference page: all but those of tests.
    pub(crate) fn documented() -> impl Iterator<Item = Kind> {
        KINDS.iter().copied().map(Kind)
    }

    /// The kinds that a configuration may name, in the order they are listed.
    pub(crate) fn configurable() -> impl Iterator<Item = Kind> {
        Kind::all().filter(|kind| kind.is_configurable)
    }

    /// The kind of this name, whether it may be configured or not.
    pub(crate) fn named(name: &str) -> Option<Kind> {
        Kind::all().find(|kind| kind.name() == name)
    }

    /// Whether its nodes have a usual port, which their addresses may leave out.
    pub(crate) fn has_usual_port(self) -> bool {
        self == Kind::STARROCKS_BE || self == Kind::STARROCKS_FE
    }

    /// The name in configuration, URLs and JSON.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Its endpoints, if it is collected over HTTP.
    pub(crate) fn endpoints(self) -> Option<&'static Endpoints> {
        match self.0.source {
            KindSource::Http(endpoints) => Some(endpoints),
            KindSource::Custom { .. } | KindSource::Pushed(_) => None,
        }
    }

    /// The profile types it gives without further configuration, each on its terms.
    pub(crate) fn offers(self) -> Vec<&'static Offer> {
        match self.0.source {
            KindSource::Http(endpoints) => {
                endpoints.routes.iter().filter(|route| !route.endpoints.is_empty()).map(|route| &route.offer).collect()
            }
            KindSource::Custom { offers, .. } | KindSource::Pushed(offers) => offers.iter().collect(),
        }
    }

    /// The terms of one type, where they are known: also of one that only a configured URL gives.
    pub fn offer(self, profile_type: &ProfileType) -> Option<&'static Offer> {
        match self.0.source {
            KindSource::Http(endpoints) => endpoints.route(profile_type).map(|route| &route.offer),
            KindSource::Custom { offers, .. } | KindSource::Pushed(offers) => {
                offers.iter().find(|offer| offer.profile_type == *profile_type)
            }
        }
    }

    /// Whether its nodes record by themselves and send it, so that the server has no schedule for them.
    pub fn is_pushed(self) -> bool {
        matches!(self.0.source, KindSource::Pushed(_))
    }

    /// Whether a type that is on is recorded without gaps, cut at each interval.
    pub fn is_continuous(self, profile_type: &ProfileType) -> bool {
        if self.is_pushed() {
            return true;
        }
        self.offer(profile_type).is_some_and(|offer| offer.continuous)
    }
}

/// The columns of the row.
impl Deref for Kind {
    type Target = KindRow;

    fn deref(&self) -> &KindRow {
        self.0
    }
}

impl Default for Kind {
    fn default() -> Kind {
        Kind::PPROF
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        Kind::configurable().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Kind::configurable().map(Kind::name).collect();
            format!("{text:?} is no kind; expected {}", names.join(", "))
        })
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Kind) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Kind) -> Ordering {
        self.0.name.cmp(other.0.name)
    }
}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({})", self.0.name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own_and_something_to_give() {
        let mut names: Vec<&str> = Kind::all().map(Kind::name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for kind in Kind::all() {
            assert!(!kind.offers().is_empty() && !kind.help.is_empty(), "{kind}");
            assert_eq!(kind.name().parse::<Kind>().ok(), kind.is_configurable.then_some(kind));
            let is_free = |option: &NodeOption| crate::config::NODE_KEYS.iter().all(|key| key.name != option.name);
            assert!(kind.options.iter().all(is_free), "{kind} takes a key that all kinds have");
        }
        let keys: Vec<&str> = Kind::all()
            .filter_map(|kind| match kind.interval {
                Interval::Every(key) | Interval::Cut(key) => Some(key),
                Interval::Default => None,
            })
            .collect();
        assert!(keys.iter().all(|key| crate::config::Config::defaults().seconds_of(key).is_some()), "{keys:?}");
        assert_eq!("erlang ".parse::<Kind>().unwrap_err().split(" is").next(), Some("\"erlang \""));
    }
}
