//! The address space of a live process: `/proc/PID/maps`, typed, one line a range.
//!
//! Unlike the maps inside a profile these keep device and inode, which prove that a file is the
//! mapped one. Grammar, from proc(5): the path is the rest of the line, may contain spaces, and ends
//! in ` (deleted)` once the file is unlinked; a newline in it is written `\012`.
//! ```text
//! 55d0c0a01000-55d0c0a2e000 r-xp 00001000 08:01 1048602    /usr/bin/cat
//! 7ffd1b1f4000-7ffd1b1f6000 r-xp 00000000 00:00 0          [vdso]
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use procprof_profile::{Addr, FileOffset};

use crate::{Error, Pid, Result, procfs};

/// The suffix of a mapping of an unlinked file.
const DELETED: &[u8] = b" (deleted)";

/// One range of a process's address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedRange {
    /// First address.
    pub start: Addr,
    /// First address past the end.
    pub limit: Addr,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it may be executed.
    pub executable: bool,
    /// The offset of `start` in the file; 0 without a file.
    pub file_offset: FileOffset,
    /// The file's device, major and minor; 0, 0 without a file.
    pub device: (u32, u32),
    /// The file's inode; 0 without a file.
    pub inode: u64,
    /// The file's path in the process's mount namespace, without ` (deleted)`; or the kernel's name
    /// in brackets, such as `[vdso]`; empty for anonymous memory.
    pub path: PathBuf,
    /// Whether the file is unlinked (or replaced by another one of that name).
    pub deleted: bool,
}

impl MappedRange {
    /// Whether the address is in the range.
    pub fn contains(&self, address: Addr) -> bool {
        self.start <= address && address < self.limit
    }

    /// The offset in the file that the address was loaded from; `None` outside the range.
    pub fn offset_of(&self, address: Addr) -> Option<FileOffset> {
        let distance = self.contains(address).then(|| address.0 - self.start.0)?;
        self.file_offset.0.checked_add(distance).map(FileOffset)
    }

    /// Whether it is executable and has a file (not `[vdso]`, not code made at run time).
    pub fn is_file_code(&self) -> bool {
        self.executable && self.inode != 0 && self.path.is_absolute()
    }

    /// Whether both are parts of one image: same file, same name.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode && self.path == other.path
    }

    /// The path as text; bytes that are not UTF-8 become U+FFFD.
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        self.path.to_string_lossy()
    }
}

/// The address space of a process, by ascending address; empty for a kernel thread and a zombie.
pub(crate) fn maps_of(pid: Pid) -> Result<Vec<MappedRange>> {
    let text = procfs::read(pid, "maps")?;
    parse_maps(&text, &procfs::path(pid, "maps"))
}

/// Parses the text of a maps file that was read from `path`; ranges keep the kernel's order, by
/// ascending address.
pub(crate) fn parse_maps(text: &[u8], path: &Path) -> Result<Vec<MappedRange>> {
    let mut ranges = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let range = parse_line(line);
        ranges.push(range.map_err(|expected| Error::malformed(path, index + 1, expected))?);
    }
    Ok(ranges)
}

/// On failure returns the expected text.
fn parse_line(line: &[u8]) -> std::result::Result<MappedRange, &'static str> {
    let mut rest = line;
    let addresses = next_field(&mut rest).ok_or("an address range")?;
    let permissions = next_field(&mut rest).ok_or("permissions")?;
    let offset = next_field(&mut rest).ok_or("a file offset")?;
    let device = next_field(&mut rest).ok_or("a device")?;
    let inode = next_field(&mut rest).ok_or("an inode")?;
    let (start, limit) = addresses.split_once('-').ok_or("START-END")?;
    let (major, minor) = device.split_once(':').ok_or("MAJOR:MINOR")?;
    let &[read, write, execute, _] = permissions.as_bytes() else {
        return Err("four permission letters");
    };
    let (path, deleted) = unescape_path(rest.trim_ascii_start());
    Ok(MappedRange {
        start: Addr(hex(start).ok_or("a start address")?),
        limit: Addr(hex(limit).ok_or("an end address")?),
        readable: read == b'r',
        writable: write == b'w',
        executable: execute == b'x',
        file_offset: FileOffset(hex(offset).ok_or("a hexadecimal file offset")?),
        device: (hex(major).ok_or("a device number")? as u32, hex(minor).ok_or("a device number")? as u32),
        inode: inode.parse().map_err(|_| "a decimal inode")?,
        path,
        deleted,
    })
}

/// Takes the next field up to a space; `None` at the end of the line.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let trimmed = rest.trim_ascii_start();
    let end = trimmed.iter().position(|byte| *byte == b' ');
    let (field, tail) = trimmed.split_at(end.unwrap_or(trimmed.len()));
    *rest = tail;
    let field = std::str::from_utf8(field).ok()?;
    (!field.is_empty()).then_some(field)
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

/// The path without escapes and without ` (deleted)`, and whether that was there.
fn unescape_path(bytes: &[u8]) -> (PathBuf, bool) {
    let (bytes, deleted) = match bytes.strip_suffix(DELETED) {
        Some(bytes) => (bytes, true),
        None => (bytes, false),
    };
    let mut path = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(br"\012") {
            path.push(b'\n');
            rest = tail;
        } else {
            path.push(*first);
            rest = tail;
        }
    }
    (PathBuf::from(OsString::from_vec(path)), deleted)
}

/// The target of a link of `/proc` (such as `exe`), without ` (deleted)`, and whether that was there.
pub(crate) fn split_deleted(path: PathBuf) -> (PathBuf, bool) {
    match path.as_os_str().as_bytes().strip_suffix(DELETED) {
        Some(bytes) => (PathBuf::from(OsString::from_vec(bytes.to_vec())), true),
        None => (path, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c0a01000-55d0c0a2e000 r-xp 00001000 08:01 1048602                    /opt/a b/cat
7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
7f0000002000-7f0000003000 r-xp 00003000 fd:1f 99                         /x\\012y (deleted)
7ffd1b1f4000-7ffd1b1f6000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    fn parsed() -> Vec<MappedRange> {
        parse_maps(TEXT.as_bytes(), Path::new("maps")).unwrap()
    }

    #[test]
    fn parses_every_kind_of_line() {
        let ranges = parsed();
        assert_eq!(ranges.len(), 5);
        assert_eq!(ranges[0].path, Path::new("/opt/a b/cat"));
        assert_eq!((ranges[0].device, ranges[0].inode), ((8, 1), 1_048_602));
        assert!(ranges[0].is_file_code());
        assert_eq!(ranges[1].path, Path::new(""));
        assert!(ranges[1].writable && !ranges[1].executable);
        assert_eq!(ranges[2].path, Path::new("/x\ny"));
        assert!(ranges[2].deleted);
        assert!(ranges[3].executable && !ranges[3].is_file_code());
        assert_eq!(ranges[4].limit, Addr(0xffff_ffff_ff60_1000));
    }

    #[test]
    fn turns_addresses_into_offsets() {
        let range = &parsed()[0];
        let offset = range.offset_of(Addr(0x55d0_c0a0_1234));
        assert_eq!(offset, Some(FileOffset(0x1234)));
        assert_eq!(range.offset_of(range.limit), None);
    }

    #[test]
    fn every_prefix_parses_or_names_the_line() {
        for end in 0..TEXT.len() {
            if let Err(error) = parse_maps(&TEXT.as_bytes()[..end], Path::new("maps")) {
                assert!(error.to_string().starts_with("maps: line "), "{error}");
            }
        }
    }
}
