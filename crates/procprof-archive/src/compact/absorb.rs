//! Parts to one part: the rows of each are added, with the frames, stacks and labels that they have in common once.

use arrow_array::Array;
use foldhash::{HashMap, HashSet};
use procprof_profile::ProfileId;

use crate::archive::Archive;
use crate::compact::{FrameNames, NamedFrame};
use crate::frames::{Frame, Frames};
use crate::label_sets::LabelRow;
use crate::part::LOCAL_BITS;
use crate::read::Rows;
use crate::tree::ROOT;
use crate::write::{PartWriter, Row};
use crate::{Error, Part, Result, Table};

impl PartWriter {
    /// Adds a part with its profiles, without those whose ids are in `taken`, which gets the others; the number of those
    /// that were left out. Frames without names get those of `names`.
    ///
    /// # Errors
    /// When a file cannot be read or has what it must not; what was added before remains.
    pub(crate) fn absorb(
        &mut self,
        archive: &Archive,
        part: Part,
        names: &mut dyn FrameNames,
        taken: &mut HashSet<ProfileId>,
    ) -> Result<u64> {
        let stacks = self.absorb_stacks(archive, part, names)?;
        let labels = self.absorb_labels(archive, part)?;
        // `None` for those that are left out.
        let mut profiles: HashMap<i64, Option<u32>> = HashMap::default();
        let mut left_out = 0;
        for (number, header) in archive.headers(part)? {
            if !taken.insert(header.identity.id) {
                left_out += 1;
                profiles.insert(number, None);
                continue;
            }
            profiles.insert(number, Some(self.headers.len() as u32));
            self.headers.push(header);
        }
        let file = archive.open(part, Table::Samples)?;
        let base = part.base();
        file.read(&["kind", "stack", "profile", "labels", "value"], &|_| true, &mut |rows| {
            let (kinds, values, sets) = (rows.texts("kind")?, rows.integers("value")?, rows.integers("labels")?);
            let (stack_ids, numbers) = (rows.integers("stack")?, rows.integers("profile")?);
            for at in 0..rows.len() {
                let wrong = |column: &str, what: String| rows.wrong(column, format!("{what} is not in the part"));
                let profile = profiles.get(&numbers.value(at)).copied();
                let profile = profile.ok_or_else(|| wrong("profile", numbers.value(at).to_string()))?;
                let Some(profile) = profile else { continue };
                let totals = &self.headers[profile as usize].totals;
                let kind = totals.iter().position(|total| total.kind == kinds.value(at));
                let kind = kind.ok_or_else(|| wrong("kind", format!("{:?}", kinds.value(at))))?;
                let row = stack_ids.value(at).checked_sub(base).and_then(|row| usize::try_from(row).ok());
                let stack = row.and_then(|row| stacks.get(row)).copied();
                let stack = stack.ok_or_else(|| wrong("stack", stack_ids.value(at).to_string()))?;
                let set = if sets.is_null(at) { Some(0) } else { labels.get(&sets.value(at)).copied() };
                let labels = set.ok_or_else(|| wrong("labels", sets.value(at).to_string()))?;
                self.rows.push(Row { kind: kind as u32, profile, stack, labels, value: values.value(at) });
            }
            Ok(())
        })?;
        self.check()?;
        Ok(left_out)
    }

    /// Adds the stacks of a part; the stack here of each row.
    fn absorb_stacks(&mut self, archive: &Archive, part: Part, names: &mut dyn FrameNames) -> Result<Vec<u32>> {
        let frames = self.absorb_frames(archive, part, names)?;
        let file = archive.open(part, Table::Stacks)?;
        let base = part.base();
        let mut stacks: Vec<u32> = Vec::new();
        file.read(&["stack", "up", "frame"], &|_| true, &mut |rows| {
            for at in 0..rows.len() {
                let (caller, frame) = stack_row(rows, at, stacks.len() as u32, base)?;
                let Some(frame) = frame else {
                    stacks.push(ROOT);
                    continue;
                };
                let chain = frames.get(frame as usize);
                let chain = chain.ok_or_else(|| rows.wrong("frame", format!("{frame} is not among the frames")))?;
                let callee = |stack: u32, frame: &u32| self.stacks.callee(stack, *frame);
                stacks.push(chain.iter().fold(stacks[caller as usize], callee));
            }
            Ok(())
        })?;
        Ok(stacks)
    }

