//! The table of top-level keys: one row each, from which the parser, the help and the reference page come.

use std::path::PathBuf;

use super::Config;
use super::network::Network;
use super::value::{Value, boolean, byte_count, count, text, texts};

/// The place of a key's value, and thereby its type.
#[derive(Clone, Copy)]
pub enum Slot {
    /// `true` or `false`.
    Bool(fn(&mut Config) -> &mut bool),
    /// A whole number in the given range.
    Count(fn(&mut Config) -> &mut u64, u64, u64),
    /// Bytes: a number, or text such as `"2 GiB"`.
    Bytes(fn(&mut Config) -> &mut u64),
    /// Text.
    Text(fn(&mut Config) -> &mut String),
    /// A list of texts; one text with commas where lists cannot be written.
    Texts(fn(&mut Config) -> &mut Vec<String>),
    /// A list of addresses and networks, written as texts.
    Networks(fn(&mut Config) -> &mut Vec<Network>),
    /// A folder or file that has a default.
    Path(fn(&mut Config) -> &mut PathBuf),
    /// A folder, or the URL of a bucket; empty for none.
    Place(fn(&mut Config) -> &mut String),
    /// A folder or file that may be absent.
    OptionalPath(fn(&mut Config) -> &mut Option<PathBuf>),
    /// Accepted and ignored, with a warning.
    Ignored,
}

/// One row.
#[derive(Clone, Copy)]
pub struct Key {
    /// The name in the file and behind `--set`.
    pub name: &'static str,
    /// Type and place.
    pub slot: Slot,
    /// The default as it would be written; empty for none.
    pub default: &'static str,
    /// Unit of the value; empty where there is none.
    pub unit: &'static str,
    /// The description of the key, one line.
    pub help: &'static str,
    /// Whether a reload (SIGHUP) changes it; otherwise a restart is needed.
    pub reload: bool,
    /// Whether StarRocks' `fe.conf` / `be.conf` may give it under the same name.
    pub starrocks: bool,
}

const fn row(name: &'static str, slot: Slot, default: &'static str, unit: &'static str, help: &'static str) -> Key {
    Key { name, slot, default, unit, help, reload: true, starrocks: false }
}

/// A key that takes effect only at a start.
const fn fixed(mut key: Key) -> Key {
    key.reload = false;
    key
}

/// A key that StarRocks' own files may give.
const fn seed(mut key: Key) -> Key {
    key.starrocks = true;
    key
}

use Slot::{Bool, Bytes, Count, Ignored, Networks, OptionalPath, Path, Place, Text, Texts};

