//! The listener of SQL clients, its limits, and who is let in.

use std::sync::Arc;
use std::time::Duration;

use procprof_core::Result;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::accounts::SqlAccounts;
use crate::session::SqlService;
use crate::{Sql, mysql};

/// Longest packet from a SQL client, in bytes.
const PACKET_MAX: usize = 16 << 20;
/// SQL clients that are logging in at a time.
const LOGINS: usize = 256;
/// Time a SQL client has to log in.
const LOGIN: Duration = Duration::from_secs(10);
/// Time a SQL client has to take a piece of an answer or to send the rest of a packet.
const PATIENCE: Duration = Duration::from_secs(30);

/// The users that may log in to the SQL server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlLogin {
    /// The users of the users file; without one, `root` with a password that is made and kept in the data folder.
    Users,
    /// Everyone, as operator; on loopback only.
    Everyone,
}

/// Serves SQL on a listener until [`Sql::stop`], as the future does that is returned; no connection is left when it
/// ends.
///
/// # Errors
/// The file of the generated password cannot be read or written.
pub fn serve(
    sql: Arc<Sql>,
    listener: TcpListener,
    login: SqlLogin,
    tls: Option<TlsAcceptor>,
) -> Result<impl Future<Output = ()> + Send> {
    let accounts = match login {
        SqlLogin::Users => SqlAccounts::users(&sql)?,
        SqlLogin::Everyone => SqlAccounts::open(&sql),
    };
    let config = sql.config();
    let limits = mysql::Limits {
        connections: config.mysql_connections_max,
        logins: LOGINS,
        packet: PACKET_MAX,
        login: LOGIN,
        idle: Duration::from_secs(config.mysql_idle_seconds_max),
        patience: PATIENCE,
    };
    let service = Arc::new(SqlService::new(&sql)?);
    Ok(mysql::serve(listener, service, Arc::new(accounts), tls, limits, sql.stop.clone()))
}
