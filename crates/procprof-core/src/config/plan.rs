//! The schedule of a node: the kind's defaults, changed by the node's own table and the top-level keys.

use procprof_collect::{Offer, Window};
use procprof_profile::ProfileType;

use super::Config;
use crate::kinds::{Interval, Kind, NodeConfig};

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

/// The schedule of a node, every type it can give, on or off.
pub(crate) fn plan(node: &NodeConfig, config: &Config) -> Vec<Planned> {
    let mut rows = of_kind(node);
    for row in &mut rows {
        change(row, node, config);
    }
    rows
}

/// The types a configured node can give, and what span of time each is about.
pub(crate) fn given(node: &NodeConfig) -> Vec<(ProfileType, Window)> {
    let window =
        |profile_type: &ProfileType| node.kind.offer(profile_type).map_or(Window::MomentOrDelta, |offer| offer.window);
    of_kind(node).into_iter().map(|row| (row.profile_type.clone(), window(&row.profile_type))).collect()
}

/// The kind's own schedule; that of a node with URLs, if its profiles are defined by nothing else, has their types.
fn of_kind(node: &NodeConfig) -> Vec<Planned> {
    let urls_instead = node.kind.endpoints().is_some_and(|endpoints| endpoints.urls_instead) && !node.urls.is_empty();
    match urls_instead {
        true => node.urls.keys().map(|profile_type| by_url(node.kind, profile_type)).collect(),
        false => node.kind.offers().into_iter().map(of_offer).collect(),
    }
}

fn of_offer(offer: &Offer) -> Planned {
    Planned {
        profile_type: offer.profile_type.clone(),
        on: offer.schedule.on,
        seconds: u64::from(offer.schedule.seconds),
        every: u64::from(offer.schedule.interval_seconds),
    }
}

/// A configured URL was given to be collected, so it is on.
fn by_url(kind: Kind, profile_type: &ProfileType) -> Planned {
    let known = kind.offer(profile_type).map(of_offer);
    let (seconds, every) = known.map_or((0, 60), |row| (row.seconds, row.every));
    Planned { profile_type: profile_type.clone(), on: true, seconds, every }
}

fn change(row: &mut Planned, node: &NodeConfig, config: &Config) {
    match node.kind.interval {
        Interval::Every(key) => row.every = config.seconds_of(key).filter(|every| *every > 0).unwrap_or(row.every),
        Interval::Cut(key) if node.kind.is_continuous(&row.profile_type) => {
            let cut = config.seconds_of(key).unwrap_or(row.every);
            (row.seconds, row.every) = (cut, cut);
        }
        Interval::Cut(_) | Interval::Default => {}
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
