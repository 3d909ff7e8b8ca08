//! The identity of a stored profile: 128 bits, written as a UUID.

use std::fmt;
use std::str::FromStr;

/// A profile's id: a UUID (version 7 when minted at ingest; derived from the content for imports).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileId(pub u128);

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let (a, b, c, d, e) = (&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]);
        write!(f, "{a}-{b}-{c}-{d}-{e}")
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
