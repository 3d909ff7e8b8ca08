//! Symbols of stripped binaries: Go's own table, and symbols compressed into a section.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};
use procprof_profile::SymbolAddr;
use procprof_symbolize::Resolved;

use crate::programs::{Folder, run, source, text_addresses};

/// A way to link Go: arguments of `go build`, and whether a C linker takes part.
struct LinkMode {
    arguments: &'static [&'static str],
    linker_flags: &'static str,
    has_cgo: bool,
}

const LINK_MODES: [LinkMode; 5] = [
    LinkMode { arguments: &[], linker_flags: "", has_cgo: false },
    LinkMode { arguments: &["-buildmode=pie"], linker_flags: "", has_cgo: false },
    LinkMode { arguments: &[], linker_flags: "-linkmode=external", has_cgo: true },
    LinkMode { arguments: &["-buildmode=pie"], linker_flags: "-linkmode=external", has_cgo: true },
    LinkMode { arguments: &["-buildmode=c-shared"], linker_flags: "", has_cgo: true },
];

impl LinkMode {
    fn build(&self, folder: &Folder, name: &str, flags: &str) -> PathBuf {
        let program = folder.path(name);
        let mut command = Command::new("go");
        command.args(["build", "-trimpath"]).args(self.arguments);
        command.arg(format!("-ldflags={} {flags}", self.linker_flags)).arg("-o").arg(&program);
        run(command.arg(source("stripped.go")).env("CGO_ENABLED", if self.has_cgo { "1" } else { "0" }));
        program
    }
}

/// A stripped program.
pub(crate) fn build_go(folder: &Folder, name: &str) -> PathBuf {
    LINK_MODES[0].build(folder, name, "-s -w")
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
fn go_names_its_functions_itself_however_it_is_linked() {
    for mode in &LINK_MODES {
        let folder = Folder::new();
        let (stripped, twin) = (mode.build(&folder, "stripped", "-s -w"), mode.build(&folder, "twin", ""));
        check_names(&format!("{:?} {:?}", mode.arguments, mode.linker_flags), &folder, &stripped, &twin);
    }
}

fn check_names(what: &str, folder: &Folder, stripped: &Path, twin: &Path) {
    let code = |program: &Path| {
        let bytes = std::fs::read(program).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let text = object.section_by_name(".text").unwrap();
        (text.address(), text.size())
    };
    assert_eq!(code(stripped), code(twin), "{what}");
    let addresses: Vec<SymbolAddr> = text_addresses(twin).into_iter().step_by(61).collect();
    let theirs = go_addr2line(twin, &addresses);
    let ours = folder.open(stripped).resolve(&addresses);
    let (mut named, mut in_main) = (0, 0);
    for ((address, ours), (name, place)) in addresses.iter().zip(&ours).zip(&theirs) {
        let Resolved::Frames(frames) = ours else {
            // Code of C has names in the twin only.
            assert!(!name.contains('.'), "{what}: {address:?} {name}");
            continue;
        };
        let frame = &frames[0];
        // Addresses without a line in the table are padding, or a function made by the linker.
        let Some(line) = frame.line else {
            continue;
        };
        assert_eq!(*frame.name, **name, "{what}: {address:?} {frame:?}");
        assert_eq!(format!("{}:{line}", frame.file.as_deref().unwrap()), *place, "{what}: {address:?}");
        named += 1;
        in_main += usize::from(name.starts_with("main."));
    }
    assert!(named > 3_000 && in_main > 2, "{what}: {named} {in_main}");
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
