//! The cost of unwinding and compiling, beside framehop, in one run with interleaved rounds.
//!
//! `cargo bench -p procprof-unwind` walks its own stack at several depths; `-- FILE…` compiles the unwind tables of
//! files.

#![allow(unsafe_code)]
#![allow(clippy::disallowed_methods)]
#![allow(clippy::unwrap_used, reason = "a measurement that can't go on may panic")]

#[path = "../tests/mapped.rs"]
mod mapped;
#[path = "../tests/modules.rs"]
mod modules;
#[path = "unwind/scattered.rs"]
mod scattered;

use framehop::Unwinder;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use mapped::Mapped;
use modules::{Module, gcc_file};
use procprof_unwind::{Architecture, Cache, End, Frame, Packed, Space, Stack, Step, Table, Walker, step};
use std::arch::asm;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 41;
const WALKS: usize = 4000;

/// This thread's stack, from an address on.
struct OwnStack {
    start: u64,
    end: u64,
}

impl Stack for OwnStack {
    #[inline(always)]
    fn read(&self, address: u64) -> Option<u64> {
        // SAFETY: between a live stack pointer and the end of the stack's mapping.
        (address >= self.start && address <= self.end - 8).then(|| unsafe { (address as *const u64).read_volatile() })
    }

    fn switch(&mut self, _: u64) -> bool {
        false
    }
}

/// The start of a walk: in the middle of the function that calls this.
#[inline(always)]
fn here() -> Frame {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads three registers.
    unsafe { asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp) };
    Frame { pc, sp, fp, ..Frame::default() }
}

fn stack_end() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
    u64::from_str_radix(line.split(['-', ' ']).nth(1).unwrap(), 16).unwrap()
}

struct Loaded {
    modules: usize,
    space: Space,
    framehop: UnwinderX86_64<Vec<u8>>,
    end: u64,
}

fn load() -> Loaded {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = Mapped::read(&maps, |range| {
        // SAFETY: mapped, readable and never changed: the kernel's own code in this process.
        unsafe { std::slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize) }.to_vec()
    });
    Loaded {
        modules: mapped.files.len(),
        space: Space::new(mapped.code, 1),
        framehop: mapped.framehop,
        end: stack_end(),
    }
}

/// One way to unwind: addresses into the buffer, how many.
type Way<'a> = (&'a str, Box<dyn FnMut(Frame, &mut [u64; 512]) -> usize + 'a>);

fn ways(loaded: &Loaded) -> Vec<Way<'_>> {
    let cache = Box::leak(Box::new(Cache::new()));
    let mut framehop_cache = CacheX86_64::new();
    vec![
        (
            "tables, cached",
            Box::new(|frame, addresses| {
                let walker = Walker { architecture: Architecture::X86_64, space: &loaded.space, cache };
                walk(walker, frame, loaded.end, addresses)
            }),
        ),
        (
            "tables, no cache",
            Box::new(|mut frame, addresses| {
                let stack = OwnStack { start: frame.sp, end: loaded.end };
                let mut depth = 0;
                while depth < 512 {
                    addresses[depth] = frame.pc;
                    depth += 1;
                    let Some(rule) = loaded.space.rule(frame.lookup()) else { break };
                    match step(Architecture::X86_64, &frame, rule, |address| stack.read(address), |_| None) {
                        Step::Caller(caller) => frame = caller,
                        _ => break,
                    }
                }
                depth
            }),
        ),
        (
            "frame pointers only",
            Box::new(|mut frame, addresses| {
                let stack = OwnStack { start: frame.sp, end: loaded.end };
                let mut depth = 0;
                while depth < 512 {
                    addresses[depth] = frame.pc;
                    depth += 1;
                    match step(Architecture::X86_64, &frame, Packed::default(), |address| stack.read(address), |_| None)
                    {
                        Step::Caller(caller) => frame = caller,
                        _ => break,
                    }
                }
                depth
            }),
        ),
        (
            "framehop",
            Box::new(move |frame, addresses| {
                let stack = OwnStack { start: frame.sp, end: loaded.end };
                let mut read = |address| stack.read(address).ok_or(());
                let registers = UnwindRegsX86_64::new(frame.pc, frame.sp, frame.fp);
                let mut frames = loaded.framehop.iter_frames(frame.pc, registers, &mut framehop_cache, &mut read);
                let mut depth = 0;
                while let Ok(Some(found)) = frames.next() {
                    if depth == 512 {
                        break;
                    }
                    addresses[depth] = found.address();
                    depth += 1;
                }
                depth
            }),
        ),
    ]
}

