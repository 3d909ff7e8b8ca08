//! Expressions: names, constants, operators, subqueries.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::logical_expr::expr::{Exists, InList, InSubquery};
use datafusion::logical_expr::{Expr, Operator, binary_expr, lit, not};
use sqlparser::ast::{
    BinaryOperator, CastKind, CeilFloorKind, DataType, DateTimeField, ExactNumberInfo, Expr as AstExpr, Ident,
    Interval, TimezoneInfo, TrimWhereField, UnaryOperator, Value as AstValue,
};

use super::{Binder, Bound, Place, ScopeColumn, is_same, unsupported, wrong};
use crate::engine::decimal::Decimal;
use crate::engine::functions::{dates, intervals, numbers, texts};
use crate::engine::limits::{check_parts, parts};
use crate::engine::moment;
use crate::engine::types::{Coercibility, Collation, SqlType};
use crate::engine::value::Val;
use crate::mysql::{SqlError, SqlErrorKind, Value};

type Answer = Result<Bound, SqlError>;

impl Binder<'_> {
    /// A condition of a row.
    pub(super) fn condition(&mut self, expr: &AstExpr, place: &Place<'_>) -> Result<Expr, SqlError> {
        let bound = self.expression(expr, place)?;
        self.truth(&bound)
    }

    pub(super) fn expression(&mut self, expr: &AstExpr, place: &Place<'_>) -> Answer {
        self.level += 1;
        let measured = Self::deeper(|| self.part(expr, place).and_then(|bound| Ok((parts(&bound.expr)?, bound))));
        self.level -= 1;
        let (parts, bound) = measured?;
        if self.level == 0 {
            self.parts += parts;
            check_parts(self.parts)?;
        }
        Ok(bound)
    }

    fn part(&mut self, expr: &AstExpr, assigning: &Place<'_>) -> Answer {
        // Assignments stand where each row comes by, or in a branch of `CASE` or `IF`.
        let place = &Place { assignments: assigning.assignments.inside(), ..*assigning };
        match expr {
            AstExpr::Nested(inner) => self.expression(inner, assigning),
            AstExpr::BinaryOp { left, op: BinaryOperator::Assignment, right } => self.assign(left, right, assigning),
            AstExpr::Value(value) => self.constant(&value.value),
            AstExpr::Identifier(ident) => self.name(std::slice::from_ref(ident), place),
            AstExpr::CompoundIdentifier(idents) => self.name(idents, place),
            AstExpr::Prefixed { prefix, value } => match prefix.value.to_ascii_lowercase().as_str() {
                "_utf8mb4" | "_utf8" | "_utf8mb3" | "n" => self.expression(value, place),
                _ => Err(unsupported(format!("the character set {}", prefix.value))),
            },
            AstExpr::TypedString(typed) => {
                let text = typed.value.clone().into_string().unwrap_or_default();
                let own = Bound::constant(Val::from(text.clone()), SqlType::LITERAL);
                let digits = moment::fraction_digits(&text);
                let kind = match &typed.data_type {
                    DataType::Date => SqlType::Date,
                    DataType::Time(..) => SqlType::Time { digits },
                    DataType::Timestamp(..) | DataType::Datetime(..) => SqlType::DateTime { digits },
                    other => return Err(unsupported(other)),
                };
                let made = self.cast(&own, kind)?;
                match made.constant {
                    Some(Val::Null) => Err(SqlError::new(
                        SqlErrorKind::WrongMoment,
                        format!("Incorrect {} value: '{}'", typed.data_type, text.chars().take(80).collect::<String>()),
                    )),
                    _ => Ok(made),
                }
            }
            AstExpr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                self.junction(expr, op, place)
            }
            AstExpr::BinaryOp { left, op, right } => self.binary(left, op, right, place),
            AstExpr::UnaryOp { op, expr: inner } => self.unary(op, inner, place),
            AstExpr::IsNull(inner) => {
                let bound = self.expression(inner, place)?;
                Ok(self.logical(bound.expr.is_null()))
            }
            AstExpr::IsNotNull(inner) => {
                let bound = self.expression(inner, place)?;
                Ok(self.logical(bound.expr.is_not_null()))
            }
            AstExpr::IsTrue(inner) => {
                Ok(Bound::of(Expr::IsTrue(Box::new(self.condition(inner, place)?)), SqlType::Logical))
            }
            AstExpr::IsNotTrue(inner) => {
                Ok(Bound::of(Expr::IsNotTrue(Box::new(self.condition(inner, place)?)), SqlType::Logical))
            }
            AstExpr::IsFalse(inner) => {
                Ok(Bound::of(Expr::IsFalse(Box::new(self.condition(inner, place)?)), SqlType::Logical))
            }
            AstExpr::IsNotFalse(inner) => {
                Ok(Bound::of(Expr::IsNotFalse(Box::new(self.condition(inner, place)?)), SqlType::Logical))
            }
            AstExpr::IsUnknown(inner) => {
                Ok(Bound::of(Expr::IsNull(Box::new(self.condition(inner, place)?)), SqlType::Logical))
            }
            AstExpr::IsNotUnknown(inner) => {
                Ok(Bound::of(Expr::IsNotNull(Box::new(self.condition(inner, place)?)), SqlType::Logical))
            }
            AstExpr::Between { expr: inner, negated, low, high } => {
                let (value, low, high) =
                    (self.expression(inner, place)?, self.expression(low, place)?, self.expression(high, place)?);
                let from = self.compared(&value, Operator::GtEq, &low)?;
                let to = self.compared(&value, Operator::LtEq, &high)?;
                let within = self.truth(&from)?.and(self.truth(&to)?);
                Ok(Bound::of(if *negated { not(within) } else { within }, SqlType::Logical))
            }
            AstExpr::InList { expr: inner, list, negated } => self.in_list(inner, list, *negated, place),
            AstExpr::InSubquery { expr: inner, subquery, negated } => {
                if matches!(**inner, AstExpr::Tuple(_)) {
                    return Err(unsupported("a row IN a subquery"));
                }
                let value = self.expression(inner, place)?;
                let (value, subquery) = self.against(&value, subquery, place)?;
                let expr = InSubquery::new(Box::new(value), subquery, *negated);
                Ok(Bound::of(Expr::InSubquery(expr), SqlType::Logical))
            }
            AstExpr::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, true, place),
            AstExpr::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, false, place),
            AstExpr::Like { negated, any: false, expr: inner, pattern, escape_char } => {
                let escape = match escape_char.as_ref().map(|value| &value.value) {
                    None => '\\',
                    Some(AstValue::SingleQuotedString(text) | AstValue::DoubleQuotedString(text)) => {
                        let mut characters = text.chars();
                        match (characters.next(), characters.next()) {
                            (Some(escape), None) => escape,
                            (None, _) => '\0',
                            _ => return Err(wrong("ESCAPE expression must be a single character")),
                        }
                    }
                    Some(other) => return Err(unsupported(format!("ESCAPE {other}"))),
                };
                let (value, pattern) = (self.expression(inner, place)?, self.expression(pattern, place)?);
                let made = self.like(&value, &pattern, escape)?;
                self.negated(made, *negated)
            }
            AstExpr::RLike { negated, expr: inner, pattern, .. } => {
                let arguments = [self.expression(inner, place)?, self.expression(pattern, place)?];
                let made = self.call("regexp", crate::engine::functions::regexp, &arguments, SqlType::Logical, "")?;
                self.negated(made, *negated)
            }
            AstExpr::Case { operand, conditions, else_result, .. } => {
                let operand = operand.as_ref().map(|operand| self.expression(operand, place)).transpose()?;
                if let Some(operand) = &operand {
                    self.repeat(operand, conditions.len())?;
                }
                let (mut cases, mut branches) = (Vec::new(), Vec::new());
                for case in conditions {
                    let condition = match &operand {
                        Some(operand) => {
                            let value = self.expression(&case.condition, place)?;
                            let made = self.compared(operand, Operator::Eq, &value)?;
                            self.truth(&made)?
                        }
                        None => self.condition(&case.condition, place)?,
                    };
                    let (result, assigned) = self.branch(&case.result, assigning)?;
                    branches.push((condition.clone(), assigned));
                    cases.push((condition, result));
                }
                let otherwise = else_result.as_ref().map(|value| self.branch(value, assigning)).transpose()?;
                let (otherwise, assigned) = otherwise.unzip();
                self.join_branches(branches, assigned)?;
                self.cases(&cases, otherwise.as_ref())
            }
            AstExpr::Cast { kind: CastKind::Cast, expr: inner, data_type, format: None, .. } => {
                let bound = self.expression(inner, assigning)?;
                self.cast_as(&bound, data_type)
            }
            AstExpr::Convert { is_try: false, expr: inner, data_type, charset, styles, .. } if styles.is_empty() => {
                let bound = self.expression(inner, place)?;
                match (data_type, charset) {
                    (Some(data_type), None) => self.cast_as(&bound, data_type),
                    (None, Some(charset)) => match charset.to_string().to_ascii_lowercase().as_str() {
                        "utf8mb4" | "utf8" | "utf8mb3" => self.cast(&bound, SqlType::LITERAL),
                        other => Err(unsupported(format!("the character set {other}"))),
                    },
                    _ => Err(unsupported(expr)),
                }
            }
            AstExpr::Collate { expr: inner, collation } => {
                let bound = self.expression(inner, place)?;
                self.with_collation(&bound, &collation.to_string().replace('`', ""))
            }
            AstExpr::Extract { field, expr: inner, .. } => {
                let bound = self.expression(inner, place)?;
                let unit = unit_of(field)?;
                self.call("extract", dates::extract, &[bound], SqlType::Integer, unit)
            }
            AstExpr::Ceil { expr: inner, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let bound = self.expression(inner, place)?;
                self.known("ceil", &[bound])
            }
            AstExpr::Floor { expr: inner, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let bound = self.expression(inner, place)?;
                self.known("floor", &[bound])
            }
            AstExpr::Position { expr: inner, r#in } => {
                let arguments = [self.expression(inner, place)?, self.expression(r#in, place)?];
                self.known("position", &arguments)
            }
            AstExpr::Substring { expr: inner, substring_from, substring_for, .. } => {
                let mut arguments = vec![self.expression(inner, place)?];
                for part in [substring_from, substring_for].into_iter().flatten() {
                    arguments.push(self.expression(part, place)?);
                }
                self.known("substring", &arguments)
            }
            AstExpr::Trim { trim_where, trim_what, expr: inner, trim_characters } => {
                let mut arguments = vec![self.expression(inner, place)?];
                if let Some(what) = trim_what {
                    arguments.push(self.expression(what, place)?);
                }
                for more in trim_characters.iter().flatten() {
                    arguments.push(self.expression(more, place)?);
                }
                let word = match trim_where {
                    Some(TrimWhereField::Leading) => "leading",
                    Some(TrimWhereField::Trailing) => "trailing",
                    _ => "",
                };
                self.known_with("trim", &arguments, word)
            }
            AstExpr::Exists { subquery, negated } => {
                let (subquery, _) = self.subquery(subquery, place)?;
                if place.windows {
                    return self.counted(&subquery, *negated);
                }
                Ok(Bound::of(Expr::Exists(Exists::new(subquery, *negated)), SqlType::Logical))
            }
            AstExpr::Subquery(query) => self.scalar_subquery(query, place),
            AstExpr::Function(function) => self.function(function, assigning),
            AstExpr::Interval(_) => {
                Err(SqlError::new(SqlErrorKind::Syntax, "syntax error: INTERVAL stands behind + or - only"))
            }
            AstExpr::Tuple(_) => Err(SqlError::new(SqlErrorKind::OperandColumns, "Operand should contain 1 column(s)")),
            other => Err(unsupported(other)),
        }
    }

    pub(super) fn logical(&self, expr: Expr) -> Bound {
        Bound::of(expr, SqlType::Logical)
    }

    fn negated(&self, bound: Bound, negated: bool) -> Answer {
        if !negated {
            return Ok(bound);
        }
        let truth = self.truth(&bound)?;
        let constant = bound.constant.map(|value| value.truth().map_or(Val::Null, |truth| Val::from(!truth)));
        Ok(Bound { constant, ..self.logical(not(truth)) })
    }

    fn constant(&mut self, value: &AstValue) -> Answer {
        Ok(match value {
            AstValue::Number(text, _) => number(text)?,
            AstValue::SingleQuotedString(text)
            | AstValue::DoubleQuotedString(text)
            | AstValue::NationalStringLiteral(text) => Bound::constant(Val::from(unescaped(text)), SqlType::LITERAL),
            AstValue::HexStringLiteral(digits) => {
                let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.clone() };
                let bytes: Option<Vec<u8>> = padded
                    .as_bytes()
                    .chunks_exact(2)
                    .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
                    .collect();
                let bytes =
                    bytes.ok_or_else(|| SqlError::new(SqlErrorKind::Syntax, "syntax error: a number in base 16"))?;
                hybrid(bytes)
            }
            AstValue::SingleQuotedByteStringLiteral(digits) => {
                let wrong = || SqlError::new(SqlErrorKind::Syntax, "syntax error: a number in base 2");
                let number = u64::from_str_radix(digits, 2).map_err(|_| wrong())?;
                let bytes = number.to_be_bytes();
                let length = digits.len().div_ceil(8).clamp(1, 8);
                hybrid(bytes[8 - length..].to_vec())
            }
            AstValue::Boolean(value) => Bound::constant(Val::from(*value), SqlType::Logical),
            AstValue::Null => Bound::null(),
            AstValue::Placeholder(mark) if mark == "?" => {
                self.met += 1;
                match self.parameters.get(self.met - 1) {
                    Some(value) => from_value(value),
                    None => Bound::null(),
                }
            }
            AstValue::Placeholder(_) => {
                return Err(SqlError::new(SqlErrorKind::Syntax, format!("syntax error: at '{value}'")));
            }
            other => return Err(unsupported(other)),
        })
    }

    /// What a name means.
    fn name(&mut self, idents: &[Ident], place: &Place<'_>) -> Answer {
        if let [first, ..] = idents
            && first.quote_style.is_none()
            && first.value.starts_with('@')
        {
            let whole = idents.iter().map(|ident| ident.value.as_str()).collect::<Vec<_>>().join(".");
            return self.variable(&whole, place);
        }
        let (table, name) = match idents {
            [name] => (None, &name.value),
            [table, name] => (Some(&table.value), &name.value),
            [database, table, name] => {
                if !crate::engine::tables::is_database(&database.value) {
                    let text = format!("unknown database '{}'", database.value);
                    return Err(SqlError::new(SqlErrorKind::UnknownDatabase, text));
                }
                (Some(&table.value), &name.value)
            }
            _ => {
                return Err(SqlError::new(
                    SqlErrorKind::Syntax,
                    "syntax error: a column's name has at most three parts",
                ));
            }
        };
        let alias = |place: &Place<'_>| {
            let found = place.aliases.iter().find(|(own, _)| table.is_none() && is_same(own, name));
            found.map(|(_, bound)| bound.clone())
        };
        if place.aliases_first
            && let Some(bound) = alias(place)
        {
            return Ok(bound);
        }
        if let Some(column) = found(place.scope, table, name)? {
            return Ok(Bound::of(Expr::Column(column.column.clone()), column.kind));
        }
        if let Some(bound) = alias(place) {
            return Ok(bound);
        }
        let mut outer = place.outer;
        while let Some(own) = outer {
            if let Some(column) = found(own.scope, table, name)? {
                let field = Field::new(column.column.name(), column.kind.arrow(), true);
                let expr = Expr::OuterReferenceColumn(Arc::new(field), column.column.clone());
                return Ok(Bound::of(expr, column.kind));
            }
            outer = own.outer;
        }
        // Names of functions that need no parentheses.
        if let [ident] = idents
            && ident.quote_style.is_none()
            && let Some(bound) = self.bare_function(&ident.value)?
        {
            return Ok(bound);
        }
        let whole = idents.iter().map(|ident| ident.value.as_str()).collect::<Vec<_>>().join(".");
        let whole: String = whole.chars().take(120).collect();
        Err(SqlError::new(SqlErrorKind::UnknownColumn, format!("no such column: {whole}")))
    }

    /// The name and table of a column that a `SELECT` shows as it is.
    pub(super) fn column_name(&self, expr: &AstExpr, place: &Place<'_>) -> (String, String) {
        let idents = match expr {
            AstExpr::Identifier(ident) => std::slice::from_ref(ident),
            AstExpr::CompoundIdentifier(idents) => idents.as_slice(),
            _ => return (expr.to_string(), String::new()),
        };
        let (table, name) = match idents {
            [.., table, name] => (Some(&table.value), &name.value),
            [name] => (None, &name.value),
            [] => return (String::new(), String::new()),
        };
        match found(place.scope, table, name) {
            Ok(Some(column)) => (column.name.clone(), column.table.clone()),
            _ => (expr.to_string(), String::new()),
        }
    }

    /// Conditions joined by `AND`, or by `OR`: as a tree of few levels, however many there are.
    fn junction(&mut self, expr: &AstExpr, operator: &BinaryOperator, place: &Place<'_>) -> Answer {
        let (mut conditions, mut rest) = (Vec::new(), expr);
        while let AstExpr::BinaryOp { left, op, right } = rest
            && op == operator
        {
            conditions.push(&**right);
            rest = left;
        }
        conditions.push(rest);
        let mut level = Vec::with_capacity(conditions.len());
        for condition in conditions.into_iter().rev() {
            let bound = self.expression(condition, place)?.numeric();
            level.push(self.truth(&bound)?);
        }
        while level.len() > 1 {
            let mut pairs = level.into_iter();
            level = Vec::new();
            while let Some(left) = pairs.next() {
                level.push(match (pairs.next(), operator) {
                    (None, _) => left,
                    (Some(right), BinaryOperator::And) => left.and(right),
                    (Some(right), _) => left.or(right),
                });
            }
        }
        Ok(self.logical(level.pop().unwrap_or_else(|| lit(true))))
    }

    fn binary(&mut self, left: &AstExpr, operator: &BinaryOperator, right: &AstExpr, place: &Place<'_>) -> Answer {
        use BinaryOperator as Op;
        if let (AstExpr::Tuple(own), AstExpr::Tuple(other)) = (left, right) {
            return match operator {
                Op::Eq => self.rows_equal(own, other, place),
                Op::NotEq => {
                    let made = self.rows_equal(own, other, place)?;
                    self.negated(made, true)
                }
                _ => Err(unsupported(format!("{operator} of rows"))),
            };
        }
        match (operator, left, right) {
            (Op::Plus, start, AstExpr::Interval(interval)) | (Op::Plus, AstExpr::Interval(interval), start) => {
                let start = self.expression(start, place)?;
                return self.shifted(&start, interval, false, place);
            }
            (Op::Minus, start, AstExpr::Interval(interval)) => {
                let start = self.expression(start, place)?;
                return self.shifted(&start, interval, true, place);
            }
            _ => {}
        }
        let own = self.expression(left, place)?;
        let other = self.expression(right, place)?;
        let comparison = match operator {
            Op::Eq => Some(Operator::Eq),
            Op::NotEq => Some(Operator::NotEq),
            Op::Lt => Some(Operator::Lt),
            Op::LtEq => Some(Operator::LtEq),
            Op::Gt => Some(Operator::Gt),
            Op::GtEq => Some(Operator::GtEq),
            Op::Spaceship => Some(Operator::IsNotDistinctFrom),
            _ => None,
        };
        if let Some(comparison) = comparison {
            return self.compared(&own, comparison, &other);
        }
        let is_of_bits = matches!(operator, Op::BitwiseOr | Op::BitwiseAnd | Op::BitwiseXor | Op::StringConcat);
        let pair = if is_of_bits { [own, other] } else { [own.numeric(), other.numeric()] };
        let kinds = [pair[0].kind, pair[1].kind];
        match operator {
            Op::Xor => {
                let (left, right) = (self.truth(&pair[0])?, self.truth(&pair[1])?);
                Ok(self.logical(binary_expr(left, Operator::NotEq, right)))
            }
            Op::Plus => self.call("+", numbers::sum, &pair, numbers::sum_type(&kinds)?, ""),
            Op::Minus => self.call("-", numbers::difference, &pair, numbers::sum_type(&kinds)?, ""),
            Op::Multiply => self.call("*", numbers::product, &pair, numbers::product_type(&kinds)?, ""),
            Op::Divide => self.call("/", numbers::quotient, &pair, numbers::quotient_type(&kinds)?, ""),
            Op::MyIntegerDivide => {
                self.call("DIV", numbers::whole_quotient, &pair, numbers::whole_quotient_type(&kinds)?, "")
            }
            Op::Modulo => self.call("%", numbers::remainder, &pair, numbers::remainder_type(&kinds)?, ""),
            Op::BitwiseOr => self.call("|", numbers::bitwise, &pair, SqlType::Unsigned, "|"),
            Op::BitwiseAnd => self.call("&", numbers::bitwise, &pair, SqlType::Unsigned, "&"),
            Op::BitwiseXor => self.call("^", numbers::bitwise, &pair, SqlType::Unsigned, "^"),
            Op::PGBitwiseShiftLeft => self.call("<<", numbers::bitwise, &pair, SqlType::Unsigned, "<<"),
            Op::PGBitwiseShiftRight => self.call(">>", numbers::bitwise, &pair, SqlType::Unsigned, ">>"),
            Op::StringConcat => self.known("concat", &pair),
            Op::Arrow => self.known("json_extract", &pair),
            Op::LongArrow => {
                let part = self.known("json_extract", &pair)?;
                self.known("json_unquote", &[part])
            }
            other => Err(unsupported(format!("the operator {other}"))),
        }
    }

    fn unary(&mut self, operator: &UnaryOperator, inner: &AstExpr, place: &Place<'_>) -> Answer {
        let mut bound = self.expression(inner, place)?;
        if *operator == UnaryOperator::Minus {
            bound = bound.numeric();
        }
        match operator {
            UnaryOperator::Plus => Ok(bound),
            UnaryOperator::Minus => {
                // The least number has no positive counterpart.
                if bound.constant == Some(Val::Unsigned(1 << 63)) {
                    return Ok(Bound::constant(Val::Integer(i64::MIN), SqlType::Integer));
                }
                let kind = numbers::negative_type(&[bound.kind])?;
                self.call("-", numbers::negative, &[bound], kind, "")
            }
            UnaryOperator::Not | UnaryOperator::BangNot => self.negated(bound, true),
            UnaryOperator::BitwiseNot => self.call("~", numbers::inverted, &[bound], SqlType::Unsigned, ""),
            other => Err(unsupported(format!("the operator {other}"))),
        }
    }

    fn rows_equal(&mut self, own: &[AstExpr], other: &[AstExpr], place: &Place<'_>) -> Answer {
        if own.len() != other.len() || own.is_empty() {
            let text = format!("Operand should contain {} column(s)", own.len());
            return Err(SqlError::new(SqlErrorKind::OperandColumns, text));
        }
        let mut all: Option<Expr> = None;
        for (left, right) in own.iter().zip(other) {
            let (left, right) = (self.expression(left, place)?, self.expression(right, place)?);
            let same = self.compared(&left, Operator::Eq, &right)?;
            let same = self.truth(&same)?;
            all = Some(match all {
                Some(all) => all.and(same),
                None => same,
            });
        }
        Ok(self.logical(all.unwrap_or_else(|| lit(true))))
    }

    fn in_list(&mut self, inner: &AstExpr, list: &[AstExpr], negated: bool, place: &Place<'_>) -> Answer {
        let mut any: Option<Expr> = None;
        if let AstExpr::Tuple(own) = inner {
            for item in list {
                let AstExpr::Tuple(other) = item else {
                    return Err(SqlError::new(
                        SqlErrorKind::OperandColumns,
                        "Operand should contain more than 1 column",
                    ));
                };
                let same = self.rows_equal(own, other, place)?.expr;
                any = Some(any.map_or(same.clone(), |any| any.or(same)));
            }
        } else {
            let value = self.expression(inner, place)?;
            self.repeat(&value, list.len())?;
            let (mut key, mut same_keys) = (None, Vec::new());
            for item in list {
                let item = self.expression(item, place)?;
                let (own, other) = self.comparable(&value, &item)?;
                // Constants that compare in the same type are one list, which indexes of tables serve.
                if key.is_none() || key.as_ref() == Some(&own) {
                    key = Some(own);
                    same_keys.push(other);
                } else {
                    let same = binary_expr(own, Operator::Eq, other);
                    any = Some(any.map_or(same.clone(), |any: Expr| any.or(same)));
                }
            }
            if let Some(key) = key {
                let same = match same_keys.as_slice() {
                    [only] => binary_expr(key, Operator::Eq, only.clone()),
                    _ => Expr::InList(InList::new(Box::new(key), same_keys, false)),
                };
                any = Some(any.map_or(same.clone(), |any: Expr| same.or(any)));
            }
        }
        let any = any.unwrap_or_else(|| lit(false));
        Ok(self.logical(if negated { not(any) } else { any }))
    }

    fn like(&self, value: &Bound, pattern: &Bound, escape: char) -> Answer {
        let word = match escape {
            '\\' => "\\",
            '|' => "|",
            '!' => "!",
            '\0' => "",
            '#' => "#",
            '/' => "/",
            '$' => "$",
            '^' => "^",
            '~' => "~",
            '+' => "+",
            '=' => "=",
            '@' => "@",
            '&' => "&",
            '*' => "*",
            other => return Err(unsupported(format!("ESCAPE '{other}'"))),
        };
        let mut pair = [value.clone(), pattern.clone()];
        if pair.iter().any(|bound| bound.kind == SqlType::Bytes) {
            let kind = SqlType::Text { collation: Collation::Binary, coercibility: Coercibility::Explicit };
            for bound in &mut pair {
                let made = self.cast(bound, SqlType::LITERAL)?;
                *bound = Bound { kind, ..made };
            }
        }
        self.call("like", texts::like, &pair, SqlType::Logical, word)
    }

    fn cast_as(&mut self, bound: &Bound, data_type: &DataType) -> Answer {
        let length = |length: &Option<sqlparser::ast::CharacterLength>| match length {
            None => Ok(None),
            Some(sqlparser::ast::CharacterLength::IntegerLength { length, unit: None }) => Ok(Some(*length)),
            Some(other) => Err(unsupported(other)),
        };
        let digits = |digits: &Option<u64>| u8::try_from(digits.unwrap_or(0)).ok().filter(|digits| *digits <= 6);
        let too_precise = || wrong("Too-big precision specified; at most 6");
        match data_type {
            DataType::Signed
            | DataType::SignedInteger
            | DataType::Int(None)
            | DataType::Integer(None)
            | DataType::BigInt(None) => self.cast(&bound.numeric(), SqlType::Integer),
            DataType::Unsigned | DataType::UnsignedInteger => self.cast(&bound.numeric(), SqlType::Unsigned),
            DataType::Char(size) | DataType::Varchar(size) | DataType::Character(size) => {
                let kind = if bound.kind.is_text() { bound.kind } else { SqlType::LITERAL };
                let SqlType::Text { .. } = kind else { return Err(unsupported(data_type)) };
                match length(size)? {
                    None => self.cast(bound, SqlType::LITERAL),
                    Some(length) => {
                        let length = i64::try_from(length).map_err(|_| wrong("CAST: a length is too large"))?;
                        let text = self.cast(bound, SqlType::LITERAL)?;
                        self.known("left", &[text, Bound::constant(Val::Integer(length), SqlType::Integer)])
                    }
                }
            }
            DataType::Binary(None) => self.cast(bound, SqlType::Bytes),
            DataType::Date => self.cast(bound, SqlType::Date),
            DataType::Datetime(precision) | DataType::Timestamp(precision, TimezoneInfo::None) => {
                self.cast(bound, SqlType::DateTime { digits: digits(precision).ok_or_else(too_precise)? })
            }
            DataType::Time(precision, TimezoneInfo::None) => {
                self.cast(bound, SqlType::Time { digits: digits(precision).ok_or_else(too_precise)? })
            }
            DataType::Double(ExactNumberInfo::None) | DataType::DoublePrecision | DataType::Real => {
                self.cast(&bound.numeric(), SqlType::FLOAT)
            }
            DataType::Decimal(info) | DataType::Dec(info) | DataType::Numeric(info) => {
                let (precision, scale) = match info {
                    ExactNumberInfo::None => (10, 0),
                    ExactNumberInfo::Precision(precision) => (*precision, 0),
                    ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
                };
                let scale = u8::try_from(scale).ok().filter(|scale| *scale <= 30 && u64::from(*scale) <= precision);
                let Some(scale) = scale.filter(|_| precision <= 38) else {
                    return Err(unsupported(data_type));
                };
                let word = WIDTHS[precision as usize];
                self.call("as_decimal", numbers::bounded, &[bound.numeric()], SqlType::decimal(scale), word)
            }
            other => Err(unsupported(format!("CAST to {other}"))),
        }
    }

    fn shifted(&mut self, start: &Bound, interval: &Interval, backwards: bool, place: &Place<'_>) -> Answer {
        if interval.last_field.is_some() || interval.leading_precision.is_some() {
            return Err(unsupported(interval));
        }
        let field = interval.leading_field.as_ref();
        let field =
            field.ok_or_else(|| SqlError::new(SqlErrorKind::Syntax, "syntax error: INTERVAL without a unit"))?;
        let amount = self.expression(&interval.value, place)?;
        self.moved(start, &amount, unit_of(field)?, backwards)
    }

    /// A moment and an interval together.
    pub(super) fn moved(&self, start: &Bound, amount: &Bound, unit: &'static str, backwards: bool) -> Answer {
        let kind = intervals::shifted_type(start.kind, amount.kind, unit);
        let word = if backwards { SUBTRACTED[place_of(unit)] } else { unit };
        let of_start = match (&start.constant, start.kind) {
            (Some(Val::Text(text)), _) => moment::fraction_digits(text),
            (_, kind) => kind.decimals().min(6),
        };
        let digits = i64::from(of_start.max(intervals::interval_digits(amount.kind, unit)));
        let digits = Bound::constant(Val::Integer(digits), SqlType::Integer);
        self.call("date_add", intervals::shifted, &[start.clone(), amount.clone(), digits], kind, word)
    }
}

