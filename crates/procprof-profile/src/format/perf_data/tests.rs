use std::collections::BTreeMap;

use super::*;
use crate::format::fixtures::{bytes, check, check_hostile, decoded, error};
use crate::format::{decode, decode_events as decode_all, detect as detect_any};
use crate::perf_event::field;

/// What samples and periods of each event add up to.
fn totals(bytes: &[u8]) -> BTreeMap<String, (i64, i64)> {
    let all = decode_all(bytes, &Limits::default()).unwrap();
    all.into_iter().map(|decoded| (decoded.event, (decoded.profile.total(0), decoded.profile.total(1)))).collect()
}

fn fact(profile: &Profile, key: &str) -> String {
    profile.meta().more.get(key).cloned().unwrap_or_default()
}

#[test]
fn recordings_of_perf_are_read() {
    for name in ["chains.data", "copies.data", "packed.data", "pipe.data", "packed-pipe.data"] {
        let decoded = check(&format!("perf-data/{name}"), NAME);
        assert_eq!(fact(&decoded.profile, "architecture"), "x86_64", "{name}");
        assert!(fact(&decoded.profile, "command-line").contains(" record "), "{name}");
        assert!(decoded.profile.meta().profile_type.is_some(), "{name}");
    }
}

#[test]
fn each_event_has_a_profile() {
    let totals = totals(&bytes("perf-data/chains.data"));
    assert_eq!(totals.keys().collect::<Vec<_>>(), ["cpu-clock", "page-faults"]);
    let warnings = decoded(&bytes("perf-data/chains.data")).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("2 kinds of events")), "{warnings:?}");
}

#[test]
fn each_counter_of_a_group_is_an_event() {
    check("perf-data/grouped.data", NAME);
    // As `perf script -F event,period` shows it.
    let expected = [("cpu-clock", (3, 30_337_051)), ("page-faults", (1, 52))];
    let expected = expected.map(|(name, totals)| (name.to_owned(), totals));
    assert_eq!(totals(&bytes("perf-data/grouped.data")), BTreeMap::from(expected));
}

#[test]
fn copied_stacks_are_not_unwound_without_files() {
    let decoded = decoded(&bytes("perf-data/copies.data"));
    let stacks = fact(&decoded.profile, "stacks");
    assert_eq!(fact(&decoded.profile, "stacks-not-unwound"), stacks);
    assert!(decoded.warnings.iter().any(|warning| warning.contains("callers are missing")), "{:?}", decoded.warnings);
}

#[test]
fn packed_records_are_unpacked_within_limits() {
    let packed = bytes("perf-data/packed.data");
    assert_eq!(detect_any(&packed), Some(NAME));
    let limits = Limits { unpacked_bytes: packed.len() as u64, ..Limits::default() };
    let error = decode(&packed, &limits).unwrap_err().to_string();
    assert!(error.contains("the unpacked size in bytes passes the limit"), "{error}");
    for end in (0..packed.len()).step_by(7) {
        let _ = decode(&packed[..end], &Limits::default());
    }
    check_hostile(&packed);
}

/// Records packed as perf does, but by blocks of zstd that are not packed, in pieces.
fn packed(records: &[u8]) -> Vec<u8> {
    // A window of 1 MiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 10 << 3];
    let mut out = Vec::new();
    for (number, piece) in records.chunks(999).enumerate() {
        frame.extend(&((piece.len() as u32) << 3).to_le_bytes()[..3]);
        frame.extend(piece);
        match number % 2 {
            0 => out.extend(record(COMPRESSED[0], 0, &[], &frame)),
            _ => out.extend(record(COMPRESSED[1], 0, &[frame.len() as u64], &[&frame[..], &[0; 5]].concat())),
        }
        frame.clear();
    }
    out
}

/// The records of the kernel, and those of perf with what follows them.
fn parted(mut data: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut kernel, mut own) = (Vec::new(), Vec::new());
    while let Some(header) = crate::perf_event::Header::parse(data) {
        let (record, rest) = data.split_at(usize::from(header.size));
        if header.kind < 64 {
            kernel.extend(record)
        } else {
            own.extend(record)
        }
        data = rest;
    }
    (kernel, own)
}

