//! The wall clock, as profiles have it.

use procprof_profile::Nanos;

/// The clock, UTC.
pub fn now() -> Nanos {
    Nanos(i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX))
}
