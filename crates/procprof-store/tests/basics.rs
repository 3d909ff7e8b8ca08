//! Put, get, list, open, delete, pin, and what each refuses.

use std::collections::BTreeMap;

use procprof_profile::{Meta, Nanos};
use procprof_store::{Encoded, Error, Filter, Format, NewProfile, PageRequest, Store, StoreOptions};

use crate::support::{SECOND, START, all, cpu, files, id, meta, open, pprof, put, put_meta, summary};

#[test]
fn a_put_profile_is_found_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut facts = meta(1, 10001, "cpu", START + 11 * SECOND);
    facts.labels = BTreeMap::from([("zone".to_owned(), "eu\n1".to_owned())]);
    facts.more = BTreeMap::from([("odd".to_owned(), "kept".to_owned())]);
    let entry = put_meta(&store, facts, START, 100).unwrap();
    assert_eq!(entry.file_name, "cpu-profile-20251120-222534-pprof.gz");
    assert_eq!(files(folder.path()), ["10001/cpu-profile-20251120-222534-pprof.gz"]);
    assert_eq!(
        (entry.completed, entry.start, entry.duration),
        (Nanos(START + 11 * SECOND), Nanos(START), Nanos(10 * SECOND))
    );
    assert_eq!((entry.format, entry.pinned, &entry.summary), (Format::Pprof, false, &summary("hot_70")));
    assert_eq!(entry.meta.labels["zone"], "eu 1");
    assert_eq!(entry.meta.more["odd"], "kept");
    assert_eq!(store.get(id(1)).unwrap(), entry);
    assert_eq!(store.by_name(10001, &entry.file_name).unwrap().as_ref(), Some(&entry));
    assert_eq!(store.by_name(10002, &entry.file_name).unwrap(), None);
    assert_eq!(store.newest(10001, &cpu()).unwrap().as_ref(), Some(&entry));
    assert_eq!(all(&store, 10), std::slice::from_ref(&entry));
    let bytes = store.open_bytes(id(1)).unwrap();
    assert_eq!(bytes.len() as u64, entry.bytes);
    assert!(matches!(store.get(id(2)), Err(Error::NotFound { .. })));
    assert!(matches!(store.open_bytes(id(2)), Err(Error::NotFound { .. })));
}

#[test]
fn stored_files_open_in_go_tool_pprof() {
    let folder = tempfile::tempdir().unwrap();
    put(&open(folder.path()), 1, 10001, "cpu", START).unwrap();
    let file = folder.path().join("profiles/10001/cpu-profile-20251120-222534-pprof.gz");
    let run = std::process::Command::new("go")
        .args(["tool", "pprof", "-raw"])
        .arg(&file)
        .output()
        .expect("go tool pprof is needed");
    let raw = String::from_utf8(run.stdout).unwrap();
    assert!(
        run.status.success() && raw.contains("hot_70") && raw.contains("procprof:node=10001"),
        "{raw}{:?}",
        run.stderr
    );
    let gzip = std::process::Command::new("gzip").arg("-t").arg(&file).status().expect("gzip is needed");
    assert!(gzip.success());
}

#[test]
fn a_second_taken_moves_the_name_and_not_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..3 {
        put(&store, number, 10001, "cpu", START).unwrap();
    }
    let names = ["10001/cpu-profile-20251120-222534-pprof.gz", "10001/cpu-profile-20251120-222535-pprof.gz"];
    assert_eq!(files(folder.path())[..2], names);
    assert_eq!(store.get(id(2)).unwrap().start, Nanos(START));
    let before = all(&store, 2);
    store.rebuild().unwrap();
    assert_eq!(all(&store, 1), before);
}

