//! The timeline of a node: a lane for each type, a bar for each profile, as high as its total is large.
//!
//! A lane with more profiles than bars fit has one for each piece of time, as high as the largest of its profiles,
//! which leads to the list of that time.

use std::collections::BTreeMap;

use maud::{Markup, html};
use procprof_core::clock::now;
use procprof_core::nodes::{Node, Planned};
use procprof_profile::{ProfileId, ProfileType};
use procprof_store::{Column, Order, Result, RowBatch, RowQuery, Store, Values};

use super::known_class;
use super::query::ListQuery;
use crate::pages::{quantity, range_query, span, tick, type_label};
use crate::texts::t;
use crate::time::rfc3339;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;
/// The period shown unless another is chosen.
const PERIOD: i64 = 86_400 * SECOND;
/// The shortest period shown.
const PERIOD_MIN: i64 = 300 * SECOND;
/// Most profiles read, the newest of the period.
const POINTS_MAX: usize = 20_000;
/// Most lanes.
const LANES_MAX: usize = 6;
/// Most bars of a lane.
const BARS_MAX: usize = 150;
/// Width and height of a lane in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 32.0;
/// Moments named below the lanes.
const TICKS: i64 = 5;

/// What the strip shows of a profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) id: ProfileId,
    pub(super) started: i64,
    pub(super) completed: i64,
    pub(super) total: i64,
    /// The start of the process; 0 if unknown.
    pub(super) instance: i64,
    /// Threads that its samples name; 0 if unknown.
    pub(super) threads: i64,
}

/// What the heights of a lane's bars are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Total,
    Threads,
}

impl Measure {
    fn of(self, point: &Point) -> i64 {
        match self {
            Measure::Total => point.total,
            Measure::Threads => point.threads,
        }
    }
}

/// The profiles of a period.
pub(super) struct Timeline {
    from: i64,
    to: i64,
    /// Whether the period ends now.
    is_open: bool,
    /// By type, oldest first.
    lanes: BTreeMap<ProfileType, Vec<Point>>,
    /// The unit of each type's totals.
    units: BTreeMap<ProfileType, String>,
    restarts: Vec<i64>,
    is_cut: bool,
}

impl Timeline {
    /// Reads the period of a query; `None` if the node has no profiles.
    pub(super) fn read(store: &Store, query: &ListQuery) -> Result<Option<Timeline>> {
        let mut filter = query.range();
        let (chosen_from, chosen_to) = (filter.from, filter.to);
        let (Some(oldest), Some(newest)) =
            (edge(store, &filter, Order::OldestFirst)?, edge(store, &filter, Order::NewestFirst)?)
        else {
            return Ok(None);
        };
        let now = now().0;
        let is_open = chosen_to.is_none() && newest > now.saturating_sub(PERIOD) && newest <= now;
        let to = chosen_to.map_or(if is_open { now } else { newest.saturating_add(1) }, |to| to.0);
        let default = to.saturating_sub(PERIOD).max(oldest.saturating_sub(60 * SECOND));
        let from = chosen_from.map_or(default, |from| from.0).min(to.saturating_sub(PERIOD_MIN));
        filter.from = Some(procprof_profile::Nanos(from));
        let mut timeline = Timeline {
            from,
            to,
            is_open,
            lanes: BTreeMap::new(),
            units: BTreeMap::new(),
            restarts: Vec::new(),
            is_cut: false,
        };
        timeline.fill(store, filter)?;
        Ok(Some(timeline))
    }

