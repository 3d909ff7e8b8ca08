//! Compaction: the parts of a closed day become one, or a few, and what exceeds the limits of time and size is dropped.
//!
//! Each change is prepared under names of its own, committed by one object (see `changes`), and completed by whoever
//! compacts next if its compaction dies. Replaced files stay for a grace, so that readers that have begun with them can
//! finish.

mod absorb;
mod lease;
mod plan;

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashSet;
use procprof_profile::{Nanos, ProfileId};

use crate::archive::Archive;
use crate::changes::{self, Change, ChangeId, Log};
use crate::part::Span;
use crate::write::{PartLimits, PartWriter};
use crate::{Error, Hour, Part, Result, Table, Writer};
use lease::Lease;

/// Names of frames that were archived without.
pub trait FrameNames {
    /// Whether there is no binary whose frames can be named.
    fn is_empty(&self) -> bool {
        false
    }

    /// Whether frames of a binary can be named.
    fn has(&mut self, build_id: &str) -> bool;

    /// The functions at an offset of a binary, from the outermost to the innermost inlined one; none if unknown. The
    /// offset of a caller is that of its call.
    fn name(&mut self, build_id: &str, mapping: &str, offset: u64) -> Vec<NamedFrame>;
}

/// A function at a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFrame {
    /// Its name as shown.
    pub function: String,
    /// Its name in the symbol table.
    pub system_name: String,
    /// The source file; may be empty.
    pub file: String,
    /// The function's first line; 0 if unknown.
    pub start_line: i64,
    /// The line; 0 if unknown.
    pub line: i64,
    /// The column in the line; 0 if unknown.
    pub column: i64,
}

/// Names nothing.
impl FrameNames for () {
    fn is_empty(&self) -> bool {
        true
    }

    fn has(&mut self, _build_id: &str) -> bool {
        false
    }

    fn name(&mut self, _build_id: &str, _mapping: &str, _offset: u64) -> Vec<NamedFrame> {
        Vec::new()
    }
}

/// Limits of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactLimits {
    /// The size of the parts that it makes.
    pub part: PartLimits,
    /// Days that are kept, without the one that has begun.
    pub days_max: Option<u32>,
    /// Bytes that are kept, those of replaced files apart.
    pub bytes_max: Option<u64>,
    /// How long replaced files stay.
    pub grace: Nanos,
    /// How long one that died keeps others away.
    pub lease: Nanos,
}

impl Default for CompactLimits {
    fn default() -> CompactLimits {
        CompactLimits {
            part: PartLimits::default(),
            days_max: None,
            bytes_max: None,
            grace: Nanos(60_000_000_000),
            lease: Nanos(60_000_000_000),
        }
    }
}

/// The result of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Parts that were replaced.
    pub replaced: u64,
    /// Their bytes.
    pub replaced_bytes: u64,
    /// Parts in their place.
    pub written: u64,
    /// Bytes of these.
    pub written_bytes: u64,
    /// Profiles that another part of the day has, too, and that were left out.
    pub repeated: u64,
    /// Parts that were dropped by the limits.
    pub dropped: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Parts whose files were removed, after their grace.
    pub removed: u64,
    /// What a compaction that died had left, removed.
    pub left_over: u64,
    /// When the last of the files that are still there for their grace may go; `None` if there are none.
    pub waits_until: Option<Nanos>,
    /// Parts, and changes of days, that could not be read, with the reason; these parts, and those of the days, stay as
    /// they are.
    pub failed: Vec<String>,
}

impl Archive {
    /// Compacts the archive: completes what others have begun, drops what exceeds the limits, merges the parts of
    /// closed days. Its moments are those of `clock`; `holder` differs from that of every other compaction.
    ///
    /// # Errors
    /// [`Error::Busy`] when another compaction runs. The storage's: what was begun is completed or removed by the next
    /// one, and readers see all profiles once all the time.
    pub fn compact(
        &self,
        limits: &CompactLimits,
        clock: &dyn Fn() -> Nanos,
        holder: u64,
        names: &mut dyn FrameNames,
    ) -> Result<Compacted> {
        self.compact_unless(limits, clock, holder, names, &|| false)
    }

