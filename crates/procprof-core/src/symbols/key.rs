//! The keys of uploaded symbols.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest key, in bytes: with its extension it is a file name.
const KEY_BYTES_MAX: usize = 180;
/// The prefix of a key without a build id; no hexadecimal number has it.
const LAYOUT: &str = "layout-";

/// The build id in hexadecimal; for files without one `layout-HASH-NAME`, by how their code is laid out and what they
/// are called.
///
/// It consists of letters, digits, `.`, `_`, `+` and `-` and does not begin with a dot, so it is the name of a file,
/// too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SymbolKey(String);

/// Text that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no key of symbols: expected a build id, or layout-HASH-NAME as `procprof symbols list` prints it")]
pub struct ParseKeyError;

impl SymbolKey {
    /// Whether it is the key of a file without a build id.
    pub(crate) fn is_layout(&self) -> bool {
        self.0.starts_with(LAYOUT)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SymbolKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<SymbolKey, ParseKeyError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
        let is_hexadecimal = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_layout = text
            .strip_prefix(LAYOUT)
            .and_then(|rest| rest.split_once('-'))
            .is_some_and(|(hash, name)| hash.len() == 32 && is_hexadecimal(hash) && !name.is_empty());
        let is_build_id = text.len() >= 2 && text.len().is_multiple_of(2) && is_hexadecimal(text);
        let fits = text.len() <= KEY_BYTES_MAX && text.bytes().all(legal);
        (fits && (is_layout || is_build_id)).then(|| SymbolKey(text.to_owned())).ok_or(ParseKeyError)
    }
}

impl TryFrom<String> for SymbolKey {
    type Error = ParseKeyError;

    fn try_from(text: String) -> Result<SymbolKey, ParseKeyError> {
        text.parse()
    }
}

impl From<SymbolKey> for String {
    fn from(key: SymbolKey) -> String {
        key.0
    }
}

impl fmt::Display for SymbolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_of_files_and_nothing_else() {
        for key in ["00ff12ab", "layout-07070707070707070707070707070707-lib__.._x.so"] {
            assert_eq!(key.parse::<SymbolKey>().unwrap().as_str(), key);
        }
        for wrong in [
            "",
            "a",
            "abc",
            "../abcd",
            "ABCD",
            ".json",
            "layout-",
            "layout-0-x",
            "layout-07070707070707070707070707070707-",
            "layout-07070707070707070707070707070707-a/b",
        ] {
            assert_eq!(wrong.parse::<SymbolKey>(), Err(ParseKeyError), "{wrong}");
        }
    }
}
