//! Functions that MySQL spells otherwise than SQLite: those of the connection and the time, `CAST`, `CONVERT`,
//! `GROUP_CONCAT`, `INTERVAL`.

use super::moment::datetime;
use super::rewrite::{Rewriter, literal};
use crate::mysql::SqlError;
use crate::token::TokenKind;
use crate::variables::VERSION;

impl Rewriter<'_> {
    /// The value of a function of the connection or the time; its parentheses are removed.
    pub(super) fn fact(&mut self, at: usize, lower: &str, is_call: bool) -> Option<String> {
        let bare = ["current_user", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp"]
            .contains(&lower);
        if !is_call && !bare {
            return None;
        }
        let second = self.session.now.as_second();
        let now = datetime(second * 1_000_000_000, 0);
        let value = match lower {
            "version" | "current_version" => literal(VERSION),
            "database" | "schema" if self.session.database.is_empty() => "NULL".to_owned(),
            "database" | "schema" => literal(self.session.database),
            "user" | "current_user" | "session_user" | "system_user" => literal(&self.session.user),
            "connection_id" => self.session.connection.to_string(),
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

    /// The tokens of a call's arguments outside further parentheses: from behind the opening one to the closing one,
    /// which is the last.
    fn arguments(&self, at: usize) -> Result<Vec<usize>, SqlError> {
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
    pub(super) fn cast(&mut self, at: usize) -> Result<(), SqlError> {
        self.put(at, "CAST");
        let own = self.arguments(at)?;
        let place = own.iter().rposition(|place| self.tokens[*place].is("as"));
        if let Some(place) = place {
            self.type_name(&own[place + 1..]);
        }
        Ok(())
    }

    /// `CONVERT(x, type)` and `CONVERT(x USING charset)`.
    pub(super) fn convert(&mut self, at: usize) -> Result<(), SqlError> {
        let own = self.arguments(at)?;
        let divider =
            own.iter().rposition(|place| self.tokens[*place].is("using") || self.tokens[*place].is_symbol(','));
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
        // Between them: a length, `INTEGER` behind `SIGNED`, `CHARACTER SET …`.
        let last = rest.last().copied().unwrap_or(*first + 1);
        (*first + 1..last).for_each(|place| self.put(place, ""));
    }

    /// `SEPARATOR 'text'`, which goes before `ORDER BY`.
    pub(super) fn separator(&mut self, at: usize) {
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
    pub(super) fn interval(&mut self, at: usize) -> Result<(), SqlError> {
        let is_negative = self.tokens.get(at + 1).is_some_and(|token| token.is_symbol('-'));
        let first = at + 1 + usize::from(is_negative);
        let Some([amount, unit]) = self.tokens.get(first..first + 2) else { return Err(self.unexpected(at)) };
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
        let amount = if is_negative { format!("(-{amount})") } else { amount };
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
        (at + 1..first + 2).for_each(|gone| self.put(gone, ""));
        Ok(())
    }

    /// The start of the operand that ends before a sign: a call, a parenthesis, a name with its table, or one word.
    fn operand(&self, sign: usize) -> Result<usize, SqlError> {
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
