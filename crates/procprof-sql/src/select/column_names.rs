//! Names of result columns: MySQL names an expression by its text, so what was rewritten gets that text as its name.

use std::ops::Range;

use super::column_types::derived_type;
use super::rewrite::quoted_name;
use crate::mysql::ColumnType;
use crate::token::{Token, TokenKind};

/// Words that end the list of a `SELECT`.
const ENDS: &[&str] = &["from", "where", "group", "having", "order", "limit", "union", "except", "intersect", "window"];
/// Longest name, in characters.
const NAME_MAX: usize = 256;

/// Names the columns of the statement's first `SELECT` that is in no parentheses.
pub(super) fn name_columns(text: &str, tokens: &[Token], out: &mut [String]) {
    for item in items(tokens, |at| out[at].is_empty()) {
        name_column(text, tokens, out, item.start, item.end);
    }
}

/// The derived types of the columns of that `SELECT`; none if it has a `*`, which means any number of columns.
pub(super) fn column_types(tokens: &[Token]) -> Vec<Option<ColumnType>> {
    let items = items(tokens, |_| false);
    let has_star = items.iter().any(|item| tokens[item.clone()].last().is_some_and(|token| token.is_symbol('*')));
    if has_star { Vec::new() } else { items.into_iter().map(|item| derived_type(&tokens[item])).collect() }
}

/// The items of the statement's first `SELECT` that is in no parentheses; words at its beginning that are gone are none
/// of the first's.
fn items(tokens: &[Token], is_gone: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut depth = 0_usize;
    let mut items = Vec::new();
    let mut start = None;
    for at in 0..=tokens.len() {
        let token = tokens.get(at);
        match token.map(|token| &token.kind) {
            Some(TokenKind::Symbol('(')) => depth += 1,
            Some(TokenKind::Symbol(')')) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 0 {
            continue;
        }
        let Some(token) = token else {
            items.extend(start.map(|start| start..at));
            break;
        };
        match start {
            None if token.is("select") => start = Some(at + 1),
            None => {}
            Some(first) if first == at && (token.is("distinct") || token.is("all") || is_gone(at)) => {
                start = Some(at + 1)
            }
            Some(first) if ENDS.iter().any(|end| token.is(end)) => {
                items.push(first..at);
                break;
            }
            Some(first) if token.is_symbol(',') => {
                items.push(first..at);
                start = Some(at + 1);
            }
            Some(_) => {}
        }
    }
    items
}

/// Names the column whose tokens are `start..end` if it was rewritten and has no name of its own.
fn name_column(text: &str, tokens: &[Token], out: &mut [String], start: usize, end: usize) {
    let Some([first, .., last] | [first @ last]) = tokens.get(start..end) else { return };
    let as_written = |at: usize| tokens[at].span.clone();
    let is_same = (start..end).all(|at| out[at] == text[as_written(at)]);
    let is_text = end - start == 1 && matches!(first.kind, TokenKind::Text(_));
    if (is_same && !is_text) || has_name(&tokens[start..end]) {
        return;
    }
    let name = match &first.kind {
        TokenKind::Text(text) if is_text => text.as_str(),
        // A column goes by its name without that of its table.
        _ if tokens[start..end].iter().all(|token| is_name(token) || token.is_symbol('.')) => return,
        _ if last.is_symbol('*') && end - start > 1 && tokens[end - 2].is_symbol('.') => return,
        _ => &text[first.span.start..last.span.end],
    };
    let name: String = name.chars().take(NAME_MAX).collect();
    out[end - 1] += &format!(" AS {}", quoted_name(&name));
}

fn is_name(token: &Token) -> bool {
    matches!(token.kind, TokenKind::Word(_) | TokenKind::Name(_))
}

/// Whether an expression has a name behind it, with or without `AS`. In doubt it has.
fn has_name(tokens: &[Token]) -> bool {
    let [.., before, last] = tokens else { return false };
    let ends_in_name = is_name(last) || matches!(last.kind, TokenKind::Text(_));
    let continues = matches!(before.kind, TokenKind::Symbol(symbol) if symbol != ')')
        || ["and", "or", "not", "is", "like", "rlike", "regexp", "div", "mod", "in", "between", "null"]
            .iter()
            .any(|word| before.is(word));
    ends_in_name && !continues && !last.is("end") && !last.is("null")
}
