//! Sums of archived profiles, made by streaming the samples of one part after the other.

use std::collections::BTreeSet;

use arrow_array::Array;
use foldhash::{HashMap, HashSet};
use procprof_profile::{
    Addr, FileOffset, Function, Label, Line, Location, LocationId, Mapping, MappingId, Meta, Nanos, Profile,
    ProfileBuilder, ProfileId, ProfileType,
};

use crate::archive::{Archive, Numbered};
use crate::frames::{Frame, Frames};
use crate::header::Header;
use crate::part::LOCAL_BITS;
use crate::tree::{ROOT, StackTree};
use crate::write::LabelRow;
use crate::{Error, Hour, Part, Result, Table};

/// The profiles that are summed: those that fulfil all conditions. Empty lists and `None` are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Complete at this moment or later.
    pub from: Option<Nanos>,
    /// Complete before this moment.
    pub to: Option<Nanos>,
    /// Any of these types.
    pub types: Vec<ProfileType>,
    /// Of any of these nodes, by id or name.
    pub nodes: Vec<String>,
    /// Any of these.
    pub ids: Vec<ProfileId>,
}

/// A sum of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The sum.
    pub profile: Profile,
    /// The number of profiles in it.
    pub profiles: u64,
}

impl Selection {
    fn has(&self, header: &Header) -> bool {
        let identity = &header.identity;
        self.from.is_none_or(|from| identity.completed >= from)
            && self.to.is_none_or(|to| identity.completed < to)
            && (self.types.is_empty() || self.types.contains(&identity.profile_type))
            && (self.ids.is_empty() || self.ids.contains(&identity.id))
            && (self.nodes.is_empty() || self.nodes.iter().any(|node| is_node(node, header)))
    }

    /// Whether profiles of an hour may be among them.
    fn has_hour(&self, hour: Hour) -> bool {
        self.from.is_none_or(|from| hour.end() > from) && self.to.is_none_or(|to| hour.start() < to)
    }
}

fn is_node(wanted: &str, header: &Header) -> bool {
    wanted == header.meta.node_name || wanted.parse() == Ok(header.identity.node)
}

impl Archive {
    /// The sum of the selected profiles; `None` if there are none. Frames of one binary with the same build id and
    /// offset are the same, wherever it was mapped.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if their sample types differ; when a file cannot be read, or the sum exceeds the limits.
    pub fn merge(&self, selection: &Selection) -> Result<Option<Merged>> {
        let mut sum = Sum::default();
        for part in self.parts()?.whole.into_keys().filter(|part| selection.has_hour(part.hour)) {
            let mut headers = self.headers(part)?;
            headers.retain(|(_, header)| selection.has(header));
            if !headers.is_empty() {
                sum.add_headers(&headers)?;
                self.add_samples(part, &headers, &mut sum)?;
            }
        }
        if sum.metas.is_empty() { Ok(None) } else { sum.finish().map(Some) }
    }

    fn add_samples(&self, part: Part, headers: &[Numbered], sum: &mut Sum) -> Result<()> {
        let samples = self.part_sums(part, headers, &sum.kinds)?;
        let stacks = self.stacks(part, samples.keys().map(|(stack, _)| *stack), sum)?;
        let labels = self.label_sets(part, samples.keys().filter_map(|(_, labels)| *labels), sum)?;
        for ((stack, set), values) in samples {
            let stack = *stacks.get(&stack).ok_or_else(|| {
                Error::column(part.path(Table::Samples), "stack", format!("{stack} is not among the stacks"))
            })?;
            let set = set.map(|set| labels.get(&set).copied().unwrap_or_default()).unwrap_or_default();
            let into = sum.values.entry((stack, set)).or_insert_with(|| vec![0; values.len()]);
            for (into, value) in into.iter_mut().zip(values) {
                *into = into.saturating_add(value);
            }
        }
        Ok(())
    }