    fn fill(&mut self, store: &Store, filter: procprof_store::Filter) -> Result<()> {
        let node = filter.nodes.first().copied().unwrap_or_default();
        let columns = vec![
            Column::Type,
            Column::Id,
            Column::Started,
            Column::Completed,
            Column::Total,
            Column::Instance,
            Column::Threads,
        ];
        let mut rows = store.rows(&RowQuery { filter, columns, order: Order::NewestFirst })?;
        let batch = rows.next(POINTS_MAX)?.unwrap_or_default();
        self.is_cut = batch.rows == POINTS_MAX;
        for (name, point) in points(&batch) {
            if let Ok(kind) = name.parse() {
                self.lanes.entry(kind).or_default().push(point);
            }
        }
        for (kind, lane) in &mut self.lanes {
            lane.reverse();
            let newest = store.newest(node, kind)?;
            let unit =
                newest.as_ref().and_then(|entry| entry.summary.shown(&entry.meta)).map(|total| total.unit.clone());
            self.units.insert(kind.clone(), unit.unwrap_or_default());
        }
        self.restarts = restarts(self.lanes.values(), self.from);
        Ok(())
    }

    /// The types that have profiles here.
    pub(super) fn types(&self) -> impl Iterator<Item = &ProfileType> {
        self.lanes.keys()
    }

