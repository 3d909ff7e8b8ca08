//! What is known of a host, as its file in `DATA/hosts` has it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::protocol::{HostFacts, ServiceFacts};

/// A host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct KnownHost {
    /// As its agent reported it last.
    pub(super) facts: HostFacts,
    /// The id of its node.
    pub(super) node: u64,
    /// The token that speaks for it; `None` while only operators have.
    pub(super) token: Option<BoundToken>,
    /// When its last heartbeat came, in nanoseconds since 1970 by the server's clock; 0 for none.
    pub(super) heartbeat_nanos: i64,
    /// How far its clock was ahead of the server's then.
    pub(super) skew_nanos: i64,
    /// The rate that a user asked for.
    pub(super) rate: Option<AskedRate>,
    /// Its services, by name.
    pub(super) services: BTreeMap<String, KnownService>,
    /// Types of profiles of the host itself that have come without a capture.
    pub(super) sent_types: BTreeSet<String>,
    /// Services of the last heartbeat that have no node, since there are too many or their names cannot be taken.
    pub(super) services_refused: u64,
}

/// A service of a host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct KnownService {
    /// The id of its node.
    pub(super) node: u64,
    /// As it was in the last heartbeat that had it.
    pub(super) facts: ServiceFacts,
    /// When that heartbeat came, or a profile of it.
    pub(super) seen_nanos: i64,
}

/// A token as a line of the users file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BoundToken {
    /// The user's name.
    pub(super) user: String,
    /// Marks the secret of that line, and another one if the user gets a new token.
    pub(super) mark: String,
}

/// A rate that a user asked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct AskedRate {
    /// Samples for each second of CPU time.
    pub(super) hz: u32,
    /// The start of the agent that was told, which forgets it when it ends.
    pub(super) told: i64,
}
