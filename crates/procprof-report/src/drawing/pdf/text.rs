//! Texts and their fonts.
//!
//! A standard font has the characters of `WinAnsiEncoding`, which is Latin-1 and a little more. Any other character is
//! drawn as a box with the digits of its code, by a font that is made of such boxes for those that occur; for search,
//! copying and screen readers it is still that character.

use std::collections::BTreeMap;

use pdf_writer::types::{SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str};

use crate::drawing::picture::{Font, code};

/// Name of the standard font.
const STANDARD: &str = "F";
/// Characters in a font of boxes.
const BOXES: usize = 256;
/// Height of the digits in a box, in thousandths of the size.
const DIGITS: f32 = 330.0;

/// The fonts of a file, added when they are needed.
pub(super) struct Texts {
    font: Font,
    /// Numbers of the characters that the font lacks, in the order in which they came.
    others: BTreeMap<char, usize>,
}

/// Part of a text in one font.
struct Run {
    /// The number of the font of boxes; none for the standard font.
    font: Option<usize>,
    codes: Vec<u8>,
}

impl Texts {
    pub(super) fn new(font: Font) -> Texts {
        Texts { font, others: BTreeMap::new() }
    }

    pub(super) fn font(&self) -> Font {
        self.font
    }

    /// Shows a text that begins at a point.
    pub(super) fn show(&mut self, content: &mut Content, text: &str, (x, y): (f32, f32), size: f32) {
        content.begin_text();
        content.next_line(x, y);
        for run in self.runs(text) {
            content.set_font(Name(name(run.font).as_bytes()), size);
            content.show(Str(&run.codes));
        }
        content.end_text();
    }

    fn runs(&mut self, text: &str) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for c in text.chars() {
            let (font, code) = match code(c) {
                Some(code) => (None, code),
                None => {
                    let next = self.others.len();
                    let number = *self.others.entry(c).or_insert(next);
                    (Some(number / BOXES), (number % BOXES) as u8)
                }
            };
            match runs.last_mut() {
                Some(run) if run.font == font => run.codes.push(code),
                _ => runs.push(Run { font, codes: vec![code] }),
            }
        }
        runs
    }

    /// The names of all fonts with their objects, from `first` on.
    pub(super) fn references(&self, first: i32) -> impl Iterator<Item = (String, Ref)> {
        let boxes = self.others.len().div_ceil(BOXES);
        let fonts = std::iter::once(None).chain((0..boxes).map(Some));
        fonts.enumerate().map(move |(index, font)| (name(font), Ref::new(first + index as i32)))
    }

    /// Writes all fonts, from the object `first` on.
    pub(super) fn write(&self, pdf: &mut Pdf, first: i32) {
        let standard = Ref::new(first);
        pdf.type1_font(standard)
            .base_font(Name(self.font.standard_name().as_bytes()))
            .encoding_predefined(Name(b"WinAnsiEncoding"));
        let mut by_number: Vec<char> = vec!['\0'; self.others.len()];
        self.others.iter().for_each(|(c, number)| by_number[*number] = *c);
        // Behind the fonts: for each a table of characters, and a drawing for each of them.
        let count = by_number.chunks(BOXES).count();
        let mut next = first + 1 + count as i32;
        for (index, chars) in by_number.chunks(BOXES).enumerate() {
            let id = Ref::new(first + 1 + index as i32);
            self.write_boxes(pdf, id, standard, &mut next, chars);
        }
    }

    fn write_boxes(&self, pdf: &mut Pdf, id: Ref, standard: Ref, next: &mut i32, chars: &[char]) {
        let mut fresh = || {
            *next += 1;
            Ref::new(*next - 1)
        };
        let table = fresh();
        let glyphs: Vec<(String, Ref, char)> =
            chars.iter().map(|c| (format!("u{:X}", u32::from(*c)), fresh(), *c)).collect();
        let mut font = pdf.type3_font(id);
        font.bbox(Rect::new(0.0, -250.0, 1200.0, 900.0)).matrix([0.001, 0.0, 0.0, 0.001, 0.0, 0.0]);
        let mut drawings = font.char_procs();
        for (name, id, _) in &glyphs {
            drawings.pair(Name(name.as_bytes()), *id);
        }
        drawings.finish();
        let mut encoding = font.encoding_custom();
        encoding.differences().consecutive(0, glyphs.iter().map(|(name, ..)| Name(name.as_bytes())));
        encoding.finish();
        font.first_char(0)
            .last_char((chars.len() - 1) as u8)
            .widths(chars.iter().map(|c| f32::from(self.font.advance(*c))));
        let mut resources = font.resources();
        resources.fonts().pair(Name(STANDARD.as_bytes()), standard);
        resources.finish();
        font.to_unicode(table);
        font.finish();
        let info = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"UCS"), supplement: 0 };
        let mut characters = UnicodeCmap::new(Name(b"Boxes"), info);
        chars.iter().enumerate().for_each(|(code, c)| characters.pair(code as u8, *c));
        pdf.cmap(table, &characters.finish());
        for (_, id, c) in glyphs {
            pdf.stream(id, &self.drawing(c));
        }
    }

    /// A box with the digits of a character's code in two rows.
    fn drawing(&self, c: char) -> Vec<u8> {
        let advance = f32::from(self.font.advance(c));
        let digits = format!("{:04X}", u32::from(c));
        let (upper, lower) = digits.split_at(digits.len() / 2);
        let mut content = Content::new();
        content.start_color_glyph(advance);
        content.set_line_width(30.0).rect(40.0, -120.0, advance - 80.0, 820.0).stroke();
        for (row, y) in [(upper, 330.0), (lower, -40.0)] {
            let width = self.font.width(row, f64::from(DIGITS)) as f32;
            content.begin_text().set_font(Name(STANDARD.as_bytes()), DIGITS).next_line((advance - width) / 2.0, y);
            content.show(Str(row.as_bytes())).end_text();
        }
        content.finish().to_vec()
    }
}

fn name(font: Option<usize>) -> String {
    font.map_or_else(|| STANDARD.to_owned(), |number| format!("B{number}"))
}
