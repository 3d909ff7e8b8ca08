//! The statements there are, parsed from tokens.
//!
//! ```text
//! ADMIN EXECUTE ON (FRONTEND | id, … | ALL BACKENDS | ALL COMPUTE NODES) 'script'
//! COLLECT CPU | WALL | ALLOC | HEAP | CONTENTION | MUTEX ON node, … [FOR n SECONDS]
//! KILL [CONNECTION | QUERY] n
//! SHOW [FULL] what [FROM …] [LIKE 'pattern']         USE name        SET …
//! SELECT … | WITH … | VALUES … | EXPLAIN SELECT …    left to the tables
//! DESCRIBE table
//! BEGIN, COMMIT, ROLLBACK, START TRANSACTION, …      accepted, without effect
//! ```

use super::token::{Token, TokenKind, tokens};
use crate::mysql::{Failure, FailureKind};

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
    /// `SET`: every assignment, name and value; values that are no plain words are kept as written.
    Set(Vec<(String, String)>),
    /// Left to the tables, as written.
    Select,
    /// `DESCRIBE table`.
    Describe(String),
    /// Does nothing, as there is nothing to change.
    Nothing,
}

/// What `KILL` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillScope {
    /// The statement.
    Query,
    /// The connection with it.
    Connection,
}

/// Where `ADMIN EXECUTE` runs.
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
    /// Whether `FULL` was said.
    pub(super) full: bool,
    /// The name and value of `WHERE name = 'value'`.
    pub(super) equals: Option<(String, String)>,
}

impl Show {
    /// Whether it is about the statement before it.
    pub(super) fn is_of_diagnostics(&self) -> bool {
        matches!(self.what.as_str(), "warnings" | "errors" | "count warnings" | "count errors")
    }
}

/// Words that say which of the same thing is shown, and change nothing here.
const SCOPES: &[&str] = &["session", "global", "local", "extended", "storage"];

/// Parses a statement; `;` at its end is allowed.
///
/// # Errors
/// [`FailureKind::Syntax`] with the place, or [`FailureKind::NotSupported`] for what is SQL but not offered.
pub(super) fn parse(text: &str) -> Result<Statement, Failure> {
    let mut tokens = tokens(text)?;
    while tokens.last().is_some_and(|token| token.is_symbol(';')) {
        tokens.pop();
    }
    let Some(first) = tokens.first() else { return Err(Failure::new(FailureKind::Syntax, "the statement is empty")) };
    let TokenKind::Word(word) = &first.kind else {
        // A parenthesis may begin a SELECT.
        return if first.is_symbol('(') { Ok(Statement::Select) } else { Err(unexpected(text, Some(first), "a statement")) };
    };
    let word = word.to_ascii_lowercase();
    let mut parser = Parser { text, tokens: &tokens, at: 1 };
    let statement = match word.as_str() {
        "select" | "with" | "values" => return Ok(Statement::Select),
        "explain" | "describe" | "desc" if parser.begins_query() => return Ok(Statement::Select),
        "admin" => parser.admin()?,
        "collect" => parser.collect()?,
        "kill" => parser.kill()?,
        "show" => return parser.show().map(Statement::Show),
        "explain" | "describe" | "desc" => Statement::Describe(parser.table()?),
        "use" => Statement::Use(parser.name("a database")?),
        "set" => return parser.set().map(Statement::Set),
        "begin" | "commit" | "rollback" | "start" | "savepoint" | "release" | "lock" | "unlock" | "flush" | "do" => {
            return Ok(Statement::Nothing);
        }
        _ => return Err(not_offered(&word, text, first)),
    };
    parser.end()?;
    Ok(statement)
}

/// What is known SQL but changes something, and what is no SQL at all.
fn not_offered(word: &str, text: &str, first: &Token) -> Failure {
    const REFUSED: &[&str] = &[
        "insert",
        "update",
        "delete",
        "replace",
        "create",
        "drop",
        "alter",
        "truncate",
        "grant",
        "revoke",
        "load",
        "attach",
        "detach",
        "pragma",
        "vacuum",
        "call",
        "handler",
        "analyze",
        "optimize",
        "rename",
        "reindex",
        "prepare",
        "execute",
        "deallocate",
        "install",
        "shutdown",
    ];
    if REFUSED.contains(&word) {
        let text = format!("{} is not offered: the tables are read-only", word.to_ascii_uppercase());
        return Failure::new(FailureKind::NotSupported, text);
    }
    unexpected(text, Some(first), "ADMIN EXECUTE, COLLECT, KILL, SELECT, SET, SHOW or USE")
}

