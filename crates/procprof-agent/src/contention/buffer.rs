//! Samples on their way from the threads that took them to the [`collector`](super::collector): words in memory that
//! was reserved before.
//!
//! ```text
//! kind | may be jumped to << 2 | end of the walk << 8 | depth << 16, waits, nanoseconds, how many such it stands for, key, addresses leaf first …
//! ```

use super::stack::Found;
use crate::spin::Spin;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words that wait for the collector: 1 MiB, ten times what a tick's samples of 120 frames need.
const CAPACITY: usize = 128 << 10;

const HEAD: usize = 5;

static BUFFER: Spin<Vec<u64>> = Spin::new(Vec::new(), Vec::new);

/// Samples that found the buffer full.
static LOST: AtomicU64 = AtomicU64::new(0);

/// The kinds of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A wait.
    Wait,
    /// A wait that only a mutex of the standard library makes so.
    MutexWait,
    /// A lock that was let go.
    Hold,
}

/// The kind of a sample, and facts about the function at its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct What {
    pub(super) kind: Kind,
    /// Whether the leaf's caller may have come by a jump from a function that is not in the stack: see
    /// [`tail`](super::tail).
    pub(super) may_be_jumped_to: bool,
    pub(super) key: u64,
}

/// How much of a stack was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Up to the thread's first frame.
    Root,
    /// As much as is kept.
    Truncated,
    /// Not up to the thread's first frame.
    Lost,
}

/// A sample as it comes out.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    pub(super) what: What,
    pub(super) end: End,
    pub(super) count: u64,
    pub(super) nanos: u64,
    /// The number of such samples that it represents.
    pub(super) weight: f64,
    pub(super) addresses: &'a [u64],
}

/// Makes room; samples before are lost.
pub(super) fn reserve() {
    let empty = Vec::with_capacity(CAPACITY);
    let former = std::mem::replace(&mut *BUFFER.lock(), empty);
    drop(former);
}

/// Appends a sample of `count` waits and `nanos` nanoseconds, with its weight.
pub(super) fn push(what: What, [count, nanos]: [u64; 2], weight: f64, found: Found<'_>) {
    let mut words = BUFFER.lock();
    if words.len() + HEAD + found.addresses.len() > words.capacity() {
        LOST.fetch_add(1, Ordering::Relaxed);
        return;
    }
    words.push(
        what.kind as u64
            | u64::from(what.may_be_jumped_to) << 2
            | (found.end as u64) << 8
            | (found.addresses.len() as u64) << 16,
    );
    words.extend_from_slice(&[count, nanos, weight.to_bits(), what.key]);
    words.extend_from_slice(found.addresses);
}

/// Hands over all samples since the last call; `spare` gives the room for further ones, and becomes it next time.
pub(super) fn drain(spare: &mut Vec<u64>, mut each: impl FnMut(Sample<'_>)) {
    spare.clear();
    spare.reserve_exact(CAPACITY);
    std::mem::swap(&mut *BUFFER.lock(), spare);
    let words = &*spare;
    let mut rest = &words[..];
    while let [head, count, nanos, weight, key, tail @ ..] = rest {
        let kind = [Kind::Wait, Kind::MutexWait, Kind::Hold][(*head & 3).min(2) as usize];
        let end = [End::Root, End::Truncated, End::Lost][(*head >> 8 & 3).min(2) as usize];
        let Some((addresses, behind)) = tail.split_at_checked((*head >> 16) as usize) else { return };
        let what = What { kind, may_be_jumped_to: *head & 4 != 0, key: *key };
        each(Sample { what, end, count: *count, nanos: *nanos, weight: f64::from_bits(*weight), addresses });
        rest = behind;
    }
}

/// Samples lost so far.
pub(super) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_comes_out_and_what_finds_no_room_is_counted() {
        reserve();
        let found = |addresses| Found { addresses, end: End::Truncated };
        let what = |kind, key| What { kind, may_be_jumped_to: key > 4, key };
        push(what(Kind::Wait, 4), [1, 2], 3.0, found(&[10, 20]));
        push(what(Kind::Hold, 8), [5, 6], 0.5, found(&[]));
        let mut seen = Vec::new();
        drain(&mut Vec::new(), |sample| {
            assert_eq!(sample.end, End::Truncated);
            seen.push((sample.what, [sample.count, sample.nanos], sample.weight, sample.addresses.to_vec()));
        });
        assert_eq!(
            seen,
            [(what(Kind::Wait, 4), [1, 2], 3.0, vec![10, 20]), (what(Kind::Hold, 8), [5, 6], 0.5, vec![])]
        );
        let before = lost();
        (0..=CAPACITY / 500).for_each(|_| push(what(Kind::MutexWait, 0), [0; 2], 1.0, found(&[0; 500])));
        assert!(lost() > before);
        drain(&mut Vec::new(), |sample| assert_eq!(sample.addresses.len(), 500));
    }
}
