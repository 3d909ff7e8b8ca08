//! The account of one capture: how much CPU time each stack represents between two moments.
//!
//! Several windows may be open over the same samples. A sample weighs the CPU time its thread used since the thread's
//! previous sample in this window, at most two periods; the rest is kept as unsampled time of that thread. CPU time
//! after the last sample, half a period on average, is spread over the thread's samples: they lie at random in its
//! time, so they represent that part as they represent the rest. Where it is longer than two periods, or the thread has
//! no sample or no source of samples, it is unsampled. So all weights add up to the CPU time of the process.

use super::ring::{Origin, Record};
use super::walk::End;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Words a window keeps in distinct stacks (64 MiB); samples of further stacks are counted as lost.
const MAX_WORDS: usize = 8 << 20;

/// Words a stack takes beside its addresses: its place in the table, half of which may be empty, and what the allocator
/// adds.
const STACK_WORDS: usize = 12;

/// Threads of which a window keeps an account; of further ones samples are counted as lost, and their time as that of
/// ended threads.
const MAX_THREADS: usize = 1 << 16;

/// A thread as the engine sees it at one moment.
#[derive(Clone, Debug)]
pub(crate) struct ThreadView {
    /// Unique over the sampler's life, unlike `tid`.
    pub(crate) key: u64,
    pub(crate) tid: i32,
    pub(crate) name: Arc<str>,
    /// Its CPU clock, nanoseconds.
    pub(crate) cpu: u64,
    /// CPU time it has used without a sample while it blocked SIGPROF, nanoseconds.
    pub(crate) blocked: u64,
    /// Whether it was armed when it started and has only had samples of the kernel's tick, each of which represents the
    /// same amount.
    pub(crate) is_born: bool,
}

/// How often a stack was seen and how much CPU time it represents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) samples: u64,
    pub(crate) nanos: u64,
}

/// One thread's part of a window.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) tid: i32,
    pub(crate) name: Arc<str>,
    /// By labels and addresses, as a record has them.
    pub(crate) stacks: HashMap<Box<[u64]>, Weight>,
    /// Samples, and those of them that perf events made.
    pub(crate) samples: u64,
    pub(crate) by_perf: u64,
    /// CPU time that no sample represents, nanoseconds.
    pub(crate) unsampled: u64,
    /// The part of it for which the thread blocked SIGPROF.
    pub(crate) blocked: u64,
    /// Whether its samples also represent other threads that lived as shortly.
    is_born: bool,
    /// CPU time, in nanoseconds, that the thread had used while blocking the signal before this window.
    blocked_before: u64,
    /// CPU time after the last sample, to be spread over all.
    tail: u64,
    /// While it may be short, its samples' stacks and the thread's clock at each.
    early: Vec<(Box<[u64]>, u64)>,
    began: u64,
    accounted: u64,
}

/// Samples that are not as they should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shortfalls {
    /// Samples that found a ring or the window full.
    pub(crate) lost: u64,
    /// Samples whose stack was cut at the depth limit.
    pub(crate) truncated: u64,
    /// Samples on a stack that was not known, of which only the leaf was kept.
    pub(crate) unwalked: u64,
    /// Samples in code that was not known yet; callers in the same code are missing.
    pub(crate) in_new_code: u64,
    /// Samples whose walk ended before the thread's first frame.
    pub(crate) without_root: u64,
    /// Samples some of whose callers were found by a scan of the stack.
    pub(crate) scanned: u64,
    /// Threads the kernel gave no timer for.
    pub(crate) threads_without_timer: u64,
    /// Threads that must not be signalled.
    pub(crate) threads_in_sandbox: usize,
    /// Checks that found another handler in the place of ours, so that nothing was sampled.
    pub(crate) looks_without_handler: u64,
}

/// An open capture.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) started: SystemTime,
    pub(crate) began: Instant,
    /// Its length, once it has ended.
    pub(crate) length: Duration,
    pub(crate) shortfalls: Shortfalls,
    /// CPU time, counted from some moment, of threads that were born and ended without a sample, at the beginning and
    /// at the end; nanoseconds.
    pub(crate) silent: Range<u64>,
    process_began: u64,
    cap: u64,
    shares: HashMap<u64, Share>,
    words: usize,
}

