//! One client's session: runs its statements, and writes an audit line for each.

use std::sync::Arc;

use super::running::{Client, Clients};
use super::statement::{Show, Statement, parse};
use super::{DATABASE, admin, collect, show, variables};
use crate::app::App;
use crate::mysql::{Answer, Caller, Column, Failure, FailureKind, Prepared, Service, Session, Value};

/// Answers statements for all connections.
pub(crate) struct SqlService {
    app: Arc<App>,
    clients: Arc<Clients>,
}

impl SqlService {
    /// A service over a server.
    pub(crate) fn new(app: &Arc<App>) -> SqlService {
        SqlService { app: Arc::clone(app), clients: Arc::default() }
    }
}

impl Service for SqlService {
    type Session = SqlSession;

    fn session(&self, caller: Caller) -> SqlSession {
        let client = self.clients.enter(caller);
        SqlSession { app: Arc::clone(&self.app), clients: Arc::clone(&self.clients), client, database: String::new(), warnings: Vec::new() }
    }
}

/// One connection.
pub(crate) struct SqlSession {
    app: Arc<App>,
    clients: Arc<Clients>,
    client: Arc<Client>,
    database: String,
    /// Of the statement before this one.
    warnings: Vec<String>,
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        self.clients.leave(&self.client);
    }
}

impl SqlSession {
    async fn run(&mut self, text: &str, parameters: &[Value]) -> Result<Answer, Failure> {
        let statement = parse(text)?;
        if !parameters.is_empty() && statement != Statement::Select {
            return Err(Failure::new(FailureKind::NotSupported, "parameters are taken by SELECT only"));
        }
        if !matches!(&statement, Statement::Show(Show { what, .. }) if what == "warnings" || what == "errors") {
            self.warnings.clear();
        }
        match statement {
            Statement::Show(show) => show::answer(&self.app, &self.clients, &self.client.caller, &self.warnings, &show),
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
            Statement::Select | Statement::Describe(_) => Err(unfinished("SELECT")),
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
        tokio::select! {
            () = running.cancel.cancelled() => Err(Failure::new(FailureKind::Killed, "Query execution was interrupted by KILL")),
            answer = self.run(text, parameters) => answer,
        }
    }

    async fn prepare(&mut self, text: &str) -> Result<Prepared, Failure> {
        let parameters = super::token::tokens(text)?.iter().filter(|token| token.is_symbol('?')).count();
        parse(text)?;
        Ok(Prepared { parameters, columns: Vec::new() })
    }

    async fn columns(&mut self, _table: &str) -> Result<Vec<Column>, Failure> {
        Err(unfinished("SELECT"))
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
        self.warnings.clear();
    }

    fn database(&self) -> &str {
        if self.database.is_empty() { DATABASE } else { &self.database }
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

fn unfinished(what: &str) -> Failure {
    Failure::new(FailureKind::NotSupported, format!("{what} is not offered yet"))
}