    /// The sums of the values of profiles by stack and labels, as the part numbers these.
    fn part_sums(&self, part: Part, headers: &[Numbered], kinds: &[(String, String)]) -> Result<PartSums> {
        let wanted: HashSet<i64> = headers.iter().map(|(number, _)| *number).collect();
        let types: BTreeSet<&ProfileType> = headers.iter().map(|(_, header)| &header.identity.profile_type).collect();
        let nodes: BTreeSet<u64> = headers.iter().map(|(_, header)| header.identity.node).collect();
        let file = self.open(part, Table::Samples)?;
        let mut sums = PartSums::default();
        let columns = ["kind", "stack", "profile", "labels", "value"];
        let filter = |group: &crate::read::Group<'_>| {
            types.iter().any(|one| group.may_have_text("type", one.name()))
                && nodes.iter().any(|node| group.may_have("node", node.cast_signed()))
        };
        file.read(&columns, &filter, &mut |rows| {
            let (names, values) = (rows.texts("kind")?, rows.integers("value")?);
            let (stacks, profiles) = (rows.integers("stack")?, rows.integers("profile")?);
            let labels = rows.integers("labels")?;
            for at in (0..rows.len()).filter(|at| wanted.contains(&profiles.value(*at))) {
                let kind = kinds.iter().position(|(kind, _)| kind == names.value(at));
                let kind = kind.ok_or_else(|| rows.wrong("kind", format!("{:?} has no total", names.value(at))))?;
                let set = (!labels.is_null(at)).then(|| labels.value(at));
                let sum = sums.entry((stacks.value(at), set)).or_insert_with(|| vec![0; kinds.len()]);
                sum[kind] += i128::from(values.value(at));
            }
            check_size("stacks of a part", sums.len(), self.limits.stacks)
        })?;
        Ok(sums)
    }

    /// The stacks of a part that are needed, as the sum numbers them.
    fn stacks(&self, part: Part, needed: impl Iterator<Item = i64>, sum: &mut Sum) -> Result<HashMap<i64, u32>> {
        let file = self.open(part, Table::Stacks)?;
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
            let mut at = local(stack, base).filter(|at| (*at as usize) < nodes.len());
            while let Some(stack) = at.filter(|at| !is_needed[*at as usize]) {
                is_needed[stack as usize] = true;
                at = (stack != ROOT).then(|| nodes[stack as usize].0);
            }
        }
        let mut frames: HashMap<u32, u32> = HashMap::default();
        for (at, (_, frame)) in nodes.iter().enumerate().skip(1).filter(|(at, _)| is_needed[*at]) {
            debug_assert!(at > 0);
            frames.insert(*frame, 0);
        }
        self.frames(part, &mut frames, sum)?;
        let mut found: HashMap<i64, u32> = HashMap::default();
        for (at, (caller, frame)) in nodes.iter().enumerate().filter(|(at, _)| is_needed[*at]) {
            let caller = found.get(&(base + i64::from(*caller))).copied().unwrap_or(ROOT);
            let stack = if at == 0 { ROOT } else { sum.stacks.callee(caller, frames[frame]) };
            found.insert(base + at as i64, stack);
        }
        check_size("stacks of a sum", sum.stacks.len(), self.limits.stacks)?;
        Ok(found)
    }

    /// Adds the frames of a part that `needed` names by their rows, and sets the numbers that they have in the sum.
    fn frames(&self, part: Part, needed: &mut HashMap<u32, u32>, sum: &mut Sum) -> Result<()> {
        let file = self.open(part, Table::Frames)?;
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
                    let function = sum.frames.intern(text("function", at)?)?;
                    let has_system_name = !rows.texts("system_name")?.is_null(at);
                    let system_name =
                        if has_system_name { sum.frames.intern(text("system_name", at)?)? } else { function };
                    let frame = Frame {
                        function,
                        system_name,
                        file: sum.frames.intern(text("file", at)?)?,
                        start_line: number("start_line", at)?,
                        line: number("line", at)?,
                        column: number("col", at)?,
                        inlined: rows.flags("inlined")?.value(at),
                        mapping: sum.frames.intern(text("mapping", at)?)?,
                        build_id: sum.frames.intern(text("build_id", at)?)?,
                        address: number("address", at)?.cast_unsigned(),
                        folded: rows.flags("folded")?.value(at),
                    };
                    *number_in_sum = sum.frames.add(frame);
                    found += 1;
                    check_size("bytes of texts of a sum", sum.frames.text_bytes(), self.limits.text_bytes)?;
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

    /// The sets of labels of a part that are needed, as the sum numbers them.
    fn label_sets(&self, part: Part, needed: impl Iterator<Item = i64>, sum: &mut Sum) -> Result<HashMap<i64, u32>> {
        let mut sets: HashMap<i64, Vec<LabelRow>> = needed.map(|set| (set, Vec::new())).collect();
        if sets.is_empty() {
            return Ok(HashMap::default());
        }
        let file = self.open(part, Table::Labels)?;
        file.read(&["labels", "key", "text", "number", "unit"], &|_| true, &mut |rows| {
            let (ids, texts, numbers) = (rows.integers("labels")?, rows.texts("text")?, rows.integers("number")?);
            for at in 0..rows.len() {
                let Some(set) = sets.get_mut(&ids.value(at)) else { continue };
                let key = sum.frames.intern(rows.texts("key")?.value(at))?;
                let text = if texts.is_null(at) { None } else { Some(sum.frames.intern(texts.value(at))?) };
                let number = (!numbers.is_null(at)).then(|| numbers.value(at));
                set.push((key, text, number, sum.frames.intern(rows.texts("unit")?.value(at))?));
            }
            check_size("bytes of texts of a sum", sum.frames.text_bytes(), self.limits.text_bytes)
        })?;
        let missing = sets.iter().find(|(_, set)| set.is_empty());
        if let Some((id, _)) = missing {
            return Err(Error::column(part.path(Table::Samples), "labels", format!("{id} is not among the labels")));
        }
        Ok(sets.into_iter().map(|(id, set)| (id, sum.label_set(set))).collect())
    }
}

