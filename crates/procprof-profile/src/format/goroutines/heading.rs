//! The line above a goroutine's stack.
//!
//! ```text
//! goroutine 18 gp=0xc000007c00 m=nil [chan receive (leaked), 5 minutes, locked to thread]:
//! goroutine 19 [select] {tenant: "a b", "odd key": x}:          labels, from Go 1.27 on
//! goroutine 19 [select labels:{"tenant": "a b"}]:               Go 1.26 with GODEBUG=tracebacklabels=1
//! ```
//! Format: Go, `goroutineheader` in `runtime/traceback.go`.

use std::borrow::Cow;

/// The facts of a heading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heading {
    pub(super) state: String,
    pub(super) minutes: i64,
    /// Whether nothing can ever wake it.
    pub(super) is_leaked: bool,
    pub(super) labels: Vec<(String, String)>,
}

/// The key of labels that cannot be read, whose value is their text.
const UNREAD: &str = "labels";

impl Heading {
    pub(super) fn parse(line: &str) -> Option<Heading> {
        let rest = line.strip_prefix("goroutine ")?;
        let (number, rest) = rest.split_once(' ')?;
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (_, inner) = rest.strip_suffix(':')?.split_once('[')?;
        let (facts, labels) = inner.split_at(inner.find([']', '{'])?);
        let (facts, labels) = match labels.strip_prefix(']') {
            Some(behind) => (facts, behind.trim()),
            None => (facts.trim_end_matches("labels:").trim_end(), labels.strip_suffix(']')?),
        };
        let labels = labels_in(labels)?;
        let mut parts = facts.split(", ");
        let state = parts.next().unwrap_or_default();
        let state = state.strip_suffix(" (scan)").unwrap_or(state);
        let is_leaked = state.ends_with(" (leaked)");
        let state = state.strip_suffix(" (leaked)").unwrap_or(state).to_owned();
        let minutes = parts.find_map(|part| part.strip_suffix(" minutes")?.parse().ok()).unwrap_or(0);
        Some(Heading { state, minutes, is_leaked, labels })
    }
}

/// The labels in `{…}`; none in nothing.
fn labels_in(text: &str) -> Option<Vec<(String, String)>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    Some(pairs(inside).unwrap_or_else(|| vec![(UNREAD.to_owned(), inside.to_owned())]))
}

fn pairs(mut text: &str) -> Option<Vec<(String, String)>> {
    let mut all = Vec::new();
    while !text.is_empty() {
        let (key, rest) = word(text, ':')?;
        let (value, rest) = word(rest.strip_prefix(':')?.trim_start(), ',')?;
        all.push((key.into_owned(), value.into_owned()));
        text = rest.strip_prefix(',').map_or(rest, str::trim_start);
    }
    Some(all)
}

/// A word in quotes, or one up to that character; and what follows it.
fn word(text: &str, end: char) -> Option<(Cow<'_, str>, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (word, rest) = text.split_at(text.find(end).unwrap_or(text.len()));
        return Some((Cow::Borrowed(word), rest));
    };
    let mut plain = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => break,
            '\\' => plain.push(escaped(&mut characters)?),
            other => plain.push(other),
        }
    }
    let rest = characters.as_str();
    (rest.is_empty() || rest.starts_with(end)).then_some((Cow::Owned(plain), rest))
}

fn escaped(characters: &mut std::str::Chars<'_>) -> Option<char> {
    let digits = match characters.next()? {
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Some(other),
    };
    let mut number = 0u32;
    for _ in 0..digits {
        number = number.checked_mul(16)?.checked_add(characters.next()?.to_digit(16)?)?;
    }
    Some(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_all_versions_are_read() {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let is = |state: &str, minutes, is_leaked, labels| {
            Some(Heading { state: state.to_owned(), minutes, is_leaked, labels })
        };
        for (line, expected) in [
            ("goroutine 1 [running]:", is("running", 0, false, vec![])),
            (
                "goroutine 7 gp=0x1 m=nil [chan receive (nil chan), 5 minutes, locked to thread]:",
                is("chan receive (nil chan)", 5, false, vec![]),
            ),
            ("goroutine 7 [chan send (leaked) (scan)]:", is("chan send", 0, true, vec![])),
            (
                "goroutine 7 [select, 2 minutes] {tenant: \"a b\", \"k\\\"], {\": x}:",
                is("select", 2, false, vec![label("tenant", "a b"), label("k\"], {", "x")]),
            ),
            (
                "goroutine 7 [chan receive (leaked)] {a: \"]:}\\u00e9\\n\"}:",
                is("chan receive", 0, true, vec![label("a", "]:}\u{e9}\n")]),
            ),
            (
                "goroutine 7 [chan receive labels:{\"k\": \"v}]\", \"l\": \"\\x41\"}]:",
                is("chan receive", 0, false, vec![label("k", "v}]"), label("l", "A")]),
            ),
            ("goroutine 7 [select]{\"a\": \"b\"}:", is("select", 0, false, vec![label("a", "b")])),
            ("goroutine 7 [select] {\"a}:", is("select", 0, false, vec![label("labels", "\"a")])),
            ("goroutine 7 [select] other:", None),
            ("goroutine 7 [select", None),
            ("goroutine x [select]:", None),
        ] {
            assert_eq!(Heading::parse(line), expected, "{line}");
        }
    }
}
