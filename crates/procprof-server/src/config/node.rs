//! `[[node]]` tables: one row per key, and the defaults that follow from a node's kind.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use procprof_profile::{ParseProfileTypeError, ProfileType};

use super::keys::{boolean, count, text, texts};
use super::schedule;
use super::value::{Document, Entry, Value};
use crate::error::Result;
use crate::nodes::{Kind, Role};

/// One configured node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeConfig {
    /// File and line where it is configured; empty for what no file gave.
    pub place: String,
    /// Id the cluster gives it (StarRocks); `None`: the server numbers it.
    pub id: Option<u64>,
    /// Unique name; empty until the defaults are applied, then `role host:port`.
    pub name: String,
    /// How it is collected.
    pub kind: Kind,
    /// The tab's label.
    pub role: Role,
    /// `host:port` or URL of its HTTP endpoint; empty if it has none.
    pub http: String,
    /// `host:port` or URL of its brpc endpoint; empty if it has none.
    pub brpc: String,
    /// URL by profile type, for kind `pprof`.
    pub urls: BTreeMap<ProfileType, String>,
    /// Cluster; empty: the configuration's.
    pub cluster: String,
    /// Labels kept with every profile.
    pub labels: BTreeMap<String, String>,
    /// How we say who we are.
    pub auth: Auth,
    /// Further request headers.
    pub headers: Vec<(String, String)>,
    /// How HTTPS is checked.
    pub tls: Tls,
    /// Changes to the kind's schedule, by type.
    pub schedule: BTreeMap<ProfileType, ScheduleRow>,
    /// The binary to read symbols from when the process cannot be looked at; its symbols are marked unverified.
    pub binary: Option<PathBuf>,
    /// Whether the node's own symbol page is asked.
    pub remote_symbols: bool,
    /// How the process is found on this host.
    pub pid_lookup: PidLookup,
}

/// How the server authenticates itself to a node. Secrets are read from files when needed, never kept in the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// HTTP Basic with a password from a file.
    Basic {
        /// The user's name.
        user: String,
        /// File whose first line is the password.
        password_file: PathBuf,
    },
    /// A bearer token from a file.
    Bearer {
        /// File whose first line is the token.
        token_file: PathBuf,
    },
}

/// How a node's certificate is checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tls {
    /// PEM file of the authorities trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether any certificate is taken.
    pub insecure: bool,
}

/// What a `schedule.TYPE` table says; `None` keeps the kind's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleRow {
    /// Whether the type is collected on schedule.
    pub on: Option<bool>,
    /// Length of a capture; 0 for what is taken at a moment.
    pub seconds: Option<u64>,
    /// Seconds from one start to the next.
    pub every: Option<u64>,
    /// File and line where it stands.
    pub place: String,
}

/// How the process behind a node is found, for symbols from `/proc`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PidLookup {
    /// The process that listens on the node's port, if the address is this host's loopback.
    #[default]
    Port,
    /// A given process id.
    Pid(u32),
    /// A file that holds the process id.
    File(PathBuf),
    /// Not looked for.
    Off,
}

/// One row of the table.
pub struct NodeKey {
    /// The key.
    pub name: &'static str,
    /// Its type in words.
    pub type_name: &'static str,
    /// The default as written; empty for none.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    set: fn(&mut NodeConfig, &Value) -> std::result::Result<(), String>,
}

