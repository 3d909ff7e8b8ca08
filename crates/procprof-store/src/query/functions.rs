//! Functions of many profiles: queries and results.

use std::fmt;
use std::sync::Arc;

use super::{Column, Values};
use crate::{Cursor, Filter, Order};

/// The requested functions of the profiles that a filter lets through.
#[derive(Clone, Debug, Default)]
pub struct FunctionQuery {
    /// The filter of profiles. [`Filter::text`] is searched in all of them.
    pub filter: Filter,
    /// Only profiles after this place in the list, newest first.
    pub after: Option<Cursor>,
    /// The names of the functions.
    pub names: FunctionNames,
    /// Own values of at least this share of the profile's sum, in percent.
    pub own_percent_min: Option<f64>,
    /// Values with callees of at least this share of the profile's sum, in percent.
    pub total_percent_min: Option<f64>,
    /// The columns, in the order of [`RowBatch::columns`](super::RowBatch::columns).
    pub columns: Vec<FunctionColumn>,
    /// The order of the profiles. The functions of one are in the order of their values, the largest first.
    pub order: Order,
}

/// The names of functions.
#[derive(Clone, Default)]
pub enum FunctionNames {
    /// Any.
    #[default]
    Any,
    /// One of these.
    OneOf(Vec<String>),
    /// Those that a predicate chooses, which is asked for each name of the catalog once: for each of some names, whether
    /// it is wanted; one without an answer is.
    Chosen(NamePredicate),
}

/// Chooses among names.
pub type NamePredicate = Arc<dyn Fn(&[&str]) -> Vec<bool> + Send + Sync>;

impl fmt::Debug for FunctionNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FunctionNames::Any => f.write_str("any"),
            FunctionNames::OneOf(names) => names.fmt(f),
            FunctionNames::Chosen(_) => f.write_str("chosen"),
        }
    }
}

/// A column of the functions of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionColumn {
    /// A column of its profile.
    Profile(Column),
    /// The name of the function.
    Name,
    /// The name of the sample type.
    Kind,
    /// The unit of the values.
    Unit,
    /// Its own value.
    Own,
    /// Its value with all that it calls.
    Total,
    /// The sum of the profile.
    ProfileTotal,
}

impl FunctionColumn {
    /// No values of it.
    pub(crate) fn empty(self) -> Values {
        match self {
            FunctionColumn::Profile(column) => Values::empty(column),
            FunctionColumn::Name | FunctionColumn::Kind | FunctionColumn::Unit => Values::Texts(Default::default()),
            FunctionColumn::Own | FunctionColumn::Total | FunctionColumn::ProfileTotal => Values::Integers(Vec::new()),
        }
    }
}

/// The number of profiles whose functions the catalog does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncovered {
    /// Those that are still to be read.
    pub waiting: u64,
    /// Those that cannot be read.
    pub unreadable: u64,
    /// Those that have more than [`FunctionTable::FUNCTIONS_MAX`](crate::FunctionTable::FUNCTIONS_MAX), or too long
    /// names.
    pub too_many: u64,
}

impl Uncovered {
    /// All of them.
    pub fn profiles(self) -> u64 {
        self.waiting + self.unreadable + self.too_many
    }
}
