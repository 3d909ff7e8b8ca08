//! The rows of `timeline()`: values of profiles by time, from the catalog, from the headers of archived profiles and
//! from what other servers say of those that they have not archived yet.
//!
//! No file is decoded. A timeline that is split by functions has those of the table `functions`, and adds up the
//! samples of profiles that only the archive has. Values of profiles whose functions are not known, such as those of
//! other servers, are among the others, and a warning counts them.

mod arguments;
mod functions;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use procprof_core::archiving::Grain;
use procprof_core::render::{KnownProfiles, ProfileRange, RangeProfile};
use procprof_profile::{Nanos, ProfileId, ProfileType};
use procprof_store::{Column, Order, PageRequest, RowBatch, RowQuery, Uncovered, Values};
use serde::Deserialize;

use arguments::{Buckets, Split, width};

use super::computed::StatementContext;
use super::moment::moment_text;
use super::periods::{PeriodCall, cut, text};
use super::tables::TableRows;
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// Most rows: buckets times series.
const ROWS_MAX: usize = 200_000;
/// Series unless told otherwise, and most of them; the others are added up.
const SERIES: usize = 50;
const SERIES_MAX: usize = 1000;
/// Most profiles of a timeline.
const PROFILES_MAX: usize = 1 << 20;
/// Rows of the catalog that are read at a time.
const ROWS: usize = 4096;
/// The name of what is no series of its own.
const OTHERS: &str = "[others]";
const SECOND: i64 = 1_000_000_000;

pub(super) fn timeline(statement: &StatementContext, parameters: &[Value]) -> Result<TableRows, SqlError> {
    let [nodes, profile_type, from, to, bucket, split, only, most] = parameters else { return Ok(Vec::new()) };
    let call = PeriodCall { statement, name: "timeline" };
    let now = procprof_core::clock::now();
    let end = call.moment(to)?.map_or_else(|| Value::Integer(now.0 / SECOND + 1), |_| to.clone());
    let range = call.range(nodes, profile_type, [from, &end])?;
    let buckets = Buckets::new(&call, &range, width(&call, bucket)?)?;
    let split = Split::parse(&call, &text(split))?;
    let most = match most {
        Value::Null => SERIES,
        other => match text(other).parse() {
            Ok(most) if (1..=SERIES_MAX).contains(&most) => most,
            _ => return Err(call.wrong(format!("series: '{}' is no number from 1 to {SERIES_MAX}", cut(&text(other))))),
        },
    };
    let only = Some(text(only)).filter(|only| !only.is_empty());
    let mut found = Found {
        call,
        range,
        buckets,
        split,
        kind: None,
        cells: HashMap::new(),
        profiles: 0,
        known: KnownProfiles::default(),
        archived: 0,
    };
    let elsewhere = found.elsewhere()?;
    elsewhere.iter().for_each(|profile| found.known.compare(profile.completed));
    found.find_kind(only.as_deref(), &elsewhere)?;
    found.read(elsewhere)?;
    if found.profiles == 0 {
        call.nothing_found(&found.range);
    }
    found.rows(most)
}

/// A sum of a profile as the catalog has it.
#[derive(Deserialize)]
struct Sum<'t> {
    #[serde(borrow)]
    kind: Cow<'t, str>,
    #[serde(borrow)]
    unit: Cow<'t, str>,
    value: i64,
}

/// A bucket of a series.
#[derive(Clone, Copy, Default)]
struct Cell {
    value: i128,
    /// With callees, of a function.
    total: i128,
    profiles: u64,
    archived: u64,
    nanos: i128,
}

impl Cell {
    fn add(&mut self, other: Cell) {
        self.value += other.value;
        self.total += other.total;
        self.profiles += other.profiles;
        self.archived += other.archived;
        self.nanos += other.nanos;
    }
}

/// The name of a series; `None` for all, and for profiles without the label.
type Series = Option<String>;

/// What is found for a timeline.
struct Found<'a> {
    call: PeriodCall<'a>,
    range: ProfileRange,
    buckets: Buckets,
    split: Split,
    /// The sample type, and its unit; `None` if there is no profile.
    kind: Option<(String, String)>,
    cells: HashMap<Series, BTreeMap<u32, Cell>>,
    profiles: usize,
    /// Those of the store, where there is an archive.
    known: KnownProfiles,
    /// How many only the archive has.
    archived: u64,
}

