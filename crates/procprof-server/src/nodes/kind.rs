//! The closed sets a node is described by: kind and role.

use std::fmt;
use std::str::FromStr;

/// How a node is collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A StarRocks backend: CPU and contention over brpc, heap over HTTP.
    StarrocksBe,
    /// A StarRocks frontend.
    StarrocksFe,
    /// Databend's admin service.
    Databend,
    /// A Go program with `net/http/pprof`.
    Go,
    /// Any URLs that answer profiles.
    #[default]
    Pprof,
    /// A Java virtual machine.
    Jvm,
    /// A process with our agent.
    Procprof,
    /// The server itself.
    Own,
}

/// What a node is called on its tab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A StarRocks frontend.
    Fe,
    /// A StarRocks backend.
    Be,
    /// A StarRocks compute node.
    Cn,
    /// Anything else.
    #[default]
    Service,
    /// The server itself.
    Own,
}

const KINDS: [(Kind, &str); 8] = [
    (Kind::StarrocksBe, "starrocks-be"),
    (Kind::StarrocksFe, "starrocks-fe"),
    (Kind::Databend, "databend"),
    (Kind::Go, "go"),
    (Kind::Pprof, "pprof"),
    (Kind::Jvm, "jvm"),
    (Kind::Procprof, "procprof"),
    (Kind::Own, "self"),
];

const ROLES: [(Role, &str); 5] = [(Role::Fe, "FE"), (Role::Be, "BE"), (Role::Cn, "CN"), (Role::Service, "service"), (Role::Own, "self")];

/// The kinds a configuration file may name: those that are collected over the network.
const CONFIGURABLE: [Kind; 5] = [Kind::StarrocksBe, Kind::Databend, Kind::Go, Kind::Pprof, Kind::Procprof];

impl Kind {
    /// The name in configuration, URLs and JSON.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("pprof", |(_, name)| name)
    }

    /// How the collector calls it; `None` for what is not collected over HTTP.
    pub fn collected(self) -> Option<procprof_collect::Kind> {
        self.name().parse().ok()
    }
}

impl Role {
    /// The name in configuration, URLs and JSON.
    pub fn name(self) -> &'static str {
        ROLES.iter().find(|(role, _)| *role == self).map_or("service", |(_, name)| name)
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let known = CONFIGURABLE.iter().find(|kind| kind.name() == text).copied();
        known.ok_or_else(|| format!("{text:?} is no kind; expected {}", CONFIGURABLE.map(Kind::name).join(", ")))
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let known = ROLES.iter().find(|(role, name)| *role != Role::Own && *name == text).map(|(role, _)| *role);
        known.ok_or_else(|| format!("{text:?} is no role; expected FE, BE, CN, service"))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