/// Every key of a `[[node]]` table, in the order of the reference page.
pub const NODE_KEYS: &[NodeKey] = &[
    NodeKey {
        name: "name",
        type_name: "text",
        default: "ROLE HOST:PORT",
        help: "Unique name, shown on the tab.",
        set: |n, v| text(v).map(|t| n.name = t),
    },
    NodeKey {
        name: "kind",
        type_name: "`starrocks-be`, `databend`, `go`, `pprof`, `procprof`",
        default: "pprof",
        help: "How it is collected.",
        set: |n, v| closed(v).map(|kind| n.kind = kind),
    },
    NodeKey {
        name: "role",
        type_name: "`FE`, `BE`, `CN`, `service`",
        default: "BE for `starrocks-be`, else service",
        help: "The tab's label.",
        set: |n, v| closed(v).map(|role| n.role = role),
    },
    NodeKey {
        name: "id",
        type_name: "1000 to 2^53",
        default: "numbered from 20001, kept for ever",
        help: "The id the cluster gives it (StarRocks' BackendId).",
        set: |n, v| count(v, 1000, 1 << 53).map(|id| n.id = Some(id)),
    },
    NodeKey {
        name: "http",
        type_name: "`host:port` or URL",
        default: "",
        help: "Its HTTP endpoint.",
        set: |n, v| address(v).map(|t| n.http = t),
    },
    NodeKey {
        name: "brpc",
        type_name: "`host:port` or URL",
        default: "",
        help: "Its brpc endpoint (StarRocks backends: CPU and contention).",
        set: |n, v| address(v).map(|t| n.brpc = t),
    },
    NodeKey {
        name: "urls",
        type_name: "table type = URL",
        default: "",
        help: "Addresses by profile type, for kind `pprof`, instead of the usual paths below `http`; `seconds` is added for what has a length.",
        set: |n, v| url_table(v).map(|urls| n.urls = urls),
    },
    NodeKey {
        name: "cluster",
        type_name: "text",
        default: "the top level's",
        help: "Cluster it belongs to.",
        set: |n, v| text(v).map(|t| n.cluster = t),
    },
    NodeKey {
        name: "labels",
        type_name: "table of texts",
        default: "",
        help: "Kept with every profile; lists can be filtered by them.",
        set: |n, v| text_table(v).map(|labels| n.labels = labels.into_iter().collect()),
    },
    NodeKey {
        name: "auth",
        type_name: "`{ basic = \"user\", password_file = \"F\" }` or `{ bearer_file = \"F\" }`",
        default: "",
        help: "How the server authenticates itself to the node; secrets stand in files.",
        set: |n, v| auth(v).map(|auth| n.auth = auth),
    },
    NodeKey {
        name: "headers",
        type_name: "table of texts",
        default: "",
        help: "Further request headers.",
        set: |n, v| text_table(v).map(|headers| n.headers = headers),
    },
    NodeKey {
        name: "tls",
        type_name: "`{ ca_file = \"F\", insecure = false }`",
        default: "the system's authorities",
        help: "How the node's certificate is checked.",
        set: |n, v| tls(v).map(|tls| n.tls = tls),
    },
    NodeKey {
        name: "schedule",
        type_name: "table type = `{ on, seconds, every }`",
        default: "by kind, see below",
        help: "What is collected when.",
        set: |n, v| schedule::read(v).map(|schedule| n.schedule = schedule),
    },
    NodeKey {
        name: "binary",
        type_name: "path",
        default: "",
        help: "Binary to read symbols from; they are marked unverified.",
        set: |n, v| text(v).map(|t| n.binary = Some(PathBuf::from(t))),
    },
    NodeKey {
        name: "remote_symbols",
        type_name: "boolean",
        default: "false",
        help: "Whether the node's `/pprof/symbol` is asked; older StarRocks backends have crashed on it.",
        set: |n, v| boolean(v).map(|truth| n.remote_symbols = truth),
    },
    NodeKey {
        name: "pid_lookup",
        type_name: "`\"port\"`, `\"off\"`, a process id, or the path of a pid file",
        default: "port",
        help: "How the process is found when it runs on this host.",
        set: |n, v| pid_lookup(v).map(|lookup| n.pid_lookup = lookup),
    },
];

/// Reads all `[[node]]` tables of a file.
pub(crate) fn read_all(document: &Document) -> Result<Vec<NodeConfig>> {
    let Some(entry) = document.entries().iter().find(|entry| entry.key == "node") else { return Ok(Vec::new()) };
    let wrong = || document.wrong(entry, "expected [[node]] tables".to_owned());
    let Value::List(tables) = &entry.value else { return Err(wrong()) };
    tables
        .iter()
        .map(|table| match table {
            Value::Table(entries) => read(document, entry, entries),
            _ => Err(wrong()),
        })
        .collect()
}

/// Keys that say which node it is: a table for all nodes of a cluster has none of them.
const OWN_KEYS: [&str; 8] = ["name", "kind", "role", "id", "http", "brpc", "urls", "cluster"];

/// What is known of any backend of a cluster.
pub(super) fn of_backend() -> NodeConfig {
    NodeConfig { kind: Kind::StarrocksBe, role: Role::Be, ..NodeConfig::default() }
}

/// Reads a table of what the backends of a cluster have in common.
pub(super) fn template(document: &Document, table: &Entry) -> Result<NodeConfig> {
    let Value::Table(entries) = &table.value else { return Err(document.wrong(table, "expected a table".to_owned())) };
    let mut node = of_backend();
    set_all(document, &mut node, entries, &OWN_KEYS)?;
    if let Some(entry) = entries.iter().find(|entry| entry.key == "schedule") {
        schedule::check(document, entry, &mut node)?;
    }
    node.place = document.place(table);
    Ok(node)
}

fn set_all(document: &Document, node: &mut NodeConfig, entries: &[Entry], but: &[&str]) -> Result<()> {
    for entry in entries {
        let known = || NODE_KEYS.iter().filter(|key| !but.contains(&key.name));
        let Some(key) = known().find(|key| key.name == entry.key) else {
            return Err(document.unknown(entry, known().map(|key| key.name)));
        };
        (key.set)(node, &entry.value).map_err(|why| document.wrong(entry, why))?;
    }
    Ok(())
}

