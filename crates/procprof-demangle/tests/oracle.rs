//! LLVM's and binutils' demanglers, and where mangled names come from.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::{Object, ObjectSymbol};
use procprof_demangle::{Demangler, Style};

/// The names as `llvm-cxxfilt` of LLVM 19 prints them.
pub(crate) fn llvm(names: &[String]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("names");
    fs::write(&input, names.join("\n") + "\n").unwrap();
    let output = folder.path().join("demangled");
    let status = Command::new("llvm-cxxfilt-19")
        .stdin(File::open(&input).unwrap())
        .stdout(File::create(&output).unwrap())
        .stderr(Stdio::inherit())
        .status()
        .unwrap();
    assert!(status.success());
    lines(&fs::read_to_string(output).unwrap(), names.len())
}

/// The names as `nm -C` of binutils prints them: of an object file that has them as symbols.
pub(crate) fn nm(names: &[String]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("names.s");
    let object = folder.path().join("names.o");
    let mut file = std::io::BufWriter::new(File::create(&source).unwrap());
    for name in names {
        writeln!(file, ".globl \"{name}\"\n\"{name}\":").unwrap();
    }
    drop(file);
    run(Command::new("as").arg(&source).arg("-o").arg(&object));
    let raw = run(Command::new("nm").args(["-p", "--format=just-symbols"]).arg(&object));
    assert_eq!(lines(&raw, names.len()), names, "nm keeps the order of the symbols");
    lines(&run(Command::new("nm").args(["-p", "-C", "--format=just-symbols"]).arg(&object)), names.len())
}

fn lines(text: &str, expected: usize) -> Vec<String> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), expected);
    lines
}

/// Runs a program and returns what it prints.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The names of this crate; the mangled one if there is no other.
pub(crate) fn ours(names: &[String], style: Style) -> Vec<String> {
    let mut demangler = Demangler::default();
    names.iter().map(|name| demangler.demangle(name, style).unwrap_or_else(|| name.clone())).collect()
}

/// The mangled names of C++ in a file's symbol tables, each once, in their order.
///
/// Names with other than ASCII letters are left out, which `llvm-cxxfilt` takes for the ends of names.
pub(crate) fn mangled_names(path: &Path) -> Vec<String> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = object::File::parse(&*bytes).unwrap();
    let symbols = file.dynamic_symbols().chain(file.symbols());
    let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    let mut names: Vec<String> =
        names.filter(|name| name.is_ascii() && name.starts_with("_Z") && !name.contains('@')).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The first of the paths that is a file.
pub(crate) fn installed(paths: &[&str]) -> PathBuf {
    let found = paths.iter().map(PathBuf::from).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("none of {paths:?} is installed; `cargo xtask test` installs it"))
}

/// Names that differ, as many as are worth reading.
pub(crate) fn differences(names: &[String], expected: &[String], found: &[String]) -> Vec<String> {
    let all = names.iter().zip(expected).zip(found).filter(|((_, expected), found)| expected != found);
    all.map(|((name, expected), found)| format!("{name}\n  expected {expected}\n  found    {found}")).collect()
}
