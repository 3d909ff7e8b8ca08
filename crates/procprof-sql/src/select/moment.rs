//! Moments as MySQL writes them, in UTC: `2026-11-21 07:30:00.125`.
//!
//! A statement may do this for every row of the catalog, so writing makes one text, and what is written here is read
//! without the parser that reads everything else.

use std::ops::Range;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

/// Length of date and time to the second.
const SECOND: usize = 19;
/// Its marks between the numbers.
const MARKS: [(usize, u8); 5] = [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':')];

/// A moment in nanoseconds since 1970 as date and time with so many digits behind the second.
pub(super) fn datetime(nanos: i64, digits: usize) -> String {
    let (days, rest) = (nanos.div_euclid(86_400_000_000_000), nanos.rem_euclid(86_400_000_000_000));
    // The years there are, 1677 to 2262, have four digits.
    let (year, month, day) = civil(days);
    let (seconds, fraction) = (rest / 1_000_000_000, rest % 1_000_000_000);
    let mut text = *b"0000-00-00 00:00:00.000000000";
    let numbers = [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, seconds / 3600),
        (14..16, seconds / 60 % 60),
        (17..19, seconds % 60),
    ];
    for (place, number) in numbers.into_iter().chain([(20..29, fraction)]) {
        put(&mut text[place], number);
    }
    let length = if digits == 0 { SECOND } else { SECOND + 1 + digits.min(9) };
    String::from_utf8_lossy(&text[..length]).into_owned()
}

/// Writes a number with leading zeros.
fn put(text: &mut [u8], mut number: i64) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Year, month and day of a day since 1970, by the Gregorian calendar (years of 146 097 days in 400, counted from
/// March).
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

/// Reads a date, a date with a time, or either with `T` and a zone; the default is UTC.
pub(super) fn parse(text: &str) -> Option<DateTime> {
    let text = text.trim();
    if let Some(moment) = plain(text.as_bytes()) {
        return Some(moment);
    }
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Some(TimeZone::UTC.to_datetime(moment));
    }
    text.parse::<DateTime>().ok().or_else(|| text.parse::<Date>().ok().map(|date| date.to_datetime(Time::midnight())))
}

/// Reads what [`datetime`] writes with no digit or three behind the second.
fn plain(text: &[u8]) -> Option<DateTime> {
    let is_plain = text.len() == SECOND || (text.len() == SECOND + 4 && text[SECOND] == b'.');
    if !is_plain || MARKS.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let number = |place: Range<usize>| {
        text[place]
            .iter()
            .try_fold(0_i16, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i16::from(digit - b'0')))
    };
    let small = |place| number(place).and_then(|number| i8::try_from(number).ok());
    let millis = if text.len() > SECOND { number(20..23)? } else { 0 };
    let nanos = i32::from(millis) * 1_000_000;
    DateTime::new(number(0..4)?, small(5..7)?, small(8..10)?, small(11..13)?, small(14..16)?, small(17..19)?, nanos)
        .ok()
}

/// Nanoseconds since 1970 of a moment in UTC; `None` beyond the years that fit.
pub(super) fn nanos(moment: DateTime) -> Option<i64> {
    let timestamp = TimeZone::UTC.to_timestamp(moment).ok()?;
    i64::try_from(timestamp.as_nanosecond()).ok()
}
