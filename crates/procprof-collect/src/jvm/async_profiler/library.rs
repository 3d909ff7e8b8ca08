//! Reads the library of async-profiler from this host's disk: a file, or an entry of a jar.
//!
//! A jar is a zip archive; only what its central directory names is read:
//!
//! ```text
//! … "PK\1\2" … 10 method  16 CRC-32  20 packed  24 unpacked  28 name length  30 extra length  32 comment length  42 offset   46 name …
//!   "PK\5\6" … 10 entries  16 offset of the directory  20 comment length                                     little-endian
//! ```
//! Source: APPNOTE.TXT 6.3.10 of PKWARE. The jars of Maven Central (`tools.profiler:async-profiler`) have
//! `linux-x64/libasyncProfiler.so` and `linux-arm64/libasyncProfiler.so`.

use std::io::Read;
use std::path::Path;

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

/// Largest jar and largest library, in bytes.
const BYTES_MAX: u64 = 64 << 20;

/// The path of the library for this architecture in a jar, and its machine number in ELF.
#[cfg(target_arch = "x86_64")]
const HERE: Option<(&str, u16)> = Some(("linux-x64/libasyncProfiler.so", 62));
#[cfg(target_arch = "aarch64")]
const HERE: Option<(&str, u16)> = Some(("linux-arm64/libasyncProfiler.so", 183));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const HERE: Option<(&str, u16)> = None;

/// The bytes of the library for this machine.
///
/// # Errors
/// The file cannot be read, has neither a library nor a jar with one, or the library is made for another machine.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unfit = |why: String| format!("{}: {why}", path.display());
    let file = procprof_process::open_regular(path).map_err(|error| unfit(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| unfit(error.to_string()))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(unfit(format!("more than {BYTES_MAX} bytes")));
    }
    library(bytes).map_err(unfit)
}

/// The library in the bytes of a file.
fn library(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let (entry, machine) = HERE.ok_or("async-profiler has no library for this machine")?;
    let library = if bytes.starts_with(b"PK\x03\x04") { unpacked(&bytes, entry)? } else { bytes };
    match library.get(18..20) {
        Some(two) if library.starts_with(b"\x7fELF") => match u16::from_le_bytes([two[0], two[1]]) {
            found if found == machine => Ok(library),
            found => Err(format!("a library for another machine (ELF machine {found}, not {machine})")),
        },
        _ => Err("neither a shared library nor a jar".to_owned()),
    }
}

/// An entry of an archive.
fn unpacked(archive: &[u8], name: &str) -> Result<Vec<u8>, String> {
    let entry = entry(archive, name)?;
    let broken = || format!("broken archive: {name} is not where its directory has it");
    let header = archive.get(entry.offset..).filter(|header| header.starts_with(b"PK\x03\x04")).ok_or_else(broken)?;
    let skipped =
        30 + usize::from(short(header, 26).ok_or_else(broken)?) + usize::from(short(header, 28).ok_or_else(broken)?);
    let packed = header.get(skipped..).and_then(|data| data.get(..entry.packed)).ok_or_else(broken)?;
    if entry.unpacked as u64 > BYTES_MAX {
        return Err(format!("{name} has {} bytes, more than {BYTES_MAX}", entry.unpacked));
    }
    let mut bytes = Vec::new();
    match entry.method {
        0 => bytes.extend_from_slice(packed),
        8 => {
            let mut decoder = DeflateDecoder::new(packed).take(entry.unpacked as u64 + 1);
            decoder.read_to_end(&mut bytes).map_err(|error| format!("broken archive: {name}: {error}"))?;
        }
        method => return Err(format!("{name} is packed by method {method}, which is not read")),
    }
    let mut crc = Crc::new();
    crc.update(&bytes);
    if bytes.len() != entry.unpacked || crc.sum() != entry.crc {
        return Err(format!("broken archive: {name} has another size or checksum than its directory names"));
    }
    Ok(bytes)
}

/// An entry of the directory of an archive.
struct Entry {
    method: u16,
    crc: u32,
    packed: usize,
    unpacked: usize,
    offset: usize,
}

