//! [`Connection`]: statements over the MySQL protocol, one after the other.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, DriverError, Error, Opts, OptsBuilder, SslOpts};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::target::{Security, Target};

/// Time to reach the server and log in.
const CONNECT: Duration = Duration::from_secs(10);
/// Time of a statement, at most.
const STATEMENT: Duration = Duration::from_secs(3600);
/// Time without a sign of life of the server after which the system asks for one.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Longest packet of StarRocks.
const PACKET_MAX: usize = 64 << 20;

/// A connection to a database, and the runtime it lives on.
pub(super) struct Connection {
    runtime: Runtime,
    conn: Conn,
}

/// The server cannot be reached any more, so nothing else can be done either.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreachable(pub(super) String);

impl Connection {
    /// Connects and logs in.
    pub(super) fn open(target: &Target, security: &Security) -> Result<Connection> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
        let opts = opts(target, security);
        let made = runtime.block_on(async { timeout(CONNECT, Conn::new(opts)).await });
        let made = made.map_err(|_| anyhow!("{target}: no answer within {} s", CONNECT.as_secs()))?;
        let conn = made.map_err(|error| match error {
            Error::Driver(DriverError::NoClientSslFlagFromServer) => {
                anyhow!("{target}: the server offers no TLS; --no-tls connects without it")
            }
            other => anyhow!("{target}: {other}"),
        })?;
        Ok(Connection { runtime, conn })
    }

    /// The runtime, for requests beside the connection.
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Runs a statement.
    pub(super) fn run(&mut self, statement: &str) -> Result<()> {
        let done = self.runtime.block_on(async { timeout(STATEMENT, self.conn.query_drop(statement)).await });
        checked(done)
    }

    /// The rows of a statement.
    pub(super) fn rows<T: FromRow + Send + 'static>(&mut self, statement: &str) -> Result<Vec<T>> {
        let done = self.runtime.block_on(async { timeout(STATEMENT, self.conn.query(statement)).await });
        checked(done)
    }

    /// Ends the connection, which also ends a transaction without its effects.
    pub(super) fn close(self) -> Result<()> {
        self.runtime.block_on(self.conn.disconnect()).context("end the connection")
    }
}

fn checked<T>(done: Result<Result<T, Error>, tokio::time::error::Elapsed>) -> Result<T> {
    match done {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(Error::Server(error))) => bail!("the server: error {} ({}): {}", error.code, error.state, error.message),
        Ok(Err(error)) => Err(Unreachable(format!("the connection broke: {error}")).into()),
        Err(_) => Err(Unreachable(format!("no answer within {} s", STATEMENT.as_secs())).into()),
    }
}

fn opts(target: &Target, security: &Security) -> Opts {
    let tls = security.is_tls(&target.address).then(|| {
        let roots = security.ca_file.as_deref().map(Path::to_owned).map(Into::into);
        SslOpts::default()
            .with_disable_built_in_roots(security.ca_file.is_some())
            .with_root_certs(roots.into_iter().collect())
    });
    let opts = OptsBuilder::default()
        .ip_or_hostname(target.address.host.clone())
        .tcp_port(target.address.port)
        .user(Some(target.user.clone()))
        .pass(security.password.clone())
        .db_name(Some(target.database.clone()))
        .ssl_opts(tls)
        .prefer_socket(false)
        .stmt_cache_size(0)
        .tcp_keepalive(Some(KEEPALIVE));
    // Given here, the library queries nothing when it connects: a frontend need not have MySQL's variables.
    match target.http {
        Some(_) => opts.max_allowed_packet(Some(PACKET_MAX)).wait_timeout(Some(28_800)).into(),
        None => opts.into(),
    }
}