impl Window {
    /// Opens a window now; a sample in it weighs at most `cap` nanoseconds.
    pub(crate) fn open<'a>(threads: impl Iterator<Item = &'a ThreadView>, process_cpu: u64, cap: u64) -> Self {
        let shares = threads.map(|thread| (thread.key, Share::since(thread, thread.cpu, thread.blocked))).collect();
        let (started, began, shortfalls) = (SystemTime::now(), Instant::now(), Shortfalls::default());
        let length = Duration::ZERO;
        Self { started, began, length, shortfalls, silent: 0..0, process_began: process_cpu, cap, shares, words: 0 }
    }

    /// Ends it now: what is done with it afterwards may take long.
    pub(crate) fn end(&mut self) {
        self.length = self.began.elapsed();
    }

    /// Accounts a sample of a thread.
    pub(crate) fn sample(&mut self, thread: &ThreadView, record: &Record<'_>) {
        let Some(share) = share(&mut self.shares, thread) else {
            self.shortfalls.lost += 1;
            return;
        };
        let Some(used) = record.cpu.checked_sub(share.accounted).filter(|used| *used > 0) else { return };
        share.accounted = record.cpu;
        share.name.clone_from(&thread.name);
        share.samples += 1;
        share.by_perf += u64::from(record.origin == Origin::Perf);
        let nanos = used.min(self.cap);
        share.unsampled += used - nanos;
        self.shortfalls.truncated += u64::from(record.end == End::Truncated);
        self.shortfalls.unwalked += u64::from(record.end == End::UnknownStack);
        self.shortfalls.in_new_code += u64::from(record.end == End::UnknownCode);
        self.shortfalls.without_root += u64::from(record.end == End::Lost);
        self.shortfalls.scanned += u64::from(record.end == End::Scanned);
        let words = record.words.len() + STACK_WORDS;
        if let Some(weight) = share.stacks.get_mut(record.words) {
            weight.samples += 1;
            weight.nanos += nanos;
        } else if self.words + words <= MAX_WORDS {
            self.words += words;
            share.stacks.insert(record.words.into(), Weight { samples: 1, nanos });
        } else {
            self.shortfalls.lost += 1;
            share.unsampled += nanos;
            return;
        }
        if !thread.is_born {
            return;
        }
        if share.total() > self.cap {
            share.early = Vec::new();
        } else if self.words + words <= MAX_WORDS {
            self.words += words;
            share.early.push((record.words.into(), record.cpu));
        }
    }

    /// Accounts what a thread has used up to its clock in `thread` and no sample has covered, where no further sample
    /// of it will come.
    pub(crate) fn settle(&mut self, thread: &ThreadView) {
        self.settle_as(thread, false);
    }

    /// Accounts likewise what a thread has used that was armed until now.
    pub(crate) fn settle_armed(&mut self, thread: &ThreadView) {
        self.settle_as(thread, true);
    }

    fn settle_as(&mut self, thread: &ThreadView, is_armed: bool) {
        let cap = self.cap;
        let Some(share) = share(&mut self.shares, thread) else { return };
        let rest = thread.cpu.saturating_sub(share.accounted);
        let is_tail = is_armed && rest <= cap && share.samples > 0;
        *if is_tail { &mut share.tail } else { &mut share.unsampled } += rest;
        share.accounted = share.accounted.max(thread.cpu);
        share.blocked = thread.blocked.saturating_sub(share.blocked_before);
        share.name.clone_from(&thread.name);
        share.is_born = thread.is_born;
    }

    /// Closes the window: the threads' shares, and the CPU time of threads that ended before they could be read.
    ///
    /// All live threads must have been settled; `process_cpu` was read before their clocks.
    pub(crate) fn close(self, process_cpu: u64) -> (Vec<Share>, u64) {
        let known: u64 = self.shares.values().map(|share| share.accounted - share.began).sum();
        let of_unread_threads = process_cpu.saturating_sub(self.process_began).saturating_sub(known);
        let mut shares: Vec<Share> = self.shares.into_values().collect();
        shares.iter_mut().for_each(Share::spread_tail);
        shares.sort_by_key(|share| share.tid);
        let silent = self.silent.end.saturating_sub(self.silent.start).min(of_unread_threads);
        let left = share_out(&mut shares, silent, self.cap);
        (shares, of_unread_threads - silent + left)
    }
}

impl Share {
    fn since(thread: &ThreadView, cpu: u64, blocked: u64) -> Self {
        Self {
            tid: thread.tid,
            name: thread.name.clone(),
            stacks: HashMap::new(),
            samples: 0,
            by_perf: 0,
            unsampled: 0,
            blocked: 0,
            is_born: thread.is_born,
            blocked_before: blocked,
            tail: 0,
            early: Vec::new(),
            began: cpu,
            accounted: cpu,
        }
    }

