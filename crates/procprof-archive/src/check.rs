//! Checks of a part as a whole: what its tables say of one another.

use std::collections::BTreeMap;

use arrow_array::Array;

use crate::archive::{Archive, KindSums, Numbered};
use crate::header::Header;
use crate::rollup::Grain;
use crate::selection::Selection;
use crate::{Error, Hour, Part, Result, Table};

/// What a check of a part has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartCheck {
    /// Its profiles.
    pub headers: Vec<Header>,
    /// Values of samples.
    pub rows: u64,
    /// Contradictions, each with its file; none if the part is right.
    pub wrong: Vec<String>,
}

impl Archive {
    /// Reads a part through and compares its tables: the sum of each profile's samples with its totals, the samples'
    /// stacks with the tree, the frames of the tree with the table of frames, the hours of nodes with the profiles.
    ///
    /// # Errors
    /// When a file cannot be read; contradictions are none.
    pub fn check(&self, part: Part) -> Result<PartCheck> {
        let mut found = PartCheck::default();
        let numbered = self.headers(part)?;
        self.check_totals(part, Grain::Profile, &numbered, &mut found)?;
        let time = part.start()..part.end();
        for (_, header) in numbered.iter().filter(|(_, header)| !time.contains(&header.identity.completed)) {
            let id = header.identity.id;
            found.wrong.push(format!("{}: profile {id} is of another time", part.path(Table::Profiles)));
        }
        match self.headers_of(part, Grain::Hour, &Selection::default()) {
            Ok(hours) => self.check_hours(part, &numbered, &hours, &mut found)?,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        found.headers = numbered.into_iter().map(|(_, header)| header).collect();
        let frames = self.open(part, Table::Frames)?.rows();
        let stacks = self.check_stacks(part, frames, &mut found)?;
        self.check_samples(part, stacks, &mut found)?;
        Ok(found)
    }

    /// Compares the totals of profiles, or hours, with the sums of their values.
    fn check_totals(&self, part: Part, grain: Grain, numbered: &[Numbered], found: &mut PartCheck) -> Result<()> {
        let mut sums = self.sums(part, grain)?;
        for (number, header) in numbered {
            let of_values = sums.remove(number).unwrap_or_default();
            let what = match grain {
                Grain::Profile => format!("profile {}", header.identity.id),
                Grain::Hour => format!("summary {number}"),
            };
            for wrong in differences(header, of_values) {
                found.wrong.push(format!("{}: {what}: {wrong}", part.path(grain.values())));
            }
        }
        if !sums.is_empty() {
            let (count, column) = (sums.len(), grain.number());
            found
                .wrong
                .push(format!("{}: {count} values of `{column}` that it does not have", part.path(grain.values())));
        }
        Ok(())
    }

    /// Compares the hours of nodes with the profiles that they are of.
    fn check_hours(&self, part: Part, profiles: &[Numbered], hours: &[Numbered], found: &mut PartCheck) -> Result<()> {
        self.check_totals(part, Grain::Hour, hours, found)?;
        let sums = |numbered: &[Numbered]| {
            let mut sums: BTreeMap<_, (u64, KindSums)> = BTreeMap::new();
            for (_, Header { identity, totals, profiles, .. }) in numbered {
                let hour = Hour::containing(identity.completed);
                let (count, kinds) = sums.entry((hour, identity.profile_type.clone(), identity.node)).or_default();
                *count += profiles;
                for total in totals {
                    *kinds.entry(total.kind.clone()).or_default() += i128::from(total.value);
                }
            }
            sums
        };
        if sums(profiles) != sums(hours) {
            found.wrong.push(format!("{}: its sums are not those of the profiles", part.path(Table::Hours)));
        }
        Ok(())
    }

    /// Checks that the stacks are a tree whose rows are ordered; returns their number.
    fn check_stacks(&self, part: Part, frames: u64, found: &mut PartCheck) -> Result<u64> {
        let file = self.open(part, Table::Stacks)?;
        let base = part.base();
        // The ends of the stacks that begin with each caller of the row before.
        let mut open: Vec<(u64, u64)> = Vec::new();
        let mut row = 0_u64;
        file.read(&["stack", "up", "last", "frame"], &|_| true, &mut |rows| {
            let (stacks, ups) = (rows.integers("stack")?, rows.integers("up")?);
            let (lasts, leaves) = (rows.integers("last")?, rows.integers("frame")?);
            for at in 0..rows.len() {
                while open.last().is_some_and(|(_, last)| *last < row) {
                    open.pop();
                }
                let wrong =
                    |column: &str, why: String| Err::<(), Error>(rows.wrong(column, format!("row {row}: {why}")));
                if stacks.value(at).checked_sub(base) != i64::try_from(row).ok() {
                    return wrong("stack", format!("has the id {}", stacks.value(at)));
                }
                let caller = open.last().map(|(caller, _)| row - caller).unwrap_or(0);
                if u64::try_from(ups.value(at)) != Ok(caller) || (row > 0 && caller == 0) {
                    return wrong("up", format!("is {}, its caller {caller} above", ups.value(at)));
                }
                let last = lasts.value(at).checked_sub(base).and_then(|last| u64::try_from(last).ok());
                let limit = open.last().map_or(file.rows().saturating_sub(1), |(_, last)| *last);
                let Some(last) = last.filter(|last| *last >= row && *last <= limit) else {
                    return wrong("last", format!("{} is none of its caller's", lasts.value(at)));
                };
                let leaf = leaves.value(at).checked_sub(base).and_then(|leaf| u64::try_from(leaf).ok());
                if row > 0 && (leaves.is_null(at) || leaf.is_none_or(|leaf| leaf >= frames)) {
                    return wrong("frame", "is not among the frames".to_owned());
                }
                open.push((row, last));
                row += 1;
            }
            Ok(())
        })
        .or_else(|error| keep(error, found))?;
        Ok(row)
    }

    fn check_samples(&self, part: Part, stacks: u64, found: &mut PartCheck) -> Result<()> {
        let file = self.open(part, Table::Samples)?;
        found.rows = file.rows();
        let base = part.base();
        file.read(&["stack"], &|_| true, &mut |rows| {
            for stack in rows.integers("stack")?.values() {
                let row = stack.checked_sub(base).and_then(|row| u64::try_from(row).ok());
                if row.is_none_or(|row| row >= stacks) {
                    return Err(rows.wrong("stack", format!("{stack} is not among the stacks")));
                }
            }
            Ok(())
        })
        .or_else(|error| keep(error, found))
    }
}

/// Keeps a contradiction, and passes other errors on.
fn keep(error: Error, found: &mut PartCheck) -> Result<()> {
    match error {
        Error::Column { .. } => {
            found.wrong.push(error.to_string());
            Ok(())
        }
        other => Err(other),
    }
}

/// The differences of a profile's totals and the sums of its samples.
fn differences(header: &Header, mut sums: KindSums) -> Vec<String> {
    let mut wrong = Vec::new();
    for total in &header.totals {
        let sum = sums.remove(&total.kind).unwrap_or(0);
        // A total ends at the range of its type, as a profile's does.
        let is_range = |total: i64| total == i64::MIN || total == i64::MAX;
        if sum != i128::from(total.value) && !is_range(total.value) {
            wrong.push(format!("{} sums up to {sum}, its total is {}", total.kind, total.value));
        }
    }
    wrong.extend(sums.into_keys().map(|kind| format!("{kind} has no total")));
    wrong
}
