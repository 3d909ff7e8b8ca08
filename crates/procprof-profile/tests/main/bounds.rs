//! The memory and time of decoding are bounded by the input.

use std::fmt::Write;
use std::mem::size_of_val;

use procprof_profile::format::{Limits, decode, pprof};
use procprof_profile::{Function, Label, Line, Location, LocationId, Mapping, Profile, StringId};

use crate::fixtures;

/// The multiple of the input that decoders promise to stay below, and what is free.
const MULTIPLE: usize = 64;
const FREE: usize = 64 << 10;

/// Bytes reserved by the tables of a profile, their unused room included.
fn reserved(profile: &Profile) -> usize {
    let parts = profile.parts();
    let strings = parts.strings.iter().map(|text| text.len() + 4).sum::<usize>();
    parts.values.capacity() * 8
        + parts.raw_values.capacity() * 8
        + parts.stacks.capacity() * size_of::<LocationId>()
        + parts.stack_ends.capacity() * 4
        + parts.labels.capacity() * size_of::<Label>()
        + parts.label_ends.capacity() * 4
        + parts.mappings.capacity() * size_of::<Mapping>()
        + parts.locations.capacity() * size_of::<Location>()
        + parts.lines.capacity() * size_of::<Line>()
        + parts.functions.capacity() * size_of::<Function>()
        + parts.comments.capacity() * size_of::<StringId>()
        + strings
}

fn check(name: &str, bytes: &[u8]) {
    let decoded = (pprof_row().decode)(bytes, &Limits::default(), &mut Vec::new());
    let profile = decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
    let allowed = MULTIPLE * size_of_val(bytes) + FREE;
    assert!(reserved(&profile) <= allowed, "{name}: {} bytes for {} of input", reserved(&profile), bytes.len());
}

fn pprof_row() -> &'static procprof_profile::format::Format {
    procprof_profile::format::FORMATS.iter().find(|format| format.name == "pprof").unwrap()
}

/// One sample type, then `count` times the same field.
fn repeated(field: &[u8], count: usize) -> Vec<u8> {
    [&[0x0a, 0][..], &field.repeat(count)].concat()
}

#[test]
fn tiny_entries_take_little() {
    let many = 100_000;
    check("comments", &repeated(&[13 << 3, 0], many));
    check("strings", &repeated(&[6 << 3 | 2, 0], many));
    let labels = [&[2 << 3, 1][..], &[3 << 3 | 2, 0].repeat(64)].concat();
    check("labels", &repeated(&[&[2 << 3 | 2, 0x82, 1][..], &labels].concat(), 1000));
    check("sample types", &repeated(&[0x0a, 0], many));
    check("samples", &repeated(&[2 << 3 | 2, 2, 2 << 3, 1], many));
    let locations: Vec<u8> = (1..100u8).flat_map(|id| [4 << 3 | 2, 2, 8, id]).collect();
    check("locations", &repeated(&locations, 1));
}

#[test]
fn fixtures_take_little() {
    for (name, bytes) in fixtures::all() {
        if let Ok(decoded) = decode(&bytes, &Limits::default()) {
            check(&name, &pprof::encode(&decoded.profile).unwrap());
        }
    }
}

/// The CPU time of this thread, in nanoseconds.
fn cpu_time() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split(' ').next().unwrap().parse().unwrap()
}

/// The CPU time that a heap dump of as many stacks of one address takes to be decoded.
fn time_of(addresses: impl Iterator<Item = u64>) -> u64 {
    let mut dump = String::from("heap_v2/524288\n  t*: 40000: 320000 [0: 0]\n");
    for address in addresses {
        writeln!(dump, "@ {address:#x}\n  t*: 1: 8 [0: 0]").unwrap();
    }
    dump.push_str("\nMAPPED_LIBRARIES:\n");
    let start = cpu_time();
    let decoded = decode(dump.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(decoded.profile.sample_count(), 40_000);
    cpu_time() - start
}

/// Addresses that `rustc-hash` 2, which has no key, puts into one bucket took 260 times as long as others here.
#[test]
fn addresses_made_to_collide_take_as_long_as_others() {
    const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
    // Of an odd number, modulo 2^64, by Newton's iteration.
    let inverse =
        (0..6).fold(FACTOR, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(inverse))));
    let (others, made) = (
        time_of((1..=40_000).map(|number| number << 12)),
        time_of((1..=40_000).map(|number| inverse.wrapping_mul(number))),
    );
    assert!(made < 20 * others, "{made} ns instead of {others} ns");
}