fn unexpected(text: &str, token: Option<&Token>, wanted: &str) -> Failure {
    let failure = match token {
        None => format!("expected {wanted} at the end of the statement"),
        Some(token) => {
            let near: String = text[token.span.start..].chars().take(40).collect();
            format!("expected {wanted} near '{near}' (byte {})", token.span.start + 1)
        }
    };
    Failure::new(FailureKind::Syntax, failure)
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

    fn unexpected(&self, wanted: &str) -> Failure {
        unexpected(self.text, self.peek(), wanted)
    }

    /// Takes the word if it stands here.
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

    fn expect(&mut self, words: &[&str]) -> Result<(), Failure> {
        for word in words {
            if !self.takes(word) {
                return Err(self.unexpected(word.to_ascii_uppercase().as_str()));
            }
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Failure> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("the end of the statement")),
        }
    }

    fn number<N: std::str::FromStr>(&mut self, wanted: &str) -> Result<N, Failure> {
        let number = match self.peek().map(|token| &token.kind) {
            Some(TokenKind::Number(digits)) => digits.parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.unexpected(wanted))?;
        self.at += 1;
        Ok(number)
    }

    fn string(&mut self, wanted: &str) -> Result<String, Failure> {
        let Some(TokenKind::Text(text)) = self.peek().map(|token| &token.kind) else { return Err(self.unexpected(wanted)) };
        self.at += 1;
        Ok(text.clone())
    }

    /// A word, a name in backquotes, or a text.
    fn name(&mut self, wanted: &str) -> Result<String, Failure> {
        let name = match self.peek().map(|token| &token.kind) {
            Some(TokenKind::Word(name) | TokenKind::Name(name) | TokenKind::Text(name) | TokenKind::Number(name)) => name.clone(),
            _ => return Err(self.unexpected(wanted)),
        };
        self.at += 1;
        Ok(name)
    }

    /// Whether a query stands here.
    fn begins_query(&self) -> bool {
        self.peek().is_some_and(|token| token.is_symbol('(') || ["select", "with", "values"].iter().any(|word| token.is(word)))
    }

    /// A table, with its database if that is said.
    fn table(&mut self) -> Result<String, Failure> {
        let name = self.name("a table")?;
        match self.takes_symbol('.') {
            true => Ok(format!("{name}.{}", self.name("a table")?)),
            false => Ok(name),
        }
    }

    fn admin(&mut self) -> Result<Statement, Failure> {
        self.expect(&["execute", "on"])?;
        let target = self.target()?;
        let script = self.string("the script in quotes")?;
        Ok(Statement::AdminExecute { target, script })
    }

    fn target(&mut self) -> Result<Target, Failure> {
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

    fn collect(&mut self) -> Result<Statement, Failure> {
        let what = self.name("CPU, WALL, ALLOC, HEAP, CONTENTION or MUTEX")?.to_ascii_lowercase();
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
    fn node(&mut self) -> Result<String, Failure> {
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

    fn kill(&mut self) -> Result<Statement, Failure> {
        let scope = if self.takes("query") { KillScope::Query } else { KillScope::Connection };
        self.takes("connection");
        Ok(Statement::Kill { connection: self.number("a connection's number")?, scope })
    }

    fn show(&mut self) -> Result<Show, Failure> {
        let mut show = Show { what: String::new(), of: None, like: None, full: false, equals: None };
        let mut words: Vec<String> = Vec::new();
        while let Some(token) = self.peek() {
            if self.takes("full") {
                show.full = true;
            } else if self.takes("from") || self.takes("in") {
                show.of.get_or_insert(self.name("a name")?);
                // `db.table`: the table.
                if self.takes_symbol('.') {
                    show.of = Some(self.name("a table")?);
                }
            } else if self.takes("like") {
                show.like = Some(self.string("a pattern in quotes")?);
            } else if self.takes("where") {
                show.equals = self.equality()?;
            } else {
                match &token.kind {
                    TokenKind::Word(word) => words.push(word.to_ascii_lowercase()),
                    TokenKind::Text(text) | TokenKind::Number(text) | TokenKind::Name(text) => show.of = Some(text.clone()),
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

    /// `name = 'value'`; `None` for any other condition, which is skipped: the answer is then not narrowed.
    fn equality(&mut self) -> Result<Option<(String, String)>, Failure> {
        let rest = &self.tokens[self.at..];
        self.at = self.tokens.len();
        match rest {
            [name, sign, value] if sign.is_symbol('=') => match (&name.kind, &value.kind) {
                (TokenKind::Word(name) | TokenKind::Name(name), TokenKind::Text(value) | TokenKind::Number(value)) => {
                    Ok(Some((name.clone(), value.clone())))
                }
                _ => Err(unexpected(self.text, Some(name), "WHERE name = 'value'")),
            },
            other => Err(unexpected(self.text, other.first(), "WHERE name = 'value'")),
        }
    }

    /// Assignments; clients set many things at connect, and all that has no meaning here is taken without effect.
    fn set(&mut self) -> Result<Vec<(String, String)>, Failure> {
        let mut assignments = Vec::new();
        let mut depth = 0_usize;
        let mut start = self.at;
        for index in self.at..=self.tokens.len() {
            match self.tokens.get(index).map(|token| &token.kind) {
                Some(TokenKind::Symbol('(')) => depth += 1,
                Some(TokenKind::Symbol(')')) => depth = depth.saturating_sub(1),
                Some(TokenKind::Symbol(',')) | None if depth == 0 || index == self.tokens.len() => {
                    assignments.push(assignment(self.text, &self.tokens[start..index]));
                    start = index + 1;
                }
                _ => {}
            }
        }
        match assignments.is_empty() || self.tokens.len() == self.at {
            true => Err(self.unexpected("a variable")),
            false => Ok(assignments),
        }
    }
}

/// `[SESSION] name [:]= value`, or words such as `NAMES utf8`.
fn assignment(text: &str, tokens: &[Token]) -> (String, String) {
    let as_written = |tokens: &[Token]| match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => text[first.span.start..last.span.end].to_owned(),
        _ => String::new(),
    };
    let sign = tokens.iter().position(|token| token.is_symbol('='));
    let (left, right) = match sign {
        Some(sign) => (&tokens[..sign], &tokens[sign + 1..]),
        None => tokens.split_at(tokens.len().min(1)),
    };
    let value = match right {
        [Token { kind: TokenKind::Text(text) | TokenKind::Word(text) | TokenKind::Number(text), .. }] => text.clone(),
        other => as_written(other),
    };
    (as_written(left).trim_end_matches(':').trim().to_owned(), value)
}
