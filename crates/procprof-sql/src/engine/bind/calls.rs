//! Calls of functions of one row.

use datafusion::logical_expr::{Expr, Operator};
use sqlparser::ast::{Expr as AstExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::expression::unit_named;
use super::from::parts;
use super::{Binder, Bound, CALLS_MAX, Place, as_kept, unsupported};
use crate::engine::functions::{self, dates, numbers, str_to_date, texts};
use crate::engine::moment;
use crate::engine::types::{SqlType, unified};
use crate::engine::value::Val;
use crate::mysql::{SqlError, SqlErrorKind};

type Answer = Result<Bound, SqlError>;

impl Binder<'_> {
    pub(super) fn function(&mut self, function: &Function, assigning: &Place<'_>) -> Answer {
        let place = &Place { assignments: assigning.assignments.inside(), ..*assigning };
        self.calls += 1;
        if self.calls > CALLS_MAX {
            let text = format!("the statement calls more than {CALLS_MAX} functions");
            return Err(SqlError::new(SqlErrorKind::Limit, text));
        }
        let names = parts(&function.name)?;
        let [name] = names.as_slice() else { return Err(unknown(&function.name.to_string())) };
        let name = name.to_ascii_lowercase();
        if function.over.is_some() || super::aggregate_calls::is_aggregate(&name) {
            return self.aggregate_call(&name, function, place);
        }
        if function.filter.is_some() || function.null_treatment.is_some() || !function.within_group.is_empty() {
            return Err(unsupported(function));
        }
        let list = match &function.args {
            FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none() => {
                list.args.as_slice()
            }
            FunctionArguments::None => &[],
            _ => return Err(unsupported(function)),
        };
        let mut arguments = Vec::new();
        for argument in list {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return Err(unsupported(function)) };
            arguments.push(expr);
        }
        if let ("if", [condition, yes, no]) = (name.as_str(), arguments.as_slice()) {
            let condition = self.expression(condition, place)?;
            let (yes, assigned) = self.branch(yes, assigning)?;
            let (no, otherwise) = self.branch(no, assigning)?;
            self.join_branches(vec![(self.truth(&condition)?, assigned)], Some(otherwise))?;
            return self.known(&name, &[condition, yes, no]);
        }
        if let Some(bound) = self.with_unit(&name, &arguments, place)? {
            return Ok(bound);
        }
        let mut bound = Vec::new();
        for argument in arguments {
            bound.push(self.expression(argument, place)?);
        }
        if let Some(known) = self.of_session(&name, &bound)? {
            return Ok(known);
        }
        self.known(&name, &bound)
    }

    /// Functions whose arguments are words, too.
    fn with_unit(&mut self, name: &str, arguments: &[&AstExpr], place: &Place<'_>) -> Result<Option<Bound>, SqlError> {
        let backwards = matches!(name, "date_sub" | "subdate");
        Ok(Some(match (name, arguments) {
            ("date_add" | "date_sub" | "adddate" | "subdate", [start, AstExpr::Interval(interval)]) => {
                let start = self.expression(start, place)?;
                let field = interval.leading_field.as_ref().filter(|_| interval.last_field.is_none());
                let field = field
                    .ok_or_else(|| SqlError::new(SqlErrorKind::Syntax, "syntax error: INTERVAL without a unit"))?;
                let amount = self.expression(&interval.value, place)?;
                self.moved(&start, &amount, super::expression::unit_of(field)?, backwards)?
            }
            ("adddate" | "subdate", [start, days]) => {
                let (start, days) = (self.expression(start, place)?, self.expression(days, place)?);
                self.moved(&start, &days, "day", backwards)?
            }
            ("timestampdiff", [AstExpr::Identifier(unit), from, to]) => {
                let unit = unit_named(&unit.value)?;
                if unit.contains('_') {
                    return Err(SqlError::new(SqlErrorKind::Syntax, format!("syntax error: at '{unit}'")));
                }
                let pair = [self.expression(from, place)?, self.expression(to, place)?];
                self.call("timestampdiff", dates::between, &pair, SqlType::Integer, unit)?
            }
            ("timestampadd", [AstExpr::Identifier(unit), amount, start]) => {
                let unit = unit_named(&unit.value)?;
                let (amount, start) = (self.expression(amount, place)?, self.expression(start, place)?);
                self.moved(&start, &amount, unit, false)?
            }
            ("get_format", [AstExpr::Identifier(kind), region]) => {
                let formats = get_format(&kind.value)
                    .ok_or_else(|| SqlError::new(SqlErrorKind::Syntax, format!("syntax error: at '{}'", kind.value)))?;
                let region = self.expression(region, place)?;
                let mut cases = Vec::new();
                for (name, format) in formats {
                    let name = Bound::constant(Val::from((*name).to_owned()), SqlType::LITERAL);
                    let same = self.compared(&region, Operator::Eq, &name)?;
                    let format = Bound::constant(Val::from((*format).to_owned()), SqlType::LITERAL);
                    cases.push((self.truth(&same)?, format));
                }
                self.cases(&cases, None)?
            }
            _ => return Ok(None),
        }))
    }

    /// A call of a function by its name in small letters.
    pub(super) fn known(&self, name: &str, arguments: &[Bound]) -> Answer {
        self.known_with(name, arguments, "")
    }

    pub(super) fn known_with(&self, name: &str, arguments: &[Bound], word: &'static str) -> Answer {
        if let Some(bound) = self.special(name, arguments)? {
            return Ok(bound);
        }
        let function = functions::named(name).ok_or_else(|| unknown(name))?;
        let (least, most) = function.arguments;
        if arguments.len() < least || arguments.len() > most {
            return Err(wrong_count(name));
        }
        let numeric: Vec<Bound>;
        let arguments = if functions::takes_numbers(name) {
            numeric = arguments.iter().map(Bound::numeric).collect();
            &numeric
        } else {
            arguments
        };
        let kinds: Vec<SqlType> = arguments.iter().map(|argument| argument.kind).collect();
        self.call(function.name, function.kernel, arguments, (function.returns)(&kinds)?, word)
    }

    /// Functions whose type depends on more than the types of their arguments.
    fn special(&self, name: &str, arguments: &[Bound]) -> Result<Option<Bound>, SqlError> {
        let kinds: Vec<SqlType> = arguments.iter().map(|argument| argument.kind).collect();
        let digits = |bound: &Bound| match (&bound.constant, bound.kind) {
            (Some(Val::Text(text)), SqlType::Text { .. }) => moment::fraction_digits(text),
            (Some(value), SqlType::Text { .. }) if *value == Val::Null => 0,
            (_, SqlType::Text { .. }) => 6,
            (_, kind) => kind.decimals().min(6),
        };
        Ok(Some(match (name, arguments) {
            ("if", [condition, yes, no]) => {
                let condition = self.truth(condition)?;
                self.cases(&[(condition, yes.clone())], Some(no))?
            }
            ("ifnull" | "nvl", [first, second]) => self.coalesced(&[first.clone(), second.clone()])?,
            ("coalesce", [_, ..]) => self.coalesced(arguments)?,
            ("nullif", [first, second]) => {
                let same = self.compared(first, Operator::Eq, second)?;
                let same = self.truth(&same)?;
                let null = Bound::constant(Val::Null, first.kind);
                if first.constant.is_some() && second.constant.is_some() {
                    return self.cases(&[(same, null)], Some(first)).map(Some);
                }
                self.cases(&[(same, null)], Some(first))?
            }
            ("isnull", [value]) => Bound::of(value.expr.clone().is_null(), SqlType::Logical),
            ("greatest" | "least", [_, _, ..]) => {
                let word = if name == "greatest" { "greatest" } else { "least" };
                let kind = match unified(&kinds)? {
                    SqlType::Text { .. } if !kinds.iter().all(|kind| kind.is_text() || *kind == SqlType::Null) => {
                        return Err(unsupported(format!("{name} of texts and other values")));
                    }
                    kind => kind,
                };
                self.call(word, texts::extreme, arguments, kind, word)?
            }
            ("round" | "truncate" | "floor" | "ceil" | "ceiling", [value, ..])
                if matches!(value.kind, SqlType::DateTime { .. } | SqlType::Time { .. }) =>
            {
                return Err(unsupported(format!("{name} of a date or time")));
            }
            ("round", [value]) => self.rounded(value, &Bound::constant(Val::Integer(0), SqlType::Integer), "round")?,
            ("round", [value, digits]) => self.rounded(value, digits, "round")?,
            ("truncate", [value, digits]) => self.rounded(value, digits, "truncate")?,
            ("char", [_, ..]) => self.call("char", texts::characters, arguments, SqlType::Bytes, "")?,
            ("unix_timestamp", [value]) => {
                let kind = match digits(value) {
                    0 => SqlType::Integer,
                    digits => SqlType::decimal(digits),
                };
                self.call("unix_timestamp", dates::unix, arguments, kind, "")?
            }
            ("from_unixtime", [value])
                if value.constant.is_none() && matches!(value.kind.numeric(), SqlType::Double { .. }) =>
            {
                return Err(unsupported("FROM_UNIXTIME of what is no exact number"));
            }
            ("from_unixtime", [_] | [_, _]) => {
                self.call("from_unixtime", dates::from_unix, arguments, dates::from_unix_type(&kinds), "")?
            }
            ("time", [value]) => {
                let kind = SqlType::Time { digits: digits(value) };
                self.cast(value, kind)?
            }
            ("timestamp", [value]) => self.cast(value, SqlType::DateTime { digits: digits(value) })?,
            ("timestamp", [value, time]) => {
                let start = self.cast(value, SqlType::DateTime { digits: digits(value) })?;
                let pair = [start, time.clone()];
                let kind = SqlType::DateTime { digits: digits(value).max(digits(time)) };
                self.call("addtime", dates::add_time, &pair, kind, "addtime")?
            }
            ("addtime" | "subtime", [start, time]) => {
                let word = if name == "addtime" { "addtime" } else { "subtime" };
                let own = digits(start).max(digits(time));
                let kind = match start.kind {
                    SqlType::Date | SqlType::DateTime { .. } => SqlType::DateTime { digits: own },
                    SqlType::Time { .. } => SqlType::Time { digits: own },
                    SqlType::Decimal { .. } | SqlType::Double { .. } => {
                        return Err(unsupported(format!("{name} of a number")));
                    }
                    _ => SqlType::LITERAL,
                };
                self.call("addtime", dates::add_time, arguments, kind, word)?
            }
            ("timediff", [left, right]) => {
                let kind = SqlType::Time { digits: digits(left).max(digits(right)) };
                let function = functions::named("timediff").ok_or_else(|| unknown(name))?;
                self.call("timediff", function.kernel, arguments, kind, "")?
            }
            ("time_to_sec", [value]) => {
                let kind = match digits(value) {
                    0 => SqlType::Integer,
                    digits => SqlType::decimal(digits),
                };
                let function = functions::named("time_to_sec").ok_or_else(|| unknown(name))?;
                self.call("time_to_sec", function.kernel, arguments, kind, "")?
            }
            ("sec_to_time" | "maketime", [.., seconds]) => {
                let function = functions::named(name).ok_or_else(|| unknown(name))?;
                if arguments.len() != function.arguments.0 {
                    return Err(wrong_count(name));
                }
                self.call(function.name, function.kernel, arguments, SqlType::Time { digits: digits(seconds) }, "")?
            }
            ("convert_tz", [value, _, _]) => {
                let function = functions::named(name).ok_or_else(|| unknown(name))?;
                self.call(function.name, function.kernel, arguments, SqlType::DateTime { digits: digits(value) }, "")?
            }
            ("str_to_date", [_, format]) => {
                let Some(format) = &format.constant else {
                    return Err(unsupported("STR_TO_DATE with a format that is no constant"));
                };
                let Some(format) = format.text(SqlType::LITERAL) else {
                    return Ok(Some(Bound::constant(Val::Null, SqlType::DateTime { digits: 6 })));
                };
                let Some(kind) = str_to_date::read_type(&format) else {
                    return Err(unsupported(format!("STR_TO_DATE with the format '{format}'")));
                };
                self.call("str_to_date", str_to_date::read, arguments, kind, "")?
            }
            ("json_extract", [document, path, more @ ..]) if !more.is_empty() => {
                let _ = (document, path);
                return Err(unsupported("JSON_EXTRACT with more than one path"));
            }
            ("collation" | "charset" | "coercibility", [value]) => describe(name, value),
            ("any_value", [value]) => value.clone(),
            ("interval", [_, _, ..]) => {
                let function = functions::named("interval").ok_or_else(|| unknown(name))?;
                self.call("interval", function.kernel, arguments, SqlType::Integer, "")?
            }
            ("quote", [_]) | ("repeat", [_, _]) => return Ok(None),
            _ => return Ok(None),
        }))
    }

    fn coalesced(&self, arguments: &[Bound]) -> Answer {
        let kinds: Vec<SqlType> = arguments.iter().map(|argument| argument.kind).collect();
        let kind = unified(&kinds)?;
        let mut cast = Vec::new();
        for argument in arguments {
            cast.push(self.cast(argument, kind)?);
        }
        let constant = cast.iter().map(|bound| bound.constant.clone()).collect::<Option<Vec<_>>>();
        if let Some(values) = constant {
            let value = values.into_iter().find(|value| *value != Val::Null).unwrap_or(Val::Null);
            return Ok(Bound::constant(as_kept(value, kind)?, kind));
        }
        let exprs: Vec<Expr> = cast.into_iter().map(|bound| bound.expr).collect();
        Ok(Bound::of(datafusion::functions::expr_fn::coalesce(exprs), kind))
    }

    fn rounded(&self, value: &Bound, digits: &Bound, word: &'static str) -> Answer {
        let value = value.numeric();
        let places = digits.constant.as_ref().filter(|value| **value != Val::Null).map(Val::integer);
        let kind = numbers::rounded_type(value.kind, places);
        self.call(word, numbers::rounded, &[value, digits.clone()], kind, word)
    }
}

