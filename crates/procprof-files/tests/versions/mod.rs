//! Versions of what is on disk; and the list of all formats, in `testdata/versions/README.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use procprof_files::{DiskFormat, Error};

const FORMAT: DiskFormat = DiskFormat { name: "store", version: 2 };

#[test]
fn a_missing_version_is_1_and_a_newer_one_is_refused_by_name() {
    assert_eq!(FORMAT.check("nodes.json", None).unwrap(), 1);
    assert_eq!(FORMAT.check("nodes.json", Some(2)).unwrap(), 2);
    let error = FORMAT.check("/data/nodes.json", Some(3)).unwrap_err();
    assert_eq!(error.to_string(), "/data/nodes.json: store of version 3; this procprof reads up to 2");
}

#[test]
fn marks_are_read_back() {
    assert_eq!(FORMAT.mark(), "procprof.store 2");
    assert_eq!(FORMAT.version_of_mark("procprof.store 2\n"), Some(2));
    for other in ["", "procprof.store", "procprof.stores 2", "procprof.store x", "store 2", "procprof.store 2 x"] {
        assert_eq!(FORMAT.version_of_mark(other), None, "{other:?}");
    }
}

#[test]
fn a_folder_says_its_version() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(FORMAT.check_folder(&folder.path().join("missing")).unwrap(), 1);
    assert_eq!(FORMAT.check_folder(folder.path()).unwrap(), 1);
    let first = DiskFormat { version: 1, ..FORMAT };
    first.mark_folder(folder.path(), 0o640).unwrap();
    fs::write(folder.path().join(".procprof-version.tmp"), "half").unwrap();
    assert_eq!(FORMAT.check_folder(folder.path()).unwrap(), 1);
    FORMAT.mark_folder(folder.path(), 0o640).unwrap();
    FORMAT.mark_folder(folder.path(), 0o640).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("procprof-version")).unwrap(), "procprof.store 2\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(FORMAT.check_folder(folder.path()).unwrap(), 2);
    let error = first.check_folder(folder.path()).unwrap_err();
    assert!(matches!(&error, Error::Version { found: 2, supported: 1, .. }), "{error}");
    let spool = DiskFormat { name: "spool", version: 2 };
    assert!(matches!(spool.check_folder(folder.path()), Err(Error::Mark { .. })));
}

#[test]
fn every_format_is_listed_with_its_fixtures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/versions");
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    let listed: BTreeSet<(String, String)> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .map(|(name, rest)| (name.to_owned(), rest.split(' ').next().unwrap_or_default().to_owned()))
        .collect();
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
    let formats = entries.filter(|entry| entry.path().is_dir());
    let there: BTreeSet<(String, String)> = formats
        .map(|format| {
            let versions = fs::read_dir(format.path()).unwrap().map(|entry| entry.unwrap());
            let versions = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            (format.file_name().into_string().unwrap(), versions.max().unwrap().to_string())
        })
        .collect();
    assert_eq!(listed, there, "testdata/versions/README.md lists each format with its newest version");
}
