//! `[[fe_query]]` tables: the frontends of StarRocks clusters, which are queried in SQL for their nodes and run `ADMIN
//! EXECUTE` on them.

use std::fmt;
use std::path::PathBuf;

use super::Config;
use super::value::{ConfigEntry, ConfigFile, Value, boolean, count, text, texts};
use super::{NodeConfig, Tls, node};
use crate::error::{Error, Result};

/// Port of a frontend's MySQL protocol where an address names none.
const QUERY_PORT: u16 = 9030;
/// Addresses of one cluster.
const ADDRESSES_MAX: usize = 16;

/// One cluster's frontends and how they are queried.
#[derive(Clone, Debug, PartialEq)]
pub struct FeQuery {
    /// File and line where it is configured.
    pub place: String,
    /// The cluster; empty: the configuration's.
    pub cluster: String,
    /// Host and port of every frontend, in the order they are tried.
    pub addresses: Vec<(String, u16)>,
    /// StarRocks user.
    pub user: String,
    /// How it proves who it is.
    pub password: Password,
    /// Whether the connection is encrypted, and how the certificate is checked then.
    pub tls: Option<Tls>,
    /// Seconds between two looks at the cluster's nodes.
    pub refresh_seconds: u64,
    /// Longest time for the answer of one `ADMIN EXECUTE`, in seconds.
    pub seconds_max: u64,
    /// The settings of all its nodes: labels, schedule, TLS and the like.
    pub node: NodeConfig,
}

/// A password, never printed.
#[derive(Clone, Default, PartialEq)]
pub enum Password {
    /// None.
    #[default]
    None,
    /// As written in the configuration.
    Text(String),
    /// First line of a file, read at each connection.
    File(PathBuf),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Password::None => f.write_str("None"),
            Password::Text(_) => f.write_str("Text(***)"),
            Password::File(path) => write!(f, "File({path:?})"),
        }
    }
}

impl Default for FeQuery {
    fn default() -> FeQuery {
        FeQuery {
            place: String::new(),
            cluster: String::new(),
            addresses: Vec::new(),
            user: "root".to_owned(),
            password: Password::None,
            tls: None,
            refresh_seconds: 60,
            seconds_max: 600,
            node: node::of_backend(),
        }
    }
}

/// One row of the table.
pub struct FeKey {
    /// The key.
    pub name: &'static str,
    /// Its type in words.
    pub type_name: &'static str,
    /// The default as written; empty for none.
    pub default: &'static str,
    /// The description of the key.
    pub help: &'static str,
    set: fn(&mut FeQuery, &Value) -> std::result::Result<(), String>,
}

/// Every key of an `[[fe_query]]` table, in the order of the reference page; `node` is read apart.
pub const FE_KEYS: &[FeKey] = &[
    FeKey {
        name: "cluster",
        type_name: "text",
        default: "that of the top level",
        help: "The cluster these frontends belong to; its nodes get this name.",
        set: |f, v| text(v).map(|t| f.cluster = t),
    },
    FeKey {
        name: "address",
        type_name: "`\"HOST:PORT\"`, or a list of them",
        default: "",
        help: "The frontends, tried in this order; without a port, 9030.",
        set: |f, v| addresses(v).map(|addresses| f.addresses = addresses),
    },
    FeKey {
        name: "user",
        type_name: "text",
        default: "root",
        help: "StarRocks user: OPERATE on SYSTEM for `ADMIN EXECUTE`, cluster_admin or NODE for the lists of nodes.",
        set: |f, v| text(v).map(|t| f.user = t),
    },
    FeKey {
        name: "password",
        type_name: "text",
        default: "",
        help: "Its password; a file is preferable.",
        set: |f, v| text(v).map(|t| f.password = Password::Text(t)),
    },
    FeKey {
        name: "password_file",
        type_name: "path",
        default: "",
        help: "File whose first line is the password; read at each connection.",
        set: |f, v| text(v).map(|t| f.password = Password::File(PathBuf::from(t))),
    },
    FeKey {
        name: "tls",
        type_name: "`true`, `false`, or `{ ca_file = \"F\", insecure = false }`",
        default: "false",
        help: "Whether connections are encrypted. A frontend that offers no TLS is refused then. Without `ca_file`, \
               public authorities are trusted. A frontend's own certificate in `ca_file` must not be marked as an \
               authority's (`CA:TRUE`).",
        set: |f, v| tls(v).map(|tls| f.tls = tls),
    },
    FeKey {
        name: "refresh_seconds",
        type_name: "5 to 86400",
        default: "60",
        help: "Seconds between two queries of the cluster's list of nodes.",
        set: |f, v| count(v, 5, 86_400).map(|seconds| f.refresh_seconds = seconds),
    },
    FeKey {
        name: "seconds_max",
        type_name: "1 to 600",
        default: "600",
        help: "Time limit of a frontend's answer to one `ADMIN EXECUTE`; that of lists of nodes is 10 seconds.",
        set: |f, v| count(v, 1, 600).map(|seconds| f.seconds_max = seconds),
    },
];

