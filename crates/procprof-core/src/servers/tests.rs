//! Objects that servers write into an archive, in all their versions.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use procprof_archive::{Archive, ObjectFolder, Objects, Place, ReadLimits, Writer};

use super::heartbeat::{Heartbeat, Heartbeats, NodeKey, encode_nodes, heartbeats, nodes, put_heartbeat, put_nodes};
use super::members::Members;
use super::numbers::SharedNumbers;
use crate::archiving::{KnownParts, OpenArchive};
use crate::law::{Contents, Mark, Row, check, line};
use crate::nodes::NodeNumbers;

const WRITER: Writer = Writer(0x0123_4567_89ab_cdef);

#[test]
fn every_version_of_heartbeats_is_read() {
    let mark = Mark::new("servers/0123456789abcdef/heartbeat.json", br#"{"format":"#);
    check(&Row { name: "servers", version: 1, make: make_servers, read: read_servers, mark: Some(mark) });
}

#[test]
fn every_version_of_shared_ids_is_read() {
    let mark = Mark::new("nodes/0000020002.json", br#"{"version":"#);
    check(&Row { name: "node-numbers", version: 1, make: make_numbers, read: read_numbers, mark: Some(mark) });
}

fn heartbeat(digest: &str, full: bool) -> Heartbeat {
    Heartbeat {
        url: "http://10.0.0.7:8030".to_owned(),
        version: "0.1.0".to_owned(),
        started: 1_763_677_534_000,
        beat: 17,
        lease: 30,
        nodes: digest.to_owned(),
        full,
    }
}

fn make_servers(folder: &Path) {
    let objects = ObjectFolder::create(folder).unwrap();
    for (server, full, keys) in [(WRITER, true, vec![1, 0x91d2]), (Writer(7), false, Vec::new())] {
        let keys: BTreeSet<NodeKey> = keys.into_iter().map(NodeKey).collect();
        let (text, digest) = encode_nodes(&keys).unwrap();
        put_nodes(&objects, server, &text).unwrap();
        put_heartbeat(&objects, server, &heartbeat(&digest, full)).unwrap();
    }
}

fn read_servers(folder: &Path) -> Contents {
    let objects = ObjectFolder::open(folder).unwrap();
    let mut text = String::new();
    let Heartbeats { found, refused } = heartbeats(&objects)?;
    if let Some(refused) = refused {
        return Err(refused.into());
    }
    for (server, heartbeat) in found {
        let keys = nodes(&objects, server, &heartbeat.nodes)?;
        line(&mut text, (server, heartbeat, keys));
    }
    Ok(text)
}

#[test]
fn a_heartbeat_with_a_lease_of_no_server_is_passed_over_and_told() {
    let folder = tempfile::tempdir().unwrap();
    make_servers(folder.path());
    let objects = ObjectFolder::open(folder.path()).unwrap();
    for lease in [0, 2, 3601, u64::MAX] {
        put_heartbeat(&objects, Writer(9), &Heartbeat { lease, ..heartbeat("0", false) }).unwrap();
        let Heartbeats { found, refused } = heartbeats(&objects).unwrap();
        assert_eq!(found.len(), 2);
        let why = refused.unwrap().to_string();
        let expected = format!("servers/0000000000000009/heartbeat.json: a lease of {lease} s is none of a server");
        assert!(why.contains(&expected), "{why}");
    }
    let mut members = Members::default();
    let long = |beat| vec![(Writer(9), Heartbeat { lease: u64::MAX, beat, ..heartbeat("0", false) })];
    for (beat, since) in [(1, Duration::ZERO), (1, Duration::MAX), (2, Duration::MAX)] {
        members.listen(long(beat), since, |_, _| None);
        assert!(members.forgotten().is_empty());
    }
}

fn numbers(folder: &Path) -> SharedNumbers {
    let objects: Arc<dyn Objects> = Arc::new(ObjectFolder::open(folder).unwrap());
    let known = Arc::new(KnownParts::new(Archive::new(objects, ReadLimits::default())));
    SharedNumbers::new(Arc::new(OpenArchive { known, writer: WRITER, place: Place::Folder(folder.to_owned()) }))
}

fn make_numbers(folder: &Path) {
    let numbers = numbers(folder);
    numbers.keep("be-1", 10_001).unwrap();
    assert_eq!(numbers.number("api", 20_001).unwrap(), 20_001);
    assert_eq!(numbers.number("wörk", 20_001).unwrap(), 20_002);
}

fn read_numbers(folder: &Path) -> Contents {
    let numbers = numbers(folder);
    let mut text = String::new();
    for (name, id) in [("be-1", 10_001), ("api", 20_001), ("wörk", 20_002)] {
        numbers.keep(name, id)?;
        line(&mut text, (name, numbers.number(name, 1)?));
    }
    // The id of another node: its object is read, too.
    let held = numbers.keep("other", 20_002).unwrap_err().to_string();
    if !held.contains("of node wörk in the archive") {
        return Err(held.into());
    }
    line(&mut text, held);
    Ok(text)
}
