//! The log of changes: which parts a compaction has made of which, one object for each change of a day.
//!
//! ```text
//! compactions/date=2026-11-24/0001          a change: when, the new part, the parts that it replaces
//! compactions/date=2026-11-24/0001.done     what it replaces is removed
//! staged/date=2026-11-24/hour=24/…          the profiles of the new part
//! ```
//!
//! The content of a change, with no line `new` when parts are dropped:
//!
//! ```text
//! procprof.compaction 1
//! at 1763677534000
//! new date=2026-11-24/hour=24/00d1c5f0a9b37e42-0000
//! old date=2026-11-24/hour=15/0123456789abcdef-0000
//! ```
//!
//! A change is created under the number after the last one of its day, so that of two compactions with the same view of
//! a day one fails. From then on it will be completed, by whoever compacts next: the new part's file of profiles is
//! copied from where it is staged. When that file is there, the replaced parts are not: that is the moment in which
//! readers go over from one to the other. Changes are kept, so that no name is used twice.

use std::collections::{BTreeMap, BTreeSet};

use procprof_files::DiskFormat;
use procprof_profile::Nanos;

use crate::objects::Objects;
use crate::{Error, Hour, Part, Result, Table};

/// The folder of the changes.
const FOLDER: &str = "compactions";
/// Ends the name of the mark that a change is done.
const DONE: &str = ".done";
/// A change, which begins with the mark of this.
const FORMAT: DiskFormat = DiskFormat { name: "compaction", version: 1 };
/// Bytes of a change, at most.
const BYTES_MAX: u64 = 4 << 20;
/// The highest number of a day that a compaction takes. An object with a higher one is no change of ours.
const NUMBER_MAX: u32 = 1_000_000;
/// Listings until changes stay the same, at most.
const TRIES: usize = 3;

/// A change by its day and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChangeId {
    /// The first hour of the day.
    pub(crate) day: Hour,
    pub(crate) number: u32,
}

impl ChangeId {
    fn path(self) -> String {
        format!("{FOLDER}/{}/{:04}", self.day.date(), self.number)
    }

    /// The id in a path, and whether it is that of the mark.
    fn from_path(path: &str) -> Option<(ChangeId, bool)> {
        let (day, name) = path.strip_prefix(FOLDER)?.strip_prefix('/')?.split_once('/')?;
        let (number, is_done) = name.strip_suffix(DONE).map_or((name, false), |number| (number, true));
        let number = number.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
        let id = ChangeId { day: Hour::parse_date(day)?, number };
        path.strip_prefix(&id.path())
            .is_some_and(|rest| rest == if is_done { DONE } else { "" })
            .then_some((id, is_done))
    }
}

/// A change of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) at: Nanos,
    /// The part that has the profiles of the others; `None` if they are dropped.
    pub(crate) new: Option<Part>,
    pub(crate) old: Vec<Part>,
}

impl Change {
    fn text(&self) -> String {
        let mut text = format!("{}\nat {}\n", FORMAT.mark(), self.at.0.div_euclid(1_000_000));
        text.extend(self.new.iter().map(|part| format!("new {}\n", part.name())));
        text.extend(self.old.iter().map(|part| format!("old {}\n", part.name())));
        text
    }

    fn parse(text: &str, day: Hour) -> std::result::Result<Change, String> {
        let mut lines = text.lines();
        if lines.next().and_then(|line| FORMAT.version_of_mark(line)).is_none() {
            return Err(format!("does not begin with {:?}", FORMAT.mark()));
        }
        let mut change = Change { at: Nanos(0), new: None, old: Vec::new() };
        for line in lines {
            let part = |name: &str| Part::from_name(name).filter(|part| part.hour.day() == day);
            let known = match line.split_once(' ') {
                Some(("at", millis)) => {
                    millis.parse().ok().and_then(|millis: i64| millis.checked_mul(1_000_000)).map(|at| {
                        change.at = Nanos(at);
                    })
                }
                Some(("new", name)) if change.new.is_none() => part(name).map(|part| change.new = Some(part)),
                Some(("old", name)) => part(name).map(|part| change.old.push(part)),
                _ => None,
            };
            known.ok_or_else(|| format!("line {line:?} is not known"))?;
        }
        Ok(change)
    }
}

/// Where the profiles of a new part wait for its change.
pub(crate) fn staged_path(part: Part) -> String {
    format!("staged/{}.parquet", part.name())
}

/// What is staged.
pub(crate) fn staged(objects: &dyn Objects) -> Result<Vec<Part>> {
    let name = |path: &str| Part::from_name(path.strip_prefix("staged/")?.strip_suffix(".parquet")?);
    Ok(objects.list("staged")?.iter().filter_map(|object| name(&object.path)).collect())
}

/// The changes of an archive that are not done, and the last number of each day. Objects of other names are left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) open: BTreeMap<ChangeId, Change>,
    /// Open changes that cannot be read, and why: which parts of their days are replaced is not known.
    pub(crate) unclear: BTreeMap<ChangeId, String>,
    last: BTreeMap<Hour, u32>,
}

impl Log {
    /// Reads the log of a day, or of all.
    pub(crate) fn read(objects: &dyn Objects, day: Option<Hour>) -> Result<Log> {
        let below = day.map_or(FOLDER.to_owned(), |day| format!("{FOLDER}/{}", day.date()));
        let mut log = Log::default();
        let mut open: BTreeSet<ChangeId> = BTreeSet::new();
        // The mark of a change follows it.
        for object in objects.list(&below)? {
            let Some((id, is_done)) = ChangeId::from_path(&object.path) else { continue };
            let last = log.last.entry(id.day).or_default();
            *last = id.number.max(*last);
            if is_done {
                open.remove(&id)
            } else {
                open.insert(id)
            };
        }
        for id in open {
            match change(objects, id) {
                Ok(change) => drop(log.open.insert(id, change)),
                Err(error) if error.is_of_file() => drop(log.unclear.insert(id, error.to_string())),
                Err(error) => return Err(error),
            }
        }
        Ok(log)
    }

