//! Registers that lie: frame pointers to anywhere, stack pointers to memory that does not exist, stacks whose
//! neighbours have gone.

use super::isolated::isolated;
use super::storm::Storm;
use super::{capture, fact};
use crate::options::CpuEngine;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Barrier};
use std::time::Duration;

const PAGE: usize = 4096;

/// Spins `rounds` with a frame pointer and a stack pointer as given.
type Spin = extern "C" fn(fp: u64, rounds: u64, sp: u64);

/// Code without unwind tables, where a walk has nothing but the registers.
fn spin_code() -> Spin {
    const CODE: [u8; 20] = [
        0x55, 0x48, 0x89, 0xfd, 0x49, 0x89, 0xe0, 0x48, 0x89,
        0xd4, // push rbp; mov rbp, rdi; mov r8, rsp; mov rsp, rdx
        0x48, 0xff, 0xce, 0x75, 0xfb, 0x4c, 0x89, 0xc4, 0x5d, 0xc3, // dec rsi; jnz; mov rsp, r8; pop rbp; ret
    ];
    let page = map(PAGE);
    // SAFETY: a fresh page, written within its length and then made executable; it holds a function of that type and is
    // never unmapped.
    unsafe {
        page.cast::<[u8; 20]>().write(CODE);
        assert_eq!(libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_EXEC), 0);
        std::mem::transmute(page)
    }
}

fn map(bytes: usize) -> *mut c_void {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh private mapping.
    let memory = unsafe { libc::mmap(null_mut(), bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    memory
}

/// A place in this thread's stack, some way below what is in use.
fn below_this_frame() -> u64 {
    let local = 0_u64;
    (&raw const local as u64 - 8192) & !15
}

#[test]
fn registers_that_lie_end_a_walk_and_nothing_else() {
    isolated("cpu::safety::corrupted::registers_that_lie_end_a_walk_and_nothing_else", || {
        let spin = spin_code();
        let capture = capture(1000, CpuEngine::Auto);
        let storm = Storm::start();
        let worker = std::thread::spawn(move || lie(spin, Duration::from_millis(1500)));
        worker.join().unwrap();
        storm.end();
        let profile = capture.finish().unwrap();
        let [cut, scanned, leaf_only] =
            ["samples-without-root", "samples-by-scan", "leaf-only-samples"].map(|key| fact(&profile, key));
        println!("{} samples, {cut} without root, {scanned} by a scan, {leaf_only} of leaves only", profile.total(0));
        assert!(
            cut + scanned > 100 && leaf_only > 10,
            "{cut} without root, {scanned} by a scan, {leaf_only} of leaves only"
        );
    });
}

fn lie(spin: Spin, length: Duration) {
    let (end, mut random, mut rounds) = (cpu_time() + length, 0x9e37_79b9_7f4a_7c15_u64, 0_usize);
    while cpu_time() < end {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let sp = below_this_frame();
        let pointers = [
            0,
            1,
            8,
            sp,
            sp - 8,
            sp + 8,
            sp + 1,
            sp + 8 * (random % 4096),
            random,
            random & !7,
            u64::MAX,
            u64::MAX - 7,
            1 << 63,
        ];
        let stacks = [sp, sp, sp, sp, sp, sp, 0x1000, 8, random >> 17 & !15, !15];
        spin(pointers[rounds % pointers.len()], 200_000, stacks[rounds % stacks.len()]);
        rounds += 1;
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    Duration::from_nanos(crate::clock::own_cpu())
}

/// A stack that the program has mapped itself can't be separated from its neighbours: they were one mapping when the
/// snapshot was taken.
#[test]
fn a_stack_whose_neighbour_was_unmapped_is_walked_without_a_fault() {
    isolated("cpu::safety::corrupted::a_stack_whose_neighbour_was_unmapped_is_walked_without_a_fault", || {
        let spin = spin_code();
        let memory = map(16 * PAGE) as u64;
        let barrier = Arc::new(Barrier::new(2));
        let turn = barrier.clone();
        let worker = std::thread::spawn(move || {
            turn.wait();
            let end = cpu_time() + Duration::from_secs(1);
            while cpu_time() < end {
                spin(memory + 12 * PAGE as u64, 200_000, memory + 4 * PAGE as u64);
            }
        });
        let storm = Storm::start();
        let capture = capture(1000, CpuEngine::Tick);
        // A snapshot of the mappings is taken meanwhile.
        std::thread::sleep(Duration::from_millis(300));
        // SAFETY: the upper half is not in use.
        assert_eq!(unsafe { libc::munmap((memory as usize + 8 * PAGE) as *mut c_void, 8 * PAGE) }, 0);
        barrier.wait();
        worker.join().unwrap();
        storm.end();
        let profile = capture.finish().unwrap();
        println!("{} samples, {} without root", profile.total(0), fact(&profile, "samples-without-root"));
        assert!(fact(&profile, "samples-without-root") > 100);
    });
}
