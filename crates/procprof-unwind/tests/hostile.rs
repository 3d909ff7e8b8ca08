//! Broken sections: cut, changed, or noise. Nothing panics, and work stays bounded.

use crate::modules::{Module, gcc_file};
use procprof_unwind::{Architecture, Rule, Section, Source, Table};
use proptest::prelude::*;
use std::sync::LazyLock;

/// A few functions of a real library with their search table.
static SAMPLE: LazyLock<Module> = LazyLock::new(|| Module::read(&gcc_file("libgcc_s.so.1")));

fn read_all(eh_frame: &[u8], eh_frame_hdr: &[u8]) {
    for architecture in [Architecture::X86_64, Architecture::Aarch64] {
        let (frames, header) = (SAMPLE.eh_frame.0, SAMPLE.eh_frame_hdr.0);
        let eh_frame = Section { bytes: eh_frame, address: frames };
        for header in [Section { bytes: eh_frame_hdr, address: header }, Section::default()] {
            let source = Source::new(architecture, eh_frame, header);
            let table = Table::new(SAMPLE.span.clone());
            let compiled = table.compile(&source, SAMPLE.span.clone());
            assert!(compiled.rows <= compiled.regions << 16);
            for address in SAMPLE.span.clone().step_by(97) {
                let _ = table.rule(address).rule();
            }
        }
    }
}

#[test]
fn a_section_may_end_anywhere() {
    let (frames, header) = (&SAMPLE.eh_frame.1, &SAMPLE.eh_frame_hdr.1);
    for length in (0..300).chain((300..frames.len()).step_by(331)) {
        read_all(&frames[..length], header);
    }
    for length in (0..64).chain((64..header.len()).step_by(97)) {
        read_all(frames, &header[..length]);
    }
}

#[test]
fn an_entry_that_names_itself_over_and_over_is_read_within_limits() {
    // A header whose entries all name the same function, at rising addresses: none but one is that function's.
    let source = SAMPLE.source();
    let (first, _) = source.span().unwrap();
    let mut header = SAMPLE.eh_frame_hdr.1[..12].to_vec();
    header[8..12].copy_from_slice(&200_000_u32.to_le_bytes());
    let fde = SAMPLE.eh_frame_hdr.1[16..20].to_vec();
    for number in 0..200_000_u32 {
        let relative = (first as u32).wrapping_sub(SAMPLE.eh_frame_hdr.0 as u32).wrapping_add(number / 4);
        header.extend(relative.to_le_bytes());
        header.extend(&fde);
    }
    let header = Section { bytes: &header, address: SAMPLE.eh_frame_hdr.0 };
    let source =
        Source::new(Architecture::X86_64, Section { bytes: &SAMPLE.eh_frame.1, address: SAMPLE.eh_frame.0 }, header);
    let table = Table::new(SAMPLE.span.clone());
    let compiled = table.compile(&source, SAMPLE.span.clone());
    assert!(compiled.broken > 1000 && compiled.functions < 100_000, "{compiled:?}");
    assert!(matches!(table.rule(first).rule(), Rule::Frame { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn changed_bytes_do_no_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200)) {
        let (mut frames, mut header) = (SAMPLE.eh_frame.1.clone(), SAMPLE.eh_frame_hdr.1.clone());
        for (place, byte) in changes {
            let place = place.index(frames.len() + header.len());
            match frames.get_mut(place) {
                Some(target) => *target = byte,
                None => header[place - frames.len()] = byte,
            }
        }
        read_all(&frames, &header);
    }

    #[test]
    fn noise_does_no_harm(frames in prop::collection::vec(any::<u8>(), 0..3000), header in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&frames, &header);
    }
}
