//! Random call frame programs, on both architectures: the rows equal gimli's.

use crate::rows::compare;
use procprof_unwind::{Architecture, Section, Source, Table};
use proptest::prelude::*;

const CODE: u64 = 0x10_0000;
const SECTION: u64 = 0x40_0000;

/// One instruction's bytes; registers are drawn from those that matter and a few that do not.
fn instruction() -> impl Strategy<Value = Vec<u8>> {
    let register = || prop::sample::select(vec![3_u8, 6, 7, 16, 29, 30, 31]);
    let number = || prop::sample::select(vec![0_u8, 1, 2, 3, 5, 16, 24, 100]);
    let signed = || prop::sample::select(vec![0_u8, 2, 4, 0x7e, 0x7c, 0x70]);
    let block = || {
        prop::sample::select(vec![
            vec![2, 0x76, 0],
            vec![3, 0x77, 0x38, 6],
            vec![3, 0x76, 0x78, 6],
            vec![5, 0x77, 8, 6, 0x23, 8],
            vec![1, 0x50],
            vec![11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22],
        ])
    };
    prop_oneof![
        4 => (1_u8..20).prop_map(|delta| vec![0x40 | delta]),
        4 => (register(), number()).prop_map(|(register, offset)| vec![0x80 | register, offset]),
        2 => register().prop_map(|register| vec![0xc0 | register]),
        1 => (prop::sample::select(vec![2_u8]), 0_u8..90).prop_map(|(code, delta)| vec![code, delta]),
        1 => (0_u8..90).prop_map(|delta| vec![3, delta, 0]),
        1 => (0_u8..90).prop_map(|delta| vec![4, delta, 0, 0, 0]),
        2 => (prop::sample::select(vec![5_u8, 0x0c, 0x14]), register(), number()).prop_map(|(code, a, b)| vec![code, a, b]),
        2 => (prop::sample::select(vec![0x11_u8, 0x12, 0x15]), register(), signed()).prop_map(|(code, a, b)| vec![code, a, b]),
        2 => (prop::sample::select(vec![6_u8, 7, 8, 0x0d]), register()).prop_map(|(code, register)| vec![code, register]),
        1 => (register(), register()).prop_map(|(a, b)| vec![9, a, b]),
        2 => prop::sample::select(vec![vec![0_u8], vec![0x0a], vec![0x0b], vec![0x2e, 16]]),
        3 => number().prop_map(|offset| vec![0x0e, offset]),
        1 => signed().prop_map(|offset| vec![0x13, offset]),
        1 => block().prop_map(|block| [vec![0x0f], block].concat()),
        1 => (prop::sample::select(vec![0x10_u8, 0x16]), register(), block()).prop_map(|(code, r, block)| [vec![code, r], block].concat()),
    ]
}

/// An `.eh_frame` of one CIE and these functions, each of 256 bytes, one after another.
fn section(architecture: Architecture, functions: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let cie = match architecture {
        Architecture::X86_64 => vec![1, b'z', b'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1],
        Architecture::Aarch64 => vec![1, b'z', b'R', 0, 4, 0x78, 30, 1, 0, 0x0c, 31, 0],
    };
    let mut bytes = entry(0, &cie);
    for (number, instructions) in functions.iter().enumerate() {
        let start = CODE + 256 * number as u64;
        let body =
            [start.to_le_bytes().to_vec(), 256_u64.to_le_bytes().to_vec(), vec![0], instructions.concat()].concat();
        let distance = bytes.len() as u32 + 4;
        bytes.extend(entry(distance, &body));
    }
    bytes.extend([0; 4]);
    bytes
}

fn entry(id: u32, body: &[u8]) -> Vec<u8> {
    let mut body = [&id.to_le_bytes(), body].concat();
    body.resize(body.len().next_multiple_of(8) + 4, 0);
    [&(body.len() as u32).to_le_bytes(), &*body].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_equal_gimlis(functions in prop::collection::vec(prop::collection::vec(instruction(), 0..24), 1..12)) {
        for architecture in [Architecture::X86_64, Architecture::Aarch64] {
            let bytes = section(architecture, &functions);
            let source = Source::new(architecture, Section { bytes: &bytes, address: SECTION }, Section::default());
            let table = Table::new(CODE..CODE + 0x10_0000);
            table.compile(&source, table.range());
            compare(&bytes, SECTION, &table, architecture);
        }
    }
}
