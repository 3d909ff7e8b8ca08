//! Files cut short, changed at random and made to mislead: an answer or an error, never a panic.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection};
use procprof_profile::{FileOffset, SymbolAddr};
use procprof_symbolize::{Error, GoTable, Image, ImageOptions, MemoryBudget, Reason, Resolved, SplitUnits};

use crate::programs::{Folder, text_addresses};

/// Opens the bytes as an image and looks up all addresses.
fn exercise(path: &Path, bytes: &[u8], addresses: &[SymbolAddr], options: &ImageOptions) {
    fs::write(path, bytes).unwrap();
    let Ok(image) = Image::open(path, options) else {
        return;
    };
    assert_eq!(image.resolve(addresses).len(), addresses.len());
    for offset in [0, 0x1000, u64::MAX] {
        let _ = image.symbol_addr(FileOffset(offset));
    }
}

/// A small xorshift generator, the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn small_program(folder: &Folder, flags: &[&str]) -> (Vec<u8>, Vec<SymbolAddr>) {
    let program = folder.compile("inline.c", "small", flags);
    let addresses = text_addresses(&program).into_iter().step_by(7).collect();
    (fs::read(program).unwrap(), addresses)
}

#[test]
fn every_length() {
    let folder = Folder::new();
    let (bytes, addresses) = small_program(&folder, &["-O2", "-g"]);
    let path = folder.path("cut");
    for length in (0..bytes.len()).step_by(61) {
        exercise(&path, &bytes[..length], &addresses, &folder.options());
    }
}

#[test]
fn changed_headers_and_debug_sections() {
    let folder = Folder::new();
    for (seed, flags) in
        [(1, ["-O2", "-g", "-gdwarf-5"]), (2, ["-O2", "-g", "-gdwarf-4"]), (3, ["-O2", "-g", "-gz=zlib"])]
    {
        let (bytes, addresses) = small_program(&folder, &flags);
        let targets = interesting_places(&bytes);
        let path = folder.path("changed");
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        for _ in 0..700 {
            let mut changed = bytes.clone();
            for _ in 0..=random.below(4) {
                let place = targets[random.below(targets.len())];
                changed[place] = [0, 1, 0x7f, 0x80, 0xff, random.next() as u8][random.below(6)];
            }
            exercise(&path, &changed, &addresses, &folder.options());
        }
    }
}

/// The bytes of the headers and of every section that is parsed.
fn interesting_places(bytes: &[u8]) -> Vec<usize> {
    let object = object::File::parse(bytes).unwrap();
    let mut places: Vec<usize> = (0..1024).collect();
    let parsed = object.sections().filter(|section| {
        let name = section.name().unwrap();
        name.starts_with(".debug") || name.starts_with(".note") || name.contains("sym") || name.contains("str")
    });
    for (start, size) in parsed.filter_map(|section| section.file_range()) {
        places.extend(start as usize..(start + size) as usize);
    }
    // The section headers are at the end.
    places.extend(bytes.len().saturating_sub(64 * 40)..bytes.len());
    places
}

