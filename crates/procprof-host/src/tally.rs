//! Waits that programs in the kernel measure: of each thread the exact totals by reason, and the stacks that share them.
//!
//! A sampled wait stands for itself alone, if waits as long as it are all sampled, or for what its thread waited since
//! its last sample. Waits that stand for themselves keep their time; the others share what is left of the total of their
//! reason, so that sums are exact.

use foldhash::HashMap;

use crate::reason::Reason;
use crate::waits::{Amount, Place, State, Waited, share_out};

/// The sampled waits of all threads; `S` names stacks.
#[derive(Debug)]
pub(crate) struct Tally<S> {
    threads: HashMap<u32, HashMap<(Reason, S), Seen>>,
}

/// What was seen of a stack.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Of waits that stand for themselves.
    alone: Amount,
    /// What the others stand for.
    shared: Amount,
}

impl<S> Default for Tally<S> {
    fn default() -> Self {
        Self { threads: HashMap::default() }
    }
}

impl<S: Copy + Eq + Ord + std::hash::Hash> Tally<S> {
    /// A thread's wait of so many nanoseconds, and those that it stands for, if not for itself alone.
    pub(crate) fn sampled(&mut self, tid: u32, reason: Reason, stack: S, nanos: u64, stands_for: Option<u64>) {
        let seen = self.threads.entry(tid).or_default().entry((reason, stack)).or_default();
        match stands_for {
            None => seen.alone.add(Amount { count: 1, nanos }),
            Some(all) => seen.shared.add(Amount { count: (all / nanos.max(1)).max(1), nanos: all.max(1) }),
        }
    }

    /// Shares the totals of a thread, one for each reason, among its stacks.
    pub(crate) fn waited(&mut self, tid: u32, totals: &[Amount; Reason::ALL.len()]) -> Vec<Waited<S>> {
        let mut seen: Vec<_> = self.threads.remove(&tid).unwrap_or_default().into_iter().collect();
        seen.sort_unstable_by_key(|(key, _)| *key);
        let mut waited = Vec::new();
        for (reason, total) in Reason::ALL.into_iter().zip(totals) {
            let state = if reason.is_preempted() { State::Preempted } else { State::Blocked };
            let mut add = |place, amount| {
                if amount != Amount::default() {
                    waited.push(Waited { state, reason: Some(reason), place, amount });
                }
            };
            if reason.is_short() {
                add(Place::Short, *total);
                continue;
            }
            let of_reason = || seen.iter().filter(|((other, _), _)| *other == reason);
            let mut left = *total;
            for ((_, stack), Seen { alone, .. }) in of_reason() {
                let known = Amount { count: alone.count.min(left.count), nanos: alone.nanos.min(left.nanos) };
                left = left.without(known);
                add(Place::Stack(*stack), known);
            }
            let shared: Vec<_> = of_reason().map(|((_, stack), seen)| (*stack, seen.shared)).collect();
            if shared.iter().all(|(_, amount)| amount.count == 0) {
                add(Place::Unknown, left);
            } else {
                share_out(left, shared, |stack, amount| add(Place::Stack(stack), amount));
            }
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(of: &[(Reason, u64, u64)]) -> [Amount; Reason::ALL.len()] {
        let mut totals = [Amount::default(); Reason::ALL.len()];
        of.iter().for_each(|(reason, count, nanos)| totals[*reason as usize] = Amount { count: *count, nanos: *nanos });
        totals
    }

    #[test]
    fn long_waits_keep_their_time_and_short_ones_share_the_rest() {
        let mut tally = Tally::default();
        tally.sampled(5, Reason::Futex, 1, 1000, None);
        tally.sampled(5, Reason::Futex, 2, 10, Some(100));
        tally.sampled(5, Reason::Futex, 3, 10, Some(300));
        tally.sampled(5, Reason::Poll, 4, 50, None);
        let totals = totals(&[(Reason::Futex, 101, 1800), (Reason::Poll, 2, 60), (Reason::ShortBlocked, 9, 7)]);
        let row = |reason, place, count, nanos| Waited {
            state: State::Blocked,
            reason: Some(reason),
            place,
            amount: Amount { count, nanos },
        };
        let expected = [
            row(Reason::ShortBlocked, Place::Short, 9, 7),
            row(Reason::Futex, Place::Stack(1), 1, 1000),
            row(Reason::Futex, Place::Stack(2), 25, 200),
            row(Reason::Futex, Place::Stack(3), 75, 600),
            row(Reason::Poll, Place::Stack(4), 1, 50),
            row(Reason::Poll, Place::Unknown, 1, 10),
        ];
        assert_eq!(tally.waited(5, &totals), expected);
        assert_eq!(tally.waited(5, &totals).len(), 3, "nothing is known of a later thread with the number");
    }

    proptest::proptest! {
        #[test]
        fn sums_are_the_totals(
            samples in proptest::collection::vec((0..13_usize, 0..4_u32, 0..1_u64 << 40, proptest::option::of(0..1_u64 << 40)), 0..40),
            amounts in proptest::collection::vec((0..1_u64 << 30, 0..1_u64 << 40), 13),
        ) {
            let mut tally = Tally::default();
            for (reason, stack, nanos, stands_for) in samples {
                tally.sampled(1, Reason::ALL[reason], stack, nanos, stands_for);
            }
            let mut totals = [Amount::default(); Reason::ALL.len()];
            totals.iter_mut().zip(amounts).for_each(|(total, (count, nanos))| *total = Amount { count, nanos });
            let (mut found, mut all) = (Amount::default(), Amount::default());
            tally.waited(1, &totals).iter().for_each(|waited| found.add(waited.amount));
            totals.iter().for_each(|total| all.add(*total));
            proptest::prop_assert_eq!(found, all);
        }
    }
}