impl Found<'_> {
    /// Finds the sample type: the one of that name, or the one that the newest profile shows.
    fn find_kind(&mut self, only: Option<&str>, elsewhere: &[RangeProfile]) -> Result<(), SqlError> {
        let (call, store) = (self.call, &self.call.statement.server()?.store);
        let newest = store.list(&self.range.filter(), &PageRequest::first(1)).map_err(|error| self.stored(&error))?;
        let (totals, shown) = match newest.rows.first() {
            Some(entry) => {
                let shown = entry.summary.shown(&entry.meta).map(|total| total.kind.clone());
                (entry.summary.totals.clone(), shown)
            }
            None => match self
                .archived(&KnownProfiles::default(), Grain::Hour)?
                .iter()
                .chain(elsewhere)
                .max_by_key(|profile| profile.completed)
            {
                Some(profile) => (profile.totals.clone(), Some(profile.shown.clone())),
                None => return Ok(()),
            },
        };
        let wanted = only.or(shown.as_deref()).unwrap_or_default();
        let Some(total) = totals.iter().find(|total| total.kind == wanted) else {
            let known: Vec<&str> = totals.iter().map(|total| total.kind.as_str()).collect();
            return Err(call.wrong(format!("no sample type '{}'; there are {}", cut(wanted), known.join(", "))));
        };
        if self.split.is_of_functions() && shown.as_deref() != Some(wanted) {
            let shown = shown.unwrap_or_default();
            return Err(call.wrong(format!("functions are known of the default sample type, {shown}, and of no other")));
        }
        self.kind = Some((total.kind.clone(), total.unit.clone()));
        Ok(())
    }

    /// Whether it is the sample type.
    fn is_kind(&self, kind: &str, unit: &str) -> bool {
        self.kind.as_ref().is_some_and(|(own, own_unit)| own == kind && own_unit == unit)
    }

    fn stored(&self, error: &procprof_store::Error) -> SqlError {
        SqlError::new(SqlErrorKind::Other, format!("{}: {error}", self.call.name))
    }

    /// Adds a profile.
    fn add(&mut self, series: Series, completed: i64, cell: Cell) -> Result<(), SqlError> {
        self.profiles += 1;
        if self.profiles > PROFILES_MAX {
            return Err(self.call.limit(format!("more than {PROFILES_MAX} profiles; choose a shorter period")));
        }
        let bucket = self.buckets.of(completed);
        self.cells.entry(series).or_default().entry(bucket).or_default().add(cell);
        Ok(())
    }

    /// Reads all profiles, and what their functions take.
    fn read(&mut self, elsewhere: Vec<RangeProfile>) -> Result<(), SqlError> {
        let lacking = self.read_stored()? + self.read_others(elsewhere)?;
        if lacking > 0 {
            let count = lacking;
            let (kind, unit) = self.kind.as_ref().map_or(("", ""), |(kind, unit)| (kind, unit));
            self.call.warn(format!("{count} profiles without the sample type {kind} in {unit} are not counted"));
        }
        if !self.split.is_of_functions() {
            return Ok(());
        }
        let store = &self.call.statement.server()?.store;
        let uncovered = store.uncovered(&self.range.filter(), None).map_err(|error| self.stored(&error))?;
        let Uncovered { waiting, unreadable, too_many } = uncovered;
        for (count, why) in [
            (waiting, "whose functions are still being read"),
            (unreadable, "whose functions cannot be read"),
            (too_many, "whose functions are too many"),
        ] {
            if count > 0 {
                self.call.warn(format!("{count} profiles are among '{OTHERS}', {why}"));
            }
        }
        Ok(())
    }

    /// Adds the profiles of the store. Returns how many lack the sample type.
    fn read_stored(&mut self) -> Result<u64, SqlError> {
        let sql = self.call.statement.server()?;
        let of_series = match self.split {
            Split::Node => Column::Node,
            Split::Cluster => Column::Cluster,
            Split::Label(_) => Column::Labels,
            _ => Column::Type,
        };
        let columns = vec![Column::Id, Column::Completed, Column::Duration, Column::Totals, of_series];
        let query = RowQuery { filter: self.range.filter(), columns, order: Order::Any };
        let mut rows = sql.store.rows(&query).map_err(|error| self.stored(&error))?;
        let mut lacking = 0;
        while let Some(RowBatch { columns, rows: count }) = rows.next(ROWS).map_err(|error| self.stored(&error))? {
            self.call.statement.go_on()?;
            let [
                Values::Ids(ids),
                Values::Integers(completed),
                Values::Integers(durations),
                Values::Texts(totals),
                own,
            ] = columns.as_slice()
            else {
                continue;
            };
            if sql.renderer.has_archive() {
                ids.iter().zip(completed).for_each(|(id, moment)| self.known.insert(*id, Nanos(*moment)));
            }
            for row in 0..count {
                let totals: Vec<Sum<'_>> = serde_json::from_str(totals.get(row).unwrap_or("[]")).unwrap_or_default();
                let Some(total) = totals.iter().find(|total| self.is_kind(&total.kind, &total.unit)) else {
                    // Pages that were made elsewhere have no values at all.
                    lacking += u64::from(!totals.is_empty());
                    continue;
                };
                let series = match (&self.split, own) {
                    (Split::Node, Values::Integers(nodes)) => Some(self.node_name(nodes[row].cast_unsigned())),
                    (Split::Cluster, Values::Texts(clusters)) => clusters.get(row).map(str::to_owned),
                    (Split::Label(key), Values::Texts(labels)) => label(labels.get(row).unwrap_or_default(), key),
                    _ => None,
                };
                let (value, nanos) = (total.value.into(), durations[row].max(0).into());
                self.add(series, completed[row], Cell { value, nanos, profiles: 1, ..Cell::default() })?;
            }
        }
        Ok(lacking)
    }

    /// Adds the profiles that the store has not: those of the archive, and what other servers have and the archive has
    /// not. Returns how many lack the sample type.
    fn read_others(&mut self, mut elsewhere: Vec<RangeProfile>) -> Result<u64, SqlError> {
        let archived = self.archived(&self.known, self.buckets.grain())?;
        let archived_ids: HashSet<ProfileId> = archived.iter().map(|profile| profile.id).collect();
        elsewhere.retain(|profile| !self.known.contains(profile.id) && !archived_ids.contains(&profile.id));
        if self.split.is_of_functions() && !elsewhere.is_empty() {
            let count = elsewhere.len();
            self.call.warn(format!("{count} profiles that only other servers have are among '{OTHERS}'"));
        }
        let mut lacking = 0;
        let others = elsewhere.into_iter().map(|profile| (profile, 0));
        let counted = |profile: RangeProfile| {
            let count = profile.profiles;
            (profile, count)
        };
        for (profile, archived) in archived.into_iter().map(counted).chain(others) {
            let total = profile.totals.iter().find(|total| self.is_kind(&total.kind, &total.unit));
            let Some(total) = total else {
                lacking += profile.profiles;
                continue;
            };
            let series = match &self.split {
                Split::Node => Some(profile.node_name),
                Split::Cluster => Some(profile.cluster),
                Split::Label(key) => profile.labels.get(key).cloned(),
                _ => None,
            };
            let cell = Cell {
                value: total.value.into(),
                nanos: profile.duration.0.max(0).into(),
                profiles: profile.profiles,
                archived,
                ..Cell::default()
            };
            self.add(series, profile.completed.0, cell)?;
            self.archived += archived;
        }
        Ok(lacking)
    }

    /// The profiles that other servers have and have not archived yet.
    fn elsewhere(&self) -> Result<Vec<RangeProfile>, SqlError> {
        let found = self.call.statement.server()?.renderer.profiles_elsewhere(&self.range);
        self.call.silent(&found.missing);
        Ok(found.profiles)
    }

    /// The profiles that only the archive has, or hours of nodes.
    fn archived(&self, known: &KnownProfiles, grain: Grain) -> Result<Vec<RangeProfile>, SqlError> {
        let call = self.call;
        let renderer = &call.statement.server()?.renderer;
        let found = renderer.archived_profiles(&self.range, known, grain, &|| call.go_on());
        let found = found.map_err(|error| call.failed(&error))?;
        call.unreadable(&found.missing);
        Ok(found.profiles)
    }

    fn node_name(&self, id: u64) -> String {
        let node = self.call.statement.server().ok().and_then(|sql| sql.registry.by_id(id));
        node.map_or_else(|| id.to_string(), |node| node.name().to_owned())
    }

    /// The rows, with the largest series first in each bucket.
    fn rows(mut self, most: usize) -> Result<TableRows, SqlError> {
        if self.split.is_of_functions() {
            self.split_by_functions(most)?;
        }
        let mut sums: Vec<(i128, Series)> = Vec::new();
        for (series, cells) in &self.cells {
            sums.push((cells.values().map(|cell| cell.value).sum(), series.clone()));
        }
        let is_others = |series: &Series| series.as_deref() == Some(OTHERS);
        sums.sort_by(|(left, one), (right, other)| {
            is_others(one).cmp(&is_others(other)).then(right.cmp(left)).then(one.cmp(other))
        });
        let mut series: Vec<Series> = sums.into_iter().map(|(_, series)| series).collect();
        if series.is_empty() {
            series.push(None);
        }
        if !self.split.is_of_functions() && series.len() > most {
            let (all, rest) = (series.len(), series.split_off(most));
            self.call.warn(format!("{} of {all} series are added up as '{OTHERS}'", rest.len()));
            for series in rest {
                for (bucket, cell) in self.cells.remove(&series).unwrap_or_default() {
                    self.cells.entry(Some(OTHERS.to_owned())).or_default().entry(bucket).or_default().add(cell);
                }
            }
            series.push(Some(OTHERS.to_owned()));
        }
        if self.buckets.count * series.len() > ROWS_MAX {
            return Err(self.call.limit(format!(
                "{} buckets of {} series are more than {ROWS_MAX} rows; choose longer buckets or fewer series",
                self.buckets.count,
                series.len()
            )));
        }
        let mut rows = Vec::with_capacity(self.buckets.count * series.len());
        for bucket in 0..self.buckets.count {
            for series in &series {
                let cell = self.cells.get(series).and_then(|cells| cells.get(&(bucket as u32)));
                rows.push(self.row(bucket, series, &cell.copied().unwrap_or_default()));
            }
        }
        Ok(rows)
    }

    fn row(&self, bucket: usize, series: &Series, cell: &Cell) -> Vec<Value> {
        let start = self.buckets.start + bucket as i64 * self.buckets.width;
        let seconds = cell.nanos as f64 / SECOND as f64;
        let text = |text: Option<&String>| text.map_or(Value::Null, |text| text.as_str().into());
        let ratio = |divisor: f64| match divisor > 0.0 {
            true => Value::Real(cell.value as f64 / divisor),
            false => Value::Null,
        };
        let (kind, unit) = self.kind.as_ref().map_or((None, None), |(kind, unit)| (Some(kind), Some(unit)));
        let is_function = self.split.is_of_functions() && series.as_deref() != Some(OTHERS);
        // What is there at a moment has no rate, however long it took to look at it.
        let is_moment = |kind: &ProfileType| {
            matches!(kind, ProfileType::Heap | ProfileType::Goroutine | ProfileType::GoroutineLeak)
        };
        let has_rate = !is_moment(&self.range.profile_type);
        vec![
            moment_text(start.div_euclid(1000), 3).into(),
            text(series.as_ref()),
            text(kind),
            text(unit),
            whole(cell.value),
            if is_function { whole(cell.total) } else { Value::Null },
            if has_rate { ratio(seconds) } else { Value::Null },
            ratio(cell.profiles as f64),
            Value::Integer(cell.profiles as i64),
            Value::Real(seconds),
            Value::Integer(cell.archived as i64),
        ]
    }
}

/// The value of a label among lines of `key=value`.
fn label(lines: &str, key: &str) -> Option<String> {
    let labels = lines.split('\n').filter_map(|line| line.split_once('='));
    labels.into_iter().find(|(own, _)| *own == key).map(|(_, value)| value.to_owned())
}

fn whole(value: i128) -> Value {
    Value::Integer(value.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}