/// Every top-level key, in the order of the reference page.
pub const KEYS: &[Key] = &[
    fixed(row("http", Text(|c| &mut c.http), "127.0.0.1:8030", "", "Address of the HTTP server, `host:port`.")),
    fixed(row(
        "mysql",
        Text(|c| &mut c.mysql),
        "127.0.0.1:9030",
        "",
        "Address of the SQL server (MySQL protocol), `host:port`; empty for none.",
    )),
    fixed(row(
        "mysql_connections_max",
        Count(|c| &mut c.mysql_connections_max, 1, 65_536),
        "256",
        "connections",
        "SQL connections that are logged in at a time; one more is refused. A user has a quarter of them, and a quarter \
         is kept for operators. Another 256 may be logging in; for one more, a silent one is closed.",
    )),
    fixed(row(
        "mysql_idle_seconds_max",
        Count(|c| &mut c.mysql_idle_seconds_max, 1, 31_536_000),
        "28800",
        "seconds",
        "Time without a statement after which a SQL connection is closed.",
    )),
    row(
        "sql_seconds_max",
        Count(|c| &mut c.sql_seconds_max, 1, 86_400),
        "60",
        "seconds",
        "Longest time that a SELECT may take; then it is cancelled.",
    ),
    row(
        "sql_rows_max",
        Count(|c| &mut c.sql_rows_max, 1, 1_000_000_000),
        "1000000",
        "rows",
        "Most rows that a SELECT may return; one with more ends in an error.",
    ),
    row(
        "sql_link_base",
        Text(|c| &mut c.sql_link_base),
        "",
        "",
        "URL at which users reach these pages, such as `https://procprof.example`. If set, a graph in DOT that SQL \
         returns ends in a comment with a link to the drawn graph.",
    ),
    fixed(row(
        "data",
        Path(|c| &mut c.data),
        "procprof-data",
        "",
        "Folder of profiles, journal and catalog; one server at a time. `cache` in it may be deleted: it has rendered \
         reports, and up to 1 GiB of symbols read from binaries.",
    )),
    fixed(row(
        "archive",
        Place(|c| &mut c.archive),
        "archive",
        "",
        "Folder of the archive (Parquet), below `data` unless it is an absolute path, or `s3://bucket/prefix`, \
         `gs://…` or `az://…` with credentials from the environment; empty for none. Each hour is archived five \
         minutes after its end.",
    )),
    row(
        "archive_days_max",
        Count(|c| &mut c.archive_days_max, 0, 36_500),
        "90",
        "days",
        "Days that the archive keeps, without today (UTC); 0 for no limit. Older profiles are dropped once a day, and \
         not archived.",
    ),
    row(
        "archive_bytes_max",
        Bytes(|c| &mut c.archive_bytes_max),
        "0",
        "bytes",
        "Maximum size of the archive; 0 for no limit. The oldest hours and days are dropped once a day.",
    ),
    fixed(row(
        "server_url",
        Text(|c| &mut c.server_url),
        "",
        "",
        "URL at which other servers of the archive reach this one; by default the address of `http`.",
    )),
    fixed(row(
        "server_lease_seconds",
        Count(|c| &mut c.server_lease_seconds, 3, 3600),
        "30",
        "seconds",
        "Time without a sign of life after which other servers of the archive capture the nodes of this one.",
    )),
    row(
        "servers_token_file",
        OptionalPath(|c| &mut c.servers_token_file),
        "",
        "",
        "File with `NAME.PASSWORD` of a user who may read, by which this server asks others of the archive for profiles \
         that are not archived yet.",
    ),
    row(
        "servers_ca_file",
        OptionalPath(|c| &mut c.servers_ca_file),
        "",
        "",
        "PEM file with the only certificates that are trusted when other servers of the archive are asked; by default \
         the system's authorities.",
    ),
    fixed(row(
        "tls_cert",
        OptionalPath(|c| &mut c.tls_cert),
        "",
        "",
        "PEM file with the certificate chain; serves HTTPS together with `tls_key`.",
    )),
    fixed(row("tls_key", OptionalPath(|c| &mut c.tls_key), "", "", "PEM file with the private key.")),
    row(
        "users_file",
        OptionalPath(|c| &mut c.users_file),
        "",
        "",
        "File of `name:role:hash` lines, written by `procprof user add`.",
    ),
    row(
        "allowed_hosts",
        Texts(|c| &mut c.allowed_hosts),
        "",
        "",
        "Additional host names of the server (accepted in the `Host` header).",
    ),
    row(
        "trusted_proxies",
        Networks(|c| &mut c.trusted_proxies),
        "",
        "",
        "Addresses and networks of reverse proxies, such as `10.0.0.0/8`. Of their requests the client's address is the \
         last one in `X-Forwarded-For` that is none of them; by it wrong passwords, shares and log lines are counted. \
         From all others the header is ignored.",
    ),
    fixed(row(
        "base_path",
        Text(|c| &mut c.base_path),
        "",
        "",
        "Path below which a reverse proxy shows the server, such as `/profiling`; links of pages begin with it.",
    )),
    row("cluster", Text(|c| &mut c.cluster), "default", "", "Cluster of nodes that name none."),
    row(
        "max_concurrent_captures",
        Count(|c| &mut c.max_concurrent_captures, 1, 1024),
        "8",
        "captures",
        "Captures running at a time, per cluster; types whose last capture failed have as many slots of their own.",
    ),
    row(
        "capture_seconds_max",
        Count(|c| &mut c.capture_seconds_max, 1, 86_400),
        "300",
        "seconds",
        "Longest capture that may be requested.",
    ),
    row(
        "self_interval_seconds",
        Count(|c| &mut c.self_interval_seconds, 1, 3600),
        "60",
        "seconds",
        "How often the server's own continuous CPU profile is cut.",
    ),
    seed(row(
        "proc_profile_cpu_enable",
        Bool(|c| &mut c.proc_profile_cpu_enable),
        "true",
        "",
        "Whether CPU profiles are collected on schedule.",
    )),
    seed(row(
        "proc_profile_mem_enable",
        Bool(|c| &mut c.proc_profile_mem_enable),
        "true",
        "",
        "Whether memory (allocation, heap) profiles are collected on schedule.",
    )),
    seed(row(
        "proc_profile_collect_time_s",
        Count(|c| &mut c.proc_profile_collect_time_s, 1, 3600),
        "120",
        "seconds",
        "Length of a recording of a JVM; the next one follows without a gap.",
    )),
    seed(row(
        "proc_profile_jstack_depth",
        Count(|c| &mut c.proc_profile_jstack_depth, 1, 2048),
        "128",
        "frames",
        "Most frames of a stack of a JVM. A JVM accepts it before its first recording only; otherwise it records 64.",
    )),
    seed(row(
        "proc_profile_file_retained_days",
        Count(|c| &mut c.proc_profile_file_retained_days, 0, 36_500),
        "1",
        "days",
        "Age at which a node's profiles are deleted.",
    )),
    seed(row(
        "proc_profile_file_retained_size_bytes",
        Bytes(|c| &mut c.proc_profile_file_retained_size_bytes),
        "2147483648",
        "bytes",
        "Maximum total size of a node's profiles.",
    )),
    row(
        "data_bytes_max",
        Bytes(|c| &mut c.data_bytes_max),
        "20 GiB",
        "bytes",
        "Maximum total size of the profiles of all nodes.",
    ),
    row(
        "data_free_bytes_min",
        Bytes(|c| &mut c.data_free_bytes_min),
        "256 MiB",
        "bytes",
        "Space kept free on the data folder's disk.",
    ),
    fixed(row(
        "pinned_bytes_max",
        Bytes(|c| &mut c.pinned_bytes_max),
        "1 GiB",
        "bytes",
        "Maximum total size of pinned profiles; beyond it, pinning is refused.",
    )),
    row(
        "retention_interval_seconds",
        Count(|c| &mut c.retention_interval_seconds, 1, 86_400),
        "60",
        "seconds",
        "How often retention runs.",
    ),
    row(
        "profile_bytes_max",
        Bytes(|c| &mut c.profile_bytes_max),
        "64 MiB",
        "bytes",
        "Largest profile accepted, as it arrives; decompressed, it may be four times as large.",
    ),
    row(
        "ingest_bytes_in_flight_max",
        Bytes(|c| &mut c.ingest_bytes_in_flight_max),
        "256 MiB",
        "bytes",
        "Total decompressed size of the profiles ingested at a time. A profile that does not fit beside the others \
         waits up to 30 s; then it is refused (429; the client should retry). A quarter is kept for operators and \
         captures, and a user or token has a quarter, beside one profile that is larger by itself.",
    ),
    row(
        "ingest_queue_max",
        Count(|c| &mut c.ingest_queue_max, 1, 100_000),
        "256",
        "profiles",
        "Profiles being ingested or waiting for it; more are refused. A quarter is kept for operators, captures and \
         heartbeats, and a user or token has a quarter.",
    ),
    row("symbolize", Bool(|c| &mut c.symbolize), "true", "", "Whether profiles are symbolized when they are ingested."),
    row(
        "symbolize_memory_bytes_max",
        Bytes(|c| &mut c.symbolize_memory_bytes_max),
        "4 GiB",
        "bytes",
        "Address space of the child process that reads binaries and decodes profiles of more than 1 MiB.",
    ),
    row(
        "symbolize_seconds_max",
        Count(|c| &mut c.symbolize_seconds_max, 1, 3600),
        "60",
        "seconds",
        "Time limit of that process for one profile, and for one graph of `ADMIN EXECUTE`.",
    ),
    row(
        "symbols_bytes_max",
        Bytes(|c| &mut c.symbols_bytes_max),
        "4 GiB",
        "bytes",
        "Maximum total size of uploaded symbol indexes; beyond it, the least recently used are removed.",
    ),
    row(
        "symbols_file_bytes_max",
        Bytes(|c| &mut c.symbols_file_bytes_max),
        "1 GiB",
        "bytes",
        "Largest symbol index that may be uploaded.",
    ),
    row(
        "source_roots",
        Texts(|c| &mut c.source_roots),
        "",
        "",
        "Folders whose source files the report `list` may show to every user; by default none. Symbolic links in them \
         are not followed.",
    ),
    fixed(row(
        "render_concurrency_max",
        Count(|c| &mut c.render_concurrency_max, 1, 256),
        "3",
        "renders",
        "Reports rendered at a time, and queries of call trees beside them. An operator, or without users one client \
         address, has all slots but one; a viewer has a quarter of them, and one is kept for operators.",
    )),
    row(
        "render_seconds_max",
        Count(|c| &mut c.render_seconds_max, 1, 3600),
        "30",
        "seconds",
        "Longest time that a report may take; then it is cancelled.",
    ),
    row(
        "render_bytes_max",
        Bytes(|c| &mut c.render_bytes_max),
        "128 MiB",
        "bytes",
        "Largest report; one that would be larger is refused.",
    ),
    row(
        "render_memory_bytes_max",
        Bytes(|c| &mut c.render_memory_bytes_max),
        "512 MiB",
        "bytes",
        "Memory limit of each table built for a report, such as a call tree.",
    ),
    row(
        "tree_cache_bytes_max",
        Bytes(|c| &mut c.tree_cache_bytes_max),
        "256 MiB",
        "bytes",
        "Memory for the call trees of open viewers; a tree that is larger is rebuilt for each query.",
    ),
    fixed(row(
        "http_connections_max",
        Count(|c| &mut c.http_connections_max, 1, 65_536),
        "4096",
        "connections",
        "HTTP connections open at a time; fewer if the limit of open files, which the server raises as far as it may, \
         leaves no room for 512 files beside them. For one more, a connection is closed: unauthenticated ones first, \
         then idle ones, the oldest of each, then those whose request or answer has not moved for 2 s. One whose \
         request or answer moves, or is being processed, stays.",
    )),
    fixed(row(
        "http_header_seconds_max",
        Count(|c| &mut c.http_header_seconds_max, 1, 600),
        "10",
        "seconds",
        "Time a client has to send the head of its first or next request, in HTTP/1 and HTTP/2.",
    )),
    seed(row(
        "brpc_port",
        Count(|c| &mut c.brpc_port, 1, 65_535),
        "8060",
        "",
        "brpc port of StarRocks backends whose address has none.",
    )),
    seed(row(
        "http_port",
        Count(|c| &mut c.http_port, 1, 65_535),
        "8040",
        "",
        "HTTP port of StarRocks nodes whose address has none.",
    )),
    fixed(seed(row(
        "sys_log_dir",
        OptionalPath(|c| &mut c.sys_log_dir),
        "",
        "",
        "StarRocks' log folder: the files in its `proc_profile` are imported at the start, each once; files that \
         retention has deleted are not imported again.",
    ))),
    seed(row(
        "COLLECT_BE_PROFILE_INTERVAL",
        Count(|c| &mut c.be_profile_interval, 0, 86_400),
        "0",
        "seconds",
        "Seconds between captures of StarRocks backends; 0 leaves it to the schedule.",
    )),
    seed(row("flamegraph_tool_dir", Ignored, "", "", "Accepted and ignored: no external tool is needed.")),
    seed(row(
        "proc_profile_collect_interval_s",
        Ignored,
        "",
        "",
        "Accepted and ignored: recordings follow one another without gaps.",
    )),
];

