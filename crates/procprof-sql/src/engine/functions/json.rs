//! Functions of JSON, which is text: a part of a document is shown as it is written there.

use std::borrow::Cow;

use super::super::call::Arguments;
use super::super::types::SqlType;
use super::super::value::Val;
use super::{ANY, Function, document as of_document, integer, literal, logical, row};
use crate::mysql::{SqlError, SqlErrorKind};

/// Levels of a document at most.
const DEPTH_MAX: usize = 100;

/// The functions, by name.
pub(super) const FUNCTIONS: &[Function] = &[
    row("json_extract", (2, 2), of_document, |call| Ok(found(call)?.map_or(Val::Null, |part| part.to_owned().into()))),
    row("json_value", (2, 2), literal, |call| {
        Ok(match found(call)? {
            Some(part) if !part.starts_with(['{', '[']) => unquoted(part).map_or(Val::Null, Val::from),
            _ => Val::Null,
        })
    }),
    row("json_unquote", (1, 1), literal, |call| {
        let Some(text) = call.text(0) else { return Ok(Val::Null) };
        Ok(unquoted(&text).map_or(Val::Null, Val::from))
    }),
    row("json_quote", (1, 1), literal, |call| {
        if !call.kind(0).is_text() && !call.kind(0).is_temporal() {
            return Ok(Val::Null);
        }
        Ok(call.text(0).map_or(Val::Null, |text| quoted(&text).into()))
    }),
    row("json_valid", (1, 1), logical, |call| {
        let Some(text) = call.text(0) else { return Ok(Val::Null) };
        Ok(is_document(&text).into())
    }),
    row("json_length", (1, 2), integer, |call| {
        let part = if call.len() == 2 { found(call)?.map(str::to_owned) } else { document(call)?.map(Cow::into_owned) };
        Ok(part.map_or(Val::Null, |part| {
            Val::Integer(match part.as_bytes().first() {
                Some(b'{' | b'[') => members(&part).count() as i64,
                _ => 1,
            })
        }))
    }),
    row("json_depth", (1, 1), integer, |call| {
        let Some(text) = document(call)? else { return Ok(Val::Null) };
        Ok(Val::Integer(depth(&text)))
    }),
    row("json_type", (1, 1), literal, |call| {
        let Some(text) = document(call)? else { return Ok(Val::Null) };
        let name = match text.as_bytes().first() {
            Some(b'{') => "OBJECT",
            Some(b'[') => "ARRAY",
            Some(b'"') => "STRING",
            Some(b't' | b'f') => "BOOLEAN",
            Some(b'n') => "NULL",
            _ if text.contains(['.', 'e', 'E']) => "DOUBLE",
            _ => "INTEGER",
        };
        Ok(name.to_owned().into())
    }),
    row("json_keys", (1, 1), literal, |call| {
        let Some(text) = document(call)? else { return Ok(Val::Null) };
        if !text.starts_with('{') {
            return Ok(Val::Null);
        }
        let keys: Vec<&str> = members(&text).filter_map(|(key, _)| key).collect();
        Ok(format!("[{}]", keys.join(", ")).into())
    }),
    row("json_array", (0, ANY), of_document, |call| {
        let values: Vec<String> = (0..call.len()).map(|index| value(call, index)).collect();
        Ok(format!("[{}]", values.join(", ")).into())
    }),
    row("json_object", (0, ANY), of_document, |call| {
        if call.len() % 2 == 1 {
            return Err(SqlError::new(SqlErrorKind::WrongArguments, "json_object: each key needs a value"));
        }
        let pair = |index: usize| {
            let key = call.text(index * 2).map(|key| quoted(&key));
            key.map(|key| format!("{key}: {}", value(call, index * 2 + 1)))
        };
        let pairs: Option<Vec<String>> = (0..call.len() / 2).map(pair).collect();
        let null = || SqlError::new(SqlErrorKind::WrongArguments, "json_object: a key is NULL");
        pairs.map(|pairs| format!("{{{}}}", pairs.join(", ")).into()).ok_or_else(null)
    }),
];

/// A value as a part of a document.
pub(super) fn value(call: &Arguments<'_>, index: usize) -> String {
    match (call.kind(index), call.text(index)) {
        (_, None) => "null".to_owned(),
        (SqlType::DOCUMENT, Some(text)) => text.into_owned(),
        (SqlType::Logical, Some(text)) => if text == "0" { "false" } else { "true" }.to_owned(),
        (kind, Some(text)) if kind.is_text() || kind.is_temporal() || kind == SqlType::Bytes => quoted(&text),
        (_, Some(text)) => text.into_owned(),
    }
}

