//! A server whose archive is in a bucket: what it writes, and what it does while the bucket is away.

#[path = "../../procprof-archive/tests/buckets/emulators.rs"]
#[allow(dead_code, reason = "only S3 is needed here")]
mod emulators;
#[path = "../../procprof-archive/tests/buckets/failing.rs"]
#[allow(dead_code, reason = "only S3 is needed here")]
mod failing;

use std::time::Duration;

use procprof_archive::{Archive, BucketLimits, Place, ReadLimits};
use procprof_server::{Config, Server, ServerOptions, Verified, verify};
use procprof_store::{Store, StoreOptions};
use reqwest::Method;
use tempfile::TempDir;

use crate::archive::{Made, START, archiving, made, metric, range, sum_of, summed, wait_for, wait_until};
use crate::harness::{TestServer, options, until};
use crate::servers::{LEASE, ids, nodes, shares};
use emulators::{Emulator, SECRET, s3_environment};

const PLACE: &str = "s3://bucket/fleet";

async fn serving(data: TempDir, bucket: &Emulator) -> TestServer {
    let config = Config { archive: PLACE.to_owned(), ..archiving() };
    let options = ServerOptions { buckets: s3_environment(bucket.address), ..options(config, data.path().to_owned()) };
    TestServer::around(Server::start(options).await.unwrap(), data)
}

/// The archive in the bucket, compared with a stopped server's profiles.
fn verified(data: &TempDir, bucket: &Emulator) -> Verified {
    let place: Place = PLACE.parse().unwrap();
    let objects = place.open(&s3_environment(bucket.address), BucketLimits::default()).unwrap();
    let store = Store::open(data.path(), StoreOptions::default()).unwrap();
    verify(&Archive::new(objects, ReadLimits::default()), Some(&store)).unwrap()
}

/// A bucket that is not there for a while.
struct Away {
    back: std::sync::mpsc::Sender<()>,
    bucket: tokio::task::JoinHandle<Emulator>,
}

impl Away {
    async fn new(bucket: Emulator) -> Away {
        let (gone, is_gone) = tokio::sync::oneshot::channel();
        let (back, is_back) = std::sync::mpsc::channel();
        let bucket = tokio::task::spawn_blocking(move || {
            bucket.restarted(|| {
                gone.send(()).unwrap();
                is_back.recv().unwrap();
            })
        });
        is_gone.await.unwrap();
        Away { back, bucket }
    }

    async fn back(self) -> Emulator {
        self.back.send(()).unwrap();
        self.bucket.await.unwrap()
    }
}

/// The path of the sum that [`summed`] asks for.
fn merge(seconds: i64) -> String {
    format!("/merge?{}&format=collapsed", range(0, seconds))
}

