//! Compares the rules with a slow, literal implementation.

use procprof_profile::{Nanos, ProfileId};
use proptest::prelude::*;

use super::{Disk, Hold, Item, ItemKey, RetentionLimits, Why, retention};

const DAY: i64 = 86_400_000_000_000;

/// The rules, sentence by sentence, independent of the real implementation: one item at a time, everything summed again
/// each time.
fn literal(items: &[Item], limits: &RetentionLimits, disk: Disk, now: i64) -> Vec<ItemKey> {
    let mut alive: Vec<&Item> = items.iter().collect();
    let mut gone: Vec<&Item> = Vec::new();
    let may_go = |item: &Item| {
        let is_newer = |other: &&Item| {
            other.node == item.node
                && other.profile_type == item.profile_type
                && other.hold != Some(Hold::BeingWritten)
                && (other.completed.0, other.key) > (item.completed.0, item.key)
        };
        item.hold.is_none() && (item.profile_type.is_none() || items.iter().any(|other| is_newer(&other)))
    };
    loop {
        let sum =
            |keep: &dyn Fn(&Item) -> bool| alive.iter().filter(|item| keep(item)).map(|item| item.bytes).sum::<u64>();
        let too_old = |item: &Item| now - item.completed.0 > limits.retained_days as i64 * DAY;
        let node_full =
            |item: &Item| item.node.is_some() && sum(&|other| other.node == item.node) > limits.retained_size_bytes;
        let data_full = sum(&|_| true) + disk.other_bytes > limits.data_bytes_max;
        let disk_full = disk.free_bytes + gone.iter().map(|item| item.bytes).sum::<u64>() < limits.free_bytes_min;
        let rules: [&dyn Fn(&Item) -> bool; 4] = [&too_old, &node_full, &|_| data_full, &|_| disk_full];
        let oldest = |rule: &dyn Fn(&Item) -> bool| {
            let candidates = alive.iter().filter(|item| may_go(item) && rule(item));
            candidates.min_by_key(|item| (item.completed.0, item.key)).copied()
        };
        let Some(victim) = rules.into_iter().find_map(oldest) else { break };
        alive.retain(|item| item.key != victim.key);
        gone.push(victim);
    }
    let mut keys: Vec<ItemKey> = gone.iter().map(|item| item.key).collect();
    keys.sort();
    keys
}

fn item() -> impl Strategy<Value = Item> {
    let hold = prop_oneof![8 => Just(None), 1 => Just(Some(Hold::Pinned)), 1 => Just(Some(Hold::BeingWritten)), 1 => Just(Some(Hold::Undeletable))];
    let kind = prop_oneof![3 => Just(Some("cpu")), 2 => Just(Some("heap")), 1 => Just(None)];
    (0u64..3, kind, 0i64..40, 1u64..50, hold).prop_map(|(node, kind, eighth_days, bytes, hold)| Item {
        key: ItemKey::Profile(ProfileId(0)),
        node: (node < 2 || kind.is_some()).then_some(node),
        profile_type: kind.map(|name| name.parse().unwrap()),
        completed: Nanos(eighth_days * DAY / 8),
        bytes,
        hold,
    })
}

fn numbered(mut items: Vec<Item>) -> Vec<Item> {
    for (number, item) in items.iter_mut().enumerate() {
        let number = number as u128;
        item.key =
            if item.profile_type.is_some() { ItemKey::Profile(ProfileId(number)) } else { ItemKey::Cached(number) };
    }
    items
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn agrees_with_the_literal_rule(
        items in prop::collection::vec(item(), 0..60),
        retained_days in 0u64..6,
        retained_size_bytes in 0u64..800,
        data_bytes_max in 0u64..1500,
        free_bytes_min in 0u64..600,
        free_bytes in 0u64..600,
        other_bytes in 0u64..100,
        now in 0i64..45,
    ) {
        let items = numbered(items);
        let limits = RetentionLimits { retained_days, retained_size_bytes, data_bytes_max, free_bytes_min };
        let disk = Disk { other_bytes, free_bytes };
        let now = now * DAY / 8;
        let victims = retention(&items, &limits, disk, Nanos(now));
        let mut keys: Vec<ItemKey> = victims.iter().map(|victim| items[victim.index].key).collect();
        keys.sort();
        prop_assert_eq!(keys, literal(&items, &limits, disk, now));
    }
}

fn cpu(number: u128, node: u64, completed: i64, bytes: u64) -> Item {
    let key = ItemKey::Profile(ProfileId(number));
    Item {
        key,
        node: Some(node),
        profile_type: Some("cpu".parse().unwrap()),
        completed: Nanos(completed),
        bytes,
        hold: None,
    }
}

const WIDE: RetentionLimits =
    RetentionLimits { retained_days: 9999, retained_size_bytes: u64::MAX, data_bytes_max: u64::MAX, free_bytes_min: 0 };
const ROOMY: Disk = Disk { other_bytes: 0, free_bytes: u64::MAX };

fn victims(items: &[Item], limits: &RetentionLimits, disk: Disk, now: i64) -> Vec<(usize, Why)> {
    retention(items, limits, disk, Nanos(now)).into_iter().map(|victim| (victim.index, victim.why)).collect()
}

#[test]
fn age_is_strict_to_the_nanosecond() {
    let items = [cpu(1, 1, 0, 1), cpu(2, 1, 1, 1), cpu(3, 1, 2 * DAY, 1)];
    let limits = RetentionLimits { retained_days: 1, ..WIDE };
    assert_eq!(victims(&items, &limits, ROOMY, DAY), []);
    assert_eq!(victims(&items, &limits, ROOMY, DAY + 1), [(0, Why::Age)]);
    assert_eq!(victims(&items, &limits, ROOMY, DAY + 2), [(0, Why::Age), (1, Why::Age)]);
    assert_eq!(victims(&items, &limits, ROOMY, 900 * DAY), [(0, Why::Age), (1, Why::Age)], "the newest stays");
}

#[test]
fn each_limit_counts_what_the_one_before_left() {
    let items = [cpu(1, 1, 1, 10), cpu(2, 1, 2, 10), cpu(3, 1, 3, 10), cpu(4, 2, 2, 10), cpu(5, 2, 4, 10)];
    let limits = RetentionLimits { retained_size_bytes: 20, data_bytes_max: 35, free_bytes_min: 45, ..WIDE };
    let disk = Disk { other_bytes: 1, free_bytes: 20 };
    assert_eq!(victims(&items, &limits, disk, 10), [(0, Why::NodeBytes), (1, Why::DataBytes), (3, Why::FreeSpace)]);
}

#[test]
fn what_must_stay_counts_and_stays() {
    let mut items = [cpu(1, 1, 1, 100), cpu(2, 1, 2, 10), cpu(3, 1, 3, 10), cpu(4, 1, 4, 10)];
    items[0].hold = Some(Hold::Pinned);
    items[3].hold = Some(Hold::BeingWritten);
    let limits = RetentionLimits { retained_days: 0, retained_size_bytes: 0, data_bytes_max: 0, free_bytes_min: 0 };
    assert_eq!(victims(&items, &limits, ROOMY, DAY), [(1, Why::Age)], "the newest is the newest that is whole");
}