#[test]
fn packed_records_of_pipes_are_unpacked() {
    let plain = bytes("perf-data/pipe.data");
    let (header, data) = plain.split_at(16);
    let (kernel, own) = parted(data);
    let pipe = [header, &own, &packed(&kernel)].concat();
    assert_eq!(decoded(&pipe).profile, decoded(&plain).profile);
    let cut = decoded(&pipe[..pipe.len() - 10]);
    assert!(cut.warnings.iter().any(|warning| warning.contains("no whole record")), "{:?}", cut.warnings);
    // Packed records may end within a record.
    let cut = decoded(&[header, &own, &packed(&kernel[..kernel.len() - 10])].concat());
    assert!(cut.warnings.iter().any(|warning| warning.contains("no whole record")), "{:?}", cut.warnings);
}

#[test]
fn the_files_of_a_folder_are_one_recording() {
    let whole = bytes("perf-data/chains.data");
    let word = |place: usize| u64::from_le_bytes(*whole[place..].first_chunk().unwrap()) as usize;
    let (start, size) = (word(40), word(48));
    let (kernel, own) = parted(&whole[start..][..size]);
    // `data` keeps the records of perf, and its features move to the front.
    let mut data = [&whole[..start], &own, &whole[start + size..]].concat();
    data[48..56].copy_from_slice(&(own.len() as u64).to_le_bytes());
    let features = (72..104).map(|byte| whole[byte].count_ones() as usize).sum::<usize>();
    for entry in data[start + own.len()..][..16 * features].chunks_exact_mut(16) {
        let offset = u64::from_le_bytes(*entry.first_chunk().unwrap()) - kernel.len() as u64;
        entry[..8].copy_from_slice(&offset.to_le_bytes());
    }
    assert!(error(&data).contains("no sample"));
    let middle = {
        let sizes = kernel.iter();
        let mut place = 0;
        while place < sizes.len() / 2 {
            place += usize::from(u16::from_le_bytes([kernel[place + 6], kernel[place + 7]]));
        }
        place
    };
    let (first, second) = kernel.split_at(middle);
    for others in [[second.to_vec(), first.to_vec()], [packed(first), packed(second)]] {
        let joined = join_folder(&data, &others, &Limits::default()).unwrap();
        assert_eq!(decoded(&joined).profile, decoded(&whole).profile);
        let small = Limits { unpacked_bytes: 1000, ..Limits::default() };
        assert!(join_folder(&data, &others, &small).unwrap_err().to_string().contains("passes the limit"));
    }
    assert!(join_folder(b"no recording", &[], &Limits::default()).is_err());
}

/// A file of one event with these fields, and its records.
fn file(sample_type: u64, records: &[&[u8]]) -> Vec<u8> {
    let data = records.concat();
    let attribute_bytes = 64 + 16;
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let start = 104 + attribute_bytes;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(words(&[104, attribute_bytes, 104, attribute_bytes, start, data.len() as u64, 0, 0, 0, 0, 0, 0]));
    // The task clock, each 1,000 ns, sample_id_all.
    bytes.extend(words(&[1 | 64 << 32, 1, 1000, sample_type, 0, 1 << 18, 0, 0, 0, 0]));
    bytes.extend(data);
    bytes
}

fn record(kind: u32, misc: u16, words: &[u64], text: &[u8]) -> Vec<u8> {
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain(text.iter().copied()).collect();
    let size = (body.len() + 8) as u16;
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), &body].concat()
}

const FIELDS: u64 = field::IP | field::TID | field::TIME;

/// A name, code at 0x1000, and a sample in it; the last word of each is its time.
fn named(time: u64, name: &[u8; 8]) -> Vec<u8> {
    let mut bytes = record(3, 1 << 13, &[7 | 7 << 32], name);
    bytes.extend([7_u64 | 7 << 32, time].iter().flat_map(|word| word.to_le_bytes()));
    let size = bytes.len() as u16;
    bytes[6..8].copy_from_slice(&size.to_le_bytes());
    bytes
}

fn mapped(time: u64, path: &[u8; 8]) -> Vec<u8> {
    let mut bytes = record(1, 2, &[7 | 7 << 32, 0x1000, 0x1000, 0], path);
    bytes.extend([7_u64 | 7 << 32, time].iter().flat_map(|word| word.to_le_bytes()));
    let size = bytes.len() as u16;
    bytes[6..8].copy_from_slice(&size.to_le_bytes());
    bytes
}

fn sampled(time: u64) -> Vec<u8> {
    record(9, 2, &[0x1234, 7 | 7 << 32, time], &[])
}

