//! A statement in MySQL's words, in SQLite's.
//!
//! It goes token by token, and only what a token means is written again, so nothing that MySQL would read as text or comment becomes SQL:
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

use super::moment::datetime;
use super::names::name_columns;
use crate::mysql::{Failure, FailureKind};
use crate::sql::DATABASE;
use crate::sql::token::{Token, TokenKind, tokens};
use crate::sql::variables;

/// Deepest nesting of parentheses.
const DEPTH_MAX: usize = 100;
/// Longest statement, in bytes.
pub(super) const BYTES_MAX: usize = 256 << 10;

/// Who asks, for `USER()` and the like.
pub(in crate::sql) struct Asker<'a> {
    /// `name@host`.
    pub(in crate::sql) user: String,
    pub(in crate::sql) connection: u32,
    /// The database in use; empty for none.
    pub(in crate::sql) database: &'a str,
    pub(in crate::sql) now: Timestamp,
}

/// A statement as SQLite takes it.
#[derive(Debug, PartialEq)]
pub(super) struct Rewritten {
    pub(super) sql: String,
    /// Number of `?`.
    pub(super) parameters: usize,
}

/// Rewrites a statement.
///
/// # Errors
/// What breaks MySQL's rules of words and quotes, more than one statement, unknown system variables, and what is too long or too deep.
pub(super) fn rewrite(text: &str, asker: &Asker<'_>) -> Result<Rewritten, Failure> {
    if text.len() > BYTES_MAX {
        return Err(Failure::new(FailureKind::Limit, format!("a statement of more than {BYTES_MAX} bytes is not taken")));
    }
    let mut tokens = tokens(text)?;
    while tokens.last().is_some_and(|token| token.is_symbol(';')) {
        tokens.pop();
    }
    let mut rewriter = Rewriter { text, tokens: &tokens, out: vec![None; tokens.len()], depth: 0, parameters: 0, asker };
    for at in 0..tokens.len() {
        if rewriter.out[at].is_none() {
            rewriter.token(at)?;
        }
    }
    let Rewriter { out, parameters, depth, .. } = rewriter;
    if depth > 0 {
        return Err(Failure::new(FailureKind::Syntax, "a parenthesis is not closed at the end of the statement"));
    }
    let mut out: Vec<String> = out.into_iter().map(Option::unwrap_or_default).collect();
    name_columns(text, &tokens, &mut out);
    Ok(Rewritten { sql: joined(text, &tokens, &out), parameters })
}

struct Rewriter<'a> {
    text: &'a str,
    tokens: &'a [Token],
    /// What stands for each token; `None` where that is not decided yet.
    out: Vec<Option<String>>,
    depth: usize,
    parameters: usize,
    asker: &'a Asker<'a>,
}

