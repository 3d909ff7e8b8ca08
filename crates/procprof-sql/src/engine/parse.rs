//! The text of a statement as a tree, by sqlparser with MySQL's rules where its own dialect has others: precedence of
//! operators, `DIV`, `MOD`, `||`, `!`, `BINARY`, `INTERVAL`, `EXTRACT` and `CHAR`.

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, Expr, ExtractSyntax, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, Interval, ObjectName, Query, Statement, UnaryOperator,
};
use sqlparser::dialect::{Dialect, MySqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::mysql::{SqlError, SqlErrorKind};
use crate::token::{Token as Word, TokenKind, tokens};

/// Deepest nesting of parentheses.
const DEPTH_MAX: usize = 100;
/// Longest statement, in bytes.
const BYTES_MAX: usize = 256 << 10;
/// Operators in a row at most: each is a level of the tree.
const OPERATORS_MAX: usize = 1000;
/// Levels that the parser may go down.
const RECURSION_MAX: usize = 1500;

/// A `SELECT`, or one to be explained.
pub(super) struct Parsed {
    pub(super) query: Box<Query>,
    pub(super) explains: bool,
    pub(super) words: Vec<Word>,
}

/// Reads a statement.
///
/// # Errors
/// What breaks MySQL's rules, more than one statement, and what is too long or too deep.
pub(super) fn parse(text: &str, pipes_concat: bool) -> Result<Parsed, SqlError> {
    if text.len() > BYTES_MAX {
        let text = format!("a statement of more than {BYTES_MAX} bytes is not taken");
        return Err(SqlError::new(SqlErrorKind::Limit, text));
    }
    if text.contains('\0') {
        let text = "a NUL byte stands in the statement; give texts with one as parameters";
        return Err(SqlError::new(SqlErrorKind::Syntax, text));
    }
    let words = tokens(text)?;
    check(&words)?;
    let dialect = MySql { pipes_concat };
    let mut parser =
        Parser::new(&dialect).with_recursion_limit(RECURSION_MAX).try_with_sql(text).map_err(|error| syntax(&error))?;
    let explains = parser.parse_one_of_keywords(&[Keyword::EXPLAIN, Keyword::DESCRIBE, Keyword::DESC]).is_some();
    if explains {
        let _ = parser.parse_keyword(Keyword::EXTENDED);
    }
    let statement = parser.parse_statement().map_err(|error| syntax(&error))?;
    // Nothing is written, so there is nothing to lock.
    let _ = parser.parse_keywords(&[Keyword::LOCK, Keyword::IN, Keyword::SHARE, Keyword::MODE]);
    while parser.consume_token(&Token::SemiColon) {}
    let next = parser.peek_token();
    if next.token != Token::EOF {
        let is_second =
            matches!(&next.token, Token::Word(word) if matches!(word.keyword, Keyword::SELECT | Keyword::WITH));
        let kind = if is_second { SqlErrorKind::NotSupported } else { SqlErrorKind::Syntax };
        let why = if is_second { "one statement at a time" } else { "syntax error" };
        return Err(SqlError::new(kind, format!("{why}: at '{}', line {}", next.token, next.span.start.line)));
    }
    match statement {
        Statement::Query(query) => Ok(Parsed { query, explains, words }),
        _ => Err(SqlError::new(SqlErrorKind::NotSupported, "the tables are read-only")),
    }
}

/// The limits of a statement that its words show.
fn check(words: &[Word]) -> Result<(), SqlError> {
    let (mut depth, mut operators) = (0_usize, 0);
    for word in words {
        match word.kind {
            TokenKind::Symbol('(') => {
                depth += 1;
                if depth > DEPTH_MAX {
                    let text = format!("parentheses nest more than {DEPTH_MAX} levels; that is not taken");
                    return Err(SqlError::new(SqlErrorKind::Limit, text));
                }
            }
            TokenKind::Symbol(')') => {
                depth =
                    depth.checked_sub(1).ok_or_else(|| SqlError::new(SqlErrorKind::Syntax, "syntax error: at ')'"))?;
            }
            TokenKind::Symbol(symbol) if "+-*/%|&^=<>!~".contains(symbol) => operators += 1,
            _ if word.is("and") || word.is("or") || word.is("not") || word.is("union") => operators += 1,
            _ => {}
        }
    }
    if depth > 0 {
        return Err(SqlError::new(SqlErrorKind::Syntax, "a parenthesis is not closed at the end of the statement"));
    }
    if operators > OPERATORS_MAX {
        let text = format!("Expression tree is too large: more than {OPERATORS_MAX} operators");
        return Err(SqlError::new(SqlErrorKind::Limit, text));
    }
    Ok(())
}

fn syntax(error: &ParserError) -> SqlError {
    match error {
        ParserError::RecursionLimitExceeded => SqlError::new(SqlErrorKind::Limit, "the statement nests too deeply"),
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            let what = if text.contains("found: EOF") { "incomplete input" } else { "syntax error" };
            SqlError::new(SqlErrorKind::Syntax, format!("{what}: {text}"))
        }
    }
}

/// MySQL's dialect.
#[derive(Debug)]
struct MySql {
    /// Whether `||` joins texts.
    pipes_concat: bool,
}

const OWN: MySqlDialect = MySqlDialect {};

/// Levels of precedence of operators that have their own.
const UNARY: u8 = 55;
const CARET: u8 = 48;
const PRODUCT: u8 = 45;
const SHIFT: u8 = 35;
const OR: u8 = 5;
const ASSIGNMENT: u8 = 3;

impl Dialect for MySql {
    fn dialect(&self) -> std::any::TypeId {
        OWN.dialect()
    }

    fn is_identifier_start(&self, character: char) -> bool {
        OWN.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        OWN.is_identifier_part(character)
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        OWN.is_delimited_identifier_start(character)
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }

    fn supports_string_literal_concatenation(&self) -> bool {
        true
    }

    fn ignores_wildcard_escapes(&self) -> bool {
        true
    }

    fn supports_numeric_prefix(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn supports_multiline_comment_hints(&self) -> bool {
        true
    }

    fn require_interval_qualifier(&self) -> bool {
        true
    }

    fn supports_limit_comma(&self) -> bool {
        true
    }

    fn is_table_factor_alias(&self, explicit: bool, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        OWN.is_table_factor_alias(explicit, keyword, parser)
    }

    fn supports_table_hints(&self) -> bool {
        true
    }

    fn requires_single_line_comment_whitespace(&self) -> bool {
        true
    }

    fn supports_select_modifiers(&self) -> bool {
        true
    }

    fn supports_data_type_signed_suffix(&self) -> bool {
        true
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_cross_join_constraint(&self) -> bool {
        true
    }

    fn supports_double_ampersand_operator(&self) -> bool {
        true
    }

    fn supports_binary_kw_as_cast(&self) -> bool {
        true
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Period => 100,
            Precedence::DoubleColon => 60,
            Precedence::AtTz => 59,
            Precedence::MulDivModOp => PRODUCT,
            Precedence::PlusMinus => 40,
            Precedence::Caret => CARET,
            Precedence::Ampersand => 32,
            Precedence::Pipe | Precedence::Colon => 30,
            Precedence::Between | Precedence::Eq | Precedence::Like | Precedence::Is => 20,
            Precedence::PgOther => 58,
            Precedence::UnaryNot => 15,
            Precedence::And => 10,
            Precedence::Xor => 8,
            Precedence::Or => OR,
        }
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::StringConcat => Some(Ok(if self.pipes_concat { CARET + 1 } else { OR })),
            Token::Overlap => Some(Ok(10)),
            Token::Assignment => Some(Ok(ASSIGNMENT)),
            Token::ShiftLeft | Token::ShiftRight => Some(Ok(SHIFT)),
            Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("mod") => {
                Some(Ok(PRODUCT))
            }
            _ => None,
        }
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let operator = match &parser.peek_token_ref().token {
            Token::ExclamationMark => UnaryOperator::BangNot,
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            Token::Tilde => UnaryOperator::BitwiseNot,
            Token::Word(word) if word.quote_style.is_none() => {
                let name = word.value.to_ascii_lowercase();
                let calls = parser.peek_nth_token_ref(1).token == Token::LParen;
                return match name.as_str() {
                    "binary" => Some(binary(parser)),
                    "interval" => Some(interval(parser)),
                    "extract" if calls => Some(extract(parser)),
                    "char" if calls => Some(characters(parser)),
                    _ => None,
                };
            }
            _ => return None,
        };
        parser.next_token();
        let inner = parser.parse_subexpr(UNARY);
        Some(inner.map(|inner| Expr::UnaryOp { op: operator, expr: Box::new(inner) }))
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        let operator = match &parser.peek_token_ref().token {
            Token::StringConcat if !self.pipes_concat => BinaryOperator::Or,
            Token::Word(word) if word.keyword == Keyword::DIV => BinaryOperator::MyIntegerDivide,
            Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("mod") => {
                BinaryOperator::Modulo
            }
            Token::Assignment => BinaryOperator::Assignment,
            _ => return None,
        };
        parser.next_token();
        // `@a := @b := 1` assigns the right one first.
        let groups_right = operator == BinaryOperator::Assignment;
        let right = parser.parse_subexpr(precedence.saturating_sub(groups_right.into()));
        Some(right.map(|right| Expr::BinaryOp { left: Box::new(left.clone()), op: operator, right: Box::new(right) }))
    }
}

/// `BINARY expr`, which binds closer than all operators.
fn binary(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.next_token();
    let inner = parser.parse_subexpr(UNARY)?;
    Ok(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(inner),
        data_type: DataType::Binary(None),
        array: false,
        format: None,
    })
}

/// `INTERVAL expr unit`, or the function `INTERVAL(a, b, …)`.
fn interval(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.next_token();
    match parser.parse_expr()? {
        Expr::Tuple(arguments) => Ok(call("interval", arguments)),
        amount => Ok(Expr::Interval(Interval {
            value: Box::new(amount),
            leading_field: Some(unit(parser)?),
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        })),
    }
}

/// `EXTRACT(unit FROM expr)`.
fn extract(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.next_token();
    parser.next_token();
    let field = unit(parser)?;
    parser.expect_keyword(Keyword::FROM)?;
    let inner = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Extract { field, syntax: ExtractSyntax::From, expr: Box::new(inner) })
}

/// `CHAR(a, b, … [USING charset])`.
fn characters(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.next_token();
    parser.next_token();
    let arguments = parser.parse_comma_separated(Parser::parse_expr)?;
    let charset = if parser.parse_keyword(Keyword::USING) { Some(parser.parse_object_name(false)?) } else { None };
    parser.expect_token(&Token::RParen)?;
    let bytes = call("char", arguments);
    Ok(match charset {
        None => bytes,
        Some(charset) => Expr::Convert {
            is_try: false,
            expr: Box::new(bytes),
            data_type: None,
            charset: Some(charset),
            target_before_value: false,
            styles: Vec::new(),
        },
    })
}

/// The name of a unit of time; whether there is such a one is checked when the statement is bound.
fn unit(parser: &mut Parser<'_>) -> Result<DateTimeField, ParserError> {
    let name = parser.parse_identifier()?;
    Ok(DateTimeField::Custom(Ident::new(name.value.to_ascii_lowercase())))
}

/// A call of a function.
fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let argument = |argument: Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.into_iter().map(argument).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
