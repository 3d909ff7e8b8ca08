//! `cargo bench -p procprof-agent --bench heap`: the cost that the heap sampler adds to an allocation and its freeing,
//! compared with no profiler and with jemalloc's own.
//!
//! Arms are measured in turn, a few milliseconds each, many times over; printed is the median of the differences of
//! neighbours, in nanoseconds of CPU time per pair of an allocation and its freeing, with the quartiles of these
//! differences. jemalloc's own profiler can't be put in or taken out of a running process: its arms are child processes
//! of this program, started in turn.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a benchmark ends where something is wrong")]

use procprof_agent::{HeapSampler, SampledAlloc};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::process::Command;
use tikv_jemallocator::Jemalloc;

/// Rounds in a process, and processes of each kind.
const ROUNDS: usize = 41;
const PROCESSES: usize = 5;

/// Set in a child: what it measures.
const CHILD: &str = "PROCPROF_BENCH_CHILD";

static SYSTEM: System = System;
static SAMPLED_SYSTEM: SampledAlloc<System> = SampledAlloc::over(System);
static SAMPLED_JEMALLOC: SampledAlloc<Jemalloc> = SampledAlloc::over(Jemalloc);

/// A piece of work by an allocator, of about a millisecond and more; how many pairs it was.
type Work<A> = fn(&A) -> u64;