fn walk(walker: Walker<'_>, frame: Frame, end: u64, addresses: &mut [u64; 512]) -> usize {
    let mut depth = 0;
    let mut stack = OwnStack { start: frame.sp, end };
    let end = walker.walk(
        frame,
        |_| None,
        &mut stack,
        |address| match addresses.get_mut(depth) {
            Some(place) => {
                *place = address;
                depth += 1;
                true
            }
            None => false,
        },
    );
    assert_eq!(end, End::Root);
    depth
}

#[inline(never)]
fn descend(depth: usize, bottom: &mut dyn FnMut(Frame)) -> usize {
    let mut room = [depth; 4];
    black_box(&mut room);
    if depth == 0 {
        bottom(here());
    } else {
        black_box(descend(depth - 1, bottom));
    }
    room[3]
}

fn measure(loaded: &Loaded) {
    println!(
        "walks of this thread's stack, {} modules, median of {ROUNDS} interleaved rounds of {WALKS}:",
        loaded.modules
    );
    for depth in [20, 70, 200] {
        let mut ways = ways(loaded);
        let mut times = vec![Vec::new(); ways.len()];
        let mut depths = vec![0; ways.len()];
        let mut addresses = [0; 512];
        descend(depth, &mut |frame| {
            for _ in 0..ROUNDS {
                for (way, (_, unwind)) in ways.iter_mut().enumerate() {
                    let begin = Instant::now();
                    for _ in 0..WALKS {
                        depths[way] = unwind(black_box(frame), black_box(&mut addresses));
                    }
                    times[way].push(begin.elapsed());
                }
            }
        });
        for (way, (name, _)) in ways.iter().enumerate() {
            let one = median(&mut times[way]).as_nanos() as f64 / WALKS as f64;
            println!("{name:>20}: {:4} frames {one:>8.0} ns  {:6.2} ns a frame", depths[way], one / depths[way] as f64);
        }
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn compile(path: &Path) {
    let module = Module::read(path);
    let source = module.source();
    let mut best = Duration::MAX;
    let mut result = None;
    for _ in 0..7 {
        let begin = Instant::now();
        let table = Table::new(module.span.clone());
        let compiled = table.compile(&source, module.span.clone());
        best = best.min(begin.elapsed());
        result = Some((compiled, table.memory()));
    }
    let Some((compiled, memory)) = result else { return };
    let begin = Instant::now();
    let scanned = module.source_without_index().functions();
    let scan = begin.elapsed().as_secs_f64();
    let size = module.eh_frame.1.len();
    println!(
        "{}\n    .eh_frame {size} bytes: {:.0} MB/s, {:.1} ms; {} functions, {} rows, {memory} bytes: {:.2} a row, {:.1} a function; {} broken, {} cut; {scanned} functions found in {:.1} ms without the index",
        path.display(),
        size as f64 / best.as_secs_f64() / 1e6,
        best.as_secs_f64() * 1e3,
        source.functions(),
        compiled.rows,
        memory as f64 / compiled.rows as f64,
        memory as f64 / source.functions() as f64,
        compiled.broken,
        compiled.cut,
        scan * 1e3,
    );
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if files.is_empty() {
        measure(&load());
        scattered::measure();
        modules::loaded().iter().for_each(|path| compile(path));
        compile(&gcc_file("libstdc++.so.6"));
    }
    files.iter().for_each(|file| compile(Path::new(file)));
}
