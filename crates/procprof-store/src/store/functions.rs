//! The functions of stored profiles: what the catalog has of them, and what it lacks.

use procprof_profile::ProfileId;

use super::Store;
use crate::{
    Column, Cursor, Error, Filter, FunctionColumn, FunctionQuery, FunctionRows, FunctionTable, Result, Uncovered,
};

impl Store {
    /// The functions of many profiles, as a snapshot at the time when this is called. Those of [`Store::uncovered`]
    /// profiles are not among them.
    ///
    /// # Errors
    /// [`Error::Argument`] when the filter has too many values, or for the columns [`Column::Pinned`],
    /// [`Column::Facts`] and [`Column::TopLeaf`].
    pub fn function_rows(&self, query: &FunctionQuery) -> Result<FunctionRows> {
        let is_elsewhere = |column: &FunctionColumn| match column {
            FunctionColumn::Profile(column) => *column == Column::Pinned || column.is_detail(),
            _ => false,
        };
        if query.columns.iter().any(is_elsewhere) {
            let (what, text) = ("column", "pinned, facts or top_leaf".to_owned());
            return Err(Error::Argument { what, text, why: "is not among those of functions" });
        }
        self.healing(|| self.catalog.function_rows(query.clone()))
    }

    /// The number of profiles that a filter lets through and whose functions the catalog does not have; with a place,
    /// of those after it, newest first.
    ///
    /// # Errors
    /// [`Error::Argument`] when the filter has too many values.
    pub fn uncovered(&self, filter: &Filter, after: Option<Cursor>) -> Result<Uncovered> {
        self.healing(|| self.catalog.uncovered(filter, after))
    }

    /// The newest profiles whose functions are still to be read from their files: those stored without, and all after
    /// the catalog was rebuilt.
    pub fn without_functions(&self, at_most: usize) -> Result<Vec<ProfileId>> {
        self.healing(|| self.catalog.without_functions(at_most))
    }

    /// Keeps the functions of a profile of [`Store::without_functions`]; `None` if its file cannot be read. Does nothing
    /// for one that has gone or got its functions meanwhile.
    pub fn put_functions(&self, id: ProfileId, functions: Option<&FunctionTable>) -> Result<()> {
        self.healing(|| {
            let _gate = self.gate.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            self.catalog.put_functions(id, functions)
        })
    }
}
