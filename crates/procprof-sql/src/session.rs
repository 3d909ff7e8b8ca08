//! One client's session: runs its statements, and writes an audit line for each.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use procprof_core::auth::Principal;
use procprof_core::in_one_line;
use tokio_util::sync::CancellationToken;

use super::engine::{self, Engine};
use super::processlist::{ClientConnection, ClientConnections};
use super::session_info::SessionInfo;
use super::set::{self, Assignment, Given};
use super::statement::{Show, Statement, parse};
use super::variables::Variables;
use super::{DATABASE, admin, collect, show, show_filter, starrocks};
use crate::Sql;
use crate::mysql::{
    Caller, Column, Prepared, Service, Session, SqlError, SqlErrorKind, StatementResult, Transaction, Value,
};

/// Answers statements for all connections.
pub(crate) struct SqlService {
    sql: Arc<Sql>,
    clients: Arc<ClientConnections>,
    engine: Arc<Engine>,
    since: Instant,
}

impl SqlService {
    /// A service over a server.
    ///
    /// # Errors
    /// The engine of statements can't be made.
    pub(crate) fn new(sql: &Arc<Sql>) -> procprof_core::Result<SqlService> {
        let engine = Engine::new(sql)?;
        Ok(SqlService { sql: Arc::clone(sql), clients: Arc::default(), engine, since: Instant::now() })
    }
}

impl Service for SqlService {
    type Session = SqlSession;

    fn session(&self, caller: Caller) -> SqlSession {
        let client = self.clients.enter(caller);
        self.sql.metrics.sql_connections.inc();
        SqlSession {
            sql: Arc::clone(&self.sql),
            clients: Arc::clone(&self.clients),
            engine: Arc::clone(&self.engine),
            since: self.since,
            client,
            database: String::new(),
            variables: Variables::default(),
            in_transaction: false,
            failure: None,
            warnings: Vec::new(),
        }
    }
}

/// One connection.
pub(crate) struct SqlSession {
    sql: Arc<Sql>,
    clients: Arc<ClientConnections>,
    engine: Arc<Engine>,
    client: Arc<ClientConnection>,
    /// When statements were first answered.
    since: Instant,
    /// In use; empty for none.
    database: String,
    variables: Variables,
    /// Whether a transaction has begun, as clients see it.
    in_transaction: bool,
    /// Of the statement before this one.
    failure: Option<SqlError>,
    /// Also of that one.
    warnings: Vec<String>,
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        self.clients.leave(&self.client);
        self.sql.metrics.sql_connections.dec();
    }
}

