//! Waits of threads: the time from when a thread ceases to run until it runs again.
//!
//! The kernel records every switch, so that the time is exact; stacks it samples of every switch, or of one in so many
//! where there are more than can be afforded. The time is kept by thread, state and duration (a class for each power of
//! two): the sampled stacks of a class share its whole time, in proportion to what they were seen to wait. So sums are
//! exact, and a few long waits are not spread over the stacks of many short ones. Waits of 268 ms or more have a stack
//! of their own in any case: it is read from `/proc` while they last.

use foldhash::{HashMap, HashSet};
use procprof_profile::perf_event::Switch;

use crate::reason::Reason;

/// The class of waits that stand for themselves alone: 2^28 ns or more.
const LONG_CLASS: u8 = 28;
/// A wait without a stack is asked for it after so many nanoseconds.
const PATIENCE: u64 = 50_000_000;

/// Why a thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    /// It waits: for a lock, input, a timer.
    Blocked,
    /// It could run, but another thread has its CPU.
    Preempted,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Preempted => "preempted",
        }
    }
}

/// Waits, and nanoseconds of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) count: u64,
    pub(crate) nanos: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.nanos = self.nanos.saturating_add(other.nanos);
    }

    /// What is left without another amount.
    pub(crate) fn without(self, other: Self) -> Self {
        Self { count: self.count.saturating_sub(other.count), nanos: self.nanos.saturating_sub(other.nanos) }
    }
}

/// What is known of the stack of a wait; `S` names stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen<S> {
    /// Nothing; `is_asked` if it could not be read.
    Not { is_asked: bool },
    /// It was sampled when the wait began, as one of so many switches.
    Sampled { stack: S, weight: u64 },
    /// It was read during the wait, until this time.
    Read { stack: S, time: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Wait<S> {
    since: u64,
    state: State,
    seen: Seen<S>,
    /// Whether the thread has not been seen to cease: it is taken to wait since the recording began.
    is_assumed: bool,
}

/// The time of one thread.
#[derive(Debug)]
struct Thread<S> {
    pid: u32,
    /// `None` while it runs.
    wait: Option<Wait<S>>,
    /// The stack of the switch that is about to be recorded.
    sampled: Option<(S, u64)>,
    classes: HashMap<(State, u8), Class<S>>,
    /// Waits shorter than the least duration: of a blocked thread, and of a preempted one.
    short: [Amount; 2],
}

/// Waits of about the same duration.
#[derive(Debug)]
struct Class<S> {
    all: Amount,
    /// By stack what was seen, each wait as many times as it stands for.
    seen: HashMap<S, Amount>,
}

/// Where a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<S> {
    Stack(S),
    /// No stack of the waits is known.
    Unknown,
    /// The waits are shorter than the least duration.
    Short,
}

/// The time of a thread that a stack waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waited<S> {
    pub(crate) state: State,
    /// Where programs in the kernel told it.
    pub(crate) reason: Option<Reason>,
    pub(crate) place: Place<S>,
    pub(crate) amount: Amount,
}

/// The waits of all threads; `S` names stacks.
#[derive(Debug)]
pub(crate) struct Waits<S> {
    threads: HashMap<u32, Thread<S>>,
    /// Threads that have ended and cease to run once more.
    ended: HashSet<u32>,
    /// Those of them that had ended at the last cut but one.
    ended_before: HashSet<u32>,
    /// Nanoseconds; shorter waits are counted together.
    min_wait: u64,
    /// Switches whose counterpart is missing; the time between is not known.
    pub(crate) unmatched: u64,
}

impl<S: Copy + Eq + Ord + std::hash::Hash> Waits<S> {
    /// No waits; those shorter than so many nanoseconds will be counted together.
    pub(crate) fn new(min_wait: u64) -> Self {
        Self {
            threads: HashMap::default(),
            ended: HashSet::default(),
            ended_before: HashSet::default(),
            min_wait,
            unmatched: 0,
        }
    }

