//! Storages of archives: folders, and buckets of servers that run beside the tests, under the same laws.

mod emulators;
mod failing;
mod hostile;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use procprof_archive::{
    Archive, BucketLimits, CompactLimits, Environment, Error, Object, ObjectFolder, Objects, Part, Place, ReadLimits,
    Selection,
};
use procprof_profile::Nanos;

use crate::support::{HOUR, contents, fill, some_profiles};
use emulators::{Emulator, azure_environment, google_environment, s3_environment};

/// Limits with which tests of what fails are done soon, on a busy machine as well.
fn limits() -> BucketLimits {
    BucketLimits { pause: Duration::from_millis(1), ..BucketLimits::default() }
}

fn opened(url: &str, environment: &Environment) -> Arc<dyn Objects> {
    url.parse::<Place>().unwrap().open(environment, limits()).unwrap()
}

fn object(path: &str, bytes: u64) -> Object {
    Object { path: path.to_owned(), bytes }
}

/// What every storage does, beginning with an empty one.
fn check(objects: &Arc<dyn Objects>) {
    missing_objects(&**objects);
    contents_and_ranges(&**objects);
    one_of_many_creates(objects);
    listings(&**objects);
    an_archive(objects);
}

fn missing_objects(objects: &dyn Objects) {
    assert_eq!(objects.list("samples").unwrap(), []);
    assert_eq!(objects.list("").unwrap(), []);
    for error in [objects.size("samples/none").unwrap_err(), objects.read("samples/none", 0, 1).unwrap_err()] {
        assert!(error.is_not_found() && error.to_string().contains("samples"), "{error}");
    }
    objects.delete("samples/none").unwrap();
}

fn contents_and_ranges(objects: &dyn Objects) {
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    objects.put("samples/date=2026-11-24/hour=15/a", &content).unwrap();
    let path = "samples/date=2026-11-24/hour=15/a";
    assert_eq!(objects.size(path).unwrap(), content.len() as u64);
    let end = content.len();
    for (start, length) in [(0, end), (0, 1), (7, 5), (end - 4, 4), (0, 0), (end, 0)] {
        assert_eq!(objects.read(path, start as u64, length).unwrap(), content[start..start + length]);
    }
    let ranges = [(9, 4), (0, 2), (0, 0), (2_500_000, 100_000), (9, 5), (end as u64, 0)];
    let found = objects.read_ranges(path, &ranges).unwrap();
    for ((start, length), found) in ranges.into_iter().zip(found) {
        assert_eq!(found, content[start as usize..][..length], "{start} {length}");
    }
    assert!(objects.read_ranges(path, &[]).unwrap().is_empty());
    for range in [(end as u64, 1), (end as u64 - 4, 5), (end as u64 + 1, 0), (u64::MAX, 2)] {
        let error = objects.read_ranges(path, &[(0, 5), range, (7, 0)]).unwrap_err();
        assert!(matches!(&error, Error::Malformed { file, .. } if file == path), "{range:?}: {error}");
    }
    for (start, length) in [(end, 1), (end - 4, 5), (end + 10, 1), (end + 1, 0), (0, end + 1)] {
        let error = objects.read(path, start as u64, length).unwrap_err();
        assert!(matches!(&error, Error::Malformed { file, .. } if file == path), "{start} {length}: {error}");
    }
    objects.put(path, b"other").unwrap();
    assert_eq!(objects.read(path, 0, 5).unwrap(), b"other");
    objects.put("empty", b"").unwrap();
    assert_eq!((objects.size("empty").unwrap(), objects.read("empty", 0, 0).unwrap()), (0, Vec::new()));
    objects.delete(path).unwrap();
    objects.delete("empty").unwrap();
    assert!(objects.size(path).unwrap_err().is_not_found());
}

fn one_of_many_creates(objects: &Arc<dyn Objects>) {
    assert!(objects.create("leases/1", b"first").unwrap());
    assert!(!objects.create("leases/1", b"second").unwrap());
    assert_eq!(objects.read("leases/1", 0, 5).unwrap(), b"first");
    for round in 2..6 {
        let path = format!("leases/{round}");
        let makers: Vec<_> = (0..8_u8)
            .map(|maker| {
                let (objects, path) = (Arc::clone(objects), path.clone());
                std::thread::spawn(move || objects.create(&path, &[maker; 9]).unwrap())
            })
            .collect();
        let made: Vec<bool> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
        let winner = made.iter().position(|made| *made).unwrap() as u8;
        assert_eq!(objects.read(&path, 0, 9).unwrap(), [winner; 9]);
    }
    for round in 1..6 {
        objects.delete(&format!("leases/{round}")).unwrap();
    }
}

fn listings(objects: &dyn Objects) {
    let paths =
        ["b/1", "a/date=2026-11-24/hour=02/x", "a/date=2026-11-24/hour=10/x", "ab/x", "a/z", "a/date=2026-11-24-x/y"];
    for (bytes, path) in paths.iter().enumerate() {
        objects.put(path, &vec![7; bytes]).unwrap();
    }
    let mut sorted: Vec<Object> = paths.iter().zip(0..).map(|(path, bytes)| object(path, bytes)).collect();
    sorted.sort_by(|one, other| one.path.cmp(&other.path));
    assert_eq!(objects.list("").unwrap(), sorted);
    for below in ["a", "a/date=2026-11-24", "b", "ab", "a/z/none", "none"] {
        let start = format!("{below}/");
        let expected: Vec<Object> = sorted.iter().filter(|object| object.path.starts_with(&start)).cloned().collect();
        // A folder has no way to be asked for what is below a file.
        if below != "a/z/none" || !format!("{objects:?}").contains("ObjectFolder") {
            assert_eq!(objects.list(below).unwrap(), expected, "{below}");
        }
    }
    for path in paths {
        objects.delete(path).unwrap();
    }
    assert_eq!(objects.list("").unwrap(), []);
}

