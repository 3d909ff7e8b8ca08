//! Deletes the items that [`retention`] returns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use procprof_profile::{Nanos, ProfileId};

use crate::error::with_source;
use crate::mutex::lock;
use crate::{
    Clock, Disk, ErrorKind, ErrorRow, Hold, Item, ItemKey, Result, RetentionLimits, Store, Timeline, Why, retention,
};

/// The items that retention deleted and those it could not delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainReport {
    /// Profiles deleted, oldest first within each limit.
    pub profiles: Vec<ProfileId>,
    /// When each of them was complete.
    pub completed: Vec<Nanos>,
    /// Number of cached renderings deleted.
    pub cached: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// By limit: how many items fell to it, and their bytes.
    pub why: BTreeMap<Why, (u64, u64)>,
    /// Items that could not be deleted, with the reason.
    pub failed: Vec<(ItemKey, String)>,
}

impl Store {
    /// Deletes the items beyond the limits, by elapsed time: see [`Timeline`]. Also returns by how many nanoseconds the
    /// clock was set since the last call, 0 if it was not.
    pub fn retain_by(&self, limits: &RetentionLimits, clock: &Clock) -> Result<(RetainReport, i64)> {
        let (timeline, set_by) = {
            let mut timeline = lock(&self.timeline);
            let set_by = timeline.look(clock);
            // On a full disk the stored record stays old until the next one is written.
            if let Err(error) = timeline.keep(&self.data) {
                tracing::warn!(%error, "keep the record of the clock");
            }
            (timeline.clone(), set_by)
        };
        Ok((self.retain_on(limits, Some(&timeline), clock.now)?, set_by))
    }

    /// Deletes the items beyond the limits, by a clock that was never set; `now` is UTC nanoseconds.
    ///
    /// The first call after opening a large store also reads its catalog through, and rebuilds it if it is broken.
    ///
    /// A file that cannot be deleted becomes one error row and is still counted, so that others are deleted instead.
    pub fn retain(&self, limits: &RetentionLimits, now: Nanos) -> Result<RetainReport> {
        self.retain_on(limits, None, now)
    }

    fn retain_on(&self, limits: &RetentionLimits, timeline: Option<&Timeline>, now: Nanos) -> Result<RetainReport> {
        lock(&self.ledger).flush();
        self.healing(|| self.catalog.check_once())?;
        let report = self.healing(|| self.retain_once(limits, timeline, now))?;
        let removed = self.healing(|| {
            let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            self.catalog.remove_unused_names()
        });
        if let Err(error) = removed {
            tracing::warn!(error = with_source(&error), "remove names of functions that no profile has");
        }
        Ok(report)
    }

    fn retain_once(&self, limits: &RetentionLimits, timeline: Option<&Timeline>, now: Nanos) -> Result<RetainReport> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let _removal = lock(&self.removal);
        let mut report = RetainReport::default();
        let mut undeletable = BTreeSet::new();
        loop {
            let mut items = self.items(&undeletable)?;
            let completed: Vec<Nanos> = items.iter().map(|item| item.completed).collect();
            if let Some(timeline) = timeline {
                place(&mut items, timeline);
            }
            let disk = Disk {
                other_bytes: self.catalog.bytes() + lock(&self.ledger).bytes(),
                free_bytes: self.blobs.free_bytes()?,
            };
            let failed_before = undeletable.len();
            for victim in retention(&items, limits, disk, timeline.map_or(now, Timeline::now)) {
                let item = &items[victim.index];
                match self.remove_item(item) {
                    Ok(()) => report.add(item, completed[victim.index], victim.why),
                    Err(reason) => {
                        undeletable.insert(item.key);
                        self.report_undeletable(item, &reason, now);
                        report.failed.push((item.key, reason));
                    }
                }
            }
            if undeletable.len() == failed_before {
                lock(&self.undeletable).retain(|key| undeletable.contains(key));
                return Ok(report);
            }
        }
    }

    /// All items that are counted.
    fn items(&self, undeletable: &BTreeSet<ItemKey>) -> Result<Vec<Item>> {
        // In this order: a profile that is done being written in between is seen twice rather than not at all.
        let writing = self.in_flight.items();
        let briefs = self.catalog.briefs()?;
        let pins = lock(&self.ledger).pins().clone();
        let hold = |key: ItemKey| undeletable.contains(&key).then_some(Hold::Undeletable);
        let mut items: Vec<Item> = Vec::with_capacity(briefs.len());
        let stored: BTreeSet<ProfileId> = briefs.iter().map(|brief| brief.id).collect();
        for brief in briefs {
            let key = ItemKey::Profile(brief.id);
            let hold = if pins.contains(&brief.id) { Some(Hold::Pinned) } else { hold(key) };
            let profile_type = Some(brief.profile_type);
            items.push(Item {
                key,
                node: Some(brief.node),
                profile_type,
                completed: brief.completed,
                bytes: brief.bytes,
                hold,
            });
        }
        items.extend(
            writing.into_iter().filter(|item| !matches!(item.key, ItemKey::Profile(id) if stored.contains(&id))),
        );
        for (hash, cached) in lock(&self.cache).files() {
            let key = ItemKey::Cached(hash);
            items.push(Item {
                key,
                node: cached.node,
                profile_type: None,
                completed: cached.made,
                bytes: cached.bytes,
                hold: hold(key),
            });
        }
        Ok(items)
    }

    fn remove_item(&self, item: &Item) -> std::result::Result<(), String> {
        match item.key {
            ItemKey::Cached(hash) => match lock(&self.cache).remove(hash) {
                true => Ok(()),
                false => Err(format!("delete cached rendering {hash:032x}")),
            },
            ItemKey::Profile(id) => self.remove(id).map(drop).map_err(|error| with_source(&error)),
        }
    }

    fn report_undeletable(&self, item: &Item, reason: &str, now: Nanos) {
        if !lock(&self.undeletable).insert(item.key) {
            return;
        }
        tracing::warn!(reason, "retention");
        self.record_error(ErrorRow {
            node: item.node,
            profile_type: item.profile_type.clone(),
            time: now,
            kind: ErrorKind::Retention,
            reason: reason.to_owned(),
            first_bytes: Vec::new(),
        });
    }
}

/// Converts the times of items to the axis of time lived.
fn place(items: &mut [Item], timeline: &Timeline) {
    for item in items {
        let id = if let ItemKey::Profile(id) = item.key { Some(id) } else { None };
        item.completed = timeline.place(item.completed, id);
    }
}

impl RetainReport {
    fn add(&mut self, item: &Item, completed: Nanos, why: Why) {
        match item.key {
            ItemKey::Profile(id) => {
                self.profiles.push(id);
                self.completed.push(completed);
            }
            ItemKey::Cached(_) => self.cached += 1,
        }
        self.bytes = self.bytes.saturating_add(item.bytes);
        let (count, bytes) = self.why.entry(why).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(item.bytes);
    }
}
