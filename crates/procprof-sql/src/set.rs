//! `SET`: what a statement assigns, parsed.
//!
//! ```text
//! SET [SESSION | LOCAL | GLOBAL | PERSIST] name = value, @@name = value, @name = value
//! SET NAMES charset [COLLATE collation]      SET CHARACTER SET charset
//! SET [SESSION] TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY
//! SET [DEFAULT] ROLE …      SET CATALOG default_catalog
//! ```

use super::token::{Token, TokenKind};
use super::variables::Variables;
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// One assignment.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Assignment {
    /// A system variable, preceded by its scope and a dot if it has one.
    System(String, Given),
    /// A variable of the user's own.
    User(String, Given),
    /// Character set and collation; `None` for the default.
    Names(Option<String>, Option<String>),
    /// Has no meaning here.
    Nothing,
}

/// The new value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given {
    Default,
    /// A word.
    Word(String),
    /// A number or a text.
    Literal(Value),
    /// An expression, as written.
    Expression(String),
}

/// Parses the text behind `SET`.
///
/// # Errors
/// [`SqlErrorKind::Syntax`], or [`SqlErrorKind::NotSupported`] for what would change something.
pub(super) fn assignments(text: &str, tokens: &[Token]) -> Result<Vec<Assignment>, SqlError> {
    let words: Vec<String> = tokens.iter().take(3).map(word).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["transaction", ..] => return transaction(text, &tokens[1..]),
        ["session" | "local", "transaction", ..] => return transaction(text, &tokens[2..]),
        ["session", "characteristics", ..] => return transaction(text, tokens.get(4..).unwrap_or_default()),
        ["role", ..] | ["default", "role", ..] => return Ok(vec![Assignment::Nothing]),
        ["password" | "resource", ..] => {
            return Err(SqlError::new(
                SqlErrorKind::NotSupported,
                format!("SET {} is not offered", words[0].to_uppercase()),
            ));
        }
        _ => {}
    }
    let mut depth = 0_usize;
    let parts = tokens.split(|token| {
        match token.kind {
            TokenKind::Symbol('(') => depth += 1,
            TokenKind::Symbol(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.is_symbol(',')
    });
    parts.map(|part| assignment(text, part)).collect()
}

fn word(token: &Token) -> String {
    match &token.kind {
        TokenKind::Word(word) => word.to_ascii_lowercase(),
        _ => String::new(),
    }
}

fn syntax(text: &str, token: Option<&Token>, wanted: &str) -> SqlError {
    let near: String = token.map(|token| text[token.span.start..].chars().take(40).collect()).unwrap_or_default();
    SqlError::new(SqlErrorKind::Syntax, format!("SET: expected {wanted} near '{near}'"))
}

fn as_written(text: &str, tokens: &[Token]) -> String {
    match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => text[first.span.start..last.span.end].to_owned(),
        _ => String::new(),
    }
}

/// A word, a name or a text.
fn plain(token: &Token) -> Option<&str> {
    match &token.kind {
        TokenKind::Word(text) | TokenKind::Name(text) | TokenKind::Text(text) => Some(text),
        _ => None,
    }
}

fn assignment(text: &str, tokens: &[Token]) -> Result<Assignment, SqlError> {
    let charset = |token: &Token| plain(token).filter(|name| !name.eq_ignore_ascii_case("default")).map(str::to_owned);
    match tokens {
        [names, charset_name, rest @ ..] if names.is("names") && !charset_name.is_symbol('=') => {
            let collation = match rest {
                [] => None,
                [collate, name] if collate.is("collate") => plain(name).map(str::to_owned),
                other => return Err(syntax(text, other.first(), "COLLATE and a collation")),
            };
            return Ok(Assignment::Names(charset(charset_name), collation));
        }
        [character, set, name] if character.is("character") && set.is("set") => {
            return Ok(Assignment::Names(charset(name), None));
        }
        [short, name] if short.is("charset") => return Ok(Assignment::Names(charset(name), None)),
        [catalog, rest @ ..] if catalog.is("catalog") && !rest.is_empty() && !rest[0].is_symbol('=') => {
            return match rest.first().and_then(plain) {
                Some("default_catalog" | "def") => Ok(Assignment::Nothing),
                _ => Err(SqlError::new(SqlErrorKind::NotSupported, "there is one catalog: default_catalog")),
            };
        }
        _ => {}
    }
    let sign = tokens
        .iter()
        .position(|token| token.is_symbol('='))
        .ok_or_else(|| syntax(text, tokens.first(), "name = value"))?;
    let (left, right) = (&tokens[..sign], &tokens[sign + 1..]);
    let left = match left {
        [name @ .., colon] if colon.is_symbol(':') => name,
        left => left,
    };
    let given = given(text, right)?;
    Ok(match left {
        [Token { kind: TokenKind::User(name), .. }] => Assignment::User(name.clone(), given),
        [Token { kind: TokenKind::System(name), .. }] => Assignment::System(name.clone(), given),
        [Token { kind: TokenKind::Word(name) | TokenKind::Name(name), .. }] => Assignment::System(name.clone(), given),
        [scope, Token { kind: TokenKind::Word(name) | TokenKind::Name(name), .. }] if is_scope(scope) => {
            Assignment::System(format!("{}.{name}", word(scope)), given)
        }
        other => return Err(syntax(text, other.first(), "a variable")),
    })
}

