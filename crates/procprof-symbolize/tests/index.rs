//! The symbol index answers as the file does.

use std::path::Path;

use procprof_process::BuildId;
use procprof_profile::{FileOffset, SymbolAddr};
use procprof_symbolize::binutils::{Detail, look_up};
use procprof_symbolize::{Image, ImageOptions, IndexFolder, Resolved, SymbolIndex};

use crate::programs::{Folder, text_addresses};

/// Compares all addresses of a program, and some around it; returns the size of the index.
fn check(image: &Image, addresses: &[SymbolAddr]) -> usize {
    let bytes = SymbolIndex::build(image).unwrap();
    let size = bytes.len();
    let index = SymbolIndex::from_bytes(bytes).unwrap();
    index.verify().unwrap();
    assert!(index.is_complete());
    assert_eq!(index.build_id(), image.build_id());
    assert_eq!(index.layout_key(), image.layout_key());
    let odd = [0, 1, u64::MAX].map(SymbolAddr);
    let addresses: Vec<SymbolAddr> = addresses.iter().copied().chain(odd).collect();
    let (from_index, from_file) = (index.resolve(&addresses), image.resolve(&addresses));
    let mut inlined = 0;
    for ((address, from_index), from_file) in addresses.iter().zip(&from_index).zip(&from_file) {
        assert_eq!(from_index, from_file, "{address:?}");
        inlined += usize::from(matches!(from_file, Resolved::Frames(frames) if frames.len() > 1));
    }
    assert!(inlined > 10, "{inlined}");
    for offset in (0..0x8000).step_by(97).map(FileOffset) {
        assert_eq!(index.symbol_addr(offset), image.symbol_addr(offset));
        assert_eq!(index.symbol_addr_in(offset, 0x10), image.symbol_addr_in(offset, 0x10));
    }
    size
}

fn check_program(source: &str, flags: &[&str]) {
    let folder = Folder::new();
    let program = folder.compile(source, "program", flags);
    let addresses = text_addresses(&program);
    check(&folder.open(&program), &addresses);
}

#[test]
fn of_c() {
    for flags in [["-O2", "-g", "-gdwarf-5"], ["-O2", "-g", "-gdwarf-4"]] {
        check_program("inline.c", &flags);
    }
}

#[test]
fn of_cpp() {
    for flags in [["-O2", "-g", "-gdwarf-5"], ["-O1", "-g", "-gdwarf-4"]] {
        check_program("inline.cpp", &flags);
    }
    check_program("scopes.cpp", &["-O2", "-g"]);
}

#[test]
fn of_rust() {
    check_program("inline.rs", &["--edition=2024", "-Copt-level=2", "-Cdebuginfo=2", "-Cstrip=none"]);
}

#[test]
fn of_a_binary_with_its_debug_file() {
    let folder = Folder::new();
    let program = folder.compile("inline.cpp", "program", &["-O2", "-g", "-Wl,--build-id"]);
    let addresses = text_addresses(&program);
    let whole = folder.open(&program);
    let debug = folder.keep_debug(&program, "program.debug");
    let stripped = folder.strip(&program, "stripped", &["--strip-all"]);
    assert_eq!(folder.open(&stripped).layout_key(), whole.layout_key());
    // A debug file alone has no symbols of other files, but the same debug information.
    let from_debug = SymbolIndex::from_bytes(SymbolIndex::build(&folder.open(&debug)).unwrap()).unwrap();
    assert_eq!(from_debug.layout_key(), whole.layout_key());
    assert_eq!(from_debug.resolve(&addresses), whole.resolve(&addresses));
}

/// The test program itself: a large program with units of C, C++ and Rust.
#[test]
fn of_a_large_program() {
    let path = std::env::current_exe().unwrap();
    let image = Image::open(Path::new(&path), &ImageOptions::default()).unwrap();
    let addresses: Vec<SymbolAddr> = text_addresses(&path).into_iter().step_by(61).collect();
    let size = check(&image, &addresses);
    let whole = std::fs::metadata(&path).unwrap().len();
    assert!((size as u64) < whole / 4, "{size} of {whole}");
}

