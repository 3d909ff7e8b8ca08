//! Cached renderings.

use procprof_profile::Nanos;
use procprof_store::{CacheKey, RetentionLimits, Store, StoreOptions};

use crate::support::{START, id, open, put};

fn key(what: &str) -> CacheKey<'_> {
    CacheKey { node: Some(10001), profile: None, what }
}

#[test]
fn renderings_are_given_again_also_after_opening() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let of_one = CacheKey { node: Some(10001), profile: Some(id(1)), what: "svg" };
    let of_many = CacheKey { node: None, profile: None, what: "svg" };
    assert_eq!(store.cache_get(&of_one), None);
    assert!(store.cache_put(&of_one, b"one", Nanos(START)).unwrap());
    assert!(store.cache_put(&of_many, b"many", Nanos(START)).unwrap());
    assert!(store.cache_put(&of_one, b"newer", Nanos(START + 1)).unwrap());
    drop(store);
    std::fs::write(folder.path().join("cache/nonsense"), "x").unwrap();
    let store = open(folder.path());
    assert_eq!(store.cache_get(&of_one).as_deref(), Some(b"newer".as_slice()));
    assert_eq!(store.cache_get(&of_many).as_deref(), Some(b"many".as_slice()));
    assert_eq!(std::fs::read_dir(folder.path().join("cache")).unwrap().count(), 2);
    put(&store, 1, 10001, "cpu", START).unwrap();
    store.delete(id(1)).unwrap();
    assert_eq!(store.cache_get(&of_one), None, "it goes with its profile");
    assert_eq!(store.cache_get(&of_many).as_deref(), Some(b"many".as_slice()));
}

#[test]
fn the_cache_is_bounded_and_the_oldest_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions { cache_bytes_max: 1000, ..StoreOptions::default() }).unwrap();
    let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    for (number, name) in names.iter().enumerate() {
        assert!(store.cache_put(&key(name), &[7; 96], Nanos(START + number as i64)).unwrap());
        assert!(store.usage().unwrap().cache_bytes <= 1000);
    }
    let held: Vec<bool> = names.iter().map(|name| store.cache_get(&key(name)).is_some()).collect();
    assert_eq!(held, [[false; 10], [true; 10]].concat());
    assert!(!store.cache_put(&key("big"), &[7; 1000], Nanos(START)).unwrap());
}

#[test]
fn a_damaged_or_deleted_rendering_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.cache_put(&key("a"), b"rendering", Nanos(START)).unwrap();
    let file = std::fs::read_dir(folder.path().join("cache")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&file, "12345rendering").unwrap();
    assert_eq!(store.cache_get(&key("a")), None);
    assert!(!file.exists());
    store.cache_put(&key("a"), b"rendering", Nanos(START)).unwrap();
    drop(store);
    std::fs::remove_dir_all(folder.path().join("cache")).unwrap();
    assert_eq!(open(folder.path()).cache_get(&key("a")), None);
}

#[test]
fn retention_counts_and_deletes_renderings() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let day = 86_400_000_000_000;
    put(&store, 1, 10001, "cpu", START).unwrap();
    store.cache_put(&key("old"), &[7; 5000], Nanos(START)).unwrap();
    store.cache_put(&key("new"), &[7; 5000], Nanos(START + day)).unwrap();
    let report = store
        .retain(&RetentionLimits { free_bytes_min: 0, ..RetentionLimits::default() }, Nanos(START + day + 1))
        .unwrap();
    assert_eq!((report.cached, report.bytes, report.profiles.len()), (1, 5004, 0));
    let tight = RetentionLimits { retained_size_bytes: 100, free_bytes_min: 0, ..RetentionLimits::default() };
    assert_eq!(store.retain(&tight, Nanos(START + day + 1)).unwrap().cached, 1);
    assert_eq!(store.usage().unwrap().cache_bytes, 0);
}
