//! Every version of a symbol index is read whole.

use std::path::Path;

use procprof_profile::{FileOffset, SymbolAddr};
use procprof_symbolize::SymbolIndex;

use crate::law::{Contents, Mark, Row, check, line};
use crate::programs::{Folder, source, text_addresses};

#[test]
fn of_symbol_indexes() {
    let mark = Mark { bytes: |version| version.to_le_bytes().to_vec(), ..Mark::new("index.procsyms", b"procsyms") };
    check(&Row { name: "symbol-index", version: 1, make, read, mark: Some(mark) });
}

fn make(folder: &Path) {
    let programs = Folder::new();
    let here = |folder: &Path| format!("-ffile-prefix-map={}=/src", folder.canonicalize().unwrap().display());
    let maps = [here(source("inline.c").parent().unwrap()), here(Path::new("."))];
    let flags = ["-O2", "-g", "-gdwarf-5", "-Wl,--build-id=0x0123abcd", &maps[0], &maps[1]];
    let program = programs.compile("inline.c", "program", &flags);
    let index = SymbolIndex::build(&programs.open(&program)).unwrap();
    std::fs::write(folder.join("index.procsyms"), index).unwrap();
    // The addresses that are looked up, since the program is not kept.
    let addresses = text_addresses(&program);
    let ends = [addresses[0], addresses[addresses.len() - 1]].map(|address| address.0.to_string());
    std::fs::write(folder.join("addresses"), ends.join(" ")).unwrap();
}

fn read(folder: &Path) -> Contents {
    let file = folder.join("index.procsyms");
    // Callers name the file.
    let index = SymbolIndex::open(&file, u64::MAX).map_err(|error| format!("{}: {error}", file.display()))?;
    index.verify()?;
    let mut text = String::new();
    line(&mut text, (index.build_id(), index.layout_key(), index.file_name(), index.is_complete(), index.bytes()));
    line(&mut text, [0, 0x1000, 0x2000].map(|offset| index.symbol_addr(FileOffset(offset))));
    let ends = std::fs::read_to_string(folder.join("addresses")).unwrap();
    let (first, last) = ends.split_once(' ').unwrap();
    let addresses: Vec<SymbolAddr> = (first.parse().unwrap()..=last.parse::<u64>().unwrap()).map(SymbolAddr).collect();
    let mut before = None;
    for (address, resolved) in addresses.iter().zip(index.resolve(&addresses)) {
        // Neighbours mostly have the same frames.
        if before.as_ref() != Some(&resolved) {
            line(&mut text, (address, &resolved));
            before = Some(resolved);
        }
    }
    Ok(text)
}
