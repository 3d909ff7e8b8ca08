//! A reader for JSON that holds nothing: values are read where they lie, in the order of the text.
//!
//! A [`Json`] is a place in the text and can be copied: what comes too early to be understood is remembered by its
//! place ([`Json::later`]) and read when the rest is known. Numbers are read as `f64`, or exactly where they are whole.
//! What is skipped is held to the grammar of RFC 8259, too; bytes that are not UTF-8 become U+FFFD. Nesting is bounded
//! by [`DEPTH_MAX`]; nothing recurses.

use std::borrow::Cow;

use super::left_out::LeftOut;
use crate::text::{Lines, OddLines};
use crate::{Error, Place, Result};

mod detect;
mod text;

pub(super) use detect::{Form, any_has_key, detect};
pub(super) use text::push_text;

/// Deepest nesting that is read.
pub(super) const DEPTH_MAX: usize = 10_000;

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    Text,
    Number,
    Bool,
    Null,
}

/// A place in a text of JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Json<'a> {
    format: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Json<'a> {
    /// The beginning of a text, behind its byte order mark.
    pub(super) fn new(format: &'static str, bytes: &'a [u8]) -> Json<'a> {
        Json { format, bytes, at: if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 } }
    }

    /// The next byte that is no blank, which is not read.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// The kind of the value that comes next.
    pub(super) fn kind(&self) -> Result<Kind> {
        let mut ahead = *self;
        match ahead.peek() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::Text),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            _ => Err(ahead.expected("a value")),
        }
    }

    /// Whether nothing is left.
    pub(super) fn is_done(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Warns about lines behind the end of the text, which another program may have written there.
    pub(super) fn end(&mut self, warnings: &mut Vec<String>) {
        if self.is_done() {
            return;
        }
        let mut odd = OddLines::default();
        let before = memchr::memchr_iter(b'\n', &self.bytes[..self.at]).count();
        for line in Lines::new(&self.bytes[self.at..]).filter(|line| !line.text.is_empty()) {
            odd.add(before + line.number, line.excerpt());
        }
        odd.warn(self.format, warnings);
    }

    /// Reads an object; `each` reads or skips the value of every key.
    pub(super) fn object(&mut self, mut each: impl FnMut(&mut Json<'a>, &str) -> Result<()>) -> Result<()> {
        let mut members = self.members()?;
        while let Some(key) = members.next(self)? {
            each(self, &key)?;
        }
        Ok(())
    }

    /// Begins an object whose members are read one by one.
    pub(super) fn members(&mut self) -> Result<Members> {
        self.eat(b'{', "an object")?;
        Ok(Members { is_first: true })
    }

    /// Reads an array; `each` reads or skips every element.
    pub(super) fn array(&mut self, mut each: impl FnMut(&mut Json<'a>) -> Result<()>) -> Result<()> {
        let mut elements = self.elements()?;
        while elements.next(self)? {
            each(self)?;
        }
        Ok(())
    }

    /// Reads an array of records; those that `each` cannot read are left out and counted.
    pub(super) fn records(
        &mut self,
        left_out: &mut LeftOut,
        mut each: impl FnMut(&mut Json<'a>) -> Result<()>,
    ) -> Result<()> {
        self.array(|json| {
            let record = *json;
            let read = each(json);
            if left_out.keep(read)?.is_none() {
                *json = record;
                json.skip()?;
            }
            Ok(())
        })
    }

    /// Begins an array whose elements are read one by one.
    pub(super) fn elements(&mut self) -> Result<Elements> {
        self.eat(b'[', "an array")?;
        Ok(Elements { is_first: true })
    }

    fn key(&mut self) -> Result<Cow<'a, str>> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key"));
        }
        let key = self.text()?;
        self.eat(b':', "\":\"")?;
        Ok(key)
    }

    /// Reads the separator behind an element: a comma, or the end.
    fn is_last(&mut self, end: u8, expected: &'static str) -> Result<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(true)
            }
            _ => Err(self.expected(expected)),
        }
    }

    /// Reads a number.
    pub(super) fn number(&mut self) -> Result<f64> {
        let word = self.number_word()?;
        word.parse().map_err(|_| self.malformed(self.at - word.len(), format!("{word:?} is no number")))
    }

    /// Reads a whole number that fits into an `i64`, exactly; of one with a fraction or exponent the nearest.
    pub(super) fn integer(&mut self) -> Result<i64> {
        let word = self.number_word()?;
        if let Ok(number) = word.parse() {
            return Ok(number);
        }
        let number = word.parse::<f64>().ok().filter(|number| number.abs() < 9.2e18);
        number
            .map(|number| number.round() as i64)
            .ok_or_else(|| self.malformed(self.at - word.len(), format!("{word:?} is no number of 64 bits")))
    }

    /// Reads `true` or `false`.
    pub(super) fn boolean(&mut self) -> Result<bool> {
        self.peek();
        match (self.eat_word(b"true"), self.eat_word(b"false")) {
            (false, false) => Err(self.expected("true or false")),
            (is_true, _) => Ok(is_true),
        }
    }

    /// Reads a position in a table, `None` for `null` and negative ones.
    pub(super) fn index(&mut self) -> Result<Option<usize>> {
        if self.kind()? == Kind::Null {
            self.skip()?;
            return Ok(None);
        }
        self.integer().map(|index| usize::try_from(index).ok())
    }

    /// Reads a number as it is written.
    pub(super) fn number_word(&mut self) -> Result<&'a str> {
        self.peek();
        if self.kind()? != Kind::Number {
            return Err(self.expected("a number"));
        }
        let rest = &self.bytes[self.at..];
        let end = rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .unwrap_or(rest.len());
        self.at += end;
        Ok(std::str::from_utf8(&rest[..end]).unwrap_or_default())
    }

    /// Passes over a value.
    pub(super) fn skip(&mut self) -> Result<()> {
        // The ends of what is open.
        let mut open: Vec<u8> = Vec::new();
        loop {
            self.peek();
            match self.kind()? {
                Kind::Text => drop(self.text()?),
                Kind::Number => drop(self.number()?),
                Kind::Bool if self.eat_word(b"true") || self.eat_word(b"false") => {}
                Kind::Null if self.eat_word(b"null") => {}
                Kind::Bool | Kind::Null => return Err(self.expected("true, false or null")),
                kind @ (Kind::Object | Kind::Array) => {
                    self.at += 1;
                    let end = if kind == Kind::Object { b'}' } else { b']' };
                    if self.peek() == Some(end) {
                        self.at += 1;
                    } else {
                        if open.len() == DEPTH_MAX {
                            return Err(Error::TooLarge {
                                format: self.format,
                                what: "the nesting",
                                limit: DEPTH_MAX as u64,
                            });
                        }
                        open.push(end);
                        if kind == Kind::Object {
                            self.key()?;
                        }
                        continue;
                    }
                }
            }
            loop {
                let Some(end) = open.last().copied() else { return Ok(()) };
                if self.is_last(end, "\",\" or the end of an object or array")? {
                    open.pop();
                    continue;
                }
                if end == b'}' {
                    self.key()?;
                }
                break;
            }
        }
    }

    /// Passes over a value, to be read later.
    pub(super) fn later(&mut self) -> Result<Json<'a>> {
        self.peek();
        let value = *self;
        self.skip()?;
        Ok(value)
    }

    /// Passes over an object and gives the values of these keys, to be read later.
    pub(super) fn fields<const N: usize>(&mut self, names: [&str; N]) -> Result<[Option<Json<'a>>; N]> {
        let mut found = [None; N];
        self.object(|json, key| {
            let value = json.later()?;
            if let Some(index) = names.iter().position(|name| *name == key) {
                found[index] = Some(value);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Whether this word is there.
    #[cfg(test)]
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.bytes[self.at..].starts_with(word.as_bytes())
    }

    fn eat_word(&mut self, word: &[u8]) -> bool {
        let is_there = self.bytes[self.at..].starts_with(word);
        if is_there {
            self.at += word.len();
        }
        is_there
    }

    fn eat(&mut self, byte: u8, expected: &'static str) -> Result<()> {
        if self.peek() != Some(byte) {
            return Err(self.expected(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// The error of a text that has something else here.
    #[cold]
    pub(super) fn expected(&self, what: &'static str) -> Error {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Error::Truncated { format: self.format, place: Place::Offset(self.at), what };
        }
        let found: String = String::from_utf8_lossy(&rest[..rest.len().min(80)]).chars().take(20).collect();
        self.malformed(self.at, format!("expected {what}, found {found:?}"))
    }

    /// The error of a value that ends here.
    #[cold]
    pub(super) fn wrong(&self, what: impl Into<String>) -> Error {
        self.malformed(self.at, what.into())
    }

    fn malformed(&self, at: usize, what: String) -> Error {
        Error::Malformed { format: self.format, place: Place::Offset(at), what }
    }
}

/// The elements of an array, read one by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    is_first: bool,
}

impl Elements {
    /// Moves `json`, which is behind the element before, to the next element; false if there is none.
    pub(super) fn next(&mut self, json: &mut Json<'_>) -> Result<bool> {
        if !std::mem::take(&mut self.is_first) {
            return json.is_last(b']', "\",\" or \"]\"").map(|is_last| !is_last);
        }
        let is_empty = json.peek() == Some(b']');
        json.at += usize::from(is_empty);
        Ok(!is_empty)
    }
}

/// An array whose elements go with the records of another.
#[derive(Debug)]
pub(super) struct Column<'a> {
    json: Json<'a>,
    elements: Option<Elements>,
}

impl<'a> Column<'a> {
    /// The array at this place.
    pub(super) fn new(mut json: Json<'a>) -> Result<Column<'a>> {
        let elements = json.elements()?;
        Ok(Column { json, elements: Some(elements) })
    }

    /// The next element; `None` if there are no more.
    pub(super) fn next(&mut self) -> Result<Option<Json<'a>>> {
        let Some(elements) = &mut self.elements else { return Ok(None) };
        if !elements.next(&mut self.json)? {
            self.elements = None;
            return Ok(None);
        }
        self.json.later().map(Some)
    }

    /// Counts elements that are left as records that are left out.
    pub(super) fn end(mut self, what: &str, left_out: &mut LeftOut) -> Result<()> {
        while let Some(json) = self.next()? {
            left_out.add(1, json.wrong(what));
        }
        Ok(())
    }
}

/// The members of an object, read one by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members {
    is_first: bool,
}

impl Members {
    /// Moves `json`, which is behind the value before, to the value of the next member, and returns its key.
    pub(super) fn next<'a>(&mut self, json: &mut Json<'a>) -> Result<Option<Cow<'a, str>>> {
        if std::mem::take(&mut self.is_first) {
            if json.peek() == Some(b'}') {
                json.at += 1;
                return Ok(None);
            }
        } else if json.is_last(b'}', "\",\" or \"}\"")? {
            return Ok(None);
        }
        json.key().map(Some)
    }
}

#[cfg(test)]
mod tests;