impl Rewriter<'_> {
    fn put(&mut self, at: usize, sql: impl Into<String>) {
        self.out[at] = Some(sql.into());
    }

    fn token(&mut self, at: usize) -> Result<(), Failure> {
        let token = &self.tokens[at];
        let sql = match &token.kind {
            TokenKind::Word(word) => return self.word(at, word),
            TokenKind::Name(name) if self.is_database(at, name)? => return self.qualified(at),
            TokenKind::Name(name) => quoted_name(name),
            TokenKind::Number(number) => number.clone(),
            TokenKind::Text(_) => self.string(at)?,
            TokenKind::System(name) => variable(name)?,
            // Nothing keeps variables, so all are unset.
            TokenKind::User(_) => "NULL".to_owned(),
            TokenKind::Symbol(symbol) => return self.symbol(at, *symbol),
        };
        self.put(at, sql);
        Ok(())
    }

    fn symbol(&mut self, at: usize, symbol: char) -> Result<(), Failure> {
        let pair =
            |other: char| self.tokens.get(at + 1).is_some_and(|next| next.is_symbol(other) && next.span.start == self.tokens[at].span.end);
        let mut sql = symbol.to_string();
        match symbol {
            ';' => {
                return Err(Failure::new(
                    FailureKind::NotSupported,
                    format!("one statement at a time: another begins behind byte {}", self.tokens[at].span.end),
                ));
            }
            '(' => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(Failure::new(FailureKind::Limit, format!("parentheses nest more than {DEPTH_MAX} deep")));
                }
            }
            ')' => self.depth = self.depth.checked_sub(1).ok_or_else(|| self.unexpected(at))?,
            '?' => self.parameters += 1,
            '|' if pair('|') => return self.both(at, "OR"),
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

    fn both(&mut self, at: usize, word: &str) -> Result<(), Failure> {
        self.put(at, word);
        self.put(at + 1, "");
        Ok(())
    }

    fn unexpected(&self, at: usize) -> Failure {
        let start = self.tokens[at].span.start;
        let near: String = self.text[start..].chars().take(40).collect();
        Failure::new(FailureKind::Syntax, format!("syntax error near '{near}' (byte {})", start + 1))
    }

    fn follows(&self, at: usize, symbol: char) -> bool {
        self.tokens.get(at + 1).is_some_and(|token| token.is_symbol(symbol))
    }

    fn is_after(&self, at: usize, words: &[&str]) -> bool {
        at > 0 && words.iter().any(|word| self.tokens[at - 1].is(word))
    }

    fn word(&mut self, at: usize, word: &str) -> Result<(), Failure> {
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
            "sql_no_cache" | "sql_calc_found_rows" | "high_priority" | "straight_join" if self.is_after(at, &["select"]) => {
                self.put(at, "")
            }
            "div" => self.put(at, "/"),
            "mod" if !is_call => self.put(at, "%"),
            "rlike" => self.put(at, "REGEXP"),
            "cast" if is_call => self.cast(at)?,
            "convert" if is_call => self.convert(at)?,
            "group_concat" if is_call => self.separator(at),
            "interval" if !is_call => self.interval(at)?,
            _ if self.is_introducer(at, &lower) => self.put(at, ""),
            _ if self.names_information(at, &lower) => self.put(at, quoted_name(&format!("information_schema.{lower}"))),
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
        self.asker.database == "information_schema"
            && self.is_after(at, &["from", "join"])
            && super::TABLES.iter().any(|table| table.database() == "information_schema" && table.bare_name() == lower)
    }

    /// Whether a database is named. SQLite's own two are not there for statements.
    fn is_database(&self, at: usize, name: &str) -> Result<bool, Failure> {
        if !self.follows(at, '.') || (at > 0 && self.tokens[at - 1].is_symbol('.')) {
            return Ok(false);
        }
        match name.to_ascii_lowercase().as_str() {
            "main" | "temp" => Err(Failure::new(FailureKind::UnknownDatabase, format!("unknown database '{name}'; there is {DATABASE:?}"))),
            name => Ok(variables::is_database(name)),
        }
    }

    /// `database.table`: ours is left out, `information_schema` becomes part of the name.
    fn qualified(&mut self, at: usize) -> Result<(), Failure> {
        let (TokenKind::Word(database) | TokenKind::Name(database)) = &self.tokens[at].kind else { return Err(self.unexpected(at)) };
        let Some(TokenKind::Word(table) | TokenKind::Name(table)) = self.tokens.get(at + 2).map(|token| &token.kind) else {
            return Err(self.unexpected(at));
        };
        let table = match database.eq_ignore_ascii_case(DATABASE) {
            true => quoted_unless_plain(table),
            false => quoted_name(&format!("information_schema.{}", table.to_ascii_lowercase())),
        };
        self.put(at, "");
        self.put(at + 1, "");
        self.put(at + 2, table);
        Ok(())
    }

    /// The value of a function that tells of the connection or the moment; its parentheses are gone then.
    fn fact(&mut self, at: usize, lower: &str, is_call: bool) -> Option<String> {
        let bare = ["current_user", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp"].contains(&lower);
        if !is_call && !bare {
            return None;
        }
        let second = self.asker.now.as_second();
        let now = datetime(second * 1_000_000_000, 0);
        let value = match lower {
            "version" => literal(variables::value("version").unwrap_or_default()),
            "database" | "schema" if self.asker.database.is_empty() => "NULL".to_owned(),
            "database" | "schema" => literal(self.asker.database),
            "user" | "current_user" | "session_user" | "system_user" => literal(&self.asker.user),
            "connection_id" => self.asker.connection.to_string(),
            "now" | "sysdate" | "utc_timestamp" | "current_timestamp" | "localtime" | "localtimestamp" => literal(&now),
            "curdate" | "current_date" | "utc_date" => literal(&now[..10]),
            "curtime" | "current_time" | "utc_time" => literal(&now[11..]),
            "unix_timestamp" => second.to_string(),
            "found_rows" | "row_count" | "last_insert_id" => "0".to_owned(),
            _ => return None,
        };
        if is_call {
            let last = match self.tokens.get(at + 2)?.kind {
                TokenKind::Symbol(')') => at + 2,
                // A number of digits behind the second; there are none.
                TokenKind::Number(_) if lower != "unix_timestamp" && self.tokens.get(at + 3)?.is_symbol(')') => at + 3,
                _ => return None,
            };
            (at + 1..=last).for_each(|gone| self.put(gone, ""));
        }
        Some(value)
    }

    fn string(&self, at: usize) -> Result<String, Failure> {
        let TokenKind::Text(text) = &self.tokens[at].kind else { return Err(self.unexpected(at)) };
        if text.contains('\0') {
            return Err(Failure::new(FailureKind::Syntax, "a text with a NUL byte can only be given as a parameter"));
        }
        let has_escape = self.tokens.get(at + 1).is_some_and(|next| next.is("escape"));
        let escape = if text.contains('\\') && self.is_after(at, &["like"]) && !has_escape { " ESCAPE '\\'" } else { "" };
        Ok(literal(text) + escape)
    }

    /// The tokens of a call's arguments that stand in no further parentheses: from behind the opening one to the closing one, which is the last.
    fn arguments(&self, at: usize) -> Result<Vec<usize>, Failure> {
        let (mut depth, mut own) = (0, Vec::new());
        for (place, token) in self.tokens.iter().enumerate().skip(at + 1) {
            match token.kind {
                TokenKind::Symbol('(') => depth += 1,
                TokenKind::Symbol(')') if depth == 1 => {
                    own.push(place);
                    return Ok(own);
                }
                TokenKind::Symbol(')') => depth -= 1,
                _ if depth == 1 => own.push(place),
                _ => {}
            }
        }
        Err(self.unexpected(at))
    }

    /// `CAST(x AS type)`.
    fn cast(&mut self, at: usize) -> Result<(), Failure> {
        self.put(at, "CAST");
        let own = self.arguments(at)?;
        let place = own.iter().rposition(|place| self.tokens[*place].is("as"));
        if let Some(place) = place {
            self.type_name(&own[place + 1..]);
        }
        Ok(())
    }

    /// `CONVERT(x, type)` and `CONVERT(x USING charset)`.
    fn convert(&mut self, at: usize) -> Result<(), Failure> {
        let own = self.arguments(at)?;
        let divider = own.iter().rposition(|place| self.tokens[*place].is("using") || self.tokens[*place].is_symbol(','));
        let divider = divider.ok_or_else(|| self.unexpected(at))?;
        self.put(at, "CAST");
        self.put(own[divider], "AS");
        self.type_name(&own[divider + 1..]);
        Ok(())
    }

    /// Writes SQLite's type in the place of MySQL's; the last of `places` is the closing parenthesis.
    fn type_name(&mut self, places: &[usize]) {
        let Some((first, rest)) = places.split_first() else { return };
        let TokenKind::Word(name) = &self.tokens[*first].kind else { return };
        let affinity = match name.to_ascii_lowercase().as_str() {
            "signed" | "unsigned" | "integer" | "int" | "bigint" | "year" => "INTEGER",
            "double" | "float" | "real" | "decimal" | "dec" | "numeric" => "REAL",
            "binary" => "BLOB",
            _ => "TEXT",
        };
        self.put(*first, affinity);
        // What stands between: a length, `INTEGER` behind `SIGNED`, `CHARACTER SET …`.
        let last = rest.last().copied().unwrap_or(*first + 1);
        (*first + 1..last).for_each(|place| self.put(place, ""));
    }

    /// `SEPARATOR 'text'`, which goes before `ORDER BY`.
    fn separator(&mut self, at: usize) {
        self.put(at, "group_concat");
        let Ok(own) = self.arguments(at) else { return };
        let Some(place) = own.iter().copied().find(|place| self.tokens[*place].is("separator")) else { return };
        let Some(TokenKind::Text(text)) = self.tokens.get(place + 1).map(|token| &token.kind) else { return };
        let separator = format!(", {}", literal(text));
        self.put(place, "");
        self.put(place + 1, "");
        match own.iter().copied().find(|place| self.tokens[*place].is("order")) {
            Some(order) => self.put(order, format!("{separator} ORDER")),
            None => self.put(place, separator),
        }
    }

    /// `INTERVAL n unit`, as an argument of `DATE_ADD` and `DATE_SUB`, or behind `+` and `-`.
    fn interval(&mut self, at: usize) -> Result<(), Failure> {
        let Some([amount, unit]) = self.tokens.get(at + 1..at + 3) else { return Err(self.unexpected(at)) };
        let TokenKind::Word(unit) = &unit.kind else { return Err(self.unexpected(at)) };
        let unit = literal(&unit.to_ascii_lowercase());
        let amount = match &amount.kind {
            TokenKind::Number(number) | TokenKind::Text(number) if number.parse::<i64>().is_ok() => number.clone(),
            TokenKind::Symbol('?') => {
                self.parameters += 1;
                "?".to_owned()
            }
            _ => return Err(self.unexpected(at + 1)),
        };
        let sign = self.tokens.get(at.wrapping_sub(1)).map(|token| &token.kind);
        match sign {
            Some(TokenKind::Symbol(',')) => self.put(at, format!("{amount}, {unit}")),
            Some(TokenKind::Symbol(sign @ ('+' | '-'))) => {
                let start = self.operand(at - 1)?;
                let before = self.out[start].take().unwrap_or_default();
                self.put(start, format!("date_add({before}"));
                self.put(at - 1, ",");
                let minus = if *sign == '-' { "-" } else { "" };
                self.put(at, format!("{minus}{amount}, {unit})"));
            }
            _ => return Err(self.unexpected(at)),
        }
        self.put(at + 1, "");
        self.put(at + 2, "");
        Ok(())
    }

    /// Where the operand begins that ends before a sign: a call, a parenthesis, a name with its table, or one word.
    fn operand(&self, sign: usize) -> Result<usize, Failure> {
        let mut at = sign.checked_sub(1).ok_or_else(|| self.unexpected(sign))?;
        if self.tokens[at].is_symbol(')') {
            let mut depth = 0_usize;
            loop {
                match self.tokens[at].kind {
                    TokenKind::Symbol(')') => depth += 1,
                    TokenKind::Symbol('(') => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
                at = at.checked_sub(1).ok_or_else(|| self.unexpected(sign))?;
            }
            let is_call = at > 0 && matches!(self.tokens[at - 1].kind, TokenKind::Word(_));
            return Ok(if is_call { at - 1 } else { at });
        }
        while at >= 2 && self.tokens[at - 1].is_symbol('.') {
            at -= 2;
        }
        Ok(at)
    }
}

/// A text as SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as SQL.
pub(super) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace(['"', '\0'], "\"\""))
}