/// Batches of other addresses are answered as without a cache, from what the ones before left.
#[test]
fn of_several_batches() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        check_batches("inline.c", &["-O2", "-g", version, "-Wl,--build-id"]);
        check_batches("inline.cpp", &["-O2", "-g", version, "-Wl,--build-id"]);
    }
    check_batches("inline.rs", &["--edition=2024", "-Copt-level=0", "-Cdebuginfo=2", "-Clink-arg=-Wl,--build-id"]);
}

fn check_batches(source: &str, flags: &[&str]) {
    let folder = Folder::new();
    let program = folder.compile(source, "program", flags);
    let cache = IndexFolder::new(folder.path("cache"), 16 << 20);
    let options = ImageOptions { cache: Some(cache.clone()), ..folder.options() };
    let cached = |addresses: &[SymbolAddr]| Image::open(&program, &options).unwrap().resolve(addresses);
    let addresses = text_addresses(&program);
    let bare = folder.open(&program);
    for (first, step) in [(0, 997), (500, 499), (100, 97), (3, 5), (1, 1)] {
        let batch: Vec<SymbolAddr> = addresses.iter().copied().skip(first).step_by(step).collect();
        assert_eq!(cached(&batch), bare.resolve(&batch), "{first}");
    }
    cache.wait();
    let files: Vec<_> = std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let kept = SymbolIndex::open(&files[0], 16 << 20).unwrap();
    assert!(!kept.is_complete());
    let known = kept.resolve(&addresses).iter().filter(|answer| matches!(answer, Resolved::Frames(_))).count();
    assert_eq!(known, bare.resolve(&addresses).iter().filter(|answer| matches!(answer, Resolved::Frames(_))).count());
    // One that is broken is as good as none.
    std::fs::write(&files[0], b"procsyms").unwrap();
    assert_eq!(cached(&addresses), bare.resolve(&addresses));
}

/// By the rules of binutils, too.
#[test]
fn of_several_batches_as_binutils() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        check_batches_as_binutils("inline.c", &["-O2", "-g", version, "-Wl,--build-id"]);
        check_batches_as_binutils("inline.cpp", &["-O2", "-g", version, "-Wl,--build-id"]);
    }
    check_batches_as_binutils(
        "inline.rs",
        &["--edition=2024", "-Copt-level=0", "-Cdebuginfo=2", "-Clink-arg=-Wl,--build-id"],
    );
}

fn check_batches_as_binutils(source: &str, flags: &[&str]) {
    let folder = Folder::new();
    let program = folder.compile(source, "program", flags);
    let cache = IndexFolder::new(folder.path("cache"), 16 << 20);
    let options = ImageOptions { cache: Some(cache.clone()), ..folder.options() };
    let cached =
        |addresses: &[SymbolAddr], detail| look_up(&Image::open(&program, &options).unwrap(), addresses, detail).frames;
    let bare = |addresses: &[SymbolAddr], detail| look_up(&folder.open(&program), addresses, detail).frames;
    let addresses = text_addresses(&program);
    for (first, step) in [(0, 997), (500, 499), (100, 97), (3, 5), (1, 1)] {
        let batch: Vec<SymbolAddr> = addresses.iter().copied().skip(first).step_by(step).collect();
        for detail in [Detail::Names, Detail::NamesAndPlaces] {
            assert!(cached(&batch, detail) == bare(&batch, detail), "{source} {first} {detail:?}");
        }
    }
    cache.wait();
    let files: Vec<_> = std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let kept = std::fs::read(&files[0]).unwrap();
    SymbolIndex::from_bytes(kept.clone()).unwrap().verify().unwrap();
    // A broken one is rebuilt.
    let few: Vec<SymbolAddr> = addresses.iter().copied().step_by(61).collect();
    let expected = bare(&few, Detail::Names);
    for place in (0..kept.len()).step_by(kept.len() / 16) {
        let mut changed = kept.clone();
        changed[place] ^= 0x41;
        for broken in [&kept[..place], &changed] {
            std::fs::write(&files[0], broken).unwrap();
            assert!(cached(&few, Detail::Names) == expected, "{source} {place}");
            cache.wait();
        }
    }
    SymbolIndex::from_bytes(std::fs::read(&files[0]).unwrap()).unwrap().verify().unwrap();
}