    /// The same, which ends between two steps once it is to stop.
    ///
    /// # Errors
    /// [`Error::Stopped`] then; those of [`Archive::compact`].
    pub fn compact_unless(
        &self,
        limits: &CompactLimits,
        clock: &dyn Fn() -> Nanos,
        holder: u64,
        names: &mut dyn FrameNames,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Compacted> {
        self.run(limits, clock, holder, is_stopped, |run| run.all(names))
    }

    /// Takes parts out, whatever they have: readers see them no more, and the next compaction removes their files once
    /// the grace is over. What others have begun is completed first, which may replace them.
    ///
    /// # Errors
    /// Those of [`Archive::compact`].
    pub fn withdraw(
        &self,
        parts: &[Part],
        limits: &CompactLimits,
        clock: &dyn Fn() -> Nanos,
        holder: u64,
    ) -> Result<Compacted> {
        self.run(limits, clock, holder, &|| false, |run| {
            run.resolve()?;
            run.drop_parts(parts.iter().map(|part| (*part, 0)).collect())?;
            run.resolve()
        })
    }

    /// Changes the archive while no one else does.
    fn run<'a>(
        &'a self,
        limits: &'a CompactLimits,
        clock: &'a dyn Fn() -> Nanos,
        holder: u64,
        is_stopped: &'a dyn Fn() -> bool,
        change: impl FnOnce(&mut Run<'a>) -> Result<()>,
    ) -> Result<Compacted> {
        let lease = Lease::take(&*self.objects, clock, limits.lease, holder)?;
        let done = Compacted::default();
        let mut run = Run { archive: self, limits, clock, is_stopped, writer: Writer(holder), number: 0, lease, done };
        let all = change(&mut run);
        let Run { lease, done, .. } = run;
        match all {
            // After another error the storage may not be there.
            Ok(()) | Err(Error::Stopped) => lease.release()?,
            Err(_) => {}
        }
        all.map(|()| done)
    }
}

/// A compaction that runs.
struct Run<'a> {
    archive: &'a Archive,
    limits: &'a CompactLimits,
    clock: &'a dyn Fn() -> Nanos,
    is_stopped: &'a dyn Fn() -> bool,
    /// The writer of its parts.
    writer: Writer,
    /// The number of its next part.
    number: u32,
    lease: Lease<'a>,
    done: Compacted,
}

