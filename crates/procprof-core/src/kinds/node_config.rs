//! The configuration of a node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use procprof_profile::ProfileType;

use super::{Kind, OptionValue, Role};

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
    /// The server's credentials for the node.
    pub auth: Auth,
    /// Further request headers.
    pub headers: Vec<(String, String)>,
    /// How certificates are verified.
    pub tls: Tls,
    /// Changes to the kind's schedule, by type.
    pub schedule: BTreeMap<ProfileType, ScheduleRow>,
    /// The binary to read symbols from when the process cannot be looked at; its symbols are marked unverified.
    pub binary: Option<PathBuf>,
    /// Whether the node's own symbol page is queried.
    pub remote_symbols: bool,
    /// How the process is found on this host.
    pub pid_lookup: PidLookup,
    /// The keys of its kind alone.
    pub options: BTreeMap<&'static str, OptionValue>,
}

/// How the server authenticates itself to a node. Secrets are read from files when needed, never kept in the
/// configuration.
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

/// A `schedule.TYPE` table; `None` keeps the kind's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleRow {
    /// Whether the type is collected on schedule.
    pub on: Option<bool>,
    /// Length of a capture; 0 for what is taken at a moment.
    pub seconds: Option<u64>,
    /// Seconds from one start to the next.
    pub every: Option<u64>,
    /// File and line of the table.
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

impl NodeConfig {
    /// The address shown.
    pub fn address(&self) -> String {
        (self.kind.address)(self)
    }

    /// `host:port` of the HTTP endpoint, else of brpc, else of the first URL.
    pub(super) fn http_address(&self) -> String {
        let first = [&self.http, &self.brpc].into_iter().chain(self.urls.values()).find(|address| !address.is_empty());
        first.map(|address| host_port(address)).unwrap_or_default()
    }
}

/// The `host:port` part of an address or URL.
pub(crate) fn host_port(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
}

/// Whether an address or URL says its port.
pub(crate) fn has_port(address: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    host_port(address).rsplit_once(':').is_some_and(|(_, port)| is_port(port))
}
