//! The configuration: one TOML file, StarRocks' `fe.conf` / `be.conf` for the keys known there, and what they mean
//! together.
//!
//! Every key is one row of [`keys::KEYS`] (top level), [`node::NODE_KEYS`] (`[[node]]` tables) or [`fe_query::FE_KEYS`]
//! (`[[fe_query]]` tables). The rows give the parser, the command's help and the reference page; there is no second
//! list anywhere.

mod claim;
mod exposed;
mod fe_query;
mod keys;
mod named_files;
mod nearest;
mod network;
mod node;
mod plan;
mod reference;
mod schedule;
mod starrocks;
#[cfg(test)]
mod tests;
pub mod value;

use std::path::{Path, PathBuf};

pub use claim::THIS_SERVER_ID;
pub(crate) use claim::{Claim, THIS_SERVER_NAME, distinct};
pub use exposed::warnings;
pub use fe_query::is_host;
pub use fe_query::{FE_KEYS, FeKey, FeQuery, Password};
pub use keys::{KEYS, Key, Slot};
pub use network::Network;
pub use node::{NODE_KEYS, NodeKey, Words};
pub use plan::Planned;
pub(crate) use plan::plan;
pub use reference::config_reference;
pub use starrocks::ConfFile;

use crate::error::{Error, Result};
pub use crate::kinds::{Auth, Kind, NodeConfig, PidLookup, Role, ScheduleRow, Tls};
use value::ConfigFile;

/// Everything that can be configured; see `docs/config.md` for what each field does.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the rows of KEYS document the fields under the same names")]
pub struct Config {
    pub http: String,
    pub mysql: String,
    pub mysql_connections_max: u64,
    pub mysql_idle_seconds_max: u64,
    pub sql_seconds_max: u64,
    pub sql_rows_max: u64,
    pub sql_link_base: String,
    pub data: PathBuf,
    pub archive: String,
    pub archive_days_max: u64,
    pub archive_bytes_max: u64,
    pub server_url: String,
    pub server_lease_seconds: u64,
    pub servers_token_file: Option<PathBuf>,
    pub servers_ca_file: Option<PathBuf>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub users_file: Option<PathBuf>,
    pub allowed_hosts: Vec<String>,
    pub trusted_proxies: Vec<Network>,
    pub base_path: String,
    pub cluster: String,
    pub max_concurrent_captures: u64,
    pub capture_seconds_max: u64,
    pub self_interval_seconds: u64,
    pub proc_profile_cpu_enable: bool,
    pub proc_profile_mem_enable: bool,
    pub proc_profile_collect_time_s: u64,
    pub proc_profile_jstack_depth: u64,
    pub proc_profile_file_retained_days: u64,
    pub proc_profile_file_retained_size_bytes: u64,
    pub data_bytes_max: u64,
    pub data_free_bytes_min: u64,
    pub pinned_bytes_max: u64,
    pub retention_interval_seconds: u64,
    pub profile_bytes_max: u64,
    pub ingest_bytes_in_flight_max: u64,
    pub ingest_queue_max: u64,
    pub symbolize: bool,
    pub symbolize_memory_bytes_max: u64,
    pub symbolize_seconds_max: u64,
    pub symbols_bytes_max: u64,
    pub symbols_file_bytes_max: u64,
    pub source_roots: Vec<String>,
    pub render_concurrency_max: u64,
    pub render_seconds_max: u64,
    pub render_bytes_max: u64,
    pub render_memory_bytes_max: u64,
    pub tree_cache_bytes_max: u64,
    pub http_connections_max: u64,
    pub http_header_seconds_max: u64,
    pub brpc_port: u64,
    pub http_port: u64,
    pub sys_log_dir: Option<PathBuf>,
    /// Seconds between captures of StarRocks backends; 0 means the schedule's own.
    pub be_profile_interval: u64,
    /// Nodes, in the order of the file.
    pub nodes: Vec<NodeConfig>,
    /// Frontends of StarRocks clusters, in the order of the file.
    pub fe_queries: Vec<FeQuery>,
    /// Accepted and ignored settings, one sentence each, for the log.
    pub warnings: Vec<String>,
}

impl Config {
    /// The configuration of an empty file.
    ///
    /// # Panics
    /// Never: the defaults of the table are checked by a test.
    pub fn defaults() -> Config {
        let mut config = Config::default();
        for key in KEYS {
            let set = key.set_text(&mut config, key.default);
            debug_assert!(set.is_ok(), "default of {}: {set:?}", key.name);
        }
        config
    }

