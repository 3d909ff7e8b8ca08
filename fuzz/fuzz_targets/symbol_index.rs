//! Any bytes as a symbol index, and as the records, guides, names and symbols of one whose head and checksums are
//! right: an answer for each address or an error.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use procprof_fuzz::{Bound, Meter};
use procprof_profile::{FileOffset, SymbolAddr};
use procprof_symbolize::SymbolIndex;

thread_local! {
    static METER: RefCell<Meter> = const { RefCell::new(Meter::new(Bound { multiple: 2560, free: 1 << 20 })) };
}

fuzz_target!(|bytes: &[u8]| {
    exercise(bytes.to_vec());
    exercise(with_part(0x1000, 0x10000, bytes));
    // Guides, names, symbols.
    for begin in 0..3 {
        exercise(with_part(begin, 0, bytes));
    }
});

fn exercise(bytes: Vec<u8>) {
    METER.with_borrow_mut(|meter| meter.hold(bytes.len(), || look_up(bytes)));
}

fn look_up(bytes: Vec<u8>) {
    let Ok(index) = SymbolIndex::from_bytes(bytes) else {
        return;
    };
    let _ = index.verify();
    let addresses: Vec<SymbolAddr> =
        (0..64).map(|step| SymbolAddr(0x1000 + step * step * 7)).chain([SymbolAddr(u64::MAX)]).collect();
    assert_eq!(index.resolve(&addresses).len(), addresses.len());
    for offset in [0, 0x1000, u64::MAX] {
        let _ = index.symbol_addr_in(FileOffset(offset), offset);
    }
}

/// An index with one part, which covers `covered` bytes from `begin` and is not compressed: the layout is in
/// `procprof_symbolize::index`.
fn with_part(begin: u64, covered: u64, part: &[u8]) -> Vec<u8> {
    let mut head = vec![0, 0];
    head.extend_from_slice(&[0; 16]);
    head.extend_from_slice(&[0, 0, 1]);
    for number in [begin, covered, 0, part.len() as u64, part.len() as u64] {
        leb(&mut head, number);
    }
    head.extend_from_slice(&crc32fast::hash(part).to_le_bytes());
    let mut file = b"procsyms".to_vec();
    for number in [1, head.len() as u32, crc32fast::hash(&head)] {
        file.extend_from_slice(&number.to_le_bytes());
    }
    file.extend_from_slice(&head);
    file.extend_from_slice(part);
    file
}

fn leb(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
