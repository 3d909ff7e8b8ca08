//! A stored profile gets a better content under its old name.

use procprof_profile::Nanos;
use procprof_store::{CacheKey, Encoded, Error, NewProfile};

use crate::support::{SECOND, START, all, files, id, meta, open, pprof, put, summary};

#[test]
fn a_better_content_takes_the_place_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let old = put(&store, 1, 10001, "cpu", START).unwrap();
    put(&store, 2, 10001, "cpu", START + 60 * SECOND).unwrap();
    store.pin(id(1)).unwrap();
    let rendered = CacheKey { node: Some(10001), profile: Some(id(1)), what: "svg" };
    store.cache_put(&rendered, b"without names", Nanos(START)).unwrap();
    let before = files(folder.path());

    let replace = |meta: procprof_profile::Meta, start: i64| {
        let encoded = pprof(&meta, 500);
        let new = NewProfile {
            meta,
            encoded: Encoded::Received(&encoded),
            summary: summary("named"),
            functions: None,
            start: Nanos(start),
            duration: Nanos(10 * SECOND),
        };
        store.replace(new)
    };
    let new = replace(meta(1, 10001, "cpu", START + 10 * SECOND), START).unwrap();
    assert_eq!((new.id, &new.file_name, new.completed, new.pinned), (old.id, &old.file_name, old.completed, true));
    assert!(new.bytes > old.bytes && new.summary.top[0].name == "named");
    assert_eq!(store.open_bytes(id(1)).unwrap().len() as u64, new.bytes);
    assert_eq!(store.cache_get(&rendered), None, "what was rendered of the old one is forgotten");
    assert_eq!(files(folder.path()), before, "no other file comes or goes");
    let listed = all(&store, 10);
    store.rebuild().unwrap();
    assert_eq!(all(&store, 10), listed, "a rebuild finds the same");

    for wrong in
        [meta(1, 10002, "cpu", START + 10 * SECOND), meta(1, 10001, "heap", START), meta(1, 10001, "cpu", START)]
    {
        assert!(matches!(replace(wrong, START), Err(Error::Argument { .. })));
    }
    assert!(matches!(replace(meta(9, 10001, "cpu", START), START), Err(Error::NotFound { .. })));
    assert_eq!(all(&store, 10), listed);
}
