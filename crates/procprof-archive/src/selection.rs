//! [`Selection`]: conditions for profiles of an archive.

use procprof_profile::{Nanos, ProfileId, ProfileType};

use crate::Hour;
use crate::header::Identity;

/// The profiles that are summed: those that fulfil all conditions. Empty lists and `None` are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Complete at this moment or later.
    pub from: Option<Nanos>,
    /// Complete before this moment.
    pub to: Option<Nanos>,
    /// Any of these types.
    pub types: Vec<ProfileType>,
    /// Of any of these nodes, by id or name.
    pub nodes: Vec<String>,
    /// Any of these.
    pub ids: Vec<ProfileId>,
}

impl Selection {
    /// Whether a profile of a node of that name is among them.
    pub(crate) fn has(&self, identity: &Identity, node_name: &str) -> bool {
        self.from.is_none_or(|from| identity.completed >= from)
            && self.to.is_none_or(|to| identity.completed < to)
            && (self.types.is_empty() || self.types.contains(&identity.profile_type))
            && (self.ids.is_empty() || self.ids.contains(&identity.id))
            && (self.nodes.is_empty()
                || self.nodes.iter().any(|node| node == node_name || node.parse() == Ok(identity.node)))
    }

    /// Whether all of an hour is in its time.
    pub fn has_hour(&self, hour: Hour) -> bool {
        self.from.is_none_or(|from| hour.start() >= from) && self.to.is_none_or(|to| hour.end() <= to)
    }

    /// Whether profiles that were complete from a moment on and before another one may be among them.
    pub(crate) fn has_time(&self, start: Nanos, end: Nanos) -> bool {
        self.from.is_none_or(|from| end > from) && self.to.is_none_or(|to| start < to)
    }
}