    /// The id of the next change of a day.
    pub(crate) fn next(&self, day: Hour) -> ChangeId {
        ChangeId { day, number: self.last.get(&day).map_or(1, |last| last.saturating_add(1)) }
    }

    /// The parts that open changes have replaced, given what is there.
    pub(crate) fn replaced(&self, is_whole: impl Fn(&Part) -> bool) -> BTreeSet<Part> {
        let done = self.open.values().filter(|change| change.new.as_ref().is_none_or(&is_whole));
        done.flat_map(|change| change.old.iter().copied()).collect()
    }

    /// Whether which parts of a day are replaced is known.
    pub(crate) fn is_clear(&self, day: Hour) -> bool {
        !self.unclear.keys().any(|id| id.day == day)
    }

    fn open_ids(&self) -> impl Iterator<Item = &ChangeId> {
        self.open.keys().chain(self.unclear.keys())
    }
}

/// Lists something between two readings of the log that say the same, so that no change has come in between.
pub(crate) fn list_with_log<T>(
    objects: &dyn Objects,
    day: Option<Hour>,
    mut list: impl FnMut() -> Result<T>,
) -> Result<(T, Log)> {
    let mut before = Log::read(objects, day)?;
    for _ in 1..TRIES {
        let listed = list()?;
        let after = Log::read(objects, day)?;
        if before.open_ids().eq(after.open_ids()) {
            return Ok((listed, after));
        }
        before = after;
    }
    // Changes come one after the other: what replaced anything before or after the listing is in one of the two.
    let listed = list()?;
    let mut after = Log::read(objects, day)?;
    after.open.extend(before.open);
    after.unclear.extend(before.unclear);
    Ok((listed, after))
}

/// Reads a change.
fn change(objects: &dyn Objects, id: ChangeId) -> Result<Change> {
    let path = id.path();
    let bytes = read(objects, &path)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| Error::malformed(&path, error))?;
    FORMAT.check(&path, text.lines().next().and_then(|line| FORMAT.version_of_mark(line)))?;
    Change::parse(text, id.day).map_err(|why| Error::malformed(&path, why))
}

fn read(objects: &dyn Objects, path: &str) -> Result<Vec<u8>> {
    let size = objects.size(path)?;
    if size > BYTES_MAX {
        return Err(Error::TooLarge { what: format!("{path}: bytes"), size, limit: BYTES_MAX });
    }
    objects.read(path, 0, size as usize)
}

/// Creates a change; whether it was the next one of its day.
pub(crate) fn commit(objects: &dyn Objects, id: ChangeId, change: &Change) -> Result<bool> {
    objects.create(&id.path(), change.text().as_bytes())
}

/// Marks a change as done.
pub(crate) fn mark_done(objects: &dyn Objects, id: ChangeId) -> Result<()> {
    objects.put(&format!("{}{DONE}", id.path()), b"")
}

/// All parts that changes of a day have replaced.
pub(crate) fn names_used(objects: &dyn Objects, day: Hour) -> Result<Vec<Part>> {
    let mut used = Vec::new();
    for object in objects.list(&format!("{FOLDER}/{}", day.date()))? {
        if let Some((id, false)) = ChangeId::from_path(&object.path) {
            used.extend(change(objects, id)?.old);
        }
    }
    Ok(used)
}

/// Completes a change: the new part's profiles are there after it.
pub(crate) fn complete(objects: &dyn Objects, change: &Change) -> Result<()> {
    let Some(part) = change.new else { return Ok(()) };
    let staged = staged_path(part);
    let path = part.path(Table::Profiles);
    match objects.size(&path) {
        Ok(_) => {}
        Err(error) if error.is_not_found() => {
            let size = objects.size(&staged)?;
            let bytes = objects.read(&staged, 0, usize::try_from(size).unwrap_or(usize::MAX))?;
            objects.create(&path, &bytes)?;
        }
        Err(error) => return Err(error),
    }
    objects.delete(&staged)
}

#[cfg(test)]
mod tests {
    use procprof_profile::Nanos;

    use super::{Change, ChangeId};
    use crate::part::Span;
    use crate::{Hour, Part, Writer};

    #[test]
    fn changes_are_read_back() {
        let day = Hour(489_912);
        let new = Part { hour: day, span: Span::Day, writer: Writer(1), number: 0 };
        let old = (0..3).map(|number| Part::of_hour(Hour(day.0 + 15), Writer(7), number)).collect();
        let change = Change { at: Nanos(1_763_677_534_000_000_000), new: Some(new), old };
        assert_eq!(Change::parse(&change.text(), day), Ok(change.clone()));
        Change::parse(&change.text(), Hour(day.0 + 24)).expect_err("parts of another day");
        for wrong in ["", "procprof.compaction\n", "procprof.compaction 1\nat x\n", "procprof.compaction 1\nold ..\n"] {
            Change::parse(wrong, day).expect_err(wrong);
        }
    }

    #[test]
    fn names_of_changes_are_read_back() {
        let id = ChangeId { day: Hour(489_912), number: 7 };
        assert_eq!(ChangeId::from_path(&id.path()), Some((id, false)));
        assert_eq!(ChangeId::from_path(&format!("{}.done", id.path())), Some((id, true)));
        for wrong in ["compactions/date=2026-11-24/7", "compactions/x/0001", "compactions/0001", "other/0001"] {
            assert_eq!(ChangeId::from_path(wrong), None, "{wrong}");
        }
    }
}
