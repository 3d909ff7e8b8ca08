//! [`ProfileSum`]: profiles added up, stack by stack, those of archives and others alike.

use std::collections::BTreeSet;

use foldhash::HashMap;
use procprof_profile::{
    Addr, FileOffset, Function, Label, Line, Location, LocationId, Mapping, MappingId, Meta, Nanos, Profile,
    ProfileBuilder, StringId,
};

use crate::frames::{Frame, Frames};
use crate::header::{FrameFacts, Header, Identity};
use crate::label_sets::{LabelRow, LabelSets};
use crate::read::{ReadLimits, check_size};
use crate::tree::{ROOT, StackTree};
use crate::write::each_value;
use crate::{Error, Result};

/// A sum of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The sum.
    pub profile: Profile,
    /// The number of profiles in it.
    pub profiles: u64,
}

/// A sum of profiles under construction. Values are those of [`procprof_profile::Grammar::Pprof`]; frames of one binary
/// with the same build id and offset are the same, wherever it was mapped.
pub struct ProfileSum<'a> {
    pub(crate) limits: ReadLimits,
    /// Whether it is not needed any more.
    pub(crate) is_stopped: &'a dyn Fn() -> bool,
    pub(crate) frames: Frames,
    pub(crate) stacks: StackTree,
    pub(crate) label_sets: LabelSets,
    /// Kinds of values with their units.
    pub(crate) kinds: Vec<(String, String)>,
    shown_kind: String,
    period_type: (String, String),
    period: i64,
    start: Nanos,
    duration: Nanos,
    metas: Vec<Meta>,
    /// The expressions of the profiles that have any: what one of them matches is left out, or kept.
    drop_frames: BTreeSet<StringId>,
    keep_frames: BTreeSet<StringId>,
    /// File and build id of the main binary of the first profile that has one.
    main: Option<(StringId, StringId)>,
    profiles: u64,
    pub(crate) values: Values,
}

/// Values of each kind by stack and set of labels.
#[derive(Default)]
pub(crate) struct Values {
    rows: HashMap<(u32, u32), u32>,
    values: Vec<i128>,
}

impl Values {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The values of a stack and a set of labels, of so many kinds, which is always the same number.
    pub(crate) fn row(&mut self, stack: u32, labels: u32, kinds: usize) -> &mut [i128] {
        let values = &mut self.values;
        let row = *self.rows.entry((stack, labels)).or_insert_with(|| {
            values.resize(values.len() + kinds, 0);
            (values.len() / kinds.max(1)) as u32 - 1
        });
        &mut self.values[row as usize * kinds..][..kinds]
    }

    /// All rows, in no order.
    pub(crate) fn iter(&self, kinds: usize) -> impl Iterator<Item = (u32, u32, &[i128])> {
        self.rows
            .iter()
            .map(move |((stack, labels), row)| (*stack, *labels, &self.values[*row as usize * kinds..][..kinds]))
    }
}

