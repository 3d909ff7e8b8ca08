//! Work of many kinds: sorting with calls back from the C library, text, numbers, maps, copies, system calls, panics
//! and threads.

use crate::work::thread_cpu;
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::time::Duration;

/// Kinds of work, a fraction of a millisecond each.
const KINDS: &[fn()] = &[sort, text, numbers, maps, copies, system_calls, panics, deep, births];

/// Does all kinds in turn for so much CPU time.
pub(crate) fn work(cpu: Duration) {
    std::panic::set_hook(Box::new(|_| ()));
    while thread_cpu() < cpu {
        KINDS.iter().for_each(|kind| (0..8).for_each(|_| kind()));
    }
    drop(std::panic::take_hook());
}

extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
    // SAFETY: `qsort` hands two of the numbers it was given.
    unsafe { (*a.cast::<u32>()).cmp(&*b.cast::<u32>()) as libc::c_int }
}

fn sort() {
    let mut numbers: Vec<u32> = (0..800_u32).map(|index| index.wrapping_mul(2_654_435_761)).collect();
    // SAFETY: as many numbers of that size as there are.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), size_of::<u32>(), Some(compare)) };
    numbers.sort_by_key(|number| number.reverse_bits());
    black_box(numbers);
}

fn text() {
    let text: String = (0..300).map(|index| format!("{index:05} ")).collect();
    black_box(text.split(' ').rev().filter(|word| word.contains('7')).collect::<Vec<_>>().join(","));
}

fn numbers() {
    let parsed: f64 = (0..300).map(|index| format!("{index}.{index:03}e-3").parse::<f64>().unwrap().sin().exp()).sum();
    // SAFETY: a function of the C library on plain numbers.
    black_box(parsed + unsafe { libc::strtod(c"3.14159265358979".as_ptr(), std::ptr::null_mut()) });
}

fn maps() {
    let hashed: HashMap<u64, String> = (0..300).map(|key| (key, key.to_string())).collect();
    let ordered: BTreeMap<&str, u64> = hashed.iter().map(|(key, text)| (text.as_str(), *key)).collect();
    black_box(ordered.range("2".."7").count());
}

fn copies() {
    let mut source = vec![1_u8; 256 << 10];
    for _ in 0..4 {
        source.rotate_left(1000);
        black_box(source.clone().iter().rposition(|byte| *byte == 0));
    }
}

fn system_calls() {
    for _ in 0..20 {
        black_box(std::fs::metadata("/proc/self/status").is_ok());
    }
    black_box(std::fs::read("/proc/self/stat").unwrap());
}

fn panics() {
    for _ in 0..10 {
        black_box(std::panic::catch_unwind(|| deeper(12, &|| panic!("of this bench"))).is_err());
    }
}

fn deep() {
    deeper(60, &text);
}

#[inline(never)]
fn deeper(depth: usize, body: &dyn Fn()) -> usize {
    if depth == 0 {
        body();
        return 0;
    }
    black_box(deeper(depth - 1, body)) + 1
}

fn births() {
    std::thread::spawn(sort).join().unwrap();
}
