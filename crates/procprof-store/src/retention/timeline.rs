//! The time that has passed in the life of a store, whatever the clock was set to meanwhile: [`Timeline`].
//!
//! Retention depends on age, and an age by the clock is wrong once the clock was set: two days ahead, and everything
//! would be two days old. So the store records clock and uptime together. If they differ by more than [`TOLERANCE`],
//! the clock was set, and a new span begins; a time is interpreted by the span it was in. The spans are stored in
//! `DATA/clock.json`:
//! ```text
//! {"spans":[{"from":1700000000000000000,"to":1700086400000000000,"lived":1700000000000000000}],"boot":"4f0c…","uptime":86400000000000}
//! ```
//! Time while the server was stopped is also measured by the uptime. Across a reboot, only the clock shows how long it
//! was: this counts for at most [`UNKNOWN_MAX`]. In doubt, time stands still: profiles are kept longer, within the
//! limits of bytes.

use std::path::{Path, PathBuf};

use procprof_profile::{Nanos, ProfileId};
use serde::{Deserialize, Serialize};

const SECOND: i64 = 1_000_000_000;
/// Largest difference of clock and uptime between two readings without the clock having been set.
const TOLERANCE: i64 = 60 * SECOND;
/// Largest time that a source may be ahead of the clock.
const AHEAD: i64 = 300 * SECOND;
/// Most time that counts if only the clock shows it.
const UNKNOWN_MAX: i64 = 3600 * SECOND;
/// Settings of the clock remembered; the first one represents all before.
const SPANS_MAX: usize = 64;
/// Largest file read.
const FILE_MAX: u64 = 64 << 10;

/// The clock, boot and uptime at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The clock, UTC.
    pub now: Nanos,
    /// The id of the machine's boot; empty if unknown.
    pub boot: String,
    /// Time since then, sleep included.
    pub uptime: Nanos,
}

/// The spans in which the clock was not set, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    spans: Vec<Span>,
    boot: String,
    uptime: i64,
}

/// A span of time without a setting of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Span {
    /// The clock at its beginning and when it was last read.
    from: i64,
    to: i64,
    /// Time lived at its beginning.
    lived: i64,
}

impl Span {
    fn lived_at(&self, clock: i64) -> i64 {
        self.lived.saturating_add(clock.saturating_sub(self.from))
    }
}

impl Clock {
    /// The clock, the machine's boot id and uptime, from the kernel.
    pub fn read(now: Nanos) -> Clock {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        let uptime = uptime.split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok());
        // Without an uptime, only the clock is known.
        let boot = if uptime.is_some() { boot } else { String::new() };
        Clock { now, boot, uptime: Nanos((uptime.unwrap_or(0.0) * 1e9) as i64) }
    }
}

impl Timeline {
    /// Reads the clock. Returns by how many nanoseconds it was set since the last reading, 0 if it was not.
    pub fn look(&mut self, clock: &Clock) -> i64 {
        let now = clock.now.0;
        let same_boot = !clock.boot.is_empty() && clock.boot == self.boot;
        let uptime = std::mem::replace(&mut self.uptime, clock.uptime.0);
        self.boot.clone_from(&clock.boot);
        let Some(last) = self.spans.last_mut() else {
            self.spans.push(Span { from: now, to: now, lived: now });
            return 0;
        };
        let by_clock = now.saturating_sub(last.to);
        let passed =
            if same_boot { clock.uptime.0.saturating_sub(uptime).max(0) } else { by_clock.clamp(0, UNKNOWN_MAX) };
        let set_by = by_clock.saturating_sub(passed);
        if set_by.abs() <= TOLERANCE {
            last.to = now;
            return 0;
        }
        // It is unknown when between the two readings it was set: both spans cover all of it.
        let begin = Span { from: now.saturating_sub(passed), to: now, lived: last.lived_at(last.to) };
        last.to = last.to.saturating_add(passed);
        self.spans.push(begin);
        if self.spans.len() > SPANS_MAX {
            self.spans.remove(0);
        }
        set_by
    }

    /// The time lived at the last reading.
    pub fn now(&self) -> Nanos {
        Nanos(self.spans.last().map_or(0, |last| last.lived_at(last.to)))
    }

    /// The time lived when a profile was complete: by the clock's time then, else by the time in its id, when it
    /// arrived. A profile of a time that the clock never showed counts as older than the first reading.
    pub fn place(&self, completed: Nanos, id: Option<ProfileId>) -> Nanos {
        let arrived = id.and_then(arrival);
        let first = self.spans.first().map_or(0, |first| first.lived);
        Nanos(self.lived(completed.0).or_else(|| self.lived(arrived?.0)).unwrap_or(first))
    }

    fn lived(&self, clock: i64) -> Option<i64> {
        let (first, last) = (self.spans.first()?, self.spans.last()?);
        if (last.from..=last.to.saturating_add(AHEAD)).contains(&clock) {
            return Some(last.lived_at(clock));
        }
        // If the clock showed a time twice, the later one is used: then the profile is younger.
        if let Some(span) = self.spans.iter().rev().find(|span| (span.from..=span.to).contains(&clock)) {
            return Some(span.lived_at(clock));
        }
        if clock < first.from {
            return Some(first.lived_at(clock));
        }
        // A time that was skipped.
        let is_skipped = self.spans.iter().any(|span| span.from > clock);
        let before = self.spans.iter().rev().find(|span| span.to < clock).filter(|_| is_skipped);
        before.map(|span| span.lived_at(span.to))
    }

    /// Reads it from `DATA`; empty if there is none, or none that can be read.
    pub(crate) fn open(data: &Path) -> Timeline {
        let path = file(data);
        let read = match procprof_files::read(&path, FILE_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Timeline::default(),
            read => read.map_err(|error| error.to_string()),
        };
        let timeline =
            read.and_then(|bytes| serde_json::from_slice::<Timeline>(&bytes).map_err(|error| error.to_string()));
        let sound =
            timeline.and_then(|timeline| timeline.sound().ok_or_else(|| "a span ends before it begins".to_owned()));
        sound.unwrap_or_else(|why| {
            tracing::warn!(file = %path.display(), why, "the record of the clock begins anew");
            Timeline::default()
        })
    }

    fn sound(self) -> Option<Timeline> {
        let sound = self.spans.len() <= SPANS_MAX && self.spans.iter().all(|span| span.from <= span.to);
        sound.then_some(self)
    }

    /// Writes it to `DATA`.
    pub(crate) fn keep(&self, data: &Path) -> std::io::Result<()> {
        let json = serde_json::to_vec(self).map_err(std::io::Error::other)?;
        Ok(procprof_files::replace(&file(data), &json, 0o640)?)
    }
}

fn file(data: &Path) -> PathBuf {
    data.join("clock.json")
}

/// The time in a version 7 UUID.
fn arrival(id: ProfileId) -> Option<Nanos> {
    let is_7 = (id.0 >> 76) & 0xf == 7;
    let millis = i64::try_from(id.0 >> 80).ok()?;
    is_7.then(|| Nanos(millis.saturating_mul(1_000_000)))
}

#[cfg(test)]
mod tests;
