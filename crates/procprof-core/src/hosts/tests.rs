//! Frames in pieces of any length; hosts that fall silent; names that others have; room for services.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use procprof_profile::ProfileType;
use procprof_store::{Store, StoreOptions};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::folder::HostFolder;
use super::known::{AskedRate, BoundToken, KnownHost, KnownService};
use super::protocol::{Heartbeat, HostFacts, OfferedType, PushedProfile, ServiceFacts};
use super::{
    ALL_SERVICES_MAX, FORGOTTEN, FrameError, FramePart, Frames, HOSTS_MAX, Host, Hosts, KNOWN_SERVICES_MAX, LATE,
};
use crate::auth::{Authenticator, Principal};
use crate::children::{ChildProgram, Children};
use crate::config::Config;
use crate::ingest::Ingest;
use crate::law::{Contents, Mark, Row, check, line};
use crate::metrics::Metrics;
use crate::nodes::Registry;
use crate::settings::Settings;
use crate::symbols::SymbolStore;

fn frame(id: &str, profile: &[u8]) -> Vec<u8> {
    let header = serde_json::to_vec(&PushedProfile { id: id.to_owned(), ..PushedProfile::default() }).unwrap();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [&length(&header)[..], &header, &length(profile), profile].concat()
}

/// The ids and profiles of a body that comes in pieces of this length.
fn read(body: &[u8], piece: usize) -> Result<Vec<(String, Vec<u8>)>, FrameError> {
    let (mut frames, mut read) = (Frames::default(), Vec::new());
    for bytes in body.chunks(piece) {
        frames.push(bytes);
        while let Some(part) = frames.part()? {
            match part {
                FramePart::Header(header, _) => read.push((header.id, Vec::new())),
                FramePart::Piece(bytes) => read.last_mut().unwrap().1.extend_from_slice(&bytes),
                FramePart::End => {}
            }
        }
    }
    frames.finish().map(|()| read)
}

#[test]
fn frames_are_the_same_in_pieces_of_any_length_and_no_cut_is_overlooked() {
    let parts = [("a", &b"profile"[..]), ("b", b""), ("c", &[7; 300])];
    let body: Vec<u8> = parts.iter().flat_map(|(id, profile)| frame(id, profile)).collect();
    let expected: Vec<(String, Vec<u8>)> = parts.iter().map(|(id, bytes)| ((*id).to_owned(), bytes.to_vec())).collect();
    for piece in [1, 2, 3, 5, 64, 300, body.len()] {
        assert_eq!(read(&body, piece).unwrap(), expected, "{piece}");
    }
    let mut ends = vec![0];
    for (id, profile) in parts {
        ends.push(ends.last().unwrap() + frame(id, profile).len());
    }
    for length in 0..=body.len() {
        let whole = ends.iter().position(|end| *end == length);
        match (whole, read(&body[..length], 17)) {
            (Some(frames), Ok(read)) => assert_eq!(read.len(), frames),
            (None, Err(FrameError::CutShort { frame })) => {
                assert_eq!(ends.partition_point(|end| *end <= length), frame + 1)
            }
            (whole, read) => panic!("{length}: {whole:?} {read:?}"),
        }
    }
}

struct Around {
    hosts: Hosts,
    registry: Arc<Registry>,
    data: TempDir,
}

impl Around {
    fn open(config: &str, data: TempDir) -> Around {
        let config = Config::parse(config, "test.toml").unwrap();
        let child = || ChildProgram { program: "/nonexistent".into(), arguments: Vec::new() };
        let registry = Arc::new(Registry::open(data.path(), &config, Vec::new(), "127.0.0.1:1", None).unwrap());
        let bound = "127.0.0.1:1".parse().unwrap();
        let ingest = Arc::new(Ingest::new(
            Arc::new(Settings::new(config, data.path().to_owned(), Vec::new(), bound)),
            Arc::clone(&registry),
            Arc::new(Store::open(data.path(), StoreOptions::default()).unwrap()),
            Arc::new(Metrics::new()),
            Arc::new(SymbolStore::open(data.path()).unwrap()),
            Arc::new(Children::new(child(), child(), data.path())),
        ));
        let authenticator = Arc::new(Authenticator::new(None).unwrap());
        let hosts = Hosts::open(ingest, authenticator, CancellationToken::new()).unwrap();
        Around { hosts, registry, data }
    }

