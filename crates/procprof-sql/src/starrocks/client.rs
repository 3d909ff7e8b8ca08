//! Connections to the frontends of one cluster.
//!
//! A statement takes a connection that is idle, or makes one to the first frontend that can be reached, beginning with
//! the one that answered last. A connection that broke while it was idle, as after a restart, costs a second try on a
//! new one; no statement does harm when it is sent twice.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, SslOpts};
use procprof_core::config::{FeQuery, Password};
use procprof_core::remote::secret_line;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::FeError;
use crate::mysql::Value;

/// Time to reach a frontend and log in.
const CONNECT: Duration = Duration::from_secs(5);
/// Statements of a cluster at a time; more wait.
const STATEMENTS: usize = 8;
/// Connections kept for the next statement.
const IDLE: usize = 2;
/// Most columns of an answer.
const COLUMNS_MAX: usize = 512;

/// The limits of an answer.
#[derive(Clone, Copy)]
pub(crate) struct AnswerLimits {
    /// Time from sending the statement to the last row.
    pub(crate) time: Duration,
    /// Rows.
    pub(crate) rows: usize,
    /// Bytes of all values.
    pub(crate) bytes: usize,
}

/// For lists of nodes.
pub(crate) const LISTS: AnswerLimits = AnswerLimits { time: Duration::from_secs(10), rows: 10_000, bytes: 32 << 20 };

/// An answer: names of columns, and rows as long as these.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Table {
    /// The place of a column, whatever the case of its name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The frontends of one cluster.
pub(crate) struct Frontend {
    /// Its cluster.
    pub(crate) cluster: String,
    /// Its configuration.
    pub(crate) config: FeQuery,
    idle: Mutex<Vec<(Conn, String)>>,
    turns: Semaphore,
    /// The address that answered last.
    last: AtomicUsize,
    /// When its nodes are looked at next, and what came of the last look.
    pub(crate) look: Mutex<Look>,
    /// Held while its nodes are looked at.
    pub(crate) looking: tokio::sync::Mutex<()>,
}

/// How discovery fares.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// When it is due; `None` at once.
    pub(crate) due: Option<Instant>,
    /// Whether one ever succeeded.
    pub(crate) succeeded: bool,
    /// Why the last one failed, if it did.
    pub(crate) failure: Option<String>,
}

