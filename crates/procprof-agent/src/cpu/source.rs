//! The source of a thread's samples: a timer on the kernel's tick, a perf counter, or both for a trial.
//!
//! The tick is the cheapest, but does not see what a thread does between two ticks. So with [`CpuEngine::Auto`] a
//! thread begins with both; once it has used some periods of CPU time, the timer alone goes on if it saw nine of ten,
//! or as good as all that the counter saw, else the counter alone. What was chosen is not for ever: a timer that begins
//! to miss is tried against the counter at once, a counter against the timer now and then, ever more rarely.
//!
//! The CPU time after a thread's last sample, half a period on average, is in no sample. So a thread that may end soon
//! begins with a counter whose samples are closer, and they get half as close each time it doubles its age: from its
//! second period on that is a thirtieth of its CPU time at most, on average, whenever it ends; the sampler's own ticks,
//! when it looks how old threads are, come on top.

use super::perf::{Counter, Scope};
use super::ring::Origin;
use super::timer::Timer;
use crate::options::CpuEngine;
use std::io;
use std::time::{Duration, Instant};

/// Periods of CPU time after which a trial is decided.
const TRIAL_PERIODS: u64 = 10;

/// Periods of CPU time that a timer may miss out of twice as many as a trial takes.
const DOUBT_PERIODS: u64 = 3;

/// The age in periods, times how much closer than these the samples of a young thread are.
const YOUNG_SAMPLES: u64 = 32;

/// How long a counter is kept before the timer is tried again: at first, and at most.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_PATIENCE: Duration = Duration::from_secs(300);

/// How to arm a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arming {
    pub(crate) tid: i32,
    pub(crate) ticket: u64,
    /// CPU time until the first sample and between two, nanoseconds.
    pub(crate) first: u64,
    pub(crate) period: u64,
    /// How many times closer a counter's samples are, a power of two: more than 1 while the thread is young.
    pub(crate) closer: u64,
    /// CPU time between two samples that a timer makes while the thread is young, nanoseconds.
    pub(crate) interval: u64,
    /// Which counters the kernel permits; `None` where it refuses all.
    pub(crate) counters: Option<Scope>,
}

impl Arming {
    fn timer(&self) -> io::Result<Timer> {
        let (first, period) = if self.closer > 1 { (1, self.interval) } else { (self.first, self.period) };
        Timer::arm(self.tid, self.ticket, first, period)
    }

    fn counter(&self) -> Option<io::Result<Counter>> {
        self.counters.map(|scope| Counter::open(self.tid, self.ticket, self.period / self.closer, scope))
    }
}

/// The current source of one thread's samples.
#[derive(Debug)]
pub(crate) struct Source {
    arming: Arming,
    timer: Option<Timer>,
    counter: Option<Counter>,
    evidence: Evidence,
    patience: Duration,
    next_trial: Instant,
}

/// The samples of both sources since the last decision.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    /// The thread's CPU clock when it began, nanoseconds.
    since: u64,
    ticks: u64,
    overflows: u64,
}

impl Source {
    /// Arms a thread at CPU time `cpu`. Returns with the source why the counter is missing where one was requested.
    ///
    /// # Errors
    /// As of [`Timer::arm`], where neither is available.
    pub(crate) fn arm(engine: CpuEngine, arming: Arming, cpu: u64) -> io::Result<(Self, Option<io::Error>)> {
        Self::arm_beside(engine, arming, cpu, None)
    }