    async fn beat(&self, number: u8, name: &str, services: impl IntoIterator<Item = String>) {
        let types = vec![OfferedType { profile_type: "cpu".to_owned(), continuous: true }];
        let service = |name| ServiceFacts { name, types: types.clone(), ..ServiceFacts::default() };
        let host = HostFacts { id: format!("{number:032x}"), name: name.to_owned(), ..HostFacts::default() };
        let services = services.into_iter().map(service).collect();
        let heartbeat = Heartbeat { host, services, sent_nanos: 0, wait_seconds: 0 };
        self.hosts.heartbeat(&Principal::local(), heartbeat).await.unwrap();
    }

    fn summary(&self, name: &str) -> (&'static str, Option<String>) {
        let node = self.registry.find(name).unwrap();
        let health = self.registry.health(node.id);
        (health.summary(), health.last_failure().map(|(_, failure)| failure.reason.clone()))
    }

    fn names(&self) -> Vec<String> {
        let nodes = self.registry.all();
        nodes.iter().filter(|node| node.pushed_by.is_some()).map(|node| node.name().to_owned()).collect()
    }
}

#[tokio::test]
async fn a_silent_host_fails_until_it_is_heard_of_again() {
    let around = Around::open("", tempfile::tempdir().unwrap());
    around.beat(1, "db", ["mysqld".to_owned()]).await;
    around.hosts.sweep().await;
    assert_eq!(around.summary("db/mysqld"), ("unknown", None));
    // As if that had been three minutes ago.
    around.hosts.table().hosts.values_mut().next().unwrap().heard = Instant::now().checked_sub(LATE).unwrap();
    around.hosts.sweep().await;
    assert_eq!(around.summary("db/mysqld"), ("failing", Some("no heartbeat of db for 0 min".to_owned())));
    let node = around.registry.find("db").unwrap();
    assert!(around.hosts.state(&node).unwrap().is_late);
    around.beat(1, "db", ["mysqld".to_owned()]).await;
    assert_eq!(around.summary("db/mysqld"), ("unknown", None));
    assert!(!around.hosts.state(&node).unwrap().is_late);
}

#[tokio::test]
async fn services_without_profiles_of_their_own_are_in_those_of_their_host() {
    let around = Around::open("", tempfile::tempdir().unwrap());
    let beat = async |in_host| {
        let service = ServiceFacts { name: "cron".to_owned(), in_host, ..ServiceFacts::default() };
        let host = HostFacts { id: format!("{:032x}", 1), name: "db".to_owned(), ..HostFacts::default() };
        let heartbeat = Heartbeat { host, services: vec![service], sent_nanos: 0, wait_seconds: 0 };
        around.hosts.heartbeat(&Principal::local(), heartbeat).await.unwrap();
    };
    beat(true).await;
    assert_eq!(around.summary("db/cron"), ("in-host", None));
    beat(false).await;
    assert_eq!(around.summary("db/cron"), ("unknown", None));
    beat(true).await;
    around.hosts.write_changed(Duration::ZERO).await;
    let Around { hosts, registry, data } = around;
    drop((hosts, registry));
    assert_eq!(Around::open("", data).summary("db/cron"), ("in-host", None));
}

#[tokio::test]
async fn what_is_gone_for_a_week_is_forgotten_with_its_file() {
    let around = Around::open("", tempfile::tempdir().unwrap());
    around.beat(1, "db", ["old".to_owned(), "new".to_owned()]).await;
    around.beat(2, "web", ["x".to_owned()]).await;
    let week = i64::try_from(FORGOTTEN.as_nanos()).unwrap() + 1_000_000_000;
    let in_past = |around: &Around, number: u8, service: Option<&str>| {
        let mut table = around.hosts.table();
        let host = table.hosts.get_mut(&format!("{number:032x}")).unwrap();
        match service {
            Some(service) => host.known.services.get_mut(service).unwrap().seen_nanos -= week,
            None => {
                host.heard = Instant::now().checked_sub(LATE).unwrap();
                host.known.heartbeat_nanos -= week;
            }
        }
        table.looked = None;
    };
    around.hosts.forget_gone().await.unwrap();
    assert_eq!(around.names().len(), 5);
    in_past(&around, 1, Some("old"));
    around.hosts.sweep().await;
    assert_eq!(around.names(), ["db", "db/new", "web", "web/x"]);
    // The host is forgotten with its services, and not before them.
    in_past(&around, 2, None);
    around.hosts.sweep().await;
    assert_eq!(around.names(), ["db", "db/new", "web", "web/x"]);
    in_past(&around, 2, Some("x"));
    around.hosts.sweep().await;
    assert_eq!(around.names(), ["db", "db/new"]);
    let file = around.data.path().join(format!("hosts/{:032x}.json", 2));
    assert!(!file.exists());
    around.beat(2, "web", ["x".to_owned()]).await;
    assert!(around.names().len() == 4 && file.exists());
}

