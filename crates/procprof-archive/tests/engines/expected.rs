//! The rows that the statements of `docs/engines.md` must find, made from the profiles without the archive.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use procprof_profile::{LocationId, Profile};

use super::made::Made;

/// A row, as texts.
pub(super) type Row = Vec<String>;
/// The rows that the profiles have.
type Expectation = fn(&[Made]) -> Vec<Row>;

const FROM: &str = "2026-11-18";
const LAST: &str = "2026-11-24";
const SERVER: &str = "/opt/starrocks/be/lib/starrocks_be";

/// The statements in their order.
pub(super) const ALL: &[Expectation] =
    &[top_functions, slower_builds, queries, growth, holders, timeline, waits, allocations, unnamed, coverage];

/// A function or address on a stack.
#[derive(Clone, Debug)]
struct Frame {
    name: String,
    is_named: bool,
    file: String,
    line: i64,
    mapping: String,
    build_id: String,
}

/// A value of a sample with its stack, root first.
struct Value<'a> {
    of: &'a Made,
    stack: Vec<Frame>,
    labels: BTreeMap<String, String>,
    value: i64,
}

fn date(made: &Made) -> String {
    Timestamp::from_second(seconds(made)).unwrap().strftime("%F").to_string()
}

fn seconds(made: &Made) -> i64 {
    made.identity.completed.0 / 1_000_000_000
}

fn is_since(made: &Made) -> bool {
    date(made).as_str() >= FROM
}

/// The values of a kind of all profiles of a type.
fn values<'a>(made: &'a [Made], profile_type: &str, kind: &str) -> Vec<Value<'a>> {
    let of_type = made.iter().filter(|one| one.identity.profile_type.name() == profile_type && is_since(one));
    of_type.flat_map(|one| values_of(one, kind)).collect()
}

fn values_of<'a>(of: &'a Made, kind: &str) -> Vec<Value<'a>> {
    let profile = &of.profile;
    let at = profile.sample_type_index(kind).unwrap();
    let labels = |sample: &procprof_profile::Sample<'_>| {
        let texts = sample.labels.iter().filter_map(|label| match label.value {
            procprof_profile::LabelValue::Text(text) => {
                Some((profile.string(label.key).to_owned(), profile.string(text).to_owned()))
            }
            procprof_profile::LabelValue::Number(..) => None,
        });
        texts.collect()
    };
    let samples = profile.samples().filter(|sample| sample.values[at] != 0);
    samples
        .map(|sample| Value {
            of,
            stack: sample.stack.iter().rev().flat_map(|id| frames(profile, *id)).collect(),
            labels: labels(&sample),
            value: sample.values[at],
        })
        .collect()
}

/// The frames of a location, from the caller to the innermost inlined call.
fn frames(profile: &Profile, id: LocationId) -> Vec<Frame> {
    let location = profile.location(id);
    let mapping = location.mapping.map(|id| *profile.mapping(id));
    let address = location.address.0;
    let offset = match mapping {
        Some(mapping) if (mapping.start.0..mapping.limit.0).contains(&address) => {
            address - mapping.start.0 + mapping.file_offset.0
        }
        _ => address,
    };
    let mapping = mapping.unwrap_or_default();
    let (file, build_id) = (profile.string(mapping.filename).to_owned(), profile.string(mapping.build_id).to_owned());
    let frame = |name: &str, source: &str, line| Frame {
        name: if name.is_empty() { format!("{file}+0x{offset:x}") } else { name.to_owned() },
        is_named: !name.is_empty(),
        file: source.to_owned(),
        line,
        mapping: file.clone(),
        build_id: build_id.clone(),
    };
    let lines = profile.lines(id);
    if lines.is_empty() {
        return vec![frame("", "", 0)];
    }
    let named = lines.iter().rev().map(|line| {
        let function = profile.function(line.function);
        frame(profile.string(function.name), profile.string(function.filename), line.line)
    });
    named.collect()
}

impl Value<'_> {
    fn leaf(&self) -> &Frame {
        self.stack.last().unwrap()
    }

    fn has(&self, function: &str) -> bool {
        self.stack.iter().any(|frame| frame.name == function)
    }

    /// The functions of the stack, each once.
    fn functions(&self) -> BTreeSet<&str> {
        self.stack.iter().map(|frame| frame.name.as_str()).collect()
    }
}

