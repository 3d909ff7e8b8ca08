//! Dates, moments and times of day as MySQL reads, writes and computes them, in UTC and the Gregorian calendar.
//!
//! A date is a number of days since 1970, a moment and a time are microseconds.

pub(super) const SECOND: i64 = 1_000_000;
pub(super) const DAY: i64 = 86_400 * SECOND;
/// The longest time, 838:59:59.
pub(super) const TIME_MAX: i64 = (838 * 3600 + 59 * 60 + 59) * SECOND;
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// From Monday on.
pub(super) const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Year, month and day of a day (years of 146,097 days in 400, counted from March).
pub(super) fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// The day of a date that exists.
pub(super) fn day(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || day < 1 || day > month_length(year, month) {
        return None;
    }
    Some(day_number(year, month, day))
}

fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of the week from Monday, 0, on.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7)
}

pub(super) fn day_of_year(days: i64) -> i64 {
    days - day_number(civil(days).0, 1, 1) + 1
}

/// The week and its year in one of the eight modes of `WEEK`, or seven that `DATE_FORMAT` uses.
pub(super) fn week(days: i64, mode: i64) -> (i64, i64) {
    let (monday_first, of_year, first_weekday) = (mode & 1 != 0, mode & 2 != 0, (mode & 4 != 0) ^ (mode & 1 == 0));
    let (mut year, month, day) = civil(days);
    let mut first = day_number(year, 1, 1);
    let start = |first: i64| if monday_first { weekday(first) } else { (weekday(first) + 1) % 7 };
    let mut begins = start(first);
    let mut of_year = of_year;
    if month == 1 && day <= 7 - begins {
        if !of_year && ((first_weekday && begins != 0) || (!first_weekday && begins >= 4)) {
            return (year, 0);
        }
        of_year = true;
        year -= 1;
        first = day_number(year, 1, 1);
        begins = start(first);
    }
    let since = if (first_weekday && begins != 0) || (!first_weekday && begins >= 4) {
        days - (first + (7 - begins))
    } else {
        days - (first - begins)
    };
    if of_year && since >= 52 * 7 {
        let length = if is_leap(year) { 366 } else { 365 };
        let next = (begins + length) % 7;
        if (!first_weekday && next < 4) || (first_weekday && next == 0) {
            return (year + 1, 1);
        }
    }
    (year, since / 7 + 1)
}

/// Writes a number that is not negative with at least so many digits.
fn put(out: &mut String, number: i64, width: usize) {
    let mut digits = [b'0'; 20];
    let (mut rest, mut start) = (number.unsigned_abs(), digits.len());
    while rest > 0 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let start = start.min(digits.len() - width);
    out.extend(digits[start..].iter().map(|digit| char::from(*digit)));
}

/// Writes a time of day, or longer, without what is behind the second.
fn put_time(out: &mut String, seconds: i64) {
    put(out, seconds / 3600, 2);
    out.push(':');
    put(out, seconds / 60 % 60, 2);
    out.push(':');
    put(out, seconds % 60, 2);
}

/// Writes digits behind the second.
fn put_fraction(out: &mut String, micros: i64, digits: u8) {
    if digits > 0 {
        let width = usize::from(digits.min(6));
        out.push('.');
        put(out, micros / 10_i64.pow(6 - width as u32), width);
    }
}

pub(super) fn date_text(days: i64) -> String {
    let mut out = String::with_capacity("2026-01-01 00:00:00.000000".len());
    put_date(&mut out, days);
    out
}

fn put_date(out: &mut String, days: i64) {
    let (year, month, day) = civil(days);
    put(out, year, 4);
    out.push('-');
    put(out, month, 2);
    out.push('-');
    put(out, day, 2);
}

pub(super) fn moment_text(micros: i64, digits: u8) -> String {
    let mut out = date_text(micros.div_euclid(DAY));
    let rest = micros.rem_euclid(DAY);
    out.push(' ');
    put_time(&mut out, rest / SECOND);
    put_fraction(&mut out, rest % SECOND, digits);
    out
}

pub(super) fn time_text(micros: i64, digits: u8) -> String {
    let size = micros.unsigned_abs() as i64;
    let mut out = if micros < 0 { "-".to_owned() } else { String::new() };
    put_time(&mut out, size / SECOND);
    put_fraction(&mut out, size % SECOND, digits);
    out
}

/// Numbers in a text, the marks between them, and what follows.
struct Parts<'a> {
    numbers: Vec<(i64, usize)>,
    marks: Vec<u8>,
    rest: &'a [u8],
}

