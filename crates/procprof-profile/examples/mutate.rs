//! Decodes mutated copies of all recorded profiles, and encodes what is decoded; a panic is shown with its input:
//! `cargo run --release --example mutate -- [INPUTS [SEED]]`.

#![allow(clippy::disallowed_methods)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use procprof_profile::Grammar;
use procprof_profile::format::{self, FORMATS, Limits, otlp, pprof};

/// Longer files are mutated in their first bytes alone.
const BYTES_MAX: usize = 32 << 10;
const LIMITS: Limits = Limits { unpacked_bytes: 1 << 20, depth: 4096 };
/// Bytes that mean something in many formats.
const TELLING: &[u8] = b"\0\x01\x7f\x80\xff\n\r\t ;:,.-+0123456789\"{}[]()<>#@/\\";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let inputs: u64 = arguments.next().map_or(Ok(1_000_000), |inputs| inputs.parse())?;
    let mut random = Random(arguments.next().map_or(Ok(1), |seed| seed.parse())?);
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats"))?;
    let (start, mut decoded, mut panics) = (Instant::now(), 0_u64, 0_u64);
    let mut slowest = (0.0, String::new());
    for number in 0..inputs {
        let (name, bytes) = &files[(number % files.len() as u64) as usize];
        let other = &files[random.below(files.len())].1;
        let input = mutated(bytes, other, &mut random);
        let one = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| exercise(&input, &mut random))) {
            Ok(is_decoded) => decoded += u64::from(is_decoded),
            Err(_) => {
                panics += 1;
                let path = std::env::temp_dir().join(format!("panic-{number}"));
                std::fs::write(&path, &input)?;
                println!("panic: input {number}, of {name}: {}", path.display());
            }
        }
        let seconds = one.elapsed().as_secs_f64();
        if seconds > slowest.0 {
            slowest = (seconds, name.clone());
        }
    }
    let (seconds, name) = slowest;
    println!(
        "{inputs} inputs of {} files in {:.0} s: {decoded} decoded, {panics} panics; the slowest {seconds:.3} s, of {name}",
        files.len(),
        start.elapsed().as_secs_f64()
    );
    if panics > 0 { Err("panics".into()) } else { Ok(()) }
}

/// The files of all folders, and what is in them.
fn files(root: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(root)? {
        let folder = folder?.path();
        if !folder.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(folder)? {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != "expect" && extension != "go") {
                let mut bytes = std::fs::read(&path)?;
                bytes.truncate(BYTES_MAX);
                files.push((path.display().to_string(), bytes));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A copy with up to eight changes: bytes, bits, numbers, pieces removed, doubled, moved, or of another file, or the
/// end cut off.
fn mutated(bytes: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(8) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(64)).min(bytes.len());
        match random.below(9) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = TELLING[random.below(TELLING.len())],
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                let place = random.below(bytes.len());
                bytes.splice(place..place, piece);
            }
            5 => {
                let from = random.below(other.len().max(1)).min(other.len());
                let piece = other[from..(from + 64).min(other.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            6 => {
                let number = [0, 1, u64::MAX, 1 << 31, 1 << 63, 0xffff_ffff][random.below(6)].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            7 => {
                let number =
                    ["-1", "0", "18446744073709551616", "9223372036854775807", "1e999", "0x", ""][random.below(7)];
                let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                bytes.splice(at..at + digits, number.bytes());
            }
            _ if random.below(4) == 0 => bytes.truncate(at),
            _ => bytes[at..end].reverse(),
        }
    }
    bytes
}

/// Decodes by the format that is detected, now and then by any, and encodes; whether it could be decoded.
fn exercise(input: &[u8], random: &mut Random) -> bool {
    let _ = format::detect(input);
    let decoded = match random.below(16) {
        0 => (FORMATS[random.below(FORMATS.len())].decode)(input, &LIMITS, &mut Vec::new()),
        1 => format::decode_collapsed(input, &LIMITS).map(|decoded| decoded.profile),
        _ => format::decode_events(input, &LIMITS).map(|mut all| all.swap_remove(0).profile),
    };
    let Ok(profile) = decoded else { return false };
    let stored = pprof::encode(&profile).expect("a valid profile can be encoded");
    format::decode(&stored, &Limits::default()).expect("what is encoded decodes");
    otlp::encode(&profile).expect("a valid profile can be encoded");
    profile.adjusted(Grammar::Jeprof).expect("a valid profile can be adjusted");
    true
}

struct Random(u64);

impl Random {
    /// A number below this one; 0 for 0.
    fn below(&mut self, limit: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % limit.max(1) as u64) as usize
    }
}
