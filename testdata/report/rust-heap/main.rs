//! Keeps memory that six functions allocated, each in another way, and dumps jemalloc's heap profile to the file named.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CString, c_char};
use std::hint::black_box;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const KIB: usize = 1 << 10;

#[inline(never)]
fn grow_cache() -> Vec<Vec<u8>> {
    (0..160).map(|_| black_box(vec![0x5a; 64 * KIB])).collect()
}

#[inline(never)]
fn write_log(line: &str) -> String {
    let mut log = String::new();
    while log.len() < 3000 * KIB {
        log.push_str(black_box(line));
    }
    log
}

#[inline(never)]
fn load_pages() -> VecDeque<Box<[u8; 4096]>> {
    let mut pages = VecDeque::new();
    (0..600).for_each(|_| pages.push_back(black_box(Box::new([1; 4096]))));
    pages
}

#[inline(never)]
fn share_blocks() -> Vec<Arc<[u64; 1024]>> {
    let mut blocks = Vec::new();
    for _ in 0..150 {
        blocks.push(Arc::new(black_box([7; 1024])));
    }
    blocks
}

#[inline(never)]
fn index_keys() -> HashMap<u64, [u64; 7]> {
    let mut index = HashMap::new();
    for key in 0..12_000 {
        index.insert(black_box(key), [key; 7]);
    }
    index
}

#[inline(never)]
fn reserve_buffer() -> Vec<u64> {
    Vec::with_capacity(black_box(64 * KIB))
}

fn main() {
    let kept = (grow_cache(), write_log("a line of the log\n"), load_pages(), share_blocks(), index_keys(), reserve_buffer());
    let path = CString::new(std::env::args().nth(1).expect("the file to write")).expect("a path without a zero byte");
    let mut path: *const c_char = path.as_ptr();
    // SAFETY: `prof.dump` reads one pointer to a C string.
    let error = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"prof.dump".as_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            (&raw mut path).cast(),
            size_of::<*const c_char>(),
        )
    };
    assert_eq!(error, 0, "prof.dump");
    black_box(kept);
}
