//! The statements there are, parsed from tokens.
//!
//! ```text
//! ADMIN EXECUTE ON (FRONTEND | id, … | ALL BACKENDS | ALL COMPUTE NODES) 'script'
//! COLLECT CPU | WALL | OFF_CPU | ALLOC | HEAP | CONTENTION | MUTEX | GOROUTINE | GOROUTINELEAK
//!         ON node, … [FOR n SECONDS]
//! KILL [CONNECTION | QUERY] n
//! SHOW [FULL] what [FROM …] [LIKE 'pattern']         USE name        SET …
//! SELECT … | WITH … | VALUES … | EXPLAIN SELECT …    left to the tables
//! DESCRIBE table
//! BEGIN, COMMIT, ROLLBACK, START TRANSACTION, …      accepted, without effect
//! ```

use super::set::{self, Assignment};
use super::token::{Token, TokenKind, tokens};
use crate::mysql::{SqlError, SqlErrorKind};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement {
    AdminExecute {
        target: Target,
        script: String,
    },
    Collect {
        what: String,
        nodes: Vec<String>,
        seconds: Option<u32>,
    },
    Kill {
        connection: u32,
        scope: KillScope,
    },
    Show(Show),
    Use(String),
    Set(Vec<Assignment>),
    /// Left to the tables, as written.
    Select,
    /// `BEGIN`, `COMMIT`, `ROLLBACK`: clients are shown a transaction, though there is nothing to change.
    Transaction {
        /// Whether one is open afterwards.
        begins: bool,
    },
    /// Does nothing, as there is nothing to change.
    Nothing,
}

/// The scope of `KILL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillScope {
    /// The statement.
    Query,
    /// The connection with it.
    Connection,
}

/// The nodes of `ADMIN EXECUTE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Frontend,
    Ids(Vec<u64>),
    AllBackends,
    AllComputeNodes,
}

/// A `SHOW` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Show {
    /// Its words after `SHOW`, lowercase, without `FULL`, `SESSION` and the like: `backends`, `compute nodes`, `proc`.
    pub(super) what: String,
    /// The name behind `FROM` or `IN`, or the text behind `PROC`.
    pub(super) of: Option<String>,
    /// The pattern behind `LIKE`.
    pub(super) like: Option<String>,
    /// Whether it has `FULL`.
    pub(super) full: bool,
    /// Whether it has `GLOBAL`.
    pub(super) global: bool,
    /// The condition behind `WHERE`, as written.
    pub(super) condition: Option<String>,
}

impl Show {
    /// Whether it is about the statement before it.
    pub(super) fn is_of_diagnostics(&self) -> bool {
        matches!(self.what.as_str(), "warnings" | "errors" | "count warnings" | "count errors")
    }
}

/// Words that select a variant, and change nothing here.
const SCOPES: &[&str] = &["session", "local", "extended", "storage", "binary"];

/// Parses a statement; `;` at its end is allowed.
///
/// # Errors
/// [`SqlErrorKind::Syntax`] with the place, or [`SqlErrorKind::NotSupported`] for what is SQL but not offered.
pub(super) fn parse(text: &str) -> Result<Statement, SqlError> {
    let mut tokens = tokens(text)?;
    while tokens.last().is_some_and(|token| token.is_symbol(';')) {
        tokens.pop();
    }
    let Some(first) = tokens.first() else { return Err(SqlError::new(SqlErrorKind::Syntax, "the statement is empty")) };
    let TokenKind::Word(word) = &first.kind else {
        // A parenthesis may begin a SELECT.
        return if first.is_symbol('(') {
            Ok(Statement::Select)
        } else {
            Err(unexpected(text, Some(first), "a statement"))
        };
    };
    let word = word.to_ascii_lowercase();
    let mut parser = Parser { text, tokens: &tokens, at: 1 };
    let statement = match word.as_str() {
        "select" | "with" | "values" => return Ok(Statement::Select),
        "explain" | "describe" | "desc" if parser.begins_query() => return Ok(Statement::Select),
        "explain" | "describe" | "desc" if parser.takes("extended") && parser.begins_query() => {
            return Ok(Statement::Select);
        }
        "admin" => parser.admin()?,
        "collect" => parser.collect()?,
        "kill" => parser.kill()?,
        "show" => return parser.show().map(Statement::Show),
        "explain" | "describe" | "desc" => Statement::Show(parser.described()?),
        "use" => Statement::Use(parser.name("a database")?),
        "set" => return set::assignments(text, &tokens[1..]).map(Statement::Set),
        // Of slaves and the like.
        "start" if !parser.takes("transaction") => return Err(not_offered(&word, text, first)),
        "begin" | "start" => return Ok(Statement::Transaction { begins: true }),
        "rollback" if tokens.iter().any(|token| token.is("to")) => return Ok(Statement::Nothing),
        "commit" | "rollback" => return Ok(Statement::Transaction { begins: is_chained(&tokens) }),
        "savepoint" | "release" | "lock" | "unlock" | "flush" | "do" => return Ok(Statement::Nothing),
        _ => return Err(not_offered(&word, text, first)),
    };
    parser.end()?;
    Ok(statement)
}

