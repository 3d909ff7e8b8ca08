//! `archive load` by stream load, into a stand-in: StarRocks itself is not run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use procprof_archive::{Cell, Part, Table};
use serde_json::Value;

use super::stand_in::{Fault, StandIn};
use super::{command, compact, fails, opened, start, write};
use crate::harness::{PATIENCE, folder, text};

fn target(cluster: &StandIn) -> String {
    format!("starrocks://loader@{}/profiles?http={}", cluster.mysql, cluster.http)
}

fn load(archive: &Path, cluster: &StandIn) -> Output {
    command(archive, &target(cluster)).output().unwrap()
}

fn succeeds(archive: &Path, cluster: &StandIn) -> String {
    let output = load(archive, cluster);
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A cell as JSON of a stream load has it.
fn json(cell: &Cell<'_>) -> Value {
    match cell {
        Cell::Missing => Value::Null,
        Cell::Text(text) => (*text).into(),
        Cell::Integer(number) => (*number).into(),
        Cell::Flag(flag) => (*flag).into(),
        Cell::Moment(micros) => {
            let moment = jiff::Timestamp::from_microsecond(*micros).unwrap();
            moment.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string().into()
        }
        Cell::Texts(map) => map.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect(),
        Cell::Integers(map) => map.iter().map(|(key, value)| (key.clone(), Value::from(*value))).collect(),
    }
}

/// The cluster has the rows of the archive, and nothing else.
fn check_same(archive: &Path, cluster: &StandIn) {
    let archive = opened(archive);
    let state = cluster.state.lock().unwrap();
    let parts: Vec<Part> = archive.parts().unwrap().whole.into_keys().collect();
    let expected: BTreeMap<i64, String> = parts.iter().map(|part| (*part.ids().start(), part.name())).collect();
    assert_eq!((&state.parts, state.begun.len()), (&expected, 0));
    for table in Table::BASE {
        let name = format!("archive_{}", table.name());
        let mut expected = BTreeMap::new();
        for part in &parts {
            let mut row = 0;
            let mut each = |cells: &[Cell<'_>]| {
                let cells: Vec<Value> = cells.iter().map(json).collect();
                let key = match table {
                    Table::Labels | Table::Samples => vec![*part.ids().start(), row],
                    _ => vec![cells[0].as_i64().unwrap()],
                };
                row += 1;
                expected.insert(key, (cells, Value::from(part.date())));
                Ok::<(), procprof_archive::Error>(())
            };
            archive.rows(*part, table, &mut each).unwrap();
        }
        let empty = BTreeMap::new();
        let found = state.rows.get(&name).unwrap_or(&empty);
        assert_eq!(found.len(), expected.len(), "{name}");
        for ((key, row), (expected_key, (cells, date))) in found.iter().zip(&expected) {
            let found: Vec<&Value> = table.columns().iter().map(|column| &row[column.name]).collect();
            assert_eq!((key, found, &row["date"]), (expected_key, cells.iter().collect(), date), "{name}");
        }
    }
}

#[test]
fn rows_go_to_the_backend_that_the_frontend_names() {
    let folder = folder();
    let archive = folder.path().join("archive");
    write(&archive);
    let cluster = StandIn::start();
    let parts = opened(&archive).parts().unwrap().whole.len();
    assert!(succeeds(&archive, &cluster).starts_with(&format!("{parts} parts with ")));
    check_same(&archive, &cluster);
    let loads = cluster.state.lock().unwrap().loads;
    assert!(succeeds(&archive, &cluster).starts_with("0 parts with 0 rows loaded in 0 bytes, 0 removed, "));
    assert_eq!(cluster.state.lock().unwrap().loads, loads);
    compact(&archive, None);
    let compacted = succeeds(&archive, &cluster);
    assert!(compacted.contains(&format!(" {parts} removed, 0 already there")), "{compacted}");
    check_same(&archive, &cluster);
}

#[test]
fn a_load_whose_answer_was_lost_takes_place_once() {
    let folder = folder();
    let archive = folder.path().join("archive");
    write(&archive);
    let cluster = StandIn::start();
    cluster.state.lock().unwrap().faults.extend([Fault::LostAnswer, Fault::LostAnswerWhileRunning]);
    succeeds(&archive, &cluster);
    check_same(&archive, &cluster);
    let state = cluster.state.lock().unwrap();
    // Once more for the first answer; for the second one twice while it runs, and once when it has ended.
    assert_eq!(state.loads as usize, state.labels.len() + 4);
}

/// Kills a load of an empty database while a backend has a piece of its third part; a part has five tables.
fn kill_in_third_part(archive: &Path, cluster: &StandIn) {
    cluster.state.lock().unwrap().faults.extend([Fault::None; 13].into_iter().chain([Fault::Hang]));
    let mut child = start(archive, &target(cluster));
    let begun = Instant::now();
    while !cluster.state.lock().unwrap().hangs {
        assert!(begun.elapsed() < PATIENCE, "the load does not come so far");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut state = cluster.state.lock().unwrap();
    state.hangs = false;
    let parts: BTreeSet<i64> = state.rows["archive_frames"].keys().map(|key| key[0] - key[0] % 16_777_216).collect();
    assert_eq!((parts.len(), state.parts.len(), state.begun.len()), (3, 2, 1));
}

#[test]
fn a_killed_load_is_repaired_by_the_next() {
    let folder = folder();
    let archive = folder.path().join("archive");
    write(&archive);
    let cluster = StandIn::start();
    kill_in_third_part(&archive, &cluster);
    assert!(succeeds(&archive, &cluster).contains(" 0 removed, 2 already there"));
    check_same(&archive, &cluster);
    // Compaction replaces the part that was begun.
    let cluster = StandIn::start();
    kill_in_third_part(&archive, &cluster);
    compact(&archive, None);
    assert!(succeeds(&archive, &cluster).contains(" 3 removed, 0 already there"));
    check_same(&archive, &cluster);
}

#[test]
fn what_a_load_leaves_out_is_an_error() {
    let folder = folder();
    let archive = folder.path().join("archive");
    write(&archive);
    let cluster = StandIn::start();
    let parts = opened(&archive).parts().unwrap().whole.len();
    let cases = [
        (Fault::Filtered, " rows loaded, 1 left out: OK; details: http://be/error_log"),
        (Fault::Status500, ": 500 Internal Server Error: \"out of memory\""),
        (Fault::Fail, "stream load into archive_frames: Fail: too many versions"),
    ];
    for (fault, expected) in cases {
        cluster.state.lock().unwrap().faults.push_back(fault);
        cluster.state.lock().unwrap().parts.clear();
        let shown = fails(&load(&archive, &cluster));
        assert!(shown.contains("failed: date=") && shown.contains(expected), "{fault:?}: {shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert_eq!(cluster.state.lock().unwrap().parts.len(), parts - 1, "{fault:?}");
    }
    // What was left of the part that failed is replaced.
    assert!(succeeds(&archive, &cluster).starts_with("1 parts with "));
    check_same(&archive, &cluster);
    let mut wrong = command(&archive, &target(&cluster));
    cluster.state.lock().unwrap().parts.clear();
    let shown = fails(&wrong.env("PROCPROF_LOAD_PASSWORD", "hunter2").output().unwrap());
    assert!(shown.contains("Access denied for loader") && !shown.contains("hunter2"), "{shown}");
    // A backend takes rows itself.
    let backend = format!("starrocks://loader@{}/profiles?http={}", cluster.mysql, cluster.backend);
    let shown = fails(&command(&archive, &backend).output().unwrap());
    assert!(shown.contains("names no backend for rows; is it a frontend's HTTP port?"), "{shown}");
}