#[test]
fn what_cannot_be_stored_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { profile_bytes_max: 5000, unpacked_bytes_max: 20_000, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options).unwrap();
    let good = meta(1, 10001, "cpu", START);
    let encoded = pprof(&good, 100);
    let attempt = |meta: &Meta, encoded: &[u8]| {
        let new = NewProfile {
            meta: meta.clone(),
            encoded: Encoded::Received(encoded),
            summary: summary("f"),
            functions: None,
            start: Nanos(START),
            duration: Nanos(0),
        };
        store.put(new).unwrap_err().to_string()
    };
    assert_eq!(attempt(&Meta { id: None, ..good.clone() }, &encoded), "profile lacks its id");
    assert_eq!(attempt(&Meta { node: None, ..good.clone() }, &encoded), "profile lacks its node");
    assert_eq!(attempt(&Meta { profile_type: None, ..good.clone() }, &encoded), "profile lacks its type");
    assert!(attempt(&Meta { id: Some(id(2)), ..good.clone() }, &encoded).contains("do not name that id"));
    assert!(attempt(&good, &encoded[..encoded.len() - 9]).contains("profile 0193"));
    assert!(attempt(&good, b"not gzip at all").contains("invalid gzip header"));
    assert!(attempt(&good, &pprof(&good, 10_000)).contains("exceed the limit of 5000"));
    let bomb = crate::support::gzip(&vec![0x0a; 200_000]);
    assert!(bomb.len() < 5000);
    assert!(attempt(&good, &bomb).contains("unpacks to more than 20000 bytes"), "{}", attempt(&good, &bomb));
    let wordy = Meta { means: "x".repeat(70_000), ..good.clone() };
    assert!(attempt(&wordy, &pprof(&good, 0)).contains("exceed the limit of 60000"));
    assert!(files(folder.path()).is_empty());
    assert!(all(&store, 10).is_empty());
}

#[test]
fn a_store_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Store>();
}

#[test]
fn an_id_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    put(&store, 1, 10001, "cpu", START).unwrap();
    assert!(matches!(put(&store, 1, 10002, "heap", START), Err(Error::Exists { .. })));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| put(&store, 2, 10001, "cpu", START).is_ok())).collect();
        let stored = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|ok| *ok).count();
        assert_eq!(stored, 1);
    });
    assert_eq!(files(folder.path()).len(), 2);
}

#[test]
fn filters_and_pages() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..60 {
        let node = [10001, 10002, 10003][number % 3];
        let kind = ["cpu", "heap"][number / 3 % 2];
        // Every completion is shared by two, so that the id decides.
        let start = START + number as i64 / 2 * SECOND;
        let mut facts = meta(number as u128, node, kind, start);
        facts.trigger = ["schedule", "manual"][number / 30].to_owned();
        facts.cluster = ["east", "west"][number % 2].to_owned();
        facts.labels = BTreeMap::from([("zone".to_owned(), format!("z{}", number % 4))]);
        put_meta(&store, facts, start, 0).unwrap();
    }
    let everything = all(&store, 7);
    assert_eq!(everything.len(), 60);
    assert!(everything.windows(2).all(|pair| (pair[0].completed, pair[0].id) > (pair[1].completed, pair[1].id)));
    let none = Filter::default();
    let check = |filter: Filter, keeps: &dyn Fn(u128) -> bool| {
        let mut expected: Vec<u128> = (0..60).filter(|number| keeps(*number)).collect();
        expected.reverse();
        for limit in [1, 4, 1000] {
            let mut found = Vec::new();
            let mut page = PageRequest::first(limit);
            loop {
                let got = store.list(&filter, &page).unwrap();
                assert!(got.rows.len() <= limit);
                found.extend(got.rows.iter().map(|entry| entry.id.0 & 0xffff));
                let Some(next) = got.next else { break };
                page = PageRequest::after(limit, next);
            }
            assert_eq!(found, expected, "{filter:?} by {limit}");
        }
    };
    check(none.clone(), &|_| true);
    check(Filter { nodes: vec![10002], ..none.clone() }, &|n| n % 3 == 1);
    check(Filter { nodes: vec![10002, 10003, 9], ..none.clone() }, &|n| n % 3 != 0);
    check(Filter { types: vec![cpu()], ..none.clone() }, &|n| n / 3 % 2 == 0);
    check(Filter { nodes: vec![10001], types: vec![cpu()], ..none.clone() }, &|n| n % 6 == 0);
    check(Filter { types: vec![cpu(), "wall".parse().unwrap()], nodes: vec![10001, 10002], ..none.clone() }, &|n| {
        n % 6 < 2
    });
    check(
        Filter { from: Some(Nanos(START + 5 * SECOND)), to: Some(Nanos(START + 7 * SECOND)), ..none.clone() },
        &|n| (10..14).contains(&n),
    );
    check(Filter { trigger: Some("manual".into()), ..none.clone() }, &|n| n >= 30);
    check(Filter { cluster: Some("west".into()), ..none.clone() }, &|n| n % 2 == 1);
    check(Filter { labels: vec![("zone".into(), "z3".into())], ..none.clone() }, &|n| n % 4 == 3);
    check(Filter { labels: vec![("zone".into(), "z3".into())], cluster: Some("east".into()), ..none.clone() }, &|_| {
        false
    });
    check(Filter { text: Some("HOT_7".into()), ..none.clone() }, &|_| true);
    check(Filter { text: Some("heap-prof".into()), ..none.clone() }, &|n| n / 3 % 2 == 1);
    check(Filter { text: Some("Node 10003".into()), ..none.clone() }, &|n| n % 3 == 2);
    check(Filter { text: Some("' OR 1 --".into()), ..none }, &|_| false);
    assert!(store.list(&Filter { nodes: (0..1001).collect(), ..Filter::default() }, &PageRequest::first(1)).is_err());
    assert!("nonsense".parse::<procprof_store::Cursor>().is_err());
}

