//! The summary of a profile in lists, computed once: totals, threads, top functions, and a thumbnail of the flame
//! graph; and what all its functions take. Like the reports, they leave out waits of a JVM that are not for locks, and
//! the last three leave out allocator frames at the leaf.

use std::borrow::Cow;

use foldhash::{HashMap, HashSet};
use procprof_profile::{FunctionId, LabelValue, LocationId, Profile};
use procprof_report::frames_at;
use procprof_store::{FunctionTable, FunctionValues, Summary, TopFunction, Total};

use super::thumbnail;

const TOP: usize = 10;
/// The function of addresses without a name.
const UNKNOWN: &str = "[unknown]";

/// The summary of an adjusted and, as far as it goes, symbolized profile, and what its functions take.
pub(crate) fn summarize(profile: &Profile) -> (Summary, FunctionTable) {
    // A profile whose frames can't be left out is summed up with them.
    let shown = procprof_report::shown_by_default(profile).unwrap_or(Cow::Borrowed(profile));
    let totals = (0..shown.sample_types().len()).map(|index| {
        let (kind, unit) = shown.sample_type(index);
        Total { kind: kind.to_owned(), unit: unit.to_owned(), value: shown.total(index) }
    });
    let summary = Summary {
        totals: totals.collect(),
        samples: profile.sample_count() as u64,
        threads: threads(profile),
        top: top(&shown),
        thumbnail: thumbnail::draw(&shown),
    };
    (summary, functions_of(&shown))
}

/// What the functions of an adjusted profile take, of its default sample type.
pub(crate) fn functions(profile: &Profile) -> FunctionTable {
    functions_of(&procprof_report::shown_by_default(profile).unwrap_or(Cow::Borrowed(profile)))
}

fn functions_of(profile: &Profile) -> FunctionTable {
    let column = profile.default_sample_type();
    let names = LocationNames::new(profile);
    // With the number of the last sample that was counted, for recursions.
    let mut sums = vec![(0_i64, 0_i64, usize::MAX); names.names.len()];
    for (number, sample) in profile.samples().enumerate() {
        let value = sample.values.get(column).copied().unwrap_or(0);
        if let Some(leaf) = sample.stack.first() {
            let own = &mut sums[names.at(*leaf)[0] as usize].0;
            *own = own.saturating_add(value);
        }
        for name in sample.stack.iter().flat_map(|location| names.at(*location)) {
            let (_, total, last) = &mut sums[*name as usize];
            if *last != number {
                (*total, *last) = (total.saturating_add(value), number);
            }
        }
    }
    let used = names.names.iter().zip(sums).filter(|(_, (.., last))| *last != usize::MAX);
    let (kind, unit) = profile.sample_type(column);
    FunctionTable {
        kind: kind.to_owned(),
        unit: unit.to_owned(),
        total: profile.total(column),
        functions: used
            .map(|(name, (own, total, _))| FunctionValues { name: (*name).to_owned(), own, total })
            .collect(),
    }
}

/// The names of the functions at each location, innermost first, by their places among all.
struct LocationNames<'a> {
    names: Vec<&'a str>,
    places: Vec<u32>,
    /// The end of each location's places.
    ends: Vec<usize>,
}

