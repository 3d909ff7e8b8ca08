//! One client, from its login to its end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use procprof_core::auth::{Principal, network};
use procprof_core::connection_slots::ConnectionSlot;
use procprof_core::shares::{NoShare, Requester, Share, Shares};
use procprof_core::throttle::SharedThrottle;
use tokio_util::sync::CancellationToken;

use super::column::{Form, Value};
use super::command::Command;
use super::error::{SqlError, SqlErrorKind};
use super::greeting::can;
use super::login::{Handshakes, LoginFailure, PendingConnection};
use super::prepared::Statements;
use super::response::{ResponseStyle, put_end, put_failure, put_fields, put_ok, send};
use super::service::{Accounts, Caller, Service, Session};
use super::wire::Broken;

/// Time a client has to read that the server stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// The limits of all connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections that are logged in at a time; one more is refused. A user has a quarter of them, and a quarter is
    /// kept for operators.
    pub(crate) connections: u64,
    /// Connections on their way in at a time: the one that has been so the longest, silent ones first, gives way to one
    /// more.
    pub(crate) logins: usize,
    /// Longest packet taken from who has logged in, in bytes.
    pub(crate) packet: usize,
    /// Time for the whole login.
    pub(crate) login: Duration,
    /// Time without a command until a connection is closed.
    pub(crate) idle: Duration,
    /// Time a client has to take a piece of an answer, or to send the rest of a packet.
    pub(crate) patience: Duration,
}

/// The number of a connection, and what limits how many there are.
pub(super) struct Admission {
    pub(super) number: u32,
    /// Among those that have not logged in.
    pub(super) place: ConnectionSlot,
    /// For those that have.
    pub(super) shares: Shares,
}

/// Serves a client until it leaves, is too slow, or the server stops.
pub(super) async fn run<S: Service, A: Accounts>(
    service: &Arc<S>,
    handshakes: &Handshakes<A>,
    mut pending: PendingConnection,
    admission: Admission,
    limits: Limits,
    stop: CancellationToken,
) {
    let Admission { number, place, shares } = admission;
    let login = tokio::time::timeout(limits.login, handshakes.greet(&mut pending, number));
    let greeted = tokio::select! {
        () = stop.cancelled() => return,
        () = place.given_up().cancelled() => return,
        greeted = login => greeted,
    };
    let arrived = match greeted {
        Err(_) => return,
        Ok(Err(failure)) => return refuse(&handshakes.refusals, &mut pending, failure).await,
        Ok(Ok(arrived)) => arrived,
    };
    drop(place);
    let taken = take_share(&shares, &arrived.principal, pending.peer.ip(), limits.connections);
    let share = match taken {
        Ok(share) => share,
        Err(failure) => return refuse(&handshakes.refusals, &mut pending, LoginFailure::Refused(failure)).await,
    };
    let caller = Caller { connection: number, peer: pending.peer, principal: arrived.principal };
    let session = service.session(caller.clone());
    let capabilities = arrived.hello.capabilities;
    pending.wire.take_up_to(limits.packet);
    let mut client = CommandLoop {
        service,
        handshakes,
        pending,
        caller,
        session,
        statements: Statements::default(),
        capabilities,
        shares,
        share,
        connections_max: limits.connections,
    };
    let Ok(Next::Go) = client.welcome(arrived.hello.database.as_deref()).await else { return };
    if capabilities & can::COMPRESS != 0 {
        client.pending.wire.compress();
    }
    let ended = tokio::select! {
        () = stop.cancelled() => {
            let farewell = SqlError::new(SqlErrorKind::Shutdown, "the server stops");
            // A client that does not read does not keep the server from ending.
            let _ = tokio::time::timeout(FAREWELL, client.send_failure(&farewell)).await;
            return;
        }
        ended = client.serve(limits.idle) => ended,
    };
    match ended {
        Err(Broken::Slow) => tracing::info!("connection {number}: closed, nothing sent or taken for too long"),
        Err(Broken::Sequence) => tracing::info!("connection {number}: closed, packets out of order"),
        _ => {}
    }
    client.pending.wire.close().await;
}

/// Why one more is not let in.
pub(super) fn full(connections: u64) -> SqlError {
    SqlError::new(SqlErrorKind::TooManyConnections, format!("all {connections} connections are taken"))
}

