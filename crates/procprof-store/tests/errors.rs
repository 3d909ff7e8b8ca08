//! Error rows and the journal.

use procprof_profile::Nanos;
use procprof_store::{ErrorEntry, ErrorFilter, ErrorKind, ErrorRow, PageRequest, Store, StoreOptions};

use crate::support::{START, cpu, id, open, put};

fn row(number: i64) -> ErrorRow {
    ErrorRow {
        node: Some(10001 + number as u64 % 2),
        profile_type: (number % 3 != 0).then(cpu),
        time: Nanos(START + number),
        kind: if number % 5 == 0 { ErrorKind::Capture } else { ErrorKind::Refused },
        reason: format!("reason {number}"),
        first_bytes: vec![number as u8; 3],
    }
}

fn rows(store: &Store) -> Vec<ErrorEntry> {
    let mut page = PageRequest::first(7);
    let mut rows = Vec::new();
    loop {
        let found = store.list_errors(&ErrorFilter::default(), &page);
        rows.extend(found.rows);
        let Some(next) = found.next else { return rows };
        page = PageRequest::after(7, next);
    }
}

#[test]
fn errors_are_listed_newest_first_and_filtered() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..50 {
        assert_eq!(store.record_error(row(number)), number as u64 + 1);
    }
    let everything = rows(&store);
    assert_eq!(everything.len(), 50);
    assert!(everything.iter().rev().enumerate().all(|(number, entry)| entry.row == row(number as i64)));
    let count = |filter: ErrorFilter| store.list_errors(&filter, &PageRequest::first(1000)).rows.len();
    assert_eq!(count(ErrorFilter { nodes: vec![10002], ..ErrorFilter::default() }), 25);
    assert_eq!(count(ErrorFilter { types: vec![cpu()], ..ErrorFilter::default() }), 33);
    assert_eq!(count(ErrorFilter { kinds: vec![ErrorKind::Capture], ..ErrorFilter::default() }), 10);
    assert_eq!(
        count(ErrorFilter { from: Some(Nanos(START + 10)), to: Some(Nanos(START + 12)), ..ErrorFilter::default() }),
        2
    );
    drop(store);
    assert_eq!(rows(&open(folder.path())), everything);
}

#[test]
fn long_texts_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.record_error(ErrorRow { reason: "é".repeat(1000), first_bytes: vec![7; 1000], ..row(1) });
    let kept = rows(&store).remove(0).row;
    assert_eq!((kept.reason.len(), kept.first_bytes.len()), (ErrorRow::REASON_MAX, ErrorRow::FIRST_BYTES_MAX));
    drop(store);
    assert_eq!(rows(&open(folder.path())).remove(0).row, kept);
}

#[test]
fn kinds_are_read_by_their_names() {
    for name in ["capture", "refused", "restarted", "symbolize", "storage", "retention", "import"] {
        assert_eq!(name.parse::<ErrorKind>().unwrap().name(), name);
    }
    assert!("nonsense".parse::<ErrorKind>().is_err());
}

#[test]
fn a_damaged_journal_loses_only_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..10 {
        store.record_error(row(number));
    }
    put(&store, 1, 10001, "cpu", START).unwrap();
    store.pin(id(1)).unwrap();
    let everything = rows(&store);
    drop(store);
    let file = folder.path().join("journal/journal");
    let whole = std::fs::read(&file).unwrap();
    // Cut anywhere in the last line, the pin.
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for end in last..whole.len() {
        std::fs::write(&file, &whole[..end]).unwrap();
        let store = open(folder.path());
        assert_eq!(store.opened().journal.torn_bytes, (end - last) as u64);
        assert_eq!(rows(&store), everything);
        assert!(!store.get(id(1)).unwrap().pinned);
    }
    // Change a byte in the middle, and put foreign lines in.
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    changed.extend_from_slice(b"\nnonsense\n00000000 {}\n");
    std::fs::write(&file, &changed).unwrap();
    let store = open(folder.path());
    assert_eq!((store.opened().journal.torn_bytes, store.opened().journal.wrong_lines), (0, 4));
    assert_eq!(rows(&store).len(), 9);
    assert!(store.get(id(1)).unwrap().pinned);
    assert_eq!(store.record_error(row(99)), 11, "numbers go on");
    drop(store);
    assert_eq!(rows(&open(folder.path()))[0].number, 11);
}

#[test]
fn the_journal_is_bounded_and_keeps_pins() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { journal_bytes_max: 20_000, errors_max: 150, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options.clone()).unwrap();
    for number in 0..5 {
        put(&store, number, 10001, "cpu", START).unwrap();
        store.pin(id(number)).unwrap();
    }
    store.unpin(id(4)).unwrap();
    for number in 0..2000 {
        store.record_error(row(number));
        let size = std::fs::metadata(folder.path().join("journal/journal")).unwrap().len();
        assert!(size < 20_500, "{size}");
    }
    for _ in 0..300 {
        store.pin(id(4)).unwrap();
        store.unpin(id(4)).unwrap();
    }
    let before = rows(&store);
    assert!((50..=150).contains(&before.len()), "{}", before.len());
    assert_eq!(before[0].row, row(1999));
    drop(store);
    let store = Store::open(folder.path(), options).unwrap();
    assert_eq!(rows(&store), before);
    assert!((0..4).all(|number| store.get(id(number)).unwrap().pinned) && !store.get(id(4)).unwrap().pinned);
    assert!(!folder.path().join("journal/journal.new").exists());
}