#[tokio::test]
async fn names_that_other_nodes_have_get_the_hosts_id() {
    let configured = "[[node]]\nname = \"db\"\nkind = \"go\"\nhttp = \"127.0.0.1:1\"";
    let around = Around::open(configured, tempfile::tempdir().unwrap());
    around.beat(1, "db", ["x".to_owned()]).await;
    around.beat(2, "db", []).await;
    around.beat(3, "web", []).await;
    around.beat(4, "web", []).await;
    let long = format!("db #{:032x}", 2);
    let expected = ["db #00000000", "db #00000000/x", long.as_str(), "web", "web #00000000"];
    assert_eq!(around.names(), expected);
    assert!(around.registry.find("db").unwrap().pushed_by.is_none());
}

#[tokio::test]
async fn services_that_are_gone_make_room_unless_they_have_profiles() {
    let around = Around::open("", tempfile::tempdir().unwrap());
    let numbered = |range: std::ops::Range<usize>| range.map(|number| format!("s{number}"));
    around.beat(1, "db", numbered(0..1000)).await;
    around.beat(1, "db", numbered(1000..KNOWN_SERVICES_MAX)).await;
    around.beat(1, "db", ["new".to_owned()]).await;
    let state = around.hosts.state(&around.registry.find("db").unwrap()).unwrap();
    assert_eq!((state.services_refused, around.names().len()), (1, 1 + KNOWN_SERVICES_MAX), "none is gone yet");
    // As if the first ones had last been seen an hour ago.
    for (name, service) in &mut around.hosts.table().hosts.values_mut().next().unwrap().known.services {
        if ["s1", "s2"].contains(&name.as_str()) {
            service.seen_nanos -= 3600 * 1_000_000_000;
        }
    }
    around.beat(1, "db", ["new".to_owned()]).await;
    let names = around.names();
    assert!(names.contains(&"db/new".to_owned()) && !names.contains(&"db/s1".to_owned()));
    assert!(names.contains(&"db/s2".to_owned()), "no more are forgotten than needed");
    let state = around.hosts.state(&around.registry.find("db").unwrap()).unwrap();
    assert_eq!((state.services_refused, state.services_gone), (0, 1));
    let known = around.registry.find("db/new").unwrap().id;
    around.hosts.write_changed(Duration::ZERO).await;
    let Around { hosts, registry, data } = around;
    drop((hosts, registry));
    let around = Around::open("", data);
    assert_eq!(around.registry.find("db/new").unwrap().id, known);
    assert!(around.registry.all().iter().all(|node| node.pushed_by.is_some() || !node.past), "nothing is left over");
}

#[tokio::test]
async fn figures_of_nodes_are_bounded_and_tell_what_they_leave_out() {
    let around = Around::open("", tempfile::tempdir().unwrap());
    for number in 1..=3 {
        around.beat(number, &format!("db{number}"), (0..700).map(|service| format!("s{service}"))).await;
    }
    for node in around.registry.all().iter() {
        around.registry.note(node.id, |health| {
            health.types.entry(ProfileType::Cpu).or_default().last_success = Some(jiff::Timestamp::now());
        });
    }
    let text = Metrics::new().text(&around.registry);
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert!(text.contains("procprof_nodes{health=\"ok\"} 2104\n"), "all are counted");
    assert!(text.contains("procprof_nodes_without_figures 104\n"));
    assert_eq!((lines("procprof_node_up{"), lines("procprof_last_success_timestamp_seconds{")), (2000, 2000));
    for node in ["procprof", "db1", "db2", "db3"] {
        assert!(text.contains(&format!("procprof_node_up{{node=\"{node}\"}} 1\n")), "{node} comes before services");
    }
}

