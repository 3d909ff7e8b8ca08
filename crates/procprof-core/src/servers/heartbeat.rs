//! [`Heartbeat`]: the object by which a server tells the others of an archive that it is alive, and [`NodeKey`]s: which
//! nodes it could capture.
//!
//! ```text
//! servers/0123456789abcdef/heartbeat.json   {"format":1,"url":"http://10.0.0.7:8030","version":"0.1.0","started":1763677534000,"beat":17,"lease":30,"nodes":"6f0c1b9a2d3e4f50","full":false}
//! servers/0123456789abcdef/nodes.json       ["00c4…","91d2…"]: keys of nodes, hexadecimal, rising
//! ```
//! The heartbeat is replaced every third of its lease, the keys when they change, before the heartbeat that has their
//! digest.
//!
//! `format` is the version of both; `version` is that of the program. Servers of an earlier release skip it. One of a
//! later version than this server reads, or with a lease that no server has, is reported, and its server is not known
//! here: both capture their nodes then.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use procprof_archive::{Objects, Writer};
use procprof_files::DiskFormat;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::nodes::Node;
use crate::{Error, Result};

const FOLDER: &str = "servers";
const HEARTBEAT: &str = "heartbeat.json";
const NODES: &str = "nodes.json";
/// Bytes of a heartbeat, at most.
const HEARTBEAT_BYTES_MAX: u64 = 4096;
/// Bytes of the keys of a server's nodes, at most: those of 400,000 nodes.
const NODES_BYTES_MAX: u64 = 8 << 20;

/// Leases that servers have, in seconds: the range of `server_lease_seconds`.
pub(crate) const LEASE_SECONDS: RangeInclusive<u64> = 3..=3600;

/// The two objects of a server.
const FORMAT: DiskFormat = DiskFormat { name: "heartbeat", version: 1 };

/// A heartbeat as it is written.
#[derive(Serialize)]
struct Versioned<'a> {
    format: u32,
    #[serde(flatten)]
    heartbeat: &'a Heartbeat,
}

/// The version of a heartbeat.
#[derive(Deserialize)]
struct Version {
    format: Option<u32>,
}

/// A server as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Heartbeat {
    /// URL at which other servers and users reach it.
    pub(super) url: String,
    /// Its version.
    pub(super) version: String,
    /// When it was started, in milliseconds since 1970 by its own clock.
    pub(super) started: i64,
    /// Rises with each heartbeat.
    pub(super) beat: u64,
    /// Seconds without a heartbeat after which its nodes are taken over.
    pub(super) lease: u64,
    /// Digest of the keys of its nodes.
    pub(super) nodes: String,
    /// Whether its disk takes no more profiles.
    #[serde(default)]
    pub(super) full: bool,
}

/// A node as all servers know it that have it configured: cluster, name, kind and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeKey(pub(super) u64);

impl NodeKey {
    /// The key of a node; `None` for one that this server alone can capture: itself, those of a demo, processes of this
    /// machine, and what host agents send.
    pub(super) fn new(node: &Node, machine: &str) -> Option<NodeKey> {
        if node.past || node.demo || node.pushed_by.is_some() || !node.kind().is_over_http() {
            return None;
        }
        // The same loopback address is another process on another machine.
        let place = if is_loopback(&node.address) { machine } else { "" };
        let mut digest = Sha256::new();
        for part in [&node.cluster, node.name(), node.kind().name(), &node.address, place] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Some(NodeKey(number(&digest.finalize())))
    }
}

