//! The audit log: actions with their users, and refused requests. Its rate is bounded, so that no client can flood it,
//! and one requester has a quarter of the lines of its kind, so that none hides those of others.

use std::fmt::Display;
use std::net::IpAddr;
use std::time::Duration;

use crate::auth::{Principal, network};
use crate::throttle::SharedThrottle;

/// Lines of a kind within [`WINDOW`]; what is beyond is counted.
const REFUSALS: u32 = 60;
const PUSHES: u32 = 120;
const ACTS: u32 = 600;
const WINDOW: Duration = Duration::from_secs(60);

/// The log of actions and refusals.
pub struct Audit {
    acts: SharedThrottle<String>,
    pushes: SharedThrottle<String>,
    refusals: SharedThrottle<IpAddr>,
}

impl Default for Audit {
    fn default() -> Audit {
        Audit {
            acts: SharedThrottle::new(ACTS, WINDOW),
            pushes: SharedThrottle::new(PUSHES, WINDOW),
            refusals: SharedThrottle::new(REFUSALS, WINDOW),
        }
    }
}

impl Audit {
    /// A user changed something: `profile ID deleted`.
    pub fn act(&self, principal: &Principal, what: impl Display) {
        if let Some(held) = self.acts.pass(&principal.name) {
            tracing::info!("{what} by {}{held}", principal.name);
        }
    }

    /// A user sent a profile.
    pub fn push(&self, principal: &Principal, what: impl Display) {
        if let Some(held) = self.pushes.pass(&principal.name) {
            tracing::info!("{what} by {}{held}", principal.name);
        }
    }

    /// A request or a login was refused.
    pub fn refusal(&self, from: IpAddr, why: impl Display) {
        if let Some(held) = self.refusals.pass(&network(from)) {
            tracing::warn!("refused {from}: {why}{held}");
        }
    }
}
