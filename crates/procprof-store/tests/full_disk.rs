//! A full disk: nothing half-written, error rows survive, retention works, and everything continues when there is
//! space.

use std::path::{Path, PathBuf};
use std::process::Command;

use procprof_profile::Nanos;
use procprof_store::{Error, ErrorFilter, ErrorKind, ErrorRow, PageRequest, RetentionLimits, Store};

use crate::support::{SECOND, START, all, files, id, meta, open, put_meta};

/// A small file system in memory, removed at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, size: &str) -> Option<SmallDisk> {
        let run = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at).status();
        run.expect("mount is needed").success().then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, so that a test that failed with files open leaves nothing mounted either.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn full(number: i64) -> ErrorRow {
    ErrorRow {
        node: Some(10001),
        profile_type: None,
        time: Nanos(START + number),
        kind: ErrorKind::Storage,
        reason: format!("no space left {number}"),
        first_bytes: vec![],
    }
}

fn fill(store: &Store) -> u128 {
    for number in 0..1000 {
        let start = START + number as i64 * SECOND;
        match put_meta(store, meta(number, 10001, "cpu", start), start, 40_000) {
            Ok(_) => {}
            Err(Error::DiskFull { .. }) => return number,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the disk does not fill up");
}

fn errors(store: &Store) -> Vec<String> {
    let rows = store.list_errors(&ErrorFilter::default(), &PageRequest::first(1000)).rows;
    rows.into_iter().map(|entry| entry.row.reason).collect()
}

#[test]
fn a_small_disk_fills_up() {
    let place = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(place.path(), "3m") else {
        // Mounting is refused here, so the process's limit on file sizes is used instead.
        return limited();
    };
    let data = place.path().join("data");
    let store = open(&data);
    let stored = fill(&store);
    assert!(stored > 10, "{stored}");
    // Not a byte is left, as when others fill the disk.
    let mut filler = std::fs::File::create(place.path().join("filler")).unwrap();
    while std::io::Write::write(&mut filler, &[7; 512]).is_ok_and(|count| count > 0) {}
    assert!(matches!(put_meta(&store, meta(5000, 10002, "cpu", START), START, 0), Err(Error::DiskFull { .. })));
    assert_eq!(files(&data).len(), stored as usize);
    assert_eq!(all(&store, 100).len(), stored as usize);

    for number in 0..1500 {
        store.record_error(full(number));
    }
    assert_eq!(errors(&store).len(), 1000);
    assert_eq!(errors(&store)[0], "no space left 1499");
    let usage = store.usage().unwrap();
    assert!(usage.errors_waiting < 100 && usage.errors_lost == 0, "most found room in the reserve: {usage:?}");
    assert_eq!(store.open_bytes(id(0)).unwrap().len() as u64, store.get(id(0)).unwrap().bytes);

    let small = RetentionLimits { retained_size_bytes: 200_000, free_bytes_min: 0, ..RetentionLimits::default() };
    let report = store.retain(&small, Nanos(START)).unwrap();
    assert!(report.profiles.len() > 5 && report.failed.is_empty(), "{report:?}");
    put_meta(&store, meta(5001, 10001, "cpu", START + 2000 * SECOND), START, 40_000).unwrap();
    store.retain(&small, Nanos(START)).unwrap();
    assert_eq!(store.usage().unwrap().errors_waiting, 0, "what waited is written when there is room");
    let (entries, rows) = (all(&store, 100), errors(&store));
    drop(store);
    let store = open(&data);
    assert_eq!((all(&store, 100), errors(&store)), (entries, rows));
    assert_eq!(store.opened().journal.torn_bytes + store.opened().journal.wrong_lines, 0);
}

#[test]
fn a_disk_that_is_full_when_the_store_is_opened() {
    let place = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(place.path(), "3m") else { return limited() };
    let data = place.path().join("data");
    let stored = fill(&open(&data)) as usize;
    let mut filler = std::fs::File::create(place.path().join("filler")).unwrap();
    while std::io::Write::write(&mut filler, &[7; 512]).is_ok_and(|count| count > 0) {}
    match Store::open(&data, Default::default()) {
        Ok(store) => {
            assert_eq!(all(&store, 100).len(), stored);
            store.record_error(full(1));
            assert_eq!(errors(&store).len(), 1);
        }
        Err(Error::DiskFull { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
    std::fs::remove_file(place.path().join("filler")).unwrap();
    assert_eq!(all(&open(&data), 100).len(), stored);
}

const FOLDER: &str = "PROCPROF_STORE_LIMIT_FOLDER";

/// Not a test by itself: runs under a limit on file sizes of 96 KiB.
#[test]
fn under_limit() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store = open(Path::new(&folder));
    assert!(matches!(put_meta(&store, meta(1, 10001, "cpu", START), START, 200_000), Err(Error::DiskFull { .. })));
    assert!(files(Path::new(&folder)).is_empty());
    for number in 0..2000 {
        store.record_error(full(number));
    }
    let usage = store.usage().unwrap();
    assert!(usage.errors_waiting > 500 && usage.errors_waiting <= 1000, "{usage:?}");
    assert_eq!(errors(&store)[0], "no space left 1999");
    println!("did everything");
}

#[test]
fn a_limit_on_file_sizes_is_a_full_disk() {
    limited();
}

fn limited() {
    let folder = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let run = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 96; exec \"$0\" --exact full_disk::under_limit --nocapture"])
        .arg(test)
        .env(FOLDER, folder.path())
        .output()
        .expect("bash is needed");
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && output.contains("did everything"),
        "{output}{}",
        String::from_utf8_lossy(&run.stderr)
    );
}
