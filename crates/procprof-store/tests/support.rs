//! Small profiles and folders to test with.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use procprof_profile::{Meta, Nanos, ProfileId, ProfileType};
use procprof_store::{
    Encoded, Entry, Filter, NewProfile, PageRequest, Result, Store, StoreOptions, Summary, TopFunction, Total,
};

pub(crate) const SECOND: i64 = 1_000_000_000;
/// 2025-11-20 22:25:34 UTC.
pub(crate) const START: i64 = 1_763_677_534 * SECOND;

pub(crate) fn id(number: u128) -> ProfileId {
    ProfileId(0x0193_0c5e_7d1a_7000_8000_0000_0000_0000 | number)
}

pub(crate) fn meta(number: u128, node: u64, profile_type: &str, end: i64) -> Meta {
    Meta {
        id: Some(id(number)),
        node: Some(node),
        node_name: format!("node {node}"),
        cluster: "default".to_owned(),
        profile_type: Some(profile_type.parse().unwrap()),
        trigger: "schedule".to_owned(),
        end: Some(Nanos(end)),
        ..Meta::default()
    }
}

/// A gzip'd pprof of one sample, with the facts in its comments, and `padding` bytes that do not compress.
pub(crate) fn pprof(meta: &Meta, padding: usize) -> Vec<u8> {
    let mut strings = vec![String::new(), "samples".into(), "count".into(), "hot_70".into()];
    let comments = meta.to_comments();
    strings.extend(comments.iter().cloned());
    let mut noise: u32 = 1;
    let mut letter = || {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b' ' + (noise >> 24) as u8 % 95)
    };
    strings.push((0..padding).map(|_| letter()).collect());
    let mut out = Vec::new();
    field(&mut out, 1, &[8, 1, 16, 2]);
    field(&mut out, 2, &[10, 1, 1, 18, 1, 7]);
    field(&mut out, 4, &[8, 1, 34, 4, 8, 1, 16, 42]);
    field(&mut out, 5, &[8, 1, 16, 3, 24, 3]);
    for string in &strings {
        field(&mut out, 6, string.as_bytes());
    }
    for (at, _) in comments.iter().enumerate() {
        out.push(13 << 3);
        varint(&mut out, at as u64 + 4);
    }
    gzip(&out)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn summary(top: &str) -> Summary {
    Summary {
        totals: vec![Total { kind: "samples".into(), unit: "count".into(), value: 7 }],
        samples: 1,
        threads: 3,
        top: vec![TopFunction { name: top.to_owned(), value: 7, ..TopFunction::default() }],
        thumbnail: vec![1, 2, 0, 255],
    }
}

pub(crate) fn put_meta(store: &Store, meta: Meta, start: i64, padding: usize) -> Result<Entry> {
    let encoded = pprof(&meta, padding);
    store.put(NewProfile {
        meta,
        encoded: Encoded::Received(&encoded),
        summary: summary("hot_70"),
        functions: None,
        start: Nanos(start),
        duration: Nanos(10 * SECOND),
    })
}

pub(crate) fn put(store: &Store, number: u128, node: u64, profile_type: &str, start: i64) -> Result<Entry> {
    put_meta(store, meta(number, node, profile_type, start + 10 * SECOND), start, 0)
}

pub(crate) fn open(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

/// Every entry, by pages of `limit`.
pub(crate) fn all(store: &Store, limit: usize) -> Vec<Entry> {
    let mut page = PageRequest::first(limit);
    let mut entries = Vec::new();
    loop {
        let found = store.list(&Filter::default(), &page).unwrap();
        entries.extend(found.rows);
        let Some(next) = found.next else { return entries };
        page = PageRequest::after(limit, next.to_string().parse().unwrap());
    }
}

/// Names of all files under `DATA/profiles`, as `node/name`.
pub(crate) fn files(data: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for node in std::fs::read_dir(data.join("profiles")).unwrap() {
        let node = node.unwrap();
        for file in std::fs::read_dir(node.path()).unwrap() {
            names.push(format!("{}/{}", node.file_name().display(), file.unwrap().file_name().display()));
        }
    }
    names.sort();
    names
}

pub(crate) fn cpu() -> ProfileType {
    ProfileType::Cpu
}