#[tokio::test]
async fn hosts_that_come_at_once_share_the_room_for_services() {
    let around = Around::open("", tempfile::tempdir().unwrap());
    let each = 1_000;
    let numbered = || (0..each).map(|number| format!("s{number}"));
    let hosts = u8::try_from(ALL_SERVICES_MAX / each + 1).unwrap();
    let names: Vec<String> = (1..=hosts).map(|number| format!("db{number:03}")).collect();
    let beats = names.iter().zip(1..).map(|(name, number)| around.beat(number, name, numbered()));
    futures_util::future::join_all(beats).await;
    let states = names.iter().map(|name| around.hosts.state(&around.registry.find(name).unwrap()).unwrap());
    let (services, refused): (Vec<usize>, Vec<u64>) =
        states.map(|state| (state.services, state.services_refused)).unzip();
    assert_eq!((services.iter().sum::<usize>(), refused.iter().sum::<u64>()), (ALL_SERVICES_MAX, each as u64));
    assert_eq!(around.hosts.table().services, ALL_SERVICES_MAX, "no room is lost or given twice");
    let ids: BTreeSet<u64> = around.registry.all().iter().map(|node| node.id).collect();
    assert_eq!(ids.len(), ALL_SERVICES_MAX + usize::from(hosts) + 1, "each node has an id of its own, and is listed");
}

#[tokio::test]
async fn hosts_beyond_the_limit_are_refused_by_name() {
    let around = Around::open("", tempfile::tempdir().unwrap());
    for number in 1..=HOSTS_MAX {
        let facts = HostFacts { id: format!("{number:032x}"), ..HostFacts::default() };
        let known = KnownHost { facts: facts.clone(), ..KnownHost::default() };
        around.hosts.table().hosts.insert(facts.id, Host::new(known));
    }
    let host = HostFacts { id: "f".repeat(32), ..HostFacts::default() };
    let heartbeat = Heartbeat { host, ..Heartbeat::default() };
    let refused = around.hosts.heartbeat(&Principal::local(), heartbeat).await.unwrap_err();
    assert_eq!(refused.to_string(), "5000 hosts are known, and no further one is taken");
}

#[test]
fn every_version_of_a_hosts_file_is_read() {
    let mark = Mark::new("hosts/00000000000000000000000000000001.json", br#"{"version":"#);
    check(&Row { name: "hosts", version: 1, make: make_hosts, read: read_hosts, mark: Some(mark) });
}

fn make_hosts(data: &Path) {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let labels = BTreeMap::from([("rack".to_owned(), "r 7".to_owned())]);
    let facts = HostFacts {
        id: format!("{:032x}", 1),
        name: "db".to_owned(),
        kernel: "6.1.0".to_owned(),
        cpus: 4,
        memory_bytes: 1 << 34,
        version: "0.1.0".to_owned(),
        started_nanos: 1_763_677_000_000_000_000,
        labels: labels.clone(),
        hz: 50,
        hz_wanted: 99,
        missing: texts(&["CAP_SYSLOG"]),
        cpu_nanos: 123_456_789,
        resident_bytes: 40 << 20,
        spooled: (3, 4096),
        spool_lost: 1,
        samples_lost: 2,
        services_left_out: 5,
    };
    let service = ServiceFacts {
        name: "mysqld.service".to_owned(),
        process: (4711, 8_000),
        processes: 2,
        program: "/usr/sbin/mysqld".to_owned(),
        labels,
        types: vec![OfferedType { profile_type: "cpu".to_owned(), continuous: true }],
        cpu_milli: 1_500,
        hints: texts(&["install debug symbols"]),
        in_host: true,
    };
    let known = KnownService { node: 20_002, facts: service, seen_nanos: 1_763_677_500_000_000_000 };
    let host = KnownHost {
        facts,
        node: 20_001,
        token: Some(BoundToken { user: "db1".to_owned(), mark: "5d41402a".to_owned() }),
        heartbeat_nanos: 1_763_677_534_000_000_000,
        skew_nanos: -7,
        rate: Some(AskedRate { hz: 199, told: 1_763_677_000_000_000_000 }),
        services: BTreeMap::from([("mysqld.service".to_owned(), known)]),
        sent_types: BTreeSet::from(["cpu".to_owned(), "off_cpu".to_owned()]),
        services_refused: 6,
    };
    let (folder, _) = HostFolder::open(data).unwrap();
    folder.write(&host).unwrap();
    let facts = HostFacts { id: format!("{:032x}", 2), name: "web".to_owned(), ..HostFacts::default() };
    folder.write(&KnownHost { facts, node: 20_003, ..KnownHost::default() }).unwrap();
}

fn read_hosts(data: &Path) -> Contents {
    let (_, mut hosts) = HostFolder::open(data)?;
    hosts.sort_by_key(|host| host.node);
    let mut text = String::new();
    hosts.iter().for_each(|host| line(&mut text, host));
    Ok(text)
}
