//! What users should know of a host: derived from what its agent reports.

use std::fmt;

use super::state::HostState;

/// A difference of clocks that is told, in nanoseconds.
const SKEW_MIN: u64 = 2_000_000_000;

/// Something that users should know of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostWarning {
    /// No heartbeat has come for a while.
    Late,
    /// Its clock is ahead of the server's by so many seconds; behind if negative.
    Skew(i64),
    /// Its agent samples at the first rate instead of the second one, to keep within its limits.
    Rate(u32, u32),
    /// What the agent may not do, and what would permit it.
    Missing(String),
    /// So many profiles were removed from a full spool, and never sent.
    SpoolLost(u64),
    /// So many services have no node.
    LeftOut(u64),
}

impl HostState {
    /// What users should know, the most important first.
    pub fn warnings(&self) -> Vec<HostWarning> {
        let facts = &self.facts;
        let mut warnings = Vec::new();
        if self.is_late {
            warnings.push(HostWarning::Late);
        }
        warnings.extend(facts.missing.iter().cloned().map(HostWarning::Missing));
        if self.skew_nanos.unsigned_abs() >= SKEW_MIN {
            warnings.push(HostWarning::Skew((self.skew_nanos as f64 / 1e9).round() as i64));
        }
        if facts.hz < facts.hz_wanted {
            warnings.push(HostWarning::Rate(facts.hz, facts.hz_wanted));
        }
        if facts.spool_lost > 0 {
            warnings.push(HostWarning::SpoolLost(facts.spool_lost));
        }
        let left_out = facts.services_left_out.saturating_add(self.services_refused);
        if left_out > 0 {
            warnings.push(HostWarning::LeftOut(left_out));
        }
        warnings
    }
}

/// In English, as the API and SQL have it.
impl fmt::Display for HostWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostWarning::Late => f.write_str("no heartbeat for 3 minutes or longer"),
            HostWarning::Skew(seconds @ 0..) => write!(f, "its clock is {seconds} s ahead of the server's"),
            HostWarning::Skew(seconds) => write!(f, "its clock is {} s behind the server's", seconds.unsigned_abs()),
            HostWarning::Rate(hz, wanted) => {
                write!(f, "the agent samples at {hz} Hz instead of {wanted} Hz to keep within its limits")
            }
            HostWarning::Missing(what) => f.write_str(what),
            HostWarning::SpoolLost(profiles) => {
                write!(f, "profiles removed from the agent's full spool and never sent: {profiles}")
            }
            HostWarning::LeftOut(services) => {
                write!(f, "services without a node, since there are too many: {services}")
            }
        }
    }
}