#[test]
fn deleting_and_pinning() {
    let folder = tempfile::tempdir().unwrap();
    let size = put(&open(folder.path()), 9, 1, "cpu", START).unwrap().bytes;
    let options = StoreOptions { pinned_bytes_max: 2 * size + size / 2, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options.clone()).unwrap();
    for number in 1..4 {
        put(&store, number, 10001, "cpu", START).unwrap();
    }
    store.pin(id(1)).unwrap();
    store.pin(id(1)).unwrap();
    store.pin(id(2)).unwrap();
    assert!(matches!(store.pin(id(3)), Err(Error::PinsFull { .. })));
    assert!(matches!(store.pin(id(77)), Err(Error::NotFound { .. })));
    assert!(matches!(store.delete(id(1)), Err(Error::Pinned { .. })));
    drop(store);
    let store = Store::open(folder.path(), options).unwrap();
    assert!(store.get(id(1)).unwrap().pinned && !store.get(id(3)).unwrap().pinned);
    store.unpin(id(1)).unwrap();
    store.unpin(id(1)).unwrap();
    assert_eq!(store.delete(id(1)).unwrap().id, id(1));
    assert!(matches!(store.delete(id(1)), Err(Error::NotFound { .. })));
    store.pin(id(3)).unwrap();
    assert_eq!(files(folder.path()).len(), 3);
    let usage = store.usage().unwrap();
    assert_eq!((usage.profiles, usage.nodes.len(), usage.nodes[1].profiles), (3, 2, 2));
    assert_eq!(usage.pinned_bytes, store.get(id(2)).unwrap().bytes + store.get(id(3)).unwrap().bytes);
}

#[test]
fn a_name_of_a_file_that_went_away_is_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let gone = put(&store, 1, 10001, "cpu", START).unwrap();
    std::fs::remove_file(folder.path().join("profiles/10001").join(&gone.file_name)).unwrap();
    let entry = put(&store, 2, 10001, "cpu", START).unwrap();
    assert_eq!(entry.file_name, gone.file_name);
    assert!(matches!(store.get(id(1)), Err(Error::NotFound { .. })));
    assert_eq!(all(&store, 10), [entry]);
}

#[test]
fn a_removed_file_is_an_error_and_dropped_when_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let entry = put(&store, 1, 10001, "cpu", START).unwrap();
    std::fs::remove_file(folder.path().join("profiles/10001").join(&entry.file_name)).unwrap();
    assert!(matches!(store.open_bytes(id(1)), Err(Error::Gone { .. })));
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.opened().reconciled.dropped, 1);
    assert!(all(&store, 10).is_empty());
}
