//! Whole runs with programs that fail when they are told to.

use std::fs;
use std::path::Path;

use super::*;

/// A program with the test `t`: it does in its n-th run what the n-th word says (`ok`, `failed`, `dies`), and `ok`
/// after the last.
const PROGRAM: &str = r#"
if [ "$3" = --list ]; then echo 't: test'; exit; fi
runs=$(cat runs 2>/dev/null); runs=$((${runs:-0} + 1)); echo $runs > runs
ending=$(cut -d' ' -f$runs words); ending=${ending:-ok}
echo '{ "type": "suite", "event": "started", "test_count": 1 }'
echo '{ "type": "test", "event": "started", "name": "t" }'
if [ $ending = dies ]; then echo 'a last word' >&2; kill -9 $$; fi
echo '{ "type": "test", "name": "t", "event": "'$ending'", "exec_time": 0.5, "stdout": "run '$runs'" }'
echo '{ "type": "suite", "event": "'$ending'" }'
[ $ending = ok ]
"#;

fn suite(root: &Path, name: &str, words: &str) -> Suite {
    let folder = root.join(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("words"), words).unwrap();
    fs::write(folder.join("program"), PROGRAM).unwrap();
    Suite::program(name, &folder, &["sh", "program"])
}

/// Runs suites; whether the run passed, and the list of unsteady tests.
fn passes(suites: &[(&str, &str)]) -> (bool, String) {
    let root = tempfile::tempdir().unwrap();
    let suites: Vec<Suite> = suites.iter().map(|(name, words)| suite(root.path(), name, words)).collect();
    let places = Places::new().unwrap();
    let logs = root.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let runner = Runner { logs: &logs, places: &places, threads: "2", library: Path::new("none") };
    let result = run_all(&runner, &suites, Wanted::All);
    (result.is_ok(), fs::read_to_string(logs.join("unsteady/list")).unwrap_or_default())
}

#[test]
fn a_test_that_fails_now_and_then_is_unsteady_and_the_run_passes() {
    let (is_passed, unsteady) = passes(&[("steady", "ok"), ("now-and-then", "failed ok ok")]);
    assert!(is_passed);
    assert_eq!(unsteady, "now-and-then t\n");
}

#[test]
fn a_test_that_fails_alone_fails_the_run() {
    for words in ["failed failed failed", "failed failed ok", "failed ok failed"] {
        let (is_passed, unsteady) = passes(&[("steady", "ok"), ("broken", words)]);
        assert!(!is_passed, "{words}");
        assert_eq!(unsteady, "", "{words}");
    }
}

#[test]
fn a_test_that_ends_its_process_has_failed() {
    assert_eq!(passes(&[("dies", "dies ok ok ok")]), (true, "dies t\n".to_owned()));
    assert!(!passes(&[("dies", "dies ok dies")]).0);
}

#[test]
fn no_test_at_all_is_no_success() {
    assert!(!passes(&[]).0);
}
