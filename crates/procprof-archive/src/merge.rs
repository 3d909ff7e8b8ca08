//! What a sum takes from an archive: the samples of one part after the other, and the stacks that they have.

use std::collections::BTreeSet;

use arrow_array::Array;
use foldhash::HashMap;
use procprof_profile::ProfileType;

use crate::archive::{Archive, Numbered};
use crate::frames::Frame;
use crate::label_sets::LabelRow;
use crate::part::LOCAL_BITS;
use crate::read::{Group, check_size};
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
    /// [`Error::Incompatible`] if their sample types differ; when a file cannot be read, or the sum exceeds the limits.
    pub fn merge(&self, selection: &Selection) -> Result<Option<Merged>> {
        match self.merge_listed(selection) {
            Err(error) if error.is_not_found() => self.merge_listed(selection),
            merged => merged,
        }
    }

    fn merge_listed(&self, selection: &Selection) -> Result<Option<Merged>> {
        let mut sum = ProfileSum::new(self.limits, &|| false);
        for part in self.parts()?.whole.into_keys().filter(|part| selection.has_time(part)) {
            sum.add_part(self, part, &self.headers_of(part, selection)?)?;
        }
        sum.finish()
    }
}

impl ProfileSum<'_> {
    /// Adds profiles of a part of an archive.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if their sample types differ from those before; when a file cannot be read, or the sum
    /// exceeds the limits. The sum is not to be used then.
    pub fn add_part(&mut self, archive: &Archive, part: Part, profiles: &[Numbered]) -> Result<()> {
        if profiles.is_empty() {
            return Ok(());
        }
        self.add_headers(profiles.iter().map(|(_, header)| header))?;
        let samples = self.part_sums(archive, part, profiles)?;
        let kinds = self.kinds.len();
        let stacks = self.add_stacks(archive, part, samples.iter(kinds).map(|(stack, ..)| stack))?;
        let sets = samples.iter(kinds).map(|(_, set, _)| set).filter(|set| *set > 0);
        let labels = self.add_label_sets(archive, part, sets)?;
        for (stack, set, values) in samples.iter(kinds) {
            let stack = stacks.get(&stack).ok_or_else(|| {
                Error::column(part.path(Table::Samples), "stack", format!("row {stack} is not among the stacks"))
            })?;
            let set = if set == 0 { 0 } else { labels.get(&set).copied().unwrap_or_default() };
            for (into, value) in self.values.row(*stack, set, kinds).iter_mut().zip(values) {
                *into = into.saturating_add(*value);
            }
        }
        self.check()
    }

    /// The sums of the values of profiles by the rows of stacks and labels in the part.
    fn part_sums(&self, archive: &Archive, part: Part, profiles: &[Numbered]) -> Result<Values> {
        let (base, kinds) = (part.base(), &self.kinds);
        let types: BTreeSet<&ProfileType> = profiles.iter().map(|(_, header)| &header.identity.profile_type).collect();
        let nodes: BTreeSet<u64> = profiles.iter().map(|(_, header)| header.identity.node).collect();
        let mut is_wanted: Vec<bool> = Vec::new();
        for (number, _) in profiles {
            let wrong =
                || Error::column(part.path(Table::Profiles), "profile", format!("{number} is no id of the part"));
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
        let file = archive.open(part, Table::Samples)?;
        file.read(&["kind", "stack", "profile", "labels", "value"], &filter, &mut |rows| {
            self.go_on()?;
            let (names, values) = (rows.texts("kind")?, rows.integers("value")?);
            let (stacks, profiles) = (rows.integers("stack")?, rows.integers("profile")?);
            let labels = rows.integers("labels")?;
            for (at, value) in values.values().iter().enumerate() {
                let profile = local(profiles.value(at), base);
                if profile.is_none_or(|profile| is_wanted.get(profile as usize) != Some(&true)) {
                    continue;
                }
                let (stack, set) = (stacks.value(at), (!labels.is_null(at)).then(|| labels.value(at)));
                let is_same_kind = kinds.get(run.kind).is_some_and(|(kind, _)| kind == names.value(at));
                if !is_same_kind || (stack, set) != (run.stack, run.set) {
                    run.add_to(&mut sums, base, kinds.len()).map_err(|(column, why)| rows.wrong(column, why))?;
                    let kind = kinds.iter().position(|(kind, _)| kind == names.value(at));
                    let kind = kind.ok_or_else(|| rows.wrong("kind", format!("{:?} has no total", names.value(at))))?;
                    run = Run { kind, stack, set, value: 0, rows: 0 };
                }
                run.value += i128::from(*value);
                run.rows += 1;
            }
            check_size("stacks of a part", sums.len(), self.limits.stacks)
        })?;
        run.add_to(&mut sums, base, kinds.len())
            .map_err(|(column, why)| Error::column(part.path(Table::Samples), column, why))?;
        Ok(sums)
    }

    /// Adds the stacks of a part in these rows; their numbers in the sum by row.
    fn add_stacks(
        &mut self,
        archive: &Archive,
        part: Part,
        needed: impl Iterator<Item = u32>,
    ) -> Result<HashMap<u32, u32>> {
        let file = archive.open(part, Table::Stacks)?;
        let base = part.base();
        let rows = usize::try_from(file.rows()).unwrap_or(usize::MAX);
        check_size("stacks of a part", rows, (1 << LOCAL_BITS).min(4 * self.limits.stacks))?;
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
        let mut frames: HashMap<u32, u32> = HashMap::default();
        let needed = || nodes.iter().enumerate().filter(|(at, _)| is_needed[*at]);
        frames.extend(needed().skip_while(|(at, _)| *at == 0).map(|(_, (_, frame))| (*frame, 0)));
        self.add_frames(archive, part, &mut frames)?;
        let mut found: HashMap<u32, u32> = HashMap::default();
        for (at, (caller, frame)) in needed() {
            let caller = found.get(caller).copied().unwrap_or(ROOT);
            let stack = if at == 0 { ROOT } else { self.stacks.callee(caller, frames[frame]) };
            found.insert(at as u32, stack);
        }
        Ok(found)
    }

    /// Adds the frames of a part that `needed` names by their rows, and sets the numbers that they have in the sum.
    fn add_frames(&mut self, archive: &Archive, part: Part, needed: &mut HashMap<u32, u32>) -> Result<()> {
        let file = archive.open(part, Table::Frames)?;
        let columns: Vec<&str> = Table::Frames.columns().iter().map(|column| column.name).collect();
        let base = part.base();
        let (mut row, mut found) = (0_u32, 0);
        file.read(&columns, &|_| true, &mut |rows| {
            let text = |column: &str, at: usize| Ok::<&str, Error>(rows.texts(column)?.value(at));
            let number = |column: &str, at: usize| Ok::<i64, Error>(rows.integers(column)?.value(at));
            for at in 0..rows.len() {
                let id = number("frame", at)?;
                if id != base + i64::from(row) {
                    return Err(rows.wrong("frame", format!("{id} is not the id of row {row}")));
                }
                if let Some(number_in_sum) = needed.get_mut(&row) {
                    let function = self.frames.intern(text("function", at)?)?;
                    let has_system_name = !rows.texts("system_name")?.is_null(at);
                    let system_name =
                        if has_system_name { self.frames.intern(text("system_name", at)?)? } else { function };
                    let frame = Frame {
                        function,
                        system_name,
                        file: self.frames.intern(text("file", at)?)?,
                        start_line: number("start_line", at)?,
                        line: number("line", at)?,
                        column: number("col", at)?,
                        inlined: rows.flags("inlined")?.value(at),
                        mapping: self.frames.intern(text("mapping", at)?)?,
                        build_id: self.frames.intern(text("build_id", at)?)?,
                        address: number("address", at)?.cast_unsigned(),
                        folded: rows.flags("folded")?.value(at),
                    };
                    *number_in_sum = self.frames.add(frame);
                    found += 1;
                    check_size("bytes of texts of a sum", self.frames.text_bytes(), self.limits.text_bytes)?;
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

    /// Adds the sets of labels of a part that are needed; their numbers in the sum by those in the part.
    fn add_label_sets(
        &mut self,
        archive: &Archive,
        part: Part,
        needed: impl Iterator<Item = u32>,
    ) -> Result<HashMap<u32, u32>> {
        let mut sets: HashMap<u32, Vec<LabelRow>> = needed.map(|set| (set, Vec::new())).collect();
        if sets.is_empty() {
            return Ok(HashMap::default());
        }
        let base = part.base();
        let file = archive.open(part, Table::Labels)?;
        file.read(&["labels", "key", "text", "number", "unit"], &|_| true, &mut |rows| {
            let (ids, texts, numbers) = (rows.integers("labels")?, rows.texts("text")?, rows.integers("number")?);
            for at in 0..rows.len() {
                let Some(set) = local(ids.value(at), base).and_then(|set| sets.get_mut(&set)) else { continue };
                let key = self.frames.intern(rows.texts("key")?.value(at))?;
                let text = if texts.is_null(at) { None } else { Some(self.frames.intern(texts.value(at))?) };
                let number = (!numbers.is_null(at)).then(|| numbers.value(at));
                set.push((key, text, number, self.frames.intern(rows.texts("unit")?.value(at))?));
            }
            check_size("bytes of texts of a sum", self.frames.text_bytes(), self.limits.text_bytes)
        })?;
        let missing = sets.iter().find(|(_, set)| set.is_empty());
        if let Some((id, _)) = missing {
            return Err(Error::column(
                part.path(Table::Samples),
                "labels",
                format!("set {id} is not among the labels"),
            ));
        }
        Ok(sets.into_iter().map(|(id, set)| (id, self.label_sets.add(set))).collect())
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
