//! DuckDB reads the files, with the same sums.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use procprof_archive::Selection;
use procprof_profile::{LocationId, Profile};

use crate::support::{archive, identity, some_profiles};

/// The interpreter that has the module.
fn python() -> PathBuf {
    let python = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/engines/python/bin/python");
    assert!(python.exists(), "this test needs the Python module duckdb, which `cargo xtask test` installs");
    python
}

/// The rows of a statement, as texts without tabs and line breaks.
fn query(archive: &Path, statement: &str) -> Vec<Vec<String>> {
    let script = "import duckdb, sys\nfor row in duckdb.sql(sys.argv[1]).fetchall(): print(*row, sep='\\t')";
    let output = Command::new(python()).args(["-c", script, statement]).current_dir(archive).output().unwrap();
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

pub(crate) const TOTALS: &str = include_str!("engines/totals.sql");
pub(crate) const FUNCTIONS: &str = include_str!("engines/functions.sql");

#[test]
fn sums_of_profiles_are_the_same() {
    let profiles = some_profiles();
    let (folder, _) = archive(&profiles);
    let rows = query(&folder.path().join("archive"), TOTALS);
    let expected = profiles.iter().enumerate().flat_map(|(number, profile)| {
        ["cpu", "samples"].map(|kind| {
            let total = profile.total(profile.sample_type_index(kind).unwrap()).to_string();
            vec![identity(number as i64).id.to_string(), kind.to_owned(), total.clone(), total]
        })
    });
    assert_eq!(rows, expected.collect::<Vec<_>>());
}

#[test]
fn functions_have_the_same_sums() {
    let (folder, archive) = archive(&some_profiles());
    let merged = archive.merge(&Selection::default()).unwrap().unwrap().profile;
    let rows = query(&folder.path().join("archive"), FUNCTIONS);
    let found: BTreeMap<String, (i64, i64)> =
        rows.into_iter().map(|row| (row[0].clone(), (row[1].parse().unwrap(), row[2].parse().unwrap()))).collect();
    assert_eq!(found, functions(&merged));
}

/// Own and cumulative sums of the second sample type by function.
fn functions(profile: &Profile) -> BTreeMap<String, (i64, i64)> {
    let mut found: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let names =
        |id: LocationId| profile.lines(id).iter().map(|line| profile.string(profile.function(line.function).name));
    for sample in profile.samples() {
        let mut stack: Vec<&str> = sample.stack.iter().flat_map(|id| names(*id)).collect();
        if let Some(leaf) = stack.first() {
            found.entry((*leaf).to_owned()).or_default().0 += sample.values[1];
        }
        stack.sort_unstable();
        stack.dedup();
        for name in stack {
            found.entry(name.to_owned()).or_default().1 += sample.values[1];
        }
    }
    found
}
