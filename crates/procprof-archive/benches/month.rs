//! Makes an archive for `cargo xtask bench month`: nodes with a CPU profile a minute, for some days.
//!
//! `cargo bench -p procprof-archive --bench month -- FOLDER [DAYS [NODES]]`, by default 30 days of 100 nodes, 4.3
//! million profiles. Each node has stacks of its own and others that all have; a profile has some of both. Days are
//! merged by compaction, as a server does it; the size is printed.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use procprof_archive::{
    Archive, CompactLimits, Hour, Identity, ObjectFolder, Part, PartLimits, PartWriter, ReadLimits, Writer,
};
use procprof_profile::{LocationId, Meta, Nanos, Profile, ProfileBuilder, ProfileId, ProfileType};

/// The first day, 25 October 2026.
const FIRST: Hour = Hour(498_024);
const MINUTE: i64 = 60_000_000_000;
const FUNCTIONS: u64 = 2000;
/// Stacks of a node that only it has, and stacks that all nodes have.
const STACKS: [u64; 2] = [60, 240];
/// Samples of a profile.
const SAMPLES: u64 = 40;
const DEPTH: u64 = 20;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    // Without a folder it is only built.
    let Some(folder) = words.first() else { return };
    let number = |at: usize, default: i64| words.get(at).map_or(default, |word| word.parse().unwrap());
    let (days, nodes) = (number(1, 30), number(2, 100) as u64);
    let next = AtomicI64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let hour = next.fetch_add(1, Ordering::Relaxed);
                    if hour >= days * 24 {
                        break;
                    }
                    write_hour(folder, Hour(FIRST.0 + hour), nodes);
                }
            });
        }
    });
    let archive = Archive::new(Arc::new(ObjectFolder::open(folder).unwrap()), ReadLimits::default());
    let now = Hour(FIRST.0 + 24 * (days + 1)).start();
    let limits = CompactLimits { grace: Nanos(0), ..CompactLimits::default() };
    let done = archive.compact(&limits, &|| now, 1, &mut ()).unwrap();
    assert_eq!(done.failed, Vec::<String>::new());
    let parts = archive.parts().unwrap();
    let profiles = days * 24 * 60 * nodes as i64;
    println!("{profiles} profiles, {} parts, {} bytes", parts.whole.len(), parts.bytes());
}

/// Writes the profiles that the nodes complete in an hour.
fn write_hour(folder: &str, hour: Hour, nodes: u64) {
    let objects = ObjectFolder::create(folder).unwrap();
    let mut writer = PartWriter::new(PartLimits::default());
    for minute in 0..60_u64 {
        for node in 0..nodes {
            let completed = Nanos(hour.start().0 + minute as i64 * MINUTE + node as i64 * 100_000_000);
            let time = (completed.0 / 1_000_000) as u128;
            let id = ProfileId((time << 80) | (7 << 76) | (2 << 62) | u128::from(node));
            let duration = Nanos(10_000_000_000);
            let start = Nanos(completed.0 - duration.0);
            let identity =
                Identity { id, node: 10_001 + node, profile_type: ProfileType::Cpu, start, duration, completed };
            writer.add(identity, profile(node, random(time as u64 ^ node))).unwrap();
        }
    }
    writer.write(&objects, Part::of_hour(hour, Writer(1), 0)).unwrap();
}

fn profile(node: u64, seed: u64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.period("cpu", "nanoseconds", 10_000_000);
    for sample in 0..SAMPLES {
        let chosen = random(seed.wrapping_add(sample));
        // Every fourth stack is the node's own; low numbers are chosen more often.
        let stack = match sample % 4 {
            0 => node * 1000 + 1_000_000 + low(chosen, STACKS[0]),
            _ => low(chosen, STACKS[1]),
        };
        let count = 1 + (chosen >> 60) as i64;
        let frames = frames(&mut builder, stack);
        builder.sample(&frames, &[count, count * 10_000_000], &[]);
    }
    let meta = Meta {
        node_name: format!("be{node:03}"),
        cluster: "fleet".to_owned(),
        trigger: "schedule".to_owned(),
        engine: "procprof".to_owned(),
        ..Meta::default()
    };
    builder.finish().unwrap().with_meta(&meta).unwrap()
}

/// The frames of a stack, leaf first. Neighbouring stacks share their callers.
fn frames(builder: &mut ProfileBuilder, stack: u64) -> Vec<LocationId> {
    let function = |depth: u64| match depth {
        0 => 0,
        depth if depth < DEPTH / 2 => random(depth << 32 | stack >> 5) % FUNCTIONS,
        depth => random(depth << 32 | stack) % FUNCTIONS,
    };
    (0..DEPTH).rev().map(|depth| builder.frame(&format!("service::module{0}::work_{0}", function(depth)))).collect()
}

/// A number below another one, the lower the likelier.
fn low(random: u64, below: u64) -> u64 {
    let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
    (fraction * fraction * below as f64) as u64
}

/// SplitMix64.
fn random(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
