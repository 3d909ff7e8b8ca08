//! Every way debug information is written and kept, compared with `llvm-symbolizer` and `addr2line`.
//!
//! | | by |
//! |---|---|
//! | DWARF 2 to 5 | gcc |
//! | compressed sections: zlib, zstd | `objcopy` |
//! | split off units, in their files and packaged | gcc (DWARF 4, `dwp`), rustc (DWARF 4 and 5, by itself) |
//! | shared parts | `dwz`, within a file and between two |
//!
//! gcc's split off units of DWARF 5 are read from their files only: neither `dwp` of binutils 2.40 nor
//! `llvm-dwp` 14 can package them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use procprof_profile::SymbolAddr;
use procprof_symbolize::{Image, ImageOptions, Resolved, SplitUnits};

use crate::oracle::Tool;
use crate::programs::{Folder, run, source, text_addresses};
use crate::reference::{addresses_of, check_with};

fn anywhere(folder: &Folder) -> ImageOptions {
    ImageOptions { split_units: SplitUnits::Anywhere, ..folder.options() }
}

/// Every third address of `.text`: each instruction is met, and it takes a third of the time.
fn some_addresses(program: &Path) -> Vec<SymbolAddr> {
    text_addresses(program).into_iter().step_by(3).collect()
}

/// Compares with both tools, and returns the answers.
fn check(folder: &Folder, program: &Path, addresses: &[SymbolAddr], tools: &[Tool]) -> Vec<Resolved> {
    let image = Image::open(program, &anywhere(folder)).unwrap();
    for tool in tools {
        let (named, inlined) = check_with(&image, program, addresses, *tool);
        assert!(named > 50 && inlined > 10, "{tool:?} {}: {named} {inlined}", program.display());
    }
    image.resolve(addresses)
}

const BOTH: [Tool; 2] = [Tool::Addr2line, Tool::LlvmSymbolizer];

#[test]
fn all_versions_of_dwarf() {
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        // Without extensions GNU loses what is not in the first section.
        let strict = ("inline.c", "-gstrict-dwarf", &BOTH[1..]);
        for (language, strictness, tools) in
            [strict, ("inline.c", "-gno-strict-dwarf", &BOTH), ("inline.cpp", "-gno-strict-dwarf", &BOTH)]
        {
            let folder = Folder::new();
            let program = folder.compile(language, "program", &["-O2", "-g", version, strictness]);
            check(&folder, &program, &some_addresses(&program), tools);
        }
    }
}

#[test]
fn compressed_sections() {
    let folder = Folder::new();
    let program = folder.compile("inline.cpp", "program", &["-O2", "-g"]);
    let addresses = some_addresses(&program);
    let expected = folder.open(&program).resolve(&addresses);
    for method in ["zlib", "zlib-gnu", "zstd"] {
        let packed = folder.strip(&program, method, &[&format!("--compress-debug-sections={method}")]);
        assert!(fs::metadata(&packed).unwrap().len() < fs::metadata(&program).unwrap().len(), "{method}");
        assert_eq!(folder.open(&packed).resolve(&addresses), expected, "{method}");
    }
}

/// Compiles with its units split off, in the folder itself, as compilers put them where they run.
pub(crate) fn split(folder: &Folder, compiler: &str, language: &str, flags: &[&str]) -> PathBuf {
    let build = folder.path("build");
    fs::create_dir_all(&build).unwrap();
    let mut command = Command::new(compiler);
    command.current_dir(&build).env("RUSTC_BOOTSTRAP", "1").args(flags).args(["-o", "program"]).arg(source(language));
    run(&mut command);
    build.join("program")
}

pub(crate) fn dwo_files(folder: &Folder) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.path("build")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "dwo")).collect()
}

