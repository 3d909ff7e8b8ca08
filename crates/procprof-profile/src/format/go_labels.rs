//! Labels of goroutines as Go prints them.
//!
//! ```text
//! {"tenant":"a b", "shard":"7"}        `labelMap.String` of `runtime/pprof`, behind `# labels: `
//! {tenant: "a b", "odd key": x}        `runtime/traceback.go`
//! ```

use std::borrow::Cow;

/// The key of labels that cannot be read, whose value is their text.
const UNREAD: &str = "labels";

/// The labels in `{…}`; none in nothing.
pub(super) fn labels_in(text: &str) -> Option<Vec<(String, String)>> {
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
