//! The catalog may be deleted, broken or old: the same list, ids, errors and pins come back.

use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use procprof_profile::Nanos;
use procprof_store::{Entry, ErrorEntry, ErrorFilter, ErrorKind, ErrorRow, PageRequest, RetentionLimits, Store};

use crate::support::{SECOND, START, all, id, open, put};

struct State {
    entries: Vec<Entry>,
    errors: Vec<ErrorEntry>,
}

fn state(store: &Store) -> State {
    State {
        entries: all(store, 30),
        errors: store.list_errors(&ErrorFilter::default(), &PageRequest::first(1000)).rows,
    }
}

fn fill(folder: &Path) -> State {
    let store = open(folder);
    for number in 0..100 {
        let kind = ["cpu", "heap", "alloc", "my_type"][number as usize % 4];
        put(&store, number, 10001 + number as u64 % 3, kind, START + number as i64 % 50 * SECOND).unwrap();
    }
    for number in [3, 5, 99] {
        store.pin(id(number)).unwrap();
    }
    store.unpin(id(5)).unwrap();
    for number in 0..20 {
        store.record_error(ErrorRow {
            node: Some(10001),
            profile_type: Some("cpu".parse().unwrap()),
            time: Nanos(START + number),
            kind: ErrorKind::Refused,
            reason: format!("answer {number}\nis not a profile"),
            first_bytes: vec![b'<', 0, 255, number as u8],
        });
    }
    state(&store)
}

/// Breaks the catalog of a filled folder, opens it again, and compares.
fn survives(name: &str, breaks: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let before = fill(folder.path());
    breaks(&folder.path().join("catalog.sqlite"));
    let store = open(folder.path());
    let opened = store.opened();
    assert!(opened.rebuilt.is_some(), "{name}: rebuilt");
    assert_eq!(
        (opened.reconciled.files, opened.reconciled.added, opened.reconciled.odd_count),
        (100, 100, 0),
        "{name}"
    );
    let after = state(&store);
    assert_eq!(after.entries, before.entries, "{name}");
    assert_eq!(after.errors, before.errors, "{name}");
    assert_eq!(after.entries.iter().filter(|entry| entry.pinned).count(), 2, "{name}");
    drop(store);
    assert_eq!(open(folder.path()).opened().rebuilt, None, "{name}: the next opening finds it in order");
}

fn sqlite(file: &Path, statement: &str) {
    let run = std::process::Command::new("sqlite3").arg(file).arg(statement).status();
    assert!(run.expect("sqlite3 is needed").success());
}

fn overwrite(file: &Path, at: u64, bytes: &[u8]) {
    let mut file = std::fs::File::options().write(true).open(file).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn deleted_broken_or_old_catalogs_are_made_anew() {
    survives("deleted", |file| std::fs::remove_file(file).unwrap());
    survives("empty", |file| std::fs::write(file, "").unwrap());
    survives("not a database", |file| std::fs::write(file, "nonsense ".repeat(1000)).unwrap());
    survives("first page gone", |file| overwrite(file, 0, &[0xa5; 4096]));
    survives("cut short", |file| std::fs::File::options().write(true).open(file).unwrap().set_len(10_000).unwrap());
    survives("later pages broken", |file| {
        for page in 3..12 {
            overwrite(file, page * 4096, &[0x5a; 4096]);
        }
    });
    survives("the version before", |file| {
        sqlite(file, "DROP INDEX by_node; ALTER TABLE profiles DROP COLUMN threads; PRAGMA user_version = 6");
    });
    survives("another version", |file| sqlite(file, "PRAGMA user_version = 999"));
    survives("another table", |file| sqlite(file, "ALTER TABLE profile_details RENAME COLUMN words TO other"));
    survives("a folder in its place", |file| {
        std::fs::remove_file(file).unwrap();
        std::fs::create_dir(file).unwrap();
    });
}

#[test]
fn a_catalog_that_breaks_while_open_heals() {
    let folder = tempfile::tempdir().unwrap();
    let before = fill(folder.path());
    let store = open(folder.path());
    let catalog = folder.path().join("catalog.sqlite");
    let broken = catalog.metadata().unwrap().ino();
    for page in 1..40 {
        overwrite(&catalog, page * 4096, &[0x5a; 4096]);
    }
    let entry = put(&store, 1000, 10001, "cpu", START - SECOND).unwrap();
    let after = state(&store);
    assert_eq!(after.entries.len(), 101);
    assert_eq!(after.entries[..100], before.entries);
    assert_eq!(after.entries[100], entry);
    assert_ne!(catalog.metadata().unwrap().ino(), broken);
}

#[test]
fn a_wrong_row_heals() {
    let folder = tempfile::tempdir().unwrap();
    let before = fill(folder.path());
    let store = open(folder.path());
    sqlite(&folder.path().join("catalog.sqlite"), "UPDATE profile_details SET facts = '{' WHERE seq = 7");
    assert_eq!(state(&store).entries, before.entries);
}

#[test]
fn a_row_or_table_that_went_away_heals() {
    for statement in ["DELETE FROM profile_details WHERE seq = 7", "DROP TABLE profiles", "DROP TABLE profile_details"]
    {
        let folder = tempfile::tempdir().unwrap();
        let before = fill(folder.path());
        let store = open(folder.path());
        sqlite(&folder.path().join("catalog.sqlite"), statement);
        assert_eq!(state(&store).entries, before.entries, "{statement}");
    }
}

#[test]
fn what_is_deleted_leaves_no_details() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let store = open(folder.path());
    store.delete(id(7)).unwrap();
    drop(store);
    let left = "SELECT (SELECT count(*) FROM profiles), count(*) FROM profile_details";
    let output = std::process::Command::new("sqlite3").arg(folder.path().join("catalog.sqlite")).arg(left).output();
    assert_eq!(String::from_utf8(output.expect("sqlite3 is needed").stdout).unwrap().trim(), "99|99");
}

