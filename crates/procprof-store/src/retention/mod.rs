//! The rules of retention as a pure function: [`retention`].
//!
//! 1. Per node: profiles completed more than `retained_days` ago, to the nanosecond.
//! 2. Per node: while its files exceed `retained_size_bytes`, the oldest, whatever its type.
//! 3. Over everything: while DATA exceeds `data_bytes_max`, the oldest.
//! 4. While less than `free_bytes_min` of the file system is free, the oldest.
//!
//! Cached renderings and imports are counted and deleted like everything else. Kept in spite of all limits, but
//! counted: the newest stored profile of each node and type, and held items ([`Hold`]). A file being written does not
//! count as the newest: until it is whole, the one before it is.

mod timeline;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use procprof_profile::{Nanos, ProfileId, ProfileType};
pub use timeline::{Clock, Timeline};

/// The limits, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionLimits {
    /// `proc_profile_file_retained_days`, per node.
    pub retained_days: u64,
    /// `proc_profile_file_retained_size_bytes`, per node.
    pub retained_size_bytes: u64,
    /// Largest size of DATA in bytes.
    pub data_bytes_max: u64,
    /// Bytes of the file system to be left free.
    pub free_bytes_min: u64,
}

impl Default for RetentionLimits {
    /// 1 day and 2 GiB per node, 20 GiB in all, 1 GiB left free.
    fn default() -> RetentionLimits {
        RetentionLimits {
            retained_days: 1,
            retained_size_bytes: 2 << 30,
            data_bytes_max: 20 << 30,
            free_bytes_min: 1 << 30,
        }
    }
}

/// The state of the disk for limits 3 and 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Bytes of DATA besides items: catalog and journal. Counted, never deleted.
    pub other_bytes: u64,
    /// Bytes of the file system that are free now.
    pub free_bytes: u64,
}

/// A stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its identity.
    pub key: ItemKey,
    /// Its node; `None` for a cached rendering of several nodes' profiles.
    pub node: Option<u64>,
    /// Its type; `None` for cached renderings.
    pub profile_type: Option<ProfileType>,
    /// When the collection was complete, or cached renderings were made, on the axis of `now`.
    pub completed: Nanos,
    /// Its size in bytes.
    pub bytes: u64,
    /// Why it must be kept, if it must.
    pub hold: Option<Hold>,
}

/// The identity of an item. The order breaks ties between items of the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKey {
    /// A cached rendering, by the first 16 bytes of its key's hash.
    Cached(u128),
    /// A stored profile.
    Profile(ProfileId),
}

/// Why an item must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hold {
    /// It is pinned.
    Pinned,
    /// It is being written.
    BeingWritten,
    /// It could not be deleted.
    Undeletable,
}

/// The limit for which an item is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Older than `retained_days`.
    Age,
    /// Its node exceeds `retained_size_bytes`.
    NodeBytes,
    /// DATA exceeds `data_bytes_max`.
    DataBytes,
    /// Less than `free_bytes_min` is free.
    FreeSpace,
}

/// An item to delete: its position in the items, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Position in the given items.
    pub index: usize,
    /// The first limit that requires it.
    pub why: Why,
}

/// The items to delete, oldest first within each limit.
pub fn retention(items: &[Item], limits: &RetentionLimits, disk: Disk, now: Nanos) -> Vec<Victim> {
    let mut oldest_first: Vec<usize> = (0..items.len()).collect();
    oldest_first.sort_unstable_by(|a, b| age_order(&items[*a], &items[*b]));
    let newest = newest(items, &oldest_first);
    oldest_first.retain(|index| items[*index].hold.is_none() && !newest[*index]);

    let mut candidates = Candidates { items, left: oldest_first, victims: Vec::new() };
    let max_age = i128::from(limits.retained_days) * 86_400_000_000_000;
    candidates.take_while_needed(Why::Age, |item| i128::from(now.0) - i128::from(item.completed.0) > max_age);

    let mut node_bytes: BTreeMap<u64, u64> = BTreeMap::new();
    for (item, node) in candidates.surviving().filter_map(|item| item.node.map(|node| (item, node))) {
        let sum = node_bytes.entry(node).or_default();
        *sum = sum.saturating_add(item.bytes);
    }
    candidates.take_while_needed(Why::NodeBytes, |item| {
        let Some(sum) = item.node.and_then(|node| node_bytes.get_mut(&node)) else { return false };
        take_from(sum, item.bytes, limits.retained_size_bytes)
    });

    let mut data_bytes = candidates.surviving().fold(disk.other_bytes, |sum, item| sum.saturating_add(item.bytes));
    candidates.take_while_needed(Why::DataBytes, |item| take_from(&mut data_bytes, item.bytes, limits.data_bytes_max));

    let mut free =
        candidates.victims.iter().fold(disk.free_bytes, |sum, victim| sum.saturating_add(items[victim.index].bytes));
    candidates.take_while_needed(Why::FreeSpace, |item| {
        let needed = free < limits.free_bytes_min;
        free = free.saturating_add(if needed { item.bytes } else { 0 });
        needed
    });
    candidates.victims
}

struct Candidates<'a> {
    items: &'a [Item],
    /// Positions of the items that may be deleted and are not yet, oldest first.
    left: Vec<usize>,
    victims: Vec<Victim>,
}

impl<'a> Candidates<'a> {
    fn take_while_needed(&mut self, why: Why, mut needed: impl FnMut(&Item) -> bool) {
        let (items, victims) = (self.items, &mut self.victims);
        self.left.retain(|index| {
            let goes = needed(&items[*index]);
            if goes {
                victims.push(Victim { index: *index, why });
            }
            !goes
        });
    }

    /// All items that are not victims, including held ones.
    fn surviving(&self) -> impl Iterator<Item = &'a Item> {
        let mut alive = vec![true; self.items.len()];
        for victim in &self.victims {
            alive[victim.index] = false;
        }
        self.items.iter().zip(alive).filter(|(_, alive)| *alive).map(|(item, _)| item)
    }
}

/// Whether `sum` exceeds the limit; if so, `bytes` are subtracted from it.
fn take_from(sum: &mut u64, bytes: u64, limit: u64) -> bool {
    let passes = *sum > limit;
    if passes {
        *sum = sum.saturating_sub(bytes);
    }
    passes
}

/// For every item whether it is the newest stored profile of its node and type.
fn newest(items: &[Item], oldest_first: &[usize]) -> Vec<bool> {
    let mut newest = vec![false; items.len()];
    let mut found: BTreeMap<(Option<u64>, &ProfileType), ()> = BTreeMap::new();
    for index in oldest_first.iter().rev() {
        let item = &items[*index];
        if let Some(profile_type) = item.profile_type.as_ref().filter(|_| item.hold != Some(Hold::BeingWritten)) {
            newest[*index] = found.insert((item.node, profile_type), ()).is_none();
        }
    }
    newest
}

fn age_order(a: &Item, b: &Item) -> Ordering {
    (a.completed, a.key).cmp(&(b.completed, b.key))
}

#[cfg(test)]
mod tests;
