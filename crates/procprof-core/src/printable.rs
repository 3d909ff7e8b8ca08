//! External text made safe for a log: nothing in it moves the cursor, begins a line or turns the reading direction.

use std::fmt::{self, Write};

/// Shows a text with its control characters escaped, as `\n` and `\u{1b}`.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match is_plain(character) {
                true => f.write_char(character)?,
                false => write!(f, "{}", character.escape_default())?,
            }
        }
        Ok(())
    }
}

fn is_plain(character: char) -> bool {
    // Separators of lines and paragraphs, and what embeds or overrides a direction.
    let steers = matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !steers
}

#[cfg(test)]
mod tests {
    use super::Printable;

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
