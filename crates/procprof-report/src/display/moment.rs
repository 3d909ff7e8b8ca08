//! A point in time as text in UTC, without a clock or a time zone table.

use procprof_profile::Nanos;

/// `2026-11-20 22:08:03 UTC`, to the second below.
pub(crate) fn utc(moment: Nanos) -> String {
    let seconds = moment.0.div_euclid(1_000_000_000);
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

/// As [`utc`] with the nanoseconds that there are, the way Go prints a time: `2026-11-20 22:08:03.5 +0000 UTC`.
pub(crate) fn utc_nanos(moment: Nanos) -> String {
    let text = utc(moment);
    let (seconds, _) = text.rsplit_once(' ').unwrap_or((&text, ""));
    format!("{seconds}{} +0000 UTC", fraction(moment.0.rem_euclid(1_000_000_000), 9))
}

/// A length of time the way Go prints it: `1h2m3.5s`, `12.3ms`.
pub(crate) fn duration(length: Nanos) -> String {
    let sign = if length.0 < 0 { "-" } else { "" };
    let nanos = length.0.saturating_abs();
    let (unit, digits) = match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => ("ns", 0),
        1_000..1_000_000 => ("\u{b5}s", 3),
        1_000_000..1_000_000_000 => ("ms", 6),
        _ => ("s", 9),
    };
    let scale = 10i64.pow(digits);
    let (whole, rest) = (nanos / scale, fraction(nanos % scale, digits as usize));
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (digits, hours, whole / 60) {
        (9, 1.., _) => format!("{sign}{hours}h{minutes}m{seconds}{rest}s"),
        (9, _, 1..) => format!("{sign}{minutes}m{seconds}{rest}s"),
        _ => format!("{sign}{whole}{rest}{unit}"),
    }
}

/// `.5` for a part of 10^digits; nothing for 0.
fn fraction(part: i64, digits: usize) -> String {
    if part == 0 { String::new() } else { format!(".{part:0digits$}").trim_end_matches('0').to_owned() }
}

/// Year, month and day of a day since 1970-01-01, in the proleptic Gregorian calendar; years are counted from March, so
/// that the leap day is the last of its year.
fn civil(day: i64) -> (i64, i64, i64) {
    let since_0000_march = day + 719_468;
    let era = since_0000_march.div_euclid(146_097);
    let day_of_era = since_0000_march.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::{duration, utc, utc_nanos};
    use procprof_profile::Nanos;

    #[test]
    fn moments_are_written_in_utc() {
        let cases: &[(i64, &str)] = &[
            (0, "1970-01-01 00:00:00 UTC"),
            (951_827_696_000_000_001, "2000-02-29 12:34:56 UTC"),
            (1_700_000_000_999_999_999, "2023-11-14 22:13:20 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (4_107_542_400_000_000_000, "2100-03-01 00:00:00 UTC"),
        ];
        for (nanos, expected) in cases {
            assert_eq!(utc(Nanos(*nanos)), *expected);
        }
    }

    #[test]
    fn times_are_written_as_go_does() {
        assert_eq!(utc_nanos(Nanos(951_827_696_500_000_000)), "2000-02-29 12:34:56.5 +0000 UTC");
        assert_eq!(utc_nanos(Nanos(0)), "1970-01-01 00:00:00 +0000 UTC");
        let cases: &[(i64, &str)] = &[
            (0, "0s"),
            (17, "17ns"),
            (1_500, "1.5\u{b5}s"),
            (12_300_000, "12.3ms"),
            (10_010_000_000, "10.01s"),
            (60_000_000_000, "1m0s"),
            (3_723_500_000_000, "1h2m3.5s"),
            (-1_000_000_000, "-1s"),
        ];
        for (nanos, expected) in cases {
            assert_eq!(duration(Nanos(*nanos)), *expected);
        }
    }
}
