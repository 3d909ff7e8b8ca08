//! The readers of a client's bytes, for the fuzzer: nothing here may panic on any input.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use procprof_core::auth::{Principal, Refusal, UserRole};
use procprof_core::connection_slots::ConnectionSlots;
use procprof_core::shares::Shares;
use procprof_core::throttle::SharedThrottle;
use tokio::io::join;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::command::Command;
use super::connection::{Admission, Limits, run};
use super::greeting::First;
use super::login::{Handshakes, pending};
use super::prepared::Statements;
use super::{Accounts, Caller, Column, Prepared, Service, Session, SqlError, StatementResult, Transaction, Value};

/// Longest packet taken, in bytes.
const PACKET: usize = 64 * 1024;
/// No input takes as long.
const LONG: Duration = Duration::from_secs(3600);

/// Reads a payload as a client's answer to the greeting.
pub fn greeting(payload: &[u8]) {
    // Refused or not, it has been read.
    let _ = First::decode(payload);
}

/// Reads a payload as a command; the first byte is the number of an execution's parameters.
pub fn command(bytes: &[u8]) {
    let Some((parameters, payload)) = bytes.split_first() else { return };
    let mut statements = Statements::holding("SELECT", usize::from(*parameters));
    // Twice, as the second time may do without types.
    for _ in 0..2 {
        match Command::decode(payload) {
            Ok(Command::Execute(_, rest)) => drop(statements.execution(1, rest)),
            Ok(Command::LongData(_, parameter, bytes)) => statements.long_data(1, parameter, bytes),
            _ => {}
        }
    }
}

/// Serves a client that sends these bytes, packets with their heads, and goes; everyone is let in.
pub async fn connection(bytes: &[u8]) {
    let handshakes = Handshakes {
        accounts: Arc::new(Everyone),
        tls: None,
        key: OnceCell::new(),
        refusals: SharedThrottle::new(0, LONG),
    };
    let stream = join(std::io::Cursor::new(bytes.to_vec()), tokio::io::sink());
    let place = ConnectionSlots::new(1).enter().await;
    let pending = pending(stream, SocketAddr::from(([127, 0, 0, 1], 1)), LONG, Arc::clone(place.activity()));
    let limits = Limits { connections: 1, logins: 1, packet: PACKET, login: LONG, idle: LONG, patience: LONG };
    let admission = Admission { number: 1, place, shares: Shares::default() };
    run(&Arc::new(Echo), &handshakes, pending, admission, limits, CancellationToken::new()).await;
}

/// Gives each statement back as its own row.
struct Echo;

impl Service for Echo {
    type Session = Echo;

    fn session(&self, _caller: Caller) -> Echo {
        Echo
    }
}

impl Session for Echo {
    async fn query(&mut self, text: &str, parameters: &[Value]) -> Result<StatementResult, SqlError> {
        let mut row = vec![Value::from(text)];
        row.extend_from_slice(parameters);
        Ok(StatementResult::rows(vec![Column::text("text"); row.len()], vec![row]))
    }

    async fn prepare(&mut self, text: &str) -> Result<Prepared, SqlError> {
        Ok(Prepared { parameters: text.matches('?').count(), columns: vec![Column::text(text)] })
    }

    async fn columns(&mut self, table: &str) -> Result<Vec<Column>, SqlError> {
        Ok(vec![Column::text(table)])
    }

    fn use_database(&mut self, _name: &str) -> Result<(), SqlError> {
        Ok(())
    }

    fn rights(&mut self, _principal: Principal) {}

    fn reset(&mut self) {}

    fn transaction(&self) -> Transaction {
        Transaction { autocommit: true, open: false }
    }

    fn database(&self) -> &str {
        "procprof"
    }

    fn killed(&self) -> CancellationToken {
        CancellationToken::new()
    }

    fn ended(&mut self, _rows: u64, _outcome: Result<(), &SqlError>) {}
}

/// Accepts every user without a password, except `locked`; `olga` is an operator, all others are viewers.
pub(super) struct Everyone;

impl Accounts for Everyone {
    fn open(&self, user: &str) -> Option<Principal> {
        let role = if user == "olga" { UserRole::Operator } else { UserRole::Viewer };
        (user != "locked").then(|| Principal::new(user, role))
    }

    fn still(&self, principal: &Principal) -> Option<Principal> {
        Some(principal.clone())
    }

    fn native(&self, _user: &str) -> Option<[u8; 20]> {
        None
    }

    fn remembered(&self, _user: &str) -> Option<[u8; 32]> {
        None
    }

    fn checked(&self, _user: &str, _fits: bool, _from: SocketAddr) -> Result<Principal, Refusal> {
        Err(Refusal::Wrong)
    }

    async fn full(&self, _user: String, _password: String, _from: SocketAddr) -> Result<Principal, Refusal> {
        Err(Refusal::Wrong)
    }
}