    /// A thread exists at the beginning; until it is seen to run, it is taken to wait.
    pub(crate) fn exists(&mut self, pid: u32, tid: u32, start: u64) {
        let seen = Seen::Not { is_asked: false };
        let wait = Wait { since: start, state: State::Blocked, seen, is_assumed: true };
        self.thread(pid, tid).wait = Some(wait);
    }

    /// A thread begins: its number may have been that of another.
    pub(crate) fn begins(&mut self, tid: u32) {
        self.ended.remove(&tid);
        self.ended_before.remove(&tid);
    }

    /// Whether a thread has ended, and is only seen to cease.
    pub(crate) fn has_ended(&self, tid: u32) -> bool {
        self.ended.contains(&tid) || self.ended_before.contains(&tid)
    }

    /// The stack of a thread that is about to cease to run, a sample of `weight` switches.
    pub(crate) fn sampled(&mut self, pid: u32, tid: u32, stack: S, weight: u64) {
        let thread = self.thread(pid, tid);
        // Two events may sample the same switch while one takes the place of the other.
        if thread.sampled.is_none_or(|(_, known)| weight < known) {
            thread.sampled = Some((stack, weight));
        }
    }

    /// A thread begins to run or ceases to.
    pub(crate) fn switched(&mut self, switch: &Switch) {
        let time = switch.time;
        let mut is_unmatched = false;
        let min_wait = self.min_wait;
        let thread = self.thread(switch.pid, switch.tid);
        if switch.is_out {
            // One that ceases to run has been running, whatever was assumed.
            is_unmatched = thread.wait.take().is_some_and(|wait| !wait.is_assumed);
            let state = if switch.is_preempted { State::Preempted } else { State::Blocked };
            let seen = match thread.sampled.take() {
                Some((stack, weight)) => Seen::Sampled { stack, weight },
                None => Seen::Not { is_asked: false },
            };
            thread.wait = Some(Wait { since: time, state, seen, is_assumed: false });
        } else if let Some(wait) = thread.wait.take() {
            thread.ends(wait, time, min_wait);
        }
        self.unmatched += u64::from(is_unmatched);
    }

    /// At most so many waiting threads (process, thread) whose stacks should be read; each is named once in a wait.
    pub(crate) fn without_stack(&mut self, now: u64, most: usize) -> Vec<(u32, u32)> {
        let mut threads = Vec::new();
        for (tid, thread) in &mut self.threads {
            if threads.len() == most {
                break;
            }
            let Some(wait) = &mut thread.wait else { continue };
            let is_due = wait.is_assumed || now.saturating_sub(wait.since) >= PATIENCE;
            if is_due && wait.state == State::Blocked && wait.seen == (Seen::Not { is_asked: false }) {
                wait.seen = Seen::Not { is_asked: true };
                threads.push((thread.pid, *tid));
            }
        }
        threads
    }

    /// The stack of a waiting thread, read until `time`.
    pub(crate) fn read(&mut self, tid: u32, stack: S, time: u64) {
        if let Some(wait) = self.waiting(tid) {
            wait.seen = Seen::Read { stack, time };
        }
    }

    /// A thread is found to run.
    pub(crate) fn runs(&mut self, tid: u32) {
        if self.waiting(tid).is_some_and(|wait| wait.is_assumed)
            && let Some(thread) = self.threads.get_mut(&tid)
        {
            thread.wait = None;
        }
    }

    /// A thread ends: its process and what it waited.
    pub(crate) fn exited(&mut self, tid: u32) -> Option<(u32, Vec<Waited<S>>)> {
        self.ended.insert(tid);
        self.threads.remove(&tid).map(|thread| (thread.pid, thread.waited()))
    }