/// The column that a name means in a scope.
fn found<'s>(scope: &'s super::Scope, table: Option<&String>, name: &str) -> Result<Option<&'s ScopeColumn>, SqlError> {
    let is_meant = |column: &&ScopeColumn| match table {
        Some(table) => is_same(&column.table, table) && is_same(&column.name, name),
        None => !column.is_second && is_same(&column.name, name),
    };
    let mut all = scope.columns.iter().filter(is_meant);
    let first = all.next();
    if first.is_some() && all.next().is_some() {
        let text = format!("Column '{}' is ambiguous", name.chars().take(80).collect::<String>());
        return Err(SqlError::new(SqlErrorKind::Ambiguous, text));
    }
    Ok(first)
}

/// Bytes that are a number, too, if there are not too many of them.
fn hybrid(bytes: Vec<u8>) -> Bound {
    let is_hybrid = bytes.len() <= 8;
    Bound { is_hybrid, ..Bound::constant(Val::Bytes(bytes.into()), SqlType::Bytes) }
}

/// A number as written.
fn number(text: &str) -> Answer {
    if text.contains(['e', 'E']) {
        let value: f64 =
            text.parse().map_err(|_| SqlError::new(SqlErrorKind::Syntax, format!("syntax error: at '{text}'")))?;
        if !value.is_finite() {
            return Err(wrong(format!(
                "Illegal double '{}' value found during parsing",
                text.chars().take(40).collect::<String>()
            )));
        }
        return Ok(Bound::constant(Val::Double(value), SqlType::FLOAT));
    }
    if let Ok(value) = text.parse::<i64>() {
        return Ok(Bound::constant(Val::Integer(value), SqlType::Integer));
    }
    if let Ok(value) = text.parse::<u64>() {
        return Ok(Bound::constant(Val::Unsigned(value), SqlType::Unsigned));
    }
    match Decimal::parse(text) {
        Some((decimal, end)) if end == text.len() && decimal.digits.unsigned_abs() < 10_u128.pow(38) => {
            Ok(Bound::constant(Val::Decimal(decimal), SqlType::decimal(decimal.scale)))
        }
        Some(_) => Err(SqlError::new(
            SqlErrorKind::Syntax,
            format!("syntax error: at '{}'", text.chars().take(40).collect::<String>()),
        )),
        None => Err(unsupported("a number of more than 38 digits")),
    }
}

