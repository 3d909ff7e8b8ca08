//! Libraries in place of the system's, for profiles that are kept: they have the names of the functions in the
//! profiles at the same addresses, and no code.
//!
//! With them jeprof and `procprof jeprof` name the same frames on any machine, and skip those of the allocator.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::run;

/// The executable part of a library in memory.
struct Library {
    path: String,
    /// Address of the first byte of the file.
    base: u64,
    code: Range<u64>,
    /// The code's place in the stub.
    offset: u64,
}

impl Library {
    fn file_name(&self) -> String {
        Path::new(&self.path).file_name().unwrap().to_str().unwrap().to_owned()
    }
}

/// Replaces the system's libraries in the memory maps of profiles by stubs in `folder`; returns the stubs' names.
pub(crate) fn replace(folder: &Path, profiles: &[PathBuf]) -> Vec<String> {
    let contents: Vec<Vec<u8>> = profiles.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let own = folder.display().to_string();
    let mut libraries = BTreeMap::new();
    for content in &contents {
        libraries.extend(mapped(split(content).1, &own).into_iter().map(|library| (library.path.clone(), library)));
    }
    let addresses: BTreeSet<u64> = contents.iter().flat_map(|content| addresses(split(content).0)).collect();
    libraries.retain(|_, library| addresses.range(library.code.clone()).next().is_some());
    for library in libraries.values_mut() {
        let frames = addresses.range(library.code.clone()).map(|address| address - library.base);
        let source = assembler(library, &symbols(&library.path, frames));
        library.offset = assembled(folder, library, &source);
    }
    for (path, content) in profiles.iter().zip(&contents) {
        let (samples, map) = split(content);
        let text = [samples, with_stubs(map, folder, &libraries).as_bytes()].concat();
        std::fs::write(path, text).unwrap();
    }
    libraries.values().map(Library::file_name).collect()
}

/// A profile's samples, and the memory map behind them.
fn split(profile: &[u8]) -> (&[u8], &str) {
    let line = regex::bytes::Regex::new(r"(?-u)[0-9a-f]{8,16}-[0-9a-f]{8,16} [r-][w-][x-]p ").unwrap();
    let start = line.find(profile).map_or(profile.len(), |found| found.start());
    (&profile[..start], std::str::from_utf8(&profile[start..]).unwrap())
}

/// Everything that may be an address: words of a text, and of 8 bytes.
fn addresses(samples: &[u8]) -> Vec<u64> {
    if samples.starts_with(b"heap") {
        let text = String::from_utf8_lossy(samples).into_owned();
        let words = text.split_whitespace().filter_map(|word| word.strip_prefix("0x"));
        return words.filter_map(|word| u64::from_str_radix(word, 16).ok()).collect();
    }
    samples.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

/// The address, the permissions, the offset and the path of a mapping.
fn entry(line: &str) -> Option<(Range<u64>, &str, u64, &str)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let range = number(start)?..number(end)?;
    let (permissions, offset) = (words.next()?, number(words.next()?)?);
    let path = words.nth(2).filter(|path| path.starts_with('/'))?;
    Some((range, permissions, offset, path))
}

/// The libraries that are not in `own`.
fn mapped(map: &str, own: &str) -> Vec<Library> {
    let entries: Vec<_> = map.lines().filter_map(entry).filter(|(.., path)| !path.starts_with(own)).collect();
    let codes = entries.iter().filter(|(_, permissions, ..)| permissions.contains('x'));
    let library = |(code, _, _, path): &(Range<u64>, &str, u64, &str)| {
        let (first, ..) = entries.iter().find(|(.., other)| other == path).unwrap();
        Library { path: (*path).to_owned(), base: first.start, code: code.clone(), offset: 0 }
    };
    codes.map(library).collect()
}

/// The names of the functions of frames, by their addresses in the file. A frame may be a return address.
fn symbols(library: &str, frames: impl Iterator<Item = u64>) -> BTreeMap<u64, BTreeSet<String>> {
    let mut all: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for table in ["--dynamic", "--debug-syms"] {
        let output = Command::new("nm").args([table, "--defined-only", library]).output().expect("this needs nm");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[address, "T" | "t" | "W" | "w" | "i", name] = &words[..] else { continue };
            let name = name.split('@').next().unwrap().to_owned();
            all.entry(u64::from_str_radix(address, 16).unwrap()).or_default().insert(name);
        }
    }
    let before = |address: u64| all.range(..=address).next_back().map(|(at, names)| (*at, names.clone()));
    frames.flat_map(|frame| [frame - 1, frame]).filter_map(before).collect()
}

/// Symbols at these places of the code, which is full of zeros.
fn assembler(library: &Library, symbols: &BTreeMap<u64, BTreeSet<String>>) -> String {
    let mut source = String::from(".text\n");
    let mut known = BTreeSet::new();
    let start = library.code.start - library.base;
    for (address, names) in symbols.range(start..) {
        writeln!(source, ".org {:#x}", address - start).unwrap();
        for name in names.iter().filter(|name| known.insert((*name).clone())) {
            writeln!(source, ".globl \"{name}\"\n.type \"{name}\",@function\n\"{name}\":").unwrap();
        }
    }
    writeln!(source, ".org {:#x}\n.byte 0", library.code.end - library.code.start - 1).unwrap();
    source
}

/// Makes the stub; the place of its code in the file.
fn assembled(folder: &Path, library: &Library, source: &str) -> u64 {
    let (source_file, stub) = (folder.join("stub.s"), folder.join(library.file_name()));
    std::fs::write(&source_file, source).unwrap();
    let text = format!("-Wl,-Ttext={:#x}", library.code.start - library.base);
    let mut link = Command::new("cc");
    link.args(["-shared", "-nostdlib", "-Wl,--build-id=none", &text, "-o"]).arg(&stub).arg(&source_file);
    run(&mut link);
    std::fs::remove_file(&source_file).unwrap();
    let output = Command::new("objdump").args(["-h", "-j", ".text"]).arg(&stub).output().expect("this needs objdump");
    let sections = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = sections.lines().find(|line| line.contains(" .text ")).unwrap_or_else(|| panic!("{sections}"));
    u64::from_str_radix(row.split_whitespace().nth(5).unwrap(), 16).unwrap()
}

/// A memory map with the program's entries, those without a file, and those of the stubs' code.
fn with_stubs(map: &str, folder: &Path, libraries: &BTreeMap<String, Library>) -> String {
    let own = folder.display().to_string();
    let mut text = String::new();
    for line in map.lines() {
        let Some((range, permissions, offset, path)) = entry(line) else {
            writeln!(text, "{line}").unwrap();
            continue;
        };
        let (offset, path) = match libraries.get(path) {
            _ if path.starts_with(&own) => (offset, path.to_owned()),
            Some(library) if library.code == range => {
                (library.offset, folder.join(library.file_name()).display().to_string())
            }
            _ => continue,
        };
        // Devices and inodes are those of a machine.
        writeln!(text, "{:x}-{:x} {permissions} {offset:08x} 00:00 0 {path}", range.start, range.end).unwrap();
    }
    text
}
