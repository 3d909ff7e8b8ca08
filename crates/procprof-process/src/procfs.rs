//! Bounded reads below `/proc`.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::{Error, Pid, Result};

/// Longest text read from `/proc`, in bytes: the maps of a process with the kernel's default limit
/// of 65,530 mappings, at 1 KiB each.
pub(crate) const TEXT_BYTES_MAX: u64 = 64 << 20;
/// Longest text of one process that is read whole, in bytes: its status, statistics and control groups.
const PROCESS_TEXT_BYTES_MAX: u64 = 1 << 20;
/// Longest line of a text that is read line by line, in bytes: a path of 4,096 bytes with each of them escaped.
const LINE_BYTES_MAX: u64 = 32 << 10;
/// Bytes read at a time.
const PIECE_BYTES: usize = 32 << 10;

/// The path of `name` below `/proc/PID`.
pub(crate) fn path(pid: Pid, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// The first bytes of a text of `/proc`.
#[derive(Debug)]
pub(crate) struct Prefix {
    /// At most as many bytes as were asked for.
    pub(crate) bytes: Vec<u8>,
    /// Whether the text goes on behind them.
    pub(crate) is_cut: bool,
}

/// Reads the first `bytes_max` bytes of `name` below `/proc/PID`, in pieces: the process decides how long the text is.
pub(crate) fn read_prefix(pid: Pid, name: &str, bytes_max: u64) -> Result<Prefix> {
    let path = path(pid, name);
    let read = || {
        let mut file = File::open(&path)?.take(bytes_max + 1);
        let (mut bytes, mut piece) = (Vec::new(), [0; PIECE_BYTES]);
        loop {
            let length = match file.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                length => length?,
            };
            if length == 0 {
                break;
            }
            bytes.extend(piece.iter().take(length));
        }
        let is_cut = bytes.len() as u64 > bytes_max;
        bytes.truncate(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        Ok(Prefix { bytes, is_cut })
    };
    read().map_err(|source| Error::of_process(pid, &path, source))
}

/// Reads `name` below `/proc/PID`, at most 1 MiB.
fn read(pid: Pid, name: &str) -> Result<Vec<u8>> {
    match read_prefix(pid, name, PROCESS_TEXT_BYTES_MAX)? {
        Prefix { is_cut: true, .. } => Err(Error::TooLong { path: path(pid, name), limit: PROCESS_TEXT_BYTES_MAX }),
        Prefix { bytes, .. } => Ok(bytes),
    }
}

/// Calls a function with each line of `name` below `/proc/PID`, without its end, until it returns something. The text
/// is not kept.
///
/// Errs with [`Error::TooLong`] when `bytes_max` bytes were read and there are more.
pub(crate) fn find_line<T>(
    pid: Pid,
    name: &str,
    bytes_max: u64,
    mut find: impl FnMut(&[u8]) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let path = path(pid, name);
    let failed = |source| Error::of_process(pid, &path, source);
    let mut reader = BufReader::with_capacity(PIECE_BYTES, File::open(&path).map_err(failed)?);
    let (mut line, mut bytes, mut lines) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let length = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)? as u64;
        (bytes, lines) = (bytes + length, lines + 1);
        if length == 0 {
            return Ok(None);
        }
        if bytes > bytes_max {
            return Err(Error::TooLong { path, limit: bytes_max });
        }
        let whole = line.strip_suffix(b"\n");
        if whole.is_none() && length == LINE_BYTES_MAX {
            return Err(Error::malformed(&path, lines, "a line of at most 32 KiB"));
        }
        if let Some(found) = find(whole.unwrap_or(&line))? {
            return Ok(Some(found));
        }
    }
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
