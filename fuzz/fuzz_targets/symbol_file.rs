//! Any bytes as an ELF file with debug information: names for addresses in both grammars, and an index that says the same.
//!
//! `cargo +nightly fuzz run symbol_file fuzz/corpus/symbol_file` wants small programs in the corpus: `cc -g -nostdlib -shared`.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use procprof_profile::SymbolAddr;
use procprof_symbolize::{Image, ImageOptions, SymbolIndex, binutils};

fuzz_target!(|bytes: &[u8]| {
    if !bytes.starts_with(b"\x7fELF") {
        return;
    }
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(bytes).expect("a temporary file can be written");
    let options = ImageOptions { debug_dirs: Vec::new(), decompressed_bytes_max: 16 << 20, ..ImageOptions::default() };
    let Ok(image) = Image::open(file.path(), &options) else {
        return;
    };
    let addresses: Vec<SymbolAddr> = (0..256).map(|step| SymbolAddr(0x1000 + step * 13)).collect();
    assert_eq!(image.resolve(&addresses).len(), addresses.len());
    assert_eq!(binutils::addr2line(&image, &addresses).len(), addresses.len());
    let _ = binutils::nm_around(&image, &addresses);
    if let Ok(index) = SymbolIndex::build(&image) {
        let index = SymbolIndex::from_bytes(index).expect("an index made here can be read");
        index.verify().expect("an index made here is whole");
        assert_eq!(index.resolve(&addresses).len(), addresses.len());
    }
});
