//! One client, from its login to its end.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::answer::{Manner, put_failure, put_fields, put_ok, send};
use super::column::{Form, Value};
use super::command::Command;
use super::failure::{Failure, FailureKind};
use super::login::{Arrival, Desk, Turned};
use super::prepared::Statements;
use super::service::{Accounts, Caller, Service, Session};
use super::wire::Broken;

/// What a connection is bound by.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Time for the whole login.
    pub(super) login: Duration,
    /// Time without a command until the connection is closed.
    pub(super) idle: Duration,
    /// Longest packet taken after the login, in bytes.
    pub(super) packet: usize,
}

/// Serves a client until it leaves, is too slow, or the server stops.
pub(super) async fn run<S: Service, A: Accounts>(
    service: &Arc<S>,
    desk: &Desk<A>,
    mut arrival: Arrival,
    number: u32,
    bounds: Bounds,
    stop: CancellationToken,
) {
    let login = tokio::time::timeout(bounds.login, desk.greet(&mut arrival, number));
    let greeted = tokio::select! {
        () = stop.cancelled() => return,
        greeted = login => greeted,
    };
    let arrived = match greeted {
        Err(_) => return,
        Ok(Err(turned)) => return turn_away(&mut arrival, turned).await,
        Ok(Ok(arrived)) => arrived,
    };
    let caller = Caller { connection: number, peer: arrival.peer, principal: arrived.principal };
    let session = service.session(caller.clone());
    let capabilities = arrived.hello.capabilities;
    arrival.wire.take_up_to(bounds.packet);
    let mut client = Client { service, desk, arrival, caller, session, statements: Statements::default(), capabilities };
    let Ok(Next::Go) = client.welcome(arrived.hello.database.as_deref()).await else { return };
    let ended = tokio::select! {
        () = stop.cancelled() => {
            client.say(&Failure::new(FailureKind::Shutdown, "the server stops")).await;
            return;
        }
        ended = client.serve(bounds.idle) => ended,
    };
    match ended {
        Err(Broken::Slow) => tracing::info!("connection {number}: closed, nothing sent or taken for too long"),
        Err(Broken::Sequence) => tracing::info!("connection {number}: closed, packets out of order"),
        _ => {}
    }
    client.arrival.wire.close().await;
}

async fn turn_away(arrival: &mut Arrival, turned: Turned) {
    if let Turned::Away(failure) = turned {
        tracing::info!(peer = %arrival.peer, "login refused: {failure}");
        put_failure(&mut arrival.wire, &failure);
        // Whether it hears it makes no difference.
        let _ = arrival.wire.send().await;
        arrival.wire.close().await;
    }
}

struct Client<'a, S: Service, A> {
    service: &'a Arc<S>,
    desk: &'a Desk<A>,
    arrival: Arrival,
    caller: Caller,
    session: S::Session,
    statements: Statements,
    capabilities: u32,
}

/// What to do after a command.
enum Next {
    Go,
    Quit,
}

