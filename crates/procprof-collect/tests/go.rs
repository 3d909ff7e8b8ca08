//! A real Go process with `net/http/pprof`.

use std::collections::BTreeSet;

use procprof_collect::{HttpClient, Request, Watch, collect, endpoints};
use procprof_profile::{Profile, ProfileType};

use crate::process::Server;
use crate::target;

fn functions(profile: &Profile) -> BTreeSet<&str> {
    profile.functions().iter().map(|function| profile.string(function.name)).collect()
}

#[tokio::test]
async fn every_type_a_go_process_has() {
    let server = Server::go();
    let (client, target) = (HttpClient::new(), target(&endpoints::GO, server.port));
    let check = async |request: Request, sample_type: &str, function: &str| {
        let collected = collect(&client, &target, &request, &Watch::default()).await.unwrap();
        assert_eq!(collected.decoded.format, "pprof");
        assert!(collected.decoded.profile.sample_type_index(sample_type).is_some(), "{request:?}");
        assert!(functions(&collected.decoded.profile).contains(function), "{request:?} lacks {function}");
        assert_eq!(collected.instance.local.unwrap().pid.0, server.child.id());
        collected
    };
    let cpu = check(Request::new(ProfileType::Cpu).seconds(2), "cpu", "main.hot70").await;
    assert!(cpu.finished.0 - cpu.started.0 >= 2_000_000_000);
    assert_eq!(cpu.url, format!("http://127.0.0.1:{}/debug/pprof/profile?seconds=2", server.port));
    assert!(functions(&cpu.decoded.profile).contains("main.hot30"));
    check(Request::new(ProfileType::Heap), "inuse_space", "main.growHeap").await;
    check(Request::new(ProfileType::Goroutine), "goroutine", "main.slowLock").await;
    check(Request::new(ProfileType::Alloc).seconds(0), "alloc_space", "main.growHeap").await;
    check(Request::new(ProfileType::Mutex).seconds(1), "delay", "main.slowLock").await;
    check(Request::new(ProfileType::Contention).seconds(1), "contentions", "main.slowLock").await;
}

#[tokio::test]
async fn a_second_cpu_capture_gets_busy() {
    let server = Server::go();
    let (client, target) = (HttpClient::new(), target(&endpoints::GO, server.port));
    let (request, watch) = (Request::new(ProfileType::Cpu).seconds(3), Watch::default());
    let (first, second) =
        tokio::join!(collect(&client, &target, &request, &watch), collect(&client, &target, &request, &watch));
    let codes: Vec<_> = [first, second].iter().map(|result| result.as_ref().err().map(|error| error.code())).collect();
    assert!(codes.contains(&None) && codes.contains(&Some("busy")), "{codes:?}");
}
