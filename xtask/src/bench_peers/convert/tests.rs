//! The decoders read the converted files.

// A test may fail loudly.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use procprof_profile::Profile;
use procprof_profile::format::{self, Limits};
use tempfile::TempDir;

use super::*;

const HEAP: &str = "heap_v2/1024
  t*: 5: 4096 [0: 0]
  t0: 5: 4096 [0: 0]
@ 0x5000011 0x5000021
  t*: 2: 1024 [0: 0]
  t0: 2: 1024 [0: 0]
@ 0x5000011 0x9000001
  t*: 3: 3072 [0: 0]
  t0: 3: 3072 [0: 0]

MAPPED_LIBRARIES:
5000000-5001000 r-xp 00000000 fd:01 12 /opt/program
9000000-9001000 r-xp 00000000 fd:01 13 /lib/library.so
";

fn dump() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let heap = folder.path().join("a.heap");
    fs::write(&heap, HEAP).unwrap();
    let file = folder.path().join("converted");
    (folder, heap, file)
}

fn decode(file: &Path) -> Profile {
    let limits = Limits { unpacked_bytes: 1 << 20, depth: 100 };
    format::decode(&fs::read(file).unwrap(), &limits).unwrap().profile
}

#[test]
fn the_text_of_tcmalloc_has_the_same_values() {
    let (_folder, heap, file) = dump();
    to_legacy_text(&heap, &file).unwrap();
    let [before, after] = [&heap, &file].map(|path| {
        let profile = decode(path).adjusted(Grammar::Pprof).unwrap();
        profile.total(profile.default_sample_type())
    });
    assert_eq!(after, before);
}

#[test]
fn each_stack_is_a_record_of_the_cpu_profile() {
    let (_folder, heap, file) = dump();
    to_cpu_profile(&heap, &file).unwrap();
    assert_eq!(decode(&file).sample_count(), 2);
}

#[test]
fn addresses_are_call_sites_of_the_program() {
    let (_folder, heap, file) = dump();
    to_addresses(&heap, Path::new("/opt/program"), &file).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "0x10\n0x20\n");
}

#[test]
fn another_program_takes_the_first_ones_place() {
    let (_folder, heap, file) = dump();
    rename_program(&heap, Path::new("/opt/program"), Path::new("/opt/stripped"), &file).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), HEAP.replace("/opt/program", "/opt/stripped"));
    rename_program(&heap, Path::new("/opt/other"), Path::new("/opt/stripped"), &file).unwrap_err();
}