/// The file and process of each sample.
fn places(profile: &Profile) -> Vec<(String, String)> {
    let of_sample = |sample: crate::Sample<'_>| {
        let mapping = profile.location(sample.stack[0]).mapping;
        let file = mapping.map_or("", |id| profile.string(profile.mapping(id).filename)).to_owned();
        let label = sample.labels.iter().find_map(|label| match label.value {
            crate::LabelValue::Text(text) => Some(profile.string(text).to_owned()),
            crate::LabelValue::Number(..) => None,
        });
        (file, label.unwrap_or_default())
    };
    let mut places: Vec<_> = profile.samples().map(of_sample).collect();
    places.sort();
    places
}

#[test]
fn records_are_read_in_the_order_of_time() {
    // Two buffers, one behind the other: the program is executed between the samples.
    let bytes = file(
        FIELDS,
        &[
            &named(1, b"first\0\0\0"),
            &mapped(2, b"/a\0\0\0\0\0\0"),
            &sampled(3),
            &sampled(8),
            &named(5, b"second\0\0"),
            &mapped(6, b"/b\0\0\0\0\0\0"),
        ],
    );
    let decoded = decoded(&bytes);
    let expected = [("/a", "first"), ("/b", "second")].map(|(file, name)| (file.to_owned(), name.to_owned()));
    assert_eq!(places(&decoded.profile), expected);
    assert_eq!((decoded.profile.total(0), decoded.profile.total(1)), (2, 2000));
    assert_eq!(decoded.profile.duration().0, 5);
    for end in 0..bytes.len() {
        let _ = decode(&bytes[..end], &Limits::default());
    }
}

#[test]
fn what_is_cut_off_lost_or_broken_is_told() {
    let lost = {
        let mut bytes = record(2, 0, &[1, 5], &[]);
        bytes.extend([0_u64, 4].iter().flat_map(|word| word.to_le_bytes()));
        let size = bytes.len() as u16;
        bytes[6..8].copy_from_slice(&size.to_le_bytes());
        bytes
    };
    let short = record(9, 2, &[0x1234], &[]);
    let whole = file(FIELDS, &[&sampled(3), &lost, &short]);
    let decoded = decoded(&whole);
    assert_eq!(decoded.profile.meta().lost, Some(5));
    let warns = |decoded: &Decoded, text: &str| decoded.warnings.iter().any(|warning| warning.contains(text));
    assert!(warns(&decoded, "5 records were lost") && warns(&decoded, "1 records could not be read"));
    let cut = decode(&whole[..whole.len() - 20], &Limits::default()).unwrap();
    assert!(warns(&cut, "is cut off") && warns(&cut, "no whole record"), "{:?}", cut.warnings);
    assert!(error(&file(FIELDS, &[&lost])).contains("no sample"));
    let mut unfinished = whole.clone();
    unfinished[48..56].fill(0);
    assert!(warns(&super::super::decode(&unfinished, &Limits::default()).unwrap(), "was not ended properly"));
}

#[test]
fn a_crowd_of_forks_shares_the_code_of_its_origin() {
    // Each process would copy the 500 ranges of its origin when it maps one of its own.
    let trailer = |record: &mut Vec<u8>, time: u64| {
        record.extend([0_u64, time].iter().flat_map(|word| word.to_le_bytes()));
        let size = record.len() as u16;
        record[6..8].copy_from_slice(&size.to_le_bytes());
    };
    let mut records = Vec::new();
    for number in 0..500_u64 {
        let mut mapped = record(1, 2, &[1 | 1 << 32, number << 13, 0x1000, 0], b"/a\0\0\0\0\0\0");
        trailer(&mut mapped, 1);
        records.push(mapped);
    }
    for pid in 2..2000_u64 {
        let mut forked = record(7, 0, &[pid | 1 << 32, pid | 1 << 32, 2], &[]);
        trailer(&mut forked, 2);
        let mut mapped = record(1, 2, &[pid | pid << 32, 1 << 40, 0x1000, 0], b"/b\0\0\0\0\0\0");
        trailer(&mut mapped, 3);
        records.extend([forked, mapped]);
    }
    records.push(sampled(9));
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let decoded = decoded(&file(FIELDS, &records));
    assert!(decoded.warnings.iter().any(|warning| warning.contains("mappings were more")), "{:?}", decoded.warnings);
}

#[test]
fn other_byte_orders_and_old_files_are_named() {
    assert!(error(b"2ELIFREP\0\0\0\0\0\0\0\x68").contains("other byte order"));
    assert!(error(b"PERFILE2").contains("perf-data: offset 8: input ends inside the header"));
}
