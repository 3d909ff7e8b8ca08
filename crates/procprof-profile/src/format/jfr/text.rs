//! Texts of a recording, in their six encodings.
//!
//! ```text
//! 0 null   1 empty   2 number of a constant   3 length, UTF-8   4 length, UTF-16 units as numbers   5 length, ISO 8859-1
//! ```
//! The JDK's metadata are in encoding 4, async-profiler's in 3.

use super::cursor::Cursor;

/// A text, or where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Null,
    Is(String),
    /// In the pool of `java.lang.String`, under this number.
    Constant(u64),
}

/// Reads a text; `None` if it does not end within the bytes or has no encoding.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<Text> {
    Some(match cursor.byte()? {
        0 => Text::Null,
        1 => Text::Is(String::new()),
        2 => Text::Constant(cursor.number()?),
        3 => {
            let length = cursor.number()?;
            Text::Is(String::from_utf8_lossy(cursor.slice(length)?).into_owned())
        }
        4 => Text::Is(read_units(cursor)?),
        5 => {
            let length = cursor.number()?;
            Text::Is(cursor.slice(length)?.iter().map(|byte| char::from(*byte)).collect())
        }
        _ => return None,
    })
}

fn read_units(cursor: &mut Cursor<'_>) -> Option<String> {
    let length = cursor.number()?;
    if length > cursor.left() as u64 {
        return None;
    }
    let mut text = String::with_capacity(length as usize);
    let mut units = (0..length).map_while(|_| cursor.number()).map(|unit| unit as u16);
    let mut read = 0;
    let counted = units.by_ref().inspect(|_| read += 1);
    text.extend(char::decode_utf16(counted).map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER)));
    (read == length).then_some(text)
}

/// Passes over a text.
pub(super) fn skip(cursor: &mut Cursor<'_>) -> Option<()> {
    match cursor.byte()? {
        0 | 1 => {}
        2 => cursor.skip_numbers(1)?,
        3 | 5 => {
            let length = cursor.number()?;
            cursor.slice(length)?;
        }
        4 => {
            let length = cursor.number()?;
            cursor.skip_numbers(length)?;
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_is_read_and_passed_over() {
        let is = |text: &str| Some(Text::Is(text.to_owned()));
        let cases: [(&[u8], Option<Text>); 12] = [
            (&[0], Some(Text::Null)),
            (&[1], is("")),
            (&[2, 0x85, 1], Some(Text::Constant(133))),
            (&[3, 3, b'a', 0xc3, 0xa9], is("aé")),
            (&[3, 2, b'a', 0xff], is("a\u{fffd}")),
            (&[4, 3, b'a', 0xe9, 1, 0xac, 0x41], is("aé\u{20ac}")),
            (&[4, 2, 0xbd, 0xb0, 3, 0x80, 0xbc, 3], is("\u{1f600}")),
            (&[5, 2, b'a', 0xe9], is("aé")),
            (&[6, 0], None),
            (&[3, 9, b'a'], None),
            (&[4, 9, b'a'], None),
            (&[], None),
        ];
        for (bytes, expected) in cases {
            let (mut reading, mut passing) = (Cursor::new(bytes, 0), Cursor::new(bytes, 0));
            let read = read(&mut reading);
            assert_eq!(read, expected, "{bytes:?}");
            assert_eq!(skip(&mut passing).is_some(), read.is_some(), "{bytes:?}");
            if read.is_some() {
                assert_eq!((reading.left(), passing.left()), (0, 0), "{bytes:?}");
            }
        }
    }
}