impl<'a> ProfileSum<'a> {
    /// A sum of nothing, within limits; adding ends with [`Error::Stopped`] once it is not needed any more.
    pub fn new(limits: ReadLimits, is_stopped: &'a dyn Fn() -> bool) -> ProfileSum<'a> {
        ProfileSum {
            limits,
            is_stopped,
            frames: Frames::default(),
            stacks: StackTree::default(),
            label_sets: LabelSets::default(),
            kinds: Vec::new(),
            shown_kind: String::new(),
            period_type: Default::default(),
            period: 0,
            start: Nanos(0),
            duration: Nanos(0),
            metas: Vec::new(),
            drop_frames: BTreeSet::new(),
            keep_frames: BTreeSet::new(),
            main: None,
            profiles: 0,
            values: Values::default(),
        }
    }

    /// The number of profiles in it.
    pub fn profiles(&self) -> u64 {
        self.profiles
    }

    /// Adds a profile that is in no archive.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if its sample types differ from those before, [`Error::Profile`] when its values cannot
    /// be estimated, [`Error::TooLarge`] when the sum exceeds the limits.
    pub fn add(&mut self, identity: Identity, profile: Profile) -> Result<()> {
        let id = identity.id;
        let profile =
            profile.adjusted(procprof_profile::Grammar::Pprof).map_err(|source| Error::Profile { id, source })?;
        let header = Header::new(identity, &profile);
        self.add_headers([&header].into_iter())?;
        let place = |kind: &str| self.kinds.iter().position(|(known, _)| known == kind);
        let places: Vec<Option<usize>> = header.totals.iter().map(|total| place(&total.kind)).collect();
        let kinds = self.kinds.len();
        let values = &mut self.values;
        let add = |kind: usize, stack, labels, value: i64| {
            // All kinds are known, since the headers were added.
            if let Some(place) = places.get(kind).copied().flatten() {
                values.row(stack, labels, kinds)[place] += i128::from(value);
            }
        };
        each_value(&mut self.frames, &mut self.stacks, &mut self.label_sets, &profile, add)?;
        self.check()
    }

    /// Checks the limits.
    pub(crate) fn check(&self) -> Result<()> {
        check_size("stacks of a sum", self.stacks.len(), self.limits.stacks)?;
        check_size("stacks with labels of a sum", self.values.len(), self.limits.stacks)?;
        check_size("bytes of texts of a sum", self.frames.text_bytes(), self.limits.text_bytes)?;
        self.go_on()
    }

    pub(crate) fn go_on(&self) -> Result<()> {
        if (self.is_stopped)() { Err(Error::Stopped) } else { Ok(()) }
    }

    pub(crate) fn add_headers<'h>(&mut self, headers: impl Iterator<Item = &'h Header>) -> Result<()> {
        for header in headers {
            let kinds = || header.totals.iter().map(|total| (total.kind.clone(), total.unit.clone()));
            if self.metas.is_empty() {
                self.kinds = kinds().collect();
                self.shown_kind = header.shown_kind.clone();
                self.period_type = header.period_type.clone();
                self.start = header.identity.start;
            }
            let is_same = self.kinds.len() == header.totals.len() && kinds().all(|kind| self.kinds.contains(&kind));
            if !is_same {
                let (mine, its): (BTreeSet<_>, BTreeSet<_>) = (self.kinds.iter().cloned().collect(), kinds().collect());
                return Err(Error::Incompatible { one: shown(&mine), other: shown(&its) });
            }
            self.add_frame_facts(&header.frames)?;
            self.start = self.start.min(header.identity.start);
            self.duration = Nanos(self.duration.0.saturating_add(header.identity.duration.0));
            self.period = self.period.max(header.period);
            self.metas.push(header.meta.clone());
            self.profiles += header.profiles;
        }
        // One is enough of those that are known to be summed.
        if self.metas.len() > 1 {
            self.metas = vec![Meta::merged(&self.metas)];
        }
        Ok(())
    }

    /// As sums of pprof files have it ([`procprof_profile::merge`]).
    fn add_frame_facts(&mut self, facts: &FrameFacts) -> Result<()> {
        for (own, text) in [(&mut self.drop_frames, &facts.drop_frames), (&mut self.keep_frames, &facts.keep_frames)] {
            if !text.is_empty() {
                own.insert(self.frames.intern(text)?);
            }
        }
        if self.main.is_none() && !facts.main.is_empty() {
            self.main = Some((self.frames.intern(&facts.main)?, self.frames.intern(&facts.main_build_id)?));
        }
        Ok(())
    }