/// `COMMIT AND CHAIN`.
fn is_chained(tokens: &[Token]) -> bool {
    tokens.windows(2).any(|pair| pair[0].is("and") && pair[1].is("chain"))
}

/// The error for a known statement that would change something, and for text that is no SQL at all.
fn not_offered(word: &str, text: &str, first: &Token) -> SqlError {
    const REFUSED: &[&str] = &[
        "insert", "update", "delete", "replace", "create", "drop", "alter", "truncate", "grant", "revoke", "load",
        "attach", "detach", "pragma", "vacuum", "handler", "analyze", "optimize", "rename", "reindex", "install",
        "shutdown",
    ];
    if REFUSED.contains(&word) {
        let text = format!("{} is not offered: the tables are read-only", word.to_ascii_uppercase());
        return SqlError::new(SqlErrorKind::NotSupported, text);
    }
    let why = match word {
        "call" => "there are no stored procedures",
        "prepare" | "execute" | "deallocate" => "statements are prepared by the protocol of MySQL",
        _ => return unexpected(text, Some(first), "ADMIN EXECUTE, COLLECT, KILL, SELECT, SET, SHOW or USE"),
    };
    SqlError::new(SqlErrorKind::NotSupported, format!("{} is not offered: {why}", word.to_ascii_uppercase()))
}

