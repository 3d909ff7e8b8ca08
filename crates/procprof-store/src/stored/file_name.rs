//! Names of profile files: `<prefix>-profile-<yyyyMMdd-HHmmss><suffix>`.
//!
//! ```text
//! cpu-profile-20261120-222534-pprof.gz            gzip'd pprof
//! cpu-profile-20261120-222534-flame.html.gz       a gzip'd HTML or SVG page made elsewhere
//! mem-profile-20261120-222534.html.tar.gz         a tar archive with one HTML page made elsewhere
//! recording-profile-20261120-222534.jfr           a recording of a JVM that profiles were made of
//! ```
//! The store's own names carry UTC. Foreign names carry their machine's local time, and may carry a date only
//! (`cpu-profile-20261120-anything-pprof.gz`). Only names of this form are accepted: other files are not profiles, and
//! no accepted name can leave its folder.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use procprof_profile::{Nanos, ProfileType};

use crate::Error;

/// The content of a stored file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Gzip'd pprof, `-pprof.gz`.
    Pprof,
    /// A gzip'd page made elsewhere, HTML or SVG by content, `-flame.html.gz`.
    Flame,
    /// A gzip'd tar archive with one HTML page made elsewhere, `.html.tar.gz`.
    HtmlArchive,
    /// A recording of a JVM, `.jfr`, as it was recorded.
    Recording,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 4] = [Format::Pprof, Format::Flame, Format::HtmlArchive, Format::Recording];

    /// The suffix of the file name, after the time.
    pub fn suffix(self) -> &'static str {
        match self {
            Format::Pprof => "-pprof.gz",
            Format::Flame => "-flame.html.gz",
            Format::HtmlArchive => ".html.tar.gz",
            Format::Recording => ".jfr",
        }
    }
}

/// The parts of a profile's file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileName {
    pub(crate) profile_type: ProfileType,
    /// Local time for foreign names, UTC for the store's own.
    pub(crate) time: DateTime,
    pub(crate) format: Format,
}

const LONGEST: usize = 128;
const INFIX: &str = "-profile-";

impl FileName {
    /// Parses a name as the store writes it.
    pub(crate) fn parse(name: &str) -> Option<FileName> {
        let (profile_type, rest, format) = split(name)?;
        let time = date_time(rest.get(..15)?).filter(|_| rest.len() == 15)?;
        Some(FileName { profile_type, time, format })
    }

    /// Parses a name as StarRocks writes or accepts it: also with a date only, which means its midnight, and an archive
    /// also as `.tar.gz`.
    pub(crate) fn parse_foreign(name: &str) -> Option<FileName> {
        if let Some(archive) = name.strip_suffix(".tar.gz").filter(|stem| !stem.ends_with(".html")) {
            return FileName::parse_foreign(&format!("{archive}{}", Format::HtmlArchive.suffix()));
        }
        FileName::parse(name).or_else(|| {
            let (profile_type, rest, format) = split(name)?;
            let date = rest.get(..8).filter(|_| rest.len() == 8 || rest.as_bytes().get(8) == Some(&b'-'))?;
            let time = date_time(&format!("{date}-000000"))?;
            Some(FileName { profile_type, time, format })
        })
    }

    /// The store's name of a profile that starts at that time, to the second.
    pub(crate) fn compose(profile_type: &ProfileType, start: Timestamp, format: Format) -> String {
        let time = TimeZone::UTC.to_datetime(start).strftime("%Y%m%d-%H%M%S");
        format!("{}{INFIX}{time}{}", profile_type.prefix(), format.suffix())
    }

    /// The time in the name, in `zone`. In an hour that the clocks repeated, it is the first one; in an hour that they
    /// skipped, it is moved forward by the skipped time.
    pub(crate) fn moment(&self, zone: &TimeZone) -> Option<Nanos> {
        let moment = zone.to_ambiguous_timestamp(self.time).compatible().ok()?;
        i64::try_from(moment.as_nanosecond()).ok().map(Nanos)
    }
}

/// The whole second of `start`, as a time that `jiff` can express, and `later` seconds after it.
pub(crate) fn second_of(start: Nanos, later: i64) -> Result<Timestamp, Error> {
    let seconds = start.0.div_euclid(1_000_000_000);
    let moment =
        Timestamp::from_second(seconds).and_then(|moment| moment.checked_add(SignedDuration::from_secs(later)));
    moment.map_err(|_| Error::Argument { what: "start time", text: start.0.to_string(), why: "out of range" })
}

fn split(name: &str) -> Option<(ProfileType, &str, Format)> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.len() > LONGEST || !name.bytes().all(legal) {
        return None;
    }
    let (prefix, rest) = name.split_once(INFIX)?;
    let format = Format::ALL.into_iter().find(|format| rest.ends_with(format.suffix()))?;
    let rest = rest.strip_suffix(format.suffix())?;
    Some((ProfileType::from_prefix(prefix)?, rest, format))
}

/// `yyyyMMdd-HHmmss`, digits only where digits belong.
fn date_time(text: &str) -> Option<DateTime> {
    let number = |from: usize, to: usize| -> Option<i16> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let small = |from: usize| number(from, from + 2).and_then(|value| i8::try_from(value).ok());
    if text.as_bytes().get(8) != Some(&b'-') {
        return None;
    }
    DateTime::new(number(0, 4)?, small(4)?, small(6)?, small(9)?, small(11)?, small(13)?, 0).ok()
}

#[cfg(test)]
mod tests;
