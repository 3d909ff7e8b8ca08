//! Symbols of stripped binaries: Go's own table, and symbols compressed into a section.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};
use procprof_profile::SymbolAddr;
use procprof_symbolize::Resolved;

use crate::programs::{Folder, run, source, text_addresses};

pub(crate) fn build_go(folder: &Folder, name: &str, flags: &[&str]) -> PathBuf {
    let program = folder.path(name);
    let mut command = Command::new("go");
    command.args(["build", "-trimpath"]).args(flags).arg("-o").arg(&program).arg(source("stripped.go"));
    run(command.env("CGO_ENABLED", "0"));
    program
}

/// Function and `file:line` of each address, as `go tool addr2line` prints them.
fn go_addr2line(program: &Path, addresses: &[SymbolAddr]) -> Vec<(String, String)> {
    use std::io::{Seek, Write};
    let mut input = tempfile::tempfile().unwrap();
    for address in addresses {
        writeln!(input, "{:#x}", address.0).unwrap();
    }
    input.rewind().unwrap();
    let output = run(Command::new("go").args(["tool", "addr2line"]).arg(program).stdin(input));
    let text = String::from_utf8(output).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    lines.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
}

/// All but the two tables of a Go program are the same whether it is stripped or not, so that its twin can be queried.
#[test]
fn go_names_its_functions_itself() {
    let folder = Folder::new();
    let stripped = build_go(&folder, "stripped", &["-ldflags=-s -w"]);
    let twin = build_go(&folder, "twin", &[]);
    let code = |program: &Path| {
        let bytes = std::fs::read(program).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let text = object.section_by_name(".text").unwrap();
        (text.address(), text.size())
    };
    assert_eq!(code(&stripped), code(&twin));
    let addresses: Vec<SymbolAddr> = text_addresses(&twin).into_iter().step_by(61).collect();
    let theirs = go_addr2line(&twin, &addresses);
    let ours = folder.open(&stripped).resolve(&addresses);
    let (mut named, mut in_main) = (0, 0);
    for ((address, ours), (name, place)) in addresses.iter().zip(&ours).zip(&theirs) {
        let Resolved::Frames(frames) = ours else {
            assert_eq!(name, "?", "{address:?}");
            continue;
        };
        let frame = &frames[0];
        // Addresses without a line in the table are padding, or a function made by the linker.
        let Some(line) = frame.line else {
            continue;
        };
        assert_eq!(*frame.name, **name, "{address:?} {frame:?}");
        assert_eq!(format!("{}:{line}", frame.file.as_deref().unwrap()), *place, "{address:?}");
        named += 1;
        in_main += usize::from(name.starts_with("main."));
    }
    assert!(named > 3_000 && in_main > 2, "{named} {in_main}");
}

#[test]
fn symbols_in_a_compressed_section_are_read() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &["-O2"]);
    let addresses = text_addresses(&program);
    let expected = folder.open(&program).resolve(&addresses);
    let mini = folder.keep_debug(&program, "mini");
    run(Command::new("xz").arg(&mini));
    let stripped = folder.strip(&program, "stripped", &["--strip-all"]);
    assert_ne!(folder.open(&stripped).resolve(&addresses), expected);
    let section = format!(".gnu_debugdata={}", folder.path("mini.xz").display());
    run(Command::new("objcopy").args(["--add-section", &section]).arg(&stripped));
    assert_eq!(folder.open(&stripped).resolve(&addresses), expected);
    // Not xz at all: as if it were not there.
    let broken = format!(".gnu_debugdata={}", stripped.display());
    run(Command::new("objcopy").args(["--update-section", &broken]).arg(&stripped));
    assert_ne!(folder.open(&stripped).resolve(&addresses), expected);
}