fn an_archive(objects: &Arc<dyn Objects>) {
    fill(&**objects, &some_profiles());
    let archive = Archive::new(Arc::clone(objects), ReadLimits::default());
    let sum = |archive: &Archive| contents(&archive.merge(&Selection::default()).unwrap().unwrap().profile);
    let before = sum(&archive);
    let next = archive.next_part(HOUR, procprof_archive::Writer(0xfeed)).unwrap();
    archive_more(objects, next);
    let two = archive.merge(&Selection::default()).unwrap().unwrap();
    assert_eq!((two.profiles, archive.parts().unwrap().whole.len()), (14, 2));
    let now = Nanos(HOUR.next_day().start().0 + 60_000_000_000);
    let limits = CompactLimits { grace: Nanos(0), ..CompactLimits::default() };
    let done = archive.compact(&limits, &|| now, 7, &mut ()).unwrap();
    assert_eq!((done.replaced, done.written, done.removed, done.failed.len()), (2, 1, 2, 0));
    let parts = archive.parts().unwrap();
    assert_eq!((parts.whole.len(), parts.replaced.len(), parts.odd.len()), (1, 0, 0));
    assert_eq!(contents(&two.profile), sum(&archive));
    assert!(before.len() <= contents(&two.profile).len());
    for part in parts.whole.into_keys() {
        assert_eq!(archive.check(part).unwrap().wrong, Vec::<String>::new());
    }
}

/// The same profiles under other ids.
fn archive_more(objects: &Arc<dyn Objects>, part: Part) {
    use procprof_archive::{PartLimits, PartWriter};
    let mut writer = PartWriter::new(PartLimits::default());
    for (number, profile) in (20..).zip(some_profiles()) {
        writer.add(crate::support::identity(number), profile).unwrap();
    }
    writer.write(&**objects, part).unwrap();
}

#[test]
fn a_folder_keeps_the_laws() {
    let folder = tempfile::tempdir().unwrap();
    let objects: Arc<dyn Objects> = Arc::new(ObjectFolder::create(folder.path().join("archive")).unwrap());
    check(&objects);
    let before = objects.list("").unwrap();
    for odd in [".hidden", "a\u{1b}[31m", ".git/config"] {
        let path = folder.path().join("archive").join(odd);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"x").unwrap();
    }
    assert_eq!(objects.list("").unwrap(), before);
}

#[test]
fn s3_keeps_the_laws() {
    let server = Emulator::s3();
    let environment = s3_environment(server.address);
    check(&opened("s3://bucket/some/prefix", &environment));
    // Beside it, archives see nothing of each other.
    check(&opened("s3://bucket/some/prefix2", &environment));
}

#[test]
fn google_cloud_storage_keeps_the_laws() {
    let server = Emulator::google();
    check(&opened("gs://bucket/prefix", &google_environment(server.address)));
}

#[test]
fn azure_blob_storage_keeps_the_laws() {
    let server = Emulator::azure();
    check(&opened("az://bucket/prefix", &azure_environment(server.address)));
}

#[test]
fn a_whole_bucket_is_a_place_too() {
    let server = Emulator::s3();
    check(&opened("s3://bucket", &s3_environment(server.address)));
}

#[test]
fn buckets_are_used_and_dropped_where_tasks_run() {
    let server = Emulator::s3();
    let objects = opened("s3://bucket/x", &s3_environment(server.address));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move {
        objects.put("a", b"1").unwrap();
        assert_eq!(objects.list("").unwrap(), [object("a", 1)]);
        drop(objects);
    });
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let server = Emulator::s3();
    let objects = opened("s3://bucket/x", &s3_environment(server.address));
    objects.put("a", b"1").unwrap();
    let address = server.address;
    let server = server.restarted(|| {
        let error = objects.put("b", b"2").unwrap_err().to_string();
        let expected = format!("write s3://bucket/x/b: {address}: not reached, connection refused (5 requests)");
        assert_eq!(error, expected);
        assert!(!objects.size("a").unwrap_err().is_not_found());
    });
    objects.put("b", b"2").unwrap();
    assert_eq!(objects.list("").unwrap(), [object("a", 1), object("b", 1)]);
    drop(server);
}

#[test]
fn keys_come_from_a_file_and_new_ones_count_at_once() {
    let server = Emulator::s3();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let write = |key: &str| {
        let text = format!("[default]\nx = y\n[ours]\naws_access_key_id = tester\naws_secret_access_key = {key}\n");
        std::fs::write(&file, text).unwrap();
    };
    let environment = Environment::new([
        ("AWS_ENDPOINT_URL_S3", format!("http://{}", server.address).as_str()),
        ("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap()),
        ("AWS_PROFILE", "ours"),
    ]);
    let objects = opened("s3://bucket/x", &environment);
    let refused = |part: &str| {
        let error = objects.list("").unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(part) && !shown.contains("hunter2"), "{shown}");
    };
    refused("credentials file ");
    write("hunter2Wrong");
    refused("403 Forbidden, SignatureDoesNotMatch");
    write(emulators::SECRET);
    assert_eq!(objects.list("").unwrap(), []);
    std::fs::write(&file, "[default]\naws_secret_access_key = hunter2\n").unwrap();
    refused("no profile \"ours\"");
}
