//! A node as the collector sees it: address, credentials and limits, with secrets read from their files at the moment
//! they are needed.

use std::path::Path;
use std::sync::Arc;

use procprof_collect::{
    Auth as Credentials, BaseUrl, CollectError, Header, HttpClient, ProfileUrl, Secret, SymbolLimits, Target, Tls,
    Watch, fetch_symbols,
};
use procprof_process::{Identity, Pid};
use procprof_profile::Addr;

use crate::config::{Auth, Config, PidLookup};
use crate::kinds::has_port;
use crate::nodes::{Kind, Node};

/// Longest secret, in bytes.
const SECRET_MAX: u64 = 16 << 10;

/// The port of a StarRocks frontend's web service.
const FE_HTTP_PORT: u64 = 8030;

/// A node whose symbol page can be queried for names of its addresses.
#[derive(Clone)]
pub struct Remote {
    pub(crate) client: Arc<HttpClient>,
    pub(crate) target: Arc<Target>,
    pub(crate) watch: Watch,
}

impl Remote {
    /// The names on the node's symbol page; unknown ones are left out.
    pub(crate) async fn names(&self, addresses: &[Addr]) -> Result<Vec<(Addr, String)>, CollectError> {
        let symbols =
            fetch_symbols(&self.client, &self.target, addresses, &SymbolLimits::default(), &self.watch).await?;
        Ok(symbols.names.into_iter().collect())
    }
}

/// The HTTP target of a node.
///
/// # Errors
/// [`CollectError::Target`] for an address that cannot be dialled or a secret that cannot be read.
pub(crate) async fn target(node: &Node, config: &Config) -> Result<Target, CollectError> {
    let wrong = |why: String| CollectError::Target { what: "node", value: node.name().to_owned(), why };
    let not_http = || wrong(format!("kind {} is not collected over HTTP", node.kind()));
    let endpoints = node.kind().service().ok_or_else(not_http)?;
    let own = &node.config;
    let mut target = Target::new(endpoints, http(node, config)?);
    if !own.brpc.is_empty() {
        target.brpc = Some(with_port(&own.brpc, config.brpc_port)?);
    } else if node.kind() == Kind::STARROCKS_BE {
        target.brpc = Some(target.http.at_port(port(config.brpc_port))?);
    }
    for (profile_type, url) in &own.urls {
        target.urls.insert(profile_type.clone(), url.parse::<ProfileUrl>()?);
    }
    target.tls = Tls { ca_file: own.tls.ca_file.clone(), insecure: own.tls.insecure, ..Tls::default() };
    target.headers = own.headers.iter().map(|(name, value)| Header::new(name, value)).collect::<Result<_, _>>()?;
    target.auth = match &own.auth {
        Auth::None => Credentials::None,
        Auth::Basic { user, password_file } => {
            Credentials::Basic { user: user.clone(), password: secret(password_file).await.map_err(wrong)? }
        }
        Auth::Bearer { token_file } => Credentials::Bearer(secret(token_file).await.map_err(wrong)?),
    };
    target.max_bytes = config.profile_bytes_max;
    Ok(target)
}

fn http(node: &Node, config: &Config) -> Result<BaseUrl, CollectError> {
    let own = &node.config;
    if !own.http.is_empty() {
        return match node.kind() {
            kind if kind == Kind::STARROCKS_BE => with_port(&own.http, config.http_port),
            kind if kind == Kind::STARROCKS_FE => with_port(&own.http, FE_HTTP_PORT),
            _ => own.http.parse(),
        };
    }
    if !own.brpc.is_empty() {
        return with_port(&own.brpc, config.brpc_port)?.at_port(port(config.http_port));
    }
    match own.urls.values().next() {
        Some(url) => Ok(url.parse::<ProfileUrl>()?.base()),
        None => node.address.parse(),
    }
}

/// An address without a port gets the one StarRocks uses.
fn with_port(address: &str, default: u64) -> Result<BaseUrl, CollectError> {
    let base: BaseUrl = address.parse()?;
    if has_port(address) { Ok(base) } else { base.at_port(port(default)) }
}

fn port(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

async fn secret(path: &Path) -> Result<Secret, String> {
    secret_line(path).await.map(Secret::new)
}

/// The first line of a file that holds a secret.
pub async fn secret_line(path: &Path) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("secret file {}: {why}", path.display());
    let length = tokio::fs::metadata(path).await.map_err(|error| failed(&error))?.len();
    if length > SECRET_MAX {
        return Err(failed(&"too long for a secret"));
    }
    let text = tokio::fs::read_to_string(path).await.map_err(|error| failed(&error))?;
    match text.lines().next().map(str::trim).filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(failed(&"its first line is empty")),
    }
}

/// The process behind a node on this host, by its configuration or its owner; `found` is the process that listens on
/// its port.
pub fn process(node: &Node, found: Option<Identity>) -> Option<Identity> {
    let of = |pid: u32| Identity::read(Pid(pid)).ok();
    if let Some(source) = &node.pid {
        return (source.0)().and_then(of);
    }
    match &node.config.pid_lookup {
        PidLookup::Port => found,
        PidLookup::Pid(pid) => of(*pid),
        PidLookup::File(path) => std::fs::read_to_string(path).ok()?.trim().parse().ok().and_then(of),
        PidLookup::Off => None,
    }
}
