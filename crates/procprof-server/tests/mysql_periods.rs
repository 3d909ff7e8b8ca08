//! What SQL knows of periods: `timeline()`, `top()` and `diff()` over nodes, labels, the store and the archive, and the
//! captures on request. The tests add up themselves what they push.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row};
use procprof_archive::Table;
use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Nanos, ProfileBuilder};
use procprof_server::{Config, Rhythm, Server, ServerOptions, SqlAddress, SqlLogin};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::archive::wait_for;
use crate::harness::{LEASE, TestServer, archive, keep_from_compacting, options, parsed, until};

/// 2023-11-14 22:13:20 UTC.
const START: i64 = 1_700_000_000;
const SECOND: i64 = 1_000_000_000;

/// Three nodes, two of them with a label; the configuration of an archive if there is one.
fn config(has_archive: bool) -> Config {
    let node = |id: u64, name: &str, labels: &str| {
        format!(
            "[[node]]\nid = {id}\nname = \"{name}\"\nkind = \"pprof\"\nlabels = {{ {labels} }}\n\
             urls = {{ cpu = \"http://127.0.0.1:1/cpu\" }}\nschedule.cpu = {{ on = false }}\n"
        )
    };
    let quiet = "proc_profile_cpu_enable = false\nproc_profile_mem_enable = false\n";
    let archive = if has_archive { "archive = \"archive\"\n" } else { "" };
    let nodes = [
        node(10_001, "web-1", "team = \"web\", zone = \"a\""),
        node(10_002, "web-2", "team = \"web\", zone = \"b\""),
        node(10_003, "db", ""),
    ];
    parsed(&[quiet, archive, &nodes.concat()].concat())
}

/// A server that also answers SQL, and archives at a rhythm.
async fn server(config: Config, archiving: Rhythm, data: TempDir) -> TestServer {
    let mysql = SqlAddress { address: "127.0.0.1:0".parse().unwrap(), explicit: true, login: SqlLogin::Everyone };
    let options = ServerOptions { mysql: Some(mysql), archiving, ..options(config, data.path().to_owned()) };
    TestServer::around(Server::start(options).await.unwrap(), data)
}

async fn quiet_server() -> TestServer {
    server(config(false), Rhythm::Hourly, tempfile::tempdir().unwrap()).await
}

async fn client(server: &TestServer) -> Conn {
    let port = server.handle.as_ref().unwrap().mysql().unwrap().port();
    let options = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(port).user(Some("ann"));
    Conn::new(options.db_name(Some("procprof"))).await.unwrap()
}

