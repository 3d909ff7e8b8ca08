//! Profiles that the tests share.

use std::path::PathBuf;

use procprof_profile::format::{Limits, decode};
use procprof_profile::{Addr, Function, Line, Location, Mapping, Meta, Nanos, Profile, ProfileBuilder, ProfileType};
use procprof_report::{Options, Sources, render};

/// A folder of this crate's inputs and goldens.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/report")
}

/// A captured profile from the folder.
pub(crate) fn file(name: &str) -> Profile {
    let bytes = std::fs::read(folder().join(name)).unwrap();
    decode(&bytes, &Limits::default()).unwrap().profile
}

/// A report as bytes.
pub(crate) fn bytes(profile: &Profile, kind: &str, pairs: &[(&str, &str)]) -> Vec<u8> {
    let options = Options::parse(pairs.iter().copied()).unwrap();
    render(profile, kind, &options, &Sources::default()).unwrap()
}

/// A report as text.
pub(crate) fn text(profile: &Profile, kind: &str, pairs: &[(&str, &str)]) -> String {
    String::from_utf8(bytes(profile, kind, pairs)).unwrap()
}

/// A profile of stacks, root first.
pub(crate) fn stacks(stacks: &[(&[&str], i64)]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    for (stack, value) in stacks {
        let frames: Vec<_> = stack.iter().rev().map(|name| builder.frame(name)).collect();
        builder.sample(&frames, &[*value], &[]);
    }
    builder.finish().unwrap()
}

/// Every kind of frame, inlining, recursion, code without symbols, losses.
pub(crate) fn mixed() -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let mut mapping = |filename: &str, build_id: &str, start: u64, has_functions: bool| {
        let (filename, build_id) = (builder.intern(filename), builder.intern(build_id));
        let (start, limit) = (Addr(start), Addr(start + 0x100_0000));
        builder.mapping(Mapping { start, limit, filename, build_id, has_functions, ..Mapping::default() })
    };
    let main = mapping("/usr/bin/server", "0123456789abcdef", 0x40_0000, true);
    let library = mapping("/usr/lib/libfoo.so.1", "feedface", 0x7f00_0000_0000, false);
    let kernel = mapping("[kernel]", "", 0xffff_8000_0000_0000, true);
    let mut line = |name: &str, file: &str, line: i64| {
        let (name, filename) = (builder.intern(name), builder.intern(file));
        let function = builder.function(Function { name, system_name: name, filename, start_line: 1 });
        Line { function, line, column: 0 }
    };
    let work = line("std::vec::Vec<T>::push", "/src/vec.rs", 12);
    let inner = line("core::ptr::write", "/src/ptr.rs", 7);
    let serve = line("server::serve", "/src/serve.rs", 40);
    let syscall = line("do_syscall_64", "", 0);
    let java = line("com.example.Store.get", "Store.java", 9);
    let go = line("main.handle", "/src/handle.go", 3);
    let at = |mapping, address| {
        let mut location = Location::default();
        (location.mapping, location.address) = (mapping, Addr(address));
        location
    };
    let serve = builder.location(at(Some(main), 0x40_1000), &[serve]);
    let work = builder.location(at(Some(main), 0x40_2000), &[inner, work]);
    let unnamed = builder.location(at(Some(library), 0x7f00_0000_1234), &[]);
    let nowhere = builder.location(at(None, 0x1234), &[]);
    let syscall = builder.location(at(Some(kernel), 0xffff_8000_0000_1000), &[syscall]);
    let java = builder.location(at(None, 0), &[java]);
    let go = builder.location(at(None, 0x50_0000), &[go]);
    let unsampled = builder.frame("[unsampled CPU]");
    for (stack, samples) in [
        (vec![work, serve], 40),
        (vec![serve, serve], 6),
        (vec![syscall, unnamed, serve], 20),
        (vec![nowhere], 4),
        (vec![java], 15),
        (vec![go], 10),
        (vec![unsampled], 5),
    ] {
        builder.sample(&stack, &[samples, samples * 10_000_000], &[]);
    }
    builder.time(Nanos(1_700_000_000_000_000_000), Nanos(10_000_000_000));
    builder.period("cpu", "nanoseconds", 10_000_000);
    let meta = Meta {
        node_name: "BE 10.0.0.7:8040".to_owned(),
        role: "BE".to_owned(),
        profile_type: Some(ProfileType::Cpu),
        lost: Some(3),
        unsampled: Some(50_000_000),
        ..Meta::default()
    };
    meta.to_comments().iter().for_each(|comment| builder.comment(comment));
    builder.finish().unwrap()
}

