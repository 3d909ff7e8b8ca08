//! What a sum takes from an archive: the samples of one part after the other, and the stacks that they have.

use std::collections::BTreeSet;

use arrow_array::Array;
use foldhash::HashMap;
use procprof_profile::{ProfileType, StringId};

use crate::archive::{Archive, Numbered};
use crate::frames::Frames;
use crate::label_sets::LabelRow;
use crate::part::LOCAL_BITS;
use crate::read::{Group, ReadLimits, check_size};
use crate::read_ahead::in_order;
use crate::rollup::Grain;
use crate::selection::Selection;
use crate::sum::{Merged, ProfileSum, Values};
use crate::tree::ROOT;
use crate::{Error, Part, Result, Table};

impl Archive {
    /// The sum of the selected profiles; `None` if there are none. Frames of one binary with the same build id and
    /// offset are the same, wherever it was mapped. When files vanish meanwhile, since a compaction has replaced them,
    /// it begins once more.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if their sample types differ; [`Error::UnclearDay`]; when a file cannot be read, or the sum exceeds the limits.
    pub fn merge(&self, selection: &Selection) -> Result<Option<Merged>> {
        match self.merge_listed(selection) {
            Err(error) if error.is_not_found() => self.merge_listed(selection),
            Err(Error::Part { source, .. }) => Err(*source),
            merged => merged,
        }
    }

    fn merge_listed(&self, selection: &Selection) -> Result<Option<Merged>> {
        let mut sum = ProfileSum::new(self.limits, &|| false);
        let parts = self.parts()?;
        if let Some((_, error)) =
            parts.unclear_days().find(|(day, _)| selection.has_time(day.start(), day.next_day().start()))
        {
            return Err(error);
        }
        let parts = parts.whole.into_keys().filter(|part| selection.has_time(part.start(), part.end()));
        let parts: Vec<(Part, Grain)> = parts.map(|part| (part, Grain::Profile)).collect();
        sum.add_parts(self, &parts, &|part, grain| self.headers_of(part, grain, selection))?;
        sum.finish()
    }
}

impl ProfileSum<'_> {
    /// Adds profiles of a part of an archive, or hours.
    ///
    /// # Errors
    /// Those of [`ProfileSum::add_parts`].
    pub fn add_part(&mut self, archive: &Archive, (part, grain): (Part, Grain), headers: &[Numbered]) -> Result<()> {
        if headers.is_empty() {
            return Ok(());
        }
        let reader = PartReader { archive, part, grain, is_stopped: self.is_stopped };
        self.add_read((part, grain), headers, &reader.read(headers)?)
    }

    /// Adds the profiles of parts of an archive, or their hours, that `headers` gives, which is called by several
    /// threads at a time.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if their sample types differ from those before; [`Error::Part`] for a part whose files
    /// are at fault; those of `headers`, and of the storage; when the sum exceeds the limits. The sum is not to be
    /// used then.
    pub fn add_parts(
        &mut self,
        archive: &Archive,
        parts: &[(Part, Grain)],
        headers: &(dyn Fn(Part, Grain) -> Result<Vec<Numbered>> + Sync),
    ) -> Result<()> {
        let read = |at: usize, is_stopped: &dyn Fn() -> bool| {
            let (part, grain) = parts[at];
            let headers = headers(part, grain)?;
            if headers.is_empty() {
                return Ok(None);
            }
            let read = PartReader { archive, part, grain, is_stopped }.read(&headers)?;
            Ok(Some((headers, read)))
        };
        in_order(parts.len(), self.is_stopped, &read, &mut |at, read: Result<_>| match read? {
            Some((headers, read)) => self.add_read(parts[at], &headers, &read),
            None => Ok(()),
        })
    }

    /// Adds what was read of a part.
    fn add_read(&mut self, (part, grain): (Part, Grain), headers: &[Numbered], read: &PartSums) -> Result<()> {
        self.add_headers(headers.iter().map(|(_, header)| header))?;
        let kinds = self.kinds.len();
        let place = |kind: &String| self.kinds.iter().position(|(known, _)| known == kind);
        // All are known, since the headers were added.
        let places: Vec<usize> = read.kinds.iter().filter_map(place).collect();
        let texts = self.frames.add_texts(&read.frames)?;
        let mut stacks: HashMap<u32, u32> = HashMap::default();
        for (row, (caller, frame)) in &read.stacks {
            let caller = stacks.get(caller).copied().unwrap_or(ROOT);
            let stack = match *row {
                ROOT => ROOT,
                _ => {
                    let frame = self.frames.add(read.frames.get(*frame).with_texts(&texts));
                    self.stacks.callee(caller, frame)
                }
            };
            stacks.insert(*row, stack);
        }
        let text = |id: StringId| texts.get(id.index()).copied().unwrap_or_default();
        let mut sets: HashMap<u32, u32> = HashMap::default();
        for (id, set) in &read.label_sets {
            let translated =
                |(key, value, number, unit): &LabelRow| (text(*key), value.map(&text), *number, text(*unit));
            sets.insert(*id, self.label_sets.add(set.iter().map(translated).collect()));
        }
        for (stack, set, values) in read.values.iter(read.kinds.len()) {
            let stack = stacks.get(&stack).ok_or_else(|| {
                Error::column(part.path(grain.values()), "stack", format!("row {stack} is not among the stacks"))
            })?;
            let set = sets.get(&set).copied().unwrap_or_default();
            let row = self.values.row(*stack, set, kinds);
            for (place, value) in places.iter().zip(values) {
                row[*place] = row[*place].saturating_add(*value);
            }
        }
        self.check()
    }
}

