//! What reads a client's bytes, by itself, for the fuzzer: nothing here may panic, whatever they are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::join;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::command::Command;
use super::connection::{Bounds, run};
use super::greeting::First;
use super::login::{Desk, arrival};
use super::prepared::Statements;
use super::{Accounts, Answer, Caller, Column, Failure, Prepared, Service, Session, Value};
use crate::auth::{Principal, Refusal};

/// Longest packet taken, in bytes.
const PACKET: usize = 64 * 1024;
/// No input takes as long.
const LONG: Duration = Duration::from_secs(3600);

/// Reads a payload as a client's answer to the greeting.
pub fn greeting(payload: &[u8]) {
    // Refused or not, it has been read.
    let _ = First::decode(payload);
}

/// Reads a payload as a command; an execution has the parameters that the first byte says.
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
    let desk = Desk { accounts: Arc::new(Everyone), tls: None, key: OnceCell::new() };
    let stream = join(std::io::Cursor::new(bytes.to_vec()), tokio::io::sink());
    let arrival = arrival(stream, SocketAddr::from(([127, 0, 0, 1], 1)), LONG);
    let bounds = Bounds { login: LONG, idle: LONG, packet: PACKET };
    run(&Arc::new(Echo), &desk, arrival, 1, bounds, CancellationToken::new()).await;
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
    async fn query(&mut self, text: &str, parameters: &[Value]) -> Result<Answer, Failure> {
        let mut row = vec![Value::from(text)];
        row.extend_from_slice(parameters);
        Ok(Answer::rows(vec![Column::text("text"); row.len()], vec![row]))
    }

    async fn prepare(&mut self, text: &str) -> Result<Prepared, Failure> {
        Ok(Prepared { parameters: text.matches('?').count(), columns: vec![Column::text(text)] })
    }

    async fn columns(&mut self, table: &str) -> Result<Vec<Column>, Failure> {
        Ok(vec![Column::text(table)])
    }

    fn use_database(&mut self, _name: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn reset(&mut self) {}

    fn database(&self) -> &str {
        "procprof"
    }

    fn killed(&self) -> CancellationToken {
        CancellationToken::new()
    }

    fn ended(&mut self, _rows: u64, _outcome: Result<(), &Failure>) {}
}

struct Everyone;

impl Accounts for Everyone {
    fn open(&self, _user: &str) -> Option<Principal> {
        Some(Principal::local())
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
