//! A timeline that is split by functions, of which the catalog has the values.

use std::collections::HashMap;

use procprof_core::render::{FunctionsRead, Grouping, RenderError};
use procprof_profile::Nanos;
use procprof_store::{
    Column, FunctionColumn, FunctionNames, FunctionQuery, FunctionTable, FunctionValues, RowBatch, Values,
};

use super::arguments::Split;
use super::{Found, OTHERS, ROWS};
use crate::engine::periods::PeriodCall;
use crate::mysql::{SqlError, SqlErrorKind};

/// Most different functions of a timeline.
const FUNCTIONS_MAX: usize = 500_000;

/// Most times that samples of the archive are read: for each bucket in each of its parts.
const READS_MAX: usize = 1000;
/// How often the archive is read anew when a compaction replaces its files meanwhile.
const ATTEMPTS: usize = 3;
/// Most values of functions of the archive by bucket.
const ARCHIVED_MAX: usize = 4_000_000;

/// Called with the columns of some rows and their number.
type EachBatch<'e> = &'e mut dyn FnMut(&[Values], usize) -> Result<(), SqlError>;

impl Found<'_> {
    /// Divides what is found among functions, of which the largest are series of their own.
    pub(super) fn split_by_functions(&mut self, most: usize) -> Result<(), SqlError> {
        let all = self.cells.remove(&None).unwrap_or_default();
        let archived = self.archived_functions()?;
        let names = match &self.split {
            Split::Function(name) => vec![name.clone()],
            _ => self.largest_functions(&archived, most)?,
        };
        let mut others = all.clone();
        for name in &names {
            // Its profiles and their time are those of all: it may take nothing in some.
            let mut cells = all.clone();
            cells.values_mut().for_each(|cell| (cell.value, cell.total) = (0, 0));
            self.cells.insert(Some(name.clone()), cells);
        }
        for (name, bucket, [own, total]) in archived.values() {
            let cell = self.cells.get_mut(&Some(name.to_owned())).and_then(|cells| cells.get_mut(&bucket));
            if let (Some(cell), Some(others)) = (cell, others.get_mut(&bucket)) {
                cell.value += i128::from(own);
                cell.total += i128::from(total);
                others.value -= i128::from(own);
            }
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
    fn largest_functions(&self, archived: &ArchivedFunctions, most: usize) -> Result<Vec<String>, SqlError> {
        let columns = vec![FunctionColumn::Name, FunctionColumn::Kind, FunctionColumn::Own];
        let query = FunctionQuery { filter: self.range.filter(), columns, ..FunctionQuery::default() };
        let kind = self.kind.as_ref().map(|(kind, _)| kind.as_str());
        let mut sums: HashMap<String, i128> = HashMap::new();
        for (name, _, [own, _]) in archived.values().filter(|(_, _, [own, _])| *own != 0) {
            *sums.entry(name.to_owned()).or_default() += i128::from(own);
        }
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

    /// What functions take in profiles that only the archive has. What it leaves out is a warning.
    fn archived_functions(&self) -> Result<ArchivedFunctions, SqlError> {
        let mut found = ArchivedFunctions::default();
        if self.archived == 0 {
            return Ok(found);
        }
        for _ in 0..ATTEMPTS {
            match self.read_archived_functions(&mut found)? {
                FunctionsRead::All(unreadable) => {
                    for why in unreadable {
                        self.call.warn(format!(
                            "a file of the archive cannot be read, so functions are among '{OTHERS}': {why}"
                        ));
                    }
                    return Ok(found);
                }
                FunctionsRead::Vanished => found = ArchivedFunctions::default(),
                FunctionsRead::None => {
                    self.call.warn(format!(
                        "{} profiles which only the archive has are among '{OTHERS}': it would have to be read more \
                         than {READS_MAX} times; choose longer buckets",
                        self.archived
                    ));
                    return Ok(found);
                }
            }
        }
        let text = format!("{}: the archive was compacted meanwhile; ask again", self.call.name);
        Err(SqlError::new(SqlErrorKind::Other, text))
    }

    fn read_archived_functions(&self, found: &mut ArchivedFunctions) -> Result<FunctionsRead, SqlError> {
        let (call, buckets) = (self.call, self.buckets);
        let only = if let Split::Function(name) = &self.split { Some(name.as_str()) } else { None };
        let kind = self.kind.as_ref().map(|(kind, unit)| (kind.as_str(), unit.as_str()));
        let group = |completed: Nanos| buckets.of(completed.0);
        let grouping = Grouping { group: &group, grain: buckets.grain(), most: READS_MAX };
        let mut add = |bucket, table: FunctionTable| {
            if Some((table.kind.as_str(), table.unit.as_str())) == kind {
                let is_wanted = |function: &FunctionValues| only.is_none_or(|only| function.name == only);
                table.functions.into_iter().filter(is_wanted).for_each(|function| found.add(function, bucket));
            }
            match found.values.len() > ARCHIVED_MAX {
                true => Err(RenderError::Question(format!(
                    "the archive has more than {ARCHIVED_MAX} values of functions by bucket; choose longer buckets"
                ))),
                false => Ok(()),
            }
        };
        let renderer = &call.statement.server()?.renderer;
        let go_on = || call.go_on();
        let read = renderer.archived_functions(&self.range, &self.known, grouping, &go_on, &mut add);
        read.map_err(|error| call.failed(&error))
    }
}

/// What functions take in buckets, of profiles that only the archive has.
#[derive(Default)]
struct ArchivedFunctions {
    names: Vec<String>,
    places: HashMap<String, u32>,
    /// Place of the name, bucket, own value and that with callees.
    values: Vec<(u32, u32, [i64; 2])>,
}

impl ArchivedFunctions {
    fn add(&mut self, function: FunctionValues, bucket: u32) {
        let next = self.names.len() as u32;
        let place = *self.places.entry(function.name.clone()).or_insert(next);
        if place == next {
            self.names.push(function.name);
        }
        self.values.push((place, bucket, [function.own, function.total]));
    }

    fn values(&self) -> impl Iterator<Item = (&str, u32, [i64; 2])> {
        self.values.iter().map(|(place, bucket, values)| (self.names[*place as usize].as_str(), *bucket, *values))
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
