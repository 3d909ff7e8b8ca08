//! CPU work of known shape.

use crate::clock::thread_cpu;
use std::time::{Duration, Instant};

macro_rules! burner {
    ($name:ident) => {
        /// Burns about `units` microseconds in a loop that is all its own code.
        #[inline(never)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(units: u64) {
            let mut _rounds = units * 1500;
            // SAFETY: counts a register down.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::asm!("2:", "dec {0}", "jnz 2b", inout(reg) _rounds)
            };
            // SAFETY: counts a register down.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                std::arch::asm!("2:", "subs {0}, {0}, #1", "b.ne 2b", inout(reg) _rounds)
            };
        }
    };
}

burner!(hot_70);
burner!(hot_30);

/// Bytes of code that a burner has at most.
pub const BURNER_BYTES: u64 = 64;

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
