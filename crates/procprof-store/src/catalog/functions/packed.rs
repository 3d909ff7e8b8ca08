//! The functions of one profile as bytes.
//!
//! ```text
//! head      kind, unit, zigzag(sum), entries of the large ones
//! rest      entries of the others
//! entry     name << 2 | tag, zigzag(total - total of the entry before), [zigzag(own) if tag = 2]
//! tag       0: nothing of its own; 1: all of its total is its own; 2: own follows
//! ```
//! All are LEB128 numbers; kind, unit and name are ids of the dictionary. Entries are sorted by total, descending, so
//! that most differences are 0: one sample each. A large function takes at least [`LARGE_PER_MYRIAD`] of the sum, so
//! that a search for shares above it reads heads only.

use std::cmp::Reverse;

/// The share, in 1/10,000 of a profile's sum, from which on a function is in the head.
const LARGE_PER_MYRIAD: u128 = 99;
/// The share in percent from which on every function is in the head, however it is rounded.
pub(super) const LARGE_PERCENT: f64 = 1.0;

/// A function by the id of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: u32,
    pub(super) own: i64,
    pub(super) total: i64,
}

/// The head without its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) kind: u32,
    pub(super) unit: u32,
    pub(super) total: i64,
}

/// The functions of a profile, packed: head and rest.
pub(super) fn pack(sums: Sums, mut entries: Vec<Entry>) -> (Vec<u8>, Vec<u8>) {
    let is_large = |entry: &Entry| {
        let most = entry.own.unsigned_abs().max(entry.total.unsigned_abs());
        u128::from(most) * 10_000 >= u128::from(sums.total.unsigned_abs()) * LARGE_PER_MYRIAD
    };
    entries.sort_unstable_by_key(|entry| (!is_large(entry), Reverse(entry.total), entry.name));
    let large = entries.partition_point(is_large);
    let mut head = Vec::new();
    put(&mut head, sums.kind.into());
    put(&mut head, sums.unit.into());
    put(&mut head, zigzag(sums.total));
    put_entries(&mut head, &entries[..large]);
    let mut rest = Vec::new();
    put_entries(&mut rest, &entries[large..]);
    (head, rest)
}

fn put_entries(out: &mut Vec<u8>, entries: &[Entry]) {
    let mut before = 0_i64;
    for entry in entries {
        let tag = match entry.own {
            0 => 0,
            own if own == entry.total => 1,
            _ => 2,
        };
        put(out, u64::from(entry.name) << 2 | tag);
        put(out, zigzag(entry.total.wrapping_sub(before)));
        if tag == 2 {
            put(out, zigzag(entry.own));
        }
        before = entry.total;
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

fn signed(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Entries read one by one.
pub(super) struct Unpacked<'a> {
    bytes: &'a [u8],
    before: i64,
}

/// The sums of a head, and its entries; `None` if it is broken.
pub(super) fn unpack_head(mut bytes: &[u8]) -> Option<(Sums, Unpacked<'_>)> {
    let sums = Sums {
        kind: u32::try_from(number(&mut bytes)?).ok()?,
        unit: u32::try_from(number(&mut bytes)?).ok()?,
        total: signed(number(&mut bytes)?),
    };
    Some((sums, unpack(bytes)))
}

/// The entries of a rest.
pub(super) fn unpack(bytes: &[u8]) -> Unpacked<'_> {
    Unpacked { bytes, before: 0 }
}

impl Iterator for Unpacked<'_> {
    /// `None` for bytes that are none.
    type Item = Option<Entry>;

    fn next(&mut self) -> Option<Option<Entry>> {
        if self.bytes.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_none() {
            self.bytes = &[];
        }
        Some(entry)
    }
}

impl Unpacked<'_> {
    fn entry(&mut self) -> Option<Entry> {
        let first = number(&mut self.bytes)?;
        let total = self.before.wrapping_add(signed(number(&mut self.bytes)?));
        let own = match first & 3 {
            0 => 0,
            1 => total,
            _ => signed(number(&mut self.bytes)?),
        };
        self.before = total;
        Some(Entry { name: u32::try_from(first >> 2).ok()?, own, total })
    }
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: u32, own: i64, total: i64) -> Entry {
        Entry { name, own, total }
    }

    #[test]
    fn what_is_packed_is_unpacked_and_the_large_ones_are_in_the_head() {
        let sums = Sums { kind: 1, unit: u32::MAX, total: 10_000 };
        let entries = vec![
            entry(7, 0, 98),
            entry(8, 99, 99),
            entry(9, 3, 10_000),
            entry(u32::MAX, -5_000, 0),
            entry(10, i64::MIN, i64::MAX),
            entry(11, 0, 0),
            entry(12, 1, i64::MIN),
        ];
        let (head, rest) = pack(sums, entries);
        let (read, large) = unpack_head(&head).unwrap();
        assert_eq!(read, sums);
        let large: Vec<Entry> = large.map(Option::unwrap).collect();
        let expected = [
            entry(10, i64::MIN, i64::MAX),
            entry(9, 3, 10_000),
            entry(8, 99, 99),
            entry(u32::MAX, -5_000, 0),
            entry(12, 1, i64::MIN),
        ];
        assert_eq!(large, expected);
        let small: Vec<Entry> = unpack(&rest).map(Option::unwrap).collect();
        assert_eq!(small, [entry(7, 0, 98), entry(11, 0, 0)]);
    }

    #[test]
    fn a_function_of_one_sample_takes_a_few_bytes() {
        let sums = Sums { kind: 1, unit: 2, total: 30_000_000_000 };
        let entries: Vec<Entry> = (1000..2000).map(|name| entry(name, 0, 10_000_000)).collect();
        let (head, rest) = pack(sums, entries);
        assert_eq!((head.len(), rest.len()), (8, 3003));
    }

    #[test]
    fn a_profile_without_a_sum_has_large_functions_only() {
        let (head, rest) = pack(Sums { kind: 0, unit: 0, total: 0 }, vec![entry(1, 5, 0), entry(2, 0, 0)]);
        assert_eq!((unpack_head(&head).unwrap().1.count(), rest.len()), (2, 0));
    }

    #[test]
    fn broken_bytes_end_the_entries() {
        assert!(unpack_head(&[0x80]).is_none());
        assert!(unpack_head(&[1, 2]).is_none());
        for broken in [&[0x80][..], &[1], &[6, 2], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0]]
        {
            assert_eq!(unpack(broken).collect::<Vec<_>>(), [None], "{broken:?}");
        }
    }
}
