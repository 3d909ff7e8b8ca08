//! Each address of a program, compared with the reference tools.
//!
//! Known differences between the tools and this crate: GNU `addr2line` uses the nearest symbol however far away, so it
//! may name addresses that are unknown here; LLVM 14 does not demangle the older Rust names.

use std::path::Path;

use object::{Object, ObjectSymbol, SymbolKind};
use procprof_profile::SymbolAddr;
use procprof_symbolize::{Frame, Image, Resolved};

use crate::oracle::{Printed, Tool};
use crate::programs::{Folder, text_addresses};

const C: &str = "inline.c";
const CPP: &str = "inline.cpp";
const RUST: &str = "inline.rs";

/// Compares the addresses of `.text`; returns how many have frames, and how many inlined ones.
fn check(folder: &Folder, program: &Path, addresses: &[SymbolAddr], tool: Tool) -> (usize, usize) {
    check_with(&folder.open(program), program, addresses, tool)
}

/// As `check`, for an image that is open.
pub(crate) fn check_with(image: &Image, program: &Path, addresses: &[SymbolAddr], tool: Tool) -> (usize, usize) {
    let ours = image.resolve(addresses);
    let theirs = tool.ask(program, addresses);
    let (mut named, mut inlined) = (0, 0);
    for ((address, ours), theirs) in addresses.iter().zip(&ours).zip(&theirs) {
        match ours {
            Resolved::Frames(frames) => {
                check_frames(*address, frames, theirs, tool);
                named += 1;
                inlined += usize::from(frames.len() > 1);
            }
            // GNU's result for the padding behind a function is no reference.
            Resolved::Unknown(_) if tool == Tool::LlvmSymbolizer => {
                assert!(theirs.iter().all(|frame| frame.name.is_none()), "{address:?}: {theirs:?}");
            }
            Resolved::Unknown(_) => {}
        }
    }
    (named, inlined)
}

fn check_frames(address: SymbolAddr, ours: &[Frame], theirs: &[Printed], tool: Tool) {
    assert_eq!(ours.len(), theirs.len(), "{tool:?} {address:?}: {ours:?} {theirs:?}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        let name = theirs.name.as_deref().map(comparable);
        // Each names lambdas in its own way; GNU an inlined one by the function around it.
        if ours.name.contains("operator()") {
            assert!(tool == Tool::Addr2line || theirs.name.as_ref().unwrap().contains("operator()"), "{theirs:?}");
        } else {
            assert_eq!(Some(comparable(&ours.name)), name, "{tool:?} {address:?}: {ours:?}");
        }
        assert_eq!(ours.line, theirs.line, "{tool:?} {address:?}: {ours:?}");
        // Without a line the file is a guess of GNU's, from the nearest file symbol.
        if theirs.line.is_some() {
            assert_eq!(
                ours.file.as_deref().map(last_part),
                theirs.file.as_deref().map(last_part),
                "{tool:?} {address:?}"
            );
        }
    }
}

/// Demanglers differ in spaces; LLVM names a clone of a C function as the linker does.
fn comparable(name: &str) -> String {
    name.trim_end_matches(".constprop.0").split_whitespace().collect()
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn check_both(source: &str, flags: &[&str]) {
    let folder = Folder::new();
    let program = folder.compile(source, "program", flags);
    let addresses = text_addresses(&program);
    for tool in [Tool::Addr2line, Tool::LlvmSymbolizer] {
        let (named, inlined) = check(&folder, &program, &addresses, tool);
        assert!(named > 100, "{tool:?} {source} {flags:?}: {named}");
        let with_debug = flags.iter().any(|flag| flag.starts_with("-g"));
        assert_eq!(inlined > 10, with_debug, "{tool:?} {source} {flags:?}: {inlined}");
    }
}

#[test]
fn c_position_independent() {
    check_both(C, &["-O2", "-g", "-gdwarf-5", "-fPIE", "-pie"]);
}

#[test]
fn c_at_fixed_addresses_with_dwarf_4() {
    check_both(C, &["-O2", "-g", "-gdwarf-4", "-no-pie", "-fno-pie"]);
}

#[test]
fn c_with_compressed_sections() {
    check_both(C, &["-O1", "-g", "-gz=zlib"]);
}

#[test]
fn c_with_symbols_only() {
    check_both(C, &["-O2"]);
}

#[test]
fn cpp_optimised_and_not() {
    check_both(CPP, &["-O2", "-g"]);
    check_both(CPP, &["-O0", "-g", "-gdwarf-4", "-no-pie"]);
}

#[test]
fn rust_with_both_manglings() {
    for (mangling, tools) in [("legacy", &[Tool::Addr2line][..]), ("v0", &[Tool::Addr2line, Tool::LlvmSymbolizer])] {
        let folder = Folder::new();
        let option = format!("-Csymbol-mangling-version={mangling}");
        let flags = ["--edition=2024", "-Copt-level=2", "-Cdebuginfo=2", "-Cstrip=none", "-Zunstable-options", &option];
        let program = folder.compile(RUST, "program", &flags);
        let addresses = addresses_of(&program, "shapes");
        assert!(addresses.len() > 100, "{}", addresses.len());
        for tool in tools {
            let (named, inlined) = check(&folder, &program, &addresses, *tool);
            assert_eq!(named, addresses.len());
            assert!(inlined > 10, "{tool:?} {inlined}");
        }
    }
}

/// The addresses of the functions whose linker name holds `text`.
pub(crate) fn addresses_of(program: &Path, text: &str) -> Vec<SymbolAddr> {
    let bytes = std::fs::read(program).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let symbols =
        object.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.name().unwrap().contains(text));
    symbols.flat_map(|symbol| (symbol.address()..symbol.address() + symbol.size()).map(SymbolAddr)).collect()
}