/// A connection of the share of a user.
fn take_share(shares: &Shares, principal: &Principal, from: IpAddr, connections_max: u64) -> Result<Share, SqlError> {
    shares.take(&Requester::new(principal, from), 1, connections_max).map_err(|full_share| match full_share {
        NoShare::Own { limit } => SqlError::new(
            SqlErrorKind::TooManyUserConnections,
            format!("user '{}' has {limit} connections already, a quarter of all", principal.name),
        ),
        NoShare::Pool { limit, .. } => full(limit),
    })
}

/// Sends a client the reason for its refusal, and logs it no more often than `refusals` permits.
pub(super) async fn refuse(refusals: &SharedThrottle<IpAddr>, pending: &mut PendingConnection, failure: LoginFailure) {
    if let LoginFailure::Refused(failure) = failure {
        if let Some(held) = refusals.pass(&network(pending.peer.ip())) {
            tracing::warn!("refused {}: SQL login: {failure}{held}", pending.peer.ip());
        }
        put_failure(&mut pending.wire, &failure);
        // An error means that the client is gone.
        let _ = pending.wire.send().await;
        pending.wire.close().await;
    }
}

struct CommandLoop<'a, S: Service, A> {
    service: &'a Arc<S>,
    handshakes: &'a Handshakes<A>,
    pending: PendingConnection,
    caller: Caller,
    session: S::Session,
    statements: Statements,
    capabilities: u32,
    shares: Shares,
    /// The connection's part of its user's share.
    share: Share,
    connections_max: u64,
}

/// The next step after a command.
enum Next {
    Go,
    Quit,
}

