//! Moments as MySQL writes them, in UTC: `2026-11-21 07:30:00.125`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

/// A moment in nanoseconds since 1970 as date and time with so many digits behind the second.
pub(super) fn datetime(nanos: i64, digits: u32) -> String {
    let (days, rest) = (nanos.div_euclid(86_400_000_000_000), nanos.rem_euclid(86_400_000_000_000));
    let (year, month, day) = civil(days);
    let (seconds, fraction) = (rest / 1_000_000_000, rest % 1_000_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let text = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
    match digits {
        0 => text,
        _ => format!("{text}.{:0width$}", fraction / 10_i64.pow(9 - digits.min(9)), width = digits.min(9) as usize),
    }
}

/// Year, month and day of a day since 1970, by the Gregorian calendar (years of 146 097 days in 400, counted from March).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Reads a date, a date with a time, or either with `T` and a zone; UTC unless a zone is said.
pub(super) fn parse(text: &str) -> Option<DateTime> {
    let text = text.trim();
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Some(TimeZone::UTC.to_datetime(moment));
    }
    text.parse::<DateTime>().ok().or_else(|| text.parse::<Date>().ok().map(|date| date.to_datetime(Time::midnight())))
}

/// Nanoseconds since 1970 of a moment in UTC; `None` beyond the years that fit.
pub(super) fn nanos(moment: DateTime) -> Option<i64> {
    let timestamp = TimeZone::UTC.to_timestamp(moment).ok()?;
    i64::try_from(timestamp.as_nanosecond()).ok()
}