/// The key that holds what all nodes have in common, for the reference page.
pub(super) const NODE_KEY: [&str; 4] = [
    "node",
    "table of keys of `[[node]]`",
    "",
    "Settings of all nodes of the cluster: `labels`, `schedule`, `auth`, `headers`, `tls`, `binary`, \
     `remote_symbols`, `pid_lookup`.",
];

/// Reads all `[[fe_query]]` tables of a file.
pub(crate) fn read_all(document: &ConfigFile) -> Result<Vec<FeQuery>> {
    let Some(entry) = document.entries().iter().find(|entry| entry.key == "fe_query") else { return Ok(Vec::new()) };
    let wrong = || document.wrong(entry, "expected [[fe_query]] tables".to_owned());
    let Value::List(tables) = &entry.value else { return Err(wrong()) };
    tables.iter().map(|table| read(document, entry, node::table(table).map_err(|_| wrong())?)).collect()
}

impl FeQuery {
    /// Its cluster, with the default applied.
    pub fn cluster<'a>(&'a self, config: &'a Config) -> &'a str {
        if self.cluster.is_empty() { &config.cluster } else { &self.cluster }
    }
}

/// Refuses two tables for one cluster.
pub(super) fn check(config: &Config) -> Result<()> {
    for (index, fe) in config.fe_queries.iter().enumerate() {
        let cluster = fe.cluster(config);
        if let Some(other) = config.fe_queries[..index].iter().find(|other| other.cluster(config) == cluster) {
            let why = format!(
                "cluster {cluster:?} has its frontends at {} already; list them all there as address",
                other.place
            );
            return Err(Error::WrongValue { place: fe.place.clone(), key: "fe_query".to_owned(), why });
        }
    }
    Ok(())
}

fn read(document: &ConfigFile, table: &ConfigEntry, entries: &[ConfigEntry]) -> Result<FeQuery> {
    let mut fe = FeQuery::default();
    for entry in entries {
        if entry.key == "node" {
            fe.node = node::template(document, entry)?;
            continue;
        }
        let Some(key) = FE_KEYS.iter().find(|key| key.name == entry.key) else {
            return Err(document.unknown_in("fe_query", entry, FE_KEYS.iter().map(|key| key.name).chain(["node"])));
        };
        (key.set)(&mut fe, &entry.value).map_err(|why| document.wrong(entry, why))?;
    }
    let place = entries.first().unwrap_or(table);
    if fe.addresses.is_empty() {
        return Err(document.wrong(place, "the frontends have no address: give address = \"HOST:9030\"".to_owned()));
    }
    let has = |name: &str| entries.iter().any(|entry| entry.key == name);
    if has("password") && has("password_file") {
        return Err(document.wrong(place, "give password or password_file, not both".to_owned()));
    }
    fe.place = document.place(place);
    Ok(fe)
}

fn addresses(value: &Value) -> std::result::Result<Vec<(String, u16)>, String> {
    let written = texts(value)?;
    if written.len() > ADDRESSES_MAX {
        return Err(format!("at most {ADDRESSES_MAX} addresses"));
    }
    written.iter().map(|address| host_and_port(address)).collect()
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_and_port(address: &str) -> std::result::Result<(String, u16), String> {
    let wrong = || format!("{address:?} is no address; expected HOST:PORT");
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(wrong)?,
        None => address.split_at(address.rfind(':').unwrap_or(address.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
        None if port.is_empty() => QUERY_PORT,
        None => return Err(wrong()),
    };
    match is_host(host) {
        true => Ok((host.to_owned(), port)),
        false => Err(wrong()),
    }
}

/// Whether a text is a host name or an address and nothing else.
pub fn is_host(host: &str) -> bool {
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_name = !host.is_empty() && host.len() <= 253 && host.bytes().all(named);
    is_name || host.parse::<std::net::Ipv6Addr>().is_ok()
}

fn tls(value: &Value) -> std::result::Result<Option<Tls>, String> {
    match value {
        Value::Table(_) => node::tls(value).map(Some),
        _ => Ok(boolean(value)?.then(Tls::default)),
    }
}