/// A text as the statement means it: a percent sign or underscore keeps the backslash before it.
fn unescaped(text: &str) -> String {
    text.to_owned()
}

/// A parameter or variable as a constant.
pub(super) fn from_value(value: &Value) -> Bound {
    match value {
        Value::Null => Bound::null(),
        Value::Integer(value) => Bound::constant(Val::Integer(*value), SqlType::Integer),
        Value::Real(value) => Bound::constant(Val::Double(*value), SqlType::FLOAT),
        Value::Text(text) => Bound::constant(Val::from(text.clone()), SqlType::LITERAL),
        Value::Blob(bytes) => Bound::constant(Val::Bytes(bytes.clone().into()), SqlType::Bytes),
    }
}

/// The numbers that a decimal's count of digits may be, as words.
const WIDTHS: [&str; 39] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20",
    "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31", "32", "33", "34", "35", "36", "37", "38",
];

/// Units that are subtracted, in the order of [`intervals::UNITS`].
const SUBTRACTED: [&str; 20] = [
    "-microsecond",
    "-second",
    "-minute",
    "-hour",
    "-day",
    "-week",
    "-month",
    "-quarter",
    "-year",
    "-second_microsecond",
    "-minute_microsecond",
    "-minute_second",
    "-hour_microsecond",
    "-hour_second",
    "-hour_minute",
    "-day_microsecond",
    "-day_second",
    "-day_minute",
    "-day_hour",
    "-year_month",
];

fn place_of(unit: &str) -> usize {
    intervals::UNITS.iter().position(|own| *own == unit).unwrap_or(0)
}

/// A unit by its name.
pub(super) fn unit_of(field: &DateTimeField) -> Result<&'static str, SqlError> {
    unit_named(&field.to_string())
}

pub(super) fn unit_named(name: &str) -> Result<&'static str, SqlError> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("sql_tsi_").unwrap_or(&name).to_owned();
    let found = intervals::UNITS.iter().find(|own| **own == name);
    found
        .copied()
        .ok_or_else(|| SqlError::new(SqlErrorKind::Syntax, format!("syntax error: '{name}' is no unit of time")))
}
