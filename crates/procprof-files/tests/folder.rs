//! Folders with strange things in them.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use procprof_files::{EntryKind, Error, FileState, Folder};

#[test]
fn only_regular_files_within_the_limit_are_read() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::make(place.path().join("data")).unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "content").unwrap();
    fs::create_dir(at("folder")).unwrap();
    symlink("/etc/passwd", at("link")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo is needed").success());
    let mut entries = folder.entries().unwrap();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let kinds = [
        ("file", EntryKind::File),
        ("folder", EntryKind::Folder),
        ("link", EntryKind::Other),
        ("pipe", EntryKind::Other),
    ];
    assert_eq!(entries, kinds.map(|(name, kind)| (name.to_owned(), kind)));
    assert_eq!(folder.read("file", 7).unwrap(), b"content");
    assert!(matches!(folder.read("file", 6), Err(Error::TooLarge { bytes: 7, limit: 6, .. })));
    assert!(matches!(folder.read("link", 1 << 20), Err(Error::Io { .. })));
    for name in ["folder", "pipe"] {
        assert!(matches!(folder.read(name, 1 << 20), Err(Error::NotRegular { .. })), "{name}");
    }
    assert!(folder.read("missing", 1).unwrap_err().is_not_found());
    assert_eq!(
        (folder.size("file"), folder.size("folder"), folder.size("link"), folder.size("missing")),
        (Some(7), None, None, None)
    );
    assert!(folder.remove("file").unwrap() && !folder.remove("file").unwrap());
    assert!(folder.free_bytes().unwrap() > 0);
}

#[test]
fn a_link_in_place_of_a_folder_is_refused() {
    let place = tempfile::tempdir().unwrap();
    symlink("/etc", place.path().join("link")).unwrap();
    assert!(Folder::open(place.path().join("link")).is_err());
    assert!(Folder::make(place.path().join("link")).is_err());
    let folder = Folder::open(place.path()).unwrap();
    assert!(folder.folder("link").is_err() && folder.make_folder("link").is_err());
    assert_eq!(folder.make_folder("own").unwrap().path(), place.path().join("own"));
    assert_eq!(folder.make_folder("own").unwrap().entries().unwrap(), []);
}

#[test]
fn a_folder_in_another_root_is_not_left() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    fs::create_dir_all(root.join("data/dumps")).unwrap();
    fs::create_dir(place.path().join("outside")).unwrap();
    fs::write(root.join("data/dumps/file"), "content").unwrap();
    symlink("/data", root.join("link")).unwrap();
    symlink(place.path().join("outside"), root.join("away")).unwrap();
    symlink("/proc/self/cwd", root.join("magic")).unwrap();
    let open = |path: &str| Folder::open_in_root(&root, path.as_ref());
    for path in ["/data/dumps", "data/dumps/", "/link/dumps", "/../../data/dumps"] {
        assert_eq!(open(path).unwrap().read("file", 7).unwrap(), b"content", "{path}");
    }
    for path in ["/away", "/magic", "/data/../../outside", "/data/dumps/file"] {
        assert!(open(path).is_err(), "{path}");
    }
    let folder = open("/data/dumps").unwrap();
    let state = folder.state("file").unwrap();
    assert_eq!(state, FileState::from_file(&folder.file("file", 7).unwrap().0).unwrap());
    assert!(state.bytes == 7 && state.modified_nanos > 0);
    assert_eq!(open("/data").unwrap().first_entries(0).unwrap(), []);
    assert_eq!(open("/").unwrap().first_entries(2).unwrap().len(), 2);
}