    /// Adds the frames of a part. For each row the frames here: itself, or those that name it, outermost first.
    fn absorb_frames(&mut self, archive: &Archive, part: Part, names: &mut dyn FrameNames) -> Result<Vec<Box<[u32]>>> {
        let file = archive.open(part, Table::Frames)?;
        let columns: Vec<&str> = Table::Frames.columns().iter().map(|column| column.name).collect();
        let base = part.base();
        let mut found: Vec<Box<[u32]>> = Vec::new();
        file.read(&columns, &|_| true, &mut |rows| {
            for at in 0..rows.len() {
                let id = rows.integers("frame")?.value(at);
                if id.checked_sub(base) != i64::try_from(found.len()).ok() {
                    return Err(rows.wrong("frame", format!("{id} is not the id of row {}", found.len())));
                }
                let frame = self.frames.read(rows, at)?;
                let chain = named(&mut self.frames, frame, names)?;
                found.push(chain.into_iter().map(|frame| self.frames.add(frame)).collect());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Adds the sets of labels of a part; the set here of each of its ids.
    fn absorb_labels(&mut self, archive: &Archive, part: Part) -> Result<HashMap<i64, u32>> {
        let mut sets: HashMap<i64, Vec<LabelRow>> = HashMap::default();
        archive.open(part, Table::Labels)?.read(
            &["labels", "key", "text", "number", "unit"],
            &|_| true,
            &mut |rows| {
                for at in 0..rows.len() {
                    let row = label_row(rows, at, &mut self.frames)?;
                    sets.entry(rows.integers("labels")?.value(at)).or_default().push(row);
                }
                Ok(())
            },
        )?;
        Ok(sets.into_iter().map(|(id, set)| (id, self.label_sets.add(set))).collect())
    }
}

/// The caller and the frame of a row of the table of stacks, by their rows; the root is its own caller and has no frame.
fn stack_row(rows: &Rows<'_>, at: usize, row: u32, base: i64) -> Result<(u32, Option<u32>)> {
    let (stack, frames) = (rows.integers("stack")?.value(at), rows.integers("frame")?);
    if stack.checked_sub(base) != Some(i64::from(row)) {
        return Err(rows.wrong("stack", format!("{stack} is not the id of row {row}")));
    }
    if row == ROOT {
        return Ok((ROOT, None));
    }
    let up = u32::try_from(rows.integers("up")?.value(at)).ok().filter(|up| *up > 0);
    let caller = up.and_then(|up| row.checked_sub(up));
    let caller = caller.ok_or_else(|| rows.wrong("up", format!("row {row} has no caller before it")))?;
    let frame = (!frames.is_null(at)).then(|| frames.value(at).checked_sub(base)).flatten();
    let frame = frame.and_then(|row| u32::try_from(row).ok()).filter(|row| *row < 1 << LOCAL_BITS);
    Ok((caller, Some(frame.ok_or_else(|| rows.wrong("frame", format!("row {row} has none")))?)))
}

/// A row of the table of labels.
fn label_row(rows: &Rows<'_>, at: usize, texts: &mut Frames) -> Result<LabelRow> {
    let (values, numbers) = (rows.texts("text")?, rows.integers("number")?);
    let key = texts.intern(rows.texts("key")?.value(at))?;
    let value = if values.is_null(at) { None } else { Some(texts.intern(values.value(at))?) };
    let number = (!numbers.is_null(at)).then(|| numbers.value(at));
    Ok((key, value, number, texts.intern(rows.texts("unit")?.value(at))?))
}

/// The frames that name a frame without a name, outermost first; the frame itself if it has one, or none is known.
fn named(frames: &mut Frames, frame: Frame, names: &mut dyn FrameNames) -> Result<Vec<Frame>> {
    if !frame.is_unnamed() {
        return Ok(vec![frame]);
    }
    let (build_id, mapping) = (frames.text(frame.build_id).to_owned(), frames.text(frame.mapping).to_owned());
    if build_id.is_empty() || !names.has(&build_id) {
        return Ok(vec![frame]);
    }
    let mut chain = Vec::new();
    for (depth, name) in names.name(&build_id, &mapping, frame.address).into_iter().enumerate() {
        let NamedFrame { function, system_name, file, start_line, line, column } = name;
        chain.push(Frame {
            function: frames.intern(&function)?,
            system_name: frames.intern(&system_name)?,
            file: frames.intern(&file)?,
            start_line,
            line,
            column,
            inlined: depth > 0,
            ..frame
        });
    }
    Ok(if chain.is_empty() { vec![frame] } else { chain })
}

impl Archive {
    /// Whether a part has frames without names that are known by now. A binary that is known names not all of its
    /// addresses, so that each is looked up: otherwise such a part would be written anew each time.
    pub(crate) fn wants(&self, part: Part, names: &mut dyn FrameNames) -> Result<bool> {
        let mut found = false;
        let columns = ["function", "mapping", "build_id", "address"];
        self.open(part, Table::Frames)?.read(&columns, &|_| true, &mut |rows| {
            let (functions, build_ids) = (rows.texts("function")?, rows.texts("build_id")?);
            let (mappings, addresses) = (rows.texts("mapping")?, rows.integers("address")?);
            for at in (0..rows.len()).filter(|at| functions.value(*at).is_empty()) {
                let build_id = build_ids.value(at);
                found = found
                    || !build_id.is_empty()
                        && names.has(build_id)
                        && !names.name(build_id, mappings.value(at), addresses.value(at).cast_unsigned()).is_empty();
            }
            Ok::<(), Error>(())
        })?;
        Ok(found)
    }
}
