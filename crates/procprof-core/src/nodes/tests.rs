//! Ids, names and health of nodes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use procprof_profile::ProfileType;

use super::{ExtraNode, FailedAttempt, Health, Kind, NodeIds, Planned, Registry, Role};
use crate::config::Config;
use crate::law::{Contents, Mark, Row, check, line};

#[test]
fn ids_are_kept_and_never_used_twice() {
    let data = tempfile::tempdir().unwrap();
    let mut ids = NodeIds::open(data.path(), None).unwrap();
    assert_eq!(ids.id("a", Role::Service, None).unwrap(), 20_001);
    assert_eq!(ids.id("be", Role::Be, Some(10_001)).unwrap(), 10_001);
    assert_eq!(ids.id("b", Role::Service, None).unwrap(), 20_002);
    assert_eq!(ids.id("far", Role::Cn, Some(20_003)).unwrap(), 20_003);
    let mut ids = NodeIds::open(data.path(), None).unwrap();
    assert_eq!(ids.id("c", Role::Service, None).unwrap(), 20_004, "given ids are not given out again");
    assert_eq!(ids.id("a", Role::Service, None).unwrap(), 20_001);
    assert_eq!(ids.id("be-renamed", Role::Be, Some(10_001)).unwrap(), 10_001);
    let names: Vec<(String, u64, Role)> = ids.all().map(|(name, id, role)| (name.to_owned(), id, role)).collect();
    assert!(
        names.contains(&("be-renamed".to_owned(), 10_001, Role::Be)) && !names.iter().any(|(name, ..)| name == "be")
    );
    std::fs::write(data.path().join("nodes.json"), "{}").unwrap();
    assert!(NodeIds::open(data.path(), None).is_err(), "a broken file is no reason to number anew");
}

#[test]
fn queries_find_registered_nodes_only() {
    let data = tempfile::tempdir().unwrap();
    let text =
        "[[node]]\nname = \"be\"\nkind = \"starrocks-be\"\nid = 10001\nhttp = \"[::1]:8040\"\nbrpc = \"[::1]:8060\"";
    let extra = ExtraNode {
        id: None,
        name: "demo-fe".into(),
        role: Role::Fe,
        kind: Kind::PROCPROF,
        address: "127.0.0.1:7".into(),
        pid: None,
        schedule: vec![Planned { profile_type: ProfileType::Cpu, on: true, seconds: 2, every: 5 }],
        demo: true,
    };
    let registry =
        Registry::open(data.path(), &Config::parse(text, "f").unwrap(), vec![extra], "127.0.0.1:8030", None).unwrap();
    let found = |query: &str| registry.find(query).map(|node| node.label());
    for query in ["FE", "FE:127.0.0.1:7", "demo-fe", "20001"] {
        assert_eq!(found(query).as_deref(), Some("FE demo-fe (demo)"), "{query}");
    }
    for query in ["be", "10001", "BE:[::1]:8040", "BE:[::1]:8060"] {
        assert_eq!(found(query).as_deref(), Some("BE be"), "{query}");
    }
    for query in ["", "BE", "BE:", "CN:[::1]:8040", "BE:::1:8040", "FE:[::1]:8040", "2", "nobody"] {
        assert_eq!(found(query), None, "{query}");
    }
    let demo = registry.find("FE").unwrap();
    let cpu = demo.planned(&ProfileType::Cpu).unwrap();
    assert_eq!(
        (cpu.seconds, cpu.every, demo.schedule.iter().filter(|row| row.profile_type == ProfileType::Cpu).count()),
        (2, 5, 1)
    );
    assert_eq!(registry.default_node().name(), "demo-fe");
    registry.configure(&Config::defaults(), "127.0.0.1:8030").unwrap();
    assert!(registry.find("be").unwrap().past && !Arc::clone(&registry.find("demo-fe").unwrap()).past);
}

#[test]
fn health_is_that_of_the_latest_attempts() {
    let (now, mut health) = (Timestamp::now(), Health::default());
    assert_eq!(health.summary(), "unknown");
    assert_eq!(Health { in_host: true, ..health.clone() }.summary(), "in-host");
    health.types.entry(ProfileType::Heap).or_default().capturing = true;
    assert_eq!(health.summary(), "unknown");
    health.types.entry(ProfileType::Cpu).or_default().last_success = Some(now);
    assert_eq!(health.summary(), "ok");
    let failure = FailedAttempt { at: now + SignedDuration::from_secs(1), reason: "no".into() };
    health.types.entry(ProfileType::Heap).or_default().last_failure = Some(failure.clone());
    assert_eq!((health.summary(), health.last_failure().unwrap().0), ("degraded", &ProfileType::Heap));
    health.types.entry(ProfileType::Cpu).or_default().last_failure = Some(failure);
    assert_eq!(health.summary(), "failing");
    health.types.entry(ProfileType::Cpu).or_default().last_success = Some(now + SignedDuration::from_secs(2));
    assert_eq!(health.summary(), "degraded");
    let off = |profile_type: ProfileType| Planned { profile_type, on: false, seconds: 0, every: 60 };
    let on = |profile_type: ProfileType| Planned { on: true, ..off(profile_type) };
    let of = |schedule: &[Planned]| health.clone().scheduled(schedule).summary();
    assert_eq!(of(&[on(ProfileType::Cpu), on(ProfileType::Heap)]), "degraded");
    assert_eq!(of(&[on(ProfileType::Cpu), off(ProfileType::Heap)]), "ok", "nobody waits for what is off");
}

#[test]
fn every_version_of_the_ids_is_read() {
    let mark = Mark::new("nodes.json", br#"{"version":"#);
    check(&Row { name: "nodes", version: 1, make: make_ids, read: read_ids, mark: Some(mark) });
}

fn make_ids(data: &Path) {
    let mut ids = NodeIds::open(data, None).unwrap();
    ids.id("be-1", Role::Be, Some(10_001)).unwrap();
    ids.id("api", Role::Service, None).unwrap();
    let names = [("web", Role::Service), ("db", Role::Host)].map(|(name, role)| (name.to_owned(), role));
    ids.several(&names, &HashMap::from([("db".to_owned(), 30_000)])).unwrap();
    ids.forget(&["web".to_owned()]).unwrap();
}

fn read_ids(data: &Path) -> Contents {
    let mut ids = NodeIds::open(data, None)?;
    let mut text = String::new();
    ids.all().for_each(|node| line(&mut text, node));
    line(&mut text, ("next", ids.id("next", Role::Service, None).unwrap()));
    Ok(text)
}
