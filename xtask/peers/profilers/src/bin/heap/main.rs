//! A heap profiler, chosen by features, measured from inside: `heap cost ROUNDS`, `heap totals MEAN`. Prints
//! `key value` lines.
//!
//! `cost` is CPU time of allocations and their freeing. `totals` allocates known amounts while about one byte in MEAN
//! is sampled, and prints them beside the amounts in the profile. Sizes are such that no allocator rounds them.

#[path = "../../clock.rs"]
mod clock;
mod profiler;

use clock::thread_cpu;
use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;
use std::ptr::null_mut;

const PAIRS: u64 = 100_000;

/// Samples of live memory that totals are computed from; a few more are expected, so that hardly a run has fewer than
/// 4,000.
const SAMPLES: u64 = 4_200;

const THREADS: u64 = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["cost", rounds] => cost(rounds.parse().expect("a number")),
        ["totals", mean] => totals(mean.parse().expect("a number")),
        _ => panic!("cost ROUNDS | totals MEAN"),
    }
}

fn cost(rounds: usize) {
    profiler::start(None);
    for (name, work) in [("pair_ns", pairs as fn()), ("kept_ns", kept)] {
        work();
        let mut times: Vec<u64> = (0..rounds)
            .map(|_| {
                let began = thread_cpu();
                work();
                thread_cpu() - began
            })
            .collect();
        times.sort_unstable();
        println!("{name} {:.3}", times[rounds / 2] as f64 / PAIRS as f64);
    }
}

/// Not inlined, as the calls of a program to its allocator are not.
#[inline(never)]
fn allocate(layout: Layout) -> *mut u8 {
    // SAFETY: no size here is zero.
    let pointer = unsafe { alloc(layout) };
    assert!(!pointer.is_null());
    pointer
}

#[inline(never)]
fn free(pointer: *mut u8, layout: Layout) {
    // SAFETY: callers pass a block of that layout, once.
    unsafe { dealloc(pointer, layout) }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

fn pairs() {
    let layout = black_box(layout(64));
    (0..PAIRS).for_each(|_| free(black_box(allocate(layout)), layout));
}

/// 4,096 blocks of 16 to 1,039 bytes, one of them replaced each time.
fn kept() {
    let mut kept = [(null_mut::<u8>(), layout(16)); 4096];
    let mut random = Random(1);
    for _ in 0..PAIRS {
        let bits = random.next();
        let (pointer, former) = &mut kept[(bits >> 52) as usize];
        if !pointer.is_null() {
            free(*pointer, *former);
        }
        *former = layout(16 + (bits >> 32) as usize % 1024);
        *pointer = allocate(*former);
    }
    kept.into_iter().filter(|(pointer, _)| !pointer.is_null()).for_each(|(pointer, layout)| free(pointer, layout));
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }
}

fn totals(mean: u64) {
    profiler::start(Some(mean));
    let wanted = SAMPLES * mean / THREADS;
    let threads: Vec<_> = (0..THREADS).map(|thread| std::thread::spawn(move || fill(wanted, thread))).collect();
    let (mut live, mut allocated) = (0, 0);
    for thread in threads {
        let (kept, all) = thread.join().expect("a thread panicked");
        live += kept;
        allocated += all;
    }
    let seen = profiler::seen();
    println!("samples {}\nlive {live}\nlive_told {}\nallocated {allocated}", seen.samples, seen.live);
    if let Some(told) = seen.allocated {
        println!("allocated_told {told}");
    }
}

/// Allocates that much to stay, and as much again to be freed at once; returns the live and the allocated bytes.
fn fill(wanted: u64, thread: u64) -> (u64, u64) {
    const SIZES: [usize; 6] = [32, 64, 128, 256, 512, 1024];
    let (mut live, mut allocated, mut random) = (0, 0, Random(thread));
    // Blocks that stay are a list through themselves, so that nothing else is allocated.
    let mut list = null_mut::<u8>();
    while live < wanted {
        let bits = random.next() >> 32;
        let size = SIZES[bits as usize % SIZES.len()];
        let block = allocate(layout(size));
        allocated += size as u64;
        if bits & 64 == 0 {
            // SAFETY: the block belongs to this list, is aligned, and larger than a pointer.
            unsafe { block.cast::<*mut u8>().write(list) };
            list = block;
            live += size as u64;
        } else {
            free(black_box(block), layout(size));
        }
    }
    black_box(list);
    (live, allocated)
}
