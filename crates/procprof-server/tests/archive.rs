//! The archive of a server: what is written, when, and once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procprof_archive::{Span, Table};
use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Nanos, ProfileBuilder};
use procprof_server::{Config, Rhythm, Server, ServerOptions, Verified, archive_writer, verify};
use procprof_store::{Store, StoreOptions};
use reqwest::Method;
use tempfile::TempDir;

use crate::harness::{LEASE, TestServer, archive, cpu_profile, keep_from_compacting, options, quiet, until};

/// A quiet server that archives every second.
pub(crate) fn archiving() -> Config {
    Config { archive: "archive".into(), ..quiet() }
}

/// The archive of a stopped server's folder, compared with its profiles.
fn verified(data: &Path) -> Verified {
    let store = Store::open(data, StoreOptions::default()).unwrap();
    verify(&archive(data), Some(&store)).unwrap()
}

pub(crate) async fn metric(server: &TestServer, name: &str) -> Option<f64> {
    let metrics = server.text("/metrics").await;
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim_start_matches("{}").strip_prefix(' ')?.parse().ok())
}

/// Waits until so many profiles were archived since the start.
pub(crate) async fn wait_for(server: &TestServer, profiles: f64) {
    wait_until(server, "procprof_archived_profiles_total", |archived| archived == profiles).await;
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
    until("all are archived", async || (verify(&archive, None).unwrap().profiles >= 4).then_some(())).await;
    let data = server.stop().await;
    let found = verified(data.path());
    assert_eq!((found.profiles, found.compared, found.wrong.len()), (4, 4, 0), "{found:?}");
    // Those of days were made by the compaction at the second start, which may have been stopped.
    let unfinished = archive.parts().unwrap().unfinished.into_iter().filter(|part| part.span == Span::Hour);
    assert_eq!(unfinished.collect::<Vec<_>>(), [other]);
    let hours = archive.parts().unwrap().whole.into_keys().filter(|part| part.span == Span::Hour);
    let writers: Vec<_> = hours.map(|part| part.writer).collect();
    assert!(writers.iter().all(|writer| *writer == archive_writer(data.path()).unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_start_old_profiles_are_archived_before_retention_deletes_them() {
    let server = TestServer::start(quiet()).await;
    server.push("cpu", cpu_profile(1_700_000_000)).await;
    server.push("cpu", cpu_profile(1_700_010_000)).await;
    let data = server.stop().await;
    let server = TestServer::in_folder(Config { proc_profile_file_retained_days: 1, ..archiving() }, data).await;
    wait_for(&server, 2.0).await;
    // The newest one of a type stays.
    until("retention", async || {
        (server.json("/api/profiles").await["profiles"].as_array().unwrap().len() <= 1).then_some(())
    })
    .await;
    let data = server.stop().await;
    assert_eq!(verify(&archive(data.path()), None).unwrap().profiles, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_retention_deletes_before_it_is_archived_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("archive");
    std::fs::create_dir(&place).unwrap();
    let config = Config {
        archive: place.display().to_string(),
        proc_profile_file_retained_size_bytes: 1,
        retention_interval_seconds: 1,
        ..quiet()
    };
    let server = TestServer::start(config).await;
    let archive = async || server.json("/api/archive").await;
    until("the first run", async || (!archive().await["archived_until"].is_null()).then_some(())).await;
    // Archived with the next hour, at the earliest; the newest one of a type stays.
    let now = jiff::Timestamp::now().as_second();
    for at in 0..3 {
        server.push("cpu", cpu_profile(now + at)).await;
    }
    until("two are missed", async || (archive().await["missed"] == 2).then_some(())).await;
    assert_eq!(metric(&server, "procprof_archive_missed_profiles_total").await, Some(2.0));
    assert!(server.text("/archive").await.contains("Retention deleted 2 profiles"));
    server.stop().await;
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
    // Counted when the run is over.
    wait_until(&server, "procprof_archive_failures_total", |failures| failures >= 1.0).await;
    server.stop().await;
}

/// A moment for profiles to begin: 22:13:20 UTC.
pub(crate) const START: i64 = 1_700_000_000;

/// The values of two functions of a profile, in milliseconds.
pub(crate) type Made = [i64; 2];

pub(crate) fn made(start_seconds: i64, [hot, cold]: Made) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let [hot_frame, cold_frame, root] = ["hot", "cold", "main"].map(|name| builder.frame(name));
    builder.sample(&[hot_frame, root], &[hot, hot * 1_000_000], &[]);
    builder.sample(&[cold_frame, root], &[cold, cold * 1_000_000], &[]);
    builder.time(Nanos(start_seconds * 1_000_000_000), Nanos(1_000_000_000));
    encode_gzip(&builder.finish().unwrap()).unwrap()
}

/// A server that reads its archive, archives nothing for decades, and compacts nothing, since another one seems to.
async fn reading(data: TempDir) -> TestServer {
    keep_from_compacting(&archive(data.path()));
    let rhythm = Rhythm::Every(Duration::from_secs(1 << 30));
    let options = ServerOptions { archiving: rhythm, ..options(archiving(), data.path().to_owned()) };
    let server = TestServer::around(Server::start(options).await.unwrap(), data);
    has_run(&server).await;
    server
}

/// Waits for the end of the first run of archiving and compaction.
async fn has_run(server: &TestServer) {
    until("a run", async || (!server.json("/api/archive").await["last_run"].is_null()).then_some(())).await;
}

/// The sum of a range that begins at [`START`], by function in milliseconds, and what it covers.
pub(crate) async fn summed(server: &TestServer, seconds: i64) -> (BTreeMap<String, i64>, Option<String>) {
    let path = format!("/merge?{}&format=collapsed", range(0, seconds));
    let response = server.get(&path).await;
    let coverage = response.headers().get("procprof-coverage").map(|value| value.to_str().unwrap().to_owned());
    let (status, text) = (response.status(), response.text().await.unwrap());
    assert!(status.is_success(), "{path}: {status}: {text}");
    let line = |line: &str| {
        let (stack, value) = line.rsplit_once(' ')?;
        Some((stack.rsplit(';').next()?.to_owned(), value.parse::<i64>().ok()? / 1_000_000))
    };
    (text.lines().filter_map(line).collect(), coverage)
}

pub(crate) fn sum_of(made: &[Made]) -> BTreeMap<String, i64> {
    let sum = |at: usize| made.iter().map(|values| values[at]).sum();
    BTreeMap::from([("hot".to_owned(), sum(0)), ("cold".to_owned(), sum(1))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_summed_from_the_archive_and_the_store() {
    let values: Vec<Made> = vec![[3, 5], [7, 11], [13, 17], [19, 23]];
    let server = TestServer::start(archiving()).await;
    let mut ids = Vec::new();
    for (at, values) in values[..2].iter().enumerate() {
        let pushed = server.push("cpu", made(START + 3600 * at as i64, *values)).await;
        ids.push(pushed["id"].as_str().unwrap().to_owned());
    }
    wait_for(&server, 2.0).await;
    let (sum, coverage) = summed(&server, 4 * 3600).await;
    assert_eq!((sum, coverage), (sum_of(&values[..2]), None), "the store has all");

    // Profiles that are not archived yet, beside archived ones that the store has, too.
    let server = reading(server.stop().await).await;
    for (at, values) in values.iter().enumerate().skip(2) {
        server.push("cpu", made(START + 3600 * at as i64, *values)).await;
    }
    let all = sum_of(&values);
    assert_eq!(summed(&server, 4 * 3600).await, (all.clone(), None));
    // Only one of the archived ones is still in the store.
    assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{}", ids[0])).await, 204);
    let covered = |text: &str| Some(text.to_owned());
    let mixed = "archived=2, stored=2, elsewhere=0, hours=5, empty-hours=1, unreadable=0, silent=0";
    assert_eq!(summed(&server, 4 * 3600).await, (all.clone(), covered(mixed)));
    assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{}", ids[1])).await, 204);
    assert_eq!(summed(&server, 4 * 3600).await, (all, covered(mixed)));
    let archived = "archived=2, stored=0, elsewhere=0, hours=2, empty-hours=0, unreadable=0, silent=0";
    assert_eq!(summed(&server, 5400).await, (sum_of(&values[..2]), covered(archived)));
    let page = server.text(&format!("/merge?{}", range(0, 4 * 3600))).await;
    assert!(page.contains("2 profiles from the archive, 2 from the data folder. 1 of 5 hours have no profiles."));
    let base = range(0, 5400).replace("node=procprof&type=cpu&from", "base_from").replace("&to", "&base_to");
    let compared = server.get(&format!("/merge?{}&{base}&format=top", range(7200, 4 * 3600))).await;
    assert!(compared.status().is_success() && !compared.headers().contains_key("procprof-coverage"));
    assert_eq!(compared.headers()["procprof-base-coverage"], archived);

    // A file of the archive that cannot be read is missing in the sum, and named.
    let archive = archive(server.data.path());
    let part = archive.parts().unwrap().whole.into_keys().next().unwrap();
    let data = server.stop().await;
    archive.objects().put(&part.path(Table::Profiles), b"PAR1 no more").unwrap();
    let server = reading(data).await;
    let (sum, coverage) = summed(&server, 4 * 3600).await;
    assert_eq!(sum, sum_of(&values[1..]));
    assert!(coverage.unwrap().contains("unreadable=1,"));
    let page = server.text(&format!("/merge?{}", range(0, 4 * 3600))).await;
    assert!(page.contains(&part.path(Table::Profiles)), "{page}");

    // Samples are only read when they are summed: the first sum has the rest, and says so.
    let part = archive.parts().unwrap().whole.into_keys().nth(1).unwrap();
    let data = server.stop().await;
    archive.objects().put(&part.path(Table::Samples), b"PAR1 no more").unwrap();
    let server = reading(data).await;
    std::fs::remove_dir_all(server.data.path().join("cache")).unwrap();
    for _ in 0..2 {
        let (sum, coverage) = summed(&server, 4 * 3600).await;
        assert_eq!(sum, sum_of(&values[2..]));
        assert!(coverage.unwrap().contains("unreadable=2,"));
    }
    assert!(server.text(&format!("/merge?{}", range(0, 4 * 3600))).await.contains(&part.path(Table::Samples)));

    // While a change of a day cannot be read, what the data folder has of the day is summed, and the day is named.
    let data = server.stop().await;
    let change = format!("compactions/date={}/0001", part.date());
    archive.objects().put(&change, b"procprof.compaction 1\nnew ?").unwrap();
    let server = reading(data).await;
    let (_, coverage) = summed(&server, 4 * 3600).await;
    assert!(coverage.as_ref().unwrap().starts_with("archived=0, stored=2,"), "{coverage:?}");
    for page in [format!("/merge?{}", range(0, 4 * 3600)), "/archive".to_owned()] {
        assert!(server.text(&page).await.contains(&change), "{page}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_are_left_out_of_sums_and_named() {
    let values: Vec<Made> = (0..6).map(|at| [at + 1, 10 * (at + 1)]).collect();
    let server = TestServer::start(quiet()).await;
    let mut pushed = Vec::new();
    for (at, values) in values.iter().enumerate() {
        let file = made(START + 60 * at as i64, *values);
        pushed.push(server.push("cpu", file).await);
    }
    let [id, name] = ["id", "file_name"].map(|key| pushed[0][key].as_str().unwrap().to_owned());
    let (sum, coverage) = summed(&server, 3600).await;
    assert_eq!((sum, coverage), (sum_of(&values), None));
    let mut data = server.stop().await;
    let path = found_below(&data.path().join("profiles"), &name);
    let good = std::fs::read(&path).unwrap();
    let mut flipped = good.clone();
    // In the checksum of the content, behind which nothing is.
    flipped[good.len() - 6] ^= 4;
    let damaged: [(&str, Option<Vec<u8>>); 5] = [
        ("a flipped bit", Some(flipped)),
        ("bytes after its end", Some([good.as_slice(), b"more"].concat())),
        ("its first half", Some(good[..good.len() / 2].to_vec())),
        ("nothing", Some(Vec::new())),
        ("no file", None),
    ];
    for (what, bytes) in damaged {
        match bytes {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let _ = std::fs::remove_dir_all(data.path().join("cache"));
        let server = TestServer::in_folder(quiet(), data).await;
        for round in 0..2 {
            let (sum, coverage) = summed(&server, 3600).await;
            assert_eq!(sum, sum_of(&values[1..]), "{what}");
            // A file that is found to be gone at the start is no profile any more.
            if let Some(coverage) = coverage {
                assert!(coverage.contains("stored=5,") && coverage.contains("unreadable=1,"), "{what}: {coverage}");
                let page = server.text(&format!("/merge?{}", range(0, 3600))).await;
                assert!(page.contains("A file cannot be read") && page.contains(&id), "{what}, {round}: {page}");
            } else {
                assert_eq!(server.status(Method::GET, &format!("/api/profiles/{id}")).await, 404, "{what}");
            }
        }
        let all: Vec<String> = pushed.iter().map(|one| format!("id={}", one["id"].as_str().unwrap())).collect();
        let response = server.get(&format!("/merge?{}&format=collapsed", all.join("&"))).await;
        if response.status() != 404 {
            assert_eq!(response.status(), 200, "{what}");
            assert!(response.headers()["procprof-coverage"].to_str().unwrap().contains("unreadable=1,"));
        }
        data = server.stop().await;
    }
}

/// The path of a file in a folder or one below it.
fn found_below(folder: &Path, name: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.file_name().is_some_and(|found| found == name) {
                return entry;
            }
        }
    }
    panic!("{name} is not there");
}

pub(crate) fn range(from: i64, to: i64) -> String {
    let time = |second: i64| jiff::Timestamp::from_second(START + second).unwrap();
    format!("node=procprof&type=cpu&from={}&to={}", time(from), time(to))
}

#[tokio::test(flavor = "multi_thread")]
async fn more_profiles_than_files_that_are_summed_come_from_the_archive() {
    let server = TestServer::start(archiving()).await;
    let count = 505;
    for at in 0..count {
        server.push("cpu", made(START + at, [1, at])).await;
    }
    wait_for(&server, count as f64).await;
    let (sum, coverage) = summed(&server, 3600).await;
    assert_eq!(sum, BTreeMap::from([("hot".to_owned(), count), ("cold".to_owned(), count * (count - 1) / 2)]));
    assert_eq!(
        coverage.as_deref(),
        Some("archived=505, stored=0, elsewhere=0, hours=2, empty-hours=1, unreadable=0, silent=0")
    );
    assert_eq!(server.get(&format!("/merge/tree?{}", range(0, 3600))).await.status(), 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_the_api_show_what_the_archive_has() {
    let server = TestServer::start(archiving()).await;
    assert!(server.text("/archive").await.contains("Nothing is archived yet"));
    server.push("cpu", cpu_profile(START)).await;
    server.push("cpu", cpu_profile(START + 3600)).await;
    wait_for(&server, 2.0).await;
    let found = server.json("/api/archive").await;
    assert_eq!((found["enabled"].as_bool(), found["profiles"].as_u64()), (Some(true), Some(2)), "{found}");
    let bytes = found["bytes"].as_u64().unwrap();
    let bytes_of =
        |name: &str| -> u64 { found[name].as_array().unwrap().iter().map(|row| row["bytes"].as_u64().unwrap()).sum() };
    assert_eq!((bytes_of("hours"), bytes_of("clusters")), (bytes, bytes), "{found}");
    assert_eq!(found["clusters"][0]["cluster"], "default");
    assert_eq!(found["hours"][0]["start"], "2023-11-14T22:00:00.000Z");
    assert!(found["lag_seconds"].as_f64().is_some_and(|lag| lag >= 1.0), "{found}");
    let page = server.text("/archive").await;
    for text in ["2 profiles", "2023-11-14 22:00", "2023-11-14 23:00", "Archived up to"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(server.text("/settings").await.contains("href=\"/archive\""));
    server.stop().await;
}

/// A metric, once it is what a test waits for.
pub(crate) async fn wait_until(server: &TestServer, name: &str, is_it: impl Fn(f64) -> bool) {
    until(name, async || metric(server, name).await.is_some_and(&is_it).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_days_are_compacted_and_sums_stay_the_same() {
    let values: Vec<Made> = (0..6).map(|at| [at + 1, 7 * at]).collect();
    let server = TestServer::start(archiving()).await;
    // Its first run compacts.
    has_run(&server).await;
    let mut ids = Vec::new();
    for (at, values) in values.iter().enumerate() {
        let pushed = server.push("cpu", made(START + 600 * at as i64, *values)).await;
        ids.push(pushed["id"].as_str().unwrap().to_owned());
    }
    wait_for(&server, 6.0).await;
    assert_eq!(metric(&server, "procprof_archive_compacted_parts_total").await, Some(0.0), "nothing was there");
    let server = TestServer::in_folder(archiving(), server.stop().await).await;
    wait_until(&server, "procprof_archive_compacted_parts_total", |parts| parts >= 2.0).await;
    for id in &ids {
        assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{id}")).await, 204);
    }
    let (sum, coverage) = summed(&server, 3 * 3600).await;
    assert_eq!(sum, sum_of(&values));
    assert_eq!(coverage.unwrap(), "archived=6, stored=0, elsewhere=0, hours=4, empty-hours=2, unreadable=0, silent=0");
    let parts = archive(server.data.path()).parts().unwrap();
    assert!(parts.whole.len() == 1 && parts.whole.keys().all(|part| part.span == Span::Day), "{parts:?}");
    server.stop().await;
}

/// Hours of days that are compacted are summed by their roll-ups; those that a range cuts, and profiles that come later
/// or that the data folder has, too, by profiles.
#[tokio::test(flavor = "multi_thread")]
async fn any_range_of_days_that_are_rolled_up_has_each_profile_once() {
    const STEP: i64 = 1500;
    /// From [`START`] to the first whole hour.
    const TO_HOUR: i64 = 2800;
    let values: Vec<Made> = (0..14).map(|at| [1 << at, 3]).collect();
    let server = TestServer::start(archiving()).await;
    let push = async |server: &TestServer, at: usize| {
        let pushed = server.push("cpu", made(START + STEP * at as i64, values[at])).await;
        pushed["id"].as_str().unwrap().to_owned()
    };
    let mut ids = Vec::new();
    for at in 0..12 {
        ids.push(push(&server, at).await);
    }
    wait_for(&server, 12.0).await;
    for id in ids.iter().step_by(2) {
        assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{id}")).await, 204);
    }
    let server = reading(server.stop().await).await;
    let archive = archive(server.data.path());
    archive.objects().delete(LEASE).unwrap();
    let limits = procprof_archive::CompactLimits { grace: Nanos(0), ..Default::default() };
    procprof_server::compact(&archive, &limits).unwrap();
    let parts = archive.parts().unwrap();
    assert_eq!((parts.whole.len(), parts.rolled.len()), (2, 2), "two days");
    for at in 12..14 {
        push(&server, at).await;
    }
    // The first ones are listed as they were for some seconds.
    until("all are summed", async || (summed(&server, STEP * 14).await.0 == sum_of(&values)).then_some(())).await;
    let sum = async |from: i64, to: i64| {
        let response = server.get(&format!("/merge?{}&format=collapsed", range(from, to))).await;
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_success(), "{from} to {to}: {status}: {text}");
        let hot = text.lines().find_map(|line| line.strip_prefix("main;hot ")).unwrap();
        hot.parse::<i64>().unwrap() / 1_000_000
    };
    let edges = [0, 1, 1499, 1502, TO_HOUR, TO_HOUR + 1, TO_HOUR + 3600, 7000, TO_HOUR + 7200, 15_000, STEP * 14];
    for (at, from) in edges.iter().enumerate() {
        for to in edges.iter().skip(at + 1) {
            // Complete a second after its start.
            let is_in = |at: &usize| (*from..*to).contains(&(STEP * *at as i64 + 1));
            let expected: i64 = (0..14).filter(is_in).map(|at| values[at][0]).sum();
            if expected > 0 {
                assert_eq!(sum(*from, *to).await, expected, "{from} to {to}");
            }
        }
    }
    // Whole hours do not need the samples of their profiles.
    for part in parts.whole.keys() {
        archive.objects().put(&part.path(Table::Samples), b"PAR1 no more").unwrap();
    }
    let expected: i64 =
        (0..14).filter(|at| (TO_HOUR..TO_HOUR + 7200).contains(&(STEP * at + 1))).map(|at| 1 << at).sum();
    assert_eq!(sum(TO_HOUR, TO_HOUR + 7200).await, expected);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_older_than_the_archive_keeps_is_dropped_and_not_archived() {
    let server = TestServer::start(archiving()).await;
    server.push("cpu", cpu_profile(START)).await;
    wait_for(&server, 1.0).await;
    let data = server.stop().await;
    let server = TestServer::in_folder(Config { archive_days_max: 90, ..archiving() }, data).await;
    wait_until(&server, "procprof_archive_dropped_parts_total", |parts| parts == 1.0).await;
    let recent = jiff::Timestamp::now().as_second() - 30;
    server.push("cpu", cpu_profile(recent)).await;
    server.push("cpu", cpu_profile(START + 3600)).await;
    wait_for(&server, 1.0).await;
    let found = server.json("/api/archive").await;
    assert_eq!((found["profiles"].as_u64(), found["last_error"].as_str()), (Some(1), None), "{found}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_a_compaction_removes_meanwhile_are_found_in_what_replaces_them() {
    let values: Vec<Made> = vec![[3, 5], [7, 11], [13, 17]];
    let server = TestServer::start(archiving()).await;
    for (at, values) in values.iter().enumerate() {
        let id = server.push("cpu", made(START + 600 * at as i64, *values)).await["id"].as_str().unwrap().to_owned();
        wait_for(&server, at as f64 + 1.0).await;
        assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{id}")).await, 204);
    }
    let server = reading(server.stop().await).await;
    // The server knows the parts of hours and their profiles from now on.
    assert_eq!(summed(&server, 3600).await.0, sum_of(&values));
    archive(server.data.path()).objects().delete(LEASE).unwrap();
    let limits = procprof_archive::CompactLimits { grace: Nanos(0), ..Default::default() };
    let done = procprof_server::compact(&archive(server.data.path()), &limits).unwrap();
    assert!(done.replaced >= 2 && done.removed == done.replaced, "{done:?}");
    assert_eq!(summed(&server, 3600).await.0, sum_of(&values));
    assert_eq!(summed(&server, 7200).await.0, sum_of(&values));
    server.stop().await;
}