    /// Likewise, of a thread that has made a timer of its own and is young.
    ///
    /// # Errors
    /// As of [`Timer::arm`], where that is not there and neither can be had.
    pub(crate) fn arm_beside(
        engine: CpuEngine,
        arming: Arming,
        cpu: u64,
        own: Option<Timer>,
    ) -> io::Result<(Self, Option<io::Error>)> {
        let wanted = if engine == CpuEngine::Tick { None } else { arming.counter() };
        let (counter, missing) = match wanted {
            Some(Ok(counter)) => (Some(counter), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let timer = match (engine, &counter) {
            (CpuEngine::Perf, Some(_)) => None,
            (_, Some(_)) => own.or_else(|| arming.timer().ok()),
            (_, None) => Some(own.map_or_else(|| arming.timer(), Ok)?),
        };
        let evidence = Evidence { since: cpu, ..Evidence::default() };
        let (patience, next_trial) = (FIRST_PATIENCE, Instant::now());
        Ok((Self { arming, timer, counter, evidence, patience, next_trial }, missing))
    }

    /// Of a young thread that has made a timer of its own, and ended.
    pub(crate) fn of_the_past(arming: Arming) -> Self {
        let (evidence, now) = (Evidence::default(), Instant::now());
        Self { arming, timer: None, counter: None, evidence, patience: FIRST_PATIENCE, next_trial: now }
    }

    /// Whether a counter makes samples.
    pub(crate) fn has_counter(&self) -> bool {
        self.counter.is_some()
    }

    /// CPU time between two samples, nanoseconds.
    pub(crate) fn spacing(&self) -> u64 {
        let Arming { period, closer, interval, .. } = self.arming;
        match (self.timer.is_some(), self.counter.is_some()) {
            (_, false) if closer > 1 => interval,
            (_, false) => period,
            (false, true) => period / closer,
            // Both sample: so many in the time of one of the timer's.
            (true, true) => period / (closer + 1),
        }
    }

    /// Notes a sample.
    pub(crate) fn seen(&mut self, origin: Origin) {
        match origin {
            Origin::Tick => self.evidence.ticks += 1,
            Origin::Perf => self.evidence.overflows += 1,
        }
    }

    /// Makes a counter's samples less frequent where the thread, at CPU time `cpu`, is old enough; earlier observations
    /// are dropped.
    pub(crate) fn grow(&mut self, cpu: u64) {
        let age = (cpu / self.arming.period).max(1);
        let closer = (YOUNG_SAMPLES / age).checked_ilog2().map_or(1, |bits| 1 << bits);
        if closer >= self.arming.closer {
            return;
        }
        self.arming.closer = closer;
        if closer == 1 {
            // Where the thread has removed it, it has ended.
            let _ = self.timer.as_ref().map(|timer| timer.set(self.arming.first, self.arming.period));
        }
        if self.counter.as_ref().is_some_and(|counter| counter.set_period(self.arming.period / closer).is_err()) {
            self.counter = self.arming.counter().and_then(Result::ok);
        }
        self.evidence = Evidence { since: cpu, ..Evidence::default() };
    }

    /// Decides by what was seen up to the thread's CPU clock `cpu`, where there is a choice and the thread is no longer
    /// young; timers expire on ticks of `tick` nanoseconds.
    pub(crate) fn decide(&mut self, cpu: u64, tick: u64, now: Instant) {
        if self.arming.closer > 1 {
            return;
        }
        let Evidence { since, ticks, overflows } = self.evidence;
        let expected = cpu.saturating_sub(since) / self.arming.period.max(tick);
        match (self.timer.is_some(), self.counter.is_some()) {
            (true, true) if expected >= TRIAL_PERIODS => {
                // Where the host takes the processor away, both miss alike. One may be on its way.
                if 10 * (ticks + 1) >= 9 * expected || 20 * (ticks + 1) >= 19 * overflows {
                    self.counter = None;
                } else {
                    self.timer = None;
                    self.next_trial = now + self.patience;
                    self.patience = (2 * self.patience).min(LONGEST_PATIENCE);
                }
            }
            (true, false) if expected > ticks + DOUBT_PERIODS => {
                self.counter = self.arming.counter().and_then(Result::ok)
            }
            (true, false) if expected >= 2 * TRIAL_PERIODS => {}
            (false, true) if now >= self.next_trial => self.timer = self.arming.timer().ok(),
            _ => return,
        }
        self.evidence = Evidence { since: cpu, ..Evidence::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 10_000_000;
    const TICK: u64 = 4_000_000;

    /// A source of this thread, which never signals in the time of a test, and its clock.
    fn source() -> (Source, Instant) {
        // SAFETY: takes no argument and can't fail.
        let tid = unsafe { libc::gettid() };
        let arming = Arming {
            tid,
            ticket: 0,
            first: 1 << 60,
            period: 1 << 60,
            closer: 1,
            interval: TICK,
            counters: Some(Scope::All),
        };
        let (mut source, missing) = Source::arm(CpuEngine::Auto, arming, 0).unwrap();
        assert!(missing.is_none(), "{missing:?}");
        source.arming.period = PERIOD;
        (source, Instant::now())
    }

    fn has(source: &Source) -> (bool, bool) {
        (source.timer.is_some(), source.counter.is_some())
    }

    /// Lets the thread use `periods`, of which the timer and the counter saw some.
    fn run(source: &mut Source, periods: u64, ticks: u64, overflows: u64, now: Instant) {
        (0..ticks).for_each(|_| source.seen(Origin::Tick));
        (0..overflows).for_each(|_| source.seen(Origin::Perf));
        let cpu = source.evidence.since + periods * PERIOD;
        source.decide(cpu, TICK, now);
    }

    #[test]
    fn a_thread_the_ticks_see_keeps_its_timer_until_they_miss_it() {
        let (mut source, now) = source();
        run(&mut source, 9, 8, 9, now);
        assert_eq!(has(&source), (true, true), "undecided");
        run(&mut source, 10, 1, 1, now);
        assert_eq!(has(&source), (true, false), "saw as much as the counter");
        for _ in 0..10 {
            run(&mut source, 20, 17, 0, now);
        }
        assert_eq!(has(&source), (true, false));
        run(&mut source, 5, 0, 0, now);
        assert_eq!(has(&source), (true, true), "missed by the ticks");
        run(&mut source, 12, 3, 11, now);
        assert_eq!(has(&source), (false, true));
    }

    #[test]
    fn a_young_thread_is_seen_more_often_and_decided_on_when_it_has_grown() {
        let (mut source, now) = source();
        source.arming.closer = 16;
        for (age, closer) in [(0, 16), (2, 16), (3, 8), (4, 8), (5, 4), (8, 4), (9, 2), (16, 2)] {
            run(&mut source, 100, 0, 100, now);
            assert_eq!(has(&source), (true, true), "undecided while it is young");
            source.grow(age * PERIOD);
            assert_eq!(source.arming.closer, closer, "{age} periods old");
        }
        source.grow(17 * PERIOD);
        assert!(source.arming.closer == 1 && source.evidence.overflows == 0);
        run(&mut source, 12, 3, 12, now);
        assert_eq!(has(&source), (false, true));
    }

    #[test]
    fn a_thread_the_ticks_miss_keeps_its_counter_and_is_tried_again_ever_more_rarely() {
        let (mut source, mut now) = source();
        for patience in [10, 20, 40, 80, 160, 300, 300] {
            run(&mut source, 12, 3, 12, now);
            assert_eq!(has(&source), (false, true));
            now += Duration::from_secs(patience - 1);
            run(&mut source, 30, 0, 30, now);
            assert_eq!(has(&source), (false, true), "{patience} s have not passed");
            now += Duration::from_secs(1);
            run(&mut source, 30, 0, 30, now);
            assert_eq!(has(&source), (true, true), "a trial after {patience} s");
        }
    }
}