    /// The strip.
    pub(super) fn markup(&self, query: &ListQuery) -> Markup {
        let node = &query.node;
        html! {
            a class="skip" href="#profiles" { (t!("Skip the timeline")) }
            div class="lanes" data-from=(rfc3339(self.from)) data-to=(rfc3339(self.to)) data-node=(node.id) {
                svg class="defs" width="0" height="0" aria-hidden="true" {
                    defs { pattern id="gap" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                        path class="hatch" d="M0 0V6" {}
                    } }
                }
                @for (kind, lane) in self.lanes.iter().take(LANES_MAX) {
                    (self.lane(query, kind, lane, Measure::Total))
                }
                @if let Some((kind, lane)) = self.with_threads() { (self.lane(query, kind, &lane, Measure::Threads)) }
                div class="axis" aria-hidden="true" {
                    @for number in 0..TICKS {
                        (tick(self.from + (self.to - self.from) / (TICKS - 1) * number, self.to - self.from))
                    }
                }
            }
            p class="legend muted" {
                @if self.is_open {
                    (t!("{0} until now", span(self.to - self.from)))
                } @else {
                    (span(self.to - self.from))
                }
                @if !self.restarts.is_empty() {
                    " · " span class="key restart" {} " " @if self.restarts.len() == 1 { (t!("the process restarted")) }
                    @else { (t!("the process restarted {0} times", self.restarts.len())) }
                }
                @if self.lanes.iter().any(|(kind, lane)| !self.gaps(node, kind, lane).is_empty()) {
                    " · " span class="key gap" {} " " (t!("no profiles although scheduled"))
                }
                @if self.is_cut { " · " (t!("the newest {0} profiles only", POINTS_MAX)) }
                @if self.lanes.len() > LANES_MAX { " · " (t!("{0} more types", self.lanes.len() - LANES_MAX)) }
            }
        }
    }

    /// The type whose profiles name the most threads, with those that name any; `None` if none names several.
    fn with_threads(&self) -> Option<(&ProfileType, Vec<Point>)> {
        let most = |lane: &[Point]| lane.iter().map(|point| point.threads).max().unwrap_or(0);
        let (kind, lane) = self.lanes.iter().max_by_key(|(_, lane)| most(lane)).filter(|(_, lane)| most(lane) > 1)?;
        Some((kind, lane.iter().filter(|point| point.threads > 0).copied().collect()))
    }

    fn lane(&self, query: &ListQuery, kind: &ProfileType, lane: &[Point], measure: Measure) -> Markup {
        let unit = match measure {
            Measure::Total => self.units.get(kind).map_or("", String::as_str),
            Measure::Threads => "count",
        };
        let largest = lane.iter().map(|point| measure.of(point)).max().unwrap_or(0);
        let gaps = match measure {
            Measure::Total => self.gaps(&query.node, kind, lane),
            Measure::Threads => Vec::new(),
        };
        let class = match measure {
            Measure::Total => known_class(kind.name()),
            Measure::Threads => "threads",
        };
        let merge = format!("/merge?{}", range_query(query.node.id, kind, self.from, self.to));
        let midnight = (self.to - 1).div_euclid(DAY) * DAY;
        let day = format!("/merge?{}", range_query(query.node.id, kind, midnight, midnight + DAY));
        html! {
            div class="lane" data-type=(kind.name()) {
                div class="lane-name" {
                    a class=(format!("type {class}"))
                        href=(query.with_type(Some(kind.clone())).href())
                    {
                        @match measure {
                            Measure::Total => (type_label(kind)),
                            Measure::Threads => (t!("Threads")),
                        }
                    }
                    span class="muted" { (t!("max {0}", quantity(largest, unit)))
                        " · "
                        a href=(merge) title=(t!("One profile of all {0} of this time", lane.len())) { (t!("merge")) }
                        " · "
                        a href=(day) title=(t!("One profile of the whole day (UTC), from the archive, too")) { (t!("day")) }
                    }
                }
                svg class=(format!("bars {class}")) viewBox="0 0 1000 32"
                    preserveAspectRatio="none" role="group"
                    aria-label=(match measure {
                        Measure::Total => t!("{0}: {1} profiles", type_label(kind), lane.len()),
                        Measure::Threads => t!("Threads of {0}: {1} profiles", type_label(kind), lane.len()),
                    })
                {
                    @for (from, to) in gaps {
                        rect class="gap" x=(tenth(self.x(from))) y="0" width=(tenth(self.x(to) - self.x(from)))
                            height="32" fill="url(#gap)"
                        {
                            title { (t!("No profiles for {0}, although they are scheduled", span(to - from))) }
                        }
                    }
                    (self.bars(query, kind, lane, measure, largest, unit))
                    @for restart in &self.restarts {
                        path class="restart" d=(format!("M{} 0V32", tenth(self.x(*restart)))) {
                            title { (t!("The process restarted")) }
                        }
                    }
                }
            }
        }
    }

    /// The bars as links.
    fn bars(
        &self,
        query: &ListQuery,
        kind: &ProfileType,
        lane: &[Point],
        measure: Measure,
        largest: i64,
        unit: &str,
    ) -> Markup {
        let bar = |group: &[Point]| {
            let (first, last) = (group.first()?, group.last()?);
            let most = group.iter().map(|point| measure.of(point)).max().unwrap_or(0);
            let height = (most.max(0) as f64 / largest.max(1) as f64 * (HEIGHT - 3.0) + 3.0).min(HEIGHT);
            let x = self.x(first.started.max(self.from).min(first.completed));
            let width = (self.x(last.completed) - x - 0.6).max(1.8);
            let what = match measure {
                Measure::Total => quantity(most, unit),
                Measure::Threads => t!("{0} threads", quantity(most, unit)),
            };
            let (href, title) = match group {
                [point] => (format!("/p/{}", point.id), format!("{} {what}", tick_text(point.completed))),
                _ => {
                    let range = query
                        .with_type(Some(kind.clone()))
                        .with_range(floor_ms(first.completed), floor_ms(last.completed) + 1_000_000);
                    let (from, to) = (tick_text(first.completed), tick_text(last.completed));
                    let title = t!("{0} to {1}: {2} profiles, at most {3}", from, to, group.len(), what);
                    (range.href(), title)
                }
            };
            let (x, y) = (tenth(x.min(WIDTH - 1.8)), tenth(HEIGHT - height));
            Some(html! {
                a href=(href) { rect x=(x) y=(y) width=(tenth(width)) height=(tenth(height)) { title { (title) } } }
            })
        };
        html! { @for bar in self.groups(lane).into_iter().filter_map(bar) { (bar) } }
    }

    /// The profiles one by one, or by pieces of time if they are many.
    fn groups<'a>(&self, lane: &'a [Point]) -> Vec<&'a [Point]> {
        if lane.len() <= BARS_MAX {
            return lane.chunks(1).collect();
        }
        let piece = |point: &Point| (self.x(point.completed) / WIDTH * BARS_MAX as f64) as usize;
        lane.chunk_by(|a, b| piece(a) == piece(b)).collect()
    }

    /// Where a schedule expected profiles.
    fn gaps(&self, node: &Node, kind: &ProfileType, lane: &[Point]) -> Vec<(i64, i64)> {
        let planned = node.schedule.iter().find(|planned| planned.on && planned.profile_type == *kind);
        planned.map_or_else(Vec::new, |planned| gaps(lane, planned, self.is_open.then_some(self.to)))
    }

    fn x(&self, moment: i64) -> f64 {
        let share = (moment.saturating_sub(self.from)) as f64 / (self.to - self.from).max(1) as f64;
        share.clamp(0.0, 1.0) * WIDTH
    }
}

