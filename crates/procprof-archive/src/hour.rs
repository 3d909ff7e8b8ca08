//! [`Hour`]: the unit in which profiles are archived.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use procprof_profile::Nanos;

const NANOS: i64 = 3_600_000_000_000;

/// An hour of UTC, as the number of hours since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(pub i64);

impl Hour {
    /// The hour of a moment.
    pub fn containing(moment: Nanos) -> Hour {
        Hour(moment.0.div_euclid(NANOS))
    }

    /// Its first moment; saturates at the range of [`Nanos`].
    pub fn start(self) -> Nanos {
        Nanos(self.0.saturating_mul(NANOS))
    }

    /// The first moment after it.
    pub fn end(self) -> Nanos {
        Hour(self.0.saturating_add(1)).start()
    }

    /// The first hour of its day.
    pub fn day(self) -> Hour {
        Hour(self.0.saturating_sub(i64::from(self.of_day())))
    }

    /// The first hour of the day after.
    pub fn next_day(self) -> Hour {
        Hour(self.day().0.saturating_add(24))
    }

    /// Its number within the day, from 0 to 23.
    pub(crate) fn of_day(self) -> u8 {
        self.0.rem_euclid(24) as u8
    }

    /// The folder of its day: `date=2026-11-24`.
    pub(crate) fn date(self) -> String {
        format!("date={}", self.civil().date())
    }

    /// The first hour of the day of a folder.
    pub(crate) fn parse_date(date: &str) -> Option<Hour> {
        Hour::parse(date, "hour=00").filter(|hour| hour.date() == date)
    }

    /// The hour of a partition's two folders, as [`Hour`]'s `Display` writes them.
    pub(crate) fn parse(date: &str, hour: &str) -> Option<Hour> {
        let date = date.strip_prefix("date=")?.parse::<jiff::civil::Date>().ok()?;
        let hour = hour.strip_prefix("hour=").filter(|digits| digits.len() == 2)?.parse().ok()?;
        let moment = date.to_datetime(jiff::civil::Time::new(hour, 0, 0, 0).ok()?);
        let found = Hour(TimeZone::UTC.to_timestamp(moment).ok()?.as_second().div_euclid(3600));
        Some(found)
    }

    fn civil(self) -> DateTime {
        let moment = Timestamp::from_second(self.0.saturating_mul(3600)).unwrap_or_default();
        TimeZone::UTC.to_datetime(moment)
    }
}

/// The partition, as in a path: `date=2026-11-24/hour=15`.
impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = self.civil();
        write!(f, "date={}/hour={:02}", civil.date(), civil.hour())
    }
}
