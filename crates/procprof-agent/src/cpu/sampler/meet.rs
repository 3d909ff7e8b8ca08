//! The sampler and threads that have armed themselves at their birth.

use super::{CLOSER, Sampler, Thread, thread_name};
use crate::cpu::blocked::Silence;
use crate::cpu::newborns::News;
use crate::cpu::slot::Slot;
use crate::cpu::source::{Arming, Source};
use crate::cpu::window::ThreadView;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Instant;

/// So many ticks of threads without a sample are believed of each thread that has one.
const MOST_SILENT_TICKS: u64 = 16;

impl Sampler {
    /// Begins to follow threads that have armed themselves, `all` of them or those that will not end soon, and accounts
    /// those that have ended since; returns the CPU time of threads that no tick seems to meet.
    pub(super) fn meet_newborns(&mut self, all: bool) -> u64 {
        let silent = self.newborns.silent();
        let mut samples = 0;
        for news in self.newborns.news(all) {
            match news {
                News::Born { slot, tid } if self.threads.contains_key(&tid) => self.take_back(slot),
                News::Born { slot, tid } => self.meet(slot, tid),
                News::Ended { slot, tid, name } => {
                    if !self.threads.get(&tid).is_some_and(|thread| thread.is_in(slot)) {
                        self.unfollow(tid);
                        self.meet_ended(slot, tid, name);
                    }
                    self.unfollow(tid);
                    samples += 1;
                }
                News::Free(slot) => self.take_back(slot),
            }
        }
        let silent = silent - std::mem::replace(&mut self.silent, silent);
        // Where hardly a thread has samples, ticks do not meet them, and births are to be looked for.
        silent.saturating_sub(MOST_SILENT_TICKS * samples * self.newborns.interval())
    }

    /// Begins to follow a thread that has armed itself.
    fn meet(&mut self, slot: &'static Slot, tid: i32) {
        let name = thread_name(tid).unwrap_or_else(|| format!("thread {tid}").into());
        let mut view = self.view(tid, name, 0);
        let is_in_sandbox = self.sandbox.holds(tid);
        let sampled = if is_in_sandbox || self.is_disarmed {
            self.take_back(slot);
            None
        } else {
            let arming = self.arming_at_birth(slot, tid);
            let source =
                self.source(arming, |engine, arming| Source::arm_beside(engine, arming, 0, Some(slot.life.timer())));
            source.map(|source| (slot, source)).inspect_err(|_| self.take_back(slot)).ok()
        };
        view.is_born = sampled.as_ref().is_some_and(|(_, source)| !source.has_counter());
        self.threads
            .insert(tid, Thread { view, since: Instant::now(), sampled, silence: Silence::from(0), is_in_sandbox });
    }

    /// Takes up a thread that has ended before the sampler met it, and has left samples.
    fn meet_ended(&mut self, slot: &'static Slot, tid: i32, name: Arc<str>) {
        let view = ThreadView { is_born: true, ..self.view(tid, name, 0) };
        let sampled = Some((slot, Source::of_the_past(self.arming_at_birth(slot, tid))));
        self.threads.insert(
            tid,
            Thread { view, since: Instant::now(), sampled, silence: Silence::from(0), is_in_sandbox: false },
        );
    }

    fn arming_at_birth(&self, slot: &Slot, tid: i32) -> Arming {
        let period = self.period();
        let first = 1 + self.random.hash_one((tid, self.next_key)) % period;
        let closer = CLOSER;
        Arming {
            tid,
            ticket: slot.ticket(),
            first,
            period,
            closer,
            interval: self.newborns.interval(),
            counters: self.counters,
        }
    }
}
