//! Connections and what each runs: for `SHOW PROCESSLIST` and `KILL`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::statement::KillScope;
use crate::mysql::{Caller, SqlError, SqlErrorKind};

/// Characters of a statement that lists and the log show.
pub(super) const SHOWN: usize = 1000;

/// A connection.
pub(super) struct ClientConnection {
    pub(super) caller: Caller,
    /// Cancelled by `KILL CONNECTION`.
    pub(super) closed: CancellationToken,
    statement: Mutex<Option<Running>>,
}

/// The statement a connection runs.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) text: String,
    pub(super) since: Instant,
    /// Cancelled by `KILL`.
    pub(super) cancel: CancellationToken,
}

impl ClientConnection {
    pub(super) fn statement(&self) -> Option<Running> {
        self.statement.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A statement begins.
    pub(super) fn begin(&self, text: &str) -> Running {
        let running = Running {
            text: text.chars().take(SHOWN).collect(),
            since: Instant::now(),
            cancel: self.closed.child_token(),
        };
        *self.statement.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.clone());
        running
    }

    /// It has ended; what it was.
    pub(super) fn end(&self) -> Option<Running> {
        self.statement.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// All connections that are logged in.
#[derive(Default)]
pub(super) struct ClientConnections(Mutex<BTreeMap<u32, Arc<ClientConnection>>>);

impl ClientConnections {
    pub(super) fn enter(&self, caller: Caller) -> Arc<ClientConnection> {
        let client =
            Arc::new(ClientConnection { caller, closed: CancellationToken::new(), statement: Mutex::default() });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(client.caller.connection, Arc::clone(&client));
        client
    }

    pub(super) fn leave(&self, client: &Arc<ClientConnection>) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // After a change of user the same number identifies the new session.
        if clients.get(&client.caller.connection).is_some_and(|own| Arc::ptr_eq(own, client)) {
            clients.remove(&client.caller.connection);
        }
    }

    /// Those a caller may see: operators all, others their own.
    pub(super) fn seen_by(&self, caller: &Caller) -> Vec<Arc<ClientConnection>> {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.values().filter(|client| may_see(caller, client)).cloned().collect()
    }

    /// The connections there are, and those that run a statement.
    pub(super) fn count(&self) -> (usize, usize) {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (clients.len(), clients.values().filter(|client| client.statement().is_some()).count())
    }

    /// Ends a statement or a connection.
    ///
    /// # Errors
    /// There is no such connection, or it is another user's and the caller is no operator.
    pub(super) fn kill(&self, caller: &Caller, connection: u32, scope: KillScope) -> Result<(), SqlError> {
        let client = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&connection).cloned();
        let client = client
            .ok_or_else(|| SqlError::new(SqlErrorKind::UnknownThread, format!("unknown connection {connection}")))?;
        if !may_see(caller, &client) {
            return Err(SqlError::new(
                SqlErrorKind::Denied,
                format!("connection {connection} is another user's: only an operator may end it"),
            ));
        }
        match scope {
            KillScope::Connection => client.closed.cancel(),
            KillScope::Query => {
                if let Some(running) = client.statement() {
                    running.cancel.cancel();
                }
            }
        }
        Ok(())
    }
}

fn may_see(caller: &Caller, client: &ClientConnection) -> bool {
    caller.principal.operates() || client.caller.principal.name == caller.principal.name
}
