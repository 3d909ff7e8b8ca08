//! The indexes that make room for a new one: a token's own ones, and what nobody has used for long.
//!
//! Tokens have a quarter of the space and of the number of indexes each, and three quarters together, so that no token
//! removes what others sent. Operators may have all of it: what tokens sent makes room for theirs first.

use super::record::{Owner, Record};
use crate::shares::PARTS;

/// Most indexes kept.
pub(super) const INDEXES_MAX: usize = 10_000;
/// Days after its last use from which an index makes room for those of everybody.
pub(super) const UNUSED_DAYS: i64 = 30;
const UNUSED_NANOS: i64 = UNUSED_DAYS * 24 * 3600 * 1_000_000_000;

/// Indexes and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    indexes: u64,
    bytes: u64,
}

impl Space {
    fn of_records<'a>(records: impl Iterator<Item = &'a Record>) -> Space {
        records.fold(Space::default(), |sum, record| Space {
            indexes: sum.indexes + 1,
            bytes: sum.bytes.saturating_add(record.bytes),
        })
    }

    fn without(self, record: &Record) -> Space {
        Space { indexes: self.indexes.saturating_sub(1), bytes: self.bytes.saturating_sub(record.bytes) }
    }

    fn fits(self, limit: Space) -> bool {
        self.indexes <= limit.indexes && self.bytes <= limit.bytes
    }

    fn part(self, numerator: u64) -> Space {
        let part = |all: u64| all / PARTS * numerator + all % PARTS * numerator / PARTS;
        Space { indexes: part(self.indexes), bytes: part(self.bytes) }
    }
}

/// The indexes that are removed for `new`; one of its key gives way anyhow. `None` if others, which stay, leave it no
/// room.
pub(super) fn make_room<'a>(
    records: impl Iterator<Item = &'a Record>,
    new: &Record,
    bytes_max: u64,
) -> Option<Vec<Record>> {
    let all = Space { indexes: INDEXES_MAX as u64, bytes: bytes_max };
    let mut others: Vec<&Record> = records.filter(|record| record.key != new.key).collect();
    others.sort_by_key(|record| (record.last_wanted(), &record.key));
    let is_operator = new.owner == Owner::Operator;
    let is_own = |record: &Record| record.owner != Owner::Operator && record.by == new.by;
    let is_unused = |record: &Record| new.stored.saturating_sub(record.last_wanted().0) > UNUSED_NANOS;
    // An index that is larger than the share by itself takes the place of all others of its sender.
    let mut candidates = others.clone();
    match is_operator {
        true => candidates.sort_by_key(|record| record.owner == Owner::Operator),
        false => {
            candidates.retain(|record| is_own(record) || (record.owner != Owner::Operator && is_unused(record)));
            candidates.sort_by_key(|record| !is_own(record));
        }
    }
    let plus_new = |space: Space| Space { indexes: space.indexes + 1, bytes: space.bytes.saturating_add(new.bytes) };
    let tokens = || others.iter().copied().filter(|record| record.owner != Owner::Operator);
    let mut used = plus_new(Space::of_records(others.iter().copied()));
    let mut common = plus_new(Space::of_records(tokens()));
    let mut own = plus_new(Space::of_records(tokens().filter(|record| is_own(record))));
    let mut victims = Vec::new();
    for candidate in candidates {
        let own_fits = own.fits(all.part(1)) || own.indexes == 1;
        let is_enough = used.fits(all) && (is_operator || (common.fits(all.part(PARTS - 1)) && own_fits));
        if is_enough {
            break;
        }
        used = used.without(candidate);
        if candidate.owner != Owner::Operator {
            common = common.without(candidate);
        }
        if is_own(candidate) {
            own = own.without(candidate);
        }
        victims.push(candidate.clone());
    }
    let has_room = used.fits(all) && (is_operator || common.fits(all.part(PARTS - 1)));
    has_room.then_some(victims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::Detail;

    const DAY: i64 = 24 * 3600 * 1_000_000_000;

    /// One of so many bytes, by a user, used last on a day.
    fn record(key: &str, by: &str, bytes: u64, day: i64) -> Record {
        let owner = if by == "olga" { Owner::Operator } else { Owner::Host };
        Record {
            key: key.parse().unwrap(),
            name: String::new(),
            bytes,
            functions: 1,
            detail: Detail::Lines,
            stored: day * DAY,
            by: by.to_owned(),
            owner,
            last_used: None,
        }
    }

    fn gone(records: &[Record], new: &Record, bytes_max: u64) -> Option<Vec<String>> {
        let victims = make_room(records.iter(), new, bytes_max)?;
        Some(victims.iter().map(|record| record.key.to_string()).collect())
    }

    fn keys(keys: &[&str]) -> Option<Vec<String>> {
        Some(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    #[test]
    fn the_least_used_of_a_sender_make_room() {
        let records = [record("aa", "olga", 10, 3), record("bb", "olga", 20, 1), record("cc", "olga", 30, 2)];
        let new = |key, bytes| record(key, "olga", bytes, 9);
        assert_eq!(gone(&records, &new("dd", 40), 100), keys(&[]));
        assert_eq!(gone(&records, &new("dd", 40), 99), keys(&["bb"]));
        assert_eq!(gone(&records, &new("dd", 40), 79), keys(&["bb", "cc"]));
        assert_eq!(gone(&records, &new("bb", 40), 80), keys(&[]), "its own forerunner does not count");
    }

    #[test]
    fn a_token_removes_what_it_sent_itself_and_no_more() {
        let mut records = vec![record("aa", "olga", 100, 1), record("bb", "a", 60, 2), record("cc", "a", 60, 3)];
        records.extend([record("dd", "b", 100, 1)]);
        assert_eq!(gone(&records, &record("ee", "a", 60, 9), 1000), keys(&[]), "180 of a share of 250");
        assert_eq!(gone(&records, &record("ee", "a", 200, 9), 1000), keys(&["bb", "cc"]));
        assert_eq!(gone(&records, &record("ee", "a", 400, 9), 1000), keys(&["bb", "cc"]), "one that is larger");
        records.extend([record("f0", "c", 250, 1), record("f1", "d", 250, 1)]);
        assert_eq!(gone(&records, &record("ee", "e", 40, 9), 1000), None, "three quarters are taken");
        assert_eq!(gone(&records, &record("ee", "a", 90, 9), 1000), keys(&["bb"]));
        assert_eq!(gone(&records, &record("ee", "olga", 280, 9), 1000), keys(&["dd"]), "an operator's");
        assert_eq!(gone(&records, &record("ee", "e", 40, 40), 1000), keys(&["dd"]), "unused for a month");
    }
}