/// The pauses between profiles that are longer than the schedule explains; up to `end` if profiles were still to come.
pub(super) fn gaps(lane: &[Point], planned: &Planned, end: Option<i64>) -> Vec<(i64, i64)> {
    let beat =
        i64::try_from(planned.every.max(planned.seconds)).unwrap_or(i64::MAX / SECOND / 4).min(i64::MAX / SECOND / 4);
    let allowed = beat * SECOND * 5 / 2 + 10 * SECOND;
    let mut gaps: Vec<(i64, i64)> = lane
        .windows(2)
        .filter(|pair| pair[1].completed.saturating_sub(pair[0].completed) > allowed)
        .map(|pair| (pair[0].completed, pair[1].started.max(pair[0].completed)))
        .collect();
    if let (Some(last), Some(end)) = (lane.last(), end)
        && end.saturating_sub(last.completed) > allowed
    {
        gaps.push((last.completed, end));
    }
    gaps
}

/// When the process behind profiles started anew, within the period.
fn restarts<'a>(lanes: impl Iterator<Item = &'a Vec<Point>>, from: i64) -> Vec<i64> {
    let mut restarts = Vec::new();
    for lane in lanes {
        let known: Vec<&Point> = lane.iter().filter(|point| point.instance != 0).collect();
        // The start of a process is computed from its age, so that it is off by a little each time.
        let others = known.windows(2).filter(|pair| pair[1].instance > pair[0].instance.saturating_add(2 * SECOND));
        restarts.extend(others.map(|pair| pair[1].instance).filter(|start| *start >= from));
    }
    restarts.sort_unstable();
    restarts.dedup_by(|later, earlier| later.saturating_sub(*earlier) < 2 * SECOND);
    restarts
}

/// When the first profile in an order was completed.
fn edge(store: &Store, filter: &procprof_store::Filter, order: Order) -> Result<Option<i64>> {
    let query = RowQuery { filter: filter.clone(), columns: vec![Column::Completed], order };
    let batch = store.rows(&query)?.next(1)?;
    Ok(batch.and_then(|batch| match batch.columns.first() {
        Some(Values::Integers(moments)) => moments.first().copied(),
        _ => None,
    }))
}

fn points(batch: &RowBatch) -> impl Iterator<Item = (&str, Point)> {
    let numbers = |at: usize, row: usize| match batch.columns.get(at) {
        Some(Values::Integers(numbers)) => numbers.get(row).copied().unwrap_or(0),
        _ => 0,
    };
    (0..batch.rows).filter_map(move |row| {
        let (Some(Values::Texts(names)), Some(Values::Ids(ids))) = (batch.columns.first(), batch.columns.get(1)) else {
            return None;
        };
        let point = Point {
            id: *ids.get(row)?,
            started: numbers(2, row),
            completed: numbers(3, row),
            total: numbers(4, row),
            instance: numbers(5, row),
            threads: numbers(6, row),
        };
        Some((names.get(row)?, point))
    })
}

/// The time of day, in UTC.
fn tick_text(nanos: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(nanos));
    time.map(|time| time.strftime("%H:%M:%S UTC").to_string()).unwrap_or_default()
}

fn floor_ms(nanos: i64) -> i64 {
    nanos - nanos.rem_euclid(1_000_000)
}

fn tenth(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests;
