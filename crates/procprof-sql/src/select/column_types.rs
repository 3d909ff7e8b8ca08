//! The types of expressions without a value so far: SQLite has none, and a client that reads a result's columns needs
//! one.
//!
//! They are derived from the outermost operator or function. Once there is a value, its own type counts.

use super::tables;
use crate::mysql::ColumnType::{self, Integer, Real, Text};
use crate::token::{Token, TokenKind};

/// Words between two operands that make a truth value.
const TRUTHS: &[&str] = &["and", "or", "xor", "not", "like", "rlike", "regexp", "in", "is", "between", "exists"];
/// Functions that give whole numbers.
const WHOLE: &[&str] = &[
    "ascii",
    "bit_length",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "connection_id",
    "count",
    "crc32",
    "datediff",
    "day",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "dense_rank",
    "exists",
    "find_in_set",
    "floor",
    "found_rows",
    "hour",
    "instr",
    "isnull",
    "json_array_length",
    "json_valid",
    "last_insert_id",
    "length",
    "locate",
    "minute",
    "mod",
    "month",
    "ntile",
    "octet_length",
    "quarter",
    "rank",
    "regexp_like",
    "row_count",
    "row_number",
    "second",
    "sign",
    "sleep",
    "unicode",
    "unix_timestamp",
    "weekday",
    "year",
];
/// Functions that give doubles.
const DOUBLES: &[&str] = &[
    "avg",
    "cume_dist",
    "exp",
    "julianday",
    "ln",
    "log10",
    "log2",
    "percent_rank",
    "pow",
    "power",
    "random",
    "round",
    "sqrt",
    "total",
    "truncate",
];
/// Functions whose value has the type of an argument: of the first, or of the one with that place.
const LIKE_ARGUMENT: &[(&str, usize)] = &[
    ("abs", 0),
    ("any_value", 0),
    ("coalesce", 0),
    ("first_value", 0),
    ("greatest", 0),
    ("if", 1),
    ("ifnull", 0),
    ("iif", 1),
    ("lag", 0),
    ("last_value", 0),
    ("lead", 0),
    ("least", 0),
    ("max", 0),
    ("min", 0),
    ("nth_value", 0),
    ("nullif", 0),
    ("sum", 0),
];
/// Deepest nesting that is looked into.
const DEPTH_MAX: usize = 20;

/// The type of an expression with or without a name behind it; `None` if it can't be derived.
pub(super) fn derived_type(tokens: &[Token]) -> Option<ColumnType> {
    guessed(tokens, 0)
}

fn guessed(tokens: &[Token], depth: usize) -> Option<ColumnType> {
    if depth > DEPTH_MAX {
        return None;
    }
    let tokens = nameless(tokens);
    match tokens {
        [] => None,
        [one] => literal(one),
        [.., dot, column] if dot.is_symbol('.') && tokens.len() <= 5 => column_type(column),
        [first, ..] if first.is("case") => then(tokens, depth),
        [first, .., last]
            if first.is_symbol('(') && last.is_symbol(')') && closing(tokens, 0) == Some(tokens.len() - 1) =>
        {
            match &tokens[1..tokens.len() - 1] {
                [select, item @ ..] if select.is("select") => guessed(first_item(item), depth + 1),
                inner => guessed(inner, depth + 1),
            }
        }
        _ => operators(tokens, depth),
    }
}

/// The expression without the name behind it.
fn nameless(tokens: &[Token]) -> &[Token] {
    match tokens {
        [expression @ .., sign, _] if sign.is("as") => expression,
        [expression @ .., end, name]
            if (end.is_symbol(')') || end.is("end"))
                && matches!(name.kind, TokenKind::Word(_) | TokenKind::Name(_)) =>
        {
            &tokens[..expression.len() + 1]
        }
        [value, name] if matches!(name.kind, TokenKind::Word(_) | TokenKind::Name(_)) && !value.is_symbol('-') => {
            &tokens[..1]
        }
        _ => tokens,
    }
}

fn literal(token: &Token) -> Option<ColumnType> {
    match &token.kind {
        TokenKind::Number(digits) => Some(if digits.parse::<i64>().is_ok() { Integer } else { Real }),
        TokenKind::Text(_) => Some(Text),
        TokenKind::Word(word) if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") => {
            Some(Integer)
        }
        TokenKind::Word(_) | TokenKind::Name(_) => column_type(token),
        _ => None,
    }
}

/// The type of the columns of that name in our tables, if it is one type.
fn column_type(token: &Token) -> Option<ColumnType> {
    let (TokenKind::Word(name) | TokenKind::Name(name)) = &token.kind else { return None };
    let mut types = tables::all()
        .filter(|table| !table.name.contains('.'))
        .flat_map(|table| table.columns)
        .filter(|column| column.name.eq_ignore_ascii_case(name))
        .map(|column| column.column_type);
    let first = types.next()?;
    types.all(|other| other == first).then_some(first)
}

