//! `[[node]]` tables: one row per key, and the defaults that follow from a node's kind.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use procprof_collect::ProfileUrl;
use procprof_profile::{ParseProfileTypeError, ProfileType};

use super::value::{ConfigEntry, ConfigFile, Value, boolean, count, text, texts};
use super::{is_host, schedule};
use crate::error::Result;
use crate::kinds::{
    Auth, Kind, NodeConfig, NodeOption, OptionType, OptionValue, PidLookup, Role, Tls, has_port, host_port,
};

/// One row of the table.
pub struct NodeKey {
    /// The key.
    pub name: &'static str,
    /// Its type in words.
    pub type_name: Words,
    /// The default as written; empty for none.
    pub default: Words,
    /// The description of the key.
    pub help: &'static str,
    set: fn(&mut NodeConfig, &Value) -> std::result::Result<(), String>,
}

/// Words of the reference page.
#[derive(Clone, Copy)]
pub enum Words {
    /// A constant text.
    Fixed(&'static str),
    /// Generated from a table.
    Made(fn() -> String),
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Words::Fixed(words) => f.write_str(words),
            Words::Made(make) => f.write_str(&make()),
        }
    }
}

use Words::{Fixed, Made};

/// Every key of a `[[node]]` table, in the order of the reference page.
pub const NODE_KEYS: &[NodeKey] = &[
    NodeKey {
        name: "name",
        type_name: Fixed("text"),
        default: Fixed("ROLE HOST:PORT"),
        help: "Unique name, shown on the tab.",
        set: |n, v| text(v).map(|t| n.name = t),
    },
    NodeKey {
        name: "kind",
        type_name: Made(|| code_list(documented().map(Kind::name))),
        default: Fixed("pprof"),
        help: "How its profiles are collected.",
        set: |n, v| closed(v).map(|kind| n.kind = kind),
    },
    NodeKey {
        name: "role",
        type_name: Made(|| code_list(Role::configurable().map(Role::name))),
        default: Made(default_roles),
        help: "The tab's label.",
        set: |n, v| closed(v).map(|role| n.role = role),
    },
    NodeKey {
        name: "id",
        type_name: Fixed("1000 to 2^53"),
        default: Fixed("numbered from 20001, kept for ever"),
        help: "The id the cluster gives it (StarRocks' BackendId).",
        set: |n, v| count(v, 1000, 1 << 53).map(|id| n.id = Some(id)),
    },
    NodeKey {
        name: "http",
        type_name: Fixed("`host:port` or URL"),
        default: Fixed(""),
        help: "Its HTTP endpoint.",
        set: |n, v| address(v).map(|t| n.http = t),
    },
    NodeKey {
        name: "brpc",
        type_name: Fixed("`host:port` or URL"),
        default: Fixed(""),
        help: "Its brpc endpoint (StarRocks backends: CPU and contention).",
        set: |n, v| address(v).map(|t| n.brpc = t),
    },
    NodeKey {
        name: "urls",
        type_name: Fixed("table type = URL"),
        default: Fixed(""),
        help: "Addresses by profile type, for kind `pprof`, instead of the usual paths below `http`; `seconds` is \
               added for what has a length.",
        set: |n, v| url_table(v).map(|urls| n.urls = urls),
    },
    NodeKey {
        name: "cluster",
        type_name: Fixed("text"),
        default: Fixed("the top level's"),
        help: "Cluster it belongs to.",
        set: |n, v| text(v).map(|t| n.cluster = t),
    },
    NodeKey {
        name: "labels",
        type_name: Fixed("table of texts"),
        default: Fixed(""),
        help: "Stored with every profile; lists can be filtered by them.",
        set: |n, v| text_table(v).map(|labels| n.labels = labels.into_iter().collect()),
    },
    NodeKey {
        name: "auth",
        type_name: Fixed("`{ basic = \"user\", password_file = \"F\" }` or `{ bearer_file = \"F\" }`"),
        default: Fixed(""),
        help: "How the server authenticates itself to the node; secrets are read from files.",
        set: |n, v| auth(v).map(|auth| n.auth = auth),
    },
    NodeKey {
        name: "headers",
        type_name: Fixed("table of texts"),
        default: Fixed(""),
        help: "Additional request headers.",
        set: |n, v| text_table(v).map(|headers| n.headers = headers),
    },
    NodeKey {
        name: "tls",
        type_name: Fixed("`{ ca_file = \"F\", insecure = false }`"),
        default: Fixed("the system's authorities"),
        help: "How the node's certificate is checked: `ca_file` (PEM) holds the only authorities to trust, or the \
               node's own certificate, self-signed or not.",
        set: |n, v| tls(v).map(|tls| n.tls = tls),
    },
    NodeKey {
        name: "schedule",
        type_name: Fixed("table type = `{ on, seconds, every }`"),
        default: Fixed("by kind, see below"),
        help: "Which types are collected, how long and how often.",
        set: |n, v| schedule::read(v).map(|schedule| n.schedule = schedule),
    },
    NodeKey {
        name: "binary",
        type_name: Fixed("path"),
        default: Fixed(""),
        help: "Binary to read symbols from; they are marked as unverified.",
        set: |n, v| text(v).map(|t| n.binary = Some(PathBuf::from(t))),
    },
    NodeKey {
        name: "remote_symbols",
        type_name: Fixed("boolean"),
        default: Fixed("false"),
        help: "Whether the node's `/pprof/symbol` is queried for names; older StarRocks backends have crashed on it.",
        set: |n, v| boolean(v).map(|truth| n.remote_symbols = truth),
    },
    NodeKey {
        name: "pid_lookup",
        type_name: Fixed("`\"port\"`, `\"off\"`, a process id, or the path of a pid file"),
        default: Fixed("port"),
        help: "How the process is found when it runs on this host.",
        set: |n, v| pid_lookup(v).map(|lookup| n.pid_lookup = lookup),
    },
];