/// A word that SQLite might read as something else is quoted; `$` begins its parameters.
fn quoted_unless_plain(word: &str) -> String {
    if word.contains('$') { quoted_name(word) } else { word.to_owned() }
}

/// The value of a system variable: a number where it is one.
fn variable(name: &str) -> Result<String, Failure> {
    let value = variables::value(name).ok_or_else(|| {
        let name: String = name.chars().take(80).collect();
        Failure::new(FailureKind::UnknownVariable, format!("unknown system variable '{name}'"))
    })?;
    Ok(if value.parse::<i64>().is_ok() { value.to_owned() } else { literal(value) })
}

/// Symbols that belong together.
const PAIRS: &[&str] = &["<=", ">=", "<>", "!=", "<<", ">>", "->", ".*", "(*", "*)", "()", "((", "))", "),", "(-", "(?", "?)", "?,", "=?"];

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
        let symbols = pair.chars().count() == 2 && pair.chars().all(|c| c.is_ascii_punctuation() && !"'\"_".contains(c));
        let words = pair.chars().all(|c| !c.is_ascii_punctuation() || "'\"_".contains(c));
        let apart = if symbols { !PAIRS.contains(&pair.as_str()) } else { words };
        if !sql.is_empty() && (!touches || apart) {
            sql.push(' ');
        }
        sql.push_str(word);
        last_end = Some(token.span.end);
    }
    sql
}
