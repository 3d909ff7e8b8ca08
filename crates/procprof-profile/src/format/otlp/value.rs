//! Values of attributes, as labels: numbers and texts.
//!
//! Other values are written as OpenTelemetry says for formats with texts alone: truths by their names, bytes in base64,
//! arrays and maps as JSON, in which what is no value of JSON is a text, and an empty value is `null`:
//!
//! ```text
//! ["a",7,1.5,true,null,{"key":"aGk="}]
//! ```
//! Source: <https://opentelemetry.io/docs/specs/otel/common/#anyvalue-representation-for-non-otlp-protocols>.

use std::borrow::Cow;
use std::cell::Cell;

use super::NAME;
use crate::format::json::push_text;

/// Deepest nesting of values, protobuf's own limit for messages.
const DEPTH_MAX: usize = 100;
/// Bytes that arrays and maps may take as texts, in times those of the file, and how many are free. More comes only of
/// many references to a long text.
const ROOM_MULTIPLE: usize = 8;
const ROOM_FREE: usize = 64 << 10;

pub(super) const TOO_DEEP: &str = "an attribute whose values are nested more than 100 deep";
pub(super) const TOO_LONG: &str = "attributes whose texts take more than 8 times the file";

/// The value of an attribute.
#[derive(Clone, Default)]
pub(super) enum Value<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    /// A text of the dictionary.
    String(i64),
    Number(i64),
}

/// What arrays and maps need to be written as texts, for all of a message.
pub(super) struct NestedValues<'c> {
    strings: &'c [Cow<'c, str>],
    /// Bytes that may still be written.
    room: Cell<usize>,
    /// How many strings were not in the dictionary.
    missing: Cell<usize>,
}

impl<'c> NestedValues<'c> {
    pub(super) fn new(strings: &'c [Cow<'c, str>], input_bytes: usize) -> NestedValues<'c> {
        let room = input_bytes.saturating_mul(ROOM_MULTIPLE).saturating_add(ROOM_FREE);
        NestedValues { strings, room: Cell::new(room), missing: Cell::new(0) }
    }

    pub(super) fn warn(&self, warnings: &mut Vec<String>) {
        if self.missing.get() > 0 {
            let count = self.missing.get();
            warnings
                .push(format!("{NAME}: strings in attributes that the dictionary does not have, left out: {count}"));
        }
    }
}

/// An array or a map as it is written.
pub(super) struct NestedText<'v, 'c> {
    values: &'v NestedValues<'c>,
    text: String,
    depth: usize,
}

impl<'v, 'c> NestedText<'v, 'c> {
    pub(super) fn new(values: &'v NestedValues<'c>) -> NestedText<'v, 'c> {
        NestedText { values, text: String::new(), depth: 0 }
    }

    /// Begins an array or a map.
    pub(super) fn open(&mut self, bracket: char) -> Result<(), &'static str> {
        self.depth += 1;
        self.text.push(bracket);
        if self.depth > DEPTH_MAX { Err(TOO_DEEP) } else { Ok(()) }
    }

    /// Parts an element from the one before, if there is one.
    pub(super) fn separate(&mut self) -> Result<(), &'static str> {
        if !self.text.ends_with(['[', '{']) {
            self.text.push(',');
        }
        if self.text.len() > self.values.room.get() { Err(TOO_LONG) } else { Ok(()) }
    }

    pub(super) fn close(&mut self, bracket: char) {
        self.depth -= 1;
        self.text.push(bracket);
    }

    /// Parts a key from its value.
    pub(super) fn colon(&mut self) {
        self.text.push(':');
    }

    pub(super) fn text(&mut self, text: &str) {
        push_text(&mut self.text, text);
    }

    /// Writes a number, a truth or `null`.
    pub(super) fn word(&mut self, word: &str) {
        self.text.push_str(word);
    }

    pub(super) fn float(&mut self, number: f64) {
        match number.is_finite() {
            true => self.word(&float_text(number)),
            false => self.text(&float_text(number)),
        }
    }

    /// Writes a string of the dictionary, or what stands for one that is not there.
    pub(super) fn string(&mut self, index: i64, missing: &str) {
        match usize::try_from(index).ok().and_then(|index| self.values.strings.get(index)) {
            Some(text) => push_text(&mut self.text, text),
            None if index == 0 => self.text(""),
            None => {
                self.values.missing.set(self.values.missing.get() + 1);
                self.word(missing);
            }
        }
    }

    /// The text.
    ///
    /// # Errors
    /// If all texts take too much.
    pub(super) fn finish<'a>(self) -> Result<Value<'a>, &'static str> {
        let room = self.values.room.get().checked_sub(self.text.len()).ok_or(TOO_LONG)?;
        self.values.room.set(room);
        Ok(Value::Text(self.text.into()))
    }
}

/// A number with a fraction, as OpenTelemetry writes it.
pub(super) fn float_text(number: f64) -> String {
    match (number.is_infinite(), number > 0.0) {
        (true, true) => "Infinity".to_owned(),
        (true, false) => "-Infinity".to_owned(),
        (false, _) => number.to_string(),
    }
}

/// Bytes in base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0, |word: u32, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let is_there = digit <= chunk.len();
            let place = (word >> (18 - 6 * digit)) as usize & 63;
            text.push(if is_there { char::from(DIGITS[place]) } else { '=' });
        }
    }
    text
}
