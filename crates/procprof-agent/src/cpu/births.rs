//! Threads that live too shortly for the sampler's ticks: detects that there are some, and then, that one was created.
//!
//! CPU time that the process used and none of its known threads did was used by threads that started and ended between
//! two ticks. Then the sampler checks for new threads every millisecond, for as long as young threads end. A check is
//! one short read: the kernel reports the id that it assigned last, to any thread in the process's id namespace.
//!
//! ```text
//! /proc/loadavg   0.20 0.18 0.12 1/80 11206
//! ```
//!
//! Where threads end with little CPU time, those created next are to be sampled closely while they are young.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Between two looks for births, at least.
const PAUSE: Duration = Duration::from_millis(1);
/// Factor by which ticks come sooner where many threads start.
const HURRY: u32 = 5;
/// A tick for a birth may take so much of the time; where there are many threads the pauses are longer.
const SHARE: u32 = 30;
/// How long births are looked for without a further sign.
const LENGTH: Duration = Duration::from_secs(2);
/// The account is made up so often.
const PERIOD: Duration = Duration::from_millis(100);
/// A thread that ends before this age is a sign.
const YOUNG: Duration = PERIOD;
/// A thread that ends with less CPU time was a short one, nanoseconds: half a period at the usual rate is a thirtieth
/// of it.
const SHORT: u64 = 160_000_000;
/// CPU time that no known thread used is a sign from so much on, nanoseconds, and from so many parts of all.
const UNSEEN: u64 = 1_000_000;
const UNSEEN_PARTS: u64 = 20;

/// Whether births are to be looked for.
#[derive(Debug, Default)]
pub(crate) struct Births {
    until: Option<Instant>,
    short_until: Option<Instant>,
    account: Option<Account>,
}

/// CPU time since a moment, nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Account {
    since: Instant,
    /// The process's clock then.
    process: u64,
    /// CPU time of known threads since.
    known: u64,
}

impl Births {
    /// Accounts a tick: the process's clock, and what known threads have used since the last tick.
    pub(crate) fn tick(&mut self, now: Instant, process: u64, known: u64) {
        let fresh = Account { since: now, process, known: 0 };
        let Some(account) = &mut self.account else {
            self.account = Some(fresh);
            return;
        };
        account.known += known;
        if now.duration_since(account.since) < PERIOD {
            return;
        }
        let used = process.saturating_sub(account.process);
        let unseen = used.saturating_sub(account.known);
        if unseen > UNSEEN && unseen > used / UNSEEN_PARTS {
            self.until = Some(now + LENGTH);
        }
        self.account = Some(fresh);
    }

    /// Accounts the end of a thread that was followed since `born` and has used `cpu` nanoseconds.
    pub(crate) fn ended(&mut self, born: Instant, now: Instant, cpu: u64) {
        if cpu < SHORT {
            self.short_until = Some(now + LENGTH);
        }
        if self.are_wanted(now) && now.duration_since(born) < YOUNG {
            self.until = Some(now + LENGTH);
        }
    }

    /// Whether to look for births now.
    pub(crate) fn are_wanted(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Whether a thread that is born now may end soon.
    pub(crate) fn are_short(&self, now: Instant) -> bool {
        self.are_wanted(now) || self.short_until.is_some_and(|until| now < until)
    }
}

/// When the sampler ticks: at a fixed pace, and at the creation of threads where that is watched.
#[derive(Debug)]
pub(crate) struct Pace {
    tick: Duration,
    due: Instant,
    pause: Duration,
    file: Option<File>,
    last: [u8; 64],
}

impl Pace {
    /// A tick every `tick`; no others where the kernel does not report new threads.
    pub(crate) fn new(tick: Duration) -> Self {
        Self { tick, due: Instant::now() + tick, pause: PAUSE, file: File::open("/proc/loadavg").ok(), last: [0; 64] }
    }

    /// How long to wait.
    pub(crate) fn wait(&self, births_are_wanted: bool, now: Instant) -> Duration {
        let left = self.due.saturating_duration_since(now);
        if births_are_wanted && self.file.is_some() { left.min(self.pause) } else { left }
    }

    /// Whether a tick is due, or there was a birth.
    pub(crate) fn is_due(&mut self, births_are_wanted: bool, now: Instant) -> bool {
        now >= self.due || births_are_wanted && self.has_birth()
    }

    /// Whether an id was given away since the last look.
    fn has_birth(&mut self) -> bool {
        let mut text = [0; 64];
        let length = self.file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or_default();
        // Loads change without a birth: only the last word counts.
        let id = text[..length].rsplit(|byte| *byte == b' ').next().unwrap_or_default();
        let is_new = !self.last.starts_with(id);
        self.last = [0; 64];
        self.last[..id.len()].copy_from_slice(id);
        is_new
    }

    /// Has the tick after that which began at `began` come sooner.
    pub(crate) fn hurry(&mut self, began: Instant) {
        self.due = began + self.tick / HURRY;
    }

    /// Notes a tick that began at `began`.
    pub(crate) fn ticked(&mut self, began: Instant) {
        self.pause = PAUSE.max(SHARE * began.elapsed());
        self.due = began + self.tick;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_unknown_threads_is_a_sign_and_so_is_the_end_of_a_young_one() {
        let (mut births, start) = (Births::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        births.tick(start, 500, 300);
        births.tick(at(100), 100_000_500, 99_500_000);
        assert!(!births.are_wanted(at(100)), "so little is the time between two clocks");
        births.ended(start, at(110), SHORT);
        assert!(!births.are_wanted(at(110)), "of those that are seen");
        births.tick(at(150), 150_000_000, 20_000_000);
        assert!(!births.are_wanted(at(150)));
        births.tick(at(200), 200_000_000, 20_000_000);
        assert!(births.are_wanted(at(200)) && births.are_wanted(at(2199)) && !births.are_wanted(at(2200)));
        births.ended(at(1000), at(2000), SHORT);
        assert!(!births.are_wanted(at(2300)), "an old one");
        births.ended(at(2000), at(2010), SHORT);
        assert!(births.are_wanted(at(4000)) && !births.are_wanted(at(4010)));
        assert!(births.are_short(at(4000)) && !births.are_short(at(4010)), "what is looked for is short");
        births.ended(start, at(5000), SHORT - 1);
        assert!(
            births.are_short(at(6999)) && !births.are_short(at(7000)) && !births.are_wanted(at(5000)),
            "of little CPU time in a long life"
        );
    }

    #[test]
    fn a_birth_makes_a_tick_due() {
        let mut pace = Pace::new(Duration::from_secs(3600));
        let now = Instant::now();
        assert!(pace.wait(false, now) > Duration::from_secs(3000) && pace.wait(true, now) == PAUSE);
        assert!(pace.is_due(true, now), "the first look knows of no id before");
        std::thread::spawn(|| ()).join().unwrap();
        assert!(!pace.is_due(false, now) && pace.is_due(true, now));
        pace.ticked(now - Duration::from_millis(10));
        assert!(pace.wait(true, now) >= SHARE * Duration::from_millis(10));
    }
}