    /// CPU time in the window, nanoseconds.
    fn total(&self) -> u64 {
        self.accounted - self.began
    }

    /// Whether the samples of all threads that were armed when they started represent this thread's little CPU time
    /// better than its own.
    fn is_short(&self, cap: u64) -> bool {
        let has_all = self.early.len() as u64 == self.samples;
        self.is_born && self.blocked == 0 && self.total() <= cap && has_all
    }

    /// The index, of `parts` equal parts of its CPU time in the window, that contains the clock value `cpu`.
    fn part(&self, cpu: u64, parts: u64) -> usize {
        (cpu.saturating_sub(self.began) * parts / self.total().max(1)).min(parts - 1) as usize
    }

    /// Adds its part of the tail to each stack; what can't be divided goes to the last.
    fn spread_tail(&mut self) {
        let tail = std::mem::take(&mut self.tail);
        let mut nanos: u64 = self.stacks.values().map(|weight| weight.nanos).sum();
        let mut left = tail;
        for weight in self.stacks.values_mut().filter(|weight| weight.nanos > 0) {
            let part = u128::from(left) * u128::from(weight.nanos) / u128::from(nanos);
            let part = u64::try_from(part).unwrap_or(left);
            nanos -= weight.nanos;
            weight.nanos += part;
            left -= part;
        }
        self.unsampled += left;
        self.blocked = self.blocked.min(self.unsampled);
    }
}

/// For each distinguished part of a life: the samples of short threads that it needs; and the most parts.
const SAMPLES_OF_A_PART: u64 = 16;
const MOST_PARTS: u64 = 16;

/// Divides the CPU time of threads that lived shortly, `silent` of which without a sample, among their samples: with a
/// sample at each of the kernel's ticks, each represents the same amount, whether its thread was longer or shorter. So
/// a thread that a tick meets represents those that none did.
///
/// All threads have used a tenth of their time in the first tenth of their lives. Where ticks meet them there more
/// often than elsewhere, as threads that keep step with the scheduler on a busy machine, samples of one part of a life
/// do not represent another. Returns the time that no sample represents, and that which would make a sample weigh more
/// than `cap`.
fn share_out(shares: &mut [Share], silent: u64, cap: u64) -> u64 {
    let mut short: Vec<&mut Share> = shares.iter_mut().filter(|share| share.is_short(cap)).collect();
    let samples: u64 = short.iter().map(|share| share.samples).sum();
    if samples == 0 {
        return silent;
    }
    let time = silent + short.iter().map(|share| share.total()).sum::<u64>();
    let parts = (samples / SAMPLES_OF_A_PART).clamp(1, MOST_PARTS);
    let mut met = vec![0; parts as usize];
    for share in &short {
        share.early.iter().for_each(|(_, cpu)| met[share.part(*cpu, parts)] += 1);
    }
    let each: Vec<u64> =
        met.iter().map(|samples| (time / parts).checked_div(*samples).map_or(0, |each: u64| each.min(cap))).collect();
    for share in &mut short {
        share.unsampled = 0;
        share.stacks.values_mut().for_each(|weight| weight.nanos = 0);
        for (stack, cpu) in std::mem::take(&mut share.early) {
            let part = share.part(cpu, parts);
            if let Some(weight) = share.stacks.get_mut(&stack) {
                weight.nanos += each[part];
            }
        }
    }
    let left = time - met.iter().zip(&each).map(|(samples, each)| samples * each).sum::<u64>();
    // What can't be divided.
    let last = short.iter_mut().flat_map(|share| share.stacks.values_mut()).next().filter(|_| left < samples + parts);
    last.map_or(left, |weight| {
        weight.nanos += left;
        0
    })
}