fn read(document: &Document, table: &Entry, entries: &[Entry]) -> Result<NodeConfig> {
    let mut node = NodeConfig::default();
    set_all(document, &mut node, entries, &[])?;
    let place = entries.first().unwrap_or(table);
    if entries.iter().all(|entry| entry.key != "role") && node.kind == Kind::StarrocksBe {
        node.role = Role::Be;
    }
    if node.http.is_empty() && node.brpc.is_empty() && node.urls.is_empty() {
        return Err(document.wrong(place, "the node has no address: give http, brpc or urls".to_owned()));
    }
    if node.kind == Kind::Pprof && node.http.is_empty() && node.urls.is_empty() {
        return Err(document.wrong(place, "a node of kind pprof needs http, or urls by profile type".to_owned()));
    }
    if let Some(entry) = entries.iter().find(|entry| entry.key == "schedule") {
        schedule::check(document, entry, &mut node)?;
    }
    node.place = document.place(place);
    if node.name.is_empty() {
        node.name = format!("{} {}", node.role, node.address());
    }
    if node.name.len() > 200 || node.name.chars().any(char::is_control) {
        return Err(document.wrong(place, "a name has at most 200 bytes and no control characters".to_owned()));
    }
    Ok(node)
}

impl NodeConfig {
    /// The address shown: `host:port` of the HTTP endpoint, else of brpc, else of the first URL.
    pub fn address(&self) -> String {
        let first = [&self.http, &self.brpc].into_iter().chain(self.urls.values()).find(|address| !address.is_empty());
        first.map(|address| host_port(address)).unwrap_or_default()
    }
}

/// The `host:port` part of an address or URL.
fn host_port(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
}

fn closed<T: FromStr<Err = String>>(value: &Value) -> std::result::Result<T, String> {
    text(value)?.parse()
}

fn address(value: &Value) -> std::result::Result<String, String> {
    let address = text(value)?;
    let known_scheme = match address.split_once("://") {
        Some((scheme, _)) => scheme == "http" || scheme == "https",
        None => true,
    };
    let host = host_port(&address);
    if !known_scheme || host.is_empty() || host.contains(char::is_whitespace) {
        return Err("expected host:port, http://host:port or https://host:port".to_owned());
    }
    Ok(address)
}

pub(super) fn table(value: &Value) -> std::result::Result<&[Entry], String> {
    match value {
        Value::Table(entries) => Ok(entries),
        other => Err(format!("expected a table, got {}", other.kind())),
    }
}

fn text_table(value: &Value) -> std::result::Result<Vec<(String, String)>, String> {
    table(value)?.iter().map(|entry| Ok((entry.key.clone(), text(&entry.value)?))).collect()
}

fn url_table(value: &Value) -> std::result::Result<BTreeMap<ProfileType, String>, String> {
    table(value)?.iter().map(|entry| Ok((profile_type(&entry.key)?, address(&entry.value)?))).collect()
}

pub(super) fn profile_type(name: &str) -> std::result::Result<ProfileType, String> {
    name.parse().map_err(|error: ParseProfileTypeError| error.to_string())
}

fn auth(value: &Value) -> std::result::Result<Auth, String> {
    let entries = text_table(value)?;
    let get = |name: &str| entries.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    if let Some((key, _)) = entries.iter().find(|(key, _)| !["basic", "password_file", "bearer_file"].contains(&key.as_str())) {
        return Err(format!("unknown key {key:?}; known are basic, password_file, bearer_file"));
    }
    match (get("basic"), get("password_file"), get("bearer_file")) {
        (Some(user), Some(file), None) => Ok(Auth::Basic { user, password_file: PathBuf::from(file) }),
        (None, None, Some(file)) => Ok(Auth::Bearer { token_file: PathBuf::from(file) }),
        _ => Err("give basic with password_file, or bearer_file".to_owned()),
    }
}

pub(super) fn tls(value: &Value) -> std::result::Result<Tls, String> {
    let mut tls = Tls::default();
    for entry in table(value)? {
        match entry.key.as_str() {
            "ca_file" => tls.ca_file = Some(PathBuf::from(text(&entry.value)?)),
            "insecure" => tls.insecure = boolean(&entry.value)?,
            other => return Err(format!("unknown key {other:?}; known are ca_file, insecure")),
        }
    }
    Ok(tls)
}

fn pid_lookup(value: &Value) -> std::result::Result<PidLookup, String> {
    if let Value::Integer(_) = value {
        return count(value, 1, 1 << 22).map(|pid| PidLookup::Pid(pid as u32));
    }
    match texts(value)?.first().map(String::as_str) {
        Some("port") => Ok(PidLookup::Port),
        Some("off") => Ok(PidLookup::Off),
        Some(path) if path.contains('/') => Ok(PidLookup::File(PathBuf::from(path))),
        _ => Err("expected \"port\", \"off\", a process id, or the path of a pid file".to_owned()),
    }
}
