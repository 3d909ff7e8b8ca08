//! Replacements of SQLite's text functions whose time grows with the product of their arguments: these are linear, or
//! can be interrupted.
//!
//! SQLite looks whether a statement must end between two of its steps, never inside a function: `instr`, `replace` and
//! `trim` of a few megabytes run for minutes there, and `LIKE` for seconds.

use std::borrow::Cow;
use std::collections::HashSet;

use regex::{Regex, RegexBuilder};
use rusqlite::functions::Context;
use rusqlite::types::ValueRef;
use rusqlite::{Error, Result};

use super::functions::{as_real, text};
use super::sandbox::LENGTH_MAX;
use super::statement_context::StatementContext;
use super::virtual_table::value;
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// Longest pattern of `LIKE`, in bytes.
const PATTERN_MAX: usize = 1000;
/// Bytes compared between two looks at the watch.
const LOOK: usize = 1 << 20;
/// Memory of a compiled regular expression and the longest text it is tried on, both in bytes: time grows with their
/// product.
const REGEX: &[(usize, usize)] = &[(64 << 10, LENGTH_MAX), (256 << 10, 128 << 10), (1 << 20, 32 << 10)];

/// A text of so many bytes, unless that is too much.
pub(super) fn room(bytes: usize) -> Result<()> {
    match bytes > LENGTH_MAX {
        true => Err(Error::UserFunctionError(format!("string or blob too big: more than {LENGTH_MAX} bytes").into())),
        false => Ok(()),
    }
}

/// Keeps why a statement must end, and ends its function.
pub(super) fn given_up(statement: &StatementContext, failure: SqlError) -> Error {
    let text = failure.text.clone();
    statement.fail(failure);
    Error::UserFunctionError(text.into())
}

/// All arguments as one text; NULL if any is.
pub(super) fn concat(call: &Context<'_>) -> Result<Value> {
    let mut joined = String::new();
    for index in 0..call.len() {
        let Some(text) = text(call, index) else { return Ok(Value::Null) };
        room(joined.len() + text.len())?;
        joined += &text;
    }
    Ok(joined.into())
}

/// The position of the second text in the first, from 1 on in characters, in bytes if both are blobs; 0 if it is not in
/// it.
pub(super) fn instr(call: &Context<'_>) -> Result<Value> {
    let place = position(text(call, 1), text(call, 0));
    Ok(match (call.get_raw(0), call.get_raw(1), place) {
        (ValueRef::Blob(whole), ValueRef::Blob(part), _) => {
            // As Latin-1, so that each byte is a character of its own.
            let latin1 = |bytes: &[u8]| Some(Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()));
            position(latin1(part), latin1(whole))
        }
        (_, _, place) => place,
    })
}

pub(super) fn position(wanted: Option<Cow<'_, str>>, text: Option<Cow<'_, str>>) -> Value {
    let (Some(wanted), Some(text)) = (wanted, text) else { return Value::Null };
    let place = text.find(&*wanted).map_or(0, |byte| text[..byte].chars().count() as i64 + 1);
    place.into()
}

pub(super) fn replace(call: &Context<'_>) -> Result<Value> {
    let (Some(text), Some(old), Some(new)) = (text(call, 0), text(call, 1), text(call, 2)) else {
        return Ok(Value::Null);
    };
    if old.is_empty() {
        return Ok(text.into_owned().into());
    }
    let found = text.matches(&*old).count();
    room(text.len() - found * old.len() + found.saturating_mul(new.len()))?;
    Ok(text.replace(&*old, &new).into())
}

/// The ends of a text that are trimmed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Ends {
    Both,
    Left,
    Right,
}

/// The first argument without those characters at its ends that the second has, or without blanks.
pub(super) fn trim(call: &Context<'_>, ends: Ends) -> Result<Value> {
    let Some(whole) = text(call, 0) else { return Ok(Value::Null) };
    let unwanted: HashSet<char> = match call.len() {
        1 => HashSet::from([' ']),
        _ => match text(call, 1) {
            None => return Ok(Value::Null),
            Some(characters) => characters.chars().collect(),
        },
    };
    let is_unwanted = |character: char| unwanted.contains(&character);
    let mut kept = &*whole;
    if ends != Ends::Right {
        kept = kept.trim_start_matches(is_unwanted);
    }
    if ends != Ends::Left {
        kept = kept.trim_end_matches(is_unwanted);
    }
    Ok(kept.into())
}