impl<S: Service, A: Accounts> CommandLoop<'_, S, A> {
    async fn serve(&mut self, idle: Duration) -> Result<(), Broken> {
        loop {
            self.pending.wire.begin();
            let killed = self.session.killed();
            tokio::select! {
                () = killed.cancelled() => return Ok(()),
                waited = self.pending.wire.wait(idle) => waited?,
            }
            let payload = match self.pending.wire.read().await {
                Ok(payload) => payload,
                Err(Broken::TooLarge(max)) => {
                    self.send_failure(&SqlError::new(
                        SqlErrorKind::PacketTooLarge,
                        format!("a packet of more than {max} bytes is not taken"),
                    ))
                    .await;
                    continue;
                }
                Err(broken) => return Err(broken),
            };
            match Command::decode(&payload) {
                Err(failure) => self.answer(Err(failure)).await?,
                Ok(command) => {
                    if let Next::Quit = self.execute(command).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn execute(&mut self, command: Command<'_>) -> Result<Next, Broken> {
        if command.needs_rights()
            && let Err(failure) = self.take_rights()
        {
            self.answer(Err(failure)).await?;
            return Ok(Next::Go);
        }
        match command {
            Command::Quit => return Ok(Next::Quit),
            Command::Query(text) => self.query(&text, &[], Form::Text).await?,
            Command::Execute(number, rest) => match self.statements.execution(number, rest) {
                Ok((text, values)) => self.query(&text, &values, Form::Binary).await?,
                Err(failure) => self.answer(Err(failure)).await?,
            },
            Command::Prepare(text) => self.prepare(text).await?,
            Command::LongData(number, parameter, bytes) => self.statements.long_data(number, parameter, bytes),
            Command::Close(number) => self.statements.close(number),
            Command::ResetStatement(number) => {
                let reset = self.statements.reset(number);
                self.answer(reset).await?;
            }
            Command::UseDatabase(name) => {
                let used = self.session.use_database(&name);
                self.answer(used).await?;
            }
            Command::FieldList(table) => self.field_list(&table).await?,
            Command::Kill(number) => self.query(&format!("KILL {number}"), &[], Form::Text).await?,
            Command::ProcessList => self.query("SHOW PROCESSLIST", &[], Form::Text).await?,
            Command::Statistics => self.statistics().await?,
            Command::Ping => self.answer(Ok(())).await?,
            Command::SetOption => {
                let style = self.style(Form::Text);
                put_end(&mut self.pending.wire, style, 0);
                self.pending.wire.send().await?;
            }
            Command::ResetConnection => {
                self.session.reset();
                self.statements = Statements::default();
                self.answer(Ok(())).await?;
            }
            Command::ChangeUser { user, database } => return self.change_user(&user, database).await,
        }
        Ok(Next::Go)
    }

    /// Takes what the user may do as of now: users come and go while connections stay.
    fn take_rights(&mut self) -> Result<(), SqlError> {
        let own = &self.caller.principal;
        let why = || format!("Access denied: user '{}' was removed or has another password; log in again", own.name);
        let gone = || SqlError::new(SqlErrorKind::Login, why());
        let now = self.handshakes.accounts.still(own).ok_or_else(gone)?;
        if now != *own {
            self.caller.principal = now.clone();
            self.session.rights(now);
        }
        Ok(())
    }

    async fn query(&mut self, text: &str, values: &[Value], form: Form) -> Result<(), Broken> {
        let answer = tokio::select! {
            answer = self.session.query(text, values) => Some(answer),
            () = self.pending.wire.gone() => None,
        };
        let gone = SqlError::new(SqlErrorKind::Killed, "the client has gone");
        let Some(answer) = answer else {
            self.session.ended(0, Err(&gone));
            return Err(Broken::Gone);
        };
        let style = self.style(form);
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                self.session.ended(0, Err(&failure));
                return self.answer(Err(failure)).await;
            }
        };
        let schema = self.session.database().to_owned();
        match send(&mut self.pending.wire, style, &schema, answer).await {
            Ok((rows, ended)) => self.session.ended(rows, ended.as_ref().copied()),
            Err(broken) => {
                self.session.ended(0, Err(&gone));
                return Err(broken);
            }
        }
        Ok(())
    }

    async fn prepare(&mut self, text: String) -> Result<(), Broken> {
        let prepared = self.session.prepare(&text).await;
        let style = self.style(Form::Binary);
        let kept = match prepared {
            Ok(prepared) => {
                self.statements.keep(&mut self.pending.wire, style, self.session.database(), text, &prepared)
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = kept {
            put_failure(&mut self.pending.wire, &failure);
        }
        self.pending.wire.send().await
    }

    async fn field_list(&mut self, table: &str) -> Result<(), Broken> {
        let style = self.style(Form::Text);
        match self.session.columns(table).await {
            Ok(columns) => put_fields(&mut self.pending.wire, style, &columns, self.session.database()),
            Err(failure) => put_failure(&mut self.pending.wire, &failure),
        }
        self.pending.wire.send().await
    }

    fn style(&self, form: Form) -> ResponseStyle {
        ResponseStyle { capabilities: self.capabilities, form, transaction: self.session.transaction() }
    }

    /// A line of text without a head, as the command's answer is.
    async fn statistics(&mut self) -> Result<(), Broken> {
        let text = format!("procprof {}", env!("CARGO_PKG_VERSION"));
        self.pending.wire.put(|out| out.extend_from_slice(text.as_bytes()));
        self.pending.wire.send().await
    }

    async fn change_user(&mut self, user: &str, database: Option<String>) -> Result<Next, Broken> {
        match self.handshakes.readmit(&mut self.pending, user).await {
            Ok(principal) => {
                let from = self.pending.peer.ip();
                if Requester::new(&principal, from) != *self.share.requester() {
                    match take_share(&self.shares, &principal, from, self.connections_max) {
                        Ok(share) => self.share = share,
                        Err(failure) => {
                            refuse(&self.handshakes.refusals, &mut self.pending, LoginFailure::Refused(failure)).await;
                            return Ok(Next::Quit);
                        }
                    }
                }
                self.caller.principal = principal;
                self.session = self.service.session(self.caller.clone());
                self.statements = Statements::default();
                self.welcome(database.as_deref()).await
            }
            Err(LoginFailure::Broken(broken)) => Err(broken),
            Err(failure) => {
                refuse(&self.handshakes.refusals, &mut self.pending, failure).await;
                Ok(Next::Quit)
            }
        }
    }

    /// The login's end: OK, unless the requested database is unknown.
    async fn welcome(&mut self, database: Option<&str>) -> Result<Next, Broken> {
        match database.map_or(Ok(()), |name| self.session.use_database(name)) {
            Ok(()) => {
                self.answer(Ok(())).await?;
                Ok(Next::Go)
            }
            Err(failure) => {
                refuse(&self.handshakes.refusals, &mut self.pending, LoginFailure::Refused(failure)).await;
                Ok(Next::Quit)
            }
        }
    }

    async fn answer(&mut self, outcome: Result<(), SqlError>) -> Result<(), Broken> {
        let style = self.style(Form::Text);
        match outcome {
            Ok(()) => put_ok(&mut self.pending.wire, style, 0, 0),
            Err(failure) => put_failure(&mut self.pending.wire, &failure),
        }
        self.pending.wire.send().await
    }

    /// Sends a failure to a client that may be gone.
    async fn send_failure(&mut self, failure: &SqlError) {
        put_failure(&mut self.pending.wire, failure);
        let _ = self.pending.wire.send().await;
    }
}
