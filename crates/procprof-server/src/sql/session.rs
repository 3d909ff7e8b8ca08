//! One client's session: runs its statements, and writes an audit line for each.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::running::{Client, Clients};
use super::select::{self, Asker, Engine};
use super::statement::{Statement, parse};
use super::{DATABASE, admin, collect, describe, fe, show, variables};
use crate::app::App;
use crate::mysql::{Answer, Caller, Column, Failure, FailureKind, Prepared, Service, Session, Value};

/// Answers statements for all connections.
pub(crate) struct SqlService {
    app: Arc<App>,
    clients: Arc<Clients>,
    engine: Arc<Engine>,
}

impl SqlService {
    /// A service over a server.
    pub(crate) fn new(app: &Arc<App>) -> SqlService {
        SqlService { app: Arc::clone(app), clients: Arc::default(), engine: Engine::new(app) }
    }
}

impl Service for SqlService {
    type Session = SqlSession;

    fn session(&self, caller: Caller) -> SqlSession {
        let client = self.clients.enter(caller);
        SqlSession {
            app: Arc::clone(&self.app),
            clients: Arc::clone(&self.clients),
            engine: Arc::clone(&self.engine),
            client,
            database: String::new(),
            failure: None,
        }
    }
}

/// One connection.
pub(crate) struct SqlSession {
    app: Arc<App>,
    clients: Arc<Clients>,
    engine: Arc<Engine>,
    client: Arc<Client>,
    /// In use; empty for none.
    database: String,
    /// Of the statement before this one.
    failure: Option<Failure>,
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        self.clients.leave(&self.client);
    }
}

impl SqlSession {
    /// Who asks, for statements that ask back.
    fn asker(&self) -> Asker<'_> {
        let Caller { connection, peer, principal } = &self.client.caller;
        let user = format!("{}@{}", principal.name, peer.ip());
        Asker { user, connection: *connection, database: &self.database, now: jiff::Timestamp::now() }
    }

    async fn run(&mut self, text: &str, parameters: &[Value], cancel: CancellationToken) -> Result<Answer, Failure> {
        let statement = parse(text)?;
        if !parameters.is_empty() && statement != Statement::Select {
            return Err(Failure::new(FailureKind::NotSupported, "parameters are taken by SELECT only"));
        }
        if !matches!(&statement, Statement::Show(show) if show.is_of_diagnostics()) {
            self.failure = None;
        }
        match statement {
            Statement::Show(show) => {
                if let Some(listed) = fe::show::answer(&self.app, &show).await {
                    return listed;
                }
                let about_tables = describe::answer(&show, &self.database);
                about_tables.unwrap_or_else(|| show::answer(&self.app, &self.clients, &self.client.caller, self.failure.as_ref(), &show))
            }
            Statement::Use(name) => self.use_database(&name).map(|()| Answer::done()),
            Statement::Set(_) | Statement::Nothing => Ok(Answer::done()),
            Statement::Kill { connection, scope } => self.clients.kill(&self.client.caller, connection, scope).map(|()| Answer::done()),
            Statement::AdminExecute { target, script } => {
                self.operates("ADMIN EXECUTE")?;
                admin::answer(&self.app, &self.client.caller.principal.name, &target, &script).await
            }
            Statement::Collect { what, nodes, seconds } => {
                self.operates("COLLECT")?;
                collect::answer(&self.app, &self.client.caller.principal.name, &what, &nodes, seconds).await
            }
            Statement::Select => self.engine.select(&self.asker(), text, parameters, cancel).await,
            Statement::Describe(table) => describe::describe(&table),
        }
    }

    fn operates(&self, what: &str) -> Result<(), Failure> {
        match self.client.caller.principal.operates() {
            true => Ok(()),
            false => {
                let text =
                    format!("Access denied; {what} needs the role operator, and {:?} is a viewer", self.client.caller.principal.name);
                Err(Failure::new(FailureKind::Denied, text))
            }
        }
    }
}

impl Session for SqlSession {
    async fn query(&mut self, text: &str, parameters: &[Value]) -> Result<Answer, Failure> {
        let running = self.client.begin(text);
        let answer = tokio::select! {
            () = running.cancel.cancelled() => Err(Failure::new(FailureKind::Killed, "Query execution was interrupted by KILL")),
            answer = self.run(text, parameters, running.cancel.clone()) => answer,
        };
        answer.inspect_err(|failure| self.failure = Some(failure.clone()))
    }

    async fn prepare(&mut self, text: &str) -> Result<Prepared, Failure> {
        match parse(text)? {
            Statement::Select => self.engine.prepare(&self.asker(), text).await,
            _ => Ok(Prepared { parameters: 0, columns: Vec::new() }),
        }
    }

    async fn columns(&mut self, table: &str) -> Result<Vec<Column>, Failure> {
        select::columns(table)
    }

    fn use_database(&mut self, name: &str) -> Result<(), Failure> {
        match variables::is_database(name) {
            true => self.database = name.to_ascii_lowercase(),
            false => return Err(Failure::new(FailureKind::UnknownDatabase, format!("unknown database {name:?}; there is {DATABASE:?}"))),
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.database.clear();
        self.failure = None;
    }

    fn database(&self) -> &str {
        if self.database.is_empty() { DATABASE } else { &self.database }
    }

    fn killed(&self) -> CancellationToken {
        self.client.closed.clone()
    }

    fn ended(&mut self, rows: u64, outcome: Result<(), &Failure>) {
        let Some(running) = self.client.end() else { return };
        let caller = &self.client.caller;
        let outcome = outcome.map_or_else(ToString::to_string, |()| "ok".to_owned());
        tracing::info!(
            target: "sql",
            user = %caller.principal.name,
            from = %caller.peer,
            connection = caller.connection,
            milliseconds = running.since.elapsed().as_millis() as u64,
            rows,
            outcome,
            "{}",
            one_line(&running.text)
        );
    }
}

/// A statement for the log: no line of it can look like another entry.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