    /// All threads at the end, each with its process and what it waited.
    pub(crate) fn finish(&mut self, end: u64) -> Vec<(u32, u32, Vec<Waited<S>>)> {
        let mut threads: Vec<_> = self.threads.drain().collect();
        threads.sort_unstable_by_key(|(tid, _)| *tid);
        let min_wait = self.min_wait;
        let last = |(tid, mut thread): (u32, Thread<S>)| {
            if let Some(wait) = thread.wait.take() {
                thread.ends(wait, end, min_wait);
            }
            (thread.pid, tid, thread.waited())
        };
        threads.into_iter().map(last).collect()
    }

    /// All threads up to now, as by `finish`; waits that last go on. A wait counts on either side of a cut.
    pub(crate) fn cut(&mut self, end: u64) -> Vec<(u32, u32, Vec<Waited<S>>)> {
        self.ended_before = std::mem::take(&mut self.ended);
        let mut cut = Vec::new();
        for (tid, thread) in &mut self.threads {
            if let Some(wait) = thread.wait {
                thread.ends(wait, end, self.min_wait);
                thread.wait = Some(Wait { since: end, ..wait });
            }
            let waited = thread.take_waited();
            if !waited.is_empty() {
                cut.push((thread.pid, *tid, waited));
            }
        }
        cut.sort_unstable_by_key(|(_, tid, _)| *tid);
        cut
    }

    /// The stacks of what is not over.
    pub(crate) fn held(&self) -> impl Iterator<Item = S> {
        self.threads.values().flat_map(|thread| {
            let of_wait = thread.wait.and_then(|wait| match wait.seen {
                Seen::Sampled { stack, .. } | Seen::Read { stack, .. } => Some(stack),
                Seen::Not { .. } => None,
            });
            of_wait.into_iter().chain(thread.sampled.map(|(stack, _)| stack))
        })
    }

    /// Names the held stacks anew, after a cut.
    pub(crate) fn rename(&mut self, renamed: impl Fn(S) -> S) {
        for thread in self.threads.values_mut() {
            if let Some(wait) = &mut thread.wait
                && let Seen::Sampled { stack, .. } | Seen::Read { stack, .. } = &mut wait.seen
            {
                *stack = renamed(*stack);
            }
            if let Some((stack, _)) = &mut thread.sampled {
                *stack = renamed(*stack);
            }
        }
    }

    /// Forgets the threads of processes that are gone.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.threads.retain(|_, thread| !is_gone(thread.pid));
    }

    fn thread(&mut self, pid: u32, tid: u32) -> &mut Thread<S> {
        let new =
            || Thread { pid, wait: None, sampled: None, classes: HashMap::default(), short: [Amount::default(); 2] };
        self.threads.entry(tid).or_insert_with(new)
    }

    fn waiting(&mut self, tid: u32) -> Option<&mut Wait<S>> {
        self.threads.get_mut(&tid)?.wait.as_mut()
    }
}

impl<S: Copy + Eq + Ord + std::hash::Hash> Thread<S> {
    fn ends(&mut self, wait: Wait<S>, time: u64, min_wait: u64) {
        let nanos = time.saturating_sub(wait.since);
        if nanos < min_wait {
            return self.short[usize::from(wait.state == State::Preempted)].add(Amount { count: 1, nanos });
        }
        let class = nanos.checked_ilog2().unwrap_or(0) as u8;
        let totals = self.classes.entry((wait.state, class)).or_default();
        totals.all.add(Amount { count: 1, nanos });
        let (stack, weight) = match wait.seen {
            Seen::Sampled { stack, .. } if class >= LONG_CLASS => (stack, 1),
            Seen::Sampled { stack, weight } => (stack, weight.max(1)),
            Seen::Read { stack, time: read } if read <= time => (stack, 1),
            Seen::Read { .. } | Seen::Not { .. } => return,
        };
        let seen = Amount { count: weight, nanos: nanos.max(1).saturating_mul(weight) };
        totals.seen.entry(stack).or_default().add(seen);
    }

    /// Shares the time of each class among its stacks; the sums are those of the class.
    fn waited(mut self) -> Vec<Waited<S>> {
        self.take_waited()
    }

