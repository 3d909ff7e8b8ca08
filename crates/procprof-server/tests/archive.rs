//! The archive of a server: what is written, when, and once.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use procprof_archive::{Archive, ObjectFolder, ReadLimits, Table};
use procprof_server::{Config, Verified, archive_writer, verify};
use procprof_store::{Store, StoreOptions};

use crate::harness::{TestServer, cpu_profile, quiet};

const PATIENCE: Duration = Duration::from_secs(120);

/// A quiet server that archives every second.
fn archiving() -> Config {
    Config { archive: "archive".into(), ..quiet() }
}

fn archive(data: &Path) -> Archive {
    Archive::new(Arc::new(ObjectFolder::open(data.join("archive")).unwrap()), ReadLimits::default())
}

/// The archive of a stopped server's folder, compared with its profiles.
fn verified(data: &Path) -> Verified {
    let store = Store::open(data, StoreOptions::default()).unwrap();
    verify(&archive(data), Some(&store)).unwrap()
}

async fn metric(server: &TestServer, name: &str) -> Option<f64> {
    let metrics = server.text("/metrics").await;
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Waits until so many profiles were archived since the start.
async fn wait_for(server: &TestServer, profiles: f64) {
    let start = Instant::now();
    while metric(server, "procprof_archived_profiles_total").await != Some(profiles) {
        assert!(start.elapsed() < PATIENCE, "{}", server.text("/metrics").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_archived_once_and_late_ones_with_the_next_run() {
    let server = TestServer::start(archiving()).await;
    server.push("cpu", cpu_profile(1_700_000_000)).await;
    server.push("cpu", cpu_profile(1_700_010_000)).await;
    wait_for(&server, 2.0).await;
    assert!(metric(&server, "procprof_archive_lag_seconds").await.is_some_and(|lag| lag >= 1.0));
    // Of an hour that has been archived.
    server.push("cpu", cpu_profile(1_700_000_060)).await;
    wait_for(&server, 3.0).await;
    assert_eq!(metric(&server, "procprof_archive_failures_total").await, Some(0.0));
    let data = server.stop().await;
    let found = verified(data.path());
    assert_eq!((found.profiles, found.compared, found.wrong.len(), found.unfinished), (3, 3, 0, 0), "{found:?}");

    // One part was interrupted, and one of another writer is being written.
    let archive = archive(data.path());
    let part = archive.parts().unwrap().whole.into_keys().next().unwrap();
    archive.objects().delete(&part.path(Table::Profiles)).unwrap();
    let other = procprof_archive::Part { writer: procprof_archive::Writer(1), ..part };
    archive.objects().put(&other.path(Table::Samples), b"begun").unwrap();
    let server = TestServer::in_folder(archiving(), data).await;
    server.push("cpu", cpu_profile(1_700_020_000)).await;
    let lost = 4 - i32::try_from(verify(&archive, None).unwrap().profiles).unwrap();
    assert!(lost >= 1);
    let start = Instant::now();
    while verify(&archive, None).unwrap().profiles < 4 {
        assert!(start.elapsed() < PATIENCE, "{}", server.text("/metrics").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let data = server.stop().await;
    let found = verified(data.path());
    assert_eq!((found.profiles, found.compared, found.wrong.len(), found.unfinished), (4, 4, 0, 1), "{found:?}");
    let writers: Vec<_> = archive.parts().unwrap().whole.into_keys().map(|part| part.writer).collect();
    assert!(writers.iter().all(|writer| *writer == archive_writer(data.path()).unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_folder_nothing_is_archived() {
    let server = TestServer::start(Config { archive: "".into(), ..archiving() }).await;
    assert_eq!(metric(&server, "procprof_archived_profiles_total").await, Some(0.0));
    assert_eq!(metric(&server, "procprof_archive_lag_seconds").await, None);
    assert!(!server.data.path().join("archive").exists());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_archived_is_counted_and_keeps_nothing_else_from_it() {
    let server = TestServer::start(archiving()).await;
    let archive = archive(server.data.path());
    server.push("cpu", cpu_profile(1_700_000_000)).await;
    wait_for(&server, 1.0).await;
    let part = archive.parts().unwrap().whole.into_keys().next().unwrap();
    archive.objects().put(&part.path(Table::Profiles), b"PAR1 no more").unwrap();
    // Of the same hour, whose profiles cannot be read any more, and of another one.
    server.push("cpu", cpu_profile(1_700_000_060)).await;
    server.push("cpu", cpu_profile(1_700_020_000)).await;
    wait_for(&server, 2.0).await;
    let failures = metric(&server, "procprof_archive_failures_total").await;
    assert!(failures.is_some_and(|failures| failures >= 1.0), "{failures:?}");
    server.stop().await;
}
