//! Rust code run between two breakpoint instructions so that a tracer can step through it.

use std::arch::asm;
use std::collections::HashMap;
use std::fmt::Write;

#[inline(never)]
fn leaf(x: u64) -> u64 {
    x.wrapping_mul(3) + 1
}

#[inline(never)]
fn dynamic(shape: &dyn Fn(u64) -> u64, x: u64) -> u64 {
    shape(x) + shape(x + 1)
}

#[inline(never)]
fn recursive(n: u64) -> u64 {
    if n == 0 { leaf(1) } else { recursive(n - 1) + leaf(n) }
}

#[inline(never)]
fn big_frame(x: usize) -> u64 {
    let mut bytes = [0_u8; 50_000];
    bytes[x] = 7;
    std::hint::black_box(&mut bytes);
    u64::from(bytes[x])
}

#[inline(never)]
fn all() -> u64 {
    let mut text = String::new();
    let _ = write!(text, "{} {:?} {:.2}", 42, "text", 1.5);
    let mut numbers: Vec<u64> = (0..40).map(|i| i * 7919 % 101).collect();
    numbers.sort();
    let map: HashMap<u64, u64> = numbers.iter().map(|n| (*n, n * 2)).collect();
    let found = text.find("ext").map_or(0, |at| at as u64);
    let caught = std::panic::catch_unwind(|| leaf(5)).unwrap_or_default();
    let add = numbers[3];
    dynamic(&move |x| recursive(x & 3) + add, 2) + map[&numbers[7]] + found + caught + big_frame(9) + recursive(4)
}

fn main() {
    unsafe { asm!("int3") };
    std::hint::black_box(all());
    unsafe { asm!("int3") };
}