fn works<A: GlobalAlloc>() -> [(&'static str, Work<A>); 5] {
    [
        ("pairs, 64 bytes", pairs),
        ("4,096 kept, 16 to 1,039 bytes", kept),
        ("zeroed", zeroed),
        ("aligned to 64", aligned),
        ("grown from 16 to 4,096", grown),
    ]
}

// Not inlined, as the calls of a program to its allocator are not.

#[inline(never)]
fn allocate<A: GlobalAlloc>(allocator: &A, layout: Layout) -> *mut u8 {
    // SAFETY: no size here is zero.
    unsafe { allocator.alloc(layout) }
}

#[inline(never)]
fn allocate_zeroed<A: GlobalAlloc>(allocator: &A, layout: Layout) -> *mut u8 {
    // SAFETY: no size here is zero.
    unsafe { allocator.alloc_zeroed(layout) }
}

#[inline(never)]
fn reallocate<A: GlobalAlloc>(allocator: &A, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    // SAFETY: callers hand a block of that allocator and layout.
    unsafe { allocator.realloc(pointer, layout, size) }
}

#[inline(never)]
fn free<A: GlobalAlloc>(allocator: &A, pointer: *mut u8, layout: Layout) {
    // SAFETY: callers hand a block of that allocator and layout, once.
    unsafe { allocator.dealloc(pointer, layout) }
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn pairs<A: GlobalAlloc>(allocator: &A) -> u64 {
    const PAIRS: u64 = 100_000;
    let layout = black_box(layout(64, 8));
    (0..PAIRS).for_each(|_| free(allocator, black_box(allocate(allocator, layout)), layout));
    PAIRS
}

fn zeroed<A: GlobalAlloc>(allocator: &A) -> u64 {
    const PAIRS: u64 = 100_000;
    let layout = black_box(layout(64, 8));
    (0..PAIRS).for_each(|_| free(allocator, black_box(allocate_zeroed(allocator, layout)), layout));
    PAIRS
}

fn aligned<A: GlobalAlloc>(allocator: &A) -> u64 {
    const PAIRS: u64 = 100_000;
    let layout = black_box(layout(128, 64));
    (0..PAIRS).for_each(|_| free(allocator, black_box(allocate(allocator, layout)), layout));
    PAIRS
}

fn kept<A: GlobalAlloc>(allocator: &A) -> u64 {
    const PAIRS: u64 = 100_000;
    let mut kept = [(std::ptr::null_mut::<u8>(), layout(16, 8)); 4096];
    let mut random = 1_u64;
    for _ in 0..PAIRS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (pointer, former) = &mut kept[(random >> 52) as usize];
        if !pointer.is_null() {
            free(allocator, *pointer, *former);
        }
        *former = layout(16 + (random >> 32) as usize % 1024, 8);
        *pointer = allocate(allocator, *former);
    }
    kept.into_iter()
        .filter(|(pointer, _)| !pointer.is_null())
        .for_each(|(pointer, layout)| free(allocator, pointer, layout));
    PAIRS
}

/// Counts each reallocation as a pair, as it may be one.
fn grown<A: GlobalAlloc>(allocator: &A) -> u64 {
    const TIMES: u64 = 5_000;
    const STEPS: u64 = 8;
    for _ in 0..TIMES {
        let mut size = 16;
        let mut pointer = allocate(allocator, layout(size, 8));
        for _ in 0..STEPS {
            pointer = reallocate(allocator, pointer, layout(size, 8), 2 * size);
            size *= 2;
        }
        free(allocator, pointer, layout(size, 8));
    }
    TIMES * (STEPS + 1)
}

/// This thread's CPU time, nanoseconds.
fn cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time`.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds a pair of some work by an allocator.
fn time<A: GlobalAlloc>(allocator: &A, work: Work<A>) -> f64 {
    let began = cpu();
    let pairs = work(allocator);
    (cpu() - began) as f64 / pairs as f64
}

/// The quartiles.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn median(values: Vec<f64>) -> f64 {
    quartiles(values)[1]
}

/// Measures each work with and without the sampler: the median without, and the quartiles of what it adds while it is
/// on, and while it is off.
fn compare<A: GlobalAlloc, B: GlobalAlloc>(plain: &A, sampled: &B) -> Vec<(f64, [f64; 3], [f64; 3])> {
    let of_work = |(bare, with): (Work<A>, Work<B>)| {
        let (mut alone, mut on, mut off) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let first = time(plain, bare);
            HeapSampler::enable();
            let sampling = time(sampled, with);
            HeapSampler::disable();
            let second = time(plain, bare);
            let resting = time(sampled, with);
            // The first round warms up.
            if round > 0 {
                alone.push(second);
                on.push(sampling - first.midpoint(second));
                off.push(resting - second);
            }
        }
        (median(alone), quartiles(on), quartiles(off))
    };
    let pairs = works::<A>().into_iter().zip(works::<B>());
    pairs.map(|((_, bare), (_, with))| of_work((bare, with))).collect()
}

/// Measures each work by jemalloc alone: medians.
fn alone() -> Vec<f64> {
    works::<Jemalloc>()
        .into_iter()
        .map(|(_, work)| median((0..ROUNDS).map(|_| time(&Jemalloc, work)).collect()))
        .collect()
}

/// Runs this program with jemalloc set so, and reads the line of numbers it prints.
fn child(what: &str, configuration: &str) -> Vec<f64> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.env(CHILD, what).env("_RJEM_MALLOC_CONF", configuration).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn main() {
    match std::env::var(CHILD).as_deref() {
        Ok("alone") => return alone().iter().for_each(|value| print!("{value} ")),
        Ok(_) => {
            let rows = compare(&Jemalloc, &SAMPLED_JEMALLOC);
            return rows
                .iter()
                .for_each(|(alone, on, off)| print!("{alone} {} {} {} {} ", on[0], on[1], on[2], off[1]));
        }
        Err(_) => {}
    }
    println!(
        "ns of CPU time per allocation and freeing; what is added is the median (quartiles) of {ROUNDS} differences\n"
    );
    println!("{:<32} {:>8} {:>22} {:>10}", "by glibc's malloc", "alone", "+ sampler at 512 KiB", "+ it off");
    for ((name, _), (alone, on, off)) in works::<System>().iter().zip(compare(&SYSTEM, &SAMPLED_SYSTEM)) {
        println!("{name:<32} {alone:>8.2} {:>6.2} ({:>5.2} to {:>5.2}) {:>10.2}", on[1], on[0], on[2], off[1]);
    }
    let (mut plain, mut own, mut resting, mut sampled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        plain.push(child("alone", "prof:false"));
        own.push(child("alone", "prof:true,prof_active:true,lg_prof_sample:19"));
        resting.push(child("alone", "prof:true,prof_active:false"));
        sampled.push(child("sampled", "prof:false"));
    }
    let of = |runs: &[Vec<f64>], column: usize| median(runs.iter().map(|run| run[column]).collect());
    println!(
        "\n{:<32} {:>8} {:>22} {:>10} {:>22} {:>10}",
        "by jemalloc", "alone", "+ sampler at 512 KiB", "+ it off", "+ its own at 512 KiB", "+ it off"
    );
    for (index, (name, _)) in works::<Jemalloc>().iter().enumerate() {
        let alone = of(&plain, index);
        let [low, on, high, off] = [1, 2, 3, 4].map(|part| of(&sampled, 5 * index + part));
        let (own, resting) = (of(&own, index) - alone, of(&resting, index) - alone);
        println!(
            "{name:<32} {alone:>8.2} {on:>6.2} ({low:>5.2} to {high:>5.2}) {off:>10.2} {own:>22.2} {resting:>10.2}"
        );
    }
}
