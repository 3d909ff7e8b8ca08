//! Every version of what the store keeps on disk is read whole.

use std::path::Path;

use procprof_profile::{Meta, Nanos};
use procprof_store::{
    Column, Encoded, ErrorFilter, ErrorKind, ErrorRow, FunctionColumn, FunctionQuery, FunctionTable, FunctionValues,
    NewProfile, PageRequest, Store, StoreOptions,
};

use crate::law::{Contents, Mark, Row, check, line};
use crate::support::{SECOND, START, all, cpu, id, meta, open, pprof, put, put_meta, summary};

#[test]
fn the_data_folder() {
    let mark = Mark::new("procprof-version", b"procprof.store ");
    check(&Row { name: "store", version: 1, make: make_store, read: read_store, mark: Some(mark) });
}

#[test]
fn the_journal() {
    let mark = Mark { seal: sealed, ..Mark::new("journal/journal", br#"{"t":"version","version":"#) };
    check(&Row { name: "journal", version: 1, make: make_journal, read: read_journal, mark: Some(mark) });
}

#[test]
fn the_catalog() {
    check(&Row { name: "catalog", version: 10, make: make_catalog, read: read_catalog, mark: None });
}

#[test]
fn a_catalog_of_another_version_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    make_catalog(folder.path());
    // Where SQLite has the `user_version`.
    let file = folder.path().join("catalog.sqlite");
    let mut content = std::fs::read(&file).unwrap();
    assert_eq!(content[60..64], 10_u32.to_be_bytes());
    content[60..64].copy_from_slice(&11_u32.to_be_bytes());
    std::fs::write(&file, content).unwrap();
    let store = open(folder.path());
    assert_eq!(store.opened().rebuilt.as_deref(), Some("of version 11, not 10"));
    assert_eq!(all(&store, 10).len(), 2);
}

#[test]
fn an_older_journal_is_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    make_journal(folder.path());
    let file = folder.path().join("journal/journal");
    // As the first releases wrote it.
    let text = std::fs::read_to_string(&file).unwrap();
    let (version, older) = text.split_once('\n').unwrap();
    std::fs::write(&file, older).unwrap();
    let before = read_journal(folder.path()).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), older, "reading changes nothing");
    let store = open(folder.path());
    store.pin(id(3)).unwrap();
    store.unpin(id(3)).unwrap();
    drop(store);
    let text = std::fs::read_to_string(&file).unwrap();
    let added = text.strip_prefix(older).unwrap();
    assert_eq!((added.split('\n').next().unwrap(), added.lines().count()), (version, 3));
    assert!(read_journal(folder.path()).is_ok_and(|after| after.contains(before.lines().nth(1).unwrap())));
}

/// Leaves only these of a data folder.
fn keep(data: &Path, names: &[&str]) {
    for entry in std::fs::read_dir(data).unwrap() {
        let entry = entry.unwrap();
        if names.contains(&entry.file_name().to_str().unwrap()) {
            continue;
        }
        match entry.file_type().unwrap().is_dir() {
            true => std::fs::remove_dir_all(entry.path()).unwrap(),
            false => std::fs::remove_file(entry.path()).unwrap(),
        }
    }
}

fn make_store(data: &Path) {
    let store = open(data);
    let mut labelled = meta(1, 10_001, "cpu", START + 10 * SECOND);
    labelled.labels.insert("zone".to_owned(), "a b".to_owned());
    labelled.engine = "perf".to_owned();
    labelled.more.insert("kernel".to_owned(), "6.1".to_owned());
    put_meta(&store, labelled, START, 0).unwrap();
    put(&store, 2, 10_002, "inuse_space", START + SECOND).unwrap();
    store.put_recording(10_001, Nanos(START), b"FLR\0 a recording").unwrap();
    drop(store);
    // As other programs write them: without facts, and with facts in comments only.
    for (meta, time) in [(Meta::default(), "203000"), (meta(5, 10_001, "cpu", START), "203001")] {
        let file = data.join(format!("profiles/10001/cpu-profile-20251120-{time}-pprof.gz"));
        std::fs::write(file, pprof(&meta, 0)).unwrap();
    }
    keep(data, &["profiles", "procprof-version"]);
}

