//! The moment of the system clock, as captures are stamped with it.

use std::time::{SystemTime, UNIX_EPOCH};

use procprof_profile::Nanos;

/// The moment it is now (UTC).
pub(crate) fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
