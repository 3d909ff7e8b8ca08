//! The role of a node, as on its tab.

use std::fmt;
use std::str::FromStr;

/// The role of a node, as on its tab.
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
    /// A host with a host agent.
    Host,
    /// The server itself.
    ThisServer,
}

const ROLES: [(Role, &str); 6] = [
    (Role::Fe, "FE"),
    (Role::Be, "BE"),
    (Role::Cn, "CN"),
    (Role::Service, "service"),
    (Role::Host, "host"),
    (Role::ThisServer, "self"),
];

impl Role {
    /// The roles a configuration may name, in the order they are listed.
    pub(crate) fn configurable() -> impl Iterator<Item = Role> {
        ROLES.iter().map(|(role, _)| *role).filter(|role| !matches!(role, Role::Host | Role::ThisServer))
    }

    /// The role of this name, whether it may be configured or not.
    pub(crate) fn named(name: &str) -> Option<Role> {
        ROLES.iter().find(|(_, own)| *own == name).map(|(role, _)| *role)
    }

    /// The name in configuration, URLs and JSON.
    pub fn name(self) -> &'static str {
        ROLES.iter().find(|(role, _)| *role == self).map_or("service", |(_, name)| name)
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let known = Role::configurable().find(|role| role.name() == text);
        known.ok_or_else(|| {
            let names: Vec<&str> = Role::configurable().map(Role::name).collect();
            format!("{text:?} is no role; expected {}", names.join(", "))
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
