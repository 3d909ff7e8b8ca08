//! Sums as pprof, with the sample types of Go's block and mutex profiles, and as the text that brpc writes.
//!
//! ```text
//! --- contention
//! cycles/second=1000000000
//! 19490304 27 @ 0x55d0cbccc97 0x55d0cc61202        nanoseconds, waits, return addresses leaf first
//! 55d0c000000-55d0c100000 r-xp …                   the kernel's map of the process
//! ```

use super::collector::{Stacks, Sums, hooks};
use super::origin;
use crate::clock::nanos;
use crate::error::{Error, Result};
use crate::modules::Modules;
use procprof_profile::format::legacy_frames;
use procprof_profile::{Addr, Addresses, LocationId, Nanos, Profile, ProfileBuilder, ProfileType};
use std::fmt::Write;

/// Whether waits are charged to the waiting threads or to the holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The thread that waited.
    Waiter,
    /// The thread that held the lock, where it let it go.
    Holder,
}

/// Time that was waited after a lock was let go, until a waiter ran.
const WAKE_UP: &str = "[lock free, waiter not yet running]";

/// Frame of time waited for a lock whose release was not seen.
const UNKNOWN_HOLDER: &str = "[holder not seen]";

/// Frame of samples without a known stack.
const UNKNOWN_STACK: &str = "[unknown stack]";

impl View {
    fn stacks(self, sums: &Sums) -> &Stacks {
        match self {
            Self::Waiter => &sums.waits,
            Self::Holder => &sums.holds,
        }
    }

    fn profile_type(self) -> ProfileType {
        match self {
            Self::Waiter => ProfileType::Contention,
            Self::Holder => ProfileType::Mutex,
        }
    }

    fn means(self) -> &'static str {
        match self {
            Self::Waiter => "time that threads waited for locks, by where they waited; a wait counts when it ends",
            Self::Holder => {
                "time that threads waited for locks, by where the lock was let go by the thread that held it meanwhile"
            }
        }
    }
}

/// Stacks with whole numbers, the longest waits first.
fn rows(stacks: &Stacks) -> Vec<(&[u64], [i64; 2])> {
    let mut rows: Vec<_> =
        stacks.iter().map(|(stack, values)| (&**stack, values.map(|value| value.round() as i64))).collect();
    rows.retain(|(_, values)| *values != [0, 0]);
    rows.sort_by(|a, b| b.1[1].cmp(&a.1[1]).then_with(|| a.0.cmp(b.0)));
    rows
}

/// Builds the profile; addresses are return addresses, as captured.
pub(crate) fn build(sums: &Sums, view: View) -> Result<Profile> {
    let modules = Modules::of_this_process();
    let mut builder = ProfileBuilder::new(view.profile_type().sample_types());
    builder.period("contentions", "count", 1);
    let duration = sums.at.duration_since(sums.since).unwrap_or_default();
    builder.time(nanos(sums.since), Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)));
    let mappings = modules.add_to(&mut builder);
    let mut places: Vec<LocationId> = Vec::new();
    for (stack, values) in rows(view.stacks(sums)) {
        places.clear();
        for address in stack {
            let mapping = modules.find(address.saturating_sub(1));
            places.push(builder.address(mapping.map(|index| mappings[index]), Addr(*address)));
        }
        if places.is_empty() {
            places.push(builder.frame(UNKNOWN_STACK));
        }
        builder.sample(&places, &values, &[]);
    }
    if view == View::Holder {
        for (frame, nanos) in
            [(WAKE_UP, sums.counts.unowed.wake_up), (UNKNOWN_HOLDER, sums.counts.unowed.unknown_holder)]
        {
            if nanos > 0 {
                let frame = builder.frame(frame);
                builder.sample(&[frame], &[0, i64::try_from(nanos).unwrap_or(i64::MAX)], &[]);
            }
        }
    }
    legacy_frames::CONTENTION.set(&mut builder);
    for comment in meta(sums, view, &modules).to_comments() {
        builder.comment(&comment);
    }
    builder.parts_mut().addresses = Addresses::RawReturn;
    Ok(builder.finish()?)
}

fn meta(sums: &Sums, view: View, modules: &Modules) -> procprof_profile::Meta {
    let counts = &sums.counts;
    let mut meta = crate::meta::known_facts(view.profile_type(), "agent-locks", modules);
    meta.end = Some(nanos(sums.at));
    meta.lost = Some(counts.lost);
    meta.truncated = Some(counts.truncated);
    meta.means = view.means().into();
    let more = [
        ("samples", counts.samples),
        ("samples-without-root", counts.without_root),
        ("waits-for-no-lock", counts.others),
        ("waits-for-what-is-not-known", counts.undecided),
        ("waits-for-what-is-not-known-ns", counts.undecided_nanos),
        ("holders-of-what-is-not-known", counts.undecided_holds),
        ("waits-without-room-for-holders", counts.unowed.unfollowed),
    ];
    meta.more.extend(more.map(|(key, value)| (key.to_owned(), value.to_string())));
    if counts.left_out > 0 {
        meta.more.insert("waits-left-out-for-seccomp".to_owned(), counts.left_out.to_string());
    }
    let hooks = hooks();
    let others: Vec<_> = origin::defined_by_others(&hooks).map(|hook| hook.name.to_string_lossy()).collect();
    if !others.is_empty() {
        meta.more.insert("defined-by-the-program-and-not-followed".to_owned(), others.join(" "));
    }
    meta
}

/// The text form. Rows without addresses have no place in it.
pub(crate) fn encode_text(sums: &Sums, view: View) -> Result<Vec<u8>> {
    let mut text = String::from(if view == View::Waiter { "--- contention\n" } else { "--- mutex:\n" });
    text.push_str("cycles/second=1000000000\n");
    if sums.counts.lost > 0 {
        // Writing to a string can't fail.
        let _ = writeln!(text, "discarded samples={}", sums.counts.lost);
    }
    for (stack, [count, nanos]) in rows(view.stacks(sums)) {
        if stack.is_empty() {
            continue;
        }
        let _ = write!(text, "{nanos} {count} @");
        for address in stack {
            let _ = write!(text, " {address:#x}");
        }
        text.push('\n');
    }
    let map =
        std::fs::read("/proc/self/maps").map_err(|source| Error::System { what: "read the memory map", source })?;
    let mut bytes = text.into_bytes();
    bytes.extend(map);
    Ok(bytes)
}
