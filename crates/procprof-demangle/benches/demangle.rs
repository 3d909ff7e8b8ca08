//! Names of a whole symbol table: this crate beside cpp_demangle and the demanglers of LLVM and binutils.
//!
//! `cargo bench -p procprof-demangle [-- FILE]` takes the mangled names of the file, of libLLVM without one, and prints
//! the best of seven runs of each; the tools' times are of whole processes that read the names from a file.

#![allow(clippy::disallowed_methods)]
// A bench may fail loudly.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};
use object::{Object, ObjectSymbol};
use procprof_demangle::{Demangler, Style};

const RUNS: usize = 7;

fn main() {
    let file = std::env::args().skip(1).find(|argument| argument != "--bench");
    let path = file.map_or_else(|| PathBuf::from("/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1"), PathBuf::from);
    let names = mangled_names(&path);
    println!("{} names of {}", names.len(), path.display());
    println!("| demangler | all names | a name | names |");
    println!("|---|---|---|---|");
    report("ours, one text after the other", &names, || ours(&names, Style::Llvm));
    report("ours, as binutils", &names, || ours(&names, Style::Gnu));
    report("ours, a text for each name", &names, || {
        let mut demangler = Demangler::default();
        names.iter().filter(|name| demangler.demangle(name, Style::Llvm).is_some()).count()
    });
    report("cpp_demangle", &names, || {
        let options = DemangleOptions::new();
        let demangled =
            |name: &&String| BorrowedSymbol::new(name.as_bytes()).ok()?.demangle_with_options(&options).ok();
        names.iter().filter(|name| demangled(name).is_some()).count()
    });
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("names");
    fs::write(&list, names.join("\n") + "\n").unwrap();
    for tool in ["llvm-cxxfilt-19", "c++filt"] {
        report(tool, &names, || filtered(tool, &list, names.len()));
    }
}

fn report(name: &str, names: &[String], run: impl Fn() -> usize) {
    let mut best = Duration::MAX;
    let mut read = 0;
    for _ in 0..RUNS {
        let started = Instant::now();
        read = run();
        best = best.min(started.elapsed());
    }
    let one = best.as_nanos() / names.len().max(1) as u128;
    println!("| {name} | {:.1} ms | {one} ns | {read} |", best.as_secs_f64() * 1e3);
}

fn ours(names: &[String], style: Style) -> usize {
    let mut demangler = Demangler::default();
    let mut text = String::new();
    let mut read = 0;
    for name in names {
        text.clear();
        read += usize::from(demangler.append(name, style, &mut text));
    }
    read
}

fn filtered(tool: &str, list: &Path, names: usize) -> usize {
    let status = Command::new(tool).stdin(File::open(list).unwrap()).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    names
}

fn mangled_names(path: &Path) -> Vec<String> {
    let bytes = fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let names = file.dynamic_symbols().chain(file.symbols()).filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    let mut names: Vec<String> = names.filter(|name| name.starts_with("_Z")).collect();
    names.sort_unstable();
    names.dedup();
    names
}