impl Frontend {
    pub(super) fn new(config: FeQuery, cluster: String) -> Frontend {
        Frontend {
            cluster,
            config,
            idle: Mutex::default(),
            turns: Semaphore::new(STATEMENTS),
            last: AtomicUsize::new(0),
            look: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    /// Whether it is what a table configures.
    pub(super) fn is_of(&self, config: &FeQuery, cluster: &str) -> bool {
        self.config == *config && self.cluster == cluster
    }

    /// The address it answered at last, and its cluster, for messages.
    fn name(&self, address: &(String, u16)) -> String {
        format!("FE {} of cluster {}", written(address), self.cluster)
    }

    /// Runs a statement, and reads the whole answer.
    ///
    /// # Errors
    /// [`FeError`]; the time includes waiting for other statements.
    pub(crate) async fn ask(&self, statement: &str, limits: AnswerLimits) -> Result<Table, FeError> {
        let name = self
            .config
            .addresses
            .get(self.last.load(Ordering::Relaxed))
            .map_or_else(String::new, |address| self.name(address));
        let late = |_| FeError::Timeout { fe: name.clone(), after: limits.time };
        timeout(limits.time, self.ask_patiently(statement, limits)).await.map_err(late)?
    }

    async fn ask_patiently(&self, statement: &str, limits: AnswerLimits) -> Result<Table, FeError> {
        let closed =
            |error: tokio::sync::AcquireError| FeError::Strange { fe: self.cluster.clone(), why: error.to_string() };
        let _turn = self.turns.acquire().await.map_err(closed)?;
        if let Some((mut conn, name)) = self.take_idle() {
            match answer(&mut conn, &name, statement, limits).await {
                Err(FeError::Broken { .. }) => {
                    tracing::debug!("{name}: the idle connection had broken; connecting anew")
                }
                ended => return self.keep(conn, name, ended),
            }
            // Others were made at the same time and have broken with it.
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        let (mut conn, name) = self.connect().await?;
        let ended = answer(&mut conn, &name, statement, limits).await;
        self.keep(conn, name, ended)
    }

    fn take_idle(&self) -> Option<(Conn, String)> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps the connection for the next statement, unless unread data may follow.
    fn keep(&self, conn: Conn, name: String, ended: Result<Table, FeError>) -> Result<Table, FeError> {
        if matches!(ended, Ok(_) | Err(FeError::Server { .. } | FeError::Denied { .. })) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE {
                idle.push((conn, name));
            }
        }
        ended
    }

    async fn connect(&self) -> Result<(Conn, String), FeError> {
        let (first, count) = (self.last.load(Ordering::Relaxed), self.config.addresses.len());
        let mut why = Vec::new();
        for index in (0..count).map(|step| (first + step) % count) {
            let address = &self.config.addresses[index];
            let name = self.name(address);
            let opts = self.opts(address, &name).await?;
            let made = timeout(CONNECT, Conn::new(opts)).await;
            let made = made.map_err(|_| FeError::Timeout { fe: name.clone(), after: CONNECT });
            match made.and_then(|made| made.map_err(|error| FeError::from_client(&name, error))) {
                Ok(conn) => {
                    self.last.store(index, Ordering::Relaxed);
                    return Ok((conn, name));
                }
                Err(error) if error.try_another() => why.push(format!("{}: {}", written(address), error.bare())),
                Err(error) => return Err(error),
            }
        }
        let fe = format!("the FE of cluster {}", self.cluster);
        Err(FeError::Unreachable { fe, why })
    }

    async fn opts(&self, (host, port): &(String, u16), name: &str) -> Result<Opts, FeError> {
        let password = match &self.config.password {
            Password::None => None,
            Password::Text(password) => Some(password.clone()),
            Password::File(path) => Some(password(path, name).await?),
        };
        let tls = self.config.tls.as_ref().map(|tls| {
            let authorities = tls.ca_file.iter().map(|file| file.clone().into()).collect();
            SslOpts::default()
                .with_disable_built_in_roots(tls.ca_file.is_some())
                .with_root_certs(authorities)
                .with_danger_accept_invalid_certs(tls.insecure)
        });
        // Given here, the library queries nothing when it connects: a frontend need not have MySQL's variables.
        let opts = OptsBuilder::default()
            .ip_or_hostname(host.clone())
            .tcp_port(*port)
            .user(Some(self.config.user.clone()))
            .pass(password)
            .ssl_opts(tls)
            .prefer_socket(false)
            .stmt_cache_size(0)
            .max_allowed_packet(Some(PACKET_MAX))
            .wait_timeout(Some(28_800));
        Ok(opts.into())
    }
}

fn written((host, port): &(String, u16)) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Longest packet taken, in bytes.
const PACKET_MAX: usize = 64 << 20;

async fn password(path: &Path, name: &str) -> Result<String, FeError> {
    secret_line(path).await.map_err(|why| FeError::Password { fe: name.to_owned(), why })
}

async fn answer(conn: &mut Conn, name: &str, statement: &str, limits: AnswerLimits) -> Result<Table, FeError> {
    let failed = |error| FeError::from_client(name, error);
    let too_large = |limit: String| FeError::TooLarge { fe: name.to_owned(), limit };
    let mut result = conn.query_iter(statement).await.map_err(failed)?;
    let names: Vec<String> = result.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
    if names.len() > COLUMNS_MAX {
        return Err(too_large(format!("{COLUMNS_MAX} columns")));
    }
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = result.next().await.map_err(failed)? {
        let row: Vec<Value> = row.unwrap_raw().into_iter().map(value).collect();
        bytes += row.iter().map(Value::weight).sum::<usize>();
        match () {
            () if rows.len() == limits.rows => return Err(too_large(format!("{} rows", limits.rows))),
            () if bytes > limits.bytes => return Err(too_large(format!("{} MiB", limits.bytes >> 20))),
            () => rows.push(row),
        }
    }
    Ok(Table { names, rows })
}

/// A value of the text protocol: text, or nothing.
fn value(value: Option<mysql_async::Value>) -> Value {
    use mysql_async::Value as Theirs;
    match value {
        None | Some(Theirs::NULL) => Value::Null,
        Some(Theirs::Bytes(bytes)) => {
            String::from_utf8(bytes).map_or_else(|error| Value::Blob(error.into_bytes()), Value::Text)
        }
        Some(other) => Value::Text(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}
