//! Stripped debug information is found, and nothing that belongs to another build.

use std::fs;
use std::path::Path;
use std::process::Command;

use procprof_profile::SymbolAddr;
use procprof_symbolize::{FoundBy, Reason, Resolved};

use crate::programs::{Folder, run, text_addresses};

const FLAGS: [&str; 3] = ["-O2", "-g", "-Wl,--build-id=sha1"];

fn names(resolved: &[Resolved]) -> Vec<&str> {
    let frames = resolved.iter().filter_map(|resolved| match resolved {
        Resolved::Frames(frames) => Some(frames.iter().map(|frame| &*frame.name)),
        Resolved::Unknown(_) => None,
    });
    let mut names: Vec<&str> = frames.flatten().collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn add_link(program: &Path, debug: &Path) {
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(program));
}

/// Strips a program after handing it and its folder to `place`, which puts the debug file somewhere;
/// the answers must be those of the unstripped program.
fn check(flags: &[&str], found_by: FoundBy, place: impl FnOnce(&Folder, &Path, &Path)) {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", flags);
    let addresses = text_addresses(&program);
    let expected = folder.open(&program).resolve(&addresses);
    let stripped = folder.strip(&program, "stripped", &["--strip-all"]);
    place(&folder, &program, &stripped);
    let image = folder.open(&stripped);
    assert_eq!(image.debug_file().map(|debug| debug.found_by), Some(found_by));
    assert_eq!(image.resolve(&addresses), expected);
}

fn build_id_path(folder: &Folder, program: &Path) -> String {
    let id = folder.open(program).build_id().unwrap().to_string();
    format!("debug/.build-id/{}/{}.debug", &id[..2], &id[2..])
}

#[test]
fn by_build_id() {
    check(&FLAGS, FoundBy::BuildId, |folder, program, _| {
        folder.keep_debug(program, &build_id_path(folder, program));
    });
}

#[test]
fn by_build_id_in_the_cache_of_perf() {
    check(&FLAGS, FoundBy::BuildId, |folder, program, _| {
        let add = ["buildid-cache", "--add"];
        run(Command::new("perf").arg("--buildid-dir").arg(folder.path("debug")).args(add).arg(program));
        fs::remove_file(program).unwrap();
    });
}

#[test]
fn by_link_beside_the_program() {
    check(&["-O2", "-g", "-Wl,--build-id=none"], FoundBy::DebugLink, |folder, program, stripped| {
        let debug = folder.keep_debug(program, "stripped.debug");
        add_link(stripped, &debug);
    });
}

#[test]
fn by_link_in_the_debug_subfolder_and_with_compressed_sections() {
    check(&["-O2", "-g", "-gz=zlib", "-Wl,--build-id=sha1"], FoundBy::DebugLink, |folder, program, stripped| {
        let debug = folder.keep_debug(program, ".debug/stripped.debug");
        add_link(stripped, &debug);
    });
}

#[test]
fn by_link_in_a_debug_folder() {
    check(&FLAGS, FoundBy::DebugLink, |folder, program, stripped| {
        let below = folder.path("").strip_prefix("/").unwrap().join("stripped.debug");
        let debug = folder.keep_debug(program, Path::new("debug").join(below).to_str().unwrap());
        add_link(stripped, &debug);
    });
}

/// DWARF 4 only: `dwp` of binutils 2.40 crashes on version 5.
#[test]
fn split_off_units_are_read_from_their_package() {
    let folder = Folder::new();
    let program = folder.compile("inline.cpp", "program", &["-O2", "-g", "-gdwarf-4"]);
    let addresses = text_addresses(&program);
    let whole = folder.open(&program).resolve(&addresses);
    let program = folder.compile("inline.cpp", "program", &["-O2", "-g", "-gdwarf-4", "-gsplit-dwarf"]);
    let without = folder.open(&program).resolve(&addresses);
    run(Command::new("dwp").arg("-e").arg(&program).arg("-o").arg(folder.path("program.dwp")));
    let with = folder.open(&program).resolve(&addresses);
    assert_eq!(with, whole);
    // Without the package the symbols and lines are still there, the inlined functions not.
    assert_ne!(without, whole);
    assert!(names(&without).contains(&"shapes::area(int)"), "{:?}", names(&without));
}

#[test]
fn a_changed_debug_file_is_not_used() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &["-O2", "-g", "-Wl,--build-id=none"]);
    let addresses = text_addresses(&program);
    let stripped = folder.strip(&program, "stripped", &["--strip-all"]);
    let debug = folder.keep_debug(&program, "stripped.debug");
    add_link(&stripped, &debug);
    let mut bytes = fs::read(&debug).unwrap();
    bytes.push(0);
    fs::write(&debug, bytes).unwrap();
    let image = folder.open(&stripped);
    assert_eq!(image.debug_file(), None);
    assert_eq!(image.resolve(&addresses)[0], Resolved::Unknown(Reason::NoSymbols));
}

#[test]
fn a_debug_file_of_another_build_is_not_used() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let other = folder.compile("inline.cpp", "other", &FLAGS);
    let stripped = folder.strip(&program, "stripped", &["--strip-all"]);
    folder.keep_debug(&other, &build_id_path(&folder, &program));
    assert_eq!(folder.open(&stripped).debug_file(), None);
}

#[test]
fn dynamic_symbols_are_the_last_resort() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &["-O2", "-rdynamic"]);
    let stripped = folder.strip(&program, "stripped", &["--strip-all"]);
    let resolved = folder.open(&stripped).resolve(&text_addresses(&stripped));
    let names = names(&resolved);
    assert!(names.contains(&"outer") && names.contains(&"without_size"), "{names:?}");
    assert!(!names.contains(&"local_one"), "{names:?}");
    // Those that are exported are only some of them.
    assert!(resolved.contains(&Resolved::Unknown(Reason::NoSymbols)));
}

#[test]
fn answers_come_in_the_order_of_the_requests() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let image = folder.open(&program);
    let mut addresses = text_addresses(&program);
    let forward = image.resolve(&addresses);
    addresses.reverse();
    let mut backward = image.resolve(&addresses);
    backward.reverse();
    assert_eq!(forward, backward);
    assert_eq!(image.resolve(&[]), []);
    assert_eq!(image.resolve(&[SymbolAddr(u64::MAX)]), [Resolved::Unknown(Reason::NotCovered)]);
}
