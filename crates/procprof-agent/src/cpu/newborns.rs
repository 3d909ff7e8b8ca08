//! The sampler's side of threads that arm themselves at their [`birth`]: slots for them, and news of them.

use super::birth;
use super::life::{self, Stage};
use super::slot::Slot;
use super::stock::Stock;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// Slots that are offered at first.
const FIRST_OFFERS: usize = 16;

/// Looks at which a thread that has armed itself is left to itself, but for many samples of its.
const YOUNG_LOOKS: u32 = 10;

/// A change of a thread that has armed itself.
#[derive(Debug)]
pub(crate) enum News {
    /// It lives, and the sampler follows it from now on.
    Born { slot: &'static Slot, tid: i32 },
    /// It has ended, with samples or followed; its name.
    Ended { slot: &'static Slot, tid: i32, name: Arc<str> },
    /// Nothing is to be known of it.
    Free(&'static Slot),
}

/// The offers of one sampler.
#[derive(Debug)]
pub(crate) struct Newborns {
    /// CPU time between two samples of a new thread, nanoseconds.
    interval: u64,
    /// Slots to be offered.
    wanted: usize,
    is_open: bool,
    /// Whether most of the offers were taken since the last look, though there were as many as can be.
    are_many: bool,
    /// Threads that have armed themselves and are not followed yet.
    unmet: HashSet<i32>,
}

impl Newborns {
    /// Of a sampler whose threads have samples a `period` apart; timers expire on ticks of `tick` nanoseconds.
    pub(crate) fn new(period: u64, tick: u64) -> Self {
        Self {
            interval: period.min(tick),
            wanted: FIRST_OFFERS,
            is_open: false,
            are_many: false,
            unmet: HashSet::new(),
        }
    }

    /// CPU time between two samples of a new thread, nanoseconds.
    pub(crate) fn interval(&self) -> u64 {
        self.interval
    }

    /// Whether the sampler is to look sooner than it otherwise would.
    pub(crate) fn are_many(&self) -> bool {
        self.are_many
    }

    /// Offers slots where threads come for them: twice as many as before where they took most.
    pub(crate) fn supply(&mut self, stock: &mut Stock) {
        if !birth::is_hooked() {
            return;
        }
        let left = birth::offers();
        self.are_many = self.is_open && left < birth::MOST_OFFERS / 4 && self.wanted == birth::MOST_OFFERS;
        if self.is_open && left < self.wanted / 2 {
            self.wanted = (2 * self.wanted).min(birth::MOST_OFFERS);
        }
        for missing in (1..=self.wanted.saturating_sub(left)).rev() {
            let Some(slot) = stock.take(missing) else { break };
            slot.empty();
            if !birth::offer_new(slot) {
                stock.put(slot);
                break;
            }
        }
        if !self.is_open {
            self.is_open = true;
            birth::open(self.interval);
        }
    }

    /// Has no further thread arm itself, and waits for those that are about to; what was offered goes back to the
    /// stock.
    pub(crate) fn close(&mut self, stock: &mut Stock) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        for slot in birth::close() {
            if slot.life.end() {
                stock.put(slot);
            }
        }
        // One that takes too long is met later.
        let deadline = Instant::now() + life::PATIENCE;
        Slot::all().for_each(|slot| _ = slot.life.settle(deadline));
    }

    /// The changes since the last call. Unless `all` is set, threads that may end soon are left alone for a while.
    pub(crate) fn news(&mut self, all: bool) -> Vec<News> {
        self.unmet.clear();
        if !birth::is_hooked() {
            return Vec::new();
        }
        Slot::all().filter_map(|slot| self.news_of(slot, all)).collect()
    }

    fn news_of(&mut self, slot: &'static Slot, all: bool) -> Option<News> {
        let (stage, tid) = (slot.life.stage(), slot.tid());
        match stage {
            Stage::Live if all || slot.life.look() > YOUNG_LOOKS || slot.ring.is_filling() => {
                let is_met = slot.life.step(slot.generation(), Stage::Live, Stage::Followed);
                slot.tid().filter(|_| is_met).map(|tid| News::Born { slot, tid })
            }
            Stage::Starting | Stage::Live => {
                self.unmet.extend(tid);
                None
            }
            Stage::Ended => match (tid, slot.life.left()) {
                (Some(tid), Some((_, name))) => Some(News::Ended { slot, tid, name }),
                _ => Some(News::Free(slot)),
            },
            _ => None,
        }
    }

    /// Whether a thread was left to itself at the last look.
    pub(crate) fn is_unmet(&self, tid: i32) -> bool {
        self.unmet.contains(&tid)
    }

    /// Whether threads arm themselves.
    pub(crate) fn are_met(&self) -> bool {
        self.is_open
    }

    /// CPU time of all threads so far that ended without a sample, nanoseconds.
    pub(crate) fn silent(&self) -> u64 {
        birth::silent()
    }
}