impl SqlSession {
    /// The connection and user, for functions of a statement that return them.
    fn info(&self) -> SessionInfo<'_> {
        let Caller { connection, peer, principal } = &self.client.caller;
        let user = format!("{}@{}", principal.name, peer.ip());
        SessionInfo {
            user,
            connection: *connection,
            database: &self.database,
            variables: &self.variables,
            now: Timestamp::now(),
        }
    }

    async fn run(
        &mut self,
        text: &str,
        parameters: &[Value],
        cancel: CancellationToken,
    ) -> Result<StatementResult, SqlError> {
        let statement = parse(text)?;
        if !parameters.is_empty() && statement != Statement::Select {
            return Err(SqlError::new(SqlErrorKind::NotSupported, "parameters are taken by SELECT only"));
        }
        if !matches!(&statement, Statement::Show(show) if show.is_of_diagnostics()) {
            self.failure = None;
            self.warnings.clear();
        }
        match statement {
            Statement::Show(show) => {
                let answer = self.show(&show).await?;
                show_filter::filtered(&self.engine, &self.info(), &show, answer, cancel).await
            }
            Statement::Use(name) => self.use_database(&name).map(|()| StatementResult::done()),
            Statement::Set(assignments) => self.set(assignments, &cancel).await.map(|()| StatementResult::done()),
            Statement::Transaction { begins } => {
                self.in_transaction = begins;
                Ok(StatementResult::done())
            }
            Statement::Nothing => Ok(StatementResult::done()),
            Statement::Kill { connection, scope } => {
                self.clients.kill(&self.client.caller, connection, scope).map(|()| StatementResult::done())
            }
            Statement::AdminExecute { target, script } => {
                self.operates("ADMIN EXECUTE")?;
                admin::answer(&self.sql, &self.client.caller, &target, &script).await
            }
            Statement::Collect { what, nodes, seconds } => {
                self.operates("COLLECT")?;
                collect::answer(&self.sql, &self.client.caller.principal.name, &what, &nodes, seconds).await
            }
            Statement::Select => {
                let result = self.engine.select(&self.info(), text, parameters, cancel).await?;
                result.assigned.iter().try_for_each(|name| self.variables.lose_user(name))?;
                self.warnings = result.warnings;
                Ok(result.answer)
            }
        }
    }

    async fn show(&self, show: &Show) -> Result<StatementResult, SqlError> {
        if let Some(listed) = starrocks::show::answer(&self.sql, show).await {
            return listed;
        }
        let facts = show::Facts {
            sql: &self.sql,
            clients: &self.clients,
            caller: &self.client.caller,
            failure: self.failure.as_ref(),
            warnings: &self.warnings,
            variables: &self.variables,
            since: self.since,
        };
        engine::describe::answer(show, &self.database).unwrap_or_else(|| show::answer(&facts, show))
    }

    /// `SET`: all of it, or nothing.
    async fn set(&mut self, assignments: Vec<Assignment>, cancel: &CancellationToken) -> Result<(), SqlError> {
        let mut variables = self.variables.clone();
        for mut assignment in assignments {
            if let Assignment::System(_, given) | Assignment::User(_, given) = &mut assignment
                && let Given::Expression(expression) = given
            {
                *given = Given::Literal(self.engine.value(&self.info(), expression, cancel.clone()).await?);
            }
            set::assign(&mut variables, assignment)?;
        }
        self.variables = variables;
        Ok(())
    }

    fn operates(&self, what: &str) -> Result<(), SqlError> {
        match self.client.caller.principal.operates() {
            true => Ok(()),
            false => {
                let text = format!(
                    "Access denied; {what} needs the role operator, and {:?} is a viewer",
                    self.client.caller.principal.name
                );
                Err(SqlError::new(SqlErrorKind::Denied, text))
            }
        }
    }
}

impl Session for SqlSession {
    async fn query(&mut self, text: &str, parameters: &[Value]) -> Result<StatementResult, SqlError> {
        let running = self.client.begin(text);
        let answer = tokio::select! {
            () = running.cancel.cancelled() => Err(SqlError::new(SqlErrorKind::Killed, "Query execution was interrupted by KILL")),
            answer = self.run(text, parameters, running.cancel.clone()) => answer,
        };
        answer.inspect_err(|failure| self.failure = Some(failure.clone()))
    }

    async fn prepare(&mut self, text: &str) -> Result<Prepared, SqlError> {
        match parse(text)? {
            Statement::Select => self.engine.prepare(&self.info(), text, self.client.closed.child_token()).await,
            _ => Ok(Prepared { parameters: 0, columns: Vec::new() }),
        }
    }

    async fn columns(&mut self, table: &str) -> Result<Vec<Column>, SqlError> {
        engine::columns(table)
    }

    fn use_database(&mut self, name: &str) -> Result<(), SqlError> {
        match engine::is_database(name) {
            true => self.database = name.to_ascii_lowercase(),
            false => {
                return Err(SqlError::new(
                    SqlErrorKind::UnknownDatabase,
                    format!("unknown database {name:?}; there is {DATABASE:?}"),
                ));
            }
        }
        Ok(())
    }

    fn rights(&mut self, principal: Principal) {
        self.client = self.clients.enter(Caller { principal, ..self.client.caller.clone() });
    }

    fn reset(&mut self) {
        self.variables = Variables::default();
        self.in_transaction = false;
        self.failure = None;
        self.warnings.clear();
    }

    fn transaction(&self) -> Transaction {
        Transaction { autocommit: self.variables.autocommit(), open: self.in_transaction }
    }

    fn database(&self) -> &str {
        if self.database.is_empty() { DATABASE } else { &self.database }
    }

    fn killed(&self) -> CancellationToken {
        self.client.closed.clone()
    }

    fn ended(&mut self, rows: u64, outcome: Result<(), &SqlError>) {
        let Some(running) = self.client.end() else { return };
        let caller = &self.client.caller;
        self.sql.metrics.statement(outcome.is_ok(), rows, running.since.elapsed().as_secs_f64());
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
            in_one_line(&running.text)
        );
    }
}
