//! Bounded reads below `/proc`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::{Error, Pid, Result};

/// Longest text read from `/proc`, in bytes: the maps of a process with the kernel's default limit
/// of 65,530 mappings, at 1 KiB each.
pub(crate) const TEXT_BYTES_MAX: u64 = 64 << 20;

/// The path of `name` below `/proc/PID`.
pub(crate) fn path(pid: Pid, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// Reads `name` below `/proc/PID`.
pub(crate) fn read(pid: Pid, name: &str) -> Result<Vec<u8>> {
    let path = path(pid, name);
    let file = File::open(&path).map_err(|source| Error::of_process(pid, &path, source))?;
    read_file(file, &path)?.map_err(|source| Error::of_process(pid, &path, source))
}

/// Reads a file of `/proc` that belongs to no single process.
pub(crate) fn read_global(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|source| Error::io(path, source))?;
    read_file(file, path)?.map_err(|source| Error::io(path, source))
}

/// Reads `name` below `/proc/PID` as text; bytes that are not UTF-8 become U+FFFD.
pub(crate) fn read_text(pid: Pid, name: &str) -> Result<String> {
    Ok(lossy(read(pid, name)?))
}

/// Reads a file of `/proc` that belongs to no single process, as text.
pub(crate) fn read_global_text(path: &Path) -> Result<String> {
    Ok(lossy(read_global(path)?))
}

/// Reads the first lines of a file of `/proc` that belongs to no single process, for as long as they are `wanted`; one
/// more may follow.
///
/// The kernel generates such a file as it is read: unread parts cost nothing.
pub(crate) fn read_first_lines(path: &Path, mut wanted: impl FnMut(&str) -> bool) -> Result<String> {
    let file = File::open(path).map_err(|source| Error::io(path, source))?;
    let (mut text, mut end) = (String::new(), 0);
    let mut lines = BufReader::with_capacity(4096, file.take(TEXT_BYTES_MAX + 1));
    loop {
        lines.read_line(&mut text).map_err(|source| Error::io(path, source))?;
        if text.len() as u64 > TEXT_BYTES_MAX {
            return Err(Error::TooLong { path: path.to_owned(), limit: TEXT_BYTES_MAX });
        }
        if text.len() == end || !wanted(&text[end..]) {
            return Ok(text);
        }
        end = text.len();
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// The outer error is this crate's (too long), the inner one the system's, for the caller to classify.
fn read_file(file: File, path: &Path) -> Result<std::io::Result<Vec<u8>>> {
    let mut bytes = Vec::new();
    if let Err(source) = file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes) {
        return Ok(Err(source));
    }
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(Error::TooLong { path: path.to_owned(), limit: TEXT_BYTES_MAX });
    }
    Ok(Ok(bytes))
}

/// The names in a directory of `/proc` that are numbers (pids, tids, file descriptors), ascending.
pub(crate) fn numbers_in(directory: &Path) -> std::io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.parse().ok()) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}
