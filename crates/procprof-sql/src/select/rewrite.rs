//! A statement in MySQL's words, in SQLite's.
//!
//! It goes token by token, and only what a token means is written again, so nothing that MySQL would read as text or
//! comment becomes SQL:
//!
//! | MySQL | SQLite |
//! |---|---|
//! | `'it\'s'`, `"text"`, `` `name` `` | `'it''s'`, `'text'`, `"name"` |
//! | `procprof.profiles` | `profiles` |
//! | `information_schema.tables` | `"information_schema.tables"` |
//! | `@@version`, `VERSION()`, `USER()`, `NOW()`, … | their values |
//! | `a / b`, `a DIV b`, `a MOD b` | `a * 1.0 / b`, `a / b`, `a % b` |
//! | `a && b`, `a \|\| b`, `!a`, `a <=> b`, `RLIKE` | `AND`, `OR`, `NOT`, `IS`, `REGEXP` |
//! | `LIKE 'a\_b'` | `LIKE 'a\_b' ESCAPE '\'` |
//! | `CAST(x AS SIGNED)`, `CONVERT(x, CHAR)`, `CONVERT(x USING utf8)` | `CAST(x AS INTEGER)`, `CAST(x AS TEXT)` |
//! | `x - INTERVAL 1 HOUR`, `DATE_SUB(x, INTERVAL 1 HOUR)` | `date_add(x, -1, 'hour')` |
//! | `GROUP_CONCAT(x SEPARATOR ';')` | `group_concat(x, ';')` |
//! | `EXPLAIN` | `EXPLAIN QUERY PLAN` |

use jiff::Timestamp;

use super::column_names::{column_types, name_columns};
use super::tables::is_database;
use crate::DATABASE;
use crate::mysql::{ColumnType, SqlError, SqlErrorKind, Value};
use crate::token::{Token, TokenKind, tokens};
use crate::variables::{self, Variables};

/// Deepest nesting of parentheses.
const DEPTH_MAX: usize = 100;
/// Longest statement, in bytes.
pub(super) const BYTES_MAX: usize = 256 << 10;

/// The connection and its user, for `USER()` and the like.
pub(crate) struct SessionInfo<'a> {
    /// `name@host`.
    pub(crate) user: String,
    pub(crate) connection: u32,
    /// The database in use; empty for none.
    pub(crate) database: &'a str,
    /// The variables of the session.
    pub(crate) variables: &'a Variables,
    pub(crate) now: Timestamp,
}

/// A statement as SQLite takes it.
#[derive(Debug, PartialEq)]
pub(super) struct Rewritten {
    pub(super) sql: String,
    /// Number of `?`.
    pub(super) parameters: usize,
    /// The derived types of its columns, if it names them.
    pub(super) column_types: Vec<Option<ColumnType>>,
    /// Whether it limits its own rows.
    pub(super) is_limited: bool,
}

/// Rewrites a statement.
///
/// # Errors
/// What breaks MySQL's rules of words and quotes, more than one statement, unknown system variables, and what is too
/// long or too deep.
pub(super) fn rewrite(text: &str, session: &SessionInfo<'_>) -> Result<Rewritten, SqlError> {
    if text.len() > BYTES_MAX {
        return Err(SqlError::new(
            SqlErrorKind::Limit,
            format!("a statement of more than {BYTES_MAX} bytes is not taken"),
        ));
    }
    if text.contains('\0') {
        return Err(SqlError::new(
            SqlErrorKind::Syntax,
            "a NUL byte stands in the statement; give texts with one as parameters",
        ));
    }
    let mut tokens = tokens(text)?;
    while tokens.last().is_some_and(|token| token.is_symbol(';')) {
        tokens.pop();
    }
    // SQLite takes no query in parentheses.
    while is_enclosed(&tokens) {
        tokens.pop();
        tokens.remove(0);
    }
    let mut rewriter =
        Rewriter { text, tokens: &tokens, out: vec![None; tokens.len()], depth: 0, parameters: 0, session };
    for at in 0..tokens.len() {
        if rewriter.out[at].is_none() {
            rewriter.token(at)?;
        }
    }
    let Rewriter { out, parameters, depth, .. } = rewriter;
    if depth > 0 {
        return Err(SqlError::new(SqlErrorKind::Syntax, "a parenthesis is not closed at the end of the statement"));
    }
    let mut out: Vec<String> = out.into_iter().map(Option::unwrap_or_default).collect();
    name_columns(text, &tokens, &mut out);
    let sql = having(text, &tokens, &out).unwrap_or_else(|| joined(text, &tokens, &out));
    Ok(Rewritten { sql, parameters, column_types: column_types(&tokens), is_limited: is_limited(&tokens) })
}