/// Rows as lines of values with a blank between.
async fn lines(client: &mut Conn, statement: &str) -> Vec<String> {
    let rows: Vec<Row> = client.query(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    let text = |value: mysql_async::Value| match value {
        mysql_async::Value::NULL => "NULL".to_owned(),
        mysql_async::Value::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect::<Vec<_>>().join(" ")).collect()
}

/// The messages of the last statement's warnings.
async fn warnings(client: &mut Conn) -> Vec<String> {
    let rows: Vec<(String, u16, String)> = client.query("SHOW WARNINGS").await.unwrap();
    rows.into_iter().map(|(_, _, message)| message).collect()
}

/// A profile, as it is pushed.
#[derive(Clone, Copy)]
struct Made {
    node: &'static str,
    /// Seconds after [`START`] at which it is complete.
    end: i64,
    seconds: i64,
    /// Milliseconds of each function.
    hot: i64,
    cold: i64,
}

impl Made {
    fn team(&self) -> &'static str {
        if self.node == "db" { "NULL" } else { "web" }
    }

    /// The functions with their own values and those with callees, in nanoseconds.
    fn functions(&self) -> [(&'static str, [i64; 2]); 3] {
        let [hot, cold] = [self.hot, self.cold].map(|millis| millis * 1_000_000);
        [("hot", [hot, hot]), ("cold", [cold, cold]), ("main", [0, hot + cold])]
    }

    fn value(&self) -> i64 {
        (self.hot + self.cold) * 1_000_000
    }

    async fn push(&self, server: &TestServer) -> String {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let [hot, cold, root] = ["hot", "cold", "main"].map(|name| builder.frame(name));
        builder.sample(&[hot, root], &[self.hot, self.hot * 1_000_000], &[]);
        builder.sample(&[cold, root], &[self.cold, self.cold * 1_000_000], &[]);
        builder.time(Nanos((START + self.end - self.seconds) * SECOND), Nanos(self.seconds * SECOND));
        let body = encode_gzip(&builder.finish().unwrap()).unwrap();
        let path = format!("/api/push?node={}&type=cpu", self.node);
        let response = server.request(Method::POST, &path).body(body).send().await.unwrap();
        assert_eq!(response.status(), 201);
        let stored: serde_json::Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        stored["id"].as_str().unwrap().to_owned()
    }
}

/// Profiles of all nodes over an hour, none of them in its third quarter.
fn an_hour() -> Vec<Made> {
    let made = |number: i64| Made {
        node: ["web-1", "web-2", "db"][number as usize % 3],
        end: [number * 53 % 1800, 2700 + number * 53 % 900][number as usize % 2] + 10,
        seconds: 1 + number % 2,
        hot: 3 + number * 7 % 31,
        cold: 2 + number * 5 % 17,
    };
    (0..24).map(made).collect()
}

fn moment(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(START + seconds).unwrap();
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Whether a profile is one of those that are asked for.
type IsWanted<'f> = &'f dyn Fn(&Made) -> bool;
/// The series of a profile.
type SeriesOf<'f> = &'f dyn Fn(&Made) -> Vec<&'static str>;

/// Sums of a bucket and series: value, with callees, profiles, seconds.
type Sums = BTreeMap<(i64, String), [i64; 4]>;

/// The lines of a timeline in which each series has every bucket.
fn timeline(sums: &Sums, width: i64, buckets: std::ops::Range<i64>, has_totals: bool) -> BTreeSet<String> {
    let series: BTreeSet<&String> = sums.keys().map(|(_, series)| series).collect();
    let mut lines = BTreeSet::new();
    for series in series {
        for bucket in buckets.clone() {
            let sums = sums.get(&(bucket, series.clone())).copied();
            let [value, total, profiles, seconds] = sums.unwrap_or_default();
            let total = if has_totals { total.to_string() } else { "NULL".to_owned() };
            let rate = |divisor: i64| match divisor {
                0 => "NULL".to_owned(),
                divisor => format!("{:.3}", value as f64 / divisor as f64),
            };
            let start = moment(bucket * width - START);
            lines.insert(format!(
                "{start}.000 {series} {value} {total} {} {} {profiles} {seconds}.0",
                rate(seconds),
                rate(profiles)
            ));
        }
    }
    lines
}

const TIMELINE: &str = "SELECT bucket, series, value, total, CAST(per_second AS DECIMAL(30,3)), \
                        CAST(per_profile AS DECIMAL(30,3)), profiles, CAST(seconds AS DECIMAL(20,1)) FROM ";

#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_has_each_bucket_of_each_series() {
    let server = quiet_server().await;
    let all = an_hour();
    for made in &all {
        made.push(&server).await;
    }
    let mut client = client(&server).await;
    let width = 300;
    let buckets = START.div_euclid(width)..(START + 3600 - 1).div_euclid(width) + 1;
    let (from, to) = (moment(0), moment(3600));
    let one = |_: &Made| vec!["NULL"];
    let cases: [(&str, &str, IsWanted<'_>, SeriesOf<'_>); 7] = [
        ("*", "", &|_| true, &one),
        ("", "", &|_| true, &one),
        ("web-1,10003", "", &|made| made.node != "web-2", &one),
        ("team=web", "node", &|made| made.node != "db", &|made| vec![made.node]),
        ("team=web, zone=b", "", &|made| made.node == "web-2", &one),
        ("*", "label.team", &|_| true, &|made| vec![made.team()]),
        ("db", "cluster", &|made| made.node == "db", &|_| vec!["default"]),
    ];
    for (nodes, split, is_wanted, series) in cases {
        let mut sums = Sums::new();
        for made in all.iter().filter(|made| is_wanted(made)) {
            for name in series(made) {
                let bucket = (START + made.end).div_euclid(width);
                let own = sums.entry((bucket, name.to_owned())).or_default();
                *own = [own[0] + made.value(), 0, own[2] + 1, own[3] + made.seconds];
            }
        }
        let call = format!("timeline('{nodes}', 'cpu', '{from}', '{to}', {width}, '{split}')");
        let found: BTreeSet<String> = lines(&mut client, &format!("{TIMELINE}{call}")).await.into_iter().collect();
        assert_eq!(found, timeline(&sums, width, buckets.clone(), false), "{call}");
        assert!(warnings(&mut client).await.is_empty(), "{call}");
    }
    // Split by function: profiles and seconds are those of the bucket, as a function may take nothing in a profile.
    let by_function = |wanted: &[&str]| {
        let mut sums = Sums::new();
        for made in &all {
            for (name, [own, total]) in made.functions().into_iter().filter(|(name, _)| wanted.contains(name)) {
                let bucket = (START + made.end).div_euclid(width);
                let kept = sums.entry((bucket, name.to_owned())).or_default();
                *kept = [kept[0] + own, kept[1] + total, kept[2] + 1, kept[3] + made.seconds];
            }
        }
        timeline(&sums, width, buckets.clone(), true)
    };
    for (split, wanted) in [("function", ["hot", "cold"].as_slice()), ("function.main", &["main"])] {
        let call = format!("timeline('*', 'cpu', '{from}', '{to}', '5m', '{split}')");
        let found: BTreeSet<String> = lines(&mut client, &format!("{TIMELINE}{call}")).await.into_iter().collect();
        assert_eq!(found, by_function(wanted), "{call}");
    }
    // What is beyond the series is added up.
    let sum = |function: &dyn Fn(&Made) -> i64| all.iter().map(|made| function(made) * 1_000_000).sum::<i64>();
    let largest = format!(
        "SELECT series, SUM(value), COUNT(*) FROM timeline('*', 'cpu', '{from}', '{to}', '1h', 'function', NULL, 1) \
         GROUP BY 1 ORDER BY 2 DESC"
    );
    let (hot, cold) = (sum(&|made| made.hot), sum(&|made| made.cold));
    assert!(hot > cold);
    assert_eq!(lines(&mut client, &largest).await, [format!("hot {hot} 2"), format!("[others] {cold} 2")]);
    let nodes = format!(
        "SELECT series, profiles FROM timeline('*', 'cpu', '{from}', '{to}', '1d', 'node', 'samples', 2) \
         WHERE profiles > 0"
    );
    let found = lines(&mut client, &nodes).await;
    assert_eq!((found.len(), found[2].as_str()), (3, "[others] 8"), "{found:?}");
    assert_eq!(warnings(&mut client).await, ["timeline: 1 of 3 series are added up as '[others]'"]);
    let samples: i64 = all.iter().map(|made| made.hot + made.cold).sum();
    let of_type =
        format!("SELECT SUM(value), MAX(unit) FROM timeline('*', 'cpu', {START}, '{to}', 60, NULL, 'samples')");
    assert_eq!(lines(&mut client, &of_type).await, [format!("{samples} count")]);
    let none = "SELECT COUNT(*), SUM(value), MAX(sample_type) \
                FROM timeline('db', 'wall', '2023-11-14', '2023-11-15', '1 hour')";
    assert_eq!(lines(&mut client, none).await, ["24 0 NULL"]);
    client.disconnect().await.unwrap();
    server.stop().await;
}

/// The functions of a call with the columns that it is asked for.
async fn functions(client: &mut Conn, columns: &str, call: &str) -> BTreeSet<String> {
    lines(client, &format!("SELECT function, {columns} FROM {call}")).await.into_iter().collect()
}

fn top_of<'m>(all: impl Iterator<Item = &'m Made>, archived: usize) -> BTreeSet<String> {
    let mut sums: BTreeMap<&str, [i64; 2]> = BTreeMap::new();
    let mut count = 0;
    for made in all {
        count += 1;
        for (name, [own, total]) in made.functions() {
            let sum = sums.entry(name).or_default();
            *sum = [sum[0] + own, sum[1] + total];
        }
    }
    sums.into_iter().map(|(name, [own, total])| format!("{name} {own} {total} {count} {archived}")).collect()
}

