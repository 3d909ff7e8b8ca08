//! What is collected from a node when: the kind's defaults, changed by the node's own table and the top-level keys.

use procprof_collect::{Route, Window};
use procprof_profile::ProfileType;

use super::Kind;
use crate::config::{Config, NodeConfig};

/// One type's place in a node's schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The type.
    pub profile_type: ProfileType,
    /// Whether it is collected on schedule.
    pub on: bool,
    /// Length of a capture in seconds; 0 for what is taken at a moment.
    pub seconds: u64,
    /// Seconds from one start to the next.
    pub every: u64,
}

/// Whether a profile has a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// It must have one.
    Seconds,
    /// It has none.
    Moment,
    /// As one likes.
    Either,
}

/// The schedule of a node, every type it can give, on or off.
pub(crate) fn plan(node: &NodeConfig, config: &Config) -> Vec<Planned> {
    let mut rows = if node.kind == Kind::Own { own(config) } else { of_kind(node) };
    for row in &mut rows {
        change(row, node, config);
    }
    rows
}

/// The types a configured node can give, and whether they have a length.
pub(crate) fn given(node: &NodeConfig) -> Vec<(ProfileType, Length)> {
    let length = |profile_type: &ProfileType| match node.kind.collected().and_then(|kind| kind.route(profile_type)) {
        Some(Route { window: Window::Seconds, .. }) => Length::Seconds,
        Some(Route { window: Window::Moment, .. }) => Length::Moment,
        _ => Length::Either,
    };
    of_kind(node).into_iter().map(|row| (row.profile_type.clone(), length(&row.profile_type))).collect()
}

/// The kind's own schedule; that of a node with URLs, if nothing else says where profiles are, has their types.
fn of_kind(node: &NodeConfig) -> Vec<Planned> {
    let routes = node.kind.collected().map_or(&[][..], |kind| kind.routes());
    if node.kind == Kind::Pprof && !node.urls.is_empty() {
        let rows: Vec<Planned> = routes.iter().map(of_route).collect();
        return node.urls.keys().map(|kind| by_url(kind, &rows)).collect();
    }
    routes.iter().filter(|route| !route.places.is_empty()).map(of_route).collect()
}

fn of_route(route: &Route) -> Planned {
    Planned {
        profile_type: route.profile_type.clone(),
        on: route.schedule.on,
        seconds: u64::from(route.schedule.seconds),
        every: u64::from(route.schedule.interval_seconds),
    }
}

/// A configured URL was given to be collected, so it is on.
fn by_url(profile_type: &ProfileType, rows: &[Planned]) -> Planned {
    let known = rows.iter().find(|row| row.profile_type == *profile_type);
    let (seconds, every) = known.map_or((0, 60), |row| (row.seconds, row.every));
    Planned { profile_type: profile_type.clone(), on: true, seconds, every }
}

/// The server's own CPU profile is continuous: each cut is where the next begins. Whether there is a heap profiler is asked at each capture.
fn own(config: &Config) -> Vec<Planned> {
    let cut = config.self_interval_seconds;
    vec![
        Planned { profile_type: ProfileType::Cpu, on: true, seconds: cut, every: cut },
        Planned { profile_type: ProfileType::Heap, on: true, seconds: 0, every: 60 },
    ]
}

fn change(row: &mut Planned, node: &NodeConfig, config: &Config) {
    if node.kind == Kind::StarrocksBe && config.be_profile_interval > 0 {
        row.every = config.be_profile_interval;
    }
    if let Some(given) = node.schedule.get(&row.profile_type) {
        row.on = given.on.unwrap_or(true);
        row.seconds = given.seconds.unwrap_or(row.seconds);
        row.every = given.every.unwrap_or(row.every);
    }
    row.every = row.every.max(row.seconds).max(1);
    let enabled = match row.profile_type {
        ProfileType::Cpu => config.proc_profile_cpu_enable,
        ProfileType::Alloc | ProfileType::Heap => config.proc_profile_mem_enable,
        _ => true,
    };
    row.on &= enabled;
}
