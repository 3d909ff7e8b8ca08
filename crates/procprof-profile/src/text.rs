//! Scanning of profile texts: lines, integers, hexadecimal addresses. Nothing here allocates per line.

use memchr::{memchr, memmem};

use crate::{Error, Place, Result};

/// A line without its line break and without blanks at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) text: &'a [u8],
    /// Counted from 1.
    pub(crate) number: usize,
    /// Whether the input ends here without a line break, so that the line may be cut.
    pub(crate) is_cut: bool,
}

impl Line<'_> {
    pub(crate) fn place(&self) -> Place {
        Place::Line(self.number)
    }

    /// The error for a line that should have been `expected`: truncated when the input ends in it, else malformed.
    #[cold]
    pub(crate) fn error(&self, format: &'static str, expected: &'static str) -> Error {
        if self.is_cut {
            return Error::Truncated { format, place: self.place(), what: expected };
        }
        Error::Malformed {
            format,
            place: self.place(),
            what: format!("expected {expected}, found {:?}", self.excerpt()),
        }
    }

    /// The beginning of the line for messages, at most 60 characters.
    pub(crate) fn excerpt(&self) -> String {
        String::from_utf8_lossy(&self.text[..self.text.len().min(240)]).chars().take(60).collect()
    }

    /// Whether the line is empty or a `#` comment.
    pub(crate) fn is_blank_or_comment(&self) -> bool {
        matches!(self.text.first(), None | Some(b'#'))
    }
}

/// The lines of a text, with the unread rest always at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Lines<'a> {
        Lines { rest: text, number: 0 }
    }

    /// The text behind the last line returned.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The number of lines returned.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The text behind the memory map's heading, which is `line`, just read, or a later one behind sections of no
    /// interest; empty without heading.
    pub(crate) fn behind_map_heading(&mut self, line: &Line<'_>) -> &'a [u8] {
        if is_map_heading(line.text) || self.any(|line| is_map_heading(line.text)) { self.rest } else { &[] }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (text, is_cut) = match memchr(b'\n', self.rest) {
            Some(end) => {
                let text = &self.rest[..end];
                self.rest = &self.rest[end + 1..];
                (text, false)
            }
            None => (std::mem::take(&mut self.rest), true),
        };
        self.number += 1;
        Some(Line { text: text.trim_ascii(), number: self.number, is_cut })
    }
}

/// Reads a line piece by piece. `integer`, `hex` and `address` leave it where it was when they fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: text }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn skip_blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    #[inline]
    pub(crate) fn eat(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        if *first != byte {
            return None;
        }
        self.rest = rest;
        Some(())
    }

    pub(crate) fn eat_text(&mut self, text: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Decimal digits as a number; `None` without digits or past `u64`.
    #[inline]
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut len = 0;
        for byte in self.rest {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
            len += 1;
        }
        self.rest = &self.rest[len..];
        (len > 0).then_some(value)
    }

    /// Decimal digits, perhaps behind a `-`; `None` without digits or past `i64`.
    #[inline]
    pub(crate) fn integer(&mut self) -> Option<i64> {
        let before = self.rest;
        let is_negative = self.eat(b'-').is_some();
        let value = self.unsigned().and_then(|value| i64::try_from(value).ok());
        match value {
            Some(value) => Some(if is_negative { -value } else { value }),
            None => {
                self.rest = before;
                None
            }
        }
    }

    /// Hexadecimal digits; `None` without digits or past `u64`.
    #[inline]
    pub(crate) fn hex(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut len = 0;
        for byte in self.rest {
            let digit = HEX[usize::from(*byte)];
            if digit > 15 {
                break;
            }
            value = value << 4 | u64::from(digit);
            len += 1;
        }
        let (digits, rest) = self.rest.split_at(len);
        let surplus = len.saturating_sub(16);
        if len == 0 || digits[..surplus].iter().any(|digit| *digit != b'0') {
            return None;
        }
        self.rest = rest;
        Some(value)
    }

    /// `0x` and hexadecimal digits.
    #[inline]
    pub(crate) fn address(&mut self) -> Option<u64> {
        let mut ahead = *self;
        ahead.eat_text(b"0x")?;
        let value = ahead.hex()?;
        *self = ahead;
        Some(value)
    }

    /// `COUNT: SIZE`, with blanks around both.
    #[inline]
    pub(crate) fn pair(&mut self) -> Option<(i64, i64)> {
        self.skip_blanks();
        let count = self.integer()?;
        self.skip_blanks();
        self.eat(b':')?;
        self.skip_blanks();
        let size = self.integer()?;
        self.skip_blanks();
        Some((count, size))
    }

    /// `[COUNT: SIZE]`, with blanks allowed everywhere.
    #[inline]
    pub(crate) fn bracketed_pair(&mut self) -> Option<(i64, i64)> {
        self.skip_blanks();
        self.eat(b'[')?;
        let pair = self.pair()?;
        self.eat(b']')?;
        self.skip_blanks();
        Some(pair)
    }

    /// The bytes up to the next blank, and the blanks behind them.
    pub(crate) fn word(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.skip_blanks();
        word
    }
}

