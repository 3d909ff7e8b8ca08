//! A row stands for the profile that its file contains, whatever was done to the files, and at every moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use procprof_profile::{Nanos, ProfileId};
use procprof_store::{Encoded, Entry, Error, FunctionTable, NewProfile, Store, StoreOptions};

use crate::kill::{kill, say};
use crate::support::{SECOND, START, all, gzip, id, meta, open, pprof, put, put_meta, summary};

const FOLDER: &str = "PROCPROF_STORE_CHURN_FOLDER";
const FIRST: &str = "PROCPROF_STORE_CHURN_FIRST";

fn file(data: &Path, entry: &Entry) -> PathBuf {
    data.join(format!("profiles/{}/{}", entry.node, entry.file_name))
}

/// The id that the header of a stored file names.
fn id_in(bytes: &[u8]) -> ProfileId {
    const KEY: &[u8] = b"#procprof:id=";
    let at = bytes.windows(KEY.len()).position(|window| window == KEY).unwrap() + KEY.len();
    std::str::from_utf8(&bytes[at..at + 36]).unwrap().parse().unwrap()
}

/// Checks that each profile's bytes are its own, and that each file is listed.
fn check(store: &Store, data: &Path) {
    let entries = all(store, 100);
    for entry in &entries {
        let bytes = store.open_bytes(entry.id).unwrap();
        assert_eq!((id_in(&bytes), bytes.len() as u64), (entry.id, entry.bytes));
    }
    assert_eq!(entries.len(), crate::support::files(data).len());
}

fn not_found(result: Result<impl std::fmt::Debug, Error>) {
    assert!(matches!(result, Err(Error::NotFound { .. })), "{result:?}");
}

/// Two profiles of one node; the second one is larger.
fn two(data: &Path) -> (Store, Entry, Entry) {
    let store = open(data);
    let first = put(&store, 1, 7, "cpu", START).unwrap();
    let meta = meta(2, 7, "cpu", START + 20 * SECOND);
    let second = put_meta(&store, meta, START + 10 * SECOND, 500).unwrap();
    (store, first, second)
}

#[test]
fn another_files_content_is_never_given_out_for_a_profile() {
    // While the store is open, and while it is not.
    for open_meanwhile in [true, false] {
        let data = tempfile::tempdir().unwrap();
        let (store, first, second) = two(data.path());
        let held = open_meanwhile.then_some(store);
        fs::rename(file(data.path(), &second), file(data.path(), &first)).unwrap();
        if let Some(store) = &held {
            not_found(store.open_bytes(first.id));
            not_found(store.get(first.id));
            // Its row stands for the place that it had; opening anew finds the other one.
            assert!(matches!(store.open_bytes(second.id), Err(Error::Gone { .. })));
        }
        drop(held);
        let store = open(data.path());
        let reconciled = &store.opened().reconciled;
        let expected = if open_meanwhile { (0, 1, 1) } else { (1, 1, 0) };
        assert_eq!((reconciled.changed, reconciled.dropped, reconciled.added), expected);
        not_found(store.get(first.id));
        not_found(store.delete(first.id));
        assert_eq!(store.get(second.id).unwrap(), Entry { file_name: first.file_name, ..second });
        check(&store, data.path());
    }
}

#[test]
fn a_profile_is_deleted_or_replaced_only_in_its_own_file() {
    let data = tempfile::tempdir().unwrap();
    let (store, first, second) = two(data.path());
    fs::copy(file(data.path(), &second), file(data.path(), &first)).unwrap();
    fs::remove_file(file(data.path(), &second)).unwrap();
    let encoded = pprof(&first.meta, 100);
    let better = NewProfile {
        meta: first.meta.clone(),
        encoded: Encoded::Received(&encoded),
        summary: summary("better"),
        functions: None,
        start: first.start,
        duration: first.duration,
    };
    not_found(store.replace(better));
    not_found(store.delete(first.id));
    assert_eq!(id_in(&fs::read(file(data.path(), &first)).unwrap()), second.id);
}

#[test]
fn exchanged_files_are_listed_where_they_are() {
    for open_meanwhile in [true, false] {
        let data = tempfile::tempdir().unwrap();
        let (store, first, second) = two(data.path());
        let held = open_meanwhile.then_some(store);
        let [one, other, aside] = [file(data.path(), &first), file(data.path(), &second), data.path().join("aside")];
        for (from, to) in [(&one, &aside), (&other, &one), (&aside, &other)] {
            fs::rename(from, to).unwrap();
        }
        // Which of them is asked for first decides what is known of the other one; no answer is wrong.
        if let Some(store) = &held {
            for id in [first.id, second.id] {
                match store.open_bytes(id) {
                    Ok(bytes) => assert_eq!(id_in(&bytes), id),
                    gone => not_found(gone),
                }
            }
        }
        drop(held);
        let store = open(data.path());
        check(&store, data.path());
        assert_eq!(store.get(first.id).unwrap().file_name, second.file_name);
        assert_eq!(store.get(second.id).unwrap().file_name, first.file_name);
    }
}