/// Values by stack and labels, as a part numbers them.
type PartSums = HashMap<(i64, Option<i64>), Vec<i128>>;

/// The row with an id.
fn local(id: i64, base: i64) -> Option<u32> {
    u32::try_from(id.checked_sub(base)?).ok().filter(|row| *row < 1 << LOCAL_BITS)
}

fn check_size(what: &str, size: usize, limit: usize) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { what: what.to_owned(), size: size as u64, limit: limit as u64 })
}

/// A sum under construction.
#[derive(Default)]
struct Sum {
    frames: Frames,
    stacks: StackTree,
    label_sets: Vec<Vec<LabelRow>>,
    label_ids: HashMap<Vec<LabelRow>, u32>,
    /// Kinds of values with their units.
    kinds: Vec<(String, String)>,
    shown_kind: String,
    period_type: (String, String),
    period: i64,
    start: Nanos,
    duration: Nanos,
    metas: Vec<Meta>,
    profiles: u64,
    values: HashMap<(u32, u32), Vec<i128>>,
}

impl Sum {
    fn add_headers(&mut self, headers: &[Numbered]) -> Result<()> {
        for (_, header) in headers {
            let kinds = || header.totals.iter().map(|total| (total.kind.clone(), total.unit.clone()));
            if self.metas.is_empty() {
                self.kinds = kinds().collect();
                self.shown_kind = header.shown_kind.clone();
                self.period_type = header.period_type.clone();
                self.start = header.identity.start;
            }
            let (mine, its): (BTreeSet<_>, BTreeSet<_>) = (self.kinds.iter().cloned().collect(), kinds().collect());
            if mine != its {
                return Err(Error::Incompatible { one: shown(&mine), other: shown(&its) });
            }
            self.start = self.start.min(header.identity.start);
            self.duration = Nanos(self.duration.0.saturating_add(header.identity.duration.0));
            self.period = self.period.max(header.period);
            self.metas.push(header.meta.clone());
        }
        // One is enough of those that are known to be summed.
        self.profiles += headers.len() as u64;
        self.metas = vec![Meta::merged(&self.metas)];
        Ok(())
    }

    fn label_set(&mut self, mut set: Vec<LabelRow>) -> u32 {
        set.sort_unstable();
        let sets = &mut self.label_sets;
        *self.label_ids.entry(set).or_insert_with_key(|set| {
            sets.push(set.clone());
            sets.len() as u32
        })
    }