async fn wait_for_failure(server: &TestServer) {
    wait_until(server, "procprof_archive_failures_total", |failures| failures >= 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_the_bucket_is_away() {
    let values: Vec<Made> = vec![[3, 5], [7, 11], [13, 17]];
    let bucket = Emulator::s3();
    let server = serving(tempfile::tempdir().unwrap(), &bucket).await;
    let mut ids = Vec::new();
    for (at, values) in values[..2].iter().enumerate() {
        let pushed = server.push("cpu", made(START + 3600 * at as i64, *values)).await;
        ids.push(pushed["id"].as_str().unwrap().to_owned());
    }
    wait_for(&server, 2.0).await;
    assert!(!server.data.path().join("archive").exists() && !server.data.path().join("s3:").exists());
    // From the bucket, since the data folder has one only.
    assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{}", ids[0])).await, 204);
    let (sum, coverage) = summed(&server, 2 * 3600).await;
    assert_eq!(sum, sum_of(&values[..2]));
    assert!(coverage.as_deref().is_some_and(|coverage| coverage.starts_with("archived=2, stored=0")), "{coverage:?}");

    let address = bucket.address;
    let away = Away::new(bucket).await;
    server.push("cpu", made(START + 7200, values[2])).await;
    wait_for_failure(&server).await;
    let found = until("an error that names the place", async || {
        let found = server.json("/api/archive").await;
        let error = found["last_error"].as_str().unwrap_or_default();
        // The first one may be of a connection that was there.
        let names_it = [PLACE, &address.to_string(), "not reached"].iter().all(|part| error.contains(part));
        names_it.then_some(found)
    })
    .await;
    assert!(metric(&server, "procprof_archive_lag_seconds").await.is_some_and(|lag| lag > 0.0));
    let mut shown = vec![found.to_string(), server.text("/metrics").await];
    for page in ["/archive", "/settings", "/"] {
        let page = server.get(page).await;
        assert!(page.status().is_success(), "{}", page.status());
        shown.push(page.text().await.unwrap());
    }
    assert!(shown[2].contains(PLACE) && shown[2].contains("not reached"), "{}", shown[2]);
    // Sums have what there is, and tell what there is not.
    // The parts were listed a moment ago.
    until("a sum", async || server.get(&merge(3 * 3600)).await.status().is_success().then_some(())).await;
    let (sum, coverage) = summed(&server, 3 * 3600).await;
    assert_eq!(sum, sum_of(&values[1..]));
    assert!(coverage.as_deref().is_some_and(|coverage| coverage.contains("unreadable=1")), "{coverage:?}");
    for text in &shown {
        assert!(!text.contains("hunter2") && !text.contains(SECRET), "{text}");
    }

    let bucket = away.back().await;
    wait_for(&server, 3.0).await;
    until("the whole sum", async || {
        let is_summed = server.get(&merge(3 * 3600)).await.status().is_success();
        (is_summed && summed(&server, 3 * 3600).await.0 == sum_of(&values)).then_some(())
    })
    .await;
    assert_eq!(server.json("/api/archive").await["last_error"].as_str(), None);
    let data = server.stop().await;
    let found = verified(&data, &bucket);
    // A part may have been begun when the bucket went away; it is written again under another name.
    assert_eq!((found.profiles, found.compared, found.wrong.len()), (3, 2, 0), "{found:?}");

    // A server that starts while the bucket is away collects all the same.
    drop(bucket);
    let bucket = Emulator::s3();
    let server = serving(data, &bucket).await;
    wait_for(&server, 2.0).await;
    let found = verified(&server.stop().await, &bucket);
    assert_eq!((found.profiles, found.compared, found.wrong.len()), (2, 2, 0), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_share_a_bucket_share_the_nodes() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let bucket = Emulator::s3();
    let config =
        || Config { archive: PLACE.to_owned(), server_lease_seconds: LEASE, nodes: nodes(&names), ..archiving() };
    let started = async |data: TempDir, bucket: &Emulator| {
        let buckets = s3_environment(bucket.address);
        let options = ServerOptions { buckets, ..options(config(), data.path().to_owned()) };
        TestServer::around(Server::start(options).await.unwrap(), data)
    };
    let one = started(tempfile::tempdir().unwrap(), &bucket).await;
    let two = started(tempfile::tempdir().unwrap(), &bucket).await;
    let seen = until("both servers see the same", async || {
        let (seen, other) = (shares(&one, 2).await, shares(&two, 2).await);
        (seen == other && seen.values().sum::<u64>() == names.len() as u64).then_some(seen)
    })
    .await;
    assert_eq!(ids(&one).await, ids(&two).await);
    let away = Away::new(bucket).await;
    until("the problem is told", async || {
        let problem = one.json("/api/servers").await["problem"].as_str().unwrap_or_default().to_owned();
        assert!(!problem.contains("hunter2"), "{problem}");
        problem.contains(PLACE).then_some(())
    })
    .await;
    // While the bucket is away nobody is taken for dead, though all leases would be over.
    tokio::time::sleep(Duration::from_secs(2 * LEASE)).await;
    let rows = one.json("/api/servers").await;
    let alive = rows["servers"].as_array().unwrap().iter().filter(|row| row["alive"] == true).count();
    assert_eq!(alive, 2, "{rows}");
    let bucket = away.back().await;
    until("all is as before", async || (shares(&one, 2).await == seen).then_some(())).await;
    two.stop().await;
    assert_eq!(shares(&one, 1).await.into_values().collect::<Vec<_>>(), [names.len() as u64]);
    one.stop().await;
    drop(bucket);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_without_its_bucket() {
    let config = Config { archive: PLACE.to_owned(), ..archiving() };
    let nowhere = s3_environment("127.0.0.1:1".parse().unwrap());
    let data = tempfile::tempdir().unwrap();
    let options = ServerOptions { buckets: nowhere, ..options(config, data.path().to_owned()) };
    let server = TestServer::around(Server::start(options).await.unwrap(), data);
    server.push("cpu", made(START, [1, 2])).await;
    wait_for_failure(&server).await;
    assert_eq!(summed(&server, 3600).await.0, sum_of(&[[1, 2]]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_while_the_bucket_is_away_and_new_nodes_wait_for_it() {
    let bucket = Emulator::s3();
    let config = |names: &[&str]| Config { archive: PLACE.to_owned(), nodes: nodes(names), ..archiving() };
    let environment = s3_environment(bucket.address);
    let start = async |names: &[&str], data: TempDir| {
        let options = options(config(names), data.path().to_owned());
        let options = ServerOptions { buckets: environment.clone(), ..options };
        TestServer::around(Server::start(options).await.unwrap(), data)
    };
    let server = start(&["known"], tempfile::tempdir().unwrap()).await;
    let known = ids(&server).await;
    let data = server.stop().await;
    let away = Away::new(bucket).await;
    let server = start(&["known", "new"], data).await;
    assert_eq!(ids(&server).await, known);
    let page = server.text("/").await;
    assert!(page.contains("Not captured yet: new nodes wait for their ids") && page.contains("gives: new; "), "{page}");
    let bucket = away.back().await;
    let all = until("the new node", async || Some(ids(&server).await).filter(|ids| ids.contains_key("new"))).await;
    assert_eq!((all["known"], all.len()), (known["known"], known.len() + 1));
    assert!(!server.text("/").await.contains("Not captured yet"));
    server.stop().await;
    drop(bucket);
}