fn read_store(data: &Path) -> Contents {
    let store = Store::open(data, StoreOptions::default())?;
    let mut text = String::new();
    let reconciled = &store.opened().reconciled;
    line(&mut text, (reconciled.files, reconciled.added, &reconciled.odd));
    for entry in all(&store, 10) {
        let bytes = store.open_bytes(entry.id).unwrap();
        let mut sum = flate2::Crc::new();
        sum.update(&bytes);
        line(&mut text, (entry, bytes.len(), sum.sum()));
    }
    Ok(text)
}

fn make_journal(data: &Path) {
    let store = open(data);
    (1..4).for_each(|number| drop(put(&store, number, 10_001, "cpu", START).unwrap()));
    let row = |number: i64| ErrorRow {
        node: (number > 0).then_some(10_000 + number as u64),
        profile_type: (number > 1).then(cpu),
        time: Nanos(START + number),
        kind: if number == 2 { ErrorKind::Refused } else { ErrorKind::Capture },
        reason: format!("reason {number}: \"näme\"\n"),
        first_bytes: vec![number as u8; number as usize],
    };
    for number in 0..4 {
        store.record_error(row(number));
    }
    store.pin(id(1)).unwrap();
    store.pin(id(2)).unwrap();
    store.unpin(id(1)).unwrap();
    drop(store);
    keep(data, &["journal"]);
}

/// The journal with the checksum of its first line as it is now.
fn sealed(content: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8(content).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let json = first.split_once(' ').unwrap().1;
    let mut sum = flate2::Crc::new();
    sum.update(json.as_bytes());
    format!("{:08x} {json}\n{rest}", sum.sum()).into_bytes()
}

fn read_journal(data: &Path) -> Contents {
    let store = Store::open(data, StoreOptions::default())?;
    let mut text = String::new();
    line(&mut text, store.opened().journal);
    let errors = store.list_errors(&ErrorFilter::default(), &PageRequest::first(10));
    errors.rows.iter().for_each(|row| line(&mut text, row));
    for number in 1..4 {
        if !store.contains(id(number)).unwrap() {
            put(&store, number, 10_001, "cpu", START).unwrap();
        }
        line(&mut text, (id(number), store.get(id(number)).unwrap().pinned));
    }
    Ok(text)
}

fn make_catalog(data: &Path) {
    let store = open(data);
    let function = |name: &str, own| FunctionValues { name: name.to_owned(), own, total: 7 };
    for number in 1..3 {
        let meta = meta(number, 10_001, "cpu", START + 10 * SECOND);
        let encoded = pprof(&meta, 0);
        let new = NewProfile {
            meta,
            encoded: Encoded::Received(&encoded),
            summary: summary("wörk"),
            functions: Some(FunctionTable {
                kind: "samples".to_owned(),
                unit: "count".to_owned(),
                total: 7,
                functions: vec![function("main", 0), function("wörk", 7)],
            }),
            start: Nanos(START),
            duration: Nanos(10 * SECOND),
        };
        store.put(new).unwrap();
    }
    drop(store);
    keep(data, &["profiles", "catalog.sqlite"]);
}

fn read_catalog(data: &Path) -> Contents {
    let store = Store::open(data, StoreOptions::default())?;
    if let Some(why) = &store.opened().rebuilt {
        return Err(why.clone().into());
    }
    let mut text = String::new();
    line(&mut text, &store.opened().reconciled);
    all(&store, 10).iter().for_each(|entry| line(&mut text, entry));
    use FunctionColumn::{Kind, Name, Own, Profile, ProfileTotal, Total, Unit};
    let columns = vec![Profile(Column::Id), Name, Own, Total, Kind, Unit, ProfileTotal];
    let mut rows = store.function_rows(&FunctionQuery { columns, ..FunctionQuery::default() }).unwrap();
    while let Some(batch) = rows.next(10).unwrap() {
        line(&mut text, &batch.columns);
    }
    line(&mut text, store.usage().unwrap().nodes);
    Ok(text)
}
