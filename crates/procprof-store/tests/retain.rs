//! Retention on real folders, against an independent computation.

use std::collections::BTreeSet;
use std::process::Command;

use procprof_profile::Nanos;
use procprof_store::{ErrorFilter, ErrorKind, PageRequest, RetentionLimits, Why};

use crate::support::{SECOND, START, all, files, id, meta, open, pprof, put};

const DAY: i64 = 86_400 * SECOND;

struct File {
    number: u128,
    node: u64,
    kind: &'static str,
    completed: i64,
    bytes: u64,
}

/// 5,000 files of three nodes over two days, written into the folder as if by hand.
fn fill(profiles: &std::path::Path) -> Vec<File> {
    let mut noise: u64 = 7;
    let mut random = move |below: u64| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (noise >> 33) % below
    };
    (0..5000u128)
        .map(|number| {
            let node = 10001 + random(3);
            let kind = ["cpu", "heap", "contention"][random(3) as usize];
            let completed = START + random(172_800) as i64 * SECOND;
            let mut facts = meta(number, node, kind, completed);
            facts.means = "x".repeat(random(9) as usize);
            let encoded = pprof(&facts, random(600) as usize);
            let folder = profiles.join(node.to_string());
            std::fs::create_dir_all(&folder).unwrap();
            // Names need not agree with the facts inside.
            let name = format!(
                "cpu-profile-2025{:02}{:02}-{:02}{:02}{:02}-pprof.gz",
                number % 12 + 1,
                number / 12 % 28 + 1,
                number / 336 % 24,
                number / 8064,
                0
            );
            std::fs::write(folder.join(name), &encoded).unwrap();
            File { number, node, kind, completed, bytes: encoded.len() as u64 }
        })
        .collect()
}

/// The ones that are kept: sorted per node, newest first, counting from the newest on.
fn expected(files: &[File], pinned: &[u128], days: i64, node_bytes: u64, data_bytes: u64, now: i64) -> BTreeSet<u128> {
    let order = |file: &&File| (file.completed, file.number);
    let newest = |file: &&File| {
        let same = files.iter().filter(|other| other.node == file.node && other.kind == file.kind);
        same.max_by_key(order).unwrap().number == file.number
    };
    let held = |file: &&File| newest(file) || pinned.contains(&file.number);
    // Held files are counted first; of the rest, a newest-first run fits, and the first that does not fit ends it.
    let fitting = |candidates: Vec<&File>, room: u64| -> Vec<u128> {
        let (held, mut rest): (Vec<&File>, Vec<&File>) = candidates.into_iter().partition(held);
        let mut used: u64 = held.iter().map(|file| file.bytes).sum();
        rest.sort_by_key(|file| std::cmp::Reverse(order(file)));
        let mut stay: Vec<u128> = held.iter().map(|file| file.number).collect();
        for file in rest {
            used += file.bytes;
            if used > room {
                break;
            }
            stay.push(file.number);
        }
        stay
    };
    let mut stay: BTreeSet<u128> = BTreeSet::new();
    for node in 10001..10004 {
        let young = files.iter().filter(|file| file.node == node && (now - file.completed <= days * DAY || held(file)));
        stay.extend(fitting(young.collect(), node_bytes));
    }
    fitting(files.iter().filter(|file| stay.contains(&file.number)).collect(), data_bytes).into_iter().collect()
}

