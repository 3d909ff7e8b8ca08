//! The law of formats on disk: every version that a program has ever written is read whole, and a newer one is refused
//! by name and left as it is.
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
    /// Where it says its version; `None` where that is said, and checked, by the folder that it is in.
    pub(crate) mark: Option<Mark>,
}

/// A version in a file.
pub(crate) struct Mark {
    /// The file, in the fixture.
    pub(crate) file: &'static str,
    /// The bytes before it.
    pub(crate) before: &'static [u8],
    /// The bytes of a version.
    pub(crate) bytes: fn(u32) -> Vec<u8>,
    /// Makes the file intact after the version was changed.
    pub(crate) seal: fn(Vec<u8>) -> Vec<u8>,
}

/// The folder of the fixtures.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/versions")
}

/// Checks that a format has a fixture of the version that is written now, that all its fixtures are read, that a version
/// is written, and that a newer one is refused.
pub(crate) fn check(row: &Row) {
    let folder = fixtures().join(row.name);
    let current = folder.join(row.version.to_string());
    if std::env::var_os("UPDATE_EXPECT").is_some() && !current.exists() {
        fs::create_dir_all(&current).unwrap();
        (row.make)(&current);
    }
    assert!(current.exists(), "{}: no fixture of version {}; UPDATE_EXPECT=1 makes it", row.name, row.version);
    for (version, fixture) in versions(&folder) {
        assert!(version <= row.version, "{}: a fixture of version {version}, which is not read", row.name);
        if let Some(mark) = &row.mark {
            let found = mark.found(&fixture, row.version);
            assert!(found == Some(version) || version == 1 && found.is_none(), "{}/{version}: {found:?}", row.name);
        }
        let copy = tempfile::tempdir().unwrap();
        copy_all(&fixture, copy.path());
        let read = (row.read)(copy.path());
        let read = read.unwrap_or_else(|error| panic!("{}/{version}: {}", row.name, chain(&*error)));
        compare(&folder.join(format!("{version}.txt")), &read);
    }
    if let Some(mark) = &row.mark {
        check_mark(row, mark);
    }
}

fn check_mark(row: &Row, mark: &Mark) {
    let made = tempfile::tempdir().unwrap();
    (row.make)(made.path());
    assert_eq!(mark.found(made.path(), row.version), Some(row.version), "{}: the version is written", row.name);
    let newer = row.version + 1;
    mark.set(made.path(), row.version, newer);
    let before = contents(made.path());
    let error = (row.read)(made.path()).expect_err(row.name);
    let error = chain(&*error);
    let file = mark.file.rsplit('/').next().unwrap_or_default();
    for part in [file, &format!("version {newer}"), &format!("reads up to {}", row.version)] {
        assert!(error.contains(part), "{}: no {part:?} in {error:?}", row.name);
    }
    // The file of a lock has no content of its own.
    let mut after = contents(made.path());
    after.retain(|path, _| before.contains_key(path) || !path.ends_with("lock"));
    assert!(after == before, "{}: the newer version is not left as it was", row.name);
}

impl Mark {
    /// A version in decimal digits, in a file that needs nothing else.
    pub(crate) fn new(file: &'static str, before: &'static [u8]) -> Mark {
        Mark { file, before, bytes: |version| version.to_string().into_bytes(), seal: |content| content }
    }

    fn place(&self, version: u32) -> Vec<u8> {
        [self.before, &(self.bytes)(version)].concat()
    }

    /// The version in a folder, up to `most`.
    fn found(&self, folder: &Path, most: u32) -> Option<u32> {
        let content = fs::read(folder.join(self.file)).ok()?;
        (1..=most).find(|version| find(&content, &self.place(*version)).is_some())
    }

    fn set(&self, folder: &Path, old: u32, new: u32) {
        let file = folder.join(self.file);
        let mut content = fs::read(&file).unwrap();
        let place = self.place(old);
        let at = find(&content, &place).unwrap();
        content.splice(at..at + place.len(), self.place(new));
        fs::write(&file, (self.seal)(content)).unwrap();
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// All files of a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
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
