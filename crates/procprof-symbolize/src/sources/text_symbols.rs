//! Reads symbols from text files with a line for each.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Largest file of symbols as text that is read, in bytes.
const TEXT_BYTES_MAX: u64 = 512 << 20;
/// Longest line, in bytes, of those that are read one by one; the rest of a longer one is skipped.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Reads a file of symbols; invalid UTF-8 is replaced. Errs if it is larger than 512 MiB.
pub(super) fn read(file: File, path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(too_large(path));
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Calls a function with each line of a file, without keeping the file in memory; invalid UTF-8 is replaced. Errs when
/// 512 MiB were read and there is more.
pub(super) fn for_each_line(file: File, path: &Path, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(LINE_BYTES_MAX as usize, file);
    let (mut line, mut bytes) = (Vec::new(), 0);
    loop {
        line.clear();
        bytes += reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? as u64;
        if line.is_empty() {
            return Ok(());
        }
        if bytes > TEXT_BYTES_MAX {
            return Err(too_large(path));
        }
        if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            bytes += reader.by_ref().take(TEXT_BYTES_MAX).skip_until(b'\n')? as u64;
        }
        each(&String::from_utf8_lossy(&line));
    }
}

fn too_large(path: &Path) -> io::Error {
    let what = format!("{}: more than {TEXT_BYTES_MAX} bytes", path.display());
    io::Error::new(io::ErrorKind::FileTooLarge, what)
}

/// A hexadecimal number, with or without `0x`.
pub(super) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}