/// Functions of many rows.
const AGGREGATES: &[&str] =
    &["avg", "count", "group_concat", "max", "min", "sum", "total", "json_group_array", "json_group_object"];

/// `SELECT … HAVING condition …` without groups: MySQL takes it as a condition on the columns of the result, by which
/// drivers of Java list tables.
fn having(text: &str, tokens: &[Token], out: &[String]) -> Option<String> {
    let mut depth = 0_usize;
    let outside = |token: &Token| {
        match token.kind {
            TokenKind::Symbol('(') => depth += 1,
            TokenKind::Symbol(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    };
    let is_outside: Vec<bool> = tokens.iter().map(outside).collect();
    let place = |words: &[&str], from: usize| {
        (from..tokens.len()).find(|at| is_outside[*at] && words.iter().any(|word| tokens[*at].is(word)))
    };
    let start = place(&["having"], 0)?;
    let aggregates =
        tokens.windows(2).any(|pair| pair[1].is_symbol('(') && AGGREGATES.iter().any(|name| pair[0].is(name)));
    if !tokens[0].is("select") || aggregates || place(&["group", "union", "except", "intersect", "over"], 0).is_some() {
        return None;
    }
    let end = place(&["order", "limit"], start).unwrap_or(tokens.len());
    let limit = place(&["limit"], start).unwrap_or(tokens.len());
    if tokens[end..limit].iter().any(|token| token.is_symbol('?')) {
        return None;
    }
    let part = |range: std::ops::Range<usize>| joined(text, &tokens[range.clone()], &out[range]);
    let (all, condition, order, limit) =
        (part(0..start), part(start + 1..end), part(end..limit), part(limit..tokens.len()));
    Some(format!("SELECT * FROM ({all} {order}) WHERE {condition} {limit}").trim_end().to_owned())
}

/// Whether there is a `LIMIT` outside parentheses.
fn is_limited(tokens: &[Token]) -> bool {
    let mut depth = 0_usize;
    tokens.iter().any(|token| {
        match token.kind {
            TokenKind::Symbol('(') => depth += 1,
            TokenKind::Symbol(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.is("limit")
    })
}

/// Whether the first token is a parenthesis that the last one closes.
fn is_enclosed(tokens: &[Token]) -> bool {
    let mut depth = 0_usize;
    let closed = tokens.iter().position(|token| {
        match token.kind {
            TokenKind::Symbol('(') => depth += 1,
            TokenKind::Symbol(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    closed.is_some_and(|closed| closed > 0 && closed + 1 == tokens.len())
}

/// A statement half rewritten.
pub(super) struct Rewriter<'a> {
    text: &'a str,
    pub(super) tokens: &'a [Token],
    /// The replacement of each token; `None` where that is not decided yet.
    pub(super) out: Vec<Option<String>>,
    depth: usize,
    pub(super) parameters: usize,
    pub(super) session: &'a SessionInfo<'a>,
}

impl Rewriter<'_> {
    /// Sets the replacement of a token.
    pub(super) fn put(&mut self, at: usize, sql: impl Into<String>) {
        self.out[at] = Some(sql.into());
    }

    fn token(&mut self, at: usize) -> Result<(), SqlError> {
        let token = &self.tokens[at];
        let sql = match &token.kind {
            TokenKind::Word(word) => return self.word(at, word),
            TokenKind::Name(name) if self.is_database(at, name)? => return self.qualified(at),
            TokenKind::Name(name) => quoted_name(name),
            TokenKind::Number(number) => number.clone(),
            TokenKind::Text(_) => self.string(at)?,
            TokenKind::System(name) => {
                constant(self.session.variables.value(name).ok_or_else(|| variables::unknown(name))?)
            }
            TokenKind::User(name) => constant(self.session.variables.user(name)),
            TokenKind::Symbol(symbol) => return self.symbol(at, *symbol),
        };
        self.put(at, sql);
        Ok(())
    }

    fn symbol(&mut self, at: usize, symbol: char) -> Result<(), SqlError> {
        let pair = |other: char| {
            self.tokens
                .get(at + 1)
                .is_some_and(|next| next.is_symbol(other) && next.span.start == self.tokens[at].span.end)
        };
        let mut sql = symbol.to_string();
        match symbol {
            ';' => {
                return Err(SqlError::new(
                    SqlErrorKind::NotSupported,
                    format!("one statement at a time: another begins behind byte {}", self.tokens[at].span.end),
                ));
            }
            '(' => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(SqlError::new(
                        SqlErrorKind::Limit,
                        format!("parentheses nest more than {DEPTH_MAX} deep"),
                    ));
                }
            }
            ')' => self.depth = self.depth.checked_sub(1).ok_or_else(|| self.unexpected(at))?,
            '?' => self.parameters += 1,
            '|' if pair('|') => return self.both(at, if self.session.variables.pipes_concat() { "||" } else { "OR" }),
            '&' if pair('&') => return self.both(at, "AND"),
            '<' if pair('=') && self.tokens.get(at + 2).is_some_and(|third| third.is_symbol('>')) => {
                self.put(at + 2, "");
                return self.both(at, "IS");
            }
            '!' if !pair('=') => sql = "NOT".to_owned(),
            '/' => sql = "* 1.0 /".to_owned(),
            ',' | '.' | '*' | '+' | '-' | '%' | '<' | '>' | '=' | '!' | '|' | '&' | '~' | '^' => {}
            _ => return Err(self.unexpected(at)),
        }
        self.put(at, sql);
        Ok(())
    }

    fn both(&mut self, at: usize, word: &str) -> Result<(), SqlError> {
        self.put(at, word);
        self.put(at + 1, "");
        Ok(())
    }

    pub(super) fn unexpected(&self, at: usize) -> SqlError {
        let start = self.tokens[at].span.start;
        let near: String = self.text[start..].chars().take(40).collect();
        SqlError::new(SqlErrorKind::Syntax, format!("syntax error near '{near}' (byte {})", start + 1))
    }

    fn follows(&self, at: usize, symbol: char) -> bool {
        self.tokens.get(at + 1).is_some_and(|token| token.is_symbol(symbol))
    }

    fn is_after(&self, at: usize, words: &[&str]) -> bool {
        at > 0 && words.iter().any(|word| self.tokens[at - 1].is(word))
    }

    fn word(&mut self, at: usize, word: &str) -> Result<(), SqlError> {
        if self.is_database(at, word)? {
            return self.qualified(at);
        }
        let lower = word.to_ascii_lowercase();
        let is_name = at > 0 && self.tokens[at - 1].is_symbol('.');
        if is_name || self.follows(at, '.') {
            self.put(at, quoted_unless_plain(word));
            return Ok(());
        }
        let is_call = self.follows(at, '(');
        if let Some(value) = self.fact(at, &lower, is_call) {
            self.put(at, value);
            return Ok(());
        }
        match lower.as_str() {
            "explain" | "describe" | "desc" if at == 0 => self.put(at, "EXPLAIN QUERY PLAN"),
            "extended" if at == 1 && self.is_after(at, &["explain", "describe", "desc"]) => self.put(at, ""),
            "sql_no_cache" | "sql_calc_found_rows" | "high_priority" | "straight_join"
                if self.is_after(at, &["select"]) =>
            {
                self.put(at, "")
            }
            "div" => self.put(at, "/"),
            "mod" if !is_call => self.put(at, "%"),
            "rlike" => self.put(at, "REGEXP"),
            "cast" if is_call => self.cast(at)?,
            "convert" if is_call => self.convert(at)?,
            "group_concat" if is_call => self.separator(at),
            "interval" if !is_call => self.interval(at)?,
            _ if self.is_after(at, &["collate"]) => {
                self.put(at, if lower.ends_with("bin") { "BINARY" } else { "NOCASE" })
            }
            _ if self.is_introducer(at, &lower) => self.put(at, ""),
            _ if self.names_information(at, &lower) => {
                self.put(at, quoted_name(&format!("information_schema.{lower}")))
            }
            _ => self.put(at, quoted_unless_plain(word)),
        }
        Ok(())
    }

    /// `_utf8mb4'text'`, `N'text'`.
    fn is_introducer(&self, at: usize, lower: &str) -> bool {
        let text = self.tokens.get(at + 1).filter(|next| next.span.start == self.tokens[at].span.end);
        text.is_some_and(|next| matches!(next.kind, TokenKind::Text(_)))
            && ["_utf8", "_utf8mb4", "_latin1", "_binary", "n"].contains(&lower)
    }

    /// A table without its database, while `information_schema` is in use.
    fn names_information(&self, at: usize, lower: &str) -> bool {
        self.session.database == "information_schema"
            && self.is_after(at, &["from", "join"])
            && super::all().any(|table| table.database() == "information_schema" && table.bare_name() == lower)
    }

    /// Whether a database is named. SQLite's own two are not there for statements.
    fn is_database(&self, at: usize, name: &str) -> Result<bool, SqlError> {
        if !self.follows(at, '.') || (at > 0 && self.tokens[at - 1].is_symbol('.')) {
            return Ok(false);
        }
        match name.to_ascii_lowercase().as_str() {
            "main" | "temp" => Err(SqlError::new(
                SqlErrorKind::UnknownDatabase,
                format!("unknown database '{name}'; there is {DATABASE:?}"),
            )),
            name => Ok(is_database(name)),
        }
    }

    /// `database.table`: ours is left out, `information_schema` becomes part of the name.
    fn qualified(&mut self, at: usize) -> Result<(), SqlError> {
        let (TokenKind::Word(database) | TokenKind::Name(database)) = &self.tokens[at].kind else {
            return Err(self.unexpected(at));
        };
        let table = match self.tokens.get(at + 2).map(|token| &token.kind) {
            Some(TokenKind::Word(table) | TokenKind::Name(table)) if !database.eq_ignore_ascii_case(DATABASE) => {
                quoted_name(&format!("{}.{}", database.to_ascii_lowercase(), table.to_ascii_lowercase()))
            }
            Some(TokenKind::Word(table)) => quoted_unless_plain(table),
            Some(TokenKind::Name(table)) => quoted_name(table),
            _ => return Err(self.unexpected(at)),
        };
        self.put(at, "");
        self.put(at + 1, "");
        self.put(at + 2, table);
        Ok(())
    }

    fn string(&self, at: usize) -> Result<String, SqlError> {
        let TokenKind::Text(text) = &self.tokens[at].kind else { return Err(self.unexpected(at)) };
        if text.contains('\0') {
            return Err(SqlError::new(SqlErrorKind::Syntax, "a text with a NUL byte can only be given as a parameter"));
        }
        let has_escape = self.tokens.get(at + 1).is_some_and(|next| next.is("escape"));
        let escape =
            if text.contains('\\') && self.is_after(at, &["like"]) && !has_escape { " ESCAPE '\\'" } else { "" };
        Ok(literal(text) + escape)
    }
}

/// A text as SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as SQL.
pub(super) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Words that SQLite keeps for itself while MySQL lets them be names; none has a place in a query.
const SQLITES_OWN: &[&str] =
    &["autoincrement", "commit", "deferrable", "indexed", "nothing", "returning", "transaction"];

/// A word that SQLite might read as something else is quoted; `$` begins its parameters.
fn quoted_unless_plain(word: &str) -> String {
    let is_kept = SQLITES_OWN.iter().any(|own| word.eq_ignore_ascii_case(own));
    if is_kept || word.contains('$') { quoted_name(word) } else { word.to_owned() }
}

/// A value as SQL.
fn constant(value: Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) if number.is_finite() => format!("{number:e}"),
        Value::Real(_) => "NULL".to_owned(),
        Value::Text(text) => literal(&text.replace('\0', "")),
        Value::Blob(bytes) => literal(&String::from_utf8_lossy(&bytes).replace('\0', "")),
    }
}

/// Symbols that belong together.
const PAIRS: &[&str] =
    &["<=", ">=", "<>", "!=", "<<", ">>", "->", ".*", "(*", "*)", "()", "((", "))", "),", "(-", "(?", "?)", "?,", "=?"];

/// The tokens with blanks between them where there were some, and wherever two might be read as one.
fn joined(text: &str, tokens: &[Token], out: &[String]) -> String {
    let mut sql = String::with_capacity(text.len() + 16);
    let mut last_end = None;
    for (token, word) in tokens.iter().zip(out) {
        if word.is_empty() {
            continue;
        }
        let touches = last_end == Some(token.span.start);
        let pair: String = sql.chars().next_back().into_iter().chain(word.chars().next()).collect();
        let symbols =
            pair.chars().count() == 2 && pair.chars().all(|c| c.is_ascii_punctuation() && !"'\"_".contains(c));
        let words = pair.chars().all(|c| !c.is_ascii_punctuation() || "'\"_".contains(c));
        let apart = if symbols { !PAIRS.contains(&pair.as_str()) } else { words };
        if !sql.is_empty() && (!touches || apart) {
            sql.push(' ');
        }
        sql.push_str(word.trim_start());
        last_end = Some(token.span.end);
    }
    sql
}