#[test]
fn five_thousand_files_shrink_as_the_rule_requires() {
    let folder = tempfile::tempdir().unwrap();
    let made = fill(&folder.path().join("profiles"));
    let store = open(folder.path());
    assert_eq!(store.opened().reconciled.added, 5000);
    let pinned = [17, 18, 19, 2500];
    for number in pinned {
        store.pin(id(number)).unwrap();
    }
    let now = START + 2 * DAY + 3600 * SECOND;
    let other = |name: &str| std::fs::metadata(folder.path().join(name)).map_or(0, |state| state.len());
    for (days, node_bytes, data_bytes) in [(1, 300_000, u64::MAX), (1, 250_000, 600_000), (0, 250_000, 600_000)] {
        // The catalog's own size counts for DATA and changes as rows go, so the last limit is far above or measured.
        let around = ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm", "journal/journal"]
            .map(other)
            .iter()
            .sum::<u64>();
        let limits = RetentionLimits {
            retained_days: days as u64,
            retained_size_bytes: node_bytes,
            data_bytes_max: data_bytes.saturating_add(around),
            free_bytes_min: 0,
        };
        let report = store.retain(&limits, Nanos(now)).unwrap();
        let left: BTreeSet<u128> = all(&store, 1000).iter().map(|entry| entry.id.0 & 0xffff).collect();
        assert_eq!(
            left,
            expected(&made, &pinned, days, node_bytes, data_bytes, now),
            "{days} {node_bytes} {data_bytes}"
        );
        assert_eq!(files(folder.path()).len(), left.len());
        assert!(report.failed.is_empty());
        assert_eq!(report.why.values().map(|(count, _)| *count).sum::<u64>(), report.profiles.len() as u64);
    }
    assert!(all(&store, 1000).len() <= 9 + pinned.len());
    let before = all(&store, 1000);
    store.rebuild().unwrap();
    assert_eq!(all(&store, 1000), before);
}

#[test]
fn nothing_over_its_limits_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..5 {
        put(&store, number, 10001, "cpu", START).unwrap();
    }
    let report =
        store.retain(&RetentionLimits { free_bytes_min: 0, ..RetentionLimits::default() }, Nanos(START + 10)).unwrap();
    assert_eq!(report, procprof_store::RetainReport::default());
    let floor = RetentionLimits { free_bytes_min: u64::MAX, ..RetentionLimits::default() };
    let report = store.retain(&floor, Nanos(START + 10)).unwrap();
    assert_eq!(report.profiles, [id(0), id(1), id(2), id(3)], "the free-space floor takes all but the newest");
    assert_eq!(report.why.keys().collect::<Vec<_>>(), [&Why::FreeSpace]);
}

/// A file that not even root may delete; the flag is removed at the end.
struct Immutable(std::path::PathBuf);

impl Immutable {
    fn set(&self, flag: &str) -> bool {
        Command::new("chattr").arg(flag).arg(&self.0).status().expect("chattr is needed").success()
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        self.set("-i");
    }
}

#[test]
fn an_undeletable_file_is_logged_once_and_others_go() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = open(folder.path());
    let stuck = put(&store, 1, 10001, "cpu", START).unwrap();
    for number in 2..10 {
        put(&store, number, 10001, "cpu", START + number as i64 * SECOND).unwrap();
    }
    let file = Immutable(folder.path().join("profiles/10001").join(&stuck.file_name));
    assert!(file.set("+i"), "this file system or user cannot make a file immutable");
    let narrow = RetentionLimits {
        retained_size_bytes: 3 * stuck.bytes + stuck.bytes / 2,
        free_bytes_min: 0,
        ..RetentionLimits::default()
    };
    let report = store.retain(&narrow, Nanos(START)).unwrap();
    assert_eq!((report.failed.len(), report.profiles.len()), (1, 6), "others make room in its place");
    assert_eq!(all(&store, 10).len(), 3);
    let old = RetentionLimits { retained_days: 0, ..narrow };
    for round in 0..3 {
        let report = store.retain(&old, Nanos(START + DAY)).unwrap();
        assert_eq!((report.failed.len(), report.profiles.len()), (1, usize::from(round == 0)), "round {round}");
    }
    let errors = store.list_errors(&ErrorFilter::default(), &PageRequest::first(10)).rows;
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].row.kind, errors[0].row.node), (ErrorKind::Retention, Some(10001)));
    assert!(
        errors[0].row.reason.contains(&stuck.file_name) && errors[0].row.reason.contains("not permitted"),
        "{}",
        errors[0].row.reason
    );
    assert!(file.set("-i"));
    assert_eq!(store.retain(&old, Nanos(START + DAY)).unwrap().profiles, [id(1)]);
}
