//! Caches: what is kept, what goes, and what other processes leave.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use procprof_files::{Bounds, CachedFile, Durability, FileCache, Layout, surplus};

fn cache(path: &Path, layout: Layout, bytes_max: u64) -> FileCache {
    let bounds = Bounds { bytes_max, files_max: 4 };
    FileCache { path: path.join("deep/cache"), layout, bounds, mode: 0o640, durability: Durability::Cached }
}

/// Keeps a file that was used that many seconds ago.
fn keep(cache: &FileCache, name: &str, bytes: usize, seconds: u64) {
    let mut file = cache.begin(name).unwrap();
    file.write(&vec![7; bytes]).unwrap();
    file.file().set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    cache.keep(file, name).unwrap();
}

fn names(cache: &FileCache) -> Vec<String> {
    let mut names: Vec<String> = cache.list().unwrap().into_iter().map(|file| file.name).collect();
    names.sort();
    names
}

const LAYOUTS: [Layout; 3] = [Layout::Files(""), Layout::Files(".procsyms"), Layout::Folders("debuginfo")];

#[test]
fn what_was_used_longest_ago_makes_room() {
    for layout in LAYOUTS {
        let place = tempfile::tempdir().unwrap();
        let cache = cache(place.path(), layout, 100);
        for (name, seconds) in [("a", 10), ("b", 40), ("c", 20), ("d", 30)] {
            keep(&cache, name, 30, seconds);
        }
        assert_eq!(fs::read(cache.file_path("a")).unwrap(), [7; 30]);
        cache.make_room(None).unwrap();
        assert_eq!(names(&cache), ["a", "c", "d"], "{layout:?}");
        keep(&cache, "b", 90, 50);
        cache.make_room(Some("b")).unwrap();
        assert_eq!(names(&cache), ["b"], "{layout:?}: the one that was just had stays");
        cache.remove("b").unwrap();
        cache.remove("b").unwrap();
        assert_eq!(fs::read_dir(&cache.path).unwrap().count(), 0, "{layout:?}");
    }
}

#[test]
fn there_are_no_more_files_than_allowed() {
    let place = tempfile::tempdir().unwrap();
    let cache = cache(place.path(), Layout::Files(".index"), 1 << 20);
    for number in 0..7 {
        keep(&cache, &number.to_string(), 1, 100 - number);
    }
    cache.make_room(None).unwrap();
    assert_eq!(names(&cache), ["3", "4", "5", "6"]);
}

#[test]
fn files_of_others_stay_and_abandoned_ones_go() {
    let place = tempfile::tempdir().unwrap();
    let cache = cache(place.path(), Layout::Files(".index"), 0);
    keep(&cache, "a", 10, 0);
    let half = cache.begin("b").unwrap();
    for (name, seconds) in [(".writing-1-1", 700), (".writing-1-2", 0), ("notes.txt", 700)] {
        let file = fs::File::create(cache.path.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }
    cache.make_room(None).unwrap();
    assert!(names(&cache).is_empty());
    assert!(half.temporary_path().exists());
    let left = |name: &str| cache.path.join(name).exists();
    assert_eq!([".writing-1-1", ".writing-1-2", "notes.txt"].map(left), [false, true, true]);
}

#[test]
fn room_is_made_for_what_is_to_come() {
    let file = |used: i64, bytes: u64, name: &'static str| CachedFile { used, bytes, name };
    let files = || [file(3, 10, "a"), file(1, 20, "b"), file(2, 30, "c")];
    let check = |room: (u64, usize), bytes_max, files_max, expected: &[&str]| {
        assert_eq!(surplus(files(), room, Bounds { bytes_max, files_max }), expected);
    };
    check((40, 1), 100, 9, &[]);
    check((40, 1), 99, 9, &["b"]);
    check((40, 1), 79, 9, &["b", "c"]);
    check((0, 1), 100, 2, &["b", "c"]);
    check((0, 0), 0, 9, &["b", "c", "a"]);
    check((u64::MAX, 1), 99, 9, &["b", "c", "a"]);
}