    fn finish(self) -> Result<Merged> {
        let types: Vec<(&str, &str)> = self.kinds.iter().map(|(kind, unit)| (kind.as_str(), unit.as_str())).collect();
        let mut builder = ProfileBuilder::new(&types);
        builder.default_sample_type(&self.shown_kind);
        builder.time(self.start, self.duration);
        builder.period(&self.period_type.0, &self.period_type.1, self.period);
        for fact in Meta::merged(&self.metas).to_comments() {
            builder.comment(&fact);
        }
        let mut locations = Locations::default();
        let mut samples: Vec<_> = self.values.iter().collect();
        samples.sort_unstable();
        for ((stack, set), values) in samples {
            let values: Vec<i64> = values.iter().map(|value| clamped(*value)).collect();
            if values.iter().all(|value| *value == 0) {
                continue;
            }
            let stack = locations.stack(&self, *stack, &mut builder);
            let labels = self.labels(*set, &mut builder);
            builder.sample(&stack, &values, &labels);
        }
        let profile = builder.finish().map_err(Error::Sum)?;
        Ok(Merged { profile, profiles: self.profiles })
    }

    fn labels(&self, set: u32, builder: &mut ProfileBuilder) -> Vec<Label> {
        let rows = (set as usize).checked_sub(1).and_then(|at| self.label_sets.get(at));
        let label = |(key, text, number, unit): &LabelRow| {
            let key = self.frames.text(*key);
            match (text, number) {
                (Some(text), _) => builder.text_label(key, self.frames.text(*text)),
                (None, number) => builder.number_label(key, number.unwrap_or_default(), self.frames.text(*unit)),
            }
        };
        rows.into_iter().flatten().map(label).collect()
    }
}

fn shown(kinds: &BTreeSet<(String, String)>) -> String {
    kinds.iter().map(|(kind, unit)| format!("{kind}/{unit}")).collect::<Vec<_>>().join(", ")
}

fn clamped(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// The locations of a sum's profile: a frame, and those inlined into it.
#[derive(Default)]
struct Locations {
    ids: HashMap<Vec<u32>, LocationId>,
    mappings: HashMap<(u32, u32), MappingId>,
}

impl Locations {
    /// A stack's locations, leaf first.
    fn stack(&mut self, sum: &Sum, stack: u32, builder: &mut ProfileBuilder) -> Vec<LocationId> {
        let mut found = Vec::new();
        // The frames of a location, innermost first.
        let mut frames: Vec<u32> = Vec::new();
        let mut at = stack;
        while let Some((caller, frame)) = sum.stacks.leaf(at) {
            frames.push(frame);
            if !sum.frames.get(frame).inlined || caller == ROOT {
                found.push(self.location(sum, std::mem::take(&mut frames), builder));
            }
            at = caller;
        }
        found
    }

    fn location(&mut self, sum: &Sum, frames: Vec<u32>, builder: &mut ProfileBuilder) -> LocationId {
        if let Some(id) = self.ids.get(&frames) {
            return *id;
        }
        let outermost = frames.last().map(|frame| *sum.frames.get(*frame)).unwrap_or_default();
        let mapping = self.mapping(sum, &outermost, builder);
        let mut location = Location::new(mapping, Addr(outermost.address));
        location.is_folded = outermost.folded;
        let is_named = |frame: &&Frame| **frame != outermost || frame.function.0 != 0 || frame.line != 0;
        let lines: Vec<Line> = frames
            .iter()
            .map(|frame| sum.frames.get(*frame))
            .filter(is_named)
            .map(|frame| line(sum, frame, builder))
            .collect();
        let id = builder.location(location, &lines);
        self.ids.insert(frames, id);
        id
    }

    fn mapping(&mut self, sum: &Sum, frame: &Frame, builder: &mut ProfileBuilder) -> Option<MappingId> {
        if frame.mapping.0 == 0 && frame.build_id.0 == 0 {
            return None;
        }
        let key = (frame.mapping.0, frame.build_id.0);
        Some(*self.mappings.entry(key).or_insert_with(|| {
            let filename = builder.intern(sum.frames.text(frame.mapping));
            let build_id = builder.intern(sum.frames.text(frame.build_id));
            let limit = Addr(u64::MAX);
            builder.mapping(Mapping { limit, file_offset: FileOffset(0), filename, build_id, ..Mapping::default() })
        }))
    }
}

fn line(sum: &Sum, frame: &Frame, builder: &mut ProfileBuilder) -> Line {
    let name = builder.intern(sum.frames.text(frame.function));
    let system_name = builder.intern(sum.frames.text(frame.system_name));
    let filename = builder.intern(sum.frames.text(frame.file));
    let function = builder.function(Function { name, system_name, filename, start_line: frame.start_line });
    Line { function, line: frame.line, column: frame.column }
}
