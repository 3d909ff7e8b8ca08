//! A statement's tokens, by MySQL's rules: words and backquoted names, numbers, strings with escapes, `@@variables`,
//! comments skipped.
//!
//! `/*! … */` is not a comment for MySQL: its content counts.

use crate::mysql::{SqlError, SqlErrorKind};

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// A word, as written.
    Word(String),
    /// A name in backquotes, without them.
    Name(String),
    /// A number, as written.
    Number(String),
    /// A string in single or double quotes, unescaped.
    Text(String),
    /// `@@name` or `@@session.name`, without the `@@`.
    System(String),
    /// `@name`.
    User(String),
    /// Anything else, one character.
    Symbol(char),
}

/// A token and its position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// Its bytes in the statement.
    pub(super) span: std::ops::Range<usize>,
}

impl Token {
    /// Whether it is this word, in any case.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(&self.kind, TokenKind::Word(own) if own.eq_ignore_ascii_case(word))
    }

    pub(super) fn is_symbol(&self, symbol: char) -> bool {
        self.kind == TokenKind::Symbol(symbol)
    }
}

/// Most tokens of a statement.
const TOKENS_MAX: usize = 20_000;

/// Splits a statement.
///
/// # Errors
/// A string, name or comment without an end, or too many tokens; the text contains the byte offset.
pub(super) fn tokens(statement: &str) -> Result<Vec<Token>, SqlError> {
    let mut lexer = Lexer { text: statement, at: 0, inside: false };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        if tokens.len() >= TOKENS_MAX {
            return Err(SqlError::new(
                SqlErrorKind::Limit,
                format!("a statement of more than {TOKENS_MAX} words is not taken"),
            ));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Inside `/*! … */`.
    inside: bool,
}

fn word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl Lexer<'_> {
    fn rest(&self) -> &[u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn unended(&self, what: &str, start: usize) -> SqlError {
        SqlError::new(SqlErrorKind::Syntax, format!("byte {}: a {what} begins here and does not end", start + 1))
    }

    /// Skips blanks and comments.
    fn skip(&mut self) -> Result<(), SqlError> {
        loop {
            let rest = self.rest();
            let start = self.at;
            match rest {
                [b, ..] if b.is_ascii_whitespace() => self.at += 1,
                [b'#', ..] => self.line(),
                [b'-', b'-'] => self.line(),
                [b'-', b'-', b, ..] if b.is_ascii_whitespace() || b.is_ascii_control() => self.line(),
                [b'/', b'*', b'!', version @ ..] => {
                    self.at += 3 + version.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
                    self.inside = true;
                }
                [b'*', b'/', ..] if self.inside => {
                    self.at += 2;
                    self.inside = false;
                }
                [b'/', b'*', ..] => {
                    let end = self.text[start + 2..].find("*/").ok_or_else(|| self.unended("comment", start))?;
                    self.at = start + 2 + end + 2;
                }
                [] if self.inside => return Err(self.unended("comment", start)),
                _ => return Ok(()),
            }
        }
    }

    fn line(&mut self) {
        self.at += self.rest().iter().position(|byte| *byte == b'\n').unwrap_or(self.rest().len());
    }

    fn next(&mut self) -> Result<Option<Token>, SqlError> {
        self.skip()?;
        let start = self.at;
        let Some(first) = self.rest().first().copied() else { return Ok(None) };
        let kind = match first {
            b'\'' | b'"' => TokenKind::Text(self.quoted(first, "string")?),
            b'`' => TokenKind::Name(self.quoted(first, "name")?),
            b'@' => self.variable()?,
            b'0'..=b'9' => TokenKind::Number(self.number()),
            byte if word_byte(byte) => TokenKind::Word(self.word()),
            _ => {
                let symbol = self.text[start..].chars().next().unwrap_or('?');
                self.at += symbol.len_utf8();
                TokenKind::Symbol(symbol)
            }
        };
        Ok(Some(Token { kind, span: start..self.at }))
    }

    fn word(&mut self) -> String {
        let length = self.rest().iter().take_while(|byte| word_byte(**byte)).count();
        let start = self.at;
        self.at += length;
        self.text[start..self.at].to_owned()
    }

    /// Digits, with a point and an exponent; letters behind digits make it a word for the parser to refuse.
    fn number(&mut self) -> String {
        let start = self.at;
        let rest = self.rest();
        let mut length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'.').count();
        if matches!(rest.get(length - 1), Some(b'e' | b'E')) && matches!(rest.get(length), Some(b'+' | b'-')) {
            length += 1 + rest[length + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        }
        self.at += length;
        self.text[start..self.at].to_owned()
    }

    fn variable(&mut self) -> Result<TokenKind, SqlError> {
        self.at += 1;
        let system = self.rest().first() == Some(&b'@');
        if system {
            self.at += 1;
        }
        let mut name = String::new();
        loop {
            match self.rest().first() {
                Some(b'`') => name += &self.quoted(b'`', "name")?,
                Some(b'.') => {
                    self.at += 1;
                    name.push('.');
                }
                Some(byte) if word_byte(*byte) => name += &self.word(),
                _ => break,
            }
        }
        Ok(if system { TokenKind::System(name) } else { TokenKind::User(name) })
    }

    /// A text in quotes; the quote is written twice or escaped, except in names.
    fn quoted(&mut self, quote: u8, what: &str) -> Result<String, SqlError> {
        let start = self.at;
        let mut text = Vec::new();
        self.at += 1;
        loop {
            let rest = self.rest();
            match rest {
                [] => return Err(self.unended(what, start)),
                [b, other, ..] if *b == quote && *other == quote => {
                    text.push(quote);
                    self.at += 2;
                }
                [b, ..] if *b == quote => {
                    self.at += 1;
                    break;
                }
                [b'\\', escaped, ..] if quote != b'`' => {
                    match escaped {
                        b'0' => text.push(0),
                        b'b' => text.push(8),
                        b'n' => text.push(b'\n'),
                        b'r' => text.push(b'\r'),
                        b't' => text.push(b'\t'),
                        b'Z' => text.push(26),
                        // So that a pattern's own escape survives.
                        b'%' | b'_' => text.extend_from_slice(&[b'\\', *escaped]),
                        other => text.push(*other),
                    }
                    self.at += 2;
                }
                [b, ..] => {
                    text.push(*b);
                    self.at += 1;
                }
            }
        }
        String::from_utf8(text)
            .map_err(|_| SqlError::new(SqlErrorKind::Syntax, format!("byte {}: this {what} is not UTF-8", start + 1)))
    }
}
