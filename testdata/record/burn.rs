//! `burn.c` in Rust: trait objects, closures and generic functions. `burn SECONDS` prints nothing.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Rounds differ in length, so that samples at a steady rate do not find the same part of each.
static SCALE: AtomicU64 = AtomicU64::new(100);

#[inline(never)]
fn spin(count: u64) {
    for number in 0..count * SCALE.load(Ordering::Relaxed) {
        black_box(number);
    }
}

trait Work {
    fn run(&self);
}
struct HotA(u64);
struct HotB(u64);
impl Work for HotA {
    #[inline(never)]
    fn run(&self) {
        spin(self.0);
        black_box(self);
    }
}
// Not the same instructions, so that the two are not merged.
impl Work for HotB {
    #[inline(never)]
    fn run(&self) {
        spin(self.0);
        black_box(self.0 + 1);
    }
}

#[inline(never)]
fn deep(depth: u32, callback: &dyn Fn()) -> u32 {
    if depth == 0 {
        callback();
        return black_box(1);
    }
    black_box(deep(depth - 1, callback)) + 1
}

/// CPU time of this process: fields 14 and 15 of its line, in hundredths of a second.
fn used() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    Duration::from_millis(10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()))
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(1.0, |word| word.parse().unwrap());
    let all: Vec<Box<dyn Work>> = vec![Box::new(HotA(7_000)), Box::new(HotB(3_000))];
    let callback = || all.iter().for_each(|work| work.run());
    let mut random = 1_u64;
    while used().as_secs_f64() < seconds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        SCALE.store(50 + (random >> 33) % 101, Ordering::Relaxed);
        deep(20, &callback);
    }
}
