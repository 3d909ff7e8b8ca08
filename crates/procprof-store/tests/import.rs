//! Imports of a `proc_profile` folder.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::Path;

use procprof_profile::{Meta, Nanos};
use procprof_store::{
    Encoded, Entry, Error, ErrorFilter, ErrorKind, Format, IMPORTED_FROM, ImportItem, ImportOptions, ImportReport,
    NewProfile, PageRequest, Store, StoreOptions, content_id,
};

use crate::support::{START, all, files, gzip, open, pprof, summary};

/// An ingest as the server has one: anything that is neither "garbage" nor a page becomes a profile.
fn ingest(store: &Store, seen: &mut Vec<String>, item: &ImportItem<'_>) -> Result<(), String> {
    seen.push(item.file_name.to_owned());
    if item.bytes.starts_with(b"garbage") || item.bytes.starts_with(b"<html>") {
        return Err("no known profile format".to_owned());
    }
    let meta = Meta {
        id: Some(item.id),
        node: Some(item.node),
        profile_type: Some(item.profile_type.clone()),
        trigger: "import".to_owned(),
        more: [(IMPORTED_FROM.to_owned(), item.file_name.to_owned())].into(),
        ..Meta::default()
    };
    let new = NewProfile {
        encoded: Encoded::Received(&pprof(&meta, 0)),
        meta,
        summary: summary("main"),
        functions: None,
        start: item.start,
        duration: Nanos(0),
    };
    store.put(new).map(drop).map_err(|error| error.to_string())
}

fn import(store: &Store, folder: &Path, zone: &str) -> (ImportReport, Vec<String>) {
    import_for(10001, store, folder, zone)
}

fn import_for(node: u64, store: &Store, folder: &Path, zone: &str) -> (ImportReport, Vec<String>) {
    let mut seen = Vec::new();
    let options = ImportOptions {
        node,
        zone: ImportOptions::zone(Some(zone)).unwrap(),
        now: Nanos(START),
        skip: BTreeSet::new(),
    };
    let report = store.import(folder, &options, &mut |item| ingest(store, &mut seen, item)).unwrap();
    (report, seen)
}

fn tar(entries: &[(&str, &[u8], tar::EntryType)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content, kind) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_entry_type(*kind);
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    gzip(&builder.into_inner().unwrap())
}

const FILE: tar::EntryType = tar::EntryType::Regular;

fn by_name(store: &Store) -> BTreeMap<String, Entry> {
    all(store, 100).into_iter().map(|entry| (entry.file_name.clone(), entry)).collect()
}

