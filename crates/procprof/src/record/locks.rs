//! Waits for locks among all waits.

use anyhow::Result;
use procprof_profile::filter::{Filter, FilterOptions};
use procprof_profile::{Profile, ProfileType, ValueType};

/// Functions that wait for a lock: of the C library, Rust's, parking_lot's and Abseil's locks, Go's runtime, HotSpot, and
/// the kernel's own locks. Waits for conditions, channels and timers are none.
const LOCKS: &str = concat!(
    r"^_*lll_lock_wait|^_*pthread_(mutex_(timed|clock|cond_)?lock|rwlock_(timed|clock)?(rd|wr)lock|mutex_lock_full)",
    r"|^_*lll_(timed|clock)lock_wait|sync::mutex::futex::Mutex::lock_contended",
    r"|sync::rwlock::futex::RwLock::(read|write)_contended|parking_lot::raw_\w+::\w+::lock_\w*slow",
    r"|^absl::(\w+::)?Mutex::(Reader)?Lock(Slow|Shared)?\b|^runtime\.lock2$|^ObjectMonitor::enter",
    r"|^(__)?mutex_lock|^__ww_mutex_lock|^rwsem_down_(read|write)_slowpath|^futex_lock_pi",
);

/// The waits for locks of a profile of time off CPU, with the types of contention.
pub(super) fn lock_waits(profile: Profile, subject: &str) -> Result<Profile> {
    let options =
        FilterOptions { focus: LOCKS.to_owned(), tagfocus: "state=^blocked$".to_owned(), ..FilterOptions::default() };
    let (profile, _) = Filter::parse(&options)?.apply(profile)?;
    let mut meta = profile.meta();
    meta.profile_type = Some(ProfileType::Contention);
    meta.means = format!("time in which threads of {subject} were blocked by locks: in functions that wait for one");
    let mut parts = profile.into_parts();
    parts.sample_types.clear();
    for (kind, unit) in ProfileType::Contention.sample_types() {
        let value_type = ValueType { kind: parts.intern(kind)?, unit: parts.intern(unit)? };
        parts.sample_types.push(value_type);
    }
    Ok(parts.finish()?.with_meta(&meta)?)
}

/// What of all waits, in nanoseconds, is not in the profile of the waits for locks.
pub(super) fn left_out(locks: &Profile, waited: u64) -> String {
    let nanos: i64 = locks.samples().filter_map(|sample| sample.values.get(1)).sum();
    let (seconds, all) = (nanos as f64 / 1e9, waited as f64 / 1e9);
    format!("{seconds:.2} s of these waits are for locks and shown; the other {:.2} s are left out", all - seconds)
}
