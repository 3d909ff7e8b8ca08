//! Searches in texts: `LOCATE`, `LIKE`, `REGEXP`.

use std::sync::Arc;

use regex::RegexBuilder;

use super::super::call::{Arguments, Compiled, LENGTH_MAX};
use super::super::collation::folded;
use super::super::types::Collation;
use super::super::value::Val;
use crate::mysql::{SqlError, SqlErrorKind};

/// Longest pattern of `LIKE`, in bytes.
pub(super) const PATTERN_MAX: usize = 1000;
/// Bytes compared between two looks at the watch.
const LOOK: usize = 1 << 20;
/// Memory of a compiled regular expression and the longest text it is tried on, both in bytes: time grows with their
/// product.
const REGEX: &[(usize, usize)] = &[(64 << 10, LENGTH_MAX), (256 << 10, 128 << 10), (1 << 20, 32 << 10)];

/// The position of a text in another, from 1 on in characters; 0 if it is not in it from that character on.
pub(super) fn position(
    call: &Arguments<'_>,
    wanted: usize,
    whole: usize,
    from: Option<i64>,
) -> Result<Val<'static>, SqlError> {
    let (Some(wanted), Some(text)) = (call.text(wanted), call.text(whole)) else { return Ok(Val::Null) };
    let collation = call.collation();
    // Weights are characters, so that positions stay.
    let (wanted, text) = (folded(&wanted, collation), folded(&text, collation));
    let skipped = match from {
        None if call.len() == 3 => return Ok(Val::Null),
        None => 0,
        Some(from) => match usize::try_from(from) {
            Ok(from) if from > 0 => from - 1,
            _ => return Ok(Val::Integer(0)),
        },
    };
    let start = match text.char_indices().nth(skipped) {
        Some((start, _)) => start,
        None if text.chars().count() == skipped => text.len(),
        None => return Ok(Val::Integer(0)),
    };
    let place = text[start..].find(&*wanted).map_or(0, |at| text[..start + at].chars().count() as i64 + 1);
    Ok(Val::Integer(place))
}

/// A pattern between two `%`.
#[derive(Default)]
struct Segment(Vec<Piece>);

#[derive(Clone, Copy, PartialEq)]
enum Piece {
    Byte(u8),
    /// Any one character.
    Any,
}

/// A compiled pattern of `LIKE`.
pub(super) struct Pattern {
    segments: Vec<Segment>,
}

impl Pattern {
    pub(super) fn new(text: &str, escape: Option<char>, collation: Collation) -> Pattern {
        let mut segments = vec![Segment::default()];
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            let (literal, is_escaped) = match character {
                // At its end it is itself.
                own if Some(own) == escape => rest.next().map_or((own, true), |next| (next, true)),
                own => (own, false),
            };
            let Some(segment) = segments.last_mut() else { continue };
            match literal {
                '%' if !is_escaped => segments.push(Segment::default()),
                '_' if !is_escaped => segment.0.push(Piece::Any),
                _ => {
                    let mut bytes = [0; 4];
                    let literal = folded(literal.encode_utf8(&mut bytes), collation).into_owned();
                    segment.0.extend(literal.bytes().map(Piece::Byte));
                }
            }
        }
        Pattern { segments }
    }

    /// Whether a folded text matches. `look` is called now and then, and ends it.
    pub(super) fn matches<E>(&self, text: &str, mut look: impl FnMut() -> Result<(), E>) -> Result<bool, E> {
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
                Piece::Byte(own) if *own == byte => at + 1,
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

/// Whether a text has a match of a regular expression.
pub(super) fn regexp(call: &Arguments<'_>, text: usize, pattern: usize) -> Result<Val<'static>, SqlError> {
    let (Some(text), Some(pattern)) = (call.text(text), call.text(pattern)) else { return Ok(Val::Null) };
    Ok(compiled(call, &text, &pattern)?.regex.is_match(&text).into())
}

/// The first match of a regular expression; NULL if there is none.
pub(super) fn regexp_substr(call: &Arguments<'_>) -> Result<Val<'static>, SqlError> {
    let (Some(text), Some(pattern)) = (call.text(0), call.text(1)) else { return Ok(Val::Null) };
    let compiled = compiled(call, &text, &pattern)?;
    Ok(compiled.regex.find(&text).map_or(Val::Null, |found| found.as_str().to_owned().into()))
}

/// The position of the first match, from 1 on in characters; 0 if there is none.
pub(super) fn regexp_instr(call: &Arguments<'_>) -> Result<Val<'static>, SqlError> {
    let (Some(text), Some(pattern)) = (call.text(0), call.text(1)) else { return Ok(Val::Null) };
    let compiled = compiled(call, &text, &pattern)?;
    let place = compiled.regex.find(&text).map_or(0, |found| text[..found.start()].chars().count() as i64 + 1);
    Ok(Val::Integer(place))
}

/// A text with all matches replaced. Servers differ in how a replacement names groups, so one that may is refused.
pub(super) fn regexp_replace(call: &Arguments<'_>) -> Result<Val<'static>, SqlError> {
    let (Some(text), Some(pattern), Some(new)) = (call.text(0), call.text(1), call.text(2)) else {
        return Ok(Val::Null);
    };
    if new.contains(['$', '\\']) {
        let text = "REGEXP_REPLACE with $ or a backslash in the replacement is not supported";
        return Err(SqlError::new(SqlErrorKind::NotSupported, text));
    }
    let compiled = compiled(call, &text, &pattern)?;
    let found = compiled.regex.find_iter(&text).count();
    call.room(text.len().saturating_add(found.saturating_mul(new.len())))?;
    Ok(compiled.regex.replace_all(&text, regex::NoExpand(&new)).into_owned().into())
}

/// A regular expression for a text.
fn compiled(call: &Arguments<'_>, text: &str, pattern: &str) -> Result<Arc<Compiled>, SqlError> {
    let in_any_case = call.collation() == Collation::General;
    let compiled = call.regex(pattern, |pattern| compile(pattern, in_any_case))?;
    if text.len() > compiled.text_max {
        let most = compiled.text_max;
        let text = format!(
            "REGEXP: a text of {} bytes; this expression is tried on at most {most}: use LIKE, or LEFT(text, n)",
            text.len()
        );
        return Err(SqlError::new(SqlErrorKind::Limit, text));
    }
    Ok(compiled)
}

fn compile(pattern: &str, in_any_case: bool) -> Result<Compiled, SqlError> {
    let pattern = pattern.replace("[[:<:]]", r"\b{start}").replace("[[:>:]]", r"\b{end}");
    let mut compiled = Err(regex::Error::CompiledTooBig(0));
    for (size, text_max) in REGEX {
        compiled = RegexBuilder::new(&pattern)
            .case_insensitive(in_any_case)
            .size_limit(*size)
            .build()
            .map(|regex| Compiled { regex, text_max: *text_max });
        if !matches!(compiled, Err(regex::Error::CompiledTooBig(_))) {
            break;
        }
    }
    compiled.map_err(|error| {
        let kind = match error {
            regex::Error::CompiledTooBig(_) => SqlErrorKind::Limit,
            _ => SqlErrorKind::WrongArguments,
        };
        SqlError::new(kind, format!("REGEXP: {error}"))
    })
}

/// `text REGEXP pattern`.
pub(in super::super) fn matches(call: &Arguments<'_>) -> Result<Val<'static>, SqlError> {
    regexp(call, 0, 1)
}