fn is_scope(token: &Token) -> bool {
    ["session", "local", "global", "persist", "persist_only"].iter().any(|scope| token.is(scope))
}

fn given(text: &str, tokens: &[Token]) -> Result<Given, SqlError> {
    Ok(match tokens {
        [] => return Err(syntax(text, None, "a value")),
        [Token { kind: TokenKind::Word(word), .. }] if word.eq_ignore_ascii_case("default") => Given::Default,
        [Token { kind: TokenKind::Word(word) | TokenKind::Name(word), .. }] => Given::Word(word.clone()),
        [Token { kind: TokenKind::Text(text), .. }] => Given::Literal(text.as_str().into()),
        [Token { kind: TokenKind::Number(number), .. }] if number.parse::<i64>().is_ok() => {
            Given::Literal(number.parse().map_or(Value::Null, Value::Integer))
        }
        other => Given::Expression(as_written(text, other)),
    })
}

/// `ISOLATION LEVEL …` and `READ ONLY` or `READ WRITE`, in any order.
fn transaction(text: &str, tokens: &[Token]) -> Result<Vec<Assignment>, SqlError> {
    let one = |part: &[Token]| {
        let words: Vec<String> = part.iter().map(word).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (name, value) = match words.as_slice() {
            ["isolation", "level", level @ ..] if !level.is_empty() => ("transaction_isolation", level.join("-")),
            ["read", "only"] => ("transaction_read_only", "on".to_owned()),
            ["read", "write"] => ("transaction_read_only", "off".to_owned()),
            _ => return Err(syntax(text, part.first(), "ISOLATION LEVEL, READ ONLY or READ WRITE")),
        };
        Ok(Assignment::System(name.to_owned(), Given::Word(value)))
    };
    tokens.split(|token| token.is_symbol(',')).map(one).collect()
}

/// Carries out an assignment whose expression has become a literal.
///
/// # Errors
/// As [`Variables::set`].
pub(super) fn assign(variables: &mut Variables, assignment: Assignment) -> Result<(), SqlError> {
    match assignment {
        Assignment::Nothing => Ok(()),
        Assignment::Names(charset, collation) => variables.set_names(charset.as_deref(), collation.as_deref()),
        Assignment::User(name, given) => variables.set_user(&name, value(given)),
        Assignment::System(name, Given::Default) => variables.set(&name, None),
        Assignment::System(name, Given::Word(word) | Given::Expression(word)) => variables.set(&name, Some(&word)),
        Assignment::System(name, Given::Literal(value)) => {
            let text = match value {
                Value::Null => "NULL".to_owned(),
                Value::Integer(number) => number.to_string(),
                Value::Real(number) => number.to_string(),
                Value::Text(text) => text,
                Value::Blob(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            };
            variables.set(&name, Some(&text))
        }
    }
}

/// `TRUE`, `FALSE`, `NULL`; any other word is a text.
fn value(given: Given) -> Value {
    match given {
        Given::Literal(value) => value,
        Given::Word(word) if word.eq_ignore_ascii_case("true") => Value::Integer(1),
        Given::Word(word) if word.eq_ignore_ascii_case("false") => Value::Integer(0),
        Given::Word(word) if !word.eq_ignore_ascii_case("null") => word.into(),
        _ => Value::Null,
    }
}