fn is_loopback(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for NodeKey {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<NodeKey, Self::Err> {
        u64::from_str_radix(text, 16).map(NodeKey)
    }
}

/// The first eight bytes of a digest.
fn number(digest: &[u8]) -> u64 {
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The text of the keys of nodes, and its digest.
pub(super) fn encode_nodes(nodes: &BTreeSet<NodeKey>) -> Result<(Vec<u8>, String)> {
    let keys: Vec<String> = nodes.iter().map(NodeKey::to_string).collect();
    let text = json(&keys)?;
    let digest = format!("{:016x}", number(&Sha256::digest(&text)));
    Ok((text, digest))
}

/// Writes the heartbeat of a server.
///
/// # Errors
/// The storage's.
pub(super) fn put_heartbeat(objects: &dyn Objects, server: Writer, heartbeat: &Heartbeat) -> Result<()> {
    let versioned = Versioned { format: FORMAT.version, heartbeat };
    Ok(objects.put(&path(server, HEARTBEAT), &json(&versioned)?)?)
}

/// Writes the keys of a server's nodes.
///
/// # Errors
/// The storage's.
pub(super) fn put_nodes(objects: &dyn Objects, server: Writer, text: &[u8]) -> Result<()> {
    Ok(objects.put(&path(server, NODES), text)?)
}

/// Removes what a server has said of itself.
///
/// # Errors
/// The storage's.
pub(super) fn remove(objects: &dyn Objects, server: Writer) -> Result<()> {
    objects.delete(&path(server, HEARTBEAT))?;
    Ok(objects.delete(&path(server, NODES))?)
}

/// The heartbeats of an archive; one that cannot be understood or is gone meanwhile is left out.
#[derive(Debug, Default)]
pub(super) struct Heartbeats {
    pub(super) found: Vec<(Writer, Heartbeat)>,
    /// Why the last one of a version that is not read, or with a lease that is none, is left out.
    pub(super) refused: Option<Error>,
}

/// Reads the heartbeats of an archive.
///
/// # Errors
/// When the objects cannot be listed.
pub(super) fn heartbeats(objects: &dyn Objects) -> Result<Heartbeats> {
    let mut all = Heartbeats::default();
    for object in objects.list(FOLDER)? {
        let Some(server) = object.path.strip_prefix("servers/").and_then(|rest| rest.strip_suffix("/heartbeat.json"))
        else {
            continue;
        };
        let Ok(server) = server.parse() else { continue };
        match read(objects, &object.path, HEARTBEAT_BYTES_MAX) {
            Ok(bytes) => match FORMAT.check(&object.path, format(&bytes)) {
                Ok(_) => match serde_json::from_slice::<Heartbeat>(&bytes) {
                    Ok(heartbeat) if LEASE_SECONDS.contains(&heartbeat.lease) => all.found.push((server, heartbeat)),
                    Ok(heartbeat) => {
                        let why = format!("{}: a lease of {} s is none of a server", object.path, heartbeat.lease);
                        all.refused = Some(Error::Setup { what: "servers", why });
                    }
                    Err(error) => tracing::debug!("{}: {error}", object.path),
                },
                Err(error) => all.refused = Some(error.into()),
            },
            Err(error) => tracing::debug!("{}: {}", object.path, crate::error::chain(&error)),
        }
    }
    Ok(all)
}

fn format(bytes: &[u8]) -> Option<u32> {
    serde_json::from_slice::<Version>(bytes).ok()?.format
}

/// The keys of a server's nodes, if they have this digest.
///
/// # Errors
/// When they cannot be read, or are others meanwhile.
pub(super) fn nodes(objects: &dyn Objects, server: Writer, digest: &str) -> Result<BTreeSet<NodeKey>> {
    let path = path(server, NODES);
    let wrong = |why: String| Error::Setup { what: "servers", why: format!("{path}: {why}") };
    let bytes = read(objects, &path, NODES_BYTES_MAX)?;
    let keys: Vec<String> = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let keys = keys.iter().map(|key| key.parse()).collect::<std::result::Result<BTreeSet<NodeKey>, _>>();
    let keys = keys.map_err(|error| wrong(error.to_string()))?;
    if encode_nodes(&keys)?.1 != digest {
        return Err(wrong("not those of the heartbeat".to_owned()));
    }
    Ok(keys)
}

fn read(objects: &dyn Objects, path: &str, most: u64) -> Result<Vec<u8>> {
    let size = objects.size(path)?;
    match usize::try_from(size) {
        Ok(length) if size <= most => Ok(objects.read(path, 0, length)?),
        _ => Err(Error::Setup { what: "servers", why: format!("{path}: {size} bytes, and at most {most} are read") }),
    }
}

fn path(server: Writer, name: &str) -> String {
    format!("{FOLDER}/{server}/{name}")
}

fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::Setup { what: "servers", why: error.to_string() })
}