#[test]
fn a_large_catalog_is_read_through_by_the_first_retention() {
    let folder = tempfile::tempdir().unwrap();
    let before = fill(folder.path());
    let catalog = folder.path().join("catalog.sqlite");
    sqlite(&catalog, "CREATE TABLE padding AS SELECT zeroblob(70000000) AS bytes");
    // A page of the padding: nothing that opening or a list reads.
    overwrite(&catalog, 10_000 * 4096, &[0x5a; 4096]);
    let store = open(folder.path());
    assert!(store.opened().rebuilt.is_none(), "a large one is trusted at first");
    let broken = catalog.metadata().unwrap().ino();
    assert_eq!(state(&store).entries, before.entries);
    let limits = RetentionLimits { retained_days: 99_999, free_bytes_min: 0, ..RetentionLimits::default() };
    store.retain(&limits, Nanos(START)).unwrap();
    assert_ne!(catalog.metadata().unwrap().ino(), broken, "made anew");
    assert_eq!(state(&store).entries, before.entries);
}

#[test]
fn rebuilding_while_others_put_and_list_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    std::thread::scope(|scope| {
        let writer = |from: u128| {
            let store = &store;
            move || {
                for number in from..from + 40 {
                    put(store, number, 10001, "cpu", START).unwrap();
                    store.newest(10001, &crate::support::cpu()).unwrap().unwrap();
                }
            }
        };
        scope.spawn(writer(0));
        scope.spawn(writer(100));
        for _ in 0..10 {
            let rebuilt = store.rebuild().unwrap();
            assert_eq!(rebuilt.reconciled.files, rebuilt.reconciled.added);
        }
    });
    assert_eq!(all(&store, 100).len(), 80);
    let before = all(&store, 100);
    store.rebuild().unwrap();
    assert_eq!(all(&store, 100), before);
}

#[test]
fn files_without_facts_in_front_are_read_by_their_comments() {
    let folder = tempfile::tempdir().unwrap();
    let entry = put(&open(folder.path()), 1, 10001, "cpu", START).unwrap();
    let file = folder.path().join("profiles/10001").join(&entry.file_name);
    let unpacked = std::process::Command::new("gzip").arg("-dc").arg(&file).output().expect("gzip is needed").stdout;
    std::fs::write(&file, crate::support::gzip(&unpacked)).unwrap();
    std::fs::remove_file(folder.path().join("catalog.sqlite")).unwrap();
    let again = all(&open(folder.path()), 10).remove(0);
    assert_eq!((again.id, &again.meta, again.completed), (entry.id, &entry.meta, entry.completed));
    assert_eq!(again.summary, procprof_store::Summary::default());
}

#[test]
fn others_cannot_read_the_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    put(&store, 1, 10001, "cpu", START).unwrap();
    for name in ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"] {
        let mode = folder.path().join(name).metadata().unwrap().mode();
        assert_eq!(mode & 0o007, 0, "{name} has mode {mode:o}");
    }
}
