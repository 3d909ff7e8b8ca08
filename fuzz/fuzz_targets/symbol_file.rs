//! Any bytes as a file with debug information: names for addresses in both grammars, and an index with the same names.
//! `FUZZ_PART` is the kind of the bytes:
//!
//! | part | the bytes |
//! |---|---|
//! | `file`, or none | an ELF file |
//! | `go_table`, `mini_debug` | its section `.gopclntab`; what is packed in its `.gnu_debugdata`, and that itself |
//! | `debug_file`, `shared`, `package`, `split` | how long the file is (u32, little endian), the file, and a second one that adds to it: `program.debug`, `common.debug` (dwz), `program.dwp`, `unit.dwo` |

#![no_main]

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use lzma_rust2::{XzOptions, XzWriter};
use object::write::Object;
use object::{Architecture, BinaryFormat, Endianness, SectionKind};
use procprof_fuzz::{Bound, Files, Meter, part};
use procprof_profile::SymbolAddr;
use procprof_symbolize::{Image, ImageOptions, SplitUnits, SymbolIndex, binutils};

const DECOMPRESSED_BYTES_MAX: u64 = 1 << 20;
const BOUND: Bound = Bound { multiple: 1024, free: 16 << 20 };

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::new());
}

#[derive(Clone, Copy)]
enum Part {
    File,
    Section(&'static str),
    Packed,
    Pair(&'static str),
}

struct State {
    part: Part,
    files: Files,
    meter: Meter,
    addresses: Vec<SymbolAddr>,
}

impl State {
    fn new() -> State {
        let part = match part().as_deref() {
            Some("file") | None => Part::File,
            Some("go_table") => Part::Section(".gopclntab"),
            Some("mini_debug") => Part::Packed,
            Some("debug_file") => Part::Pair("program.debug"),
            Some("shared") => Part::Pair("common.debug"),
            Some("package") => Part::Pair("program.dwp"),
            Some("split") => Part::Pair("unit.dwo"),
            Some(other) => panic!("no part {other:?}"),
        };
        let addresses = (0..128).map(|step| SymbolAddr(0x1000 + step * 9)).collect();
        State { part, files: Files::new(), meter: Meter::new(BOUND), addresses }
    }
}

fuzz_target!(|bytes: &[u8]| STATE.with_borrow_mut(|state| exercise(bytes, state)));

fn exercise(bytes: &[u8], state: &mut State) {
    match state.part {
        Part::File if bytes.starts_with(b"\x7fELF") => look_up(bytes, bytes.len(), state),
        Part::File => {}
        Part::Section(name) => look_up(&with_section(name, bytes), bytes.len(), state),
        Part::Packed => {
            let packed = packed(bytes);
            for section in [bytes, &packed] {
                look_up(&with_section(".gnu_debugdata", section), bytes.len(), state);
            }
        }
        Part::Pair(name) => {
            let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return };
            let Some((file, second)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else { return };
            if file.starts_with(b"\x7fELF") {
                state.files.write(name, second);
                look_up(file, bytes.len(), state);
            }
        }
    }
}

fn look_up(file: &[u8], input_bytes: usize, state: &mut State) {
    let path = state.files.write("program", file);
    let addresses = &state.addresses;
    state.meter.hold(input_bytes, || names(&path, addresses));
}

fn names(path: &Path, addresses: &[SymbolAddr]) {
    let options = ImageOptions {
        debug_dirs: Vec::new(),
        split_units: SplitUnits::Anywhere,
        decompressed_bytes_max: DECOMPRESSED_BYTES_MAX,
        ..ImageOptions::default()
    };
    let Ok(image) = Image::open(path, &options) else {
        return;
    };
    assert_eq!(image.resolve(addresses).len(), addresses.len());
    assert_eq!(binutils::addr2line(&image, addresses).len(), addresses.len());
    let _ = binutils::nm_around(&image, addresses);
    if let Ok(index) = SymbolIndex::build(&image) {
        let index = SymbolIndex::from_bytes(index).expect("an index made here can be read");
        index.verify().expect("an index made here is whole");
        assert_eq!(index.resolve(addresses).len(), addresses.len());
    }
}

/// A file with nothing but code and that section.
fn with_section(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut file = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = file.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
    file.append_section_data(text, &[0x90; 256], 16);
    let section = file.add_section(Vec::new(), name.as_bytes().to_vec(), SectionKind::ReadOnlyData);
    file.append_section_data(section, bytes, 1);
    file.write().expect("a file of two sections can be written")
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(0)).expect("the options are right");
    writer.write_all(bytes).expect("memory can be written");
    writer.finish().expect("memory can be written")
}
