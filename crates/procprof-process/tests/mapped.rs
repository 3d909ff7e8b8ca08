//! Build ids and mapped files, compared with `readelf` and with the bytes that were executed.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use procprof_process::{BuildId, Error, MappedRange, Process};

use crate::child::{Running, compile_waiting};

fn readelf_build_id(path: &Path) -> Option<String> {
    let output = Command::new("readelf").arg("-n").arg(path).output();
    let output = output.expect("readelf (binutils) is needed");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    line.map(str::to_owned)
}

fn build_id_of(path: &Path) -> Option<String> {
    let id = BuildId::of_file(&fs::File::open(path).unwrap()).unwrap();
    let of_bytes = BuildId::of_bytes(&fs::read(path).unwrap());
    assert_eq!(id, of_bytes, "{}", path.display());
    id.map(|id| id.to_string())
}

/// The code of the main program, waiting until the child has executed it.
fn code_of(process: &Process, program: &Path) -> MappedRange {
    for _ in 0..30_000 {
        let maps = process.maps().unwrap();
        let code = maps.into_iter().find(|range| range.is_file_code() && *range.path == *program);
        if let Some(code) = code {
            return code;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} is not mapped", program.display());
}

#[test]
fn build_ids_are_those_of_readelf() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let with = compile_waiting(folder.path(), "with", &["-Wl,--build-id=sha1"]);
    let chosen = compile_waiting(folder.path(), "chosen", &["-Wl,--build-id=0xabcdef0123456789", "-no-pie"]);
    let without = compile_waiting(folder.path(), "without", &["-Wl,--build-id=none"]);
    let debug = folder.path().join("with.debug");
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--only-keep-debug").arg(&with).arg(&debug);
    assert!(objcopy.status().expect("objcopy (binutils) is needed").success());
    for path in [&own, &with, &chosen, &without, &debug] {
        assert_eq!(build_id_of(path), readelf_build_id(path), "{}", path.display());
    }
    assert_eq!(build_id_of(&chosen).as_deref(), Some("abcdef0123456789"));
    assert_eq!(build_id_of(&without), None);
    assert_eq!(build_id_of(&folder.path().join("with.c")), None);
}

#[test]
fn every_file_of_our_own_maps_opens_and_the_vdso_has_a_build_id() {
    let process = Process::current().unwrap();
    for range in process.maps().unwrap() {
        if range.is_file_code() {
            let id = process.build_id_of(&range).unwrap().map(|id| id.to_string());
            assert_eq!(id, readelf_build_id(&range.path), "{}", range.name());
        } else if *range.path == *Path::new("[vdso]") {
            assert!(process.build_id_of(&range).unwrap().is_some());
        } else if range.inode == 0 {
            assert!(matches!(process.open_mapped(&range), Err(Error::Unreachable { .. })));
        }
    }
}

#[test]
fn a_deleted_and_replaced_program_is_still_the_one_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile_waiting(folder.path(), "replaced", &["-Wl,--build-id=0x01"]);
    let bytes = fs::read(&program).unwrap();
    let child = Running::start(&program);
    let process = child.process();
    let before = code_of(&process, &program);
    assert!(!before.deleted);
    let other = compile_waiting(folder.path(), "other", &["-Wl,--build-id=0x02"]);
    fs::rename(other, &program).unwrap();

    let range = code_of(&process, &program);
    assert!(range.deleted && process.executable().unwrap().deleted);
    let mut mapped = process.open_mapped(&range).unwrap();
    let mut opened = Vec::new();
    mapped.file.read_to_end(&mut opened).unwrap();
    assert!(opened == bytes, "another file was opened via {:?}", mapped.via);
    assert_eq!(process.build_id_of(&range).unwrap().unwrap().to_string(), "01");
}