/// A whole index with wrong contents may return wrong names, but nothing worse.
#[test]
fn of_another_file_by_the_same_name() {
    let folder = Folder::new();
    let cache = IndexFolder::new(folder.path("cache"), 16 << 20);
    let options = ImageOptions { cache: Some(cache.clone()), ..folder.options() };
    let kept = |source: &str| {
        let program = folder.compile(source, source, &["-O2", "-g", "-Wl,--build-id=0x0123456789abcdef"]);
        let addresses: Vec<SymbolAddr> = text_addresses(&program).into_iter().step_by(3).collect();
        let frames = look_up(&Image::open(&program, &options).unwrap(), &addresses, Detail::Names).frames;
        assert_eq!(frames.len(), addresses.len());
        cache.wait();
        let mut files = std::fs::read_dir(cache.path()).unwrap();
        (files.next().unwrap().unwrap().path(), program, addresses)
    };
    let (file, ..) = kept("inline.c");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let (file, program, addresses) = kept("inline.cpp");
    std::fs::write(&file, bytes).unwrap();
    let image = Image::open(&program, &options).unwrap();
    assert_eq!(look_up(&image, &addresses, Detail::Names).frames.len(), addresses.len());
}

/// Every truncated or changed index is refused or returns answers.
#[test]
fn broken_ones_do_not_panic() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &["-O2", "-g"]);
    let bytes = SymbolIndex::build(&folder.open(&program)).unwrap();
    let addresses: Vec<SymbolAddr> = text_addresses(&program).into_iter().step_by(11).collect();
    let exercise = |bytes: Vec<u8>| {
        let length = bytes.len();
        match SymbolIndex::from_bytes(bytes) {
            Ok(index) => {
                assert_eq!(index.resolve(&addresses).len(), addresses.len());
                index.verify().is_ok()
            }
            Err(error) => {
                assert!(!error.to_string().is_empty(), "{length}");
                false
            }
        }
    };
    for length in (0..bytes.len()).step_by(7) {
        assert!(!exercise(bytes[..length].to_vec()), "{length}");
    }
    for place in (0..bytes.len()).step_by(3) {
        let mut changed = bytes.clone();
        changed[place] ^= 0x41;
        assert!(!exercise(changed), "{place}");
    }
    assert!(exercise(bytes));
}

/// Several processes may write and read; what is not used is removed first.
#[test]
fn a_folder_keeps_its_bound() {
    let folder = Folder::new();
    let cache = IndexFolder::new(folder.path("cache"), 1000);
    let id = |number: u8| BuildId::new(&[number; 20]).unwrap();
    let count = || std::fs::read_dir(cache.path()).unwrap().count();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| cache.store(&id(0), &[0; 300]).unwrap()));
        }
    });
    assert_eq!(count(), 1);
    assert!(cache.find(&id(0)).is_none(), "it is no index");
    let used_before = |number: u8, seconds: u64| {
        let file = std::fs::File::open(cache.path().join(format!("{}.procsyms", id(number)))).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(seconds)).unwrap();
    };
    used_before(0, 100);
    for number in 1..=3 {
        cache.store(&id(number), &[0; 300]).unwrap();
        used_before(number, 100 - u64::from(number));
    }
    assert_eq!(count(), 3);
    assert!(!cache.path().join(format!("{}.procsyms", id(0))).exists());
}