/// A pattern of `LIKE` between two `%`.
#[derive(Debug, Default, PartialEq)]
struct Segment(Vec<Piece>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece {
    /// A byte; ASCII letters in lower case.
    Byte(u8),
    /// Any one character.
    Any,
}

/// A compiled pattern of `LIKE`; one segment has no `%` in it.
#[derive(Debug, PartialEq)]
pub(super) struct Pattern {
    escape: Option<char>,
    segments: Vec<Segment>,
}

impl Pattern {
    pub(super) fn new(text: &str, escape: Option<char>) -> Pattern {
        let mut segments = vec![Segment::default()];
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            let literal = match character {
                // At its end it is itself.
                own if Some(own) == escape => rest.next().unwrap_or(own),
                '%' => {
                    segments.push(Segment::default());
                    continue;
                }
                own => own,
            };
            let Some(segment) = segments.last_mut() else { continue };
            match character {
                '_' if escape != Some('_') => segment.0.push(Piece::Any),
                _ => {
                    let mut bytes = [0; 4];
                    let encoded = literal.encode_utf8(&mut bytes).bytes();
                    segment.0.extend(encoded.map(|byte| Piece::Byte(byte.to_ascii_lowercase())));
                }
            }
        }
        Pattern { escape, segments }
    }

    /// Whether a text matches, letters of ASCII in any case. `look` is called now and then, and ends it.
    pub(super) fn matches<E>(
        &self,
        text: &str,
        mut look: impl FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let bytes = text.as_bytes();
        let [first, between @ .., last] = self.segments.as_slice() else {
            return Ok(self.segments.first().is_some_and(|only| only.at(bytes, 0) == Some(bytes.len())));
        };
        let Some(mut at) = first.at(bytes, 0) else { return Ok(false) };
        let mut compared = 0;
        for segment in between {
            at = loop {
                if let Some(end) = segment.at(bytes, at) {
                    break end;
                }
                at = next_character(bytes, at);
                if at >= bytes.len() {
                    return Ok(false);
                }
                compared += segment.0.len().max(1);
                if compared >= LOOK {
                    compared = 0;
                    look()?;
                }
            };
        }
        let start = last.start(bytes);
        Ok(start.is_some_and(|start| start >= at && last.at(bytes, start) == Some(bytes.len())))
    }
}

impl Segment {
    /// The end of a match that begins there.
    fn at(&self, text: &[u8], mut at: usize) -> Option<usize> {
        for piece in &self.0 {
            let byte = *text.get(at)?;
            at = match piece {
                Piece::Byte(own) if *own == byte.to_ascii_lowercase() => at + 1,
                Piece::Byte(_) => return None,
                Piece::Any => next_character(text, at),
            };
        }
        Some(at)
    }

    /// The start of a match that ends with the text.
    fn start(&self, text: &[u8]) -> Option<usize> {
        let mut at = text.len();
        for piece in self.0.iter().rev() {
            at = at.checked_sub(1)?;
            while *piece == Piece::Any && at > 0 && is_inside(text[at]) {
                at -= 1;
            }
        }
        Some(at)
    }
}

/// Whether a byte goes on with a character that began before.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

fn next_character(text: &[u8], at: usize) -> usize {
    let inside = text.get(at + 1..).unwrap_or_default().iter().take_while(|byte| is_inside(**byte)).count();
    at + 1 + inside
}

/// `like(pattern, text [, escape])`, as `text LIKE pattern ESCAPE escape` calls it.
pub(super) fn like(call: &Context<'_>, statement: &StatementContext) -> Result<Value> {
    let (Some(pattern), Some(subject)) = (text(call, 0), text(call, 1)) else { return Ok(Value::Null) };
    let escape = match call.len() {
        2 => Some('\\'),
        _ => {
            let Some(given) = text(call, 2) else { return Ok(Value::Null) };
            let mut characters = given.chars();
            match (characters.next(), characters.next()) {
                (escape, None) => escape,
                _ => return Err(Error::UserFunctionError("ESCAPE expression must be a single character".into())),
            }
        }
    };
    if pattern.len() > PATTERN_MAX {
        return Err(Error::UserFunctionError(
            format!("LIKE or GLOB pattern too complex: more than {PATTERN_MAX} bytes").into(),
        ));
    }
    let look = || statement.go_on().map_err(|failure| given_up(statement, failure));
    let kept = call.get_or_create_aux(0, |_| Ok::<_, Error>(Pattern::new(&pattern, escape)))?;
    // What is kept is of the same pattern, but the escape may be another in each row.
    let matches = if kept.escape == escape {
        kept.matches(&subject, look)
    } else {
        Pattern::new(&pattern, escape).matches(&subject, look)
    };
    Ok(i64::from(matches?).into())
}