    fn take_waited(&mut self) -> Vec<Waited<S>> {
        let mut waited = Vec::new();
        let mut classes: Vec<_> = self.classes.drain().collect();
        classes.sort_unstable_by_key(|(key, _)| *key);
        let mut add = |state, place, amount| {
            if amount != Amount::default() {
                waited.push(Waited { state, reason: None, place, amount });
            }
        };
        for ((state, class), totals) in classes {
            let mut stacks: Vec<_> = totals.seen.into_iter().collect();
            stacks.sort_unstable_by_key(|(stack, _)| *stack);
            let mut seen = Amount::default();
            stacks.iter().for_each(|(_, amount)| seen.add(*amount));
            let mut all = totals.all;
            if class >= LONG_CLASS || seen.count == 0 {
                // What has no stack is not said to have that of another wait.
                let known = Amount { count: seen.count.min(all.count), nanos: seen.nanos.min(all.nanos) };
                add(state, Place::Unknown, all.without(known));
                all = known;
            }
            share_out(all, stacks, |stack, amount| add(state, Place::Stack(stack), amount));
        }
        for (state, amount) in [State::Blocked, State::Preempted].into_iter().zip(std::mem::take(&mut self.short)) {
            add(state, Place::Short, amount);
        }
        waited
    }
}

impl<S> Default for Class<S> {
    fn default() -> Self {
        Self { all: Amount::default(), seen: HashMap::default() }
    }
}

/// Shares an amount among stacks, in proportion to theirs.
pub(crate) fn share_out<S>(all: Amount, stacks: Vec<(S, Amount)>, mut add: impl FnMut(S, Amount)) {
    let mut sum = Amount::default();
    stacks.iter().for_each(|(_, amount)| sum.add(*amount));
    let (mut up_to, mut given) = (Amount::default(), Amount::default());
    for (stack, amount) in stacks {
        up_to.add(amount);
        let upper =
            Amount { count: share(all.count, up_to.count, sum.count), nanos: share(all.nanos, up_to.nanos, sum.nanos) };
        add(stack, upper.without(given));
        given = upper;
    }
}

