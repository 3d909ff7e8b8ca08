//! Fits of segments as linkers lay them out, and as `objcopy --only-keep-debug` leaves them.

use procprof_profile::Addr;

use super::*;

fn segment(offset: u64, file_bytes: u64, address: u64, memory_bytes: u64, executable: bool) -> Segment {
    Segment { offset, file_bytes, address, memory_bytes, executable }
}

fn mapping(start: u64, limit: u64, offset: u64) -> Mapping {
    Mapping { start: Addr(start), limit: Addr(limit), file_offset: FileOffset(offset), ..Mapping::default() }
}

/// The address in the image of the byte `distance` behind the mapping's start, if it fits.
fn found(segments: &[Segment], mapping: Mapping, distance: u64) -> Option<u64> {
    Fit::find(segments, &[&mapping])?.symbol_addr(mapping.file_offset, distance).map(|address| address.0)
}

/// GNU ld, linked to fixed addresses: a program and its debug file.
fn gnu() -> [[Segment; 2]; 2] {
    [
        [segment(0, 0x3570, 0x40_0000, 0x3570, false), segment(0x4000, 0x51ad, 0x40_4000, 0x51ad, true)],
        [segment(0, 0x378, 0x40_0000, 0x3570, false), segment(0, 0, 0x40_4000, 0x51ad, true)],
    ]
}

/// LLD, position independent: a library and its debug file.
fn lld() -> [[Segment; 2]; 2] {
    [
        [segment(0, 0x36d0, 0, 0x36d0, false), segment(0x36d0, 0x2100, 0x46d0, 0x2100, true)],
        [segment(0, 0x40, 0, 0x36d0, false), segment(0x6d0, 0, 0x46d0, 0x2100, true)],
    ]
}

#[test]
fn code_is_found_where_it_was_mapped() {
    for segments in gnu() {
        assert_eq!(found(&segments, mapping(0x40_4000, 0x40_a000, 0x4000), 0x123), Some(0x40_4123));
        assert_eq!(
            found(&segments, mapping(0x40_0000, 0x40_a000, 0), 0x4123),
            Some(0x40_4123),
            "widened to the file's beginning"
        );
        assert_eq!(found(&segments, mapping(0x40_0000, 0x40_a000, 0), 0x123), None, "that is not code");
        assert_eq!(found(&segments, mapping(0x40_4000, 0x40_a000, 0x4000), 0x5fff), None, "behind the code");
    }
    for segments in lld() {
        assert_eq!(found(&segments, mapping(0x7f00_0000_4000, 0x7f00_0000_7000, 0x3000), 0x700), Some(0x4700));
        assert_eq!(found(&segments, mapping(0x7f00_0000_1000, 0x7f00_0000_7000, 0), 0x3700), Some(0x4700));
    }
    // All in one segment, of which objcopy keeps the headers.
    for file_bytes in [0x1918, 0x308] {
        let segments = [segment(0, file_bytes, 0, 0x1918, true), segment(0x1dd0, 0, 0x2dd0, 0x268, false)];
        assert_eq!(found(&segments, mapping(0x5500_0000_0000, 0x5500_0000_2000, 0), 0x1900), Some(0x1900));
    }
    let with_big_pages = [segment(0, 0x3570, 0, 0x3570, false), segment(0x1_0000, 0x51ad, 0x1_0000, 0x51ad, true)];
    assert_eq!(found(&with_big_pages, mapping(0x7f00_0001_0000, 0x7f00_0002_0000, 0x1_0000), 0x10), Some(0x1_0010));
}

#[test]
fn code_of_another_length_or_place_does_not_fit() {
    for segments in gnu() {
        for (start, limit, offset) in [
            (0x40_4000, 0x40_9000, 0x4000),
            (0x40_4000, 0x40_b000, 0x4000),
            (0x40_4000, 0x40_a000, 0x5000),
            (0x40_4000, 0x40_a000, 0x2000),
            (0x40_0000, 0x40_9000, 0),
            (0x40_0000, 0x40_b000, 0),
            (0x40_4000, 0, 0x4000),
            (0x40_4100, 0x40_a100, 0x4000),
            (u64::MAX - 0xfff, u64::MAX, u64::MAX),
        ] {
            assert_eq!(found(&segments, mapping(start, limit, offset), 0), None, "{start:x} {limit:x} {offset:x}");
        }
    }
    let segments = gnu()[0];
    let (fits, other) = (mapping(0x40_4000, 0x40_a000, 0x4000), mapping(0x50_4000, 0x50_b000, 0x4000));
    assert!(
        Fit::find(&segments, &[&fits]).is_some()
            && Fit::find(&segments, &[&fits, &other]).is_none()
            && Fit::find(&segments, &[]).is_none()
    );
    let twice = [segment(0x1000, 0x800, 0x1000, 0x800, true), segment(0x1800, 0x700, 0x2800, 0x700, true)];
    assert_eq!(found(&twice, mapping(0x7000, 0x8000, 0x1000), 0), None, "two segments would fit");
    let hostile = [segment(u64::MAX, u64::MAX, u64::MAX, u64::MAX, true), segment(0, 0, u64::MAX - 1, u64::MAX, true)];
    assert_eq!(found(&hostile, mapping(0, u64::MAX - 0xfff, 0), 0), None);
}

#[test]
fn debug_files_name_their_binary() {
    for name in ["be", "be.debug", "be.debuginfo", "be.debuginfo.gz", "be.debug.xz", "be.zst"] {
        assert_eq!(binary_name(name), "be", "{name}");
    }
    assert_eq!(binary_name("libx.so.6.debug"), "libx.so.6");
}
