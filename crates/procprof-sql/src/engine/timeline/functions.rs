//! A timeline that is split by functions, of which the catalog has the values.

use std::collections::HashMap;

use procprof_store::{Column, FunctionColumn, FunctionNames, FunctionQuery, RowBatch, Values};

use super::arguments::Split;
use super::{Found, OTHERS, ROWS};
use crate::engine::periods::PeriodCall;
use crate::mysql::{SqlError, SqlErrorKind};

/// Most different functions of a timeline.
const FUNCTIONS_MAX: usize = 500_000;

/// Called with the columns of some rows and their number.
type EachBatch<'e> = &'e mut dyn FnMut(&[Values], usize) -> Result<(), SqlError>;

impl Found<'_> {
    /// Divides what is found among functions, of which the largest are series of their own.
    pub(super) fn split_by_functions(&mut self, most: usize) -> Result<(), SqlError> {
        let all = self.cells.remove(&None).unwrap_or_default();
        let names = match &self.split {
            Split::Function(name) => vec![name.clone()],
            _ => self.largest_functions(most)?,
        };
        let mut others = all.clone();
        for name in &names {
            // Its profiles and their time are those of all: it may take nothing in some.
            let mut cells = all.clone();
            cells.values_mut().for_each(|cell| (cell.value, cell.total) = (0, 0));
            self.cells.insert(Some(name.clone()), cells);
        }
        let columns = vec![
            FunctionColumn::Profile(Column::Completed),
            FunctionColumn::Name,
            FunctionColumn::Kind,
            FunctionColumn::Unit,
            FunctionColumn::Own,
            FunctionColumn::Total,
        ];
        let names = FunctionNames::OneOf(names);
        let query = FunctionQuery { filter: self.range.filter(), names, columns, ..FunctionQuery::default() };
        let (buckets, kind) = (self.buckets, self.kind.clone());
        let cells = &mut self.cells;
        self.call.each_function(&query, &mut |columns, count| {
            let [
                Values::Integers(completed),
                Values::Texts(names),
                Values::Texts(kinds),
                Values::Texts(units),
                own,
                total,
            ] = columns
            else {
                return Ok(());
            };
            let (Values::Integers(own), Values::Integers(total)) = (own, total) else { return Ok(()) };
            let kind = kind.as_ref().map(|(kind, unit)| (kind.as_str(), unit.as_str()));
            for row in 0..count {
                if kinds.get(row).zip(units.get(row)) != kind {
                    continue;
                }
                let Some(name) = names.get(row) else { continue };
                let bucket = buckets.of(completed[row]);
                // A profile that is stored meanwhile is not counted.
                let Some(cell) = cells.get_mut(&Some(name.to_owned())).and_then(|cells| cells.get_mut(&bucket)) else {
                    continue;
                };
                cell.value += i128::from(own[row]);
                cell.total += i128::from(total[row]);
                if let Some(others) = others.get_mut(&bucket) {
                    others.value -= i128::from(own[row]);
                }
            }
            Ok(())
        })?;
        if !matches!(self.split, Split::Function(_)) && others.values().any(|cell| cell.value != 0) {
            self.cells.insert(Some(OTHERS.to_owned()), others);
        }
        Ok(())
    }

    /// The functions with the largest own values in the period.
    fn largest_functions(&self, most: usize) -> Result<Vec<String>, SqlError> {
        let columns = vec![FunctionColumn::Name, FunctionColumn::Kind, FunctionColumn::Own];
        let query = FunctionQuery { filter: self.range.filter(), columns, ..FunctionQuery::default() };
        let kind = self.kind.as_ref().map(|(kind, _)| kind.as_str());
        let mut sums: HashMap<String, i128> = HashMap::new();
        self.call.each_function(&query, &mut |columns, count| {
            let [Values::Texts(names), Values::Texts(kinds), Values::Integers(own)] = columns else { return Ok(()) };
            for row in (0..count).filter(|row| own[*row] != 0 && kinds.get(*row) == kind) {
                let name = names.get(row).unwrap_or_default();
                match sums.get_mut(name) {
                    Some(sum) => *sum += i128::from(own[row]),
                    None => drop(sums.insert(name.to_owned(), own[row].into())),
                }
            }
            match sums.len() > FUNCTIONS_MAX {
                true => Err(self.call.limit(format!("more than {FUNCTIONS_MAX} functions; choose a shorter period"))),
                false => Ok(()),
            }
        })?;
        let mut sums: Vec<(String, i128)> = sums.into_iter().collect();
        sums.sort_unstable_by(|(one, left), (other, right)| right.cmp(left).then_with(|| one.cmp(other)));
        sums.truncate(most);
        Ok(sums.into_iter().map(|(name, _)| name).collect())
    }
}

impl PeriodCall<'_> {
    /// Reads functions of the catalog: their columns and the number of rows, batch by batch.
    fn each_function(&self, query: &FunctionQuery, each: EachBatch<'_>) -> Result<(), SqlError> {
        let failed =
            |error: procprof_store::Error| SqlError::new(SqlErrorKind::Other, format!("{}: {error}", self.name));
        let mut rows = self.statement.server()?.store.function_rows(query).map_err(failed)?;
        while let Some(RowBatch { columns, rows }) = rows.next(ROWS).map_err(failed)? {
            self.statement.go_on()?;
            each(&columns, rows)?;
        }
        Ok(())
    }
}