fn unexpected(text: &str, token: Option<&Token>, wanted: &str) -> SqlError {
    let failure = match token {
        None => format!("expected {wanted} at the end of the statement"),
        Some(token) => {
            let near: String = text[token.span.start..].chars().take(40).collect();
            format!("expected {wanted} near '{near}' (byte {})", token.span.start + 1)
        }
    };
    SqlError::new(SqlErrorKind::Syntax, failure)
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn unexpected(&self, wanted: &str) -> SqlError {
        unexpected(self.text, self.peek(), wanted)
    }

    /// Takes the word if it is next.
    fn takes(&mut self, word: &str) -> bool {
        let here = self.peek().is_some_and(|token| token.is(word));
        self.at += usize::from(here);
        here
    }

    fn takes_symbol(&mut self, symbol: char) -> bool {
        let here = self.peek().is_some_and(|token| token.is_symbol(symbol));
        self.at += usize::from(here);
        here
    }

    fn expect(&mut self, words: &[&str]) -> Result<(), SqlError> {
        for word in words {
            if !self.takes(word) {
                return Err(self.unexpected(word.to_ascii_uppercase().as_str()));
            }
        }
        Ok(())
    }

    fn end(&self) -> Result<(), SqlError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("the end of the statement")),
        }
    }

    fn number<N: std::str::FromStr>(&mut self, wanted: &str) -> Result<N, SqlError> {
        let number = match self.peek().map(|token| &token.kind) {
            Some(TokenKind::Number(digits)) => digits.parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.unexpected(wanted))?;
        self.at += 1;
        Ok(number)
    }

    fn string(&mut self, wanted: &str) -> Result<String, SqlError> {
        let Some(TokenKind::Text(text)) = self.peek().map(|token| &token.kind) else {
            return Err(self.unexpected(wanted));
        };
        self.at += 1;
        Ok(text.clone())
    }

    /// A word, a name in backquotes, or a text.
    fn name(&mut self, wanted: &str) -> Result<String, SqlError> {
        let name = match self.peek().map(|token| &token.kind) {
            Some(TokenKind::Word(name) | TokenKind::Name(name) | TokenKind::Text(name) | TokenKind::Number(name)) => {
                name.clone()
            }
            _ => return Err(self.unexpected(wanted)),
        };
        self.at += 1;
        Ok(name)
    }

    /// Whether a query is next.
    fn begins_query(&self) -> bool {
        self.peek()
            .is_some_and(|token| token.is_symbol('(') || ["select", "with", "values"].iter().any(|word| token.is(word)))
    }

    /// A table, with its database if it has one.
    fn table(&mut self) -> Result<String, SqlError> {
        let name = self.name("a table")?;
        match self.takes_symbol('.') {
            true => Ok(format!("{name}.{}", self.name("a table")?)),
            false => Ok(name),
        }
    }

    /// `DESCRIBE table [column | 'pattern']`: the columns of a table.
    fn described(&mut self) -> Result<Show, SqlError> {
        let of = Some(self.table()?);
        let like = match self.peek() {
            None => None,
            Some(Token { kind: TokenKind::Text(pattern), .. }) => {
                self.at += 1;
                Some(pattern.clone())
            }
            Some(_) => Some(self.name("a column, or a pattern in quotes")?.replace('%', "\\%").replace('_', "\\_")),
        };
        Ok(Show { what: "columns".to_owned(), of, like, full: false, global: false, condition: None })
    }

    fn admin(&mut self) -> Result<Statement, SqlError> {
        self.expect(&["execute", "on"])?;
        let target = self.target()?;
        let script = self.string("the script in quotes")?;
        Ok(Statement::AdminExecute { target, script })
    }

    fn target(&mut self) -> Result<Target, SqlError> {
        if self.takes("frontend") {
            return Ok(Target::Frontend);
        }
        if self.takes("all") {
            if self.takes("backends") {
                return Ok(Target::AllBackends);
            }
            self.expect(&["compute", "nodes"])?;
            return Ok(Target::AllComputeNodes);
        }
        let wanted = "a node's id, ALL BACKENDS, ALL COMPUTE NODES or FRONTEND";
        let mut ids = vec![self.number(wanted)?];
        while self.takes_symbol(',') {
            ids.push(self.number("a node's id")?);
        }
        Ok(Target::Ids(ids))
    }

    fn collect(&mut self) -> Result<Statement, SqlError> {
        let what = self
            .name("CPU, WALL, OFF_CPU, ALLOC, HEAP, CONTENTION, MUTEX, GOROUTINE or GOROUTINELEAK")?
            .to_ascii_lowercase();
        self.expect(&["on"])?;
        let mut nodes = vec![self.node()?];
        while self.takes_symbol(',') {
            nodes.push(self.node()?);
        }
        let seconds = match self.takes("for") {
            true => Some(self.number("a number of seconds")?),
            false => None,
        };
        if seconds.is_some() && !self.takes("second") {
            self.expect(&["seconds"])?;
        }
        Ok(Statement::Collect { what, nodes, seconds })
    }

    /// A node's id, or its name; names may have `-` and `.` without quotes.
    fn node(&mut self) -> Result<String, SqlError> {
        let mut name = self.name("a node's id or name")?;
        while let Some(token) = self.peek() {
            let joined = self.tokens[self.at - 1].span.end == token.span.start;
            match &token.kind {
                TokenKind::Symbol(symbol @ ('-' | '.' | ':')) if joined => name.push(*symbol),
                TokenKind::Word(part) | TokenKind::Number(part) if joined => name.push_str(part),
                _ => break,
            }
            self.at += 1;
        }
        Ok(name)
    }

    fn kill(&mut self) -> Result<Statement, SqlError> {
        let scope = if self.takes("query") { KillScope::Query } else { KillScope::Connection };
        self.takes("connection");
        Ok(Statement::Kill { connection: self.number("a connection's number")?, scope })
    }

    fn show(&mut self) -> Result<Show, SqlError> {
        let mut show = Show { what: String::new(), of: None, like: None, full: false, global: false, condition: None };
        let mut words: Vec<String> = Vec::new();
        while let Some(token) = self.peek() {
            if self.takes("full") {
                show.full = true;
            } else if self.takes("global") {
                show.global = true;
            } else if self.takes("from") || self.takes("in") {
                show.of.get_or_insert(self.name("a name")?);
                // `db.table`: the table.
                if self.takes_symbol('.') {
                    show.of = Some(self.name("a table")?);
                }
            } else if self.takes("like") {
                show.like = Some(self.string("a pattern in quotes")?);
            } else if self.takes("for") || self.takes("limit") {
                // Of whom rights are shown, or how many warnings: there is one answer.
                self.at = self.tokens.len();
            } else if self.takes("where") {
                show.condition = Some(self.rest("a condition")?);
            } else {
                match &token.kind {
                    TokenKind::Word(word) => words.push(word.to_ascii_lowercase()),
                    TokenKind::Text(text) | TokenKind::Number(text) | TokenKind::Name(text) => {
                        show.of = Some(text.clone())
                    }
                    TokenKind::Symbol('(' | ')' | '*' | ',' | '.') => {}
                    _ => return Err(self.unexpected("what to show")),
                }
                self.at += 1;
            }
        }
        words.retain(|word| !SCOPES.contains(&word.as_str()));
        show.what = words.join(" ");
        match show.what.is_empty() {
            true => Err(self.unexpected("what to show")),
            false => Ok(show),
        }
    }

    /// All that is left, as written.
    fn rest(&mut self, wanted: &str) -> Result<String, SqlError> {
        let (Some(first), Some(last)) = (self.peek(), self.tokens.last()) else { return Err(self.unexpected(wanted)) };
        self.at = self.tokens.len();
        Ok(self.text[first.span.start..last.span.end].to_owned())
    }
}