    /// The sum; `None` if there are no profiles in it.
    ///
    /// # Errors
    /// [`Error::Sum`] if no profile can hold it.
    pub fn finish(self) -> Result<Option<Merged>> {
        if self.metas.is_empty() {
            return Ok(None);
        }
        let types: Vec<(&str, &str)> = self.kinds.iter().map(|(kind, unit)| (kind.as_str(), unit.as_str())).collect();
        let mut builder = ProfileBuilder::new(&types);
        builder.default_sample_type(&self.shown_kind);
        builder.time(self.start, self.duration);
        builder.period(&self.period_type.0, &self.period_type.1, self.period);
        for fact in Meta::merged(&self.metas).to_comments() {
            builder.comment(&fact);
        }
        let either = |texts: &BTreeSet<StringId>| {
            let texts: BTreeSet<&str> = texts.iter().map(|text| self.frames.text(*text)).collect();
            texts.into_iter().collect::<Vec<_>>().join("|")
        };
        let [drop_frames, keep_frames] =
            [&self.drop_frames, &self.keep_frames].map(|texts| builder.intern(&either(texts)));
        let parts = builder.parts_mut();
        (parts.drop_frames, parts.keep_frames) = (drop_frames, keep_frames);
        let mut locations = Locations::default();
        // Readers take the first mapping for the main binary.
        if let Some(main) = self.main {
            locations.mapping(&self, main, &mut builder);
        }
        let mut samples: Vec<_> = self.values.iter(self.kinds.len()).collect();
        samples.sort_unstable_by_key(|(stack, labels, _)| (*stack, *labels));
        for (stack, set, values) in samples {
            let values: Vec<i64> = values.iter().map(|value| clamped(*value)).collect();
            if values.iter().all(|value| *value == 0) {
                continue;
            }
            let stack = locations.stack(&self, stack, &mut builder);
            let labels = self.labels(set, &mut builder);
            builder.sample(&stack, &values, &labels);
        }
        let profile = builder.finish().map_err(Error::Sum)?;
        Ok(Some(Merged { profile, profiles: self.profiles }))
    }

    fn labels(&self, set: u32, builder: &mut ProfileBuilder) -> Vec<Label> {
        let label = |(key, text, number, unit): &LabelRow| {
            let key = self.frames.text(*key);
            match (text, number) {
                (Some(text), _) => builder.text_label(key, self.frames.text(*text)),
                (None, number) => builder.number_label(key, number.unwrap_or_default(), self.frames.text(*unit)),
            }
        };
        self.label_sets.get(set).iter().map(label).collect()
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
    fn stack(&mut self, sum: &ProfileSum<'_>, stack: u32, builder: &mut ProfileBuilder) -> Vec<LocationId> {
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

    fn location(&mut self, sum: &ProfileSum<'_>, frames: Vec<u32>, builder: &mut ProfileBuilder) -> LocationId {
        if let Some(id) = self.ids.get(&frames) {
            return *id;
        }
        let outermost = frames.last().map(|frame| *sum.frames.get(*frame)).unwrap_or_default();
        let mapping = self.mapping(sum, (outermost.mapping, outermost.build_id), builder);
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

    /// The mapping of a file with a build id.
    fn mapping(
        &mut self,
        sum: &ProfileSum<'_>,
        (filename, build_id): (StringId, StringId),
        builder: &mut ProfileBuilder,
    ) -> Option<MappingId> {
        if filename.0 == 0 && build_id.0 == 0 {
            return None;
        }
        Some(*self.mappings.entry((filename.0, build_id.0)).or_insert_with(|| {
            let filename = builder.intern(sum.frames.text(filename));
            let build_id = builder.intern(sum.frames.text(build_id));
            let limit = Addr(u64::MAX);
            builder.mapping(Mapping { limit, file_offset: FileOffset(0), filename, build_id, ..Mapping::default() })
        }))
    }
}

fn line(sum: &ProfileSum<'_>, frame: &Frame, builder: &mut ProfileBuilder) -> Line {
    let name = builder.intern(sum.frames.text(frame.function));
    let system_name = builder.intern(sum.frames.text(frame.system_name));
    let filename = builder.intern(sum.frames.text(frame.file));
    let function = builder.function(Function { name, system_name, filename, start_line: frame.start_line });
    Line { function, line: frame.line, column: frame.column }
}