/// Reads all `[[node]]` tables of a file.
pub(crate) fn read_all(document: &ConfigFile) -> Result<Vec<NodeConfig>> {
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

/// Keys that identify a node: a table for all nodes of a cluster has none of them.
const OWN_KEYS: [&str; 8] = ["name", "kind", "role", "id", "http", "brpc", "urls", "cluster"];

/// Keys without a meaning for a node that is not reached over HTTP.
const HTTP_KEYS: [&str; 7] = ["http", "brpc", "urls", "auth", "headers", "tls", "remote_symbols"];

/// The default roles, as the reference page has them.
fn default_roles() -> String {
    let special = documented().filter(|kind| kind.default_role != Role::default());
    let special: String = special.map(|kind| format!("{} for `{kind}`, ", kind.default_role)).collect();
    format!("{special}else {}", Role::default())
}

/// The kinds of the reference page that a table may name.
fn documented() -> impl Iterator<Item = Kind> {
    Kind::documented().filter(|kind| kind.is_configurable)
}

fn code_list(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The settings of any backend of a cluster.
pub(super) fn of_backend() -> NodeConfig {
    let kind = Kind::STARROCKS_BE;
    NodeConfig { kind, role: kind.default_role, ..NodeConfig::default() }
}

/// Reads a table of what the backends of a cluster have in common.
pub(super) fn template(document: &ConfigFile, table: &ConfigEntry) -> Result<NodeConfig> {
    let Value::Table(entries) = &table.value else { return Err(document.wrong(table, "expected a table".to_owned())) };
    let mut node = of_backend();
    set_all(document, &mut node, entries, &OWN_KEYS)?;
    if let Some(entry) = entries.iter().find(|entry| entry.key == "schedule") {
        schedule::check(document, entry, &mut node)?;
    }
    node.place = document.place(table);
    Ok(node)
}

fn set_all(document: &ConfigFile, node: &mut NodeConfig, entries: &[ConfigEntry], but: &[&str]) -> Result<()> {
    let options = node.kind.options;
    let known = || NODE_KEYS.iter().filter(|key| !but.contains(&key.name));
    for entry in entries {
        if let Some(key) = known().find(|key| key.name == entry.key) {
            (key.set)(node, &entry.value).map_err(|why| document.wrong(entry, why))?;
        } else if let Some(option) = options.iter().find(|option| option.name == entry.key) {
            let value = option_value(option, &entry.value).map_err(|why| document.wrong(entry, why))?;
            node.options.insert(option.name, value);
        } else {
            let known = known().map(|key| key.name).chain(options.iter().map(|option| option.name));
            return Err(document.unknown_in("node", entry, known));
        }
    }
    Ok(())
}

fn option_value(option: &NodeOption, value: &Value) -> std::result::Result<OptionValue, String> {
    Ok(match option.option_type {
        OptionType::Boolean => OptionValue::Boolean(boolean(value)?),
        OptionType::Count(low, high) => OptionValue::Count(count(value, low, high)?),
        OptionType::Text => OptionValue::Text(text(value)?),
        OptionType::OneOf(words) => {
            let word = text(value)?;
            if !words.contains(&word.as_str()) {
                return Err(format!("{word:?}: expected one of {}", words.join(", ")));
            }
            OptionValue::Text(word)
        }
    })
}

fn read(document: &ConfigFile, table: &ConfigEntry, entries: &[ConfigEntry]) -> Result<NodeConfig> {
    let mut node = NodeConfig::default();
    let find = |name: &str| entries.iter().find(|entry| entry.key == name);
    // The kind determines which other keys there are.
    if let Some(entry) = find("kind") {
        node.kind = closed(&entry.value).map_err(|why| document.wrong(entry, why))?;
    }
    node.role = node.kind.default_role;
    set_all(document, &mut node, entries, &[])?;
    let place = entries.first().unwrap_or(table);
    if let Some(entry) = HTTP_KEYS.iter().find_map(|name| find(name)).filter(|_| !node.kind.is_over_http()) {
        return Err(document.wrong(entry, format!("a node of kind {} is not reached over HTTP", node.kind)));
    }
    (node.kind.check)(&node).map_err(|why| document.wrong(place, why))?;
    let may_lack_port = node.kind.has_usual_port() || node.http.contains("://");
    if let Some(entry) = find("http").filter(|_| !may_lack_port && !has_port(&node.http)) {
        return Err(document.wrong(entry, format!("{:?} has no port: give host:port", node.http)));
    }
    if let Some(entry) = find("schedule") {
        schedule::check(document, entry, &mut node)?;
    }
    node.place = document.place(place);
    if node.name.is_empty() {
        node.name = format!("{} {}", node.role, node.address());
    }
    if node.name.len() > 200 || !crate::is_plain(&node.name) {
        return Err(document.wrong(place, "a name has at most 200 bytes and no control characters".to_owned()));
    }
    Ok(node)
}

fn closed<T: FromStr<Err = String>>(value: &Value) -> std::result::Result<T, String> {
    text(value)?.parse()
}

/// An address to dial: `host:port`, or a URL, perhaps with a path before those of the profiles.
fn address(value: &Value) -> std::result::Result<String, String> {
    let address = url(value)?;
    let path = address.split_once("://").map_or(&*address, |(_, rest)| rest).split_once('/');
    match path {
        Some((_, path)) if !address.contains("://") && !path.is_empty() => {
            Err("a path needs http:// or https:// before its host; whole addresses of profiles belong to urls"
                .to_owned())
        }
        Some((_, path)) if path.split('/').any(|part| part == "pprof") => {
            Err("the paths of profiles are added to it: give host:port; whole addresses of profiles belong to urls"
                .to_owned())
        }
        _ => Ok(address),
    }
}

/// A URL whose scheme may be left out.
fn url(value: &Value) -> std::result::Result<String, String> {
    let address = text(value)?;
    let known_scheme = match address.split_once("://") {
        Some((scheme, _)) => scheme == "http" || scheme == "https",
        None => true,
    };
    if !known_scheme || host_port(&address).is_empty() {
        return Err("expected host:port, http://host:port or https://host:port".to_owned());
    }
    let host = address.parse::<ProfileUrl>().map_err(|error| error.to_string())?.base().host().to_owned();
    if host.contains(['$', '{']) {
        return Err(format!("{host:?} is no host: variables of the environment are not replaced here"));
    }
    if !is_host(&host) {
        return Err(format!("{host:?} is no host"));
    }
    Ok(address)
}

pub(super) fn table(value: &Value) -> std::result::Result<&[ConfigEntry], String> {
    match value {
        Value::Table(entries) => Ok(entries),
        other => Err(format!("expected a table, got {}", other.kind())),
    }
}

fn text_table(value: &Value) -> std::result::Result<Vec<(String, String)>, String> {
    table(value)?.iter().map(|entry| Ok((entry.key.clone(), text(&entry.value)?))).collect()
}

fn url_table(value: &Value) -> std::result::Result<BTreeMap<ProfileType, String>, String> {
    table(value)?.iter().map(|entry| Ok((profile_type(&entry.key)?, url(&entry.value)?))).collect()
}

pub(super) fn profile_type(name: &str) -> std::result::Result<ProfileType, String> {
    name.parse().map_err(|error: ParseProfileTypeError| error.to_string())
}

fn auth(value: &Value) -> std::result::Result<Auth, String> {
    let entries = text_table(value)?;
    let get = |name: &str| entries.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    if let Some((key, _)) =
        entries.iter().find(|(key, _)| !["basic", "password_file", "bearer_file"].contains(&key.as_str()))
    {
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