/// What a sum takes from a part.
struct PartSums {
    /// Kinds of values.
    kinds: Vec<String>,
    /// By the rows of stacks and labels in the part.
    values: Values,
    /// Caller and frame of the stacks that these have, by row, callers first; frames are those below.
    stacks: Vec<(u32, (u32, u32))>,
    frames: Frames,
    /// The sets of labels that they have; texts are those of the frames.
    label_sets: Vec<(u32, Vec<LabelRow>)>,
}

/// Reads a part of an archive.
struct PartReader<'a> {
    archive: &'a Archive,
    part: Part,
    grain: Grain,
    is_stopped: &'a dyn Fn() -> bool,
}

impl PartReader<'_> {
    /// The sums of profiles of the part; [`Error::Part`] if its files are at fault.
    fn read(&self, profiles: &[Numbered]) -> Result<PartSums> {
        self.read_tables(profiles).map_err(|error| match error.is_of_file() {
            true => Error::Part { part: self.part, source: Box::new(error) },
            false => error,
        })
    }

    fn read_tables(&self, profiles: &[Numbered]) -> Result<PartSums> {
        let mut kinds: Vec<String> = Vec::new();
        for total in profiles.iter().flat_map(|(_, header)| &header.totals) {
            if !kinds.contains(&total.kind) {
                kinds.push(total.kind.clone());
            }
        }
        let values = self.values(profiles, &kinds)?;
        let mut frames = Frames::default();
        let stacks = self.stacks(&mut frames, values.iter(kinds.len()).map(|(stack, ..)| stack))?;
        let sets = values.iter(kinds.len()).map(|(_, set, _)| set).filter(|set| *set > 0);
        let label_sets = self.label_sets(&mut frames, sets)?;
        Ok(PartSums { kinds, values, stacks, frames, label_sets })
    }

    fn limits(&self) -> ReadLimits {
        self.archive.limits()
    }

    fn go_on(&self) -> Result<()> {
        if (self.is_stopped)() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// The sums of the values of profiles by the rows of stacks and labels in the part.
    fn values(&self, profiles: &[Numbered], kinds: &[String]) -> Result<Values> {
        let (part, base, grain) = (self.part, self.part.base(), self.grain);
        let types: BTreeSet<&ProfileType> = profiles.iter().map(|(_, header)| &header.identity.profile_type).collect();
        let nodes: BTreeSet<u64> = profiles.iter().map(|(_, header)| header.identity.node).collect();
        let mut is_wanted: Vec<bool> = Vec::new();
        for (number, _) in profiles {
            let wrong =
                || Error::column(part.path(grain.headers()), grain.number(), format!("{number} is no id of the part"));
            let profile = local(*number, base).ok_or_else(wrong)? as usize;
            is_wanted.resize(is_wanted.len().max(profile + 1), false);
            is_wanted[profile] = true;
        }
        let filter = |group: &Group<'_>| {
            types.iter().any(|one| group.may_have_text("type", one.name()))
                && nodes.iter().any(|node| group.may_have("node", node.cast_signed()))
        };
        let mut sums = Values::default();
        // Neighbours have the same kind, stack and labels, mostly.
        let mut run = Run::default();
        let file = self.archive.open(part, grain.values())?;
        file.read(&["kind", "stack", grain.number(), "labels", "value"], &filter, &mut |rows| {
            self.go_on()?;
            let (names, values) = (rows.texts("kind")?, rows.integers("value")?);
            let (stacks, profiles) = (rows.integers("stack")?, rows.integers(grain.number())?);
            let labels = rows.integers("labels")?;
            for (at, value) in values.values().iter().enumerate() {
                let profile = local(profiles.value(at), base);
                if profile.is_none_or(|profile| is_wanted.get(profile as usize) != Some(&true)) {
                    continue;
                }
                let (stack, set) = (stacks.value(at), (!labels.is_null(at)).then(|| labels.value(at)));
                let is_same_kind = kinds.get(run.kind).is_some_and(|kind| kind == names.value(at));
                if !is_same_kind || (stack, set) != (run.stack, run.set) {
                    run.add_to(&mut sums, base, kinds.len()).map_err(|(column, why)| rows.wrong(column, why))?;
                    let kind = kinds.iter().position(|kind| kind == names.value(at));
                    let kind = kind.ok_or_else(|| rows.wrong("kind", format!("{:?} has no total", names.value(at))))?;
                    run = Run { kind, stack, set, value: 0, rows: 0 };
                }
                run.value += i128::from(*value);
                run.rows += 1;
            }
            check_size("stacks of a part", sums.len(), self.limits().stacks)
        })?;
        run.add_to(&mut sums, base, kinds.len())
            .map_err(|(column, why)| Error::column(part.path(grain.values()), column, why))?;
        Ok(sums)
    }

    /// The stacks in these rows and their callers, whose frames are added.
    fn stacks(&self, frames: &mut Frames, needed: impl Iterator<Item = u32>) -> Result<Vec<(u32, (u32, u32))>> {
        let (part, base) = (self.part, self.part.base());
        let file = self.archive.open(part, Table::Stacks)?;
        let rows = usize::try_from(file.rows()).unwrap_or(usize::MAX);
        check_size("stacks of a part", rows, (1 << LOCAL_BITS).min(4 * self.limits().stacks))?;
        // Caller and frame of each row.
        let mut nodes: Vec<(u32, u32)> = Vec::with_capacity(rows);
        file.read(&["stack", "up", "frame"], &|_| true, &mut |rows| {
            let (stacks, ups, frames) = (rows.integers("stack")?, rows.integers("up")?, rows.integers("frame")?);
            for at in 0..rows.len() {
                let row = nodes.len() as u32;
                if stacks.value(at) != base + i64::from(row) {
                    return Err(rows.wrong("stack", format!("{} is not the id of row {row}", stacks.value(at))));
                }
                let caller = u32::try_from(ups.value(at)).ok().filter(|up| *up > 0).and_then(|up| row.checked_sub(up));
                let caller = if row == 0 { Some(ROOT) } else { caller };
                let caller = caller.ok_or_else(|| rows.wrong("up", format!("row {row} has no caller before it")))?;
                let frame = (!frames.is_null(at)).then(|| local(frames.value(at), base)).flatten();
                let frame = if row == 0 { Some(0) } else { frame };
                nodes.push((caller, frame.ok_or_else(|| rows.wrong("frame", format!("row {row} has none")))?));
            }
            Ok(())
        })?;
        let mut is_needed = vec![false; nodes.len()];
        for stack in needed {
            let mut at = Some(stack).filter(|at| (*at as usize) < nodes.len());
            while let Some(stack) = at.filter(|at| !is_needed[*at as usize]) {
                is_needed[stack as usize] = true;
                at = (stack != ROOT).then(|| nodes[stack as usize].0);
            }
        }
        let needed = || nodes.iter().enumerate().filter(|(at, _)| is_needed[*at]);
        let mut places: HashMap<u32, u32> = HashMap::default();
        places.extend(needed().skip_while(|(at, _)| *at == 0).map(|(_, (_, frame))| (*frame, 0)));
        self.add_frames(frames, &mut places)?;
        let placed = |(at, (caller, frame)): (usize, &(u32, u32))| {
            (at as u32, (*caller, places.get(frame).copied().unwrap_or_default()))
        };
        Ok(needed().map(placed).collect())
    }

    /// Adds the frames of the part that `needed` names by their rows, and sets their numbers.
    fn add_frames(&self, frames: &mut Frames, needed: &mut HashMap<u32, u32>) -> Result<()> {
        let (part, base) = (self.part, self.part.base());
        let file = self.archive.open(part, Table::Frames)?;
        let columns: Vec<&str> = Table::Frames.columns().iter().map(|column| column.name).collect();
        let (mut row, mut found) = (0_u32, 0);
        file.read(&columns, &|_| true, &mut |rows| {
            for at in 0..rows.len() {
                let id = rows.integers("frame")?.value(at);
                if id != base + i64::from(row) {
                    return Err(rows.wrong("frame", format!("{id} is not the id of row {row}")));
                }
                if let Some(number) = needed.get_mut(&row) {
                    let frame = frames.read(rows, at)?;
                    *number = frames.add(frame);
                    found += 1;
                    check_size("bytes of texts of a sum", frames.text_bytes(), self.limits().text_bytes)?;
                }
                row += 1;
            }
            Ok(())
        })?;
        if found < needed.len() {
            let why = format!("{} frames are not among the frames", needed.len() - found);
            return Err(Error::column(part.path(Table::Stacks), "frame", why));
        }
        Ok(())
    }

    /// The sets of labels of the part that are needed; texts are added to those of the frames.
    fn label_sets(&self, frames: &mut Frames, needed: impl Iterator<Item = u32>) -> Result<Vec<(u32, Vec<LabelRow>)>> {
        let mut sets: HashMap<u32, Vec<LabelRow>> = needed.map(|set| (set, Vec::new())).collect();
        if sets.is_empty() {
            return Ok(Vec::new());
        }
        let (part, base) = (self.part, self.part.base());
        let file = self.archive.open(part, Table::Labels)?;
        let mut entries = 0;
        file.read(&["labels", "key", "text", "number", "unit"], &|_| true, &mut |rows| {
            let (ids, texts, numbers) = (rows.integers("labels")?, rows.texts("text")?, rows.integers("number")?);
            for at in 0..rows.len() {
                let Some(set) = local(ids.value(at), base).and_then(|set| sets.get_mut(&set)) else { continue };
                let key = frames.intern(rows.texts("key")?.value(at))?;
                let text = if texts.is_null(at) { None } else { Some(frames.intern(texts.value(at))?) };
                let number = (!numbers.is_null(at)).then(|| numbers.value(at));
                set.push((key, text, number, frames.intern(rows.texts("unit")?.value(at))?));
                entries += 1;
            }
            check_size("labels of a part", entries, self.limits().stacks)?;
            check_size("bytes of texts of a sum", frames.text_bytes(), self.limits().text_bytes)
        })?;
        let missing = sets.iter().find(|(_, set)| set.is_empty());
        if let Some((id, _)) = missing {
            return Err(Error::column(
                part.path(self.grain.values()),
                "labels",
                format!("set {id} is not among the labels"),
            ));
        }
        Ok(sets.into_iter().collect())
    }
}

/// Rows of samples that differ in nothing but the profile.
#[derive(Default)]
struct Run {
    kind: usize,
    stack: i64,
    set: Option<i64>,
    value: i128,
    rows: u64,
}

impl Run {
    /// Adds it to the sums of a part; the column that is wrong, and why.
    fn add_to(&self, sums: &mut Values, base: i64, kinds: usize) -> std::result::Result<(), (&'static str, String)> {
        if self.rows == 0 {
            return Ok(());
        }
        let wrong = |column, id: i64| (column, format!("{id} is no id of the part"));
        let stack = local(self.stack, base).ok_or_else(|| wrong("stack", self.stack))?;
        // Sets are numbered from 1.
        let set = match self.set {
            None => 0,
            Some(id) => local(id, base).filter(|set| *set > 0).ok_or_else(|| wrong("labels", id))?,
        };
        sums.row(stack, set, kinds)[self.kind] += self.value;
        Ok(())
    }
}

/// The row with an id.
fn local(id: i64, base: i64) -> Option<u32> {
    u32::try_from(id.checked_sub(base)?).ok().filter(|row| *row < 1 << LOCAL_BITS)
}