/// A compiled regular expression and the longest text it is tried on.
struct Compiled {
    regex: Regex,
    text_max: usize,
}

/// Whether a text has a match of a regular expression, letters in any case. The expression is compiled once for a
/// statement.
pub(super) fn matches(
    call: &Context<'_>,
    statement: &StatementContext,
    pattern: usize,
    subject: usize,
) -> Result<Value> {
    let (Some(_), Some(subject)) = (text(call, pattern), text(call, subject)) else { return Ok(Value::Null) };
    let wrong = |error: regex::Error| Error::UserFunctionError(format!("REGEXP: {error}").into());
    let compiled = call.get_or_create_aux(pattern as i32, |pattern| compile(pattern).map_err(wrong))?;
    if subject.len() > compiled.text_max {
        let most = compiled.text_max;
        let text = format!(
            "REGEXP: a text of {} bytes; this expression is tried on at most {most}: use LIKE, or LEFT(text, n)",
            subject.len()
        );
        return Err(given_up(statement, SqlError::new(SqlErrorKind::Limit, text)));
    }
    Ok(i64::from(compiled.regex.is_match(&subject)).into())
}

fn compile(pattern: ValueRef<'_>) -> std::result::Result<Compiled, regex::Error> {
    let pattern = match value(pattern) {
        Value::Text(text) => text,
        other => format!("{}", as_real(&other)),
    };
    let mut compiled = Err(regex::Error::CompiledTooBig(0));
    for (size, text_max) in REGEX {
        compiled = RegexBuilder::new(&pattern)
            .case_insensitive(true)
            .size_limit(*size)
            .build()
            .map(|regex| Compiled { regex, text_max: *text_max });
        if !matches!(compiled, Err(regex::Error::CompiledTooBig(_))) {
            break;
        }
    }
    compiled
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_match_as_in_mysql() {
        let matches = |text: &str, pattern: &str, escape| {
            Pattern::new(pattern, escape).matches(text, || Ok::<(), ()>(())).unwrap()
        };
        for (text, pattern, expected) in [
            ("hello", "h%", true),
            ("hello", "H%O", true),
            ("hello", "hello", true),
            ("hello", "hell", false),
            ("hello", "", false),
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("abc", "%b%", true),
            ("abc", "%b", false),
            ("abc", "a_c", true),
            ("aXbXc", "%x%x%", true),
            ("aXb", "%x%x%", false),
            ("ab", "ab%ab", false),
            ("abab", "ab%ab", true),
            ("mississippi", "m%iss%ip%i", true),
            ("mississippi", "m%issip%issip%", false),
            ("größe", "gr__e", true),
            ("größe", "%_e", true),
            ("größe", "gr_e", false),
            ("温度", "__", true),
            ("温度", "_", false),
            ("温度", "%度", true),
            ("a_b", "a\\_b", true),
            ("axb", "a\\_b", false),
            ("50%", "%\\%", true),
            ("501", "%\\%", false),
            ("a\\b", "a\\\\b", true),
        ] {
            assert_eq!(matches(text, pattern, Some('\\')), expected, "{text:?} LIKE {pattern:?}");
        }
        assert!(matches("a%b", "a|%b", Some('|')) && !matches("axb", "a|%b", Some('|')));
        assert!(matches("a\\x", "a\\_", None) && matches("a_x", "a__%", Some('_')));
    }

    #[test]
    fn a_long_search_can_be_ended() {
        let pattern = Pattern::new(&format!("%{}c%", "ab".repeat(400)), None);
        let text = "ab".repeat(500_000);
        let mut looks = 0;
        let ended = pattern.matches(&text, || {
            looks += 1;
            if looks < 3 { Ok(()) } else { Err("enough") }
        });
        assert_eq!(ended, Err("enough"));
    }
}
