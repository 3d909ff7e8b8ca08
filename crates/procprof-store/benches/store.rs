//! Measures listing the newest page of a large store, opening it, and rebuilding its catalog.
//!
//! `cargo bench -p procprof-store --bench store -- [profiles listed] [profiles rebuilt]`, by default 100,000 and 10,000
//! of about 8 KiB. Files are written without syncing, as an import from a backup would; only the printed figures
//! measure the store.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use procprof_profile::{Meta, Nanos, ProfileId};
use procprof_store::{
    Column, Encoded, Filter, NewProfile, Order, PageRequest, RetentionLimits, RowQuery, Store, StoreOptions, Summary,
    TopFunction, Total,
};

#[path = "../tests/support.rs"]
#[allow(dead_code)]
mod support;

const NODES: u64 = 10;

fn facts(number: u64) -> Meta {
    Meta {
        id: Some(ProfileId(u128::from(number) << 64 | 0x8000_0000_0000_0001)),
        engine: "gperftools".to_owned(),
        means: "CPU time of all threads, sampled 100 times a second".to_owned(),
        ..support::meta(
            0,
            10001 + number % NODES,
            ["cpu", "heap", "contention"][number as usize / 10 % 3],
            support::START + number as i64 * support::SECOND,
        )
    }
}

fn summary() -> Summary {
    let top = |at: i64| TopFunction {
        name: format!("starrocks::pipeline::PipelineDriver::process_{at}(starrocks::RuntimeState*, int)"),
        value: 1000 - at,
        ..TopFunction::default()
    };
    let total = |kind: &str, unit: &str| Total { kind: kind.to_owned(), unit: unit.to_owned(), value: 123_456_789 };
    Summary {
        totals: vec![total("samples", "count"), total("cpu", "nanoseconds")],
        samples: 700,
        threads: 12,
        top: (0..10).map(top).collect(),
        thumbnail: vec![7; 120],
    }
}

/// Puts one profile, and writes the others as copies of its file with their own facts in front.
fn fill(data: &Path, count: u64) {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path(), StoreOptions::default()).unwrap();
    let mut times = Vec::new();
    for number in 0..count {
        let meta = facts(number);
        let (node, id, start) = (meta.node.unwrap(), meta.id.unwrap(), meta.end.unwrap().0);
        let folder = data.join("profiles").join(node.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let template = facts(number % 30);
        let bytes = if number < 30 {
            let encoded = support::pprof(&meta, 8000);
            let started = Instant::now();
            store
                .put(NewProfile {
                    meta,
                    encoded: Encoded::Received(&encoded),
                    summary: summary(),
                    functions: None,
                    start: Nanos(start),
                    duration: Nanos(0),
                })
                .unwrap();
            times.push(started.elapsed());
            store.open_bytes(id).unwrap()
        } else {
            let like = store.open_bytes(template.id.unwrap()).unwrap();
            replace(
                replace(like, &template.id.unwrap().to_string(), &id.to_string()),
                &template.end.unwrap().0.to_string(),
                &start.to_string(),
            )
        };
        let prefix = template.profile_type.unwrap();
        let seconds = number;
        let (day, second) = (seconds / 86_400, seconds % 86_400);
        let name = format!(
            "{}-profile-202511{:02}-{:02}{:02}{:02}-pprof.gz",
            prefix.prefix(),
            1 + day,
            second / 3600,
            second / 60 % 60,
            second % 60
        );
        std::fs::File::create(folder.join(name)).unwrap().write_all(&bytes).unwrap();
    }
    println!("put: median {:?} of {}", median(&mut times), times.len());
}

/// Replaces text of the same length in the header, which is not compressed.
fn replace(mut bytes: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut at = 0;
    while let Some(found) =
        bytes[at..4096.min(bytes.len())].windows(from.len()).position(|window| window == from.as_bytes())
    {
        bytes[at + found..at + found + from.len()].copy_from_slice(to.as_bytes());
        at += found + from.len();
    }
    bytes
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn time<T>(what: &str, mut job: impl FnMut() -> T) {
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let started = Instant::now();
            job();
            started.elapsed()
        })
        .collect();
    let first = times[0];
    println!("{what}: first {first:?}, median {:?}, worst {:?}", median(&mut times), times[20]);
}

fn list(store: &Store, count: u64) {
    let page = |filter: &Filter, limit: usize| store.list(filter, &PageRequest::first(limit)).unwrap().rows.len();
    let all = Filter::default();
    assert_eq!(page(&all, 1000), 1000);
    time("list newest 50", || page(&all, 50));
    time("list newest 1000", || page(&all, 1000));
    let one = Filter { nodes: vec![10003], types: vec!["heap".parse().unwrap()], ..all.clone() };
    time("list newest 50 of a node and type", || page(&one, 50));
    let some = Filter { nodes: vec![10003, 10004], ..all.clone() };
    time("list newest 50 of two nodes", || page(&some, 50));
    let label = Filter { labels: vec![("zone".into(), "none".into())], ..all.clone() };
    time("list a label that nothing has", || page(&label, 50));
    let text = Filter { text: Some("nothing has this".into()), ..all.clone() };
    time("list a text that nothing has", || page(&text, 50));
    let middle = store
        .list(
            &Filter { to: Some(Nanos(support::START + count as i64 / 2 * support::SECOND)), ..all.clone() },
            &PageRequest::first(1),
        )
        .unwrap();
    let after = middle.next.unwrap();
    time("list 50 from the middle on", || store.list(&all, &PageRequest::after(50, after)).unwrap().rows.len());
    let rows = |columns: &[Column], order: Order| {
        let mut rows = store.rows(&RowQuery { columns: columns.to_vec(), order, ..RowQuery::default() }).unwrap();
        let mut found = 0;
        while let Some(batch) = rows.next(4096).unwrap() {
            found += batch.rows as u64;
        }
        assert_eq!(found, count);
    };
    time("rows, none of their columns", || rows(&[], Order::Any));
    time("rows, node, type and bytes", || rows(&[Column::Node, Column::Type, Column::Bytes], Order::Any));
    time("rows, all columns", || rows(&Column::ALL, Order::Any));
    time("rows, all columns, newest first", || rows(&Column::ALL, Order::NewestFirst));
    time("get", || store.get(facts(count / 2).id.unwrap()).unwrap());
    time("usage", || store.usage().unwrap());
    let limits = RetentionLimits {
        retained_days: 9999,
        retained_size_bytes: u64::MAX,
        data_bytes_max: u64::MAX,
        free_bytes_min: 0,
    };
    time("retain, nothing to delete", || {
        assert!(store.retain(&limits, Nanos(support::START)).unwrap().profiles.is_empty())
    });
}

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let (listed, rebuilt): (u64, u64) = (numbers.next().unwrap_or(100_000), numbers.next().unwrap_or(10_000));
    for (count, lists) in [(rebuilt, false), (listed, true)] {
        let data = tempfile::tempdir().unwrap();
        fill(data.path(), count);
        let store = Store::open(data.path(), StoreOptions::default()).unwrap();
        assert_eq!((store.opened().reconciled.added, store.opened().reconciled.odd_count), (count, 0));
        println!("{count} profiles: first opening {:?}", store.opened().took);
        println!("{count} profiles: rebuild {:?}", store.rebuild().unwrap().took);
        drop(store);
        let store = Store::open(data.path(), StoreOptions::default()).unwrap();
        assert_eq!((store.opened().reconciled.added, &store.opened().rebuilt), (0, &None));
        println!("{count} profiles: opening again {:?}", store.opened().took);
        if lists {
            list(&store, count);
        }
    }
}
