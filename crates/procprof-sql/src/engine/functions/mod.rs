//! MySQL's functions of one row.

pub(super) mod dates;
mod documents;
pub(super) mod intervals;
mod json;
pub(super) mod numbers;
mod search;
pub(super) mod str_to_date;
pub(super) mod texts;

pub(super) use search::matches as regexp;

use super::call::Kernel;
use super::types::SqlType;
use crate::mysql::SqlError;

/// The type of a function's value, from those of its arguments.
pub(super) type Returns = fn(&[SqlType]) -> Result<SqlType, SqlError>;

/// A function.
pub(super) struct Function {
    pub(super) name: &'static str,
    /// How many arguments it takes, from and to.
    pub(super) arguments: (usize, usize),
    pub(super) returns: Returns,
    pub(super) kernel: Kernel,
}

/// Any number of arguments.
const ANY: usize = 200;

const fn row(name: &'static str, arguments: (usize, usize), returns: Returns, kernel: Kernel) -> Function {
    Function { name, arguments, returns, kernel }
}

/// The function of that name, in small letters.
pub(super) fn named(name: &str) -> Option<&'static Function> {
    [numbers::FUNCTIONS, texts::FUNCTIONS, dates::FUNCTIONS, json::FUNCTIONS, documents::FUNCTIONS]
        .into_iter()
        .flatten()
        .find(|function| function.name == name)
}

/// Whether bytes that were written as a number are that number as an argument of a function.
pub(super) fn takes_numbers(name: &str) -> bool {
    name != "crc32" && numbers::FUNCTIONS.iter().any(|function| function.name == name)
}

fn integer(_: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(SqlType::Integer)
}

fn logical(_: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(SqlType::Logical)
}

fn float(_: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(SqlType::FLOAT)
}

fn literal(_: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(SqlType::LITERAL)
}

/// A part of a JSON document, which is no text in another one.
fn document(_: &[SqlType]) -> Result<SqlType, SqlError> {
    Ok(SqlType::DOCUMENT)
}

/// A text with the collation of all arguments that are texts.
fn text(types: &[SqlType]) -> Result<SqlType, SqlError> {
    match super::types::text_of(types)? {
        SqlType::DOCUMENT | SqlType::Text { coercibility: super::types::Coercibility::Number, .. } => {
            Ok(SqlType::LITERAL)
        }
        found => Ok(found),
    }
}

/// A text with the collation of the first argument.
fn text_of_first(types: &[SqlType]) -> Result<SqlType, SqlError> {
    text(types.get(..1).unwrap_or_default())
}
