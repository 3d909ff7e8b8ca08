//! Links the library with glibc as it was at version 2.17, whatever the machine has.
//!
//! A linker binds each function to the newest version that the machine's glibc has, and the library would then refuse
//! to load on hosts with an older one. So it is given libraries made here, which have the symbols of
//! `glibc/symbols.txt` with their old versions, and no code: at run time the real glibc is there, of that version or
//! any later one. Functions that may be missing at run time (the standard library's weak references) are in none of
//! them, stay without a version, and are bound where they exist.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIST: &str = "glibc/symbols.txt";

/// Symbols of a library by version.
type Versions<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LIST}");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    let Some(linker) = linker() else { return };
    let is_x86 = target("ARCH") == "x86_64";
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let list = fs::read_to_string(LIST).expect("the list of symbols is in the crate");
    for (file, versions) in parse(&list, is_x86) {
        make(&linker, &folder, file, &versions);
    }
    // As the real `libc.so`: the loader's own symbols come with it.
    let loader = folder.join(loader(is_x86));
    fs::write(
        folder.join("libc.so"),
        format!("INPUT ( {} AS_NEEDED ( {} ) )\n", folder.join("libc.so.6").display(), loader.display()),
    )
    .expect("write to OUT_DIR");
    for (name, file) in [
        ("libm.so", "libm.so.6"),
        ("libpthread.so", "libpthread.so.0"),
        ("libdl.so", "libdl.so.2"),
        ("librt.so", "librt.so.1"),
    ] {
        fs::write(folder.join(name), format!("INPUT ( {} )\n", folder.join(file).display())).expect("write to OUT_DIR");
    }
    println!("cargo::rustc-cdylib-link-arg=-L{}", folder.display());
    // A strong reference to anything else fails here instead of on a user's machine.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
}

/// The linker for the target: as configured in cargo, else this machine's for itself. Without one, as when another
/// machine's code is only checked, there is nothing to link with either.
fn linker() -> Option<String> {
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let is_native = env::var("HOST") == env::var("TARGET");
    env::var("RUSTC_LINKER").ok().or_else(|| is_native.then(|| "cc".to_owned()))
}

fn loader(is_x86: bool) -> &'static str {
    if is_x86 { "ld-linux-x86-64.so.2" } else { "ld-linux-aarch64.so.1" }
}

fn parse(list: &str, is_x86: bool) -> BTreeMap<&str, Versions<'_>> {
    let mut libraries: BTreeMap<&str, Versions<'_>> = BTreeMap::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (Some(file), Some(version)) = (words.next(), words.next()) else { continue };
        let file = if file == "LOADER" { loader(is_x86) } else { file };
        let version = if is_x86 { version } else { "GLIBC_2.17" };
        libraries.entry(file).or_default().entry(version).or_default().extend(words);
    }
    libraries
}

/// Makes a shared library that has the symbols and no code.
fn make(linker: &str, folder: &Path, file: &str, versions: &Versions<'_>) {
    let (mut assembly, mut script) = (String::from(".text\n"), String::new());
    for (version, names) in versions {
        let _ = writeln!(script, "{version} {{ global: {}; }};", names.join("; "));
        for name in names {
            let _ = writeln!(assembly, ".globl {name}\n.type {name}, %function\n{name}:");
        }
    }
    let (source, map) = (folder.join(format!("{file}.s")), folder.join(format!("{file}.map")));
    fs::write(&source, assembly).expect("write to OUT_DIR");
    fs::write(&map, script).expect("write to OUT_DIR");
    let status = Command::new(linker)
        .args(["-shared", "-nostdlib", "-o"])
        .arg(folder.join(file))
        .arg(format!("-Wl,-soname,{file}"))
        .arg(format!("-Wl,--version-script,{}", map.display()))
        .arg(&source)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{linker} made no {file}: {status}"),
        Err(error) => panic!("{linker} is needed to link: {error}"),
    }
}
