//! Walks of made-up stacks whose frames lie all over the C and C++ libraries: the cost of walks with different
//! addresses, as in a real program.
//!
//! A handful of stacks stays in a cache of rules, as a program that is in the same places again and again; of a
//! thousand stacks hardly a frame is found there, nor is its table in the processor's caches.

use super::modules::{Module, gcc_file};
use super::{ROUNDS, median};
use procprof_unwind::{Architecture, Base, Cache, Cfa, Code, End, Frame, Packed, Rule, Saved, Space, Stack, Walker};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const FRAMES: usize = 70;
const WALKS: usize = 2000;
/// Different stacks, walked in turn.
const STACKS: [usize; 3] = [1, 5, 1000];
/// The start of each generated stack.
const START: u64 = 1 << 40;

/// Random numbers, always the same ones (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A stack from [`START`] on.
struct MadeUp<'a>(&'a [u64]);

impl Stack for MadeUp<'_> {
    #[inline(always)]
    fn read(&self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(START);
        (offset.is_multiple_of(8)).then(|| self.0.get(offset as usize / 8).copied())?
    }

    #[inline(always)]
    fn read_pair(&self, address: u64) -> Option<(u64, u64)> {
        let offset = address.wrapping_sub(START);
        let pair = self.0.get(offset as usize / 8..)?.first_chunk::<2>()?;
        offset.is_multiple_of(8).then_some((pair[0], pair[1]))
    }

    fn switch(&mut self, _: u64) -> bool {
        false
    }
}

fn space() -> Space {
    let libraries = ["libc.so.6", "libstdc++.so.6", "libm.so.6"];
    let code = libraries.iter().zip(1_u64..).map(|(name, number)| {
        let module = Module::read(&gcc_file(name));
        let bias = number << 32;
        let range = bias + module.text.0..bias + module.text.0 + module.text.1.len() as u64;
        Code { range, bias, table: Some(Arc::new(module.table(&module.source()))) }
    });
    Space::new(code.collect(), 1)
}

/// The kind of rules of a stack's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    StackPointer,
    FramePointer,
}

impl Kind {
    /// Bytes from the frame's stack pointer to its caller's, if it is of this kind.
    fn size(self, rule: Packed) -> Option<u64> {
        match (self, rule.rule()) {
            (Self::StackPointer, Rule::Frame { cfa: Cfa::Offset(Base::Sp, size), fp, ra: Saved::WordsBelowCfa(1) }) => {
                let is_within = |words: u16| i32::from(words) * 8 <= size;
                let has_fp =
                    matches!(fp, Saved::InRegister) || matches!(fp, Saved::WordsBelowCfa(words) if is_within(words));
                (has_fp && (16..512).contains(&size) && size % 8 == 0).then_some(size as u64)
            }
            (
                Self::FramePointer,
                Rule::Frame {
                    cfa: Cfa::Offset(Base::Fp, 16),
                    fp: Saved::WordsBelowCfa(2),
                    ra: Saved::WordsBelowCfa(1),
                },
            ) => Some(64),
            _ => None,
        }
    }
}

/// A stack of random frames: its first frame and its words.
fn stack(space: &Space, kind: Kind, random: &mut Random) -> (Frame, Vec<u64>) {
    let mut found: Vec<(u64, u64)> = Vec::new();
    while found.len() < FRAMES {
        let code = &space.code()[random.below(space.code().len() as u64) as usize];
        let address = code.range.start + random.below(code.range.end - code.range.start);
        found.extend(space.rule(address).and_then(|rule| kind.size(rule)).map(|size| (address, size)));
    }
    let mut words = Vec::new();
    for index in 0..FRAMES {
        let next = found.get(index + 1).map_or(0, |(address, _)| address + 1);
        let end = words.len() + found[index].1 as usize / 8;
        // Data, then the caller's frame pointer (in the middle of frames that have one it is two words below the end),
        // then where to return to.
        words.resize(end - 2, 0x7070);
        words.push(START + 8 * (end as u64 + found.get(index + 1).map_or(0, |(_, size)| size / 8 - 2)));
        words.push(next);
    }
    let frame = Frame { pc: found[0].0, sp: START, fp: START + found[0].1 - 16, ..Frame::default() };
    (frame, words)
}

fn walk(space: &Space, cache: &Cache, frame: Frame, words: &[u64], addresses: &mut [u64; FRAMES]) {
    let mut depth = 0;
    let walker = Walker { architecture: Architecture::X86_64, space, cache };
    let end = walker.walk(
        frame,
        |_| None,
        &mut MadeUp(words),
        |address| {
            addresses[depth] = address;
            depth += 1;
            depth <= FRAMES
        },
    );
    assert_eq!((end, depth), (End::Root, FRAMES));
}

/// Measures all kinds.
pub(super) fn measure() {
    let space = space();
    println!("walks of {FRAMES} frames scattered over libc, libstdc++ and libm, median of {ROUNDS} rounds of {WALKS}:");
    for kind in [Kind::FramePointer, Kind::StackPointer] {
        for count in STACKS {
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            let stacks: Vec<_> = (0..count).map(|_| stack(&space, kind, &mut random)).collect();
            let (cache, mut addresses) = (Box::new(Cache::new()), [0; FRAMES]);
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let begin = Instant::now();
                for (frame, words) in stacks.iter().cycle().take(WALKS) {
                    walk(&space, &cache, black_box(*frame), words, black_box(&mut addresses));
                }
                times.push(begin.elapsed());
            }
            let one = median(&mut times).as_nanos() as f64 / (WALKS * FRAMES) as f64;
            println!("{kind:>14?}: {count:>4} different stacks {one:>7.2} ns a frame");
        }
    }
}