/// A seeded walk: many long stacks over many names, a few of them wide.
pub(crate) fn walk(stacks: usize, depth: usize) -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let frames: Vec<_> =
        (0..18_000).map(|index| builder.frame(&format!("module{}::path::function_{index}", index % 97))).collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 33) as usize % below
    };
    let mut path: Vec<_> = Vec::new();
    for _ in 0..stacks {
        let kept = path.len().min(random(depth));
        path.truncate(kept);
        while path.len() < depth / 2 + random(depth / 2) {
            path.push(frames[random(frames.len())]);
        }
        let stack: Vec<_> = path.iter().rev().copied().collect();
        builder.sample(&stack, &[10_000_000], &[]);
    }
    builder.finish().unwrap()
}

/// Samples with labels: texts, numbers with and without units, several values of a key, and stacks that differ in
/// labels alone.
pub(crate) fn labels() -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("inuse_space", "bytes")]);
    let frames: Vec<_> = ["main", "serve", "alloc", "parse"].iter().map(|name| builder.frame(name)).collect();
    let (main, serve, alloc, parse) = (frames[0], frames[1], frames[2], frames[3]);
    for index in 0..24i64 {
        let class = builder.text_label("class", ["alpha", "beta", "b&q"][(index % 3) as usize]);
        let tenant = builder.text_label("tenant", if index % 2 == 0 { "one" } else { "two" });
        let bytes = builder.number_label("bytes", 64 << (index % 8), if index % 5 == 0 { "bytes" } else { "" });
        let request = builder.number_label("request", 1000 * index, "");
        let wait = builder.number_label("wait", 15 + index, "milliseconds");
        let labels = [class, tenant, bytes, request, wait];
        let stack = if index % 4 == 0 { vec![parse, serve, main] } else { vec![alloc, serve, main] };
        builder.sample(&stack, &[1 + index % 3, 4096 * (index + 1)], &labels[..(1 + index % 5) as usize]);
    }
    builder.sample(&[serve, main], &[2, 777], &[]);
    builder.finish().unwrap()
}

/// Allocations of six sizes in one function: the larger, the fewer.
pub(crate) fn sizes() -> Profile {
    let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
    let stack = [builder.frame("alloc"), builder.frame("main")];
    for (size, count) in [(16, 9000), (48, 2000), (512, 100), (4096, 8), (32_768, 1), (65_536, 1)] {
        let label = builder.number_label("bytes", size, "bytes");
        builder.sample(&stack, &[count, count * size], &[label]);
    }
    builder.finish().unwrap()
}

/// Lines with columns, inlined and not, several of one line.
pub(crate) fn columns() -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let filename = builder.intern("/usr/bin/server");
    let mapping =
        builder.mapping(Mapping { start: Addr(0x40_0000), limit: Addr(0x50_0000), filename, ..Mapping::default() });
    let mut function = |name: &str, file: &str| {
        let (name, filename) = (builder.intern(name), builder.intern(file));
        builder.function(Function { name, system_name: name, filename, start_line: 3 })
    };
    let (main, work, inner) =
        (function("main", "/src/main.rs"), function("work", "/src/work.rs"), function("inner", "/src/inner.rs"));
    let line = |function, line, column| Line { function, line, column };
    let mut at = |address: u64, lines: &[Line]| builder.location(Location::new(Some(mapping), Addr(address)), lines);
    let root = at(0x40_1000, &[line(main, 5, 9)]);
    let leaves = [
        at(0x40_2000, &[line(inner, 12, 4), line(work, 30, 17)]),
        at(0x40_2008, &[line(inner, 12, 21), line(work, 30, 17)]),
        at(0x40_2010, &[line(work, 30, 40)]),
        at(0x40_2018, &[line(work, 31, 0)]),
    ];
    for (index, leaf) in leaves.into_iter().enumerate() {
        let count = 7 - index as i64;
        builder.sample(&[leaf, root], &[count, count * 10_000_000], &[]);
    }
    builder.comment("taken by hand");
    builder.finish().unwrap()
}