fn texts<const N: usize>(cells: [&dyn ToString; N]) -> Row {
    cells.map(|cell| cell.to_string()).into()
}

fn percent(value: i64, of: i64) -> f64 {
    value as f64 * 100.0 / of as f64
}

fn float(value: f64) -> String {
    format!("{value:?}")
}

fn top_functions(made: &[Made]) -> Vec<Row> {
    let mut found: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for value in values(made, "cpu", "cpu").iter().filter(|value| date(value.of).as_str() <= LAST) {
        found.entry(value.leaf().name.clone()).or_default().0 += value.value;
        for name in value.functions() {
            found.entry(name.to_owned()).or_default().1 += value.value;
        }
    }
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by_key(|(name, (own, total))| (-own, -total, name.clone()));
    rows.truncate(30);
    rows.iter().map(|(name, (own, total))| texts([name, own, total])).collect()
}

fn slower_builds(made: &[Made]) -> Vec<Row> {
    let builds = ["aaaa1111", "bbbb2222"];
    let mut totals = [0; 2];
    let mut found: BTreeMap<String, [i64; 2]> = BTreeMap::new();
    for one in made.iter().filter(|one| one.identity.profile_type.name() == "cpu" && is_since(one)) {
        let values = values_of(one, "cpu");
        let is_of = |build: &str| {
            values.iter().any(|value| {
                let leaf = value.leaf();
                leaf.mapping == SERVER && leaf.build_id == build
            })
        };
        let Some(build) = builds.iter().position(|build| is_of(build)) else { continue };
        for value in &values {
            totals[build] += value.value;
            for name in value.functions() {
                found.entry(name.to_owned()).or_default()[build] += value.value;
            }
        }
    }
    let percents = |values: &[i64; 2]| [0, 1].map(|at| percent(values[at], totals[at]));
    let mut rows: Vec<(String, [f64; 2])> =
        found.iter().map(|(name, values)| (name.clone(), percents(values))).collect();
    rows.sort_by(|(name, one), (other_name, other)| {
        (other[1] - other[0]).total_cmp(&(one[1] - one[0])).then_with(|| name.cmp(other_name))
    });
    rows.truncate(30);
    rows.into_iter().map(|(name, percents)| vec![name, float(percents[0]), float(percents[1])]).collect()
}

fn queries(made: &[Made]) -> Vec<Row> {
    let mut found: BTreeMap<String, (i64, BTreeSet<String>)> = BTreeMap::new();
    for value in values(made, "cpu", "cpu").iter().filter(|value| date(value.of) == LAST) {
        if let Some(query) = value.labels.get("query_id") {
            let (sum, profiles) = found.entry(query.clone()).or_default();
            *sum += value.value;
            profiles.insert(value.of.identity.id.to_string());
        }
    }
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by_key(|(query, (sum, _))| (-sum, query.clone()));
    rows.iter().map(|(query, (sum, profiles))| texts([query, sum, &profiles.len()])).collect()
}

fn growth(made: &[Made]) -> Vec<Row> {
    let mut found: BTreeMap<(String, String), Vec<i64>> = BTreeMap::new();
    for one in made.iter().filter(|one| one.identity.profile_type.name() == "heap" && is_since(one)) {
        let values = values_of(one, "inuse_space");
        let is_path =
            |stack: &[Frame]| stack.windows(2).any(|pair| pair[0].name == "execute" && pair[1].name == "hash_join");
        let bytes = values.iter().filter(|value| is_path(&value.stack)).map(|value| value.value).sum();
        found.entry((one.meta.node_name.clone(), date(one))).or_default().push(bytes);
    }
    let row = |((node, date), bytes): (&(String, String), &Vec<i64>)| {
        let mean = float(bytes.iter().sum::<i64>() as f64 / bytes.len() as f64);
        texts([node, date, bytes.iter().min().unwrap(), &mean, bytes.iter().max().unwrap()])
    };
    found.iter().map(row).collect()
}

fn holders(made: &[Made]) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in made.iter().filter(|one| one.identity.profile_type.name() == "cpu" && date(one) == LAST) {
        let values = values_of(one, "cpu");
        let total: i64 = values.iter().map(|value| value.value).sum();
        let held: i64 = values.iter().filter(|value| value.has("aggregate")).map(|value| value.value).sum();
        if held * 20 > total {
            rows.push((one, held, percent(held, total)));
        }
    }
    rows.sort_by(|(one, _, percent), (other, _, other_percent)| {
        let id = |made: &Made| made.identity.id.to_string();
        other_percent.total_cmp(percent).then_with(|| id(one).cmp(&id(other)))
    });
    rows.iter()
        .map(|(one, held, percent)| {
            texts([&one.identity.id, &one.meta.node_name, &seconds(one), held, &float(*percent)])
        })
        .collect()
}