fn parts(text: &[u8]) -> Parts<'_> {
    let mut parts = Parts { numbers: Vec::new(), marks: Vec::new(), rest: text };
    loop {
        let length = parts.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 || length > 20 {
            return parts;
        }
        let number = parts.rest[..length]
            .iter()
            .fold(0_i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
        parts.numbers.push((number, length));
        parts.rest = &parts.rest[length..];
        match parts.rest {
            [mark, next, ..]
                if (mark.is_ascii_punctuation() || *mark == b' ' || *mark == b'T') && next.is_ascii_digit() =>
            {
                parts.marks.push(*mark);
                parts.rest = &parts.rest[1..];
            }
            _ => return parts,
        }
    }
}

/// Microseconds of digits behind the point, and how many digits of them count.
fn fraction(number: i64, length: usize) -> i64 {
    match length {
        0..=6 => number * 10_i64.pow(6 - length as u32),
        _ => {
            let scale = 10_i64.pow((length - 6).min(18) as u32);
            number / scale + i64::from(number % scale * 2 >= scale)
        }
    }
}

fn full_year(year: i64, digits: usize) -> i64 {
    match (digits, year) {
        (1 | 2, 0..=69) => 2000 + year,
        (1 | 2, _) => 1900 + year,
        _ => year,
    }
}

/// Reads a moment, in microseconds, and the digits behind its second; text behind it is as if it were not there.
pub(super) fn parse_moment(text: &str) -> Option<(i64, u8)> {
    let text = text.trim_start();
    let parts = parts(text.as_bytes());
    let (first, length) = *parts.numbers.first()?;
    let with = |year, month, date, time: &[(i64, usize)]| {
        let number = |at: usize| time.get(at).map_or(0, |(number, _)| *number);
        let (hour, minute, second) = (number(0), number(1), number(2));
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let (micros, digits) = time.get(3).map_or((0, 0), |(number, length)| (fraction(*number, *length), *length));
        let seconds = hour * 3600 + minute * 60 + second;
        Some((day(year, month, date)? * DAY + seconds * SECOND + micros, digits.min(6) as u8))
    };
    if parts.marks.is_empty() || (parts.marks == [b'.'] && length > 4) {
        let (year_digits, rest) = match length {
            14 | 8 => (4, length - 4),
            12 | 6 => (2, length - 2),
            _ => return None,
        };
        let year = first / 10_i64.pow(rest as u32);
        let number = |from_right: usize| first / 10_i64.pow(from_right as u32) % 100;
        let year = full_year(year, year_digits);
        if rest == 4 {
            return with(year, number(2), number(0), &[]);
        }
        let mut time = vec![(number(4), 2), (number(2), 2), (number(0), 2)];
        time.extend(parts.numbers.get(1));
        return with(year, number(8), number(6), &time);
    }
    let [_, (month, _), (date, _), time @ ..] = parts.numbers.as_slice() else { return None };
    // Digits behind a second follow a point.
    let time =
        if time.len() > 3 && parts.marks.get(5) != Some(&b'.') { &time[..3] } else { &time[..time.len().min(4)] };
    with(full_year(first, length), *month, *date, time)
}

/// Reads a time, in microseconds, and the digits behind its second: `-HH:MM:SS.f`, `D HH:MM`, `HHMMSS`, or the time of
/// a moment.
pub(super) fn parse_time(text: &str) -> Option<(i64, u8)> {
    let text = text.trim();
    let (negative, bare) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let parts = parts(bare.as_bytes());
    if !negative && parts.numbers.len() >= 3 && matches!(parts.marks.as_slice(), [b'-' | b'/', b'-' | b'/', ..]) {
        return parse_moment(text).map(|(micros, digits)| (micros.rem_euclid(DAY), digits));
    }
    let mut numbers = parts.numbers.as_slice();
    let mut marks = parts.marks.as_slice();
    let mut days = 0;
    if let ([b' ', rest @ ..], [(number, _), times @ ..]) = (marks, numbers) {
        (days, numbers, marks) = (*number, times, rest);
    }
    let (hours, minutes, seconds, behind) = match (numbers, marks) {
        ([(number, _)], []) if days > 0 => (*number, 0, 0, None),
        ([(number, length)], []) if *length == 14 || *length == 12 => {
            let _ = number;
            return parse_moment(bare).map(|(micros, digits)| (micros.rem_euclid(DAY), digits));
        }
        ([(number, _)], []) => (number / 10_000, number / 100 % 100, number % 100, None),
        ([(number, _), behind], [b'.']) => (number / 10_000, number / 100 % 100, number % 100, Some(behind)),
        ([(hours, _), (minutes, _)], [b':']) => (*hours, *minutes, 0, None),
        ([(hours, _), (minutes, _), (seconds, _), rest @ ..], [b':', b':', ..]) => {
            (*hours, *minutes, *seconds, rest.first().filter(|_| marks.get(2) == Some(&b'.')))
        }
        _ => return None,
    };
    if minutes > 59 || seconds > 59 {
        return None;
    }
    let (micros, digits) = behind.map_or((0, 0), |(number, length)| (fraction(*number, *length), *length));
    let whole = days.checked_mul(24)?.checked_add(hours)?.checked_mul(3600)?.checked_add(minutes * 60 + seconds)?;
    let size = whole.checked_mul(SECOND)?.checked_add(micros)?.min(TIME_MAX);
    Some((if negative { -size } else { size }, digits.min(6) as u8))
}

