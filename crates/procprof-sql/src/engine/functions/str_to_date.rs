//! `STR_TO_DATE`.

use super::super::call::Arguments;
use super::super::moment::{self, DAY, MONTHS, SECOND, WEEKDAYS, day, within};
use super::super::types::SqlType;
use super::super::value::Val;
use super::dates::Answer;

/// `STR_TO_DATE`: the word is the kind of the result.
pub(in super::super) fn read(call: &Arguments<'_>) -> Answer {
    let (Some(text), Some(format)) = (call.text(0), call.text(1)) else { return Ok(Val::Null) };
    let Some((days, time)) = parsed(&text, &format) else { return Ok(Val::Null) };
    Ok(match (call.call.returns, days) {
        (SqlType::Date, Some(days)) => Val::Date(days),
        (SqlType::Time { .. }, _) => Val::Time(time),
        (SqlType::DateTime { .. }, Some(days)) => Val::DateTime(days * DAY + time),
        _ => Val::Null,
    })
}

/// Which parts a format of `STR_TO_DATE` has.
pub(in super::super) fn read_type(format: &str) -> Option<SqlType> {
    let directives: Vec<char> = format.split('%').skip(1).filter_map(|part| part.chars().next()).collect();
    let has = |of: &str| directives.iter().any(|directive| of.contains(*directive));
    // A date has all of its parts.
    let is_part = has("YymcdeMbD") && !(has("Yy") && has("mcMb") && has("deD"));
    let is_week = has("X") && has("V") || has("x") && has("v");
    if is_week && has("Waw") && !has("YymcdeMbDUuj") && !has("HkhIlisSpTrf") {
        return Some(SqlType::Date);
    }
    if has("UuVvXxwj") || is_part || has("Wa") && !has("Yy") {
        return None;
    }
    let (date, time, micros) = (has("YymcdeMbDWa"), has("HkhIlisSpTr"), has("f"));
    let digits = if micros { 6 } else { 0 };
    Some(match (date, time || micros) {
        (true, true) => SqlType::DateTime { digits },
        (false, true) => SqlType::Time { digits },
        _ => SqlType::Date,
    })
}

/// Days and time in a text, by a format.
fn parsed(text: &str, format: &str) -> Option<(Option<i64>, i64)> {
    let mut rest = text;
    let (mut year, mut month, mut date) = (None, None, None);
    let (mut of_week, mut week_number, mut weekday) = (None, None, None);
    let (mut hour, mut minute, mut second, mut micros, mut afternoon, mut is_twelve) = (0, 0, 0, 0, None, false);
    fn number(rest: &mut &str, most: usize) -> Option<i64> {
        let length = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, after) = rest.split_at(length);
        *rest = after;
        digits.parse().ok()
    }
    fn name(rest: &mut &str, names: &[&str], length: usize) -> Option<i64> {
        let place = names.iter().position(|name| {
            let name = if length == 0 { name } else { &name[..length] };
            rest.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name))
        })?;
        let used = if length == 0 { names[place].len() } else { length };
        *rest = &rest[used..];
        Some(place as i64)
    }
    let mut directives = format.chars();
    while let Some(character) = directives.next() {
        rest = rest.trim_start();
        let directive = if character == '%' { directives.next() } else { None };
        let Some(directive) = directive else {
            if !character.is_whitespace() {
                rest = rest.strip_prefix(character)?;
            }
            continue;
        };
        match directive {
            'Y' => {
                let before = rest.len();
                let found = number(&mut rest, 4)?;
                year = Some(if before - rest.len() <= 2 {
                    if found < 70 { found + 2000 } else { found + 1900 }
                } else {
                    found
                });
            }
            'y' => year = number(&mut rest, 2).map(|year| if year < 70 { year + 2000 } else { year + 1900 }),
            'm' | 'c' => month = Some(number(&mut rest, 2)?),
            'd' | 'e' => date = Some(number(&mut rest, 2)?),
            'D' => {
                date = Some(number(&mut rest, 2)?);
                rest = rest.get(2..)?;
            }
            'M' => month = Some(name(&mut rest, &MONTHS, 0)? + 1),
            'b' => month = Some(name(&mut rest, &MONTHS, 3)? + 1),
            'W' => weekday = Some(name(&mut rest, &WEEKDAYS, 0)?),
            'a' => weekday = Some(name(&mut rest, &WEEKDAYS, 3)?),
            // From Sunday on.
            'w' => weekday = Some((number(&mut rest, 1).filter(|day| *day <= 6)? + 6) % 7),
            'X' | 'x' => of_week = Some((number(&mut rest, 4)?, directive == 'X')),
            'V' | 'v' => week_number = Some(number(&mut rest, 2).filter(|week| (1..=53).contains(week))?),
            'H' | 'k' => hour = number(&mut rest, 2)?,
            'h' | 'I' | 'l' => {
                hour = number(&mut rest, 2).filter(|hour| (1..=12).contains(hour))?;
                is_twelve = true;
            }
            'i' => minute = number(&mut rest, 2)?,
            's' | 'S' => second = number(&mut rest, 2)?,
            'f' => {
                let before = rest.len();
                let found = number(&mut rest, 6)?;
                micros = found * 10_i64.pow(6 - (before - rest.len()) as u32);
            }
            'p' => afternoon = Some(name(&mut rest, &["AM", "PM"], 0)? == 1),
            'T' => {
                hour = number(&mut rest, 2)?;
                rest = rest.strip_prefix(':')?;
                minute = number(&mut rest, 2)?;
                rest = rest.strip_prefix(':')?;
                second = number(&mut rest, 2)?;
            }
            '%' => rest = rest.strip_prefix('%')?,
            _ => return None,
        }
    }
    if is_twelve || afternoon.is_some() {
        hour = hour % 12 + if afternoon == Some(true) { 12 } else { 0 };
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let time = (hour * 3600 + minute * 60 + second) * SECOND + micros;
    if let (Some((year, sunday_first)), Some(week), Some(weekday)) = (of_week, week_number, weekday) {
        let first = day(year, 1, 1)?;
        let begins = moment::weekday(first);
        let days = match sunday_first {
            true => (7 - (begins + 1) % 7) % 7 + (week - 1) * 7 + (weekday + 1) % 7,
            false => (if begins <= 3 { 0 } else { 7 }) - begins + (week - 1) * 7 + weekday,
        };
        return within((first + days) * DAY).map(|micros| (Some(micros.div_euclid(DAY)), 0));
    }
    let days = match (year, month, date) {
        (None, None, None) => None,
        (year, month, date) => Some(day(year?, month?, date?)?),
    };
    Some((days, time))
}