fn timeline(made: &[Made]) -> Vec<Row> {
    let mut found: BTreeMap<(String, i64, String), i64> = BTreeMap::new();
    for value in values(made, "cpu", "cpu").iter().filter(|value| value.has("scan")) {
        let hour = seconds(value.of) / 3600 % 24;
        *found.entry((date(value.of), hour, value.of.meta.node_name.clone())).or_default() += value.value;
    }
    found.iter().map(|((date, hour, node), sum)| texts([date, hour, node, sum])).collect()
}

fn waits(made: &[Made]) -> Vec<Row> {
    let mut found: BTreeMap<(String, String), i64> = BTreeMap::new();
    for value in values(made, "contention", "delay") {
        let caller = value.stack.iter().rev().nth(1).map(|frame| frame.name.clone()).unwrap_or_default();
        *found.entry((caller, value.leaf().name.clone())).or_default() += value.value;
    }
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by_key(|(names, sum)| (-sum, names.clone()));
    rows.iter().map(|((caller, lock), sum)| texts([caller, lock, sum])).collect()
}

fn allocations(made: &[Made]) -> Vec<Row> {
    let mut found: BTreeMap<String, BTreeMap<(String, String, i64), i64>> = BTreeMap::new();
    let of_node = values(made, "alloc", "alloc_space");
    for value in of_node.iter().filter(|value| value.of.meta.node_name == "be1" && value.leaf().name == "malloc") {
        let caller = value.stack.iter().rev().nth(1).unwrap();
        let place = (caller.name.clone(), caller.file.clone(), caller.line);
        *found.entry(date(value.of)).or_default().entry(place).or_default() += value.value;
    }
    let mut rows = Vec::new();
    for (date, places) in found {
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by_key(|(place, bytes)| (-bytes, place.clone()));
        let numbered = places.iter().take(10).zip(1..);
        rows.extend(
            numbered.map(|(((name, file, line), bytes), place)| texts([&date, &place, name, file, line, bytes])),
        );
    }
    rows
}

fn unnamed(made: &[Made]) -> Vec<Row> {
    let mut found: BTreeMap<(String, String), (i64, i64)> = BTreeMap::new();
    for value in values(made, "cpu", "cpu") {
        let leaf = value.leaf();
        let sums = found.entry((leaf.mapping.clone(), leaf.build_id.clone())).or_default();
        sums.0 += if leaf.is_named { 0 } else { value.value };
        sums.1 += value.value;
    }
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by_key(|(binary, (unnamed, _))| (-unnamed, binary.clone()));
    rows.iter().map(|((mapping, build), (unnamed, all))| texts([mapping, build, unnamed, all])).collect()
}

fn coverage(made: &[Made]) -> Vec<Row> {
    #[derive(Default)]
    struct Covered {
        profiles: u64,
        nanos: i64,
        gap: i64,
        lost: u64,
    }
    let mut found: BTreeMap<(String, String, String, String), Covered> = BTreeMap::new();
    let mut before: BTreeMap<(String, String, String), i64> = BTreeMap::new();
    let mut sorted: Vec<&Made> = made.iter().filter(|one| is_since(one)).collect();
    sorted.sort_by_key(|one| seconds(one));
    for one in sorted {
        let (cluster, node) = (one.meta.cluster.clone(), one.meta.node_name.clone());
        let profile_type = one.identity.profile_type.name().to_owned();
        let last = before.insert((cluster.clone(), node.clone(), profile_type.clone()), seconds(one));
        let covered = found.entry((cluster, node, profile_type, date(one))).or_default();
        covered.profiles += 1;
        covered.nanos += one.identity.duration.0;
        covered.gap = covered.gap.max(seconds(one) - last.unwrap_or(seconds(one)));
        covered.lost += one.meta.lost.unwrap_or_default();
    }
    let rows = found.iter().map(|((cluster, node, kind, date), covered)| {
        texts([cluster, node, kind, date, &covered.profiles, &covered.nanos, &covered.gap, &covered.lost])
    });
    rows.collect()
}
