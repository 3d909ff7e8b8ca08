//! Generated profiles for measurements: the same large process in several formats, the CPU profile of a small node, and
//! call trees of known sizes for viewers.

pub(crate) mod recurring;
pub(crate) mod walks;

use std::fmt::Write as _;
use std::io::Read as _;

use anyhow::{Result, ensure};
use procprof_profile::format::{FORMATS, pprof};
use procprof_profile::{
    Addr, Addresses, Function, Line, Location, LocationId, Mapping, Nanos, Profile, ProfileBuilder,
};

/// Stacks of the large profile, about as many as a heap dump of a database server has.
const STACKS: usize = 25_000;
const DEPTH: usize = 75;
const ADDRESSES: u64 = 16_000;
const BASE: u64 = 0x5555_5555_0000;
/// Packed size of a node's CPU profile, at least.
const NODE_BYTES: usize = 70_000;

/// A file to decode: its name, the format's name, and the bytes.
pub(crate) struct Input {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// All large inputs.
pub(crate) fn large() -> Result<Vec<Input>> {
    let stacks = stacks();
    let (named, addresses) = (named(&stacks)?, addresses(&stacks)?);
    Ok(vec![
        Input { name: "jemalloc.heap", bytes: jemalloc(&stacks).into_bytes() },
        Input { name: "pprof.pb", bytes: pprof::encode(&named)? },
        Input { name: "gperftools.prof", bytes: encoded("gperftools-cpu", &addresses)? },
        Input { name: "contention.txt", bytes: contention(&stacks).into_bytes() },
        Input { name: "collapsed.txt", bytes: encoded("collapsed", &named)? },
    ])
}

fn encoded(format: &str, profile: &Profile) -> Result<Vec<u8>> {
    let row = FORMATS.iter().find(|row| row.name == format).and_then(|row| row.encode);
    let encode = row.ok_or_else(|| anyhow::anyhow!("format {format} can't be written"))?;
    Ok(encode(profile)?)
}

/// A reproducible sequence of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Stacks of numbers of addresses, leaf first, that share their callers as real ones do.
fn stacks() -> Vec<Vec<u64>> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut stacks: Vec<Vec<u64>> = Vec::with_capacity(STACKS);
    for _ in 0..STACKS {
        let shared = random.below(DEPTH as u64 - 10) as usize;
        let own = if stacks.is_empty() { DEPTH } else { DEPTH - shared };
        let mut stack: Vec<u64> = (0..own).map(|_| random.below(ADDRESSES)).collect();
        if let Some(previous) = stacks.last() {
            stack.extend_from_slice(&previous[own..]);
        }
        stacks.push(stack);
    }
    stacks
}

fn address(number: u64) -> Addr {
    Addr(BASE + number * 64)
}

fn addresses(stacks: &[Vec<u64>]) -> Result<Profile> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let filename = builder.intern("/usr/bin/server");
    let mapping =
        builder.mapping(Mapping { start: Addr(BASE), limit: address(ADDRESSES), filename, ..Mapping::default() });
    for (index, stack) in stacks.iter().enumerate() {
        let stack: Vec<_> = stack.iter().map(|number| builder.address(Some(mapping), address(*number))).collect();
        builder.sample(&stack, &[1 + index as i64, 10_000_000 * (1 + index as i64)], &[]);
    }
    builder.period("cpu", "nanoseconds", 10_000_000);
    builder.parts_mut().addresses = Addresses::CallSite;
    Ok(builder.finish()?)
}

fn named(stacks: &[Vec<u64>]) -> Result<Profile> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let locations: Vec<LocationId> = (0..ADDRESSES).map(|number| function(&mut builder, number)).collect();
    for (index, stack) in stacks.iter().enumerate() {
        let stack: Vec<_> = stack.iter().map(|number| locations[*number as usize]).collect();
        let label = builder.text_label("thread", if index % 3 == 0 { "main" } else { "worker" });
        builder.sample(&stack, &[1 + index as i64, 10_000_000 * (1 + index as i64)], &[label]);
    }
    builder.period("cpu", "nanoseconds", 10_000_000);
    Ok(builder.finish()?)
}

fn function(builder: &mut ProfileBuilder, number: u64) -> LocationId {
    let name = builder.intern(&format!("server::module_{}::Type<T>::function_{number}", number % 97));
    let filename = builder.intern(&format!("/build/server/src/module_{}.rs", number % 97));
    let function = builder.function(Function { name, system_name: name, filename, start_line: 10 });
    let lines = [Line { function, line: 10 + number as i64 % 90, column: 4 }];
    builder.location(Location::new(None, address(number)), &lines)
}