const TOP: &str = "flat, cum, profiles, archived";

#[tokio::test(flavor = "multi_thread")]
async fn top_adds_up_nodes_and_labels() {
    let server = quiet_server().await;
    let all = an_hour();
    for made in &all {
        made.push(&server).await;
    }
    let mut client = client(&server).await;
    let cases: [(&str, IsWanted<'_>); 6] = [
        ("*", &|_| true),
        ("web-1", &|made| made.node == "web-1"),
        ("web-1, db", &|made| made.node != "web-2"),
        ("team=web", &|made| made.node != "db"),
        ("web-1,web-2,zone=b", &|made| made.node == "web-2"),
        ("*,zone=a", &|made| made.node == "web-1"),
    ];
    for (nodes, is_wanted) in cases {
        let found = functions(&mut client, TOP, &format!("top('{nodes}')")).await;
        assert_eq!(found, top_of(all.iter().filter(|made| is_wanted(made)), 0), "{nodes}");
    }
    let (from, to) = (moment(300), moment(1200));
    let within = |made: &&Made| (300..1200).contains(&made.end);
    let found = functions(&mut client, TOP, &format!("top('*', 'cpu', '{from}', '{to}')")).await;
    assert_eq!(found, top_of(all.iter().filter(within), 0));
    let ends: BTreeSet<i64> = all.iter().map(|made| made.end).collect();
    let covered = lines(&mut client, "SELECT DISTINCT first, last FROM top('*')").await;
    let [first, last] = [ends.first(), ends.last()].map(|end| format!("{}.000", moment(*end.unwrap())));
    assert_eq!(covered, [format!("{first} {last}")]);
    assert!(functions(&mut client, TOP, "top('team=nobody')").await.is_empty());
    client.disconnect().await.unwrap();
    server.stop().await;
}

/// The rows of a difference: own values and those with callees of both, after the first was multiplied.
fn difference(sides: [&[Made]; 2], scale: f64) -> BTreeSet<String> {
    let mut sums: BTreeMap<&str, [[i64; 2]; 2]> = BTreeMap::new();
    for (side, all) in sides.into_iter().enumerate() {
        for made in all {
            for (name, [own, total]) in made.functions() {
                let sum = &mut sums.entry(name).or_default()[side];
                *sum = [sum[0] + own, sum[1] + total];
            }
        }
    }
    let scaled = |value: i64| (value as f64 * scale).round() as i64;
    // The sum with callees is of scaled values, each rounded.
    let main = scaled(sums["hot"][0][0]) + scaled(sums["cold"][0][0]);
    let all: Vec<i64> = (0..2).map(|side| sums["main"][side][1]).collect();
    let row = |(name, [[own_a, cum_a], [own_b, cum_b]]): (&str, [[i64; 2]; 2])| {
        let share = format!("{:.3}", own_b as f64 * 100.0 / all[1] as f64);
        let share_a = format!("{:.3}", own_a as f64 * 100.0 / all[0] as f64);
        let (own_a, cum_a) = (scaled(own_a), if name == "main" { main } else { scaled(cum_a) });
        format!("{name} {} {} {own_a} {own_b} {cum_a} {cum_b} {share_a} {share}", own_b - own_a, cum_b - cum_a)
    };
    sums.into_iter().map(row).collect()
}

const DIFF: &str = "flat, cum, flat_a, flat_b, cum_a, cum_b, CAST(flat_a_percent AS DECIMAL(9,3)), \
                    CAST(flat_b_percent AS DECIMAL(9,3))";

#[tokio::test(flavor = "multi_thread")]
async fn periods_are_compared_for_the_same_time() {
    let server = quiet_server().await;
    let all = an_hour();
    for made in &all {
        made.push(&server).await;
    }
    let mut client = client(&server).await;
    let (a, b): (Vec<Made>, Vec<Made>) = all.iter().partition(|made| made.end < 1000);
    let seconds = |side: &[Made]| side.iter().map(|made| made.seconds).sum::<i64>();
    assert_ne!(seconds(&a), seconds(&b));
    let [start, middle, end] = [0, 1000, 3600].map(moment);
    let call = format!("diff('*', 'cpu', '{start}', '{middle}', '{middle}', '{end}')");
    let scale = seconds(&b) as f64 / seconds(&a) as f64;
    assert_eq!(functions(&mut client, DIFF, &call).await, difference([&a, &b], scale));
    let sides = format!(
        "SELECT DISTINCT CAST(scale AS DECIMAL(20,9)), profiles_a, profiles_b, archived_a, archived_b, \
         CAST(seconds_a AS DECIMAL(9,1)), CAST(seconds_b AS DECIMAL(9,1)) FROM {call}"
    );
    let expected = format!("{scale:.9} {} {} 0 0 {}.0 {}.0", a.len(), b.len(), seconds(&a), seconds(&b));
    assert_eq!(lines(&mut client, &sides).await, [expected]);
    // Both measured for as long: nothing is scaled.
    let same = format!("diff('*', 'cpu', '{start}', '{end}', '{start}', '{end}', 'cpu')");
    let found = functions(&mut client, DIFF, &same).await;
    assert_eq!(found, difference([&all, &all], 1.0));
    client.disconnect().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_archive_answers_for_what_is_gone_and_gaps_are_told() {
    let all = an_hour();
    let (old, new) = all.split_at(16);
    let never = Rhythm::Every(Duration::from_secs(1 << 30));
    let filled = server(config(true), never, tempfile::tempdir().unwrap()).await;
    let mut ids = Vec::new();
    for made in old {
        ids.push(made.push(&filled).await);
    }
    // Archived by one run and not compacted, so that each hour is one part.
    let data = filled.stop().await;
    keep_from_compacting(&archive(data.path()));
    let often = Rhythm::Every(Duration::from_secs(1));
    let archiving = server(config(true), often, data).await;
    wait_for(&archiving, 16.0).await;
    let server_of = async |data| server(config(true), never, data).await;
    let server = server_of(archiving.stop().await).await;
    for made in new {
        made.push(&server).await;
    }
    // The store has a half of what is archived no more.
    for id in &ids[..8] {
        assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{id}")).await, 204);
    }
    let mut client = client(&server).await;
    assert_eq!(functions(&mut client, TOP, "top('*')").await, top_of(all.iter(), 16));
    assert!(warnings(&mut client).await.is_empty());
    let of_team = || all.iter().filter(|made| made.team() == "web");
    let archived = old.iter().filter(|made| made.team() == "web").count();
    assert_eq!(functions(&mut client, TOP, "top('team=web')").await, top_of(of_team(), archived));
    // Three hours, of which two have profiles.
    let gap = format!("top('*', 'cpu', '{}', '{}')", moment(-2000), moment(7000));
    assert_eq!(functions(&mut client, TOP, &gap).await, top_of(all.iter(), 16));
    assert_eq!(warnings(&mut client).await, ["top: 2 of 4 hours of the period have no profiles"]);

    let (from, to) = (moment(0), moment(3600));
    let call = format!("timeline('*', 'cpu', '{from}', '{to}', '1d', 'node')");
    let found: BTreeSet<String> = lines(&mut client, &format!("SELECT series, value, profiles, archived FROM {call}"))
        .await
        .into_iter()
        .collect();
    let by_node = |node: &str| {
        let own = || all.iter().enumerate().filter(|(_, made)| made.node == node);
        let value: i64 = own().map(|(_, made)| made.value()).sum();
        format!("{node} {value} {} {}", own().count(), own().filter(|(at, _)| *at < 8).count())
    };
    assert_eq!(found, ["web-1", "web-2", "db"].map(by_node).into());
    let call = format!("timeline('*', 'cpu', '{from}', '{to}', '1d', 'function')");
    let found = lines(&mut client, &format!("SELECT series, value FROM {call} ORDER BY series DESC")).await;
    let sum = |of: &dyn Fn(&Made) -> i64| all.iter().map(of).sum::<i64>() * 1_000_000;
    let expected = [("hot", sum(&|made| made.hot)), ("cold", sum(&|made| made.cold))];
    assert_eq!(found, expected.map(|(name, value)| format!("{name} {value}")));
    assert!(warnings(&mut client).await.is_empty());
    let call = format!("timeline('team=web', 'cpu', '{from}', '{to}', '5m', 'function.main')");
    let found = lines(&mut client, &format!("SELECT SUM(total), SUM(value), SUM(archived) FROM {call}")).await;
    let total: i64 = of_team().map(Made::value).sum();
    let gone = all[..8].iter().filter(|made| made.team() == "web").count();
    assert_eq!(found, [format!("{total} 0 {gone}")]);

    let [start, middle, end] = [0, 1000, 3600].map(moment);
    let (a, b): (Vec<Made>, Vec<Made>) = all.iter().partition(|made| made.end < 1000);
    let seconds = |side: &[Made]| side.iter().map(|made| made.seconds).sum::<i64>();
    let call = format!("diff('*', 'cpu', '{start}', '{middle}', '{middle}', '{end}')");
    let scale = seconds(&b) as f64 / seconds(&a) as f64;
    assert_eq!(functions(&mut client, DIFF, &call).await, difference([&a, &b], scale));

    // Samples that cannot be read: their functions are missing, and the file is named, again and again.
    let archive = archive(server.data.path());
    let parts: Vec<_> = archive.parts().unwrap().whole.into_keys().collect();
    for part in &parts {
        archive.objects().put(&part.path(Table::Samples), b"PAR1 no more").unwrap();
    }
    let call = format!("timeline('*', 'cpu', '{from}', '{to}', '1d', 'function')");
    for _ in 0..2 {
        let found = lines(&mut client, &format!("SELECT series, value FROM {call} ORDER BY series DESC")).await;
        let hot: i64 = all[8..].iter().map(|made| made.hot * 1_000_000).sum();
        assert_eq!(found[0], format!("hot {hot}"), "{found:?}");
        let told = warnings(&mut client).await;
        assert_eq!(told.len(), parts.len(), "{told:?}");
        assert!(
            told.iter().all(|text| text.contains("a file of the archive cannot be read, so functions")),
            "{told:?}"
        );
    }

    // A file that cannot be read: what only it has is missing, and it is named.
    client.disconnect().await.unwrap();
    let data = server.stop().await;
    for part in &parts {
        archive.objects().put(&part.path(Table::Profiles), b"PAR1 no more").unwrap();
    }
    let server = server_of(data).await;
    let mut client = self::client(&server).await;
    assert_eq!(functions(&mut client, TOP, "top('*')").await, top_of(all[8..].iter(), 0));
    let told = warnings(&mut client).await;
    assert_eq!(told.len(), parts.len(), "{told:?}");
    assert!(told.iter().all(|text| text.contains("a file cannot be read: ")), "{told:?}");
    let count = lines(&mut client, "SELECT SUM(profiles) FROM timeline('*', 'cpu', '2023-11-14', '2023-11-15', '1d')");
    assert_eq!(count.await, ["16"]);
    assert_eq!(warnings(&mut client).await.len(), parts.len());
    client.disconnect().await.unwrap();
    server.stop().await;
}

/// Compaction changes no timeline. Those by hours and days read the hours of nodes in the place of their profiles.
#[tokio::test(flavor = "multi_thread")]
async fn timelines_are_the_same_after_compaction() {
    let often = Rhythm::Every(Duration::from_secs(1));
    let data = tempfile::tempdir().unwrap();
    let archive = archive(data.path());
    keep_from_compacting(&archive);
    let filled = server(config(true), often, data).await;
    let mut ids = Vec::new();
    for made in an_hour() {
        ids.push(made.push(&filled).await);
    }
    wait_for(&filled, 24.0).await;
    for id in &ids {
        assert_eq!(filled.status(Method::DELETE, &format!("/api/profiles/{id}")).await, 204);
    }
    let never = Rhythm::Every(Duration::from_secs(1 << 30));
    let server_of = async |data| server(config(true), never, data).await;
    let whole = ["2023-11-14 20:00:00".to_owned(), "2023-11-15 01:00:00".to_owned()];
    let periods = [whole, [500, 2900].map(moment), [0, 3600].map(moment)];
    let all = async |server: &TestServer| {
        let mut client = client(server).await;
        let mut found = Vec::new();
        for [from, to] in &periods {
            for (bucket, split) in [("1h", "node"), ("1d", "label.team"), ("2h", "function"), ("5m", "cluster")] {
                let call = format!("timeline('*', 'cpu', '{from}', '{to}', '{bucket}', '{split}')");
                let rows = lines(&mut client, &format!("SELECT * FROM {call} ORDER BY bucket, series")).await;
                assert!(rows.iter().any(|row| row.contains(" cpu nanoseconds ")), "{rows:?}");
                assert_eq!(warnings(&mut client).await, Vec::<String>::new(), "{call}");
                found.push((call, rows));
            }
        }
        client.disconnect().await.unwrap();
        found
    };
    let server = server_of(filled.stop().await).await;
    let expected = all(&server).await;
    let data = server.stop().await;
    archive.objects().delete(LEASE).unwrap();
    procprof_server::compact(&archive, &procprof_archive::CompactLimits::default()).unwrap();
    let parts = archive.parts().unwrap();
    assert_eq!((parts.whole.len(), parts.rolled.len()), (1, 1));
    let server = server_of(data).await;
    assert_eq!(all(&server).await, expected);
    for part in parts.whole.keys() {
        for table in [Table::Samples, Table::Profiles] {
            archive.objects().put(&part.path(table), b"PAR1 no more").unwrap();
        }
    }
    let mut client = client(&server).await;
    let of_hours = |call: &str| call.contains("20:00:00") && !call.contains("5m");
    for (call, rows) in expected.iter().filter(|(call, _)| of_hours(call)) {
        assert_eq!(lines(&mut client, &format!("SELECT * FROM {call} ORDER BY bucket, series")).await, *rows);
    }
    client.disconnect().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_of_periods_are_refused_by_name() {
    let server = quiet_server().await;
    an_hour()[0].push(&server).await;
    let mut client = client(&server).await;
    let long = "x".repeat(5000);
    let many = vec!["web-1"; 501].join(",");
    for (call, code, why) in [
        ("top('nowhere')", 1210, "top: node not found: nowhere"),
        ("top('web-1,,db')", 1210, "top: node not found: "),
        (&format!("top('{long}')"), 1210, "top: node not found: xxx"),
        (&format!("top('{many}')"), 1226, "top: more than 500 nodes and labels"),
        ("top('*', 'no type!')", 1210, "top: profile type"),
        ("top('*', 'cpu', 'yesterday')", 1210, "top: 'yesterday' is no date"),
        ("top('*', 'cpu', 9223372036854775807)", 1210, "top: '9223372036854775807' is no date"),
        ("top('*', 'cpu', '2024-01-02', '2024-01-01')", 1210, "top: the period ends before it begins"),
        (
            "top('*', 'cpu', NULL, NULL, 'wall')",
            1210,
            "top: no sample type 'wall'; there are samples, cpu and '*' for all",
        ),
        ("diff('db', 'cpu', 0, 10)", 1210, "diff: 'db' has no cpu profile in the first period"),
        ("diff('web-1', 'cpu', 0, NULL, 0, 10)", 1210, "diff: 'web-1' has no cpu profile in the second period"),
        ("diff('web-1', 'cpu', NULL, NULL, NULL, 'x')", 1210, "diff: 'x' is no date"),
        ("timeline('*', 'cpu', 0, 10)", 1210, "timeline: bucket_length is NULL; call it as timeline(nodes, "),
        ("timeline('*', 'cpu', NULL, 10, 10)", 1210, "timeline: from is NULL; "),
        ("timeline('*', 'cpu', 0, 10, 0)", 1210, "timeline: bucket: '0' is no number of seconds"),
        ("timeline('*', 'cpu', 0, 10, -5)", 1210, "timeline: bucket: '-5' is no number"),
        ("timeline('*', 'cpu', 0, 10, '5 weeks')", 1210, "timeline: bucket: '5 weeks' is no number"),
        ("timeline('*', 'cpu', 0, 10, '9223372036854775807d')", 1210, "timeline: bucket: "),
        ("timeline('*', 'cpu', 0, 10001, 1)", 1226, "timeline: the period has 10001 buckets, and at most 10000"),
        ("timeline('*', 'cpu', 0, 10, 1, 'user')", 1210, "timeline: split: 'user' is none of node, cluster, label.KEY"),
        ("timeline('*', 'cpu', 0, 10, 1, 'label.')", 1210, "timeline: split: 'label.' is none of"),
        ("timeline('*', 'cpu', 0, 10, 1, 'node', NULL, 0)", 1210, "timeline: series: '0' is no number from 1 to 1000"),
        (
            "timeline('*', 'cpu', '2023-11-14', '2023-11-15', '1h', '', 'wall')",
            1210,
            "timeline: no sample type 'wall'; there are samples, cpu",
        ),
        (
            "timeline('*', 'cpu', '2023-11-14', '2023-11-15', '1h', 'function', 'samples')",
            1210,
            "timeline: functions are known of the default sample type, cpu, and of no other",
        ),
        ("timeline('*')", 1210, "timeline: call it as timeline(nodes, type, from, to, bucket"),
        ("timeline", 1210, "timeline: call it as timeline(nodes, type, from, to, bucket"),
    ] {
        let statement = format!("SELECT * FROM {call}");
        match client.query::<Row, _>(&statement).await {
            Err(mysql_async::Error::Server(error)) => {
                assert_eq!(error.code, code, "{call}: {}", error.message);
                assert!(error.message.starts_with(why), "{call}: {}", error.message);
            }
            other => panic!("{call}: {other:?}"),
        }
    }
    client.disconnect().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn captures_are_those_of_the_api() {
    let server = quiet_server().await;
    let mut client = client(&server).await;
    let columns = "id, node, type, state, seconds, requested_by, profile_id, message, code";
    assert!(lines(&mut client, "SELECT * FROM captures").await.is_empty());
    let ask = async |node: &str, seconds: u32| {
        let (status, job) =
            server.post("/api/captures", json!({ "node": node, "type": "cpu", "seconds": seconds })).await;
        assert_eq!(status, 202, "{job}");
        job["id"].as_str().unwrap().to_owned()
    };
    let state = async |client: &mut Conn, id: &str| -> String {
        let found = lines(client, &format!("SELECT state FROM captures WHERE id = '{id}'")).await;
        found.concat()
    };
    let long = ask("procprof", 300).await;
    until("the first runs", async || (state(&mut client, &long).await == "running").then_some(())).await;
    // One of another length waits for it; nothing listens where the other node is.
    let (waiting, failed) = (ask("procprof", 1).await, ask("db", 1).await);
    server.ended(&failed).await;
    until("the second waits", async || (state(&mut client, &waiting).await == "waiting").then_some(())).await;
    let same = async |client: &mut Conn| {
        let listed = server.json("/api/captures").await;
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) if !text.is_empty() => text.clone(),
            serde_json::Value::Number(number) => number.to_string(),
            _ => "NULL".to_owned(),
        };
        let keys = ["id", "node", "type", "state", "seconds", "by", "profile", "message", "code"];
        let row = |job: &serde_json::Value| keys.map(|key| text(&job[key])).join(" ");
        let expected: Vec<String> = listed.as_array().unwrap().iter().map(row).collect();
        assert_eq!(lines(client, &format!("SELECT {columns} FROM captures")).await, expected);
        expected
    };
    let listed = same(&mut client).await;
    assert_eq!(listed.len(), 3, "{listed:?}");
    let progress = lines(&mut client, "SELECT state, progress FROM captures WHERE state <> 'running' ORDER BY 1").await;
    assert_eq!(progress, ["failed 1", "waiting 0"]);
    let running =
        "SELECT progress BETWEEN 0 AND 0.9, ended IS NULL, started <= NOW(3) FROM captures WHERE state = 'running'";
    assert_eq!(lines(&mut client, running).await, ["1 1 1"]);
    assert_eq!(server.status(Method::DELETE, &format!("/api/captures/{long}")).await, 202);
    server.ended(&long).await;
    server.ended(&waiting).await;
    let listed = same(&mut client).await;
    let states: Vec<&str> = listed.iter().map(|line| line.split(' ').nth(3).unwrap()).collect();
    assert_eq!(states, ["failed", "done", "cancelled"]);
    let joined = "SELECT p.node, p.trigger, c.requested_by FROM captures c JOIN profiles p ON p.id = c.profile_id \
                  WHERE c.ended >= c.started";
    assert_eq!(lines(&mut client, joined).await, ["1 manual local"]);
    client.disconnect().await.unwrap();
    server.stop().await;
}