impl Run<'_> {
    /// Makes sure that it may go on.
    fn hold(&mut self) -> Result<()> {
        if (self.is_stopped)() { Err(Error::Stopped) } else { self.lease.hold() }
    }

    fn all(&mut self, names: &mut dyn FrameNames) -> Result<()> {
        self.resolve()?;
        self.remove_left_over()?;
        let today = Hour::containing((self.clock)()).day();
        if let Some(days) = self.limits.days_max {
            let first = Hour(today.0.saturating_sub(i64::from(days).saturating_mul(24)));
            self.end_unclear(first)?;
            let parts = self.archive.parts()?;
            self.drop_parts(parts.whole.into_iter().filter(|(part, _)| part.hour < first).collect())?;
        }
        let days: BTreeSet<Hour> = self.archive.parts()?.whole.keys().map(|part| part.hour.day()).collect();
        for day in days.into_iter().filter(|day| *day < today) {
            self.compact_day(day, names)?;
        }
        if let Some(bytes) = self.limits.bytes_max {
            self.drop_parts(plan::oldest(&self.archive.parts()?.whole, bytes))?;
        }
        self.done.failed.extend(self.archive.parts()?.unclear_days().map(|(_, error)| error.to_string()));
        self.resolve()
    }

    /// Ends the changes before an hour that cannot be read: all parts of their days are dropped, whichever count.
    fn end_unclear(&mut self, before: Hour) -> Result<()> {
        let objects = self.archive.objects();
        for id in Log::read(objects, None)?.unclear.into_keys().filter(|id| id.day < before) {
            self.hold()?;
            changes::mark_done(objects, id)?;
        }
        Ok(())
    }

    /// Completes the changes that are there, and removes what they replace when its grace is over.
    fn resolve(&mut self) -> Result<()> {
        self.done.waits_until = None;
        let objects = self.archive.objects();
        let mut waiting: BTreeSet<Hour> = BTreeSet::new();
        let log = Log::read(objects, None)?;
        for (id, change) in log.open.iter().filter(|(id, _)| log.is_clear(id.day)).map(|(id, change)| (*id, change)) {
            self.hold()?;
            // A change may replace what the one before it has made: they end in their order.
            if !waiting.contains(&id.day) {
                changes::complete(objects, change)?;
            }
            let until = Nanos(change.at.0.saturating_add(self.limits.grace.0));
            if waiting.contains(&id.day) || until > (self.clock)() {
                waiting.insert(id.day);
                self.done.waits_until = self.done.waits_until.max(Some(until));
                continue;
            }
            for part in &change.old {
                self.hold()?;
                self.archive.remove(*part)?;
                self.done.removed += 1;
            }
            changes::mark_done(objects, id)?;
        }
        Ok(())
    }

    /// Removes parts that belong to no change: their compaction died. A change of their day keeps it from committing
    /// them, should it be alive.
    fn remove_left_over(&mut self) -> Result<()> {
        let objects = self.archive.objects();
        let mut left: BTreeSet<Part> = changes::staged(objects)?.into_iter().collect();
        left.extend(self.archive.parts()?.unfinished.into_iter().filter(|part| part.span == Span::Day));
        let days: BTreeSet<Hour> = left.iter().map(|part| part.hour.day()).collect();
        for day in days {
            self.hold()?;
            let log = Log::read(objects, Some(day))?;
            if !log.is_clear(day) {
                continue;
            }
            let is_owned = |part: &Part| log.open.values().any(|change| change.new == Some(*part));
            let left: Vec<&Part> = left.iter().filter(|part| part.hour.day() == day && !is_owned(part)).collect();
            if left.is_empty() {
                continue;
            }
            let id = log.next(day);
            if !changes::commit(objects, id, &Change { at: (self.clock)(), new: None, old: Vec::new() })? {
                continue;
            }
            changes::mark_done(objects, id)?;
            for part in left {
                self.hold()?;
                objects.delete(&changes::staged_path(*part))?;
                self.archive.remove(*part)?;
                self.done.left_over += 1;
            }
        }
        Ok(())
    }

    /// Drops parts.
    fn drop_parts(&mut self, parts: Vec<(Part, u64)>) -> Result<()> {
        let days: BTreeSet<Hour> = parts.iter().map(|(part, _)| part.hour.day()).collect();
        for day in days {
            let Some((id, there)) = self.view(day)? else { continue };
            let old: Vec<(Part, u64)> = parts.iter().filter(|(part, _)| there.contains_key(part)).copied().collect();
            if old.is_empty() {
                continue;
            }
            let change = Change { at: (self.clock)(), new: None, old: old.iter().map(|(part, _)| *part).collect() };
            if changes::commit(self.archive.objects(), id, &change)? {
                self.done.dropped += old.len() as u64;
                self.done.dropped_bytes += old.iter().map(|(_, bytes)| bytes).sum::<u64>();
            }
        }
        Ok(())
    }

    /// The next change of a day, and the parts that it can replace; `None` while another one is not complete.
    fn view(&mut self, day: Hour) -> Result<Option<View>> {
        self.hold()?;
        // The log comes first: a change that is committed after this takes the number.
        let log = Log::read(self.archive.objects(), Some(day))?;
        let parts = self.archive.parts_of(Some(day))?;
        let is_there = |part| parts.whole.contains_key(&part) || parts.replaced.contains_key(&part);
        let is_complete = log.open.values().all(|change| change.new.is_none_or(is_there));
        Ok((is_complete && log.is_clear(day)).then(|| (log.next(day), parts.whole)))
    }

    /// Merges the parts of a day, except those that this makes.
    fn compact_day(&mut self, day: Hour, names: &mut dyn FrameNames) -> Result<()> {
        let mut left: Option<Vec<Part>> = None;
        // Each change is made of what is there after the one before.
        while let Some((id, there)) = self.view(day)? {
            let mut candidates = left.take().unwrap_or_else(|| there.keys().copied().collect());
            candidates.retain(|part| there.contains_key(part));
            let failed = &mut self.done.failed;
            let Some(group) = plan::group(self.archive, &candidates, &self.limits.part, names, failed)? else { break };
            let done = self.merge((id, &there), &group, names)?;
            candidates.retain(|part| !done.contains(part));
            left = Some(candidates);
        }
        Ok(())
    }

    /// Merges parts of a group, as many as fit; those that are done with.
    fn merge(&mut self, view: (ChangeId, &Sizes), group: &[Part], names: &mut dyn FrameNames) -> Result<Vec<Part>> {
        let mut part = PartWriter::new(self.limits.part);
        let mut old: Vec<Part> = Vec::new();
        let mut repeated = 0;
        let Some(mut taken) = self.ids_of_days(view.1, group)? else { return Ok(group.to_vec()) };
        for one in group {
            self.hold()?;
            match part.absorb(self.archive, *one, names, &mut taken) {
                Ok(left_out) => {
                    repeated += left_out;
                    old.push(*one);
                }
                Err(error) if error.is_of_file() => {
                    self.done.failed.push(error.to_string());
                    return Ok(vec![*one]);
                }
                Err(error) => return Err(error),
            }
            if part.is_full() {
                break;
            }
        }
        if old.len() > 1 || (!names.is_empty() && self.archive.wants(old[0], names)?) {
            self.write(view, part, &old)?;
            self.done.repeated += repeated;
        }
        Ok(old)
    }

    /// The ids in parts of days that are not in a group: those of whole days have no profile twice. `None` when one of
    /// them cannot be read.
    fn ids_of_days(&mut self, there: &Sizes, group: &[Part]) -> Result<Option<HashSet<ProfileId>>> {
        let mut ids = HashSet::default();
        for part in there.keys().filter(|part| part.span == Span::Day && !group.contains(part)) {
            self.hold()?;
            match self.archive.ids(*part) {
                Ok(found) => ids.extend(found),
                Err(error) if error.is_of_file() => {
                    self.done.failed.push(error.to_string());
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(ids))
    }

    /// Writes a part, and commits and completes the change with which it replaces others.
    fn write(&mut self, (id, there): (ChangeId, &Sizes), part: PartWriter, old: &[Part]) -> Result<()> {
        let objects = self.archive.objects();
        let new = Part { hour: id.day, span: Span::Day, writer: self.writer, number: self.number };
        self.number += 1;
        let mut written = 0;
        for (table, bytes) in part.encode_rolled_up(new)? {
            self.hold()?;
            let path = if table == Table::Profiles { changes::staged_path(new) } else { new.path(table) };
            objects.put(&path, &bytes)?;
            written += bytes.len() as u64;
        }
        self.hold()?;
        let change = Change { at: (self.clock)(), new: Some(new), old: old.to_vec() };
        if !changes::commit(objects, id, &change)? {
            objects.delete(&changes::staged_path(new))?;
            return self.archive.remove(new);
        }
        changes::complete(objects, &change)?;
        self.done.replaced += old.len() as u64;
        self.done.replaced_bytes += old.iter().filter_map(|part| there.get(part)).sum::<u64>();
        self.done.written += 1;
        self.done.written_bytes += written;
        Ok(())
    }
}

/// Parts with their bytes.
type Sizes = BTreeMap<Part, u64>;
/// The next change of a day, and the parts that are there.
type View = (ChangeId, Sizes);
