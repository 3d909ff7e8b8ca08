//! Strange things in the folder, and two openers of it.

use std::os::unix::fs::symlink;
use std::process::Command;

use procprof_store::{Error, Format, Store, StoreOptions, content_id};

use crate::support::{START, all, files, id, meta, open, pprof, put};

#[test]
fn a_second_opener_gets_an_error_with_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    match Store::open(folder.path(), StoreOptions::default()) {
        Err(Error::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    let message = Store::open(folder.path(), StoreOptions::default()).unwrap_err().to_string();
    assert!(message.ends_with(&format!("in use by process {}", std::process::id())), "{message}");
    drop(store);
    std::fs::write(folder.path().join("lock"), "stale nonsense").unwrap();
    open(folder.path());
}

#[test]
fn leftovers_go_and_oddities_stay_unlisted() {
    let folder = tempfile::tempdir().unwrap();
    put(&open(folder.path()), 1, 10001, "cpu", START).unwrap();
    let node = folder.path().join("profiles/10001");
    std::fs::write(node.join(format!(".{}.tmp", id(2))), "half").unwrap();
    std::fs::write(node.join("notes.txt"), "mine").unwrap();
    symlink("/etc/passwd", node.join("cpu-profile-20251120-111111-pprof.gz")).unwrap();
    std::fs::create_dir(node.join("cpu-profile-20251120-111112-pprof.gz")).unwrap();
    let fifo = Command::new("mkfifo")
        .arg(node.join("cpu-profile-20251120-111113-pprof.gz"))
        .status()
        .expect("mkfifo is needed");
    assert!(fifo.success());
    std::fs::create_dir(folder.path().join("profiles/007")).unwrap();
    symlink("/etc", folder.path().join("profiles/8")).unwrap();
    let store = open(folder.path());
    let reconciled = &store.opened().reconciled;
    assert_eq!((reconciled.leftovers, reconciled.odd_count, reconciled.files), (1, 4, 1), "{:?}", reconciled.odd);
    assert_eq!(all(&store, 10).len(), 1);
    assert_eq!(files(folder.path()).iter().filter(|name| name.contains("10001")).count(), 5);
}

#[test]
fn a_file_swapped_for_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let entry = put(&store, 1, 10001, "cpu", START).unwrap();
    let file = folder.path().join("profiles/10001").join(&entry.file_name);
    std::fs::remove_file(&file).unwrap();
    symlink("/etc/passwd", &file).unwrap();
    assert!(matches!(store.open_bytes(id(1)), Err(Error::Io { .. })));
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, vec![0; 2000]).unwrap();
    drop(store);
    let small =
        Store::open(folder.path(), StoreOptions { profile_bytes_max: 1999, ..StoreOptions::default() }).unwrap();
    assert!(matches!(small.open_bytes(id(1)), Err(Error::TooLarge { bytes: 2000, limit: 1999, .. })));
}

#[test]
fn a_link_in_place_of_the_lock_is_refused_and_what_it_points_to_kept() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    std::fs::write(elsewhere.path(), "precious").unwrap();
    symlink(elsewhere.path(), folder.path().join("lock")).unwrap();
    assert!(matches!(Store::open(folder.path(), StoreOptions::default()), Err(Error::Io { .. })));
    assert_eq!(std::fs::read(elsewhere.path()).unwrap(), b"precious");
}

#[test]
fn files_put_there_by_hand_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let node = folder.path().join("profiles/10001");
    std::fs::create_dir_all(&node).unwrap();
    let own = pprof(&meta(5, 99, "heap", START), 0);
    let garbage = b"\x1f\x8b rotten".to_vec();
    std::fs::write(node.join("heap-profile-20251120-100000-pprof.gz"), &own).unwrap();
    std::fs::write(node.join("heap-profile-20251120-100001-pprof.gz"), &own).unwrap();
    std::fs::write(node.join("cpu-profile-20251120-100000-pprof.gz"), &garbage).unwrap();
    std::fs::write(node.join("cpu-profile-20251120-100000-flame.html.gz"), "page").unwrap();
    for round in 0..2 {
        let store = open(folder.path());
        let entries = all(&store, 10);
        assert_eq!(entries.len(), 3, "one of two files with the same id");
        assert!(entries.iter().all(|entry| entry.node == 10001 && entry.meta.node == Some(10001)));
        let by_comments = store.get(id(5)).unwrap();
        assert_eq!(by_comments.file_name, "heap-profile-20251120-100000-pprof.gz");
        let by_content = store.get(content_id(&garbage)).unwrap();
        assert_eq!((by_content.meta.trigger.as_str(), by_content.start.0), ("import", 1_763_632_800_000_000_000));
        assert_eq!(store.get(content_id(b"page")).unwrap().format, Format::Flame);
        let odd = &store.opened().reconciled;
        assert_eq!(odd.odd_count, 1, "round {round}: {:?}", odd.odd);
        assert!(odd.odd[0].contains("is that of another file"));
    }
}

#[test]
fn content_ids_are_version_8_uuids_of_the_sha256() {
    assert_eq!(content_id(b"").to_string(), "e3b0c442-98fc-8c14-9afb-f4c8996fb924");
}