#[test]
fn changed_files_of_split_off_units() {
    let folder = Folder::new();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let program = crate::matrix::split(&folder, "gcc", "inline.c", &["-O2", "-g", version, "-gsplit-dwarf"]);
        let addresses: Vec<SymbolAddr> = text_addresses(&program).into_iter().step_by(7).collect();
        let [file] = crate::matrix::dwo_files(&folder).try_into().unwrap();
        let bytes = fs::read(&file).unwrap();
        let targets = interesting_places(&bytes);
        let options = ImageOptions { split_units: SplitUnits::Anywhere, ..folder.options() };
        let mut random = Random(0x0bad_cafe);
        for round in 0..400 {
            let mut changed = bytes.clone();
            for _ in 0..=random.below(4) {
                changed[targets[random.below(targets.len())]] =
                    [0, 1, 0x7f, 0x80, 0xff, random.next() as u8][random.below(6)];
            }
            fs::write(&file, if round % 4 == 0 { &changed[..random.below(changed.len())] } else { &changed }).unwrap();
            assert_eq!(Image::open(&program, &options).unwrap().resolve(&addresses).len(), addresses.len());
        }
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn changed_table_of_a_go_program() {
    let folder = Folder::new();
    let program = crate::stripped::build_go(&folder, "go");
    let addresses: Vec<SymbolAddr> = text_addresses(&program).into_iter().step_by(997).collect();
    let bytes = fs::read(&program).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let (start, size) = object.section_by_name(".gopclntab").unwrap().file_range().unwrap();
    let path = folder.path("changed");
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..80 {
        let mut changed = bytes.clone();
        changed[start as usize + 6 + random.below(66)] = random.next() as u8;
        for _ in 0..2000 {
            changed[start as usize + 80 + random.below(size as usize - 80)] = random.next() as u8;
        }
        if let Some(table) = object::File::parse(&*changed).ok().and_then(|object| GoTable::read(&object)) {
            let sizes: usize = table.functions().map(|function| function.frame_sizes.len()).sum();
            assert!(sizes <= size as usize);
        }
        exercise(&path, &changed, &addresses, &folder.options());
    }
}

#[test]
fn sections_that_claim_too_much_are_refused() {
    let folder = Folder::new();
    let (bytes, addresses) = small_program(&folder, &["-O2", "-g", "-gz=zlib"]);
    let object = object::File::parse(&*bytes).unwrap();
    let (start, _) = object.section_by_name(".debug_info").unwrap().file_range().unwrap();
    let mut changed = bytes.clone();
    // `ch_size` of the compression header.
    changed[start as usize + 8..start as usize + 16].copy_from_slice(&(1u64 << 40).to_le_bytes());
    exercise(&folder.path("claims"), &changed, &addresses, &folder.options());
    let little = ImageOptions { decompressed_bytes_max: 100, ..folder.options() };
    exercise(&folder.path("little"), &bytes, &addresses, &little);
}

/// With less memory fewer addresses have lines, none has other ones, and each that has none is counted.
#[test]
fn what_takes_more_memory_than_there_is_stays_without_lines() {
    let has_lines = |answer: &Resolved| matches!(answer, Resolved::Frames(frames) if frames[0].line.is_some());
    for flags in [&["-O2", "-g"][..], &["-O2", "-g", "-gz=zlib"]] {
        let folder = Folder::new();
        let (bytes, addresses) = small_program(&folder, flags);
        let path = folder.path("bounded");
        fs::write(&path, &bytes).unwrap();
        let all = Image::open(&path, &folder.options()).unwrap().resolve(&addresses);
        let mut before = 0;
        for bits in 0..=24 {
            let memory = MemoryBudget::new(1 << bits);
            let options = ImageOptions { memory: Some(memory.clone()), ..folder.options() };
            let bounded = Image::open(&path, &options).unwrap().resolve(&addresses);
            for (whole, answer) in all.iter().zip(&bounded) {
                let is_left_out = *answer == Resolved::Unknown(Reason::OverMemory) || !has_lines(answer);
                assert!(answer == whole || is_left_out, "{answer:?} in place of {whole:?} with 2^{bits} bytes");
            }
            let named = bounded.iter().filter(|answer| has_lines(answer)).count();
            let lacking =
                all.iter().zip(&bounded).filter(|(whole, answer)| has_lines(whole) && !has_lines(answer)).count()
                    as u64;
            assert!(
                named >= before && memory.left_out() >= lacking,
                "{named} after {before}, {} counted of {lacking}",
                memory.left_out()
            );
            before = named;
            if bits == 0 {
                assert_eq!((named, memory.left_out()), (0, addresses.len() as u64));
            }
        }
        assert_eq!(before, all.iter().filter(|answer| has_lines(answer)).count(), "16 MiB are enough");
    }
}

#[test]
fn what_is_no_image_is_an_error() {
    let folder = Folder::new();
    let path = folder.path("file");
    let error = |bytes: &[u8], options: &ImageOptions| {
        fs::write(&path, bytes).unwrap();
        Image::open(&path, options).unwrap_err()
    };
    assert!(matches!(error(b"", &folder.options()), Error::NotElf { .. }));
    assert!(matches!(error(b"#!/bin/sh\n", &folder.options()), Error::NotElf { .. }));
    assert!(matches!(error(b"\x7fELF", &folder.options()), Error::Damaged { .. }));
    let small = ImageOptions { file_bytes_max: 8, ..folder.options() };
    assert!(matches!(error(b"\x7fELF56789", &small), Error::TooLarge { bytes: 9, limit: 8, .. }));
    assert!(matches!(Image::open(&folder.path("none"), &small), Err(Error::Io { .. })));
    assert!(matches!(Image::open(Path::new("/dev/zero"), &small), Err(Error::Io { .. })));
}