    /// Reads a TOML file over the defaults.
    ///
    /// # Errors
    /// Names the file, the line and the key; an unknown key also gives the nearest known one.
    pub fn read(path: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(path).map_err(|cause| Error::File {
            what: "configuration",
            path: path.to_owned(),
            cause,
        })?;
        let mut config = Config::parse(&text, &path.display().to_string())?;
        config.warn(crate::ownership::writable("configuration", path));
        Ok(config)
    }

    /// Parses the text of a TOML file; `file` is its name in errors.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(text: &str, file: &str) -> Result<Config> {
        let document = ConfigFile::parse(text, file)?;
        let mut config = Config::defaults();
        for entry in document.entries() {
            if entry.key == "node" || entry.key == "fe_query" {
                continue;
            }
            let Some(key) = KEYS.iter().find(|key| key.name == entry.key) else {
                let known = KEYS.iter().map(|key| key.name).chain(["node", "fe_query"]);
                return Err(document.unknown(entry, known));
            };
            key.set(&mut config, &entry.value).map_err(|why| document.wrong(entry, why))?;
            config.warn(key.ignored());
        }
        config.nodes = node::read_all(&document)?;
        config.fe_queries = fe_query::read_all(&document)?;
        distinct(config.nodes.iter().map(Claim::from_node))?;
        config.warnings.extend(claim::shared_addresses(&config.nodes));
        Ok(config)
    }

    /// The value of a top-level key that is a whole number.
    pub(crate) fn seconds_of(&self, name: &str) -> Option<u64> {
        KEYS.iter().find(|key| key.name == name)?.get_text(self).parse().ok()
    }

    /// Sets one key from text, as the command line gives it.
    ///
    /// # Errors
    /// Unknown key, or a value the key's type refuses.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let hint = nearest::hint(name, KEYS.iter().map(|key| key.name));
            return Err(Error::UnknownKey { place: "command line".to_owned(), key: name.to_owned(), hint });
        };
        let wrong = |why| Error::WrongValue { place: "command line".to_owned(), key: name.to_owned(), why };
        key.set_text(self, text).map_err(wrong)?;
        self.warn(key.ignored());
        Ok(())
    }

    /// Reads a StarRocks configuration file over this one; environment variables come from `variable`.
    ///
    /// # Errors
    /// The file cannot be read, a `${VAR}` is unknown, or a known key has a value its type refuses.
    pub fn read_starrocks(
        &mut self,
        path: &Path,
        which: ConfFile,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<()> {
        let text = std::fs::read_to_string(path).map_err(|cause| Error::File {
            what: which.name(),
            path: path.to_owned(),
            cause,
        })?;
        starrocks::apply(self, &text, &path.display().to_string(), which, variable)
    }

    /// Keys whose values differ in `new` and which take effect only with a restart.
    pub fn needs_restart(&self, new: &Config) -> Vec<&'static str> {
        KEYS.iter().filter(|key| !key.reload && key.get_text(self) != key.get_text(new)).map(|key| key.name).collect()
    }

    /// Keeps a sentence for the log, once.
    fn warn(&mut self, warning: Option<String>) {
        self.warnings.extend(warning.filter(|warning| !self.warnings.contains(warning)));
    }

    /// Checks what several keys mean together, once all sources are merged, since one may give what another lacks; and
    /// that the files they name can be read.
    ///
    /// # Errors
    /// Names the keys that do not go together, or the file that cannot be read.
    pub fn check(&self) -> Result<()> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(Error::Config("tls_cert and tls_key: give both or neither".to_owned()));
        }
        let link = &self.sql_link_base;
        let is_url = link.is_empty() || ["http://", "https://"].iter().any(|scheme| link.starts_with(scheme));
        if !is_url || link.chars().any(|character| character.is_control() || character.is_whitespace()) {
            return Err(Error::Config(format!("sql_link_base: {link:?} is no http:// or https:// address")));
        }
        let base = &self.base_path;
        let is_path = base.is_empty() || (base.starts_with('/') && !base.ends_with('/') && !base.contains("//"));
        if !is_path || !base.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte)) {
            return Err(Error::Config(format!(
                "base_path: {base:?} is no path such as /profiling, without a slash at its end"
            )));
        }
        if let Some(root) = self.source_roots.iter().find(|root| !Path::new(root).is_absolute()) {
            return Err(Error::Config(format!("source_roots: {root:?} is no absolute path")));
        }
        fe_query::check(self)?;
        let templates = self.fe_queries.iter().map(|fe| &fe.node);
        schedule::check_lengths(self.nodes.iter().chain(templates), self)?;
        named_files::check_all(self)
    }
}