/// Digits a text of a moment or time has behind its second.
pub(super) fn fraction_digits(text: &str) -> u8 {
    text.rsplit_once('.').map_or(0, |(_, digits)| digits.bytes().take_while(u8::is_ascii_digit).count().min(6) as u8)
}

/// A moment so many months later; a day that the month lacks becomes its last.
pub(super) fn add_months(micros: i64, months: i64) -> Option<i64> {
    let (year, month, date) = civil(micros.div_euclid(DAY));
    let total = (year * 12 + month - 1).checked_add(months)?;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
    Some(day(year, month, date.min(month_length(year, month)))? * DAY + micros.rem_euclid(DAY))
}

/// A moment that has a year of four digits.
pub(super) fn within(micros: i64) -> Option<i64> {
    (0..=9999).contains(&civil(micros.div_euclid(DAY)).0).then_some(micros)
}

/// A moment by the directives of `DATE_FORMAT`.
pub(super) fn formatted(days: i64, time: i64, format: &str) -> String {
    let (year, month, date) = civil(days);
    let seconds = time / SECOND;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let half = if hour % 24 < 12 { "AM" } else { "PM" };
    let weekday = weekday(days);
    let mut out = String::with_capacity(format.len() + 16);
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        let directive = if character == '%' { rest.next() } else { None };
        let Some(directive) = directive else {
            out.push(character);
            continue;
        };
        match directive {
            'Y' => put(&mut out, year, 4),
            'y' => put(&mut out, year % 100, 2),
            'm' => put(&mut out, month, 2),
            'c' => put(&mut out, month, 1),
            'd' => put(&mut out, date, 2),
            'e' => put(&mut out, date, 1),
            'D' => {
                let suffix = match date {
                    1 | 21 | 31 => "st",
                    2 | 22 => "nd",
                    3 | 23 => "rd",
                    _ => "th",
                };
                put(&mut out, date, 1);
                out.push_str(suffix);
            }
            'H' => put(&mut out, hour, 2),
            'k' => put(&mut out, hour, 1),
            'h' | 'I' => put(&mut out, twelve, 2),
            'l' => put(&mut out, twelve, 1),
            'i' => put(&mut out, minute, 2),
            's' | 'S' => put(&mut out, second, 2),
            'f' => put(&mut out, time % SECOND, 6),
            'p' => out.push_str(half),
            'r' => {
                put_time(&mut out, twelve * 3600 + seconds % 3600);
                out.push(' ');
                out.push_str(half);
            }
            'T' => put_time(&mut out, seconds),
            'W' => out.push_str(WEEKDAYS[weekday as usize]),
            'a' => out.push_str(&WEEKDAYS[weekday as usize][..3]),
            'w' => put(&mut out, (weekday + 1) % 7, 1),
            'M' => out.push_str(MONTHS[month as usize - 1]),
            'b' => out.push_str(&MONTHS[month as usize - 1][..3]),
            'j' => put(&mut out, day_of_year(days), 3),
            'U' => put(&mut out, week(days, 0).1, 2),
            'u' => put(&mut out, week(days, 1).1, 2),
            'V' => put(&mut out, week(days, 2).1, 2),
            'v' => put(&mut out, week(days, 3).1, 2),
            'X' => put(&mut out, week(days, 2).0, 4),
            'x' => put(&mut out, week(days, 3).0, 4),
            other => out.push(other),
        }
    }
    out
}
