//! How fast formats are decoded: megabytes of unpacked input a second on one core, the best of several runs.
//!
//! `cargo bench -p procprof-profile --bench decode [NAME]`. Inputs are generated: 25,000 stacks of 75 frames over
//! 16,000 addresses, about what a heap dump of a large Rust server has, and for pprof the same with a name for each
//! address.

#![allow(clippy::disallowed_methods)]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use procprof_profile::format::{FORMATS, Limits, decode, pprof};
use procprof_profile::{Addr, Addresses, Function, Line, Location, Mapping, Profile, ProfileBuilder};

const STACKS: usize = 25_000;
const DEPTH: usize = 75;
const ADDRESSES: u64 = 16_000;
const BASE: u64 = 0x5555_5555_0000;
/// Shortest time to measure each input for.
const MEASURED: Duration = Duration::from_secs(2);

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let stacks = stacks();
    println!("{:<22} {:>10} {:>10} {:>8}", "input", "bytes", "best ms", "MB/s");
    for (name, make) in INPUTS {
        if wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            measure(name, &make(&stacks));
        }
    }
}

type Stacks = Vec<Vec<u64>>;

type Make = fn(&Stacks) -> Vec<u8>;

const INPUTS: &[(&str, Make)] = &[
    ("pprof, named", |stacks| pprof::encode(&named(stacks)).unwrap()),
    ("pprof, addresses", |stacks| pprof::encode(&addresses(stacks)).unwrap()),
    ("jemalloc", jemalloc),
    ("heap-text", heap_text),
    ("contention", contention),
    ("gperftools-cpu", |stacks| encoded("gperftools-cpu", &addresses(stacks))),
    ("collapsed", |stacks| encoded("collapsed", &named(stacks))),
];

fn measure(name: &str, bytes: &[u8]) {
    let mut best = Duration::MAX;
    let begin = Instant::now();
    while begin.elapsed() < MEASURED {
        let start = Instant::now();
        let decoded = decode(black_box(bytes), &Limits::default()).unwrap();
        best = best.min(start.elapsed());
        assert_eq!(black_box(decoded).profile.sample_count(), STACKS, "{name}");
    }
    let seconds = best.as_secs_f64();
    println!("{name:<22} {:>10} {:>10.1} {:>8.0}", bytes.len(), seconds * 1e3, bytes.len() as f64 / 1e6 / seconds);
}

/// Stacks that share their callers, as real ones do.
fn stacks() -> Stacks {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut stacks: Stacks = Vec::with_capacity(STACKS);
    for index in 0..STACKS {
        let shared = if index == 0 { 0 } else { random(DEPTH as u64 - 10) as usize };
        let mut stack: Vec<u64> = (0..DEPTH - shared).map(|_| BASE + random(ADDRESSES) * 64).collect();
        if let Some(previous) = stacks.last() {
            stack.extend_from_slice(&previous[DEPTH - shared..]);
        }
        stacks.push(stack);
    }
    stacks
}

fn addresses(stacks: &Stacks) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let filename = builder.intern("/usr/bin/server");
    let mapping = builder.mapping(Mapping {
        start: Addr(BASE),
        limit: Addr(BASE + ADDRESSES * 64),
        filename,
        ..Mapping::default()
    });
    for (index, stack) in stacks.iter().enumerate() {
        let stack: Vec<_> = stack.iter().map(|address| builder.address(Some(mapping), Addr(*address))).collect();
        builder.sample(&stack, &[1 + index as i64, 10_000_000 * (1 + index as i64)], &[]);
    }
    builder.period("cpu", "nanoseconds", 10_000_000);
    builder.parts_mut().addresses = Addresses::CallSite;
    builder.finish().unwrap()
}

fn named(stacks: &Stacks) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let mut locations = Vec::new();
    for index in 0..ADDRESSES {
        let name = builder.intern(&format!("server::module_{}::Type<T>::function_{index}", index % 97));
        let filename = builder.intern(&format!("/build/server/src/module_{}.rs", index % 97));
        let function = builder.function(Function { name, system_name: name, filename, start_line: 10 });
        let lines = [Line { function, line: 10 + index as i64 % 90, column: 4 }];
        locations.push(builder.location(Location::new(None, Addr(BASE + index * 64)), &lines));
    }
    for (index, stack) in stacks.iter().enumerate() {
        let stack: Vec<_> = stack.iter().map(|address| locations[((address - BASE) / 64) as usize]).collect();
        let label = builder.text_label("thread", if index % 3 == 0 { "main" } else { "worker" });
        builder.sample(&stack, &[1 + index as i64, 10_000_000], &[label]);
    }
    builder.period("cpu", "nanoseconds", 10_000_000);
    builder.finish().unwrap()
}

fn encoded(format: &str, profile: &Profile) -> Vec<u8> {
    let row = FORMATS.iter().find(|row| row.name == format).unwrap();
    row.encode.unwrap()(profile).unwrap()
}

fn jemalloc(stacks: &Stacks) -> Vec<u8> {
    let (count, bytes) = (STACKS as u64 * 3, STACKS as u64 * 3 * 4096);
    let mut text = format!("heap_v2/524288\n  t*: {count}: {bytes} [0: 0]\n  t0: {count}: {bytes} [0: 0] main\n");
    for stack in stacks {
        text.push('@');
        write_addresses(&mut text, stack);
        text.push_str("\n  t*: 3: 12288 [0: 0]\n  t0: 3: 12288 [0: 0]\n");
    }
    text.push_str(&maps("\nMAPPED_LIBRARIES:\n"));
    text.into_bytes()
}

fn heap_text(stacks: &Stacks) -> Vec<u8> {
    let (count, bytes) = (STACKS as u64 * 3, STACKS as u64 * 3 * 4096);
    let mut text = format!("heap profile: {count}: {bytes} [{count}: {bytes}] @ heap_v2/524288\n");
    for stack in stacks {
        text.push_str("3: 12288 [3: 12288] @");
        write_addresses(&mut text, stack);
        text.push('\n');
    }
    text.push_str(&maps("\nMAPPED_LIBRARIES:\n"));
    text.into_bytes()
}

fn contention(stacks: &Stacks) -> Vec<u8> {
    let mut text = "--- contention\ncycles/second=1000000000\n".to_owned();
    for stack in stacks {
        text.push_str("123456 3 @");
        write_addresses(&mut text, stack);
        text.push('\n');
    }
    text.push_str(&maps(""));
    text.into_bytes()
}

fn write_addresses(text: &mut String, stack: &[u64]) {
    for address in stack {
        write!(text, " {address:#x}").unwrap();
    }
}

fn maps(heading: &str) -> String {
    format!("{heading}{BASE:x}-{:x} r-xp 00000000 fd:01 1234 /usr/bin/server\n", BASE + ADDRESSES * 64)
}
