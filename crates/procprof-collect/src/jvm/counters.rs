//! The performance counters of a HotSpot JVM, which it shares through a file; one of them tells whether it can be attached
//! to, as `jcmd` without arguments does.
//!
//! The JVM has mapped `/tmp/hsperfdata_<user>/<pid>`, with its own pid. The file has a header, then counters, each an
//! entry with a name and a value; numbers are in the byte order of the machine:
//!
//! ```text
//! header   ca fe c0 c0 · order (1: little) · version 2 0 · accessible · used u32 · overflow u32 · changed u64 ·
//!          first entry u32 · entries u32
//! entry    length u32 · name u32 · elements u32 · type ('B': text) · flags · unit · variability · value u32
//! name     sun.rt.jvmCapabilities
//! value    1100000000000000000000000000000000000000000000000000000000000000   the first digit: it can be attached to
//! ```
//! Source: `perfMemory.hpp` and `perfMemory.cpp` of OpenJDK.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use procprof_process::{Pid, Process};
use rustix::fs::OFlags;

use super::folder::open_inside;

/// Most bytes that are read of a file; a JVM has 32 or 64 KiB.
const BYTES_MAX: u64 = 1 << 20;
/// Most counters that are looked at.
const ENTRIES_MAX: u32 = 10_000;
/// Bytes of the header, and of an entry without name and value.
const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 20;

/// Whether a process is a JVM that has started, and can be attached to; else why not, or what is missing to know.
pub(super) fn check_attachable(process: &Process, inner_pid: Pid, uid: u32) -> Result<(), &'static str> {
    let unknown = "it shares no counters, by which a JVM tells that it can be (-XX:-UsePerfData, \
                   -XX:+PerfDisableSharedMem)";
    let bytes = read(process, inner_pid, uid).ok_or(unknown)?;
    match text(&bytes, "sun.rt.jvmCapabilities").map(|digits| digits.first()) {
        Some(Some(b'1')) => Ok(()),
        Some(_) => Err("its attach mechanism is switched off (-XX:+DisableAttachMechanism)"),
        None => Err("it is starting"),
    }
}

/// The bytes of the file that the process has mapped, if it belongs to its user.
fn read(process: &Process, inner_pid: Pid, uid: u32) -> Option<Vec<u8>> {
    let maps = process.maps().ok()?;
    let path = maps.iter().map(|range| &range.path).find(|path| {
        let folder = path.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
        let is_its = path.file_name().is_some_and(|name| name.to_str() == Some(&inner_pid.to_string()));
        is_its && folder.to_string_lossy().starts_with("hsperfdata_")
    })?;
    let path = path.strip_prefix("/").ok()?.to_str()?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(open_inside(process.pid(), path, flags).ok()?);
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != uid {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The value of a counter that is text; `None` if there is none, or the JVM has not written all of them yet.
fn text<'a>(bytes: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    let header = bytes.get(..HEADER_BYTES)?;
    let is_accessible = header[7] != 0;
    if header[..4] != [0xca, 0xfe, 0xc0, 0xc0] || !is_accessible {
        return None;
    }
    let is_little = header[4] == 1;
    let number = |place: usize| {
        let four = bytes.get(place..place.checked_add(4)?)?.try_into().ok()?;
        Some(if is_little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) })
    };
    let mut place = number(24)? as usize;
    for _ in 0..number(28)?.min(ENTRIES_MAX) {
        let length = number(place)? as usize;
        let entry = bytes.get(place..place.checked_add(length)?)?;
        if length < ENTRY_BYTES {
            return None;
        }
        let behind = |offset: u32| entry.get(offset as usize..);
        let name = until_nul(behind(number(place + 4)?)?);
        if name == wanted.as_bytes() && entry[12] == b'B' {
            let value = behind(number(place + 16)?)?;
            return value.get(..number(place + 8)? as usize).map(until_nul);
        }
        place += length;
    }
    None
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with two counters: a number, and a text of 4 bytes.
    fn file(accessible: u8, order: u8, text: &[u8; 4]) -> Vec<u8> {
        let number = |value: u32| if order == 1 { value.to_le_bytes() } else { value.to_be_bytes() };
        let mut bytes = vec![0xca, 0xfe, 0xc0, 0xc0, order, 2, 0, accessible];
        bytes.extend([0; 16]);
        bytes.extend([number(32), number(2)].concat());
        for (name, kind, elements, value) in [(b"a.long\0\0", b'J', 0, &[9; 4]), (b"sun.rtC\0", b'B', 4, text)] {
            bytes.extend([number(32), number(20), number(elements)].concat());
            bytes.extend([kind, 0, 0, 0]);
            bytes.extend(number(28));
            bytes.extend(name);
            bytes.extend(value);
        }
        bytes
    }

    #[test]
    fn a_counter_is_found_by_its_name() {
        for order in [0, 1] {
            let bytes = file(1, order, b"10\0\0");
            assert_eq!(text(&bytes, "sun.rtC"), Some(&b"10"[..]));
            assert_eq!(text(&bytes, "sun.rt"), None);
            assert_eq!(text(&bytes, "a.long"), None, "a number");
            assert_eq!(text(&file(0, order, b"1000"), "sun.rtC"), None, "not accessible yet");
            for length in 0..bytes.len() {
                assert!(text(&bytes[..length], "sun.rtC").is_none_or(|text| text.starts_with(b"1")), "{length} bytes");
            }
            for place in 0..bytes.len() {
                let mut broken = bytes.clone();
                broken[place] = 0xff;
                text(&broken, "sun.rtC");
            }
        }
    }
}