#[test]
fn a_folder_is_taken_over_once() {
    let (source, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let page = tar(&[("cpu-profile-20251120-120000.html", b"<html>cpu</html>", FILE)]);
    let flame = gzip(b"<svg/>");
    let write = |name: &str, bytes: &[u8]| std::fs::write(source.path().join(name), bytes).unwrap();
    write("cpu-profile-20251120-232534-pprof.gz", &gzip(b"samples"));
    write("contention-profile-20251120-232534-pprof.gz", &gzip(b"--- contention\n1 1 @ 0x1"));
    write("cpu-profile-20251119-whatever-pprof.gz", b"not even gzip'd");
    write("cpu-profile-20251120-232534-flame.html.gz", &flame);
    write("mem-profile-20251120-120000.html.tar.gz", &page);
    write(
        "cpu-profile-20251120-130000.tar.gz",
        &tar(&[("cpu-profile-20251120-130000.html", b"<html>one o'clock</html>", FILE)]),
    );
    write("collect_be_profile.log", b"a log");
    let store = open(data.path());
    let (report, seen) = import(&store, source.path(), "Europe/Berlin");
    assert_eq!((report.added.len(), report.already_there.len(), report.refused.len()), (6, 0, 1), "{report:?}");
    assert_eq!(report.refused[0], ("collect_be_profile.log".to_owned(), "not a profile's file name".to_owned()));
    assert_eq!(seen.len(), 5, "pages that lie in no archive are not decoded");
    let entries = by_name(&store);
    // Berlin is an hour ahead of UTC in November.
    let names: Vec<&str> = entries.keys().map(String::as_str).collect();
    let expected = [
        "contention-profile-20251120-222534-pprof.gz",
        "cpu-profile-20251118-230000-pprof.gz",
        "cpu-profile-20251120-120000.html.tar.gz",
        "cpu-profile-20251120-222534-flame.html.gz",
        "cpu-profile-20251120-222534-pprof.gz",
        "mem-profile-20251120-110000.html.tar.gz",
    ];
    assert_eq!(names, expected);
    let page_entry = &entries[expected[5]];
    assert_eq!(
        (page_entry.id, page_entry.format, page_entry.profile_type.name()),
        (content_id(&page), Format::HtmlArchive, "alloc")
    );
    assert_eq!(store.open_bytes(page_entry.id).unwrap(), page, "kept byte by byte");
    assert_eq!(store.open_page(page_entry.id).unwrap(), b"<html>cpu</html>");
    assert_eq!(store.open_page(entries[expected[3]].id).unwrap(), b"<svg/>");
    assert!(store.open_page(entries[expected[4]].id).is_err());
    assert_eq!(entries[expected[4]].start, Nanos(START));

    let before = all(&store, 100);
    let (again, seen) = import(&store, source.path(), "UTC");
    assert_eq!(
        (again.added.len(), again.already_there.len(), seen.len()),
        (0, 6, 0),
        "known files are not decoded again"
    );
    drop(store);
    std::fs::remove_file(data.path().join("catalog.sqlite")).unwrap();
    let store = open(data.path());
    assert_eq!(all(&store, 100), before);
    assert!(store.list_errors(&ErrorFilter::default(), &PageRequest::first(10)).rows.is_empty());
}

#[test]
fn a_page_in_an_archive_is_a_profile_where_a_format_reads_it() {
    let (source, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let archive = tar(&[("mem-profile-20251120-120000.html", b"samples", FILE)]);
    std::fs::write(source.path().join("mem-profile-20251120-120000.html.tar.gz"), &archive).unwrap();
    let store = open(data.path());
    let (report, _) = import(&store, source.path(), "Europe/Berlin");
    assert_eq!(report.added, [("mem-profile-20251120-120000.html.tar.gz".to_owned(), content_id(&archive))]);
    let entries = by_name(&store);
    let entry = &entries["mem-profile-20251120-110000-pprof.gz"];
    assert_eq!((entry.id, entry.format, entry.profile_type.name()), (content_id(&archive), Format::Pprof, "alloc"));
    assert_eq!((entries.len(), import(&store, source.path(), "UTC").0.already_there.len()), (1, 1));
}

#[test]
fn equal_files_of_different_times_or_nodes_are_several_profiles() {
    let (source, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let names = [
        "cpu-profile-20251120-120000-pprof.gz",
        "cpu-profile-20251120-130000-pprof.gz",
        "mem-profile-20251120-120000-pprof.gz",
    ];
    for name in names {
        std::fs::write(source.path().join(name), b"main;idle 1\n").unwrap();
    }
    let store = open(data.path());
    let (report, _) = import(&store, source.path(), "UTC");
    assert_eq!((report.added.len(), report.already_there.as_slice()), (2, &[names[2].to_owned()][..]));
    for zone in ["UTC", "Europe/Berlin"] {
        let (again, _) = import(&store, source.path(), zone);
        assert_eq!((again.added.len(), again.already_there.len()), (0, 3), "{zone}");
    }
    for added in [2, 0] {
        let (of_another, _) = import_for(10002, &store, source.path(), "UTC");
        assert_eq!((of_another.added.len(), of_another.already_there.len()), (added, 3 - added));
    }
    let before = all(&store, 10);
    store.rebuild().unwrap();
    assert_eq!((all(&store, 10), before.len()), (before, 4));
}

#[test]
fn pages_of_the_same_second_stay_what_they_are_after_a_rebuild() {
    let (source, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // In a repeated hour, two files can have the same name in UTC.
    std::fs::write(source.path().join("cpu-profile-20251026-020000-flame.html.gz"), gzip(b"<svg>1</svg>")).unwrap();
    let store = open(data.path());
    import(&store, source.path(), "UTC");
    std::fs::write(source.path().join("cpu-profile-20251026-020000-flame.html.gz"), gzip(b"<svg>2</svg>")).unwrap();
    import(&store, source.path(), "UTC");
    let before = all(&store, 10);
    assert_eq!(before.len(), 2);
    store.rebuild().unwrap();
    assert_eq!(all(&store, 10), before);
}

#[test]
fn tricks_and_bombs_are_error_rows_and_the_rest_goes_on() {
    let (source, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = |name: &str, bytes: &[u8]| std::fs::write(source.path().join(name), bytes).unwrap();
    let zeros = vec![0; 3_000_000];
    write("cpu-profile-20251120-000001-pprof.gz", &gzip(&zeros));
    write("cpu-profile-20251120-000002-flame.html.gz", &gzip(&zeros));
    write("cpu-profile-20251120-000003.html.tar.gz", &tar(&[("a.html", &zeros, FILE)]));
    write("cpu-profile-20251120-000004.html.tar.gz", &tar(&[("a.html", b"1", FILE), ("b.html", b"2", FILE)]));
    write("cpu-profile-20251120-000005.html.tar.gz", &tar(&[("a.html", b"", tar::EntryType::Symlink)]));
    write("cpu-profile-20251120-000006.html.tar.gz", &tar(&[("a.txt", b"1", FILE)]));
    write("cpu-profile-20251120-000007.html.tar.gz", &gzip(b"not tar"));
    write("cpu-profile-20251120-000008-flame.html.gz", b"not gzip");
    write("cpu-profile-20251120-000009-pprof.gz", &gzip(b""));
    write("cpu-profile-20251120-000010-pprof.gz", &gzip(b"garbage"));
    write("cpu-profile-20251120-000011-pprof.gz", &vec![7; 1_100_000]);
    symlink("/etc/passwd", source.path().join("cpu-profile-20251120-000012-pprof.gz")).unwrap();
    std::fs::create_dir(source.path().join("cpu-profile-20251120-000013-pprof.gz")).unwrap();
    let fifo =
        std::process::Command::new("mkfifo").arg(source.path().join("cpu-profile-20251120-000014-pprof.gz")).status();
    assert!(fifo.expect("mkfifo is needed").success());
    let mut padded = tar(&[("a.html", b"1", FILE)]);
    padded.extend(gzip(&zeros));
    write("cpu-profile-20251120-000015.html.tar.gz", &padded);
    let torn = tar(&[("a.html", &[b'x'; 2000], FILE)]);
    write("cpu-profile-20251120-000016.html.tar.gz", &torn[..torn.len() - 12]);
    write("cpu-profile-20251120-999999-pprof.gz", &gzip(b"fine"));
    write("x'$(id)'-profile-20251120-000001-pprof.gz", &gzip(b"fine"));
    write("mem-profile-20251120-000001-pprof.gz", &gzip(b"fine"));
    let options =
        StoreOptions { profile_bytes_max: 1_000_000, unpacked_bytes_max: 2_000_000, ..StoreOptions::default() };
    let store = Store::open(data.path(), options).unwrap();
    let (report, seen) = import(&store, source.path(), "UTC");
    let reasons: BTreeMap<&str, &str> =
        report.refused.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
    let expected = [
        ("cpu-profile-20251120-000001-pprof.gz", "exceed the limit of 2000000"),
        ("cpu-profile-20251120-000002-flame.html.gz", "exceed the limit of 2000000"),
        ("cpu-profile-20251120-000003.html.tar.gz", "exceed the limit of 2000000"),
        ("cpu-profile-20251120-000004.html.tar.gz", "more than one entry"),
        ("cpu-profile-20251120-000005.html.tar.gz", "no .html file in it"),
        ("cpu-profile-20251120-000006.html.tar.gz", "no .html file in it"),
        ("cpu-profile-20251120-000007.html.tar.gz", "archive: "),
        ("cpu-profile-20251120-000008-flame.html.gz", "gzip: "),
        ("cpu-profile-20251120-000009-pprof.gz", "empty"),
        ("cpu-profile-20251120-000010-pprof.gz", "no known profile format"),
        ("cpu-profile-20251120-000011-pprof.gz", "exceed the limit of 1000000"),
        ("cpu-profile-20251120-000012-pprof.gz", "not a regular file"),
        ("cpu-profile-20251120-000013-pprof.gz", "not a regular file"),
        ("cpu-profile-20251120-000014-pprof.gz", "not a regular file"),
        ("cpu-profile-20251120-000015.html.tar.gz", "exceed the limit of 2000000"),
        ("cpu-profile-20251120-000016.html.tar.gz", "archive: "),
        ("x'$(id)'-profile-20251120-000001-pprof.gz", "not a profile's file name"),
    ];
    for (name, why) in expected {
        assert!(reasons.get(name).is_some_and(|reason| reason.contains(why)), "{name}: {:?}", reasons.get(name));
    }
    assert_eq!(reasons.len(), expected.len());
    // A time that is none leaves the date, as StarRocks reads it.
    let added: Vec<&str> = report.added.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(added, ["cpu-profile-20251120-999999-pprof.gz", "mem-profile-20251120-000001-pprof.gz"]);
    assert_eq!((report.already_there.len(), seen.len()), (0, 3));
    assert_eq!(
        files(data.path()),
        ["10001/cpu-profile-20251120-000000-pprof.gz", "10001/mem-profile-20251120-000001-pprof.gz"]
    );
    let errors = store.list_errors(&ErrorFilter::default(), &PageRequest::first(100)).rows;
    assert_eq!(errors.len(), expected.len() - 1, "a name that is not a profile's is no error row");
    assert!(errors.iter().all(|entry| entry.row.kind == ErrorKind::Import && entry.row.node == Some(10001)));
}

#[test]
fn names_to_be_skipped_are_passed_over() {
    let (source, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, content) in [
        ("one", "a"),
        ("two", "b"),
        ("cpu-profile-20251120-120000-pprof.gz", "c"),
        ("cpu-profile-20251120-120001-pprof.gz", "garbage"),
    ] {
        std::fs::write(source.path().join(name), content).unwrap();
    }
    let store = open(data.path());
    let skip = ["one", "cpu-profile-20251120-120001-pprof.gz"].map(str::to_owned).into();
    let options = ImportOptions { node: 1, zone: ImportOptions::zone(None).unwrap(), now: Nanos(0), skip };
    let mut seen = Vec::new();
    let report = store.import(source.path(), &options, &mut |item| ingest(&store, &mut seen, item)).unwrap();
    assert_eq!(seen, ["cpu-profile-20251120-120000-pprof.gz"]);
    assert_eq!((report.added.len(), report.refused.len()), (1, 1), "{report:?}");
}

#[test]
fn folders_that_cannot_be_read_are_errors() {
    let data = tempfile::tempdir().unwrap();
    let store = open(data.path());
    let options =
        ImportOptions { node: 1, zone: ImportOptions::zone(None).unwrap(), now: Nanos(0), skip: BTreeSet::new() };
    let failed = |folder: &Path| store.import(folder, &options, &mut |_| Ok(())).unwrap_err();
    assert!(matches!(failed(&data.path().join("nowhere")), Error::Io { .. }));
    symlink("/etc", data.path().join("link")).unwrap();
    assert!(matches!(failed(&data.path().join("link")), Error::Io { .. }));
    assert!(ImportOptions::zone(Some("Nowhere/Land")).is_err());
}
