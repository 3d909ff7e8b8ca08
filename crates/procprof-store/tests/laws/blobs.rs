//! The laws of [`Blobs`](procprof_store::Blobs).

use procprof_store::{BlobName, Blobs, Listing, Unfinished};

use super::everywhere;

fn blob<'a>(folder: &'a str, name: &'a str) -> BlobName<'a> {
    BlobName::new(folder, name).unwrap()
}

fn put(blobs: &dyn Blobs, folder: &str, names: &[&str], content: &[u8]) -> Option<String> {
    let (first, rest) = content.split_at(content.len() / 2);
    let put = blobs.put(folder, &mut names.iter().map(|name| (*name).to_owned()), &[first, rest]).unwrap();
    put.map(|(name, _)| name)
}

fn get(blobs: &dyn Blobs, folder: &str, name: &str) -> Option<Vec<u8>> {
    blobs.get(blob(folder, name), 0..u64::MAX).unwrap().map(|piece| piece.bytes)
}

fn names(blobs: &dyn Blobs, folder: &str) -> Vec<String> {
    listed(blobs, folder).blobs.into_iter().map(|(name, _)| name).collect()
}

fn listed(blobs: &dyn Blobs, folder: &str) -> Listing {
    let mut listing = blobs.list(folder, Unfinished::Discard).unwrap();
    listing.folders.sort();
    listing.blobs.sort();
    listing
}

#[test]
fn the_first_free_name_is_taken_and_nothing_replaced() {
    everywhere(|place, data| {
        let blobs = (place.open)(data);
        assert_eq!(put(&*blobs, "1", &["a", "b"], b"one").as_deref(), Some("a"));
        assert_eq!(put(&*blobs, "1", &["a", "b"], b"two").as_deref(), Some("b"));
        assert_eq!(put(&*blobs, "1", &["a", "b"], b"three"), None);
        assert_eq!(put(&*blobs, "2", &["a"], b"").as_deref(), Some("a"));
        let contents =
            [("1", "a"), ("1", "b"), ("2", "a"), ("2", "b")].map(|(folder, name)| get(&*blobs, folder, name));
        assert_eq!(contents, [Some(b"one".to_vec()), Some(b"two".to_vec()), Some(Vec::new()), None]);
    });
}

#[test]
fn names_are_listed_no_further_than_needed() {
    everywhere(|place, data| {
        let blobs = (place.open)(data);
        let mut names = (0..).map(|number: u64| number.to_string());
        for number in 0..3 {
            let (name, _) = blobs.put("1", &mut names, &[b"x"]).unwrap().unwrap();
            assert_eq!(name, number.to_string());
        }
    });
}

#[test]
fn ranges_end_where_the_blob_ends() {
    everywhere(|place, data| {
        let blobs = (place.open)(data);
        put(&*blobs, "1", &["a"], b"0123456789");
        for (range, expected) in [
            (0..4, "0123"),
            (3..5, "34"),
            (8..u64::MAX, "89"),
            (10..20, ""),
            (20..30, ""),
            (5..5, ""),
            (0..10, "0123456789"),
        ] {
            let piece = blobs.get(blob("1", "a"), range.clone()).unwrap().unwrap();
            assert_eq!((piece.bytes.as_slice(), piece.size), (expected.as_bytes(), 10), "{range:?}");
        }
        assert_eq!(blobs.get(blob("1", "b"), 0..1).unwrap(), None);
        assert_eq!(blobs.get(blob("9", "b"), 0..1).unwrap(), None);
    });
}

#[test]
fn replaced_deleted_and_listed() {
    everywhere(|place, data| {
        let blobs = (place.open)(data);
        assert_eq!(listed(&*blobs, ""), Listing::default());
        for (folder, name) in [("10002", "b"), ("10001", "a"), ("10001", "c"), ("date=2026-11-23/hour=07", "x.parquet")]
        {
            put(&*blobs, folder, &[name], b"old");
        }
        blobs.replace(blob("10001", "a"), &[b"new ", b"content"]).unwrap();
        assert_eq!(get(&*blobs, "10001", "a").unwrap(), b"new content");
        assert_eq!(listed(&*blobs, "").folders, ["10001", "10002", "date=2026-11-23"]);
        assert_eq!(names(&*blobs, "10001"), ["a", "c"]);
        assert_eq!(listed(&*blobs, "date=2026-11-23").folders, ["hour=07"]);
        assert_eq!(names(&*blobs, "date=2026-11-23/hour=07"), ["x.parquet"]);
        assert_eq!(listed(&*blobs, "10003"), Listing::default());
        blobs.delete(blob("10001", "a")).unwrap();
        blobs.delete(blob("10001", "a")).unwrap();
        blobs.delete(blob("10009", "a")).unwrap();
        assert_eq!(names(&*blobs, "10001"), ["c"]);
        assert!(blobs.free_bytes().unwrap() > 0);
        drop(blobs);
        assert_eq!(
            get(&*(place.open)(data), "10001", "c").unwrap(),
            b"old",
            "it is there when the place is opened again"
        );
    });
}

#[test]
fn each_content_of_a_name_has_its_stamp() {
    everywhere(|place, data| {
        let blobs = (place.open)(data);
        let name = || blob("1", "a");
        let put = |content: &[u8]| blobs.put("1", &mut ["a".to_owned()].into_iter(), &[content]).unwrap().unwrap().1;
        let read = || blobs.get(name(), 1..2).unwrap().unwrap().stamp;
        let first = put(b"one");
        assert_eq!((read(), listed(&*blobs, "1").blobs), (first, vec![("a".to_owned(), first)]));
        let replaced = blobs.replace(name(), &[b"other"]).unwrap();
        assert_eq!(read(), replaced);
        blobs.delete(name()).unwrap();
        let again = put(b"another");
        assert_eq!(read(), again);
        assert!(first != replaced && replaced != again && first != again, "{first:?} {replaced:?} {again:?}");
        drop(blobs);
        assert_eq!((place.open)(data).get(name(), 0..0).unwrap().unwrap().stamp, again);
    });
}

#[test]
fn what_is_no_name_is_refused_and_leaves_nothing() {
    everywhere(|place, data| {
        let blobs = (place.open)(data);
        for (folder, name) in [("..", "a"), ("1", ".a"), ("1", "../a"), ("", "a"), ("1/", "a")] {
            assert!(blobs.put(folder, &mut [name.to_owned()].into_iter(), &[b"x"]).is_err(), "{folder} {name}");
        }
        assert!(names(&*blobs, "1").is_empty());
        assert_eq!(blobs.list("1", Unfinished::Discard).unwrap().discarded, 0);
    });
}

#[test]
fn writers_at_the_same_time_get_names_of_their_own() {
    everywhere(|place, data| {
        let blobs = (place.open)(data);
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let blobs = &blobs;
                scope.spawn(move || {
                    for _ in 0..10 {
                        let mut names = (0..).map(|number: u32| format!("n{number}"));
                        blobs.put("1", &mut names, &[&[writer; 1000]]).unwrap().unwrap();
                    }
                });
            }
        });
        let names = names(&*blobs, "1");
        assert_eq!(names.len(), 40);
        let whole = |name: &String| get(&*blobs, "1", name).is_some_and(|content| content == vec![content[0]; 1000]);
        assert!(names.iter().all(whole));
    });
}
