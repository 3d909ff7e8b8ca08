//! Roll-ups: the profiles of each hour of a node as one, so that a sum of many days reads an hour of a node instead of
//! all its profiles. Exact: where a sum of an hour is no number of 64 bits, its part has none.

use std::collections::BTreeMap;

use foldhash::HashMap;
use procprof_profile::{Meta, Nanos, ProfileType};

use crate::header::{Header, Total};
use crate::write::Row;
use crate::{Hour, Table};

/// Whose values the rows that are summed have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grain {
    /// Each profile's.
    Profile,
    /// Those of an hour of a node. Only parts of [`Parts::rolled`](crate::Parts::rolled) have them.
    Hour,
}

impl Grain {
    /// The table of the profiles, or hours.
    pub(crate) fn headers(self) -> Table {
        match self {
            Grain::Profile => Table::Profiles,
            Grain::Hour => Table::Hours,
        }
    }

    /// The table of their values.
    pub(crate) fn values(self) -> Table {
        match self {
            Grain::Profile => Table::Samples,
            Grain::Hour => Table::Rollups,
        }
    }

    /// The column that numbers them in both.
    pub(crate) fn number(self) -> &'static str {
        match self {
            Grain::Profile => "profile",
            Grain::Hour => "summary",
        }
    }
}

/// The profiles of an hour of a node that have the same kinds of values and were taken with the same labels.
#[derive(Debug)]
pub(crate) struct NodeHour {
    pub(crate) header: Header,
    pub(crate) untimed: u64,
    pub(crate) first: Nanos,
}

/// The hours of a part and their rows, whose `profile` is the place of the hour.
#[derive(Debug)]
pub(crate) struct RolledUp {
    pub(crate) hours: Vec<NodeHour>,
    pub(crate) rows: Vec<Row>,
}

/// What the profiles of an hour have in common. Whatever else they have is added up, or left out where they differ.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    hour: Hour,
    node: u64,
    profile_type: &'a ProfileType,
    of_node: [&'a str; 4],
    labels: &'a BTreeMap<String, String>,
    kinds: Vec<(&'a str, &'a str)>,
    shown: [&'a str; 3],
    /// The frames that reports leave out, and keep.
    left_out: [&'a str; 2],
}

impl<'a> Key<'a> {
    fn new(header: &'a Header) -> Key<'a> {
        let Header { identity, meta, frames, totals, shown_kind, period_type, .. } = header;
        Key {
            hour: Hour::containing(identity.completed),
            node: identity.node,
            profile_type: &identity.profile_type,
            of_node: [&meta.node_name, &meta.cluster, &meta.role, &meta.kind],
            labels: &meta.labels,
            kinds: totals.iter().map(|total| (&*total.kind, &*total.unit)).collect(),
            shown: [shown_kind, &period_type.0, &period_type.1],
            left_out: [&frames.drop_frames, &frames.keep_frames],
        }
    }
}

/// Rolls profiles, those of each node and type in the order in which they were complete, and their values up; `None` if
/// a sum is no number of 64 bits. `order` has the places of the profiles.
pub(crate) fn roll_up(headers: &[Header], order: &[u32], rows: &[Row]) -> Option<RolledUp> {
    let mut places: HashMap<Key<'_>, u32> = HashMap::default();
    let mut members: Vec<Vec<&Header>> = Vec::new();
    let mut hours = vec![0_u32; headers.len()];
    for at in order {
        let header = &headers[*at as usize];
        let place = *places.entry(Key::new(header)).or_insert_with(|| {
            members.push(Vec::new());
            members.len() as u32 - 1
        });
        members[place as usize].push(header);
        hours[*at as usize] = place;
    }
    let mut rows: Vec<Row> = rows.iter().map(|row| Row { profile: hours[row.profile as usize], ..*row }).collect();
    let key = |row: &Row| (row.profile, row.kind, row.stack, row.labels);
    rows.sort_unstable_by_key(key);
    let sums = rows.chunk_by(|one, other| key(one) == key(other)).map(|same| {
        let value = same.iter().map(|row| i128::from(row.value)).sum::<i128>();
        Some(Row { value: i64::try_from(value).ok()?, ..same[0] })
    });
    let rows: Vec<Row> = sums.collect::<Option<_>>()?;
    Some(RolledUp {
        hours: members.iter().map(|members| node_hour(members)).collect::<Option<_>>()?,
        rows: rows.into_iter().filter(|row| row.value != 0).collect(),
    })
}

/// Profiles as one; the first is the one that was complete first.
fn node_hour(members: &[&Header]) -> Option<NodeHour> {
    let (first, last) = (members.first()?, members.last()?);
    let mut header = (*first).clone();
    let metas: Vec<Meta> = members.iter().map(|header| header.meta.clone()).collect();
    header.meta = Meta::merged(&metas);
    header.identity.completed = last.identity.completed;
    header.identity.start = members.iter().map(|header| header.identity.start).min()?;
    let durations = members.iter().map(|header| header.identity.duration.0);
    header.identity.duration = Nanos(durations.fold(0, i64::saturating_add));
    header.profiles = members.len() as u64;
    header.period = members.iter().map(|header| header.period).max()?;
    header.samples = members.iter().map(|header| header.samples).fold(0, u64::saturating_add);
    header.totals =
        first.totals.iter().enumerate().map(|(at, total)| summed(members, at, total)).collect::<Option<_>>()?;
    let untimed = members.iter().filter(|header| header.identity.duration.0 <= 0).count() as u64;
    Some(NodeHour { header, untimed, first: first.identity.completed })
}

fn summed(members: &[&Header], at: usize, total: &Total) -> Option<Total> {
    let value = members.iter().map(|header| i128::from(header.totals[at].value)).sum::<i128>();
    Some(Total { value: i64::try_from(value).ok()?, ..total.clone() })
}
