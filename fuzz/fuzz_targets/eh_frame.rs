//! Any bytes as `.eh_frame` and `.eh_frame_hdr`, on both architectures: compiled within limits, looked up everywhere,
//! stepped through.
//!
//! The first two bytes are the length of the header.

#![no_main]

use libfuzzer_sys::fuzz_target;
use procprof_unwind::{Architecture, Cache, Code, Frame, Section, Source, Space, StackCopy, Table, Walker};
use std::sync::Arc;

const CODE: u64 = 0x1000;
const CODE_BYTES: u64 = 3 << 16;
const HEADER: u64 = 0x10_0000;
const EH_FRAME: u64 = 0x20_0000;
const STACK: u64 = 0x7000_0000;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, bytes)) = bytes.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(bytes.len());
    let (header, eh_frame) = bytes.split_at(length);
    for architecture in [Architecture::X86_64, Architecture::Aarch64] {
        let eh_frame = Section { bytes: eh_frame, address: EH_FRAME };
        let source = Source::new(architecture, eh_frame, Section { bytes: header, address: HEADER });
        let table = Arc::new(Table::new(CODE..CODE + CODE_BYTES));
        let compiled = table.compile(&source, table.range());
        assert!(compiled.rows <= compiled.regions << 16);
        let space = Space::new(vec![Code { range: CODE..CODE + CODE_BYTES, bias: 0, table: Some(table) }], 1);
        let walker = Walker { architecture, space: &space, cache: &Cache::new() };
        for pc in (CODE..CODE + CODE_BYTES).step_by(61) {
            let frame = Frame { pc, sp: STACK, fp: STACK + 64, lr: CODE + 7, is_return: false };
            let mut depth = 0;
            walker.walk(
                frame,
                |_| Some(STACK + 16),
                &mut StackCopy { start: STACK, bytes },
                |_| {
                    depth += 1;
                    depth < 100
                },
            );
        }
    }
});