impl<S: Service, A: Accounts> Client<'_, S, A> {
    async fn serve(&mut self, idle: Duration) -> Result<(), Broken> {
        loop {
            self.arrival.wire.begin();
            let killed = self.session.killed();
            tokio::select! {
                () = killed.cancelled() => return Ok(()),
                waited = self.arrival.wire.wait(idle) => waited?,
            }
            let payload = match self.arrival.wire.read().await {
                Ok(payload) => payload,
                Err(Broken::TooLarge(max)) => {
                    self.say(&Failure::new(FailureKind::PacketTooLarge, format!("a packet of more than {max} bytes is not taken"))).await;
                    continue;
                }
                Err(broken) => return Err(broken),
            };
            match Command::decode(&payload) {
                Err(failure) => self.answer(Err(failure)).await?,
                Ok(command) => {
                    if let Next::Quit = self.obey(command).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn obey(&mut self, command: Command<'_>) -> Result<Next, Broken> {
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
            Command::Ping | Command::SetOption => self.answer(Ok(())).await?,
            Command::ResetConnection => {
                self.session.reset();
                self.statements = Statements::default();
                self.answer(Ok(())).await?;
            }
            Command::ChangeUser { user, database } => return self.change_user(&user, database).await,
        }
        Ok(Next::Go)
    }

    async fn query(&mut self, text: &str, values: &[Value], form: Form) -> Result<(), Broken> {
        let answer = tokio::select! {
            answer = self.session.query(text, values) => Some(answer),
            () = self.arrival.wire.gone() => None,
        };
        let gone = Failure::new(FailureKind::Killed, "the client has gone");
        let Some(answer) = answer else {
            self.session.ended(0, Err(&gone));
            return Err(Broken::Gone);
        };
        let manner = Manner { capabilities: self.capabilities, form };
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                self.session.ended(0, Err(&failure));
                return self.answer(Err(failure)).await;
            }
        };
        let schema = self.session.database().to_owned();
        match send(&mut self.arrival.wire, manner, &schema, answer).await {
            Ok((rows, ended)) => self.session.ended(rows, ended.as_ref().copied()),
            Err(broken) => {
                self.session.ended(0, Err(&gone));
                return Err(broken);
            }
        }
        Ok(())
    }

    async fn prepare(&mut self, text: String) -> Result<(), Broken> {
        let manner = Manner { capabilities: self.capabilities, form: Form::Binary };
        let kept = match self.session.prepare(&text).await {
            Ok(prepared) => self.statements.keep(&mut self.arrival.wire, manner, self.session.database(), text, &prepared),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = kept {
            put_failure(&mut self.arrival.wire, &failure);
        }
        self.arrival.wire.send().await
    }

    async fn field_list(&mut self, table: &str) -> Result<(), Broken> {
        let manner = Manner { capabilities: self.capabilities, form: Form::Text };
        match self.session.columns(table).await {
            Ok(columns) => put_fields(&mut self.arrival.wire, manner, &columns, self.session.database()),
            Err(failure) => put_failure(&mut self.arrival.wire, &failure),
        }
        self.arrival.wire.send().await
    }

    /// A line of text without a head, as the command's answer is.
    async fn statistics(&mut self) -> Result<(), Broken> {
        let text = format!("procprof {}", env!("CARGO_PKG_VERSION"));
        self.arrival.wire.put(|out| out.extend_from_slice(text.as_bytes()));
        self.arrival.wire.send().await
    }

    async fn change_user(&mut self, user: &str, database: Option<String>) -> Result<Next, Broken> {
        match self.desk.readmit(&mut self.arrival, user).await {
            Ok(principal) => {
                self.caller.principal = principal;
                self.session = self.service.session(self.caller.clone());
                self.statements = Statements::default();
                self.welcome(database.as_deref()).await
            }
            Err(Turned::Broken(broken)) => Err(broken),
            Err(turned) => {
                turn_away(&mut self.arrival, turned).await;
                Ok(Next::Quit)
            }
        }
    }

    /// The login's end: OK, unless the database asked for is unknown.
    async fn welcome(&mut self, database: Option<&str>) -> Result<Next, Broken> {
        match database.map_or(Ok(()), |name| self.session.use_database(name)) {
            Ok(()) => {
                self.answer(Ok(())).await?;
                Ok(Next::Go)
            }
            Err(failure) => {
                turn_away(&mut self.arrival, Turned::Away(failure)).await;
                Ok(Next::Quit)
            }
        }
    }

    async fn answer(&mut self, outcome: Result<(), Failure>) -> Result<(), Broken> {
        match outcome {
            Ok(()) => put_ok(&mut self.arrival.wire, 0, 0),
            Err(failure) => put_failure(&mut self.arrival.wire, &failure),
        }
        self.arrival.wire.send().await
    }

    /// Tells a failure to a client that may be gone.
    async fn say(&mut self, failure: &Failure) {
        put_failure(&mut self.arrival.wire, failure);
        let _ = self.arrival.wire.send().await;
    }
}
