//! A replayed StarRocks backend: recorded profiles, live ones, and a process that dies.

use std::sync::{Arc, Mutex};

use procprof_collect::{HttpClient, Progress, Request, SymbolLimits, Target, Watch, collect, endpoints, fetch_symbols};
use procprof_profile::{Addr, ProfileType};

use crate::process::{PATIENCE, Server, occupy};
use crate::target;

/// Its web service does not answer; brpc does.
fn backend(server: &Server) -> Target {
    let mut target = target(&endpoints::STARROCKS_BE, 1);
    target.brpc = Some(format!("127.0.0.1:{}", server.port).parse().unwrap());
    target
}

#[tokio::test]
async fn recorded_profiles_of_all_types() {
    let server = Server::brpc_recorded();
    let (client, target) = (HttpClient::new(), backend(&server));
    let check = async |request: Request, sample_type: &str, file: &str| {
        let collected = collect(&client, &target, &request, &Watch::default()).await.unwrap();
        let profile = &collected.decoded.profile;
        assert!(profile.sample_type_index(sample_type).is_some() && profile.sample_count() > 0, "{request:?}");
        let recorded = format!("{}/../../testdata/brpc/{file}", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(collected.bytes, std::fs::read(recorded).unwrap());
        assert_eq!(collected.content_type.as_deref(), Some("text/plain"));
    };
    check(Request::new(ProfileType::Cpu).seconds(1), "cpu", "cpu.gperftools").await;
    check(Request::new(ProfileType::Contention).seconds(1), "delay", "contention.brpc").await;
    // The web service is tried first and refuses the connection.
    check(Request::new(ProfileType::Heap), "inuse_space", "heap.jemalloc").await;
}

#[tokio::test]
async fn a_second_capture_is_busy() {
    let server = Server::brpc_recorded();
    let _others = occupy(server.port);
    let request = Request::new(ProfileType::Cpu).seconds(1);
    let busy = collect(&HttpClient::new(), &backend(&server), &request, &Watch::default()).await.unwrap_err();
    assert_eq!(busy.code(), "busy");
    assert!(busy.to_string().contains(&format!("http://127.0.0.1:{}/pprof/profile", server.port)), "{busy}");
}

#[tokio::test]
async fn progress_is_reported() {
    let server = Server::brpc_recorded();
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    let watch =
        Watch { progress: Some(Arc::new(move |progress| listener.lock().unwrap().push(progress))), ..Watch::default() };
    let request = Request::new(ProfileType::Cpu).seconds(1);
    collect(&HttpClient::new(), &backend(&server), &request, &watch).await.unwrap();
    let told = told.lock().unwrap();
    assert_eq!(told[0], Progress::Sampling { seconds: 1 });
    assert!(matches!(told[1], Progress::Receiving { bytes, total: Some(_) } if bytes > 0));
    assert_eq!(told.last(), Some(&Progress::Checking));
}

#[tokio::test]
async fn a_process_that_ends_during_the_capture_is_reported() {
    let mut server = Server::brpc_live();
    let (client, target, watch) = (HttpClient::new(), backend(&server), Watch::default());
    let request = Request::new(ProfileType::Cpu).seconds(3600);
    let (result, ()) = tokio::join!(collect(&client, &target, &request, &watch), async {
        server.samples().await;
        server.kill();
    });
    assert_eq!(result.unwrap_err().code(), "restarted");
    let refused = collect(&client, &target, &request, &watch).await.unwrap_err();
    assert_eq!(refused.code(), "connect");
}

#[tokio::test]
async fn a_capture_can_be_cancelled_at_once() {
    let mut server = Server::brpc_live();
    let (client, target) = (HttpClient::new(), backend(&server));
    let (request, watch) = (Request::new(ProfileType::Cpu).seconds(3600), Watch::default());
    let cancelled = async {
        tokio::join!(collect(&client, &target, &request, &watch), async {
            server.samples().await;
            watch.cancel.cancel();
        })
    };
    let (result, ()) = tokio::time::timeout(PATIENCE, cancelled).await.expect("it ends long before its hour");
    assert_eq!(result.unwrap_err().code(), "cancelled");
}

#[tokio::test]
async fn names_come_from_the_symbol_page_in_batches() {
    let server = Server::brpc_live();
    let (client, target) = (HttpClient::new(), backend(&server));
    let request = Request::new(ProfileType::Cpu).seconds(1);
    let collected = collect(&client, &target, &request, &Watch::default()).await.unwrap();
    let profile = &collected.decoded.profile;
    let addresses: Vec<Addr> = profile.locations().iter().map(|location| location.address).collect();
    let limits = SymbolLimits { batch: 1, ..SymbolLimits::default() };
    let symbols = fetch_symbols(&client, &target, &addresses, &limits, &Watch::default()).await.unwrap();
    assert_eq!(symbols.requested, addresses.len());
    let names: Vec<&str> = symbols.names.values().map(String::as_str).collect();
    for name in ["hot_70", "hot_30", "scan_rows", "merge_rows"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let few = SymbolLimits { addresses: 2, ..SymbolLimits::default() };
    assert_eq!(fetch_symbols(&client, &target, &addresses, &few, &Watch::default()).await.unwrap().requested, 2);
}