/// `part / whole` of an amount, rounded down; all of it where the part is the whole.
fn share(amount: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(amount) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(amount).min(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn switch(tid: u32, time: u64, is_out: bool, is_preempted: bool) -> Switch {
        Switch { pid: 1, tid, time, id: 0, is_out, is_preempted }
    }

    fn out(waits: &mut Waits<u32>, tid: u32, time: u64, stack: Option<(u32, u64)>) {
        if let Some((stack, weight)) = stack {
            waits.sampled(1, tid, stack, weight);
        }
        waits.switched(&switch(tid, time, true, false));
    }

    fn back(waits: &mut Waits<u32>, tid: u32, time: u64) {
        waits.switched(&switch(tid, time, false, false));
    }

    /// What a thread waited, by state and stack.
    fn waited(waits: &mut Waits<u32>, end: u64) -> Vec<(State, Option<u32>, u64, u64)> {
        let mut rows: HashMap<(State, Option<u32>), Amount> = HashMap::default();
        for (_, _, waited) in waits.finish(end) {
            for Waited { state, place, amount, .. } in waited {
                let stack = if let Place::Stack(stack) = place { Some(stack) } else { None };
                rows.entry((state, stack)).or_default().add(amount);
            }
        }
        let mut rows: Vec<_> =
            rows.into_iter().map(|((state, stack), amount)| (state, stack, amount.count, amount.nanos)).collect();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn a_wait_lasts_until_the_thread_runs_again() {
        let mut waits = Waits::new(0);
        out(&mut waits, 5, 100, Some((7, 1)));
        back(&mut waits, 5, 350);
        waits.sampled(1, 5, 8, 1);
        waits.switched(&switch(5, 400, true, true));
        back(&mut waits, 5, 410);
        out(&mut waits, 5, 500, Some((7, 1)));
        let rows = [(State::Blocked, Some(7), 2, 250 + 500), (State::Preempted, Some(8), 1, 10)];
        assert_eq!(waited(&mut waits, 1000), rows);
    }

    #[test]
    fn the_time_of_switches_that_were_not_sampled_is_shared() {
        let mut waits = Waits::new(0);
        for round in 0..1000_u64 {
            // One of a hundred is sampled, in turns of two stacks of which one waits half as long again.
            let stack = round / 100 % 2;
            let sampled = (round % 100 == 0).then_some((stack as u32, 100));
            out(&mut waits, 5, round * MS, sampled);
            back(&mut waits, 5, round * MS + 140_000 + stack * 70_000);
        }
        let rows = waited(&mut waits, 1000 * MS);
        let total: u64 = rows.iter().map(|row| row.3).sum();
        assert_eq!((total, rows.iter().map(|row| row.2).sum::<u64>()), (500 * 140_000 + 500 * 210_000, 1000));
        assert_eq!(rows, [(State::Blocked, Some(0), 500, 70 * MS), (State::Blocked, Some(1), 500, 105 * MS)]);
    }

    #[test]
    fn a_long_wait_keeps_its_time_to_itself() {
        let mut waits = Waits::new(0);
        out(&mut waits, 5, 0, Some((1, 1000)));
        back(&mut waits, 5, 1000);
        out(&mut waits, 5, MS, None);
        assert_eq!(waits.without_stack(10 * MS, 9), []);
        assert_eq!(waits.without_stack(100 * MS, 9), [(1, 5)]);
        assert_eq!(waits.without_stack(200 * MS, 9), []);
        waits.read(5, 2, 101 * MS);
        back(&mut waits, 5, 1001 * MS);
        out(&mut waits, 5, 2000 * MS, None);
        back(&mut waits, 5, 3000 * MS);
        let rows = [
            (State::Blocked, None, 1, 1000 * MS),
            (State::Blocked, Some(1), 1, 1000),
            (State::Blocked, Some(2), 1, 1000 * MS),
        ];
        assert_eq!(waited(&mut waits, 4000 * MS), rows);
    }

    #[test]
    fn a_stack_that_was_read_too_late_is_not_that_of_the_wait() {
        let mut waits = Waits::new(0);
        out(&mut waits, 5, 0, None);
        assert_eq!(waits.without_stack(60 * MS, 9), [(1, 5)]);
        waits.read(5, 2, 80 * MS);
        back(&mut waits, 5, 70 * MS);
        assert_eq!(waited(&mut waits, 80 * MS), [(State::Blocked, None, 1, 70 * MS)]);
    }

    #[test]
    fn threads_at_the_beginning_wait_unless_they_are_seen_to_run() {
        let mut waits = Waits::new(0);
        (5..9).for_each(|tid| waits.exists(1, tid, 1000));
        let mut asked = waits.without_stack(1000, 9);
        asked.sort_unstable();
        assert_eq!(asked, [(1, 5), (1, 6), (1, 7), (1, 8)]);
        // 5 waits all the time, 6 until it runs, 7 has been running, as 8 is found to do.
        waits.read(5, 1, 2000);
        waits.read(6, 2, 2000);
        back(&mut waits, 6, 3000);
        out(&mut waits, 7, 4000, Some((3, 1)));
        waits.runs(8);
        let rows = [
            (State::Blocked, Some(1), 1, 9000),
            (State::Blocked, Some(2), 1, 2000),
            (State::Blocked, Some(3), 1, 6000),
        ];
        assert_eq!((waited(&mut waits, 10_000), waits.unmatched), (rows.to_vec(), 0));
    }

    #[test]
    fn a_thread_ends_with_what_it_waited() {
        let mut waits = Waits::new(0);
        out(&mut waits, 5, 100, Some((7, 1)));
        back(&mut waits, 5, 200);
        let amount = Amount { count: 1, nanos: 100 };
        let expected = vec![Waited { state: State::Blocked, reason: None, place: Place::Stack(7), amount }];
        assert_eq!(waits.exited(5), Some((1, expected)));
        assert_eq!((waits.has_ended(5), waited(&mut waits, 1000)), (true, vec![]));
        waits.begins(5);
        assert!(!waits.has_ended(5));
        out(&mut waits, 5, 2000, Some((7, 1)));
        assert_eq!(waited(&mut waits, 2500), [(State::Blocked, Some(7), 1, 500)]);
    }

    #[test]
    fn short_waits_are_counted_together() {
        let mut waits = Waits::new(100);
        out(&mut waits, 5, 0, Some((7, 1)));
        back(&mut waits, 5, 99);
        out(&mut waits, 5, 200, Some((7, 1)));
        back(&mut waits, 5, 300);
        waits.switched(&switch(5, 400, true, true));
        back(&mut waits, 5, 410);
        let row = |state, place, nanos| Waited { state, reason: None, place, amount: Amount { count: 1, nanos } };
        let rows = vec![
            row(State::Blocked, Place::Stack(7), 100),
            row(State::Blocked, Place::Short, 99),
            row(State::Preempted, Place::Short, 10),
        ];
        assert_eq!(waits.finish(500), [(1, 5, rows)]);
    }

    #[test]
    fn a_missing_switch_is_counted_and_its_time_left_out() {
        let mut waits = Waits::new(0);
        out(&mut waits, 5, 100, Some((7, 1)));
        out(&mut waits, 5, 300, Some((7, 1)));
        back(&mut waits, 5, 400);
        back(&mut waits, 5, 500);
        assert_eq!((waited(&mut waits, 1000), waits.unmatched), (vec![(State::Blocked, Some(7), 1, 100)], 1));
    }

    #[test]
    fn waits_that_last_over_a_cut_are_in_both_parts() {
        let mut waits = Waits::new(0);
        out(&mut waits, 5, 100, Some((7, 1)));
        out(&mut waits, 6, 100, Some((8, 1)));
        back(&mut waits, 6, 300);
        let times = |cut: Vec<(u32, u32, Vec<Waited<u32>>)>| -> Vec<(u32, Place<u32>, u64)> {
            cut.iter()
                .flat_map(|(_, tid, waited)| waited.iter().map(|one| (*tid, one.place, one.amount.nanos)))
                .collect()
        };
        assert_eq!(times(waits.cut(1000)), [(5, Place::Stack(7), 900), (6, Place::Stack(8), 200)]);
        assert_eq!(waits.held().collect::<Vec<_>>(), [7]);
        waits.rename(|stack| stack + 10);
        back(&mut waits, 5, 1500);
        assert_eq!(times(waits.cut(2000)), [(5, Place::Stack(17), 500)]);
        assert_eq!(waits.exited(5), Some((1, vec![])));
        waits.cut(3000);
        assert!(waits.has_ended(5));
        waits.cut(4000);
        assert!(!waits.has_ended(5));
        waits.forget(|pid| pid == 1);
        assert_eq!(waits.held().count() + waits.threads.len(), 0);
    }

    proptest::proptest! {
        #[test]
        fn sums_are_those_of_the_switches(
            waits_of in proptest::collection::vec((0..4_u32, 0..1_u64 << 33, proptest::option::of((0..3_u32, 1..2000_u64)), 0..9_u64), 0..200)
        ) {
            let (mut waits, mut time, mut nanos) = (Waits::new(0), 0, 0);
            for (tid, duration, sampled, ran) in &waits_of {
                out(&mut waits, *tid, time, *sampled);
                time += duration;
                nanos += duration;
                back(&mut waits, *tid, time);
                time += ran;
            }
            let rows = waited(&mut waits, time);
            proptest::prop_assert_eq!(rows.iter().map(|row| row.2).sum::<u64>(), waits_of.len() as u64);
            proptest::prop_assert_eq!(rows.iter().map(|row| row.3).sum::<u64>(), nanos);
        }
    }
}