fn entry(archive: &[u8], name: &str) -> Result<Entry, String> {
    // A comment of at most 65,535 bytes may follow it.
    let tail = archive.len().saturating_sub(22 + 65_535);
    let end = archive[tail..]
        .windows(22)
        .rposition(|window| window.starts_with(b"PK\x05\x06"))
        .map(|at| &archive[tail + at..]);
    let end = end.ok_or("broken archive: no directory at its end")?;
    let directory = long(end, 16).and_then(|offset| archive.get(offset as usize..));
    let mut rest = directory.ok_or("broken archive: its directory is not there")?;
    while rest.starts_with(b"PK\x01\x02") {
        let broken = "broken archive: its directory is cut";
        let lengths = [28, 30, 32].map(|at| short(rest, at).map(usize::from));
        let [Some(name_length), Some(extra), Some(comment)] = lengths else { return Err(broken.to_owned()) };
        if rest.get(46..46 + name_length) == Some(name.as_bytes()) {
            let number = |at: usize| long(rest, at).ok_or(broken);
            return Ok(Entry {
                method: short(rest, 10).ok_or(broken)?,
                crc: number(16)?,
                packed: number(20)? as usize,
                unpacked: number(24)? as usize,
                offset: number(42)? as usize,
            });
        }
        rest = rest.get(46 + name_length + extra + comment..).ok_or(broken)?;
    }
    Err(format!("no {name} in it"))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    fn elf(machine: u16) -> Vec<u8> {
        let mut bytes = vec![7; 3000];
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes
    }

    /// An archive of one entry and one before it.
    fn jar(name: &str, content: &[u8], method: u16) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        let packed = if method == 8 { encoder.finish().unwrap() } else { content.to_vec() };
        let (mut archive, mut directory, mut crc) = (Vec::new(), Vec::new(), Crc::new());
        crc.update(content);
        for (name, data, sum, unpacked) in [("a/", &[][..], 0, 0), (name, &packed[..], crc.sum(), content.len())] {
            let offset = archive.len() as u32;
            let mut common = Vec::new();
            common.extend([20, 0, 0, 8]);
            common.extend(method.to_le_bytes());
            common.extend([0; 4]);
            common.extend(sum.to_le_bytes());
            common.extend((data.len() as u32).to_le_bytes());
            common.extend((unpacked as u32).to_le_bytes());
            common.extend((name.len() as u16).to_le_bytes());
            archive.extend([&b"PK\x03\x04"[..], &common, &[0, 0], name.as_bytes(), data].concat());
            directory.extend(
                [&b"PK\x01\x02"[..], &[20, 0], &common, &[0; 12], &offset.to_le_bytes(), name.as_bytes()].concat(),
            );
        }
        let start = archive.len() as u32;
        archive.extend(&directory);
        let size = (directory.len() as u32).to_le_bytes();
        archive.extend([&b"PK\x05\x06"[..], &[0; 4], &[2, 0, 2, 0], &size, &start.to_le_bytes(), &[0, 0]].concat());
        archive
    }

    #[test]
    fn a_library_is_read_from_a_file_and_from_a_jar() {
        let (name, machine) = HERE.unwrap();
        let expected = elf(machine);
        assert_eq!(library(expected.clone()), Ok(expected.clone()));
        for method in [0, 8] {
            assert_eq!(library(jar(name, &expected, method)), Ok(expected.clone()), "method {method}");
        }
    }

    #[test]
    fn what_is_no_library_is_named() {
        let (name, machine) = HERE.unwrap();
        let error = |bytes: Vec<u8>| library(bytes).unwrap_err();
        assert!(error(elf(machine + 1)).contains("another machine"));
        assert!(error(b"#!/bin/sh".to_vec()).contains("neither"));
        assert!(error(jar("macos/libasyncProfiler.so", &elf(machine), 8)).starts_with(&format!("no {name}")));
        assert!(error(jar(name, &elf(machine), 12)).contains("method 12"));
        let mut changed = jar(name, &elf(machine), 0);
        let at = changed.windows(4).position(|four| four == b"\x7fELF").unwrap() + 100;
        changed[at] ^= 1;
        assert!(error(changed).contains("checksum"));
    }

    #[test]
    fn a_cut_jar_is_an_error_at_any_byte() {
        let (name, machine) = HERE.unwrap();
        let whole = jar(name, &elf(machine), 8);
        for length in 0..whole.len() {
            assert!(library(whole[..length].to_vec()).is_err(), "{length} bytes");
        }
    }
}