impl<'a> LocationNames<'a> {
    fn new(profile: &'a Profile) -> LocationNames<'a> {
        let mut own = LocationNames { names: Vec::new(), places: Vec::new(), ends: Vec::new() };
        let mut known: HashMap<&str, u32> = HashMap::default();
        let mut place = |name: &'a str, names: &mut Vec<&'a str>| {
            *known.entry(name).or_insert_with(|| {
                names.push(name);
                (names.len() - 1) as u32
            })
        };
        let functions: Vec<u32> = (0..profile.functions().len())
            .map(|index| place(name(profile, FunctionId(index as u32)), &mut own.names))
            .collect();
        for index in 0..profile.locations().len() {
            let lines = profile.lines(LocationId(index as u32));
            own.places.extend(lines.iter().map(|line| functions[line.function.index()]));
            if lines.is_empty() {
                own.places.push(place(UNKNOWN, &mut own.names));
            }
            own.ends.push(own.places.len());
        }
        own
    }

    /// Those of a location, at least one.
    fn at(&self, location: LocationId) -> &[u32] {
        let index = location.index();
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.places[start..self.ends[index]]
    }
}

/// The number of threads that samples name by their ids; if none does, by names.
fn threads(profile: &Profile) -> u64 {
    let of = |key: &str| {
        let labels = profile.samples().flat_map(|sample| sample.labels);
        // Keys of labels are few, and their texts are compared once in a row.
        let mut last = None;
        let mut is_wanted = |id| match last {
            Some((known, is_wanted)) if known == id => is_wanted,
            _ => last.insert((id, profile.string(id) == key)).1,
        };
        let values = labels.filter(|label| is_wanted(label.key)).map(|label| match label.value {
            LabelValue::Text(text) => (Some(text), 0),
            LabelValue::Number(number, _) => (None, number),
        });
        values.collect::<HashSet<_>>().len() as u64
    };
    match of("tid") {
        0 => of("thread"),
        ids => ids,
    }
}

/// The functions of the program with the largest own values. What a runtime's function at the leaf takes is of the
/// function that calls it; where no function of the program does, of itself.
fn top(profile: &Profile) -> Vec<TopFunction> {
    let column = profile.default_sample_type();
    let program = ProgramFrames::new(profile);
    let mut functions: HashMap<(&str, bool), OwnValue<'_>> = HashMap::default();
    for sample in profile.samples() {
        let value = sample.values.get(column).copied().unwrap_or(0);
        let leaf = sample.stack.first().and_then(|leaf| leaf_name(profile, *leaf)).unwrap_or(UNKNOWN);
        let mut frames = program.of(sample.stack);
        let own = frames.next();
        let sums = functions.entry((own.unwrap_or(leaf), own.is_none())).or_default();
        sums.add(value, leaf, frames.find(|name| Some(*name) != own));
    }
    let mut rows: Vec<TopFunction> = functions
        .into_iter()
        .filter(|(_, sums)| sums.value != 0)
        .map(|((name, is_runtime), sums)| sums.finish(name, is_runtime))
        .collect();
    rows.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(TOP);
    rows
}

/// Values of a function, and what they consist of.
#[derive(Default)]
struct OwnValue<'a> {
    value: i64,
    /// The values by the functions at the leaf.
    leaves: HashMap<&'a str, i64>,
    /// The values by the functions of the program that call it.
    callers: HashMap<&'a str, i64>,
}

impl<'a> OwnValue<'a> {
    fn add(&mut self, value: i64, leaf: &'a str, caller: Option<&'a str>) {
        self.value = self.value.saturating_add(value);
        let sums = [(&mut self.leaves, Some(leaf)), (&mut self.callers, caller)];
        for (sums, name) in sums.into_iter().filter_map(|(sums, name)| Some((sums, name?))) {
            let sum = sums.entry(name).or_default();
            *sum = sum.saturating_add(value);
        }
    }

    fn finish(self, name: &str, is_runtime: bool) -> TopFunction {
        let caller = if self.callers.len() > 1 { largest(self.callers) } else { "" };
        let leaf = largest(self.leaves);
        let leaf = if leaf == name && !is_runtime { "" } else { leaf };
        TopFunction { name: name.to_owned(), value: self.value, leaf: leaf.to_owned(), caller: caller.to_owned() }
    }
}

/// The name with the largest value; of equal ones the first by name.
fn largest(values: HashMap<&str, i64>) -> &str {
    values.into_iter().max_by(|(a, x), (b, y)| x.cmp(y).then_with(|| b.cmp(a))).map_or("", |(name, _)| name)
}

/// The functions of the program at each location, innermost first: those that are no runtime's.
struct ProgramFrames<'a> {
    names: Vec<&'a str>,
    /// The end of each location's names.
    ends: Vec<usize>,
}

impl<'a> ProgramFrames<'a> {
    fn new(profile: &'a Profile) -> ProgramFrames<'a> {
        let mut own = ProgramFrames { names: Vec::new(), ends: Vec::with_capacity(profile.locations().len()) };
        for index in 0..profile.locations().len() {
            let frames = frames_at(profile, LocationId(index as u32));
            own.names.extend(frames.filter(|(_, is_runtime)| !is_runtime).map(|(name, _)| name));
            own.ends.push(own.names.len());
        }
        own
    }

    fn at(&self, location: LocationId) -> &[&'a str] {
        let index = location.index();
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.names[start..self.ends[index]]
    }

    /// The functions of the program in a stack, innermost first.
    fn of(&self, stack: &[LocationId]) -> impl Iterator<Item = &'a str> {
        stack.iter().flat_map(|location| self.at(*location)).copied()
    }
}

/// The innermost function at a location.
fn leaf_name(profile: &Profile, location: LocationId) -> Option<&str> {
    profile.lines(location).first().map(|line| name(profile, line.function))
}

/// A function's name.
pub(crate) fn name(profile: &Profile, function: FunctionId) -> &str {
    profile.string(profile.function(function).name)
}
