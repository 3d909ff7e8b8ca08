//! Functions of texts.

use std::borrow::Cow;

use super::super::call::Arguments;
use super::super::collation::{folded, key};
use super::super::types::{Collation, SqlType};
use super::super::value::{Val, real_text};
use super::search;
use super::{ANY, Function, integer, literal, logical, row, text, text_of_first};
use crate::mysql::{SqlError, SqlErrorKind};

type Answer = Result<Val<'static>, SqlError>;

/// The functions, by name.
pub(super) const FUNCTIONS: &[Function] = &[
    row("length", (1, 1), integer, |call| count(call, |text| text.len())),
    row("octet_length", (1, 1), integer, |call| count(call, |text| text.len())),
    row("bit_length", (1, 1), integer, |call| count(call, |text| text.len() * 8)),
    row("char_length", (1, 1), integer, |call| count(call, |text| text.chars().count())),
    row("character_length", (1, 1), integer, |call| count(call, |text| text.chars().count())),
    row("upper", (1, 1), text, |call| map(call, |text| text.chars().map(upper).collect())),
    row("ucase", (1, 1), text, |call| map(call, |text| text.chars().map(upper).collect())),
    row("lower", (1, 1), text, |call| map(call, |text| text.chars().map(lower).collect())),
    row("lcase", (1, 1), text, |call| map(call, |text| text.chars().map(lower).collect())),
    row("reverse", (1, 1), text, |call| map(call, |text| text.chars().rev().collect())),
    row("ascii", (1, 1), integer, |call| count(call, |text| text.bytes().next().unwrap_or(0).into())),
    row("ord", (1, 1), integer, |call| {
        count(call, |text| {
            let length = text.chars().next().map_or(0, char::len_utf8);
            text.bytes().take(length).fold(0, |number, byte| number << 8 | usize::from(byte))
        })
    }),
    row("hex", (1, 1), literal, hex),
    row(
        "unhex",
        (1, 1),
        |_| Ok(SqlType::Bytes),
        |call| {
            let Some(text) = call.text(0) else { return Ok(Val::Null) };
            let padded: Cow<'_, str> = if text.len() % 2 == 1 { format!("0{text}").into() } else { text };
            let digits: Option<Vec<u8>> =
                padded.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
            Ok(digits.map_or(Val::Null, |digits| {
                Val::Bytes(Cow::Owned(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
            }))
        },
    ),
    row("quote", (1, 1), text, |call| {
        let Some(text) = call.text(0) else { return Ok("NULL".to_owned().into()) };
        let mut quoted = String::from("'");
        for character in text.chars() {
            match character {
                '\0' => quoted += "\\0",
                '\x1a' => quoted += "\\Z",
                '\'' | '\\' => quoted.extend(['\\', character]),
                other => quoted.push(other),
            }
        }
        Ok((quoted + "'").into())
    }),
    row("soundex", (1, 1), text, |call| map(call, soundex)),
    row("to_base64", (1, 1), literal, |call| {
        use base64::Engine;
        let Some(bytes) = call.bytes(0) else { return Ok(Val::Null) };
        let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
        let lines: Vec<String> =
            encoded.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        Ok(lines.join("\n").into())
    }),
    row(
        "from_base64",
        (1, 1),
        |_| Ok(SqlType::Bytes),
        |call| {
            use base64::Engine;
            let Some(text) = call.text(0) else { return Ok(Val::Null) };
            let bare: String = text.chars().filter(|character| !character.is_ascii_whitespace()).collect();
            let decoded = base64::engine::general_purpose::STANDARD.decode(bare);
            Ok(decoded.map_or(Val::Null, |bytes| Val::Bytes(Cow::Owned(bytes))))
        },
    ),
    row("concat", (1, ANY), text, |call| {
        let mut joined = String::new();
        for index in 0..call.len() {
            let Some(text) = call.text(index) else { return Ok(Val::Null) };
            call.room(joined.len() + text.len())?;
            joined += &text;
        }
        Ok(joined.into())
    }),
    row("concat_ws", (2, ANY), text, |call| {
        let Some(divider) = call.text(0) else { return Ok(Val::Null) };
        let mut joined = String::new();
        let mut is_first = true;
        for text in (1..call.len()).filter_map(|index| call.text(index)) {
            call.room(joined.len() + divider.len() + text.len())?;
            if !is_first {
                joined += &divider;
            }
            is_first = false;
            joined += &text;
        }
        Ok(joined.into())
    }),
    row("left", (2, 2), text_of_first, |call| {
        let (Some(text), Some(length)) = (call.text(0), call.integer(1)) else { return Ok(Val::Null) };
        Ok(text.chars().take(size(length)).collect::<String>().into())
    }),
    row("right", (2, 2), text_of_first, |call| {
        let (Some(text), Some(length)) = (call.text(0), call.integer(1)) else { return Ok(Val::Null) };
        let skipped = text.chars().count().saturating_sub(size(length));
        Ok(text.chars().skip(skipped).collect::<String>().into())
    }),
    row("substring", (2, 3), text_of_first, substring),
    row("substr", (2, 3), text_of_first, substring),
    row("mid", (2, 3), text_of_first, substring),
    row("lpad", (2, 3), text, |call| padded(call, |text, filler| filler + text)),
    row("rpad", (2, 3), text, |call| padded(call, |text, filler| text.to_owned() + &filler)),
    row("repeat", (2, 2), text_of_first, |call| {
        let (Some(text), Some(times)) = (call.text(0), call.integer(1)) else { return Ok(Val::Null) };
        call.room(text.len().saturating_mul(size(times)))?;
        Ok(text.repeat(size(times)).into())
    }),
    row("space", (1, 1), literal, |call| {
        let Some(times) = call.integer(0) else { return Ok(Val::Null) };
        call.room(size(times))?;
        Ok(" ".repeat(size(times)).into())
    }),
    row("ltrim", (1, 1), text_of_first, |call| map(call, |text| text.trim_start_matches(' ').to_owned())),
    row("rtrim", (1, 1), text_of_first, |call| map(call, |text| text.trim_end_matches(' ').to_owned())),
    row("trim", (1, 2), text_of_first, trimmed),
    row("locate", (2, 3), integer, |call| search::position(call, 0, 1, call.integer(2))),
    row("position", (2, 2), integer, |call| search::position(call, 0, 1, None)),
    row("instr", (2, 2), integer, |call| search::position(call, 1, 0, None)),
    row("replace", (3, 3), text, |call| {
        let (Some(text), Some(old), Some(new)) = (call.text(0), call.text(1), call.text(2)) else {
            return Ok(Val::Null);
        };
        if old.is_empty() {
            return Ok(text.into_owned().into());
        }
        let found = text.matches(&*old).count();
        call.room(text.len() - found * old.len() + found.saturating_mul(new.len()))?;
        Ok(text.replace(&*old, &new).into())
    }),
    row("insert", (4, 4), text, |call| {
        let (Some(text), Some(at), Some(length), Some(new)) =
            (call.text(0), call.integer(1), call.integer(2), call.text(3))
        else {
            return Ok(Val::Null);
        };
        let characters: Vec<char> = text.chars().collect();
        if at < 1 || size(at) > characters.len() {
            return Ok(text.into_owned().into());
        }
        let start = size(at) - 1;
        let end = if length < 0 { characters.len() } else { start.saturating_add(size(length)).min(characters.len()) };
        let made = characters[..start].iter().copied().chain(new.chars()).chain(characters[end..].iter().copied());
        Ok(made.collect::<String>().into())
    }),
    row("substring_index", (3, 3), text, |call| {
        let (Some(text), Some(divider), Some(count)) = (call.text(0), call.text(1), call.integer(2)) else {
            return Ok(Val::Null);
        };
        if divider.is_empty() || count == 0 {
            return Ok(String::new().into());
        }
        let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let made = if count > 0 {
            text.match_indices(&*divider).nth(most - 1).map(|(at, _)| &text[..at])
        } else {
            text.rmatch_indices(&*divider).nth(most - 1).map(|(at, _)| &text[at + divider.len()..])
        };
        Ok(made.unwrap_or(&text).to_owned().into())
    }),
    row("find_in_set", (2, 2), integer, |call| {
        let (Some(wanted), Some(set)) = (call.text(0), call.text(1)) else { return Ok(Val::Null) };
        let collation = call.collation();
        if set.is_empty() || wanted.contains(',') {
            return Ok(Val::Integer(0));
        }
        let wanted = key(&wanted, collation);
        let place = set.split(',').position(|own| key(own, collation) == wanted);
        Ok(Val::Integer(place.map_or(0, |place| place as i64 + 1)))
    }),
    row("field", (2, ANY), integer, |call| {
        let all_text = call.call.types.iter().all(|kind| kind.is_text());
        if *call.value(0) == Val::Null {
            return Ok(Val::Integer(0));
        }
        let collation = call.collation();
        let is_same = |index: usize| {
            if all_text {
                let (Some(own), Some(other)) = (call.text(0), call.text(index)) else { return false };
                return key(&own, collation) == key(&other, collation);
            }
            call.real(index).is_some_and(|other| Some(other) == call.real(0))
        };
        let place = (1..call.len()).find(|index| is_same(*index));
        Ok(Val::Integer(place.unwrap_or(0) as i64))
    }),
    row(
        "elt",
        (2, ANY),
        |types| text(types.get(1..).unwrap_or_default()),
        |call| {
            let place = call.integer(0).and_then(|place| usize::try_from(place).ok()).filter(|place| *place > 0);
            Ok(place.and_then(|place| call.text(place)).map_or(Val::Null, |text| text.into_owned().into()))
        },
    ),
    row(
        "make_set",
        (2, ANY),
        |types| text(types.get(1..).unwrap_or_default()),
        |call| {
            let Some(bits) = call.integer(0) else { return Ok(Val::Null) };
            let chosen = (1..call.len()).filter(|index| *index <= 64 && bits >> (index - 1) & 1 == 1);
            Ok(chosen.filter_map(|index| call.text(index)).collect::<Vec<_>>().join(",").into())
        },
    ),
    row(
        "export_set",
        (3, 5),
        |types| text(types.get(1..4.min(types.len())).unwrap_or_default()),
        |call| {
            let divider = if call.len() > 3 { call.text(3) } else { Some(",".into()) };
            let count = if call.len() > 4 { call.integer(4) } else { Some(64) };
            let (Some(bits), Some(on), Some(off), Some(divider), Some(count)) =
                (call.integer(0), call.text(1), call.text(2), divider, count)
            else {
                return Ok(Val::Null);
            };
            let count = usize::try_from(count).map_or(64, |count| count.min(64));
            call.room(count.saturating_mul(on.len().max(off.len()).saturating_add(divider.len())))?;
            let shown: Vec<&str> = (0..count).map(|bit| if bits >> bit & 1 == 1 { &*on } else { &*off }).collect();
            Ok(shown.join(&divider).into())
        },
    ),
    row("strcmp", (2, 2), integer, |call| {
        let (Some(left), Some(right)) = (call.text(0), call.text(1)) else { return Ok(Val::Null) };
        let collation = call.collation();
        Ok(Val::Integer(key(&left, collation).as_bytes().cmp(key(&right, collation).as_bytes()) as i64))
    }),
    row("format", (2, 2), literal, formatted),
    row("md5", (1, 1), literal, |call| {
        let Some(bytes) = call.bytes(0) else { return Ok(Val::Null) };
        Ok(hex_of(&super::super::digests::md5(&bytes)).to_lowercase().into())
    }),
    row("sha1", (1, 1), literal, |call| digest(call, &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY)),
    row("sha", (1, 1), literal, |call| digest(call, &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY)),
    row("sha2", (2, 2), literal, |call| match call.integer(1) {
        Some(0 | 256) => digest(call, &aws_lc_rs::digest::SHA256),
        Some(224) => digest(call, &aws_lc_rs::digest::SHA224),
        Some(384) => digest(call, &aws_lc_rs::digest::SHA384),
        Some(512) => digest(call, &aws_lc_rs::digest::SHA512),
        _ => Ok(Val::Null),
    }),
    row("regexp_like", (2, 2), logical, |call| search::regexp(call, 0, 1)),
    row("regexp_substr", (2, 2), text, search::regexp_substr),
    row("regexp_instr", (2, 2), integer, search::regexp_instr),
    row("regexp_replace", (3, 3), text, search::regexp_replace),
    row("inet_aton", (1, 1), integer, |call| {
        let Some(text) = call.text(0) else { return Ok(Val::Null) };
        let address: Option<std::net::Ipv4Addr> = text.parse().ok();
        Ok(address.map_or(Val::Null, |address| Val::Integer(u32::from(address).into())))
    }),
    row("inet_ntoa", (1, 1), literal, |call| {
        let number = call.integer(0).and_then(|number| u32::try_from(number).ok());
        Ok(number.map_or(Val::Null, |number| std::net::Ipv4Addr::from(number).to_string().into()))
    }),
];

fn size(length: i64) -> usize {
    usize::try_from(length).unwrap_or(0)
}

fn count(call: &Arguments<'_>, count: fn(&str) -> usize) -> Answer {
    if let Val::Bytes(bytes) = call.value(0) {
        return Ok(Val::Integer(match call.call.name {
            "bit_length" => bytes.len() as i64 * 8,
            "ascii" | "ord" => bytes.first().copied().unwrap_or(0).into(),
            _ => bytes.len() as i64,
        }));
    }
    Ok(call.text(0).map_or(Val::Null, |text| Val::Integer(count(&text) as i64)))
}

fn map(call: &Arguments<'_>, function: impl Fn(&str) -> String) -> Answer {
    Ok(call.text(0).map_or(Val::Null, |text| function(&text).into()))
}

/// One character for one: MySQL changes no text's length in characters.
fn upper(character: char) -> char {
    let mut made = character.to_uppercase();
    match (made.next(), made.next()) {
        (Some(one), None) => one,
        _ => character,
    }
}

fn lower(character: char) -> char {
    let mut made = character.to_lowercase();
    match (made.next(), made.next()) {
        (Some(one), None) => one,
        _ => character,
    }
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn hex(call: &Arguments<'_>) -> Answer {
    let kind = call.kind(0);
    Ok(match call.value(0) {
        Val::Null => Val::Null,
        _ if kind.is_text() || kind == SqlType::Bytes || kind.is_temporal() => {
            hex_of(&call.bytes(0).unwrap_or_default()).into()
        }
        Val::Unsigned(value) => format!("{value:X}").into(),
        value => format!("{:X}", value.integer()).into(),
    })
}

fn digest(call: &Arguments<'_>, algorithm: &'static aws_lc_rs::digest::Algorithm) -> Answer {
    let Some(bytes) = call.bytes(0) else { return Ok(Val::Null) };
    Ok(hex_of(aws_lc_rs::digest::digest(algorithm, &bytes).as_ref()).to_lowercase().into())
}

/// Codes of letters of about the same sound; vowels and the like have none.
fn soundex(text: &str) -> String {
    let code = |letter: char| match letter {
        'B' | 'F' | 'P' | 'V' => '1',
        'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => '2',
        'D' | 'T' => '3',
        'L' => '4',
        'M' | 'N' => '5',
        'R' => '6',
        _ => '0',
    };
    let mut letters =
        text.chars().filter(|character| character.is_alphabetic()).map(|letter| letter.to_ascii_uppercase());
    let Some(first) = letters.next() else { return String::new() };
    let (mut made, mut last) = (String::from(first), code(first));
    for letter in letters {
        if matches!(letter, 'H' | 'W') {
            continue;
        }
        let own = code(letter);
        if own != '0' && own != last {
            made.push(own);
        }
        last = own;
    }
    while made.chars().count() < 4 {
        made.push('0');
    }
    made
}

fn substring(call: &Arguments<'_>) -> Answer {
    let (Some(text), Some(start)) = (call.text(0), call.integer(1)) else { return Ok(Val::Null) };
    let length = match call.len() {
        3 => match call.integer(2) {
            Some(length) => size(length),
            None => return Ok(Val::Null),
        },
        _ => usize::MAX,
    };
    let skipped = match start {
        0 => return Ok(String::new().into()),
        1.. => size(start) - 1,
        _ => {
            let count = text.chars().count();
            let back = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
            if back > count {
                return Ok(String::new().into());
            }
            count - back
        }
    };
    Ok(text.chars().skip(skipped).take(length).collect::<String>().into())
}

fn padded(call: &Arguments<'_>, join: fn(&str, String) -> String) -> Answer {
    let filler = if call.len() == 3 { call.text(2) } else { Some(" ".into()) };
    let (Some(text), Some(length), Some(filler)) = (call.text(0), call.integer(1), filler) else {
        return Ok(Val::Null);
    };
    let Ok(length) = usize::try_from(length) else { return Ok(Val::Null) };
    let missing = length.saturating_sub(text.chars().count());
    call.room(missing)?;
    if missing == 0 {
        return Ok(text.chars().take(length).collect::<String>().into());
    }
    if filler.is_empty() {
        return Ok(Val::Null);
    }
    Ok(join(&text, filler.chars().cycle().take(missing).collect()).into())
}

/// `TRIM`; the word is the end that is trimmed.
fn trimmed(call: &Arguments<'_>) -> Answer {
    let Some(text) = call.text(0) else { return Ok(Val::Null) };
    let unwanted = if call.len() == 2 { call.text(1) } else { Some(" ".into()) };
    let Some(unwanted) = unwanted else { return Ok(Val::Null) };
    let mut kept = &*text;
    if unwanted.is_empty() {
        return Ok(kept.to_owned().into());
    }
    if call.call.word != "trailing" {
        kept = kept.trim_start_matches(&*unwanted);
    }
    while call.call.word != "leading"
        && let Some(shorter) = kept.strip_suffix(&*unwanted)
    {
        kept = shorter;
    }
    Ok(kept.to_owned().into())
}

/// A number with so many digits behind the point and commas in front of it.
fn formatted(call: &Arguments<'_>) -> Answer {
    let (false, Some(digits)) = (*call.value(0) == Val::Null, call.integer(1)) else { return Ok(Val::Null) };
    let digits = digits.clamp(0, 30) as u8;
    let text = match call.kind(0).numeric() {
        SqlType::Double { .. } => {
            let value = call.real(0).unwrap_or(0.0);
            let factor = 10_f64.powi(digits.into());
            let rounded = (value * factor).round_ties_even() / factor;
            real_text(if rounded.is_finite() { rounded } else { value }, digits)
        }
        _ => {
            let value = call.decimal(0).and_then(|value| value.rescaled(digits));
            value.map(|value| value.to_string()).unwrap_or_default()
        }
    };
    let (sign, bare) = text.strip_prefix('-').map_or(("", &*text), |bare| ("-", bare));
    let (whole, behind) = bare.split_once('.').map_or((bare, None), |(whole, behind)| (whole, Some(behind)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let behind = behind.map_or(String::new(), |behind| format!(".{behind}"));
    Ok(format!("{sign}{grouped}{behind}").into())
}

/// The key of a text in the collation that the word names.
pub(in super::super) fn text_key(call: &Arguments<'_>) -> Answer {
    let collation = if call.call.word == "general" { Collation::General } else { Collation::Binary };
    Ok(call.text(0).map_or(Val::Null, |text| key(&text, collation).into_owned().into()))
}

/// A value as text, cut to the length that is the word, if there is one.
pub(in super::super) fn as_text(call: &Arguments<'_>) -> Answer {
    let Some(text) = call.text(0) else { return Ok(Val::Null) };
    Ok(match call.call.word.parse::<usize>() {
        Ok(length) => text.chars().take(length).collect::<String>().into(),
        Err(_) => text.into_owned().into(),
    })
}

/// A value as bytes.
pub(in super::super) fn as_bytes(call: &Arguments<'_>) -> Answer {
    Ok(call.bytes(0).map_or(Val::Null, |bytes| Val::Bytes(Cow::Owned(bytes.into_owned()))))
}

/// Characters of numbers.
pub(in super::super) fn characters(call: &Arguments<'_>) -> Answer {
    let mut bytes = Vec::new();
    for number in (0..call.len()).filter_map(|index| call.integer(index)) {
        let number = number as u32;
        let all = number.to_be_bytes();
        let skipped = (number.leading_zeros() / 8).min(3) as usize;
        bytes.extend_from_slice(&all[skipped..]);
    }
    match call.call.word {
        "utf8" => Ok(String::from_utf8(bytes).map_or(Val::Null, Val::from)),
        _ => Ok(Val::Bytes(Cow::Owned(bytes))),
    }
}

/// The greatest or least of the arguments, as the word says, in the type of the result.
pub(in super::super) fn extreme(call: &Arguments<'_>) -> Answer {
    use std::cmp::Ordering;
    if call.any_null() {
        return Ok(Val::Null);
    }
    let wanted = if call.call.word == "greatest" { Ordering::Greater } else { Ordering::Less };
    let collation = call.collation();
    let order = |left: usize, right: usize| -> Ordering {
        match call.call.returns {
            SqlType::Text { .. } => {
                let text = |index| call.text(index).unwrap_or_default();
                key(&text(left), collation).as_bytes().cmp(key(&text(right), collation).as_bytes())
            }
            SqlType::Double { .. } => call.real(left).partial_cmp(&call.real(right)).unwrap_or(Ordering::Equal),
            SqlType::Date | SqlType::DateTime { .. } => call.moment(left).cmp(&call.moment(right)),
            SqlType::Time { .. } => call.time(left).cmp(&call.time(right)),
            SqlType::Bytes => call.value(left).bytes().cmp(&call.value(right).bytes()),
            _ => match (call.decimal(left), call.decimal(right)) {
                (Some(left), Some(right)) => left.compare(right),
                _ => Ordering::Equal,
            },
        }
    };
    let mut found = 0;
    for index in 1..call.len() {
        if order(index, found) == wanted {
            found = index;
        }
    }
    Ok(match call.call.returns {
        SqlType::Text { .. } => call.text(found).map_or(Val::Null, |text| text.into_owned().into()),
        SqlType::DateTime { .. } => call.moment(found).map_or(Val::Null, Val::DateTime),
        _ => call.value(found).clone().into_owned(),
    })
}

/// `LIKE` of folded texts; the third argument is the escape.
pub(in super::super) fn like(call: &Arguments<'_>) -> Answer {
    let (Some(text), Some(pattern)) = (call.text(0), call.text(1)) else { return Ok(Val::Null) };
    let collation = call.collation();
    let escape = call.call.word.chars().next();
    if pattern.len() > search::PATTERN_MAX {
        let text = format!("LIKE: pattern too complex: more than {} bytes", search::PATTERN_MAX);
        return Err(SqlError::new(SqlErrorKind::Limit, text));
    }
    let pattern = search::Pattern::new(&pattern, escape, collation);
    let text = folded(&text, collation);
    Ok(pattern.matches(&text, || call.go_on())?.into())
}