/// The place of the parenthesis that closes the one at `open`.
fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (open..tokens.len()).find(|at| {
        match tokens[*at].kind {
            TokenKind::Symbol('(') => depth += 1,
            TokenKind::Symbol(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// Of the first `THEN` of a `CASE`.
fn then(tokens: &[Token], depth: usize) -> Option<ColumnType> {
    let start = tokens.iter().position(|token| token.is("then"))? + 1;
    let rest = &tokens[start..];
    let end = rest.iter().position(|token| ["when", "else", "end"].iter().any(|word| token.is(word)))?;
    guessed(&rest[..end], depth + 1)
}

/// By the operators outside parentheses; without any it is a call.
fn operators(tokens: &[Token], depth: usize) -> Option<ColumnType> {
    let (mut at, mut operands, mut start) = (0, Vec::new(), 0);
    let (mut is_arithmetic, mut divides) = (false, false);
    while at < tokens.len() {
        match &tokens[at].kind {
            TokenKind::Symbol('(') => at = closing(tokens, at)?,
            TokenKind::Symbol('=' | '<' | '>' | '!' | '&' | '|' | '^' | '~') => return Some(Integer),
            TokenKind::Symbol('+' | '-' | '*' | '%' | '/') => {
                (is_arithmetic, divides) = (true, divides || tokens[at].is_symbol('/'));
                operands.push(&tokens[start..at]);
                start = at + 1;
            }
            TokenKind::Word(word) if TRUTHS.iter().any(|truth| word.eq_ignore_ascii_case(truth)) => {
                return Some(Integer);
            }
            TokenKind::Word(word) if word.eq_ignore_ascii_case("interval") => return Some(Text),
            TokenKind::Word(word) if word.eq_ignore_ascii_case("div") => return Some(Integer),
            _ => {}
        }
        at += 1;
    }
    if !is_arithmetic {
        return call(tokens, depth);
    }
    operands.push(&tokens[start..]);
    let is_real = divides || operands.iter().any(|operand| guessed(operand, depth + 1) == Some(Real));
    Some(if is_real { Real } else { Integer })
}

fn call(tokens: &[Token], depth: usize) -> Option<ColumnType> {
    let [Token { kind: TokenKind::Word(name), .. }, open, ..] = tokens else { return None };
    let name = name.to_ascii_lowercase();
    let end = open.is_symbol('(').then(|| closing(tokens, 1)).flatten()?;
    let inner = &tokens[2..end];
    if name == "cast" {
        let place = inner.iter().rposition(|token| token.is("as"))?;
        return cast(inner.get(place + 1)?);
    }
    if name == "convert" {
        return nth(inner, 1).map_or(Some(Text), |type_name| cast(type_name.first()?));
    }
    if let Some((_, argument)) = LIKE_ARGUMENT.iter().find(|(own, _)| *own == name) {
        return guessed(nth(inner, *argument)?, depth + 1).or((name == "sum").then_some(Integer));
    }
    Some(match name.as_str() {
        name if WHOLE.contains(&name) => Integer,
        name if DOUBLES.contains(&name) => Real,
        _ => Text,
    })
}

/// The first item of a `SELECT`, from behind that word.
fn first_item(tokens: &[Token]) -> &[Token] {
    let end = tokens.iter().position(|token| token.is("from")).unwrap_or(tokens.len());
    nth(&tokens[..end], 0).unwrap_or(tokens)
}

/// An argument of a call.
fn nth(inner: &[Token], place: usize) -> Option<&[Token]> {
    let mut depth = 0_usize;
    let mut parts = inner.split(|token| {
        match token.kind {
            TokenKind::Symbol('(') => depth += 1,
            TokenKind::Symbol(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.is_symbol(',')
    });
    parts.nth(place)
}

fn cast(type_name: &Token) -> Option<ColumnType> {
    let TokenKind::Word(name) = &type_name.kind else { return None };
    Some(match name.to_ascii_lowercase().as_str() {
        "signed" | "unsigned" | "integer" | "int" | "bigint" | "year" => Integer,
        "double" | "float" | "real" | "decimal" | "dec" | "numeric" => Real,
        _ => Text,
    })
}

#[cfg(test)]
mod tests {
    use super::derived_type;
    use crate::mysql::ColumnType::{Integer, Real, Text};
    use crate::token::tokens;

    #[test]
    fn expressions_have_types() {
        for (expression, expected) in [
            ("1", Some(Integer)),
            ("1.5 AS x", Some(Real)),
            ("'a' b", Some(Text)),
            ("NULL", None),
            ("COUNT(*)", Some(Integer)),
            ("COUNT(DISTINCT a, b) AS n", Some(Integer)),
            ("SUM(bytes)", Some(Integer)),
            ("SUM(seconds) total", Some(Real)),
            ("SUM(nonsense)", Some(Integer)),
            ("MAX(p.completed)", Some(Text)),
            ("p.`bytes`", Some(Integer)),
            ("AVG(bytes) * 2", Some(Real)),
            ("bytes / 2", Some(Real)),
            ("bytes + 2", Some(Integer)),
            ("-bytes", Some(Integer)),
            ("bytes > 2 AND type = 'cpu'", Some(Integer)),
            ("(SELECT COUNT(*) FROM nodes)", Some(Integer)),
            ("((seconds)) AS s", Some(Real)),
            ("CASE WHEN a THEN 1 ELSE 'x' END", Some(Integer)),
            ("CASE a WHEN 1 THEN 'x' END c", Some(Text)),
            ("CONCAT(a, 1)", Some(Text)),
            ("IF(a > 1, 2.5, 0)", Some(Real)),
            ("COALESCE(bytes, 0)", Some(Integer)),
            ("CAST(a AS UNSIGNED)", Some(Integer)),
            ("CONVERT(a, DECIMAL(10, 2))", Some(Real)),
            ("completed - INTERVAL 1 DAY", Some(Text)),
            ("NOW()", Some(Text)),
            ("a NOT IN (1, 2)", Some(Integer)),
            ("(a", None),
            ("COUNT(", None),
        ] {
            assert_eq!(derived_type(&tokens(expression).unwrap()), expected, "{expression}");
        }
        let deep = "(".repeat(5000) + "1" + &")".repeat(5000);
        assert_eq!(derived_type(&tokens(&deep).unwrap()), None);
    }
}
