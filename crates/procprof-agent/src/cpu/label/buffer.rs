//! One thread's labels as words that a handler can copy.
//!
//! A label is a head (kind, lengths of key and value), the key's bytes and the value's, each filled up to whole words.

use super::LabelValue;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering, compiler_fence};

/// Words of labels a thread, and so a sample, may have.
pub(crate) const LABEL_WORDS: usize = 64;

const MAX_LABELS: usize = 16;
const MAX_KEY: usize = 63;
const MAX_TEXT: usize = 128;
const ELLIPSIS: &str = "…";

const TEXT: u64 = 1;
const NUMBER: u64 = 2;
const UNSIGNED: u64 = 3;

/// Written by its thread, read by a handler that interrupts the same thread.
#[derive(Debug)]
pub(super) struct Buffer {
    words: [AtomicU64; LABEL_WORDS],
    /// The start of each label.
    starts: [AtomicU16; MAX_LABELS],
    labels: AtomicUsize,
    used: AtomicUsize,
}

impl Buffer {
    pub(super) const fn new() -> Self {
        let words = [const { AtomicU64::new(0) }; LABEL_WORDS];
        let starts = [const { AtomicU16::new(0) }; MAX_LABELS];
        Self { words, starts, labels: AtomicUsize::new(0), used: AtomicUsize::new(0) }
    }

    /// Adds a label; returns how many there are with it, or `None` without room.
    #[inline]
    pub(super) fn push(&self, key: &str, value: LabelValue<'_>) -> Option<usize> {
        let key = cut(key, MAX_KEY);
        let (labels, start) = (self.labels.load(Ordering::Relaxed), self.used.load(Ordering::Relaxed));
        let end = match value {
            LabelValue::Text(text) if text.len() > MAX_TEXT => self.write_cut(start, key, text)?,
            LabelValue::Text(text) => self.write(start, TEXT, key, text.as_bytes(), "")?,
            LabelValue::Number(number) => self.write(start, NUMBER, key, &number.to_le_bytes(), "")?,
            LabelValue::Unsigned(number) => self.write(start, UNSIGNED, key, &number.to_le_bytes(), "")?,
        };
        self.starts.get(labels)?.store(start as u16, Ordering::Relaxed);
        self.labels.store(labels + 1, Ordering::Relaxed);
        // A handler sees the words before it sees that they are used.
        compiler_fence(Ordering::Release);
        self.used.store(end, Ordering::Relaxed);
        Some(labels + 1)
    }

    /// Removes the label at a position from 1 and all behind it.
    #[inline]
    pub(super) fn cut(&self, depth: usize) {
        if depth == 0 || depth > self.labels.load(Ordering::Relaxed) {
            return;
        }
        let start = self.starts[depth - 1].load(Ordering::Relaxed);
        self.used.store(start.into(), Ordering::Relaxed);
        compiler_fence(Ordering::Release);
        self.labels.store(depth - 1, Ordering::Relaxed);
    }

    /// Hands all words to `each`. Called by the handler.
    #[inline]
    pub(super) fn copy(&self, mut each: impl FnMut(u64)) {
        let used = self.used.load(Ordering::Relaxed).min(LABEL_WORDS);
        compiler_fence(Ordering::Acquire);
        self.words[..used].iter().for_each(|word| each(word.load(Ordering::Relaxed)));
    }

    #[cold]
    fn write_cut(&self, start: usize, key: &str, text: &str) -> Option<usize> {
        self.write(start, TEXT, key, cut(text, MAX_TEXT - ELLIPSIS.len()).as_bytes(), ELLIPSIS)
    }

    /// Writes a label whose value is `value` and `tail`; returns where it ends.
    #[inline]
    fn write(&self, start: usize, kind: u64, key: &str, value: &[u8], tail: &str) -> Option<usize> {
        let length = value.len() + tail.len();
        let words = self.words.get(start..start + 1 + key.len().div_ceil(8) + length.div_ceil(8))?;
        words[0].store(kind << 32 | (key.len() as u64) << 16 | length as u64, Ordering::Relaxed);
        let (of_key, of_value) = words[1..].split_at(key.len().div_ceil(8));
        fill(of_key, key.as_bytes());
        if tail.is_empty() {
            fill(of_value, value);
        } else {
            fill(of_value, &[value, tail.as_bytes()].concat());
        }
        Some(start + words.len())
    }
}

#[inline]
fn fill(words: &[AtomicU64], bytes: &[u8]) {
    let mut chunks = bytes.chunks_exact(8);
    for (word, chunk) in words.iter().zip(&mut chunks) {
        word.store(chunk.try_into().map_or(0, u64::from_le_bytes), Ordering::Relaxed);
    }
    if let Some(last) = words.last().filter(|_| !chunks.remainder().is_empty()) {
        let padded = chunks.remainder().iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        last.store(padded, Ordering::Relaxed);
    }
}

/// At most `limit` bytes of a text, in whole characters.
#[inline]
fn cut(text: &str, limit: usize) -> &str {
    if text.len() <= limit { text } else { &text[..text.floor_char_boundary(limit)] }
}

/// A label as a profile shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    Text(String),
    Number(i64),
}

/// The labels in words that [`Buffer::copy`] handed out, outermost first, one for each key; broken words end them.
pub(crate) fn decode(mut words: &[u64]) -> Vec<(String, Decoded)> {
    let mut labels: Vec<(String, Decoded)> = Vec::new();
    while let [head, rest @ ..] = words {
        let (key_length, length) = ((head >> 16 & 0xffff) as usize, (head & 0xffff) as usize);
        let Some((key, rest)) = rest.split_at_checked(key_length.div_ceil(8)) else { break };
        let Some((value, rest)) = rest.split_at_checked(length.div_ceil(8)) else { break };
        words = rest;
        let number = value.first().copied().unwrap_or_default();
        let value = match head >> 32 {
            NUMBER => Decoded::Number(number.cast_signed()),
            UNSIGNED => i64::try_from(number).map_or_else(|_| Decoded::Text(number.to_string()), Decoded::Number),
            _ => Decoded::Text(text(value, length)),
        };
        let key = text(key, key_length);
        labels.retain(|(outer, _)| *outer != key);
        labels.push((key, value));
    }
    labels
}

fn text(words: &[u64], length: usize) -> String {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(length);
    String::from_utf8_lossy(&bytes).into_owned()
}
