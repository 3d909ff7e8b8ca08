//! Servers that fail, lose answers, or answer what they should not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use procprof_archive::{BucketLimits, Error, Objects, Place};

use super::emulators::{Emulator, s3_environment};
use super::failing::{Reply, Request, server};
use super::{limits, object, opened};

/// The archive at a server that answers like this.
fn behind(reply: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Arc<dyn Objects> {
    opened("s3://bucket/x", &s3_environment(server(reply)))
}

#[test]
fn what_fails_sometimes_is_done_nonetheless() {
    let s3 = Emulator::s3();
    let real = s3.address;
    for fails in ["500 Internal Server Error", "503 Slow Down", "429 Too Many Requests", ""] {
        let objects = behind(move |_, number| match (number % 3, fails) {
            (0, "") => Reply::Raw(Vec::new()),
            (0, fails) => Reply::Answer(fails, String::new()),
            _ => Reply::Pass(real),
        });
        for at in 0..4 {
            objects.put(&format!("a/{at}"), b"123").unwrap();
            assert_eq!(objects.read(&format!("a/{at}"), 1, 2).unwrap(), b"23");
        }
        assert_eq!(objects.list("a").unwrap().len(), 4);
        (0..4).for_each(|at| objects.delete(&format!("a/{at}")).unwrap());
        assert_eq!(objects.list("a").unwrap().len(), 0);
    }
}

#[test]
fn a_creation_whose_answer_is_lost_is_one_nonetheless() {
    let s3 = Emulator::s3();
    let real = s3.address;
    let replies: [fn(std::net::SocketAddr) -> Reply; 2] =
        [|real| Reply::PassAndAnswer(real, "500 Internal Server Error"), Reply::PassAndEnd];
    for (round, lost) in replies.into_iter().enumerate() {
        let puts = AtomicUsize::new(0);
        let objects = behind(move |request, _| match request.method() {
            "PUT" if puts.fetch_add(1, Ordering::SeqCst) == 0 => lost(real),
            _ => Reply::Pass(real),
        });
        let path = format!("leases/{round}");
        assert!(objects.create(&path, b"mine").unwrap());
        assert!(!objects.create(&path, b"mine").unwrap(), "by now it is there for certain");
        assert!(!objects.create(&path, b"other").unwrap());
    }
    // What another one has made meanwhile is not ours.
    let there = opened("s3://bucket/x", &s3_environment(real));
    there.put("leases/9", b"other's").unwrap();
    let puts = AtomicUsize::new(0);
    let objects = behind(move |request, _| match request.method() {
        "PUT" if puts.fetch_add(1, Ordering::SeqCst) == 0 => Reply::Answer("500 Internal Server Error", String::new()),
        _ => Reply::Pass(real),
    });
    assert!(!objects.create("leases/9", b"mine").unwrap());
}

#[test]
fn creations_in_each_others_way_are_decided_later() {
    let s3 = Emulator::s3();
    let real = s3.address;
    let conflict = "<Error><Code>ConditionalRequestConflict</Code></Error>";
    let objects = behind(move |request, number| match request.method() {
        "PUT" if number < 3 => Reply::Answer("409 Conflict", conflict.to_owned()),
        _ => Reply::Pass(real),
    });
    assert!(objects.create("a", b"1").unwrap());
    let objects = behind(move |_, _| Reply::Answer("409 Conflict", conflict.to_owned()));
    let error = objects.create("a", b"1").unwrap_err().to_string();
    assert!(error.ends_with("409 Conflict, ConditionalRequestConflict"), "{error}");
}

/// A page of a listing with these keys.
fn page(keys: &[&str]) -> Reply {
    let contents: String = keys
        .iter()
        .map(|key| {
            format!(
                "<Contents><Key>{key}</Key><Size>3</Size><LastModified>2026-11-24T15:00:00Z</LastModified></Contents>"
            )
        })
        .collect();
    let page = format!("<?xml version=\"1.0\"?><ListBucketResult>{contents}</ListBucketResult>");
    Reply::Answer("200 OK", page)
}

#[test]
fn names_that_are_no_paths_are_skipped_or_refused() {
    let skipped = [
        "y/samples/a",
        "samples/a",
        "x2/samples/a",
        "x/samples/.hidden",
        "x/samples/a\u{9b}31m",
        "x/samples",
        "x/other/a",
    ];
    for key in skipped {
        let objects = behind(move |_, _| page(&[key, "x/samples/b"]));
        assert_eq!(objects.list("samples").unwrap(), [object("samples/b", 3)], "{key}");
    }
    let refused =
        ["x/samples/../../etc/passwd", "x/samples//a", "x/samples/./a", "x/samples/a&#10;b", "x/samples/&#27;[31m"];
    for key in refused {
        let objects = behind(move |_, _| page(&[key, "x/samples/b"]));
        let error = objects.list("samples").unwrap_err().to_string();
        assert!(error.starts_with("list s3://bucket/x/samples: the listing has a name that is refused: \"x/samples/"));
        assert!(!error.contains(char::is_control), "{error:?}");
    }
    // Names of ours never lead elsewhere.
    let objects = behind(|_, _| Reply::Answer("200 OK", String::new()));
    for path in ["", "/a", "a//b", "../a", "a/..", ".a", "a\n", "a/"] {
        objects.put(path, b"x").unwrap_err();
        objects.delete(path).unwrap_err();
    }
}

#[test]
fn answers_have_limits() {
    let drip = server(|_, _| Reply::Drip);
    let silent = server(|_, _| Reply::Silence);
    let place: Place = "s3://bucket/x".parse().unwrap();
    let quick = BucketLimits { operation: Duration::from_millis(600), retries: 1, ..limits() };
    for (address, limits, expected) in [
        (drip, quick, "not done within 0 s; "),
        (silent, quick, "not done within 0 s; "),
        (silent, BucketLimits { silence: Duration::from_millis(300), ..limits() }, "silent for too long"),
    ] {
        let objects = place.open(&s3_environment(address), limits).unwrap();
        // Without a limit it would take half an hour, or never end.
        let error = objects.read("a", 0, 100_000).unwrap_err().to_string();
        assert!(error.contains(expected) && error.starts_with("read s3://bucket/x/a: "), "{error}");
    }
    // More than was asked for, and more of a listing than is read.
    let long = |length: usize| {
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\nETag: \"1\"\r\n\
             Last-Modified: Tue, 24 Nov 2026 15:00:00 GMT\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        [head.into_bytes(), vec![b'x'; length]].concat()
    };
    let objects = behind(move |_, _| Reply::Raw(long(3 << 20)));
    let error = objects.read("a", 0, 10).unwrap_err().to_string();
    assert!(error.contains("the answer is longer than it may be"), "{error}");
    let few = BucketLimits { objects: 2, ..limits() };
    let three = server(|_, _| page(&["x/a/1", "x/a/2", "x/a/3"]));
    let error = place.open(&s3_environment(three), few).unwrap().list("a").unwrap_err().to_string();
    assert_eq!(error, "s3://bucket/x/a: objects: 3 exceeds the limit of 2");
}

#[test]
fn what_waits_ends_when_it_is_stopped() {
    let (asked, is_asked) = std::sync::mpsc::sync_channel(1);
    let objects = behind(move |_, _| {
        // Requests after the first tell nothing.
        let _ = asked.try_send(());
        Reply::Silence
    });
    let waiting = {
        let objects = Arc::clone(&objects);
        std::thread::spawn(move || objects.list("a"))
    };
    is_asked.recv_timeout(Duration::from_secs(180)).expect("it asks");
    objects.stop();
    assert!(matches!(waiting.join().unwrap(), Err(Error::Stopped)));
    assert!(matches!(objects.put("a", b"x"), Err(Error::Stopped)));
}

#[test]
fn a_bucket_that_is_missing_is_no_missing_object() {
    let s3 = Emulator::s3();
    let objects = opened("s3://none/x", &s3_environment(s3.address));
    let errors = [
        objects.size("a").unwrap_err(),
        objects.read("a", 0, 1).unwrap_err(),
        objects.list("a").unwrap_err(),
        objects.put("a", b"x").unwrap_err(),
        objects.create("a", b"x").unwrap_err(),
        objects.delete("a").unwrap_err(),
    ];
    for error in errors {
        assert!(!error.is_not_found() && error.to_string().contains("404 Not Found, NoSuchBucket"), "{error}");
    }
}