/// A text as JSON writes it.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(super) fn unquoted(text: &str) -> Option<String> {
    match text.starts_with('"') && text.ends_with('"') && text.len() > 1 {
        true => Some(serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned())),
        false => Some(text.to_owned()),
    }
}

pub(super) fn is_document(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() && depth(text) <= DEPTH_MAX as i64
}

/// The first argument if it is a document; `None` for NULL and for what is none.
fn document<'a>(call: &'a Arguments<'_>) -> Result<Option<Cow<'a, str>>, SqlError> {
    let Some(text) = call.text(0) else { return Ok(None) };
    if !is_document(&text) {
        return Ok(None);
    }
    Ok(Some(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }))
}

/// The part of the first argument that the path in the second leads to.
fn found<'a>(call: &'a Arguments<'_>) -> Result<Option<&'a str>, SqlError> {
    let Some(path) = call.text(1) else { return Ok(None) };
    let steps = steps(&path)?;
    let Val::Text(text) = call.value(0) else { return Ok(None) };
    if !is_document(text) {
        return Ok(None);
    }
    let mut part = text.trim();
    for step in steps {
        let next = members(part).enumerate().find(|(index, (key, _))| match (&step, key) {
            (Step::Member(name), Some(key)) => unquoted(key).as_ref() == Some(name),
            (Step::Item(wanted), None) => index == wanted,
            _ => false,
        });
        match next {
            Some((_, (_, value))) => part = value,
            None if matches!(step, Step::Item(0)) && !part.starts_with('[') => {}
            None => return Ok(None),
        }
    }
    Ok(Some(part))
}

/// A step of a path.
pub(super) enum Step {
    Member(String),
    Item(usize),
}

/// The steps of a path.
///
/// # Errors
/// It is none, or has wildcards.
pub(super) fn steps(path: &str) -> Result<Vec<Step>, SqlError> {
    let wrong = || {
        let path: String = path.chars().take(80).collect();
        SqlError::new(
            SqlErrorKind::WrongArguments,
            format!("JSON path '{path}': only $, .name and [number] are supported"),
        )
    };
    let mut rest = path.trim().strip_prefix('$').ok_or_else(wrong)?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (number, after) = after.split_once(']').ok_or_else(wrong)?;
            steps.push(Step::Item(number.trim().parse().map_err(|_| wrong())?));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(".\"") {
            let (name, after) = after.split_once('"').ok_or_else(wrong)?;
            steps.push(Step::Member(name.to_owned()));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            if name.is_empty() || name.contains('*') {
                return Err(wrong());
            }
            steps.push(Step::Member(name.to_owned()));
            rest = after;
        } else {
            return Err(wrong());
        }
    }
    Ok(steps)
}

/// The members of an object with their keys as written, or of an array without; none of another value. The text is a
/// valid document.
pub(super) fn members(text: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let is_object = text.starts_with('{');
    let mut rest = if text.starts_with(['{', '[']) { text[1..].trim_start() } else { "" };
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(',').trim_start();
        if rest.is_empty() || rest.starts_with(['}', ']']) {
            return None;
        }
        let mut key = None;
        if is_object {
            let end = length(rest);
            key = Some(&rest[..end]);
            rest = rest[end..].trim_start().strip_prefix(':')?.trim_start();
        }
        let end = length(rest);
        let value = &rest[..end];
        rest = rest[end..].trim_start();
        Some((key, value))
    })
}

/// Bytes of the value at the beginning of a text.
fn length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut in_text, mut at) = (0, false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_text => at += 1,
            b'"' => {
                in_text = !in_text;
                if !in_text && depth == 0 {
                    return at + 1;
                }
            }
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => {
                if depth == 0 {
                    return at;
                }
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' | b':' | b' ' | b'\n' | b'\t' | b'\r' if !in_text && depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len().min(at)
}

fn depth(text: &str) -> i64 {
    let (mut depth, mut most, mut in_text, mut is_escaped) = (1, 1, false, false);
    let mut is_open = false;
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => {
                in_text = !in_text;
                if is_open {
                    most = most.max(depth);
                }
                is_open = false;
            }
            b'{' | b'[' if !in_text => {
                most = most.max(depth);
                depth += 1;
                is_open = true;
            }
            b'}' | b']' if !in_text => {
                depth -= 1;
                is_open = false;
            }
            b' ' | b'\n' | b'\t' | b'\r' if !in_text => {}
            _ if !in_text => {
                if is_open {
                    most = most.max(depth);
                }
                is_open = false;
            }
            _ => {}
        }
    }
    most
}