/// A thread's share; one that was not there when the window opened has used all its time in it. `None` at
/// [`MAX_THREADS`].
fn share<'a>(shares: &'a mut HashMap<u64, Share>, thread: &ThreadView) -> Option<&'a mut Share> {
    if shares.len() >= MAX_THREADS && !shares.contains_key(&thread.key) {
        return None;
    }
    Some(shares.entry(thread.key).or_insert_with(|| Share::since(thread, 0, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(key: u64, cpu: u64) -> ThreadView {
        ThreadView { key, tid: key as i32, name: "worker".into(), cpu, blocked: 0, is_born: false }
    }

    fn record(cpu: u64, words: &[u64]) -> Record<'_> {
        Record { cpu, end: End::Root, origin: Origin::Tick, words }
    }

    #[test]
    fn weights_and_unsampled_time_add_up_to_the_process() {
        let old = thread(1, 1000);
        let mut window = Window::open([&old].into_iter(), 5000, 20);
        window.sample(&old, &record(990, &[0, 7]));
        window.sample(&old, &record(1010, &[0, 7]));
        window.sample(&old, &record(1100, &[0, 8]));
        let born = thread(2, 30);
        window.sample(&born, &record(15, &[0, 9]));
        window.settle(&thread(1, 1105));
        window.settle(&born);
        let (shares, unread) = window.close(5000 + 105 + 30 + 12);
        assert_eq!(unread, 12);
        assert_eq!(
            shares[0].stacks[[0, 7].as_slice()],
            Weight { samples: 1, nanos: 10 },
            "a sample from before is not ours"
        );
        assert_eq!(shares[0].stacks[[0, 8].as_slice()], Weight { samples: 1, nanos: 20 }, "capped");
        assert_eq!(shares[0].unsampled, 70 + 5);
        assert_eq!((shares[1].stacks[[0, 9].as_slice()].nanos, shares[1].unsampled), (15, 15));
    }

    #[test]
    fn what_comes_after_the_last_sample_is_spread_over_the_threads_samples() {
        let mut window = Window::open(std::iter::empty(), 0, 100);
        let armed = |key, cpu| thread(key, cpu);
        for (cpu, words) in [(30, [0, 7]), (60, [0, 7]), (90, [0, 8])] {
            window.sample(&armed(1, cpu), &record(cpu, &words));
        }
        window.settle_armed(&armed(1, 131));
        window.settle_armed(&armed(2, 50));
        window.sample(&armed(3, 20), &record(20, &[0, 9]));
        window.settle_armed(&armed(3, 121));
        let (shares, unread) = window.close(131 + 50 + 121);
        let stack = |share: usize, words: [u64; 2]| shares[share].stacks[words.as_slice()];
        let (two, one) = (stack(0, [0, 7]), stack(0, [0, 8]));
        assert_eq!((two.samples, one.samples, two.nanos + one.nanos, unread), (2, 1, 131, 0));
        assert!((87..=88).contains(&two.nanos), "{}: two thirds", two.nanos);
        assert_eq!((shares[0].unsampled, shares[1].unsampled), (0, 50), "without a sample");
        assert_eq!((stack(2, [0, 9]).nanos, shares[2].unsampled), (20, 101), "longer than a sample may weigh");
    }

    /// Of threads of 2 and of 6, a tick each 8 meets a quarter and three quarters, somewhere in their work.
    #[test]
    fn samples_of_short_threads_stand_for_those_without_one_by_their_number() {
        let born = |key, cpu| ThreadView { is_born: true, ..thread(key, cpu) };
        let mut window = Window::open(std::iter::empty(), 0, 40);
        window.silent = 1000..1000 + 3 * 2 + 6;
        window.sample(&born(1, 1), &record(1, &[0, 7]));
        window.settle_armed(&born(1, 2));
        for key in 2..5 {
            window.sample(&born(key, 5), &record(5, &[0, 8]));
            window.settle_armed(&born(key, 6));
        }
        window.sample(&born(5, 41), &record(41, &[0, 9]));
        window.settle_armed(&born(5, 41));
        let (shares, unread) = window.close(4 * 2 + 4 * 6 + 41 + 3);
        let of = |share: usize, leaf: u64| shares[share].stacks[[0, leaf].as_slice()].nanos;
        assert_eq!((of(0, 7), [1, 2, 3].map(|share| of(share, 8))), (8, [8; 3]), "four of 2, and four of 6");
        assert_eq!((of(4, 9), shares[4].unsampled, unread), (40, 1, 3), "a long one stands for itself alone");
    }

    /// Threads of 1000 that run `7` up to 700 and then `8`, 64 of which a tick has met at each of some ages, and as
    /// many that none has.
    fn ordered(ages: &[u64]) -> [u64; 3] {
        let mut window = Window::open(std::iter::empty(), 0, 100_000);
        let count = 64 * ages.len() as u64;
        window.silent = 0..1000 * count;
        for key in 0..count {
            let born = |cpu| ThreadView { is_born: true, ..thread(key, cpu) };
            let age = ages[key as usize % ages.len()];
            window.sample(&born(age), &record(age, &[0, if age < 700 { 7 } else { 8 }]));
            window.settle_armed(&born(1000));
        }
        let (shares, unread) = window.close(2000 * count);
        let of = |leaf| {
            shares
                .iter()
                .filter_map(|share| share.stacks.get([0, leaf].as_slice()))
                .map(|weight| weight.nanos)
                .sum::<u64>()
        };
        [of(7), of(8), unread].map(|nanos| 100 * nanos / (2000 * count))
    }

    #[test]
    fn samples_at_one_age_of_short_threads_do_not_stand_for_another() {
        let ages: Vec<u64> = (0..20).map(|number| 25 + 50 * number).collect();
        let more_often = [&ages[..], &[725; 30]].concat();
        for ages in [ages, more_often] {
            let [seven, eight, unread] = ordered(&ages);
            assert!(seven.abs_diff(70) <= 3 && eight.abs_diff(30) <= 3 && unread == 0, "{seven}, {eight} and {unread}");
        }
        let [seven, eight, unread] = ordered(&[950]);
        assert!(seven == 0 && eight <= 30 && unread >= 70, "{eight} and {unread}: ticks meet their ends alone");
    }

    #[test]
    fn a_sample_of_a_short_thread_weighs_no_more_than_any_other() {
        let born = |key, cpu| ThreadView { is_born: true, ..thread(key, cpu) };
        let mut window = Window::open(std::iter::empty(), 0, 40);
        window.silent = 0..100;
        window.sample(&born(1, 1), &record(1, &[0, 7]));
        window.settle_armed(&born(1, 2));
        let (shares, unread) = window.close(102);
        assert_eq!((shares[0].stacks[[0, 7].as_slice()].nanos, shares[0].unsampled, unread), (40, 0, 62));
        let mut window = Window::open(std::iter::empty(), 0, 40);
        window.silent = 0..100;
        assert_eq!(window.close(90).1, 90, "without a sample, and never more than there is");
    }

    #[test]
    fn blocked_time_is_the_windows_own_and_part_of_the_unsampled() {
        let blocking =
            |key, cpu, blocked| ThreadView { blocked, name: format!("named at {cpu}").into(), ..thread(key, cpu) };
        let mut window = Window::open([&blocking(1, 1000, 400)].into_iter(), 0, 20);
        window.sample(&blocking(1, 1010, 400), &record(1010, &[0, 7]));
        window.settle(&blocking(1, 1100, 470));
        window.settle_armed(&blocking(2, 50, 45));
        window.sample(&blocking(3, 15, 15), &record(15, &[0, 7]));
        window.settle(&blocking(3, 25, 15));
        let (shares, _) = window.close(0);
        assert_eq!((shares[0].unsampled, shares[0].blocked), (90, 70), "what it used so before is not counted");
        assert_eq!((shares[1].unsampled, shares[1].blocked), (50, 45), "of a thread born in the window all is");
        assert_eq!(
            (&*shares[0].name, &*shares[1].name),
            ("named at 1100", "named at 50"),
            "the last name without a sample"
        );
        assert_eq!((shares[2].unsampled, shares[2].blocked), (10, 10), "a late sample stands for the rest");
    }

    #[test]
    fn a_window_has_a_limit_and_counts_what_it_refuses() {
        let busy = thread(1, 0);
        let mut window = Window::open([&busy].into_iter(), 0, 10);
        window.words = MAX_WORDS - 2 - STACK_WORDS;
        window.sample(&busy, &record(10, &[0, 1]));
        window.sample(&busy, &record(20, &[0, 2]));
        window.sample(&busy, &record(30, &[0, 1]));
        assert_eq!(window.shortfalls.lost, 1);
        let (shares, _) = window.close(30);
        assert_eq!((shares[0].stacks[[0, 1].as_slice()].nanos, shares[0].unsampled), (20, 10));
    }

    #[test]
    fn threads_beyond_the_limit_are_counted_and_stay_in_the_total() {
        let mut window = Window::open(std::iter::empty(), 0, 100);
        for key in 0..MAX_THREADS as u64 + 3 {
            window.sample(&thread(key, 10), &record(10, &[0, 1]));
            window.settle(&thread(key, 10));
        }
        assert_eq!(window.shortfalls.lost, 3);
        let (shares, unread) = window.close(10 * (MAX_THREADS as u64 + 3));
        assert_eq!((shares.len(), unread), (MAX_THREADS, 30));
    }
}
