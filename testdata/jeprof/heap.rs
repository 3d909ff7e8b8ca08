//! Allocates from Rust of several kinds and writes two heap dumps: heap A.heap B.heap
//! Build: rustc -g -O heap.rs; run with LD_PRELOAD=libjemalloc.so.2 and MALLOC_CONF=prof:true,prof_accum:true,lg_prof_sample:10

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_char, c_int, c_void};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

fn dump(path: &str) {
    let path = CString::new(path).unwrap();
    let mut pointer = path.as_ptr();
    // SAFETY: jemalloc is loaded, `mallctl` has this type, and `prof.dump` takes a pointer to a C string.
    let failed = unsafe {
        let mallctl = dlsym(std::ptr::null_mut(), c"mallctl".as_ptr());
        assert!(!mallctl.is_null(), "run it with jemalloc");
        let mallctl: Mallctl = std::mem::transmute(mallctl);
        mallctl(c"prof.dump".as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), (&raw mut pointer).cast(), size_of_val(&pointer))
    };
    assert_eq!(failed, 0);
}

trait Shape {
    fn grow(&mut self, by: usize);
}

struct Boxed(Vec<Box<[u8]>>);
struct Text(String);

impl Shape for Boxed {
    #[inline(never)]
    fn grow(&mut self, by: usize) {
        self.0.extend((0..by).map(|size| vec![1; 64 + size % 200].into_boxed_slice()));
    }
}

impl Shape for Text {
    #[inline(never)]
    fn grow(&mut self, by: usize) {
        for number in 0..by {
            self.0.push_str(&format!("number {number} "));
        }
    }
}

#[inline(never)]
fn index<Key: Ord + Clone, Value>(from: &[Key], make: impl Fn(&Key) -> Value) -> BTreeMap<Key, Value> {
    from.iter().map(|key| (key.clone(), make(key))).collect()
}

#[inline(never)]
fn count(words: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for word in words.split(' ') {
        *counts.entry(word.to_owned()).or_default() += 1;
    }
    counts
}

#[inline(never)]
fn passing(rounds: usize) -> usize {
    (0..rounds).map(|round| vec![round; 300].into_iter().map(|number| number.to_string()).collect::<String>().len()).sum()
}

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let mut shapes: Vec<Box<dyn Shape>> = vec![Box::new(Boxed(Vec::new())), Box::new(Text(String::new()))];
    let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();
    for (turn, path) in paths.iter().enumerate() {
        for shape in &mut shapes {
            shape.grow(2000 + 1000 * turn);
        }
        let keys: Vec<u32> = (0..3000).collect();
        kept.push(Box::new(index(&keys, |key| vec![*key; 20])));
        kept.push(Box::new(index(&keys, |key| key.to_string())));
        let other = std::thread::spawn(|| count(&"some words again and again ".repeat(50)));
        kept.push(Box::new(other.join().unwrap()));
        std::hint::black_box(passing(400));
        dump(path);
    }
    std::hint::black_box(&kept);
}
