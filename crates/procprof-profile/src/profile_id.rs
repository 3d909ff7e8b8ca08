//! The identity of a stored profile: 128 bits, written as a UUID.

use std::fmt;
use std::str::FromStr;

/// A profile's id: a UUID (version 7 when minted at ingest; derived from the content for imports).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileId(pub u128);

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'-'; 36];
        let places = (0..36).filter(|place| ![8, 13, 18, 23].contains(place));
        for (digit, place) in places.enumerate() {
            let value = (self.0 >> (124 - 4 * digit)) as u8 & 15;
            text[place] = if value < 10 { b'0' + value } else { b'a' + value - 10 };
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileId({self})")
    }
}

/// A text that is not a profile id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile id {0:?}: expected a UUID such as 01930c5e-7d1a-7000-8000-0123456789ab")]
pub struct ParseProfileIdError(String);

impl FromStr for ProfileId {
    type Err = ParseProfileIdError;

    fn from_str(text: &str) -> Result<ProfileId, ParseProfileIdError> {
        let wrong = || ParseProfileIdError(text.chars().take(64).collect());
        let bytes = text.as_bytes();
        let dashes = [8, 13, 18, 23];
        let shaped = bytes.len() == 36
            && bytes
                .iter()
                .enumerate()
                .all(|(i, byte)| if dashes.contains(&i) { *byte == b'-' } else { byte.is_ascii_hexdigit() });
        if !shaped {
            return Err(wrong());
        }
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        u128::from_str_radix(&digits, 16).map(ProfileId).map_err(|_| wrong())
    }
}
