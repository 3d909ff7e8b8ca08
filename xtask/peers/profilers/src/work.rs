//! CPU work of known shape.

use crate::clock::thread_cpu;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::time::{Duration, Instant};

macro_rules! burner {
    ($name:ident, $mark:literal) => {
        /// Burns about `units` microseconds in a loop that is all its own code; the mark keeps functions that are the
        /// same from becoming one.
        #[inline(never)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(units: u64) {
            let mut _rounds = units * 1500;
            // SAFETY: counts a register down.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::asm!("mov {1:e}, {mark}", "2:", "dec {0}", "jnz 2b", inout(reg) _rounds, out(reg) _, mark = const $mark)
            };
            // SAFETY: counts a register down.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                std::arch::asm!("mov {1}, {mark}", "2:", "subs {0}, {0}, #1", "b.ne 2b", inout(reg) _rounds, out(reg) _, mark = const $mark)
            };
        }
    };
}

burner!(hot_70, 70);
burner!(hot_30, 30);

/// Bytes of code that a burner has at most.
#[cfg(any(feature = "ours", feature = "gperftools"))]
pub const BURNER_BYTES: u64 = 32;

/// Splits the thread's time 70 to 30 in pieces of changing length until it has used `cpu`.
#[inline(never)]
pub fn split_70_30(cpu: Duration) {
    let (mut random, end) = (0x9e37_79b9_u64, thread_cpu() + cpu.as_nanos() as u64);
    while thread_cpu() < end {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let units = 1 + random % 40;
        hot_70(7 * units);
        hot_30(3 * units);
    }
}

/// Sorts, formats, hashes, allocates, copies, and calls back from the C library, until it has used `cpu`.
pub fn of_all_kinds(cpu: Duration) {
    let end = thread_cpu() + cpu.as_nanos() as u64;
    let mut numbers: Vec<u64> = (0..2_000).collect();
    while thread_cpu() < end {
        numbers.iter_mut().for_each(|number| *number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
        let mut texts: Vec<String> = numbers.iter().map(|number| format!("{number:x}")).collect();
        texts.sort();
        let lengths: HashMap<&str, usize> = texts.iter().map(|text| (text.as_str(), text.len())).collect();
        black_box(lengths.values().sum::<usize>());
        black_box(texts.concat());
        let mut copy = numbers.clone();
        // SAFETY: the elements are that many and that long, and the order is total.
        unsafe { libc::qsort(copy.as_mut_ptr().cast(), copy.len(), size_of::<u64>(), Some(order)) };
        black_box(copy);
    }
}

extern "C" fn order(one: *const c_void, other: *const c_void) -> c_int {
    // SAFETY: `qsort` hands elements of its array.
    unsafe { (*one.cast::<u64>()).cmp(&*other.cast::<u64>()) as c_int }
}

/// Works for `work` of CPU time, once each `period`.
pub fn bursts(work: Duration, period: Duration, length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        let next = Instant::now() + period;
        let end = thread_cpu() + work.as_nanos() as u64;
        while thread_cpu() < end {
            hot_70(10);
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Threads that live for 20 ms of CPU time each, one after the other.
pub fn short_threads(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        let thread = std::thread::spawn(|| {
            while thread_cpu() < 20_000_000 {
                hot_70(50);
            }
        });
        thread.join().expect("a short thread panicked");
    }
}
