//! The format of unpacked bytes, and where in them the profile begins.
//!
//! A byte order mark is no part of a profile, and text in UTF-16, which shells of Windows write, is read as UTF-8.
//! Lines of others may precede a text: what the recorded program or the profiler printed, a prompt, a warning. They are
//! passed over with a warning if a format recognises the rest.

use std::borrow::Cow;

use super::{Detect, Format, collapsed, foreign};
use crate::text::{Lines, OddLines};
use crate::{Error, Result};

/// Most lines before a profile that are passed over.
const LINES_MAX: usize = 20;
/// Most bytes of them.
const BYTES_MAX: usize = 16 << 10;

/// A profile in its format.
pub(super) struct DetectedInput<'a, 'f> {
    pub(super) format: &'f Format,
    /// The bytes from the beginning of the profile.
    pub(super) bytes: &'a [u8],
    /// The lines before it.
    odd: OddLines,
    lines: usize,
    offset: usize,
}

impl<'a, 'f> DetectedInput<'a, 'f> {
    /// Finds the first format that recognises the bytes, or what follows their first lines.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Foreign`] or [`Error::Unrecognized`].
    pub(super) fn find(bytes: &'a [u8], formats: &'f [Format]) -> Result<DetectedInput<'a, 'f>> {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let offset = bytes.len() - text.len();
        if text.is_empty() {
            return Err(Error::Empty);
        }
        if let Some(format) = formats.iter().find(|format| (format.detect)(text) == Detect::Yes) {
            return Ok(DetectedInput { format, bytes: text, odd: OddLines::default(), lines: 0, offset });
        }
        if let Some(known) = foreign::known(text) {
            return Err(known);
        }
        behind_lines(text, offset, formats).ok_or_else(|| foreign::unrecognized(bytes))
    }

    /// Warnings about the lines before the profile.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        std::mem::take(&mut self.odd).warn(self.format.name, &mut warnings);
        if let Some(warning) = warnings.first_mut() {
            *warning += &format!("; the profile begins behind line {}, from which others are counted", self.lines);
        }
        warnings
    }

    /// An error of the decoder, its place counted from the beginning of the input.
    pub(super) fn place(&self, error: Error) -> Error {
        error.shifted(self.lines, self.offset)
    }
}

/// The profile behind the first lines of a text.
fn behind_lines<'a, 'f>(text: &'a [u8], offset: usize, formats: &'f [Format]) -> Option<DetectedInput<'a, 'f>> {
    let mut odd = OddLines::default();
    let mut lines = Lines::new(text);
    for _ in 0..LINES_MAX {
        let line = lines.next().filter(|line| is_text(line.text))?;
        if !line.text.is_empty() {
            odd.note(&line);
        }
        let rest = lines.rest();
        let start = text.len() - rest.len();
        if rest.is_empty() || start > BYTES_MAX || !is_text(Lines::new(rest).next()?.text) {
            return None;
        }
        // Collapsed stacks have no beginning of their own; their decoder passes lines over.
        let is_it = |format: &&Format| format.name != collapsed::NAME && (format.detect)(rest) == Detect::Yes;
        if let Some(format) = formats.iter().find(is_it) {
            return Some(DetectedInput { format, bytes: rest, odd, lines: line.number, offset: offset + start });
        }
    }
    None
}

fn is_text(line: &[u8]) -> bool {
    !line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t' && *byte != 0x1b)
}

/// UTF-16 with its byte order mark as UTF-8.
pub(super) fn in_utf8(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let from: fn([u8; 2]) -> u16 = match *bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return bytes,
    };
    let units = bytes[2..].as_chunks::<2>().0.iter().map(|pair| from(*pair));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Cow::Owned(text.into_bytes())
}

#[cfg(test)]
mod tests;