const HEX: [u8; 256] = {
    let mut table = [255u8; 256];
    let mut digit = 0u8;
    while digit < 16 {
        table[b"0123456789abcdef"[digit as usize] as usize] = digit;
        table[b"0123456789ABCDEF"[digit as usize] as usize] = digit;
        digit += 1;
    }
    table
};

/// Whether a line announces the memory map.
#[inline]
pub(crate) fn is_map_heading(line: &[u8]) -> bool {
    match line.first() {
        Some(b'-' | b'M') => contains(line, b"--- Memory map: ---") || contains(line, b"MAPPED_LIBRARIES:"),
        _ => false,
    }
}

pub(crate) fn contains(text: &[u8], piece: &[u8]) -> bool {
    memmem::find(text, piece).is_some()
}

/// Counts lines that were skipped, and reports them in one warning.
#[derive(Debug, Default)]
pub(crate) struct OddLines {
    count: usize,
    first: Option<(usize, String)>,
    error: Option<Error>,
}

impl OddLines {
    #[cold]
    pub(crate) fn note(&mut self, line: &Line<'_>) {
        self.add(line.number, line.excerpt());
    }

    /// Counts a line by its number and beginning.
    #[cold]
    pub(crate) fn add(&mut self, number: usize, excerpt: String) {
        self.count += 1;
        self.first.get_or_insert((number, excerpt));
    }

    /// The record that was read from a line; `None` if the line is broken and is counted.
    ///
    /// # Errors
    /// All that concern more than the line: limits, and an input that ends in it.
    #[inline]
    pub(crate) fn keep<T>(&mut self, line: &Line<'_>, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error @ Error::Malformed { .. }) => {
                self.note(line);
                self.error.get_or_insert(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Warns, as [`OddLines::warn`] does.
    ///
    /// # Errors
    /// The error of the first broken line, if nothing else was read.
    pub(crate) fn end(mut self, format: &str, is_empty: bool, warnings: &mut Vec<String>) -> Result<()> {
        match self.error.take().filter(|_| is_empty) {
            Some(error) => Err(error),
            None => {
                self.warn(format, warnings);
                Ok(())
            }
        }
    }

    /// Adds those of a text behind so many lines.
    pub(crate) fn append(&mut self, other: OddLines, lines: usize) {
        self.count += other.count;
        if self.first.is_none() {
            self.first = other.first.map(|(number, excerpt)| (number + lines, excerpt));
        }
        if self.error.is_none() {
            self.error = other.error.map(|error| error.shifted(lines, 0));
        }
    }

    pub(crate) fn warn(self, format: &str, warnings: &mut Vec<String>) {
        if let Some((number, excerpt)) = self.first {
            let lines = if self.count == 1 { "line" } else { "lines" };
            warnings.push(format!(
                "{format}: line {number}: passed over {} {lines} not understood, the first {excerpt:?}",
                self.count
            ));
        }
    }
}

#[cfg(test)]
mod tests;