impl Key {
    /// The type in words, for help and the reference page.
    pub fn type_name(&self) -> String {
        match self.slot {
            Slot::Bool(_) => "boolean".to_owned(),
            Slot::Count(_, low, high) => format!("{low} to {high}"),
            Slot::Bytes(_) => "bytes, as a number or such as \"2 GiB\"".to_owned(),
            Slot::Text(_) => "text".to_owned(),
            Slot::Texts(_) => "list of texts".to_owned(),
            Slot::Networks(_) => "list of addresses and networks".to_owned(),
            Slot::Path(_) | Slot::OptionalPath(_) => "path".to_owned(),
            Slot::Place(_) => "path or URL".to_owned(),
            Slot::Ignored => "anything".to_owned(),
        }
    }

    /// The warning for a key that does nothing.
    pub(crate) fn ignored(&self) -> Option<String> {
        match self.slot {
            Slot::Ignored => Some(format!("{}: {}", self.name, self.help)),
            _ => None,
        }
    }

    pub(crate) fn set_text(&self, config: &mut Config, text: &str) -> Result<(), String> {
        self.set(config, &Value::Text(text.to_owned()))
    }

    pub(crate) fn set(&self, config: &mut Config, value: &Value) -> Result<(), String> {
        match self.slot {
            Slot::Bool(slot) => *slot(config) = boolean(value)?,
            Slot::Count(slot, low, high) => *slot(config) = count(value, low, high)?,
            Slot::Bytes(slot) => *slot(config) = byte_count(value)?,
            Slot::Text(slot) => *slot(config) = text(value)?,
            Slot::Texts(slot) => *slot(config) = texts(value)?,
            Slot::Networks(slot) => {
                *slot(config) = texts(value)?.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
            }
            Slot::Path(slot) => {
                let text = text(value)?;
                if text.contains("://") {
                    return Err(format!("{text:?} is a URL; expected a path"));
                }
                *slot(config) = PathBuf::from(text);
            }
            Slot::Place(slot) => {
                let text = text(value)?;
                text.parse::<procprof_archive::Place>().map_err(|error| error.to_string())?;
                *slot(config) = text;
            }
            Slot::OptionalPath(slot) => {
                *slot(config) = Some(text(value)?).filter(|text| !text.is_empty()).map(PathBuf::from)
            }
            Slot::Ignored => {}
        }
        Ok(())
    }

    /// The value that a configuration holds, as text.
    pub fn get_text(&self, config: &Config) -> String {
        let config = &mut config.clone();
        match self.slot {
            Slot::Bool(slot) => slot(config).to_string(),
            Slot::Count(slot, ..) | Slot::Bytes(slot) => slot(config).to_string(),
            Slot::Text(slot) | Slot::Place(slot) => slot(config).clone(),
            Slot::Texts(slot) => slot(config).join(","),
            Slot::Networks(slot) => slot(config).iter().map(Network::to_string).collect::<Vec<_>>().join(","),
            Slot::Path(slot) => slot(config).display().to_string(),
            Slot::OptionalPath(slot) => {
                slot(config).as_ref().map(|path| path.display().to_string()).unwrap_or_default()
            }
            Slot::Ignored => String::new(),
        }
    }
}