fn jemalloc(stacks: &[Vec<u64>]) -> String {
    let (count, bytes) = (STACKS * 3, STACKS * 3 * 4096);
    let mut text = format!("heap_v2/524288\n  t*: {count}: {bytes} [0: 0]\n  t0: {count}: {bytes} [0: 0] main\n");
    for stack in stacks {
        text.push('@');
        write_addresses(&mut text, stack);
        text.push_str("\n  t*: 3: 12288 [0: 0]\n  t0: 3: 12288 [0: 0]\n");
    }
    text.push_str("\nMAPPED_LIBRARIES:\n");
    text.push_str(&maps());
    text
}

fn contention(stacks: &[Vec<u64>]) -> String {
    let mut text = "--- contention\ncycles/second=1000000000\n".to_owned();
    for stack in stacks {
        text.push_str("123456 3 @");
        write_addresses(&mut text, stack);
        text.push('\n');
    }
    text.push_str(&maps());
    text
}

fn write_addresses(text: &mut String, stack: &[u64]) {
    for number in stack {
        // Writing to a string cannot fail.
        let _ = write!(text, " {:#x}", address(*number).0);
    }
}

fn maps() -> String {
    format!("{BASE:x}-{:x} r-xp 00000000 fd:01 1234 /usr/bin/server\n", address(ADDRESSES).0)
}

/// The symbolized CPU profile of a node, packed, about 70 KB: with as many stacks as needed.
pub(crate) fn node() -> Result<Vec<u8>> {
    let all = stacks();
    for count in (100..all.len()).step_by(100) {
        // Forty frames; a busy service has a few thousand functions on its stacks.
        let stacks: Vec<Vec<u64>> =
            all[..count].iter().map(|stack| stack[DEPTH - 40..].iter().map(|number| number % 3000).collect()).collect();
        let packed = pprof::encode_gzip(&named_once(&stacks)?)?;
        if packed.len() >= NODE_BYTES {
            ensure!(packed.len() < NODE_BYTES * 5 / 4, "a node's profile became {} bytes", packed.len());
            return Ok(packed);
        }
    }
    anyhow::bail!("a node's profile does not reach {NODE_BYTES} bytes")
}

/// As [`named`], with only the functions that are used.
fn named_once(stacks: &[Vec<u64>]) -> Result<Profile> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let mut locations = std::collections::BTreeMap::new();
    for (index, stack) in stacks.iter().enumerate() {
        let stack: Vec<_> = stack
            .iter()
            .map(|number| *locations.entry(*number).or_insert_with(|| function(&mut builder, *number)))
            .collect();
        let count = 1 + index as i64 % 7;
        builder.sample(&stack, &[count, 10_000_000 * count], &[]);
    }
    builder.period("cpu", "nanoseconds", 10_000_000);
    Ok(builder.finish()?)
}

/// A small symbolized CPU profile as pprof, without a time; no two numbers give the same.
pub(crate) fn small(number: u64) -> Result<Vec<u8>> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ number);
    for _ in 0..40 {
        let stack: Vec<LocationId> = (0..12).map(|_| function_named(&mut builder, random.below(60))).collect();
        builder.sample(&stack, &[1 + number as i64, 10_000_000 * (1 + number as i64)], &[]);
    }
    builder.period("cpu", "nanoseconds", 10_000_000);
    builder.time(Nanos(0), Nanos(10_000_000_000));
    Ok(pprof::encode(&builder.finish()?)?)
}

fn function_named(builder: &mut ProfileBuilder, number: u64) -> LocationId {
    builder.frame(&format!("server::pipeline::Driver::step_{number}"))
}

/// A CPU profile of a few hundred bytes, packed, whose only stack is 65,000 frames of a name of 6,000 bytes: 390 MB as
/// collapsed stacks.
pub(crate) fn amplified() -> Result<Vec<u8>> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let frame = builder.frame(&"n".repeat(6000));
    builder.sample(&vec![frame; 65_000], &[1, 10_000_000], &[]);
    builder.period("cpu", "nanoseconds", 10_000_000);
    Ok(pprof::encode_gzip(&builder.finish()?)?)
}

/// A gzip file of a thousandth of `unpacked` bytes, which are all zero.
pub(crate) fn bomb(unpacked: u64) -> Result<Vec<u8>> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::copy(&mut std::io::repeat(0).take(unpacked), &mut packed)?;
    Ok(packed.finish()?)
}
