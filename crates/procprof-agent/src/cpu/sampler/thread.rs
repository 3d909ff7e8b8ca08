//! One thread that the sampler follows.

use crate::clock;
use crate::cpu::blocked::Silence;
use crate::cpu::slot::Slot;
use crate::cpu::snapshots::Snapshots;
use crate::cpu::source::Source;
use crate::cpu::window::{ThreadView, Window};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// A followed thread.
#[derive(Debug)]
pub(in crate::cpu) struct Thread {
    pub(in crate::cpu) view: ThreadView,
    /// Since when it is followed.
    pub(super) since: Instant,
    /// `None` where the kernel or the table had no room, or in a sandbox; then its time is unsampled.
    pub(in crate::cpu) sampled: Option<(&'static Slot, Source)>,
    pub(in crate::cpu) silence: Silence,
    pub(super) is_in_sandbox: bool,
}

impl Thread {
    /// Accounts in a window what it has used up to now.
    pub(super) fn settle(&self, window: &mut Window) {
        if self.sampled.is_some() { window.settle_armed(&self.view) } else { window.settle(&self.view) }
    }

    /// Whether it has that slot.
    pub(super) fn is_in(&self, slot: &Slot) -> bool {
        self.sampled.as_ref().is_some_and(|(own, _)| std::ptr::eq(*own, slot))
    }

    /// Accounts what it has left at its end, if it has armed itself.
    pub(super) fn take_leave(&mut self, windows: &mut BTreeMap<u64, Window>, snapshots: &mut Snapshots) {
        let Some((cpu, name)) = self.sampled.as_ref().and_then(|(slot, _)| slot.life.left()) else { return };
        drain(self, windows, snapshots);
        self.view.cpu = self.view.cpu.max(cpu);
        self.view.name = name;
    }
}

/// Moves a thread's waiting samples into all windows.
pub(super) fn drain(thread: &mut Thread, windows: &mut BTreeMap<u64, Window>, snapshots: &mut Snapshots) {
    let Some((slot, source)) = &mut thread.sampled else { return };
    let mut renamed = false;
    let (tid, since, spacing) = (thread.view.tid, thread.view.cpu, source.spacing());
    let left = slot.life.left().map(|(cpu, _)| cpu);
    let clock = |periods: u64| {
        // Of a thread that has ended, a period lies between two samples, and half of one before the first.
        let now = left.or_else(|| clock::read(clock::thread_clock(tid)));
        let now = now.filter(|now| *now >= since);
        since..now.unwrap_or(since + spacing * periods - spacing / 2)
    };
    slot.ring.drain_within(clock, |record| {
        if !std::mem::replace(&mut renamed, true) {
            // Names are often given after birth; a thread that has ended meanwhile keeps the name it had.
            thread.view.name = thread_name(thread.view.tid).unwrap_or_else(|| thread.view.name.clone());
        }
        source.seen(record.origin);
        thread.silence.broken(record.cpu);
        thread.view.cpu = thread.view.cpu.max(record.cpu);
        snapshots.note(record.end);
        for window in windows.values_mut() {
            window.sample(&thread.view, &record);
        }
    });
    let lost = slot.ring.take_lost();
    for window in windows.values_mut() {
        window.shortfalls.lost += lost;
    }
}

/// A thread's name; `None` when it has ended.
pub(in crate::cpu) fn thread_name(tid: i32) -> Option<Arc<str>> {
    let name = std::fs::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into())
}
