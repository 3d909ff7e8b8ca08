//! A real Go process with `net/http/pprof`.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use procprof_collect::{HttpClient, HttpSource, Request, Source, Watch, collect, endpoints};
use procprof_profile::{Profile, ProfileType};

use crate::process::{PATIENCE, Server};
use crate::target;

fn functions(profile: &Profile) -> BTreeSet<&str> {
    profile.functions().iter().map(|function| profile.string(function.name)).collect()
}

#[tokio::test]
async fn every_type_a_go_process_has() {
    let server = Server::go();
    let (client, target) = (HttpClient::new(), target(&endpoints::GO, server.port));
    // On a busy machine the process may not run for a while.
    let check = async |request: Request, sample_type: &str, expected: &[&str]| {
        let start = Instant::now();
        loop {
            let collected = collect(&client, &target, &request, &Watch::default()).await.unwrap();
            assert_eq!(collected.decoded.format, "pprof");
            assert!(collected.decoded.profile.sample_type_index(sample_type).is_some(), "{request:?}");
            assert_eq!(collected.instance.local.unwrap().pid.0, server.child.id());
            let found = functions(&collected.decoded.profile);
            if expected.iter().all(|function| found.contains(function)) {
                return collected;
            }
            assert!(start.elapsed() < PATIENCE, "{request:?}: {found:?} lacks some of {expected:?}");
        }
    };
    let cpu = check(Request::new(ProfileType::Cpu).seconds(1), "cpu", &["main.hot70", "main.hot30"]).await;
    assert!(cpu.finished.0 - cpu.started.0 >= 1_000_000_000);
    assert_eq!(cpu.url, format!("http://127.0.0.1:{}/debug/pprof/profile?seconds=1", server.port));
    check(Request::new(ProfileType::Heap), "inuse_space", &["main.growHeap"]).await;
    check(Request::new(ProfileType::Goroutine), "goroutine", &["main.slowLock"]).await;
    check(Request::new(ProfileType::Alloc).seconds(0), "alloc_space", &["main.growHeap"]).await;
    check(Request::new(ProfileType::Mutex).seconds(1), "delay", &["main.slowLock"]).await;
    check(Request::new(ProfileType::Contention).seconds(1), "contentions", &["main.slowLock"]).await;
}

#[tokio::test]
async fn leaked_goroutines_are_there_if_the_program_was_built_with_them() {
    let server = Server::go();
    let source = HttpSource::new(Arc::new(HttpClient::new()), target(&endpoints::GO, server.port));
    let recorded = source.record(&Request::new(ProfileType::GoroutineLeak), &Watch::default()).await;
    let error = recorded.map(drop).unwrap_err();
    assert_eq!(error.code(), "unavailable", "{error}");
    assert!(error.to_string().contains("goroutineleakprofile"), "{error}");
}

#[tokio::test]
async fn a_second_cpu_capture_gets_busy() {
    let server = Server::go();
    let (client, target) = (HttpClient::new(), target(&endpoints::GO, server.port));
    let (request, start) = (Request::new(ProfileType::Cpu).seconds(1), Instant::now());
    let mut others = Vec::new();
    let refused = loop {
        // Another one's profile, which ends with its connection; ours may still come before it.
        let mut other = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        other.write_all(b"GET /debug/pprof/profile?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        others.push(other);
        match collect(&client, &target, &request, &Watch::default()).await {
            Ok(collected) => assert!(start.elapsed() < PATIENCE, "no other one is taken: {collected:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), "busy", "{refused}");
}
