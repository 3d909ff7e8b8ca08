//! Writing: replaced, created, given a free name, given up.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use procprof_files::{Durability, Error, Folder, NewFile, create, replace};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_replaced_with_its_mode_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    replace(&path, b"one", 0o640).unwrap();
    replace(&path, b"two", 0o600).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(names(folder.path()), ["users"]);
}

#[test]
fn the_folder_of_a_replaced_file_may_be_a_link() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    symlink(folder.path().join("real"), folder.path().join("link")).unwrap();
    replace(&folder.path().join("link/users"), b"one", 0o600).unwrap();
    assert_eq!(names(&folder.path().join("real")), ["users"]);
}

#[test]
fn created_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    create(&path, b"one", 0o600).unwrap();
    let again = create(&path, b"two", 0o600).unwrap_err();
    assert!(matches!(&again, Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists), "{again}");
    assert_eq!((fs::read(&path).unwrap(), names(folder.path()).len()), (b"one".to_vec(), 1));
}

#[test]
fn what_cannot_be_written_leaves_nothing_and_keeps_the_old() {
    let folder = tempfile::tempdir().unwrap();
    assert!(replace(&folder.path().join("missing/out"), b"x", 0o600).unwrap_err().is_not_found());
    fs::create_dir(folder.path().join("taken")).unwrap();
    let refused = replace(&folder.path().join("taken"), b"x", 0o600).unwrap_err();
    assert!(refused.to_string().starts_with("rename to ") && refused.to_string().ends_with("/taken"), "{refused}");
    assert!(replace(Path::new("/"), b"x", 0o600).is_err());
    assert_eq!(names(folder.path()), ["taken"]);
}

#[test]
fn the_first_free_name_is_taken_and_none_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let place = Folder::open(folder.path()).unwrap();
    let candidates = || (0..3).map(|number| number.to_string());
    for content in ["a", "b", "c"] {
        let mut file = NewFile::begin(&place, ".new.tmp", 0o640).unwrap();
        file.write(content.as_bytes()).unwrap();
        assert_eq!(fs::read(file.temporary_path()).unwrap(), content.as_bytes());
        assert!(file.take_free(candidates()).unwrap().is_some());
    }
    assert_eq!(NewFile::begin(&place, ".new.tmp", 0o640).unwrap().take_free(candidates()).unwrap(), None::<String>);
    assert_eq!(names(folder.path()), ["0", "1", "2"]);
    let contents = candidates().map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
    assert_eq!(contents.collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn a_file_given_up_is_removed_and_a_temporary_name_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let place = Folder::open(folder.path()).unwrap();
    let first = NewFile::begin(&place, ".one.tmp", 0o640).unwrap();
    assert!(NewFile::begin(&place, ".one.tmp", 0o640).is_err());
    assert_eq!(names(folder.path()), [".one.tmp"]);
    drop(first);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_replaced_file_can_be_written_on() {
    let folder = tempfile::tempdir().unwrap();
    let place = Folder::open(folder.path()).unwrap();
    for durability in [Durability::Synced, Durability::Cached] {
        let mut new = NewFile::begin(&place, ".journal.tmp", 0o640).unwrap().with_durability(durability);
        Write::write_all(&mut new, b"one ").unwrap();
        new.rename("journal").unwrap().write_all(b"two").unwrap();
        assert_eq!(fs::read(folder.path().join("journal")).unwrap(), b"one two");
    }
}

#[test]
fn many_writers_of_one_file_leave_one_whole_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes.json");
    std::thread::scope(|scope| {
        for number in 0..8_u8 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..20 {
                    replace(path, &vec![number; 10_000], 0o640).unwrap();
                }
            });
        }
    });
    let content = fs::read(&path).unwrap();
    assert!(content.len() == 10_000 && content.iter().all(|byte| *byte == content[0]));
    assert_eq!(names(folder.path()), ["nodes.json"]);
}
