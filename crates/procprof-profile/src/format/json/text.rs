//! Strings of JSON: read, with their escapes, and written.

use std::borrow::Cow;

use memchr::memchr2;

use super::Json;
use crate::{Error, Place, Result};

impl<'a> Json<'a> {
    /// Reads a string.
    pub(in crate::format) fn text(&mut self) -> Result<Cow<'a, str>> {
        self.eat(b'"', "a string")?;
        let start = self.at;
        let (mut at, mut is_escaped) = (start, false);
        loop {
            match memchr2(b'"', b'\\', &self.bytes[at..]).map(|found| at + found) {
                Some(end) if self.bytes[end] == b'"' => {
                    self.at = end + 1;
                    let text = String::from_utf8_lossy(&self.bytes[start..end]);
                    return if is_escaped { self.unescaped(&text, start).map(Cow::Owned) } else { Ok(text) };
                }
                Some(escape) if escape + 1 < self.bytes.len() => {
                    is_escaped = true;
                    at = escape + 2;
                }
                _ => {
                    return Err(Error::Truncated {
                        format: self.format,
                        place: Place::Offset(start),
                        what: "a string",
                    });
                }
            }
        }
    }

    fn unescaped(&self, text: &str, start: usize) -> Result<String> {
        let mut plain = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            plain.push_str(&rest[..at]);
            let mut characters = rest[at + 1..].chars();
            let escape = characters.next().unwrap_or_default();
            rest = characters.as_str();
            match escape {
                'n' => plain.push('\n'),
                't' => plain.push('\t'),
                'r' => plain.push('\r'),
                'b' => plain.push('\u{8}'),
                'f' => plain.push('\u{c}'),
                '"' | '\\' | '/' => plain.push(escape),
                'u' => match unicode(rest) {
                    Some((character, behind)) => {
                        plain.push(character);
                        rest = behind;
                    }
                    None => {
                        return Err(self.malformed(start, "an escape \\u without four hexadecimal digits".to_owned()));
                    }
                },
                other => return Err(self.malformed(start, format!("an unknown escape {other:?} in a string"))),
            }
        }
        plain.push_str(rest);
        Ok(plain)
    }
}

/// The character of `\u`, perhaps of a pair of surrogates, and what follows.
fn unicode(rest: &str) -> Option<(char, &str)> {
    let unit = |text: &str| {
        let digits = text.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(rest)?;
    let behind = &rest[4..];
    if let Some(second) = behind.strip_prefix("\\u").and_then(unit)
        && let Some(Ok(pair)) = char::decode_utf16([first, second]).next()
        && pair as u32 > 0xffff
    {
        return Some((pair, &behind[6..]));
    }
    Some((char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER), behind))
}

/// Appends a text as a string of JSON.
pub(in crate::format) fn push_text(out: &mut String, text: &str) {
    use std::fmt::Write;

    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
