//! Widths of texts in the standard fonts of PDF; programs that show SVG have fonts with the same widths under other
//! names.
//!
//! The widths are those of Adobe's font metrics, in thousandths of the size, for the characters of the encoding
//! `WinAnsiEncoding` (PDF 32000-1, annex D) from 32 on.

/// A typeface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Font {
    /// Helvetica.
    #[default]
    Sans,
    /// Times.
    Serif,
}

/// Width of characters that are not in the encoding; those of East Asian scripts take twice as much.
const OTHER: u16 = 600;

impl Font {
    /// The width of a text in points.
    pub(crate) fn width(self, text: &str, size: f64) -> f64 {
        text.chars().map(|c| f64::from(self.advance(c))).sum::<f64>() * size / 1000.0
    }

    /// The width of a character in thousandths of the size.
    pub(crate) fn advance(self, c: char) -> u16 {
        let widths = match self {
            Font::Sans => &HELVETICA,
            Font::Serif => &TIMES,
        };
        match code(c) {
            Some(code) => widths[usize::from(code) - 32],
            None if is_wide(c) => 2 * OTHER,
            None => OTHER,
        }
    }

    /// The name among the standard fonts of PDF.
    pub(crate) fn standard_name(self) -> &'static str {
        match self {
            Font::Sans => "Helvetica",
            Font::Serif => "Times-Roman",
        }
    }

    /// Names in the order in which programs should look for them.
    pub(crate) fn families(self) -> &'static str {
        match self {
            Font::Sans => "Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', sans-serif",
            Font::Serif => "Times, 'Times New Roman', 'Liberation Serif', 'Nimbus Roman', serif",
        }
    }
}

/// The code of a character, from 32 on, if the encoding has it.
pub(crate) fn code(c: char) -> Option<u8> {
    match c {
        ' '..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='ÿ' => u8::try_from(u32::from(c)).ok(),
        '\u{a0}' => Some(32),
        _ => HIGH.iter().find(|(own, _)| *own == c).map(|(_, code)| *code),
    }
}

fn is_wide(c: char) -> bool {
    matches!(u32::from(c), 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0x1f300..=0x1faff | 0x20000..=0x3fffd)
}

/// The characters of the encoding between ASCII and Latin-1.
#[rustfmt::skip]
const HIGH: [(char, u8); 27] = [
    ('€', 0x80), ('‚', 0x82), ('ƒ', 0x83), ('„', 0x84), ('…', 0x85), ('†', 0x86), ('‡', 0x87), ('ˆ', 0x88), ('‰', 0x89), ('Š', 0x8a), ('‹', 0x8b),
    ('Œ', 0x8c), ('Ž', 0x8e), ('‘', 0x91), ('’', 0x92), ('“', 0x93), ('”', 0x94), ('•', 0x95), ('–', 0x96), ('—', 0x97), ('˜', 0x98), ('™', 0x99),
    ('š', 0x9a), ('›', 0x9b), ('œ', 0x9c), ('ž', 0x9e), ('Ÿ', 0x9f),
];

#[rustfmt::skip]
const HELVETICA: [u16; 224] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556,
    556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, 350,
    556, 350, 222, 556, 333, 1000, 556, 556, 333, 1000, 667, 333, 1000, 350, 611, 350, 350, 222, 222, 333, 333, 350, 556, 1000,
    333, 1000, 500, 333, 944, 350, 500, 667, 278, 333, 556, 556, 556, 556, 260, 556, 333, 737, 370, 556, 584, 333, 737, 333,
    400, 584, 333, 333, 333, 556, 537, 278, 333, 333, 365, 556, 834, 834, 834, 611, 667, 667, 667, 667, 667, 667, 1000, 722,
    667, 667, 667, 667, 278, 278, 278, 278, 722, 722, 778, 778, 778, 778, 778, 584, 778, 722, 722, 722, 722, 667, 667, 611,
    556, 556, 556, 556, 556, 556, 889, 500, 556, 556, 556, 556, 278, 278, 278, 278, 556, 556, 556, 556, 556, 556, 556, 584,
    611, 556, 556, 556, 556, 500, 556, 500,
];
#[rustfmt::skip]
const TIMES: [u16; 224] = [
    250, 333, 408, 500, 500, 833, 778, 180, 333, 333, 500, 564, 250, 333, 250, 278, 500, 500, 500, 500, 500, 500, 500, 500,
    500, 500, 278, 278, 564, 564, 564, 444, 921, 722, 667, 667, 722, 611, 556, 722, 722, 333, 389, 722, 611, 889, 722, 722,
    556, 722, 667, 556, 611, 722, 722, 944, 722, 722, 611, 333, 278, 333, 469, 500, 333, 444, 500, 444, 500, 444, 333, 500,
    500, 278, 278, 500, 278, 778, 500, 500, 500, 500, 333, 389, 278, 500, 500, 722, 500, 500, 444, 480, 200, 480, 541, 350,
    500, 350, 333, 500, 444, 1000, 500, 500, 333, 1000, 556, 333, 889, 350, 611, 350, 350, 333, 333, 444, 444, 350, 500, 1000,
    333, 980, 389, 333, 722, 350, 444, 722, 250, 333, 500, 500, 500, 500, 200, 500, 333, 760, 276, 500, 564, 333, 760, 333,
    400, 564, 300, 300, 333, 500, 453, 250, 333, 300, 310, 500, 750, 750, 750, 444, 722, 722, 722, 722, 722, 722, 889, 667,
    611, 611, 611, 611, 333, 333, 333, 333, 722, 722, 722, 722, 722, 722, 722, 564, 722, 722, 722, 722, 722, 722, 556, 500,
    444, 444, 444, 444, 444, 444, 667, 444, 444, 444, 444, 444, 278, 278, 278, 278, 500, 500, 500, 500, 500, 500, 500, 564,
    500, 500, 500, 500, 500, 500, 500, 500,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_widths_of_the_standard_fonts() {
        assert_eq!(Font::Sans.width("Wi", 10.0), 9.44 + 2.22);
        assert_eq!(Font::Serif.width("Wi", 1000.0), 944.0 + 278.0);
        assert_eq!(Font::Sans.width("é…", 1000.0), 556.0 + 1000.0);
        assert_eq!(Font::Sans.width("中π", 1000.0), 1200.0 + 600.0);
        assert_eq!((code('\u{7f}'), code('\n'), code('\u{ad}'), code('ÿ')), (None, None, None, Some(255)));
    }
}
