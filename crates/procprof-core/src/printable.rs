//! External text made safe: nothing in it moves the cursor, begins a line or turns the reading direction. Logs escape
//! such characters ([`Printable`]); names that others send may not have them ([`is_plain`]).

use std::fmt::{self, Write};

/// Shows a text with its control characters escaped, as `\n` and `\u{1b}`.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match is_plain_character(character) {
                true => f.write_char(character)?,
                false => write!(f, "{}", character.escape_default())?,
            }
        }
        Ok(())
    }
}

/// Whether a text that others send can be a name: it has no character that [`Printable`] would escape.
pub fn is_plain(text: &str) -> bool {
    text.chars().all(is_plain_character)
}

/// The text without the characters that [`Printable`] would escape.
pub fn without_controls(text: &str) -> String {
    text.chars().filter(|character| is_plain_character(*character)).collect()
}

/// The text with a space in the place of each character that [`Printable`] would escape.
pub fn in_one_line(text: &str) -> String {
    text.chars().map(|character| if is_plain_character(character) { character } else { ' ' }).collect()
}

fn is_plain_character(character: char) -> bool {
    !character.is_control() && !steers(character)
}

/// Whether a character separates lines or paragraphs, or embeds or overrides a direction.
pub fn steers(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{Printable, in_one_line, is_plain, without_controls};

    #[test]
    fn a_name_turns_no_reading_direction() {
        for (text, line, name) in [
            ("ann", "ann", "ann"),
            ("größe 大小", "größe 大小", "größe 大小"),
            ("db\u{202e}lqsym", "db lqsym", "dblqsym"),
            ("a\u{2067}b\nc\u{7f}", "a b c ", "abc"),
        ] {
            assert_eq!((in_one_line(text), without_controls(text)), (line.to_owned(), name.to_owned()));
            assert_eq!(is_plain(text), text == name);
        }
    }

    #[test]
    fn nothing_from_outside_begins_a_line() {
        for (text, shown) in [
            ("ann", "ann"),
            ("x\n2026-01-01 INFO forged\x1b[31m", "x\\n2026-01-01 INFO forged\\u{1b}[31m"),
            ("\r\0\u{85}\u{9b}\u{2028}\u{202e}", "\\r\\u{0}\\u{85}\\u{9b}\\u{2028}\\u{202e}"),
            ("größe 大小 \"quoted\" \\", "größe 大小 \"quoted\" \\"),
        ] {
            assert_eq!(Printable(text).to_string(), shown);
        }
    }
}