#[test]
fn files_with_another_time_or_inode_are_the_same_profiles() {
    let data = tempfile::tempdir().unwrap();
    let store = open(data.path());
    let meta = meta(1, 7, "cpu", START + 10 * SECOND);
    let encoded = pprof(&meta, 0);
    let new = NewProfile {
        meta,
        encoded: Encoded::Received(&encoded),
        summary: summary("main"),
        functions: Some(FunctionTable::default()),
        start: Nanos(START),
        duration: Nanos(10 * SECOND),
    };
    let entry = store.put(new).unwrap();
    drop(store);
    let path = file(data.path(), &entry);
    let copy = data.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    let times = fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    fs::File::options().append(true).open(&path).unwrap().set_times(times).unwrap();
    let store = open(data.path());
    assert_eq!(store.opened().reconciled.changed, 0);
    assert_eq!(store.without_functions(10).unwrap(), [], "nothing is read of it again");
    assert_eq!(store.get(entry.id).unwrap(), entry);
}

#[test]
fn a_damaged_file_stays_its_profiles() {
    let data = tempfile::tempdir().unwrap();
    let (store, first, second) = two(data.path());
    let path = file(data.path(), &second);
    let whole = fs::read(&path).unwrap();
    let mut header = whole.clone();
    header[20..40].fill(b'x');
    let mut body = whole.clone();
    let last = body.len() - 20;
    body[last] ^= 1;
    for damaged in [header, body, whole[..whole.len() - 30].to_vec(), Vec::new()] {
        fs::write(&path, &damaged).unwrap();
        assert_eq!(store.open_bytes(second.id).unwrap(), damaged);
    }
    fs::write(&path, &whole).unwrap();
    drop(store);
    fs::write(&path, &whole[..60]).unwrap();
    let store = open(data.path());
    assert_eq!(store.open_bytes(second.id).unwrap().len(), 60);
    // A whole file that tells no id is another one.
    fs::write(&path, gzip(&[])).unwrap();
    not_found(store.open_bytes(second.id));
    assert_eq!(all(&store, 10).len(), 2);
    assert_eq!(store.get(first.id).unwrap(), first);
}

#[test]
fn no_name_is_used_twice() {
    let data = tempfile::tempdir().unwrap();
    let store = open(data.path());
    let first = put(&store, 1, 7, "cpu", START).unwrap();
    store.delete(first.id).unwrap();
    let second = put(&store, 2, 7, "cpu", START).unwrap();
    store.delete(second.id).unwrap();
    store.rebuild().unwrap();
    let third = put(&store, 3, 7, "cpu", START).unwrap();
    store.delete(third.id).unwrap();
    drop(store);
    let store = open(data.path());
    let fourth = put(&store, 4, 7, "cpu", START).unwrap();
    let other_node = put(&store, 5, 8, "cpu", START).unwrap();
    assert_eq!(other_node.file_name, first.file_name);
    let mut names = [&first, &second, &third, &fourth].map(|entry| entry.file_name.as_str()).to_vec();
    names.dedup();
    assert_eq!(names.len(), 4);
}

#[test]
fn a_catalog_from_before_stands_for_the_files_of_now() {
    let data = tempfile::tempdir().unwrap();
    let (store, first, _) = two(data.path());
    drop(store);
    let before = fs::read(data.path().join("catalog.sqlite")).unwrap();
    let store = open(data.path());
    store.delete(first.id).unwrap();
    drop(store);
    // The catalog as it was, so that it knows nothing of the name that is free.
    fs::write(data.path().join("catalog.sqlite"), &before).unwrap();
    fs::write(file(data.path(), &first), pprof(&meta(3, 7, "cpu", START), 0)).unwrap();
    let store = open(data.path());
    not_found(store.get(first.id));
    assert_eq!(store.get(id(3)).unwrap().file_name, first.file_name);
}

/// Not a test by itself: the code of the killed process. Threads put and delete profiles of the same second.
#[test]
fn churner() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    let next = AtomicU64::new(std::env::var(FIRST).unwrap().parse().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let number = u128::from(next.fetch_add(1, Ordering::Relaxed));
                    put(&store, number, 7, "cpu", START).unwrap();
                    say("put", number);
                    if number % 4 > 0 {
                        store.delete(id(number)).unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn kills_between_file_and_row_exchange_nothing() {
    let data = tempfile::tempdir().unwrap();
    for round in 0..12_u32 {
        let after = Duration::from_millis(u64::from(round * 17 % 150));
        let envs = [(FOLDER, data.path().display().to_string()), (FIRST, (round * 1_000_003).to_string())];
        kill("identity::churner", &envs, true, after, |_, _| {});
        let store = open(data.path());
        check(&store, data.path());
        for entry in all(&store, 100) {
            store.delete(entry.id).unwrap();
        }
    }
}
