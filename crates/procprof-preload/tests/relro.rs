//! Tables that the loader protects, and tables that it leaves writable though the file's header names them.

use crate::build::{program, tool};
use crate::host::{Host, preloaded};
use std::path::{Path, PathBuf};

/// A number in a little-endian file.
fn number(bytes: &[u8], place: usize, length: usize) -> usize {
    bytes[place..place + length].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

/// Address and bytes of a section.
fn section(file: &Path, name: &str) -> (u64, u64) {
    let table = tool("readelf", &["-SW", file.to_str().unwrap()]);
    let mut rows = table
        .lines()
        .filter_map(|line| line.split_once(']'))
        .map(|(_, row)| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.first() == Some(&name)).unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    (hex(row[2]), hex(row[4]))
}

/// A copy of a program without RELRO, whose header for notes says that its table is to be protected: it ends within a
/// page that also holds variables, and so the loader protects nothing.
fn with_relro_that_ends_within_a_page(program: &Path) -> PathBuf {
    const NOTE: usize = 4;
    const RELRO: u32 = 0x6474_e552;
    const HEADER: usize = 56;
    let mut bytes = std::fs::read(program).unwrap();
    let (start, count) = (number(&bytes, 32, 8), number(&bytes, 56, 2));
    let header =
        (0..count).map(|index| start + HEADER * index).find(|header| number(&bytes, *header, 4) == NOTE).unwrap();
    let (address, length) = section(program, ".got");
    bytes[header..header + 4].copy_from_slice(&RELRO.to_le_bytes());
    bytes[header + 16..header + 24].copy_from_slice(&address.to_le_bytes());
    bytes[header + 40..header + 48].copy_from_slice(&length.to_le_bytes());
    let copy = program.with_extension("relro");
    std::fs::copy(program, &copy).unwrap();
    std::fs::write(&copy, bytes).unwrap();
    copy
}

/// Records waits for locks and stops it again, twice, and lets the program go on.
fn is_unharmed(program: &Path) {
    let mut host = Host::start(preloaded(program));
    assert_eq!(host.line(), "ready");
    for _ in 0..2 {
        for change in ["enable", "disable"] {
            tool("curl", &["-sS", "--fail", "-X", "POST", &host.url(&format!("/debug/pprof/contention/{change}"))]);
        }
    }
    host.go_on();
    assert_eq!(host.line(), "counts", "{}", program.display());
    assert!(host.finish().success());
}

#[test]
fn a_protected_table_is_led_elsewhere_and_back() {
    is_unharmed(&program("relro.c", &["-Wl,-z,relro,-z,now"]));
}

#[test]
fn variables_beside_a_table_stay_writable() {
    let plain = program("relro.c", &["-Wl,-z,norelro,-z,now"]);
    is_unharmed(&plain);
    is_unharmed(&with_relro_that_ends_within_a_page(&plain));
}
