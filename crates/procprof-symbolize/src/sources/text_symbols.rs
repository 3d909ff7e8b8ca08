//! Reads symbols from text files with a line for each.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest file of symbols as text that is read, in bytes.
const TEXT_BYTES_MAX: u64 = 512 << 20;

/// Reads a file of symbols; invalid UTF-8 is replaced. Errs if it is larger than 512 MiB.
pub(super) fn read(file: File, path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let what = format!("{}: more than {TEXT_BYTES_MAX} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A hexadecimal number, with or without `0x`.
pub(super) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}