#[test]
fn units_in_files_of_their_own() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let folder = Folder::new();
        let program = split(&folder, "g++", "inline.cpp", &["-O2", "-g", version, "-gsplit-dwarf"]);
        let addresses = some_addresses(&program);
        // GNU does not open the files.
        let answers = check(&folder, &program, &addresses, &[Tool::LlvmSymbolizer]);
        assert_eq!(dwo_files(&folder).len(), 1);
        // Nothing is opened that the caller does not allow.
        assert_ne!(folder.open(&program).resolve(&addresses), answers);

        // Moved: the file is beside the binary, but no longer where it was compiled.
        let moved = folder.path("moved");
        fs::rename(folder.path("build"), &moved).unwrap();
        let image = Image::open(&moved.join("program"), &anywhere(&folder)).unwrap();
        assert_eq!(image.resolve(&addresses), answers);

        // Another unit's file is not used for it.
        let other = split(&folder, "g++", "scopes.cpp", &["-O2", "-g", version, "-gsplit-dwarf"]);
        let [other] = dwo_files(&folder).try_into().unwrap_or_else(|files| panic!("{} {files:?}", other.display()));
        let own =
            fs::read_dir(&moved).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some());
        fs::copy(other, own.unwrap()).unwrap();
        let without = Image::open(&moved.join("program"), &anywhere(&folder)).unwrap().resolve(&addresses);
        assert_eq!(without, Image::open(&moved.join("program"), &folder.options()).unwrap().resolve(&addresses));
    }
}

#[test]
fn units_of_rust_in_files_and_packaged() {
    for version in ["4", "5"] {
        for kind in ["unpacked", "packed"] {
            let folder = Folder::new();
            let (version, kind) = (format!("-Cdwarf-version={version}"), format!("-Csplit-debuginfo={kind}"));
            let flags = [
                "--edition=2024",
                "-Copt-level=2",
                "-Cdebuginfo=2",
                "-Csymbol-mangling-version=v0",
                "-Zunstable-options",
            ];
            let program = split(&folder, "rustc", "inline.rs", &[&flags[..], &[&version, &kind]].concat());
            let addresses = addresses_of(&program, "shapes");
            let answers = check(&folder, &program, &addresses, &[Tool::LlvmSymbolizer]);
            let is_packed = folder.path("build/program.dwp").exists();
            assert_eq!(is_packed, kind.ends_with("=packed"), "{kind}");
            // A package needs no leave: it is beside the binary.
            assert_eq!(folder.open(&program).resolve(&addresses) == answers, is_packed, "{version} {kind}");
        }
    }
}

#[test]
fn parts_shared_within_a_file_and_between_files() {
    let folder = Folder::new();
    let flags = ["-O2", "-g", "-gdwarf-4", "-Wl,--build-id=sha1"];
    let program = folder.compile("inline.cpp", "program", &flags);
    let other = folder.compile("scopes.cpp", "other", &flags);
    let addresses = some_addresses(&program);
    let expected = check(&folder, &program, &addresses, &BOTH);

    let own = folder.path("own");
    run(Command::new("dwz").arg("-o").arg(&own).arg(&program));
    assert_eq!(folder.open(&own).resolve(&addresses), expected);

    // Several files share one; so that there is something to share, the program is there twice.
    let twin = folder.path("twin");
    fs::copy(&program, &twin).unwrap();
    let shared = folder.path("shared");
    let path = folder.path("common.debug");
    run(Command::new("dwz").arg("-m").arg(&shared).arg("-M").arg(&path).args([&program, &twin, &other]));
    assert!(shared.exists(), "dwz found nothing to share");
    // At the path in the file, by build id in a debug folder, by name in one.
    let id = Image::open(&shared, &folder.options()).unwrap().build_id().unwrap().to_string();
    for place in
        ["common.debug", &format!("debug/.build-id/{}/{}.debug", &id[..2], &id[2..]), "debug/.dwz/common.debug"]
    {
        let place = folder.path(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(&shared, &place).unwrap();
        assert_eq!(folder.open(&program).resolve(&addresses), expected, "{}", place.display());
        fs::remove_file(&place).unwrap();
    }
    assert_ne!(folder.open(&program).resolve(&addresses), expected);
}