/// Formats of dates, times, and both, by region.
type Formats = &'static [(&'static str, &'static str)];

fn get_format(kind: &str) -> Option<Formats> {
    Some(match kind.to_ascii_lowercase().as_str() {
        "date" => &[
            ("USA", "%m.%d.%Y"),
            ("JIS", "%Y-%m-%d"),
            ("ISO", "%Y-%m-%d"),
            ("EUR", "%d.%m.%Y"),
            ("INTERNAL", "%Y%m%d"),
        ],
        "datetime" | "timestamp" => &[
            ("USA", "%Y-%m-%d %H.%i.%s"),
            ("JIS", "%Y-%m-%d %H:%i:%s"),
            ("ISO", "%Y-%m-%d %H:%i:%s"),
            ("EUR", "%Y-%m-%d %H.%i.%s"),
            ("INTERNAL", "%Y%m%d%H%i%s"),
        ],
        "time" => &[
            ("USA", "%h:%i:%s %p"),
            ("JIS", "%H:%i:%s"),
            ("ISO", "%H:%i:%s"),
            ("EUR", "%H.%i.%s"),
            ("INTERNAL", "%H%i%s"),
        ],
        _ => return None,
    })
}

/// Facts about a value's type.
fn describe(name: &str, value: &Bound) -> Bound {
    let text = |text: &str| Bound::constant(Val::from(text.to_owned()), SqlType::LITERAL);
    match (name, value.kind) {
        ("collation", SqlType::Text { collation, .. }) => text(collation.name()),
        ("charset", SqlType::Text { .. }) => text("utf8mb4"),
        ("coercibility", SqlType::Text { coercibility, .. }) => {
            use crate::engine::types::Coercibility;
            let number = match coercibility {
                Coercibility::Explicit => 0,
                Coercibility::Column => 2,
                Coercibility::SystemConstant => 3,
                Coercibility::Literal | Coercibility::Document => 4,
                Coercibility::Number => 5,
            };
            Bound::constant(Val::Integer(number), SqlType::Integer)
        }
        ("coercibility", SqlType::Null) => Bound::constant(Val::Integer(6), SqlType::Integer),
        ("coercibility", _) => Bound::constant(Val::Integer(5), SqlType::Integer),
        _ => text("binary"),
    }
}

pub(super) fn unknown(name: &str) -> SqlError {
    let name: String = name.chars().take(80).collect();
    SqlError::new(SqlErrorKind::UnknownFunction, format!("no such function: {name}"))
}

pub(super) fn wrong_count(name: &str) -> SqlError {
    let text = format!("Incorrect parameter count in the call to native function '{name}'");
    SqlError::new(SqlErrorKind::WrongCount, text)
}
