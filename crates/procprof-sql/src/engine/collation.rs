//! Keys of texts: two texts compare as their keys do, byte by byte.

use std::borrow::Cow;

use super::types::Collation;
use super::weights::weight;

/// The key of a text.
pub(super) fn key(text: &str, collation: Collation) -> Cow<'_, str> {
    match collation {
        Collation::Binary => Cow::Borrowed(text),
        Collation::General => {
            let trimmed = text.trim_end_matches(' ');
            let mut key = String::with_capacity(trimmed.len() + 1);
            // Of ASCII, letters only have another weight.
            if trimmed.is_ascii() {
                key.push_str(trimmed);
                key.make_ascii_uppercase();
            } else {
                key.extend(trimmed.chars().map(weight));
            }
            // The end counts as a blank, which is more than a control character and less than others.
            key.push(' ');
            Cow::Owned(key)
        }
    }
}

/// A text with each character replaced by its weight, for a search in it.
pub(super) fn folded(text: &str, collation: Collation) -> Cow<'_, str> {
    match collation {
        Collation::Binary => Cow::Borrowed(text),
        Collation::General => Cow::Owned(text.chars().map(weight).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ascii_letters_only_have_another_weight() {
        for character in (0..128).map(char::from) {
            assert_eq!(weight(character), character.to_ascii_uppercase());
        }
        assert_eq!(key("a\u{e4} ", Collation::General), key("Aa", Collation::General));
    }
}
