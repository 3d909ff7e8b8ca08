//! The recorded profiles of this repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The profiles in `testdata/formats`, plain or packed as they are.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats");
    let mut paths = Vec::new();
    for folder in fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        paths.extend(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    let is_profile =
        |path: &PathBuf| !path.extension().is_some_and(|extension| extension == "expect" || extension == "go");
    let mut fixtures: Vec<_> = paths
        .into_iter()
        .filter(is_profile)
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect();
    fixtures.sort();
    assert!(fixtures.len() > 10, "testdata/formats has profiles");
    fixtures
}
