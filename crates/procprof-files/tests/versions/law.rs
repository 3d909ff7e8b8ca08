//! The law of formats on disk: every version that a program has ever written is read whole.
//!
//! ```text
//! testdata/versions/NAME/VERSION        what a program has written that writes this version
//! testdata/versions/NAME/VERSION.txt    everything that is read of it
//! ```
//! The tests of each crate have a [`Row`] for each of its formats. With `UPDATE_EXPECT=1` a missing fixture of the
//! version that is written now is made; one that is there is never written again.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Everything that is read of a fixture, or the error.
pub(crate) type Contents = Result<String, Box<dyn Error>>;

/// A format.
pub(crate) struct Row {
    /// Its folder in `testdata/versions`.
    pub(crate) name: &'static str,
    /// The version that is written now.
    pub(crate) version: u32,
    /// Writes a fixture into an empty folder.
    pub(crate) make: fn(&Path),
    /// Opens a copy of a fixture.
    pub(crate) read: fn(&Path) -> Contents,
}

/// The folder of the fixtures.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/versions")
}

/// Checks that a format has a fixture of the version that is written now, and that all its fixtures are read.
pub(crate) fn check(row: &Row) {
    let folder = fixtures().join(row.name);
    let current = folder.join(row.version.to_string());
    if std::env::var_os("UPDATE_EXPECT").is_some() && !current.exists() {
        fs::create_dir_all(&current).unwrap();
        (row.make)(&current);
    }
    assert!(current.exists(), "{}: no fixture of version {}; UPDATE_EXPECT=1 makes it", row.name, row.version);
    for (version, fixture) in versions(&folder) {
        assert!(version <= row.version, "{}: a fixture of version {version}, which is not written", row.name);
        let copy = tempfile::tempdir().unwrap();
        copy_all(&fixture, copy.path());
        let read = (row.read)(copy.path());
        let read = read.unwrap_or_else(|error| panic!("{}/{version}: {}", row.name, chain(&*error)));
        compare(&folder.join(format!("{version}.txt")), &read);
    }
}

fn versions(folder: &Path) -> BTreeMap<u32, PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter_map(|path| Some((path.file_name()?.to_str()?.parse().ok()?, path))).collect()
}

fn compare(expected: &Path, read: &str) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(expected, read).unwrap();
    }
    let text = fs::read_to_string(expected).unwrap_or_default();
    assert!(text == read, "{} differs; UPDATE_EXPECT=1 writes it anew\n{read}", expected.display());
}

/// Copies a folder with all that is in it.
fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// An error with its sources.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        write!(text, ": {error}").unwrap();
        source = error.source();
    }
    text
}

/// A line of a text for everything that is read.
pub(crate) fn line(text: &mut String, value: impl std::fmt::Debug) {
    writeln!(text, "{value:?}").unwrap();
}
