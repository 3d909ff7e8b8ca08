//! The address space of a live process: `/proc/PID/maps`, typed, one line a range.
//!
//! Unlike the maps inside a profile these keep device and inode, which prove that a file is the
//! mapped one. Grammar, from proc(5): the path is the rest of the line, may contain spaces, and ends
//! in ` (deleted)` once the file is unlinked; a newline in it is written `\012`.
//! ```text
//! 55d0c0a01000-55d0c0a2e000 r-xp 00001000 08:01 1048602    /usr/bin/cat
//! 7ffd1b1f4000-7ffd1b1f6000 r-xp 00000000 00:00 0          [vdso]
//! ```

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use procprof_profile::{Addr, FileOffset};

use crate::{Error, Pid, Result, procfs};

/// Most mappings of a process that are read; the kernel permits 65,530 unless `vm.max_map_count` is raised.
pub const MAPPINGS_MAX: usize = 262_144;
/// Most bytes of the different paths of a process's mappings together.
pub const MAPPED_PATHS_BYTES_MAX: usize = 16 << 20;

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
    /// in brackets, such as `[vdso]`; empty for anonymous memory. Ranges of one path share it.
    pub path: Arc<Path>,
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
    let mut maps = Maps::new(&procfs::path(pid, "maps"));
    procfs::find_line(pid, "maps", procfs::TEXT_BYTES_MAX, |line| maps.add(line).map(|()| None::<()>))?;
    Ok(maps.ranges)
}

/// The ranges of a maps file while its lines are read; they keep the kernel's order, by ascending address.
#[derive(Debug)]
struct Maps {
    /// The path of the file itself.
    file: PathBuf,
    ranges: Vec<MappedRange>,
    lines: usize,
    paths: HashSet<Arc<Path>>,
    path_bytes: usize,
}

impl Maps {
    fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), ranges: Vec::new(), lines: 0, paths: HashSet::new(), path_bytes: 0 }
    }

    /// Adds the range of a line.
    fn add(&mut self, line: &[u8]) -> Result<()> {
        self.lines += 1;
        if line.is_empty() {
            return Ok(());
        }
        if self.ranges.len() >= MAPPINGS_MAX {
            return Err(Error::TooMany { path: self.file.clone(), limit: MAPPINGS_MAX, what: "mappings" });
        }
        let parsed = parse_line(line, |path| self.shared(path));
        let (range, is_known) = parsed.map_err(|expected| Error::malformed(&self.file, self.lines, expected))?;
        if !is_known {
            self.path_bytes += range.path.as_os_str().len();
            if self.path_bytes > MAPPED_PATHS_BYTES_MAX {
                let limit = MAPPED_PATHS_BYTES_MAX;
                return Err(Error::TooMany { path: self.file.clone(), limit, what: "bytes of paths" });
            }
            self.paths.insert(Arc::clone(&range.path));
        }
        self.ranges.push(range);
        Ok(())
    }

    /// The path that other ranges have, or a new one; and whether others have it.
    fn shared(&self, path: PathBuf) -> (Arc<Path>, bool) {
        let last = self.ranges.last().map(|range| &range.path).filter(|last| ***last == *path);
        match last.or_else(|| self.paths.get(&*path)) {
            Some(known) => (Arc::clone(known), true),
            None => (path.into(), false),
        }
    }
}

/// Parses a line; `share` gives a path the form in which the range keeps it. On failure returns the expected text.
fn parse_line<T>(
    line: &[u8],
    share: impl FnOnce(PathBuf) -> (Arc<Path>, T),
) -> std::result::Result<(MappedRange, T), &'static str> {
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
    let (path, shared) = share(path);
    let range = MappedRange {
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
    };
    Ok((range, shared))
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

    fn parse_maps(text: &[u8]) -> Result<Vec<MappedRange>> {
        let mut maps = Maps::new(Path::new("maps"));
        text.split(|byte| *byte == b'\n').try_for_each(|line| maps.add(line))?;
        Ok(maps.ranges)
    }

    fn parsed() -> Vec<MappedRange> {
        parse_maps(TEXT.as_bytes()).unwrap()
    }

    #[test]
    fn parses_every_kind_of_line() {
        let ranges = parsed();
        assert_eq!(ranges.len(), 5);
        assert_eq!(&*ranges[0].path, Path::new("/opt/a b/cat"));
        assert_eq!((ranges[0].device, ranges[0].inode), ((8, 1), 1_048_602));
        assert!(ranges[0].is_file_code());
        assert_eq!(&*ranges[1].path, Path::new(""));
        assert!(ranges[1].writable && !ranges[1].executable);
        assert_eq!(&*ranges[2].path, Path::new("/x\ny"));
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
            if let Err(error) = parse_maps(&TEXT.as_bytes()[..end]) {
                assert!(error.to_string().starts_with("maps: line "), "{error}");
            }
        }
    }

    #[test]
    fn mappings_and_their_paths_have_limits() {
        let line = |number: usize, path: &str| format!("{number:x}000-{number:x}800 r-xp 00000000 08:01 7 {path}");
        let mut maps = Maps::new(Path::new("maps"));
        for number in 0..MAPPINGS_MAX {
            maps.add(line(number, ["/bin/a", "/bin/b"][number % 2]).as_bytes()).unwrap();
        }
        assert_eq!(maps.path_bytes, 12, "paths are shared");
        let error = maps.add(line(1, "/bin/a").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "maps has more than 262144 mappings");
        let mut maps = Maps::new(Path::new("maps"));
        let path = |number: usize| format!("/{}{number:04}", "x".repeat(4091));
        for number in 0..MAPPED_PATHS_BYTES_MAX / 4096 {
            maps.add(line(number, &path(number)).as_bytes()).unwrap();
        }
        maps.add(line(0, &path(0)).as_bytes()).unwrap();
        let error = maps.add(line(0, "/one/more").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "maps has more than 16777216 bytes of paths");
    }
}
