//! [`Archiver`]: the task of a server that archives what the archive does not have, at low priority and without
//! waiting for captures.
//!
//! A profile is archived with its hour, once that is over and [`GRACE`] has passed; one that arrives later, with the
//! next run. An hour whose profiles are those of the run before is not read again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use procprof_archive::{Hour, PartLimits, Place};
use procprof_files::Folder;
use procprof_profile::Nanos;
use procprof_store::Store;
use tokio::sync::oneshot::{self, error::RecvError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::OpenArchive;
use super::compaction::{self, Compaction};
use super::export::{Candidate, Exported, Exporter, next_hour, profiles_of, remove_unfinished};
use super::names::UploadedNames;
use crate::clock::now;
use crate::error::chain;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::symbols::SymbolStore;
use crate::{Error, Result};

/// Time after the end of an hour in which its last profiles arrive.
const GRACE: Nanos = Nanos(300_000_000_000);
/// Longest time between two looks at the clock, and the time after which what has failed is tried again.
const LOOK: Duration = Duration::from_secs(60);
/// Parts of a server, so that writing one takes at most about 100 MB and a second.
pub(super) const PART: PartLimits = PartLimits { rows: 1 << 20, stacks: 1 << 19, text_bytes: 32 << 20 };
/// Hours in a row that fail until the rest is left to the next run.
const FAILED_HOURS_MAX: usize = 3;
/// Failures of a run that are logged.
const LOGGED_MAX: usize = 10;
/// Time that a run has to end when the server stops.
const END: Duration = Duration::from_secs(2);
/// Nice value of the thread that archives.
const NICE: i32 = 10;

/// When profiles are archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// By whole hours, five minutes after their end.
    Hourly,
    /// Every so often, those that were complete at least as long ago: for a demo, which nobody watches for an hour.
    Every(Duration),
}

impl Rhythm {
    /// The moment before which profiles are to be in the archive.
    fn before(self, now: Nanos) -> Nanos {
        match self {
            Rhythm::Hourly => Hour::containing(Nanos(now.0.saturating_sub(GRACE.0))).start(),
            Rhythm::Every(time) => {
                let step = nanos(time).max(1);
                Nanos((now.0 - step).div_euclid(step) * step)
            }
        }
    }

    /// The time until that moment changes.
    fn wait(self, now: Nanos) -> Duration {
        let next = match self {
            Rhythm::Hourly => self.before(now).0.saturating_add(3_600_000_000_000 + GRACE.0),
            Rhythm::Every(time) => self.before(now).0.saturating_add(2 * nanos(time)),
        };
        Duration::from_nanos(u64::try_from(next.saturating_sub(now.0)).unwrap_or_default())
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// How far an archive is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveState {
    /// When the last run ended; `None` before the first.
    pub ran: Option<Timestamp>,
    /// The moment before which every profile is archived that can be; `None` before the first hour is.
    pub until: Option<Nanos>,
    /// What could not be archived in the last run.
    pub failed: u64,
    /// The first of these failures.
    pub error: Option<String>,
    /// Profiles that retention deleted since the start and that may not be in the archive.
    pub missed: u64,
}

/// Archives the profiles of a server.
pub struct Archiver {
    settings: Arc<Settings>,
    store: Arc<Store>,
    symbols: Arc<SymbolStore>,
    metrics: Arc<Metrics>,
    archive: Arc<OpenArchive>,
    rhythm: Rhythm,
    stop: CancellationToken,
    state: Mutex<ArchiveState>,
    progress: Mutex<Progress>,
    compaction: Mutex<Compaction>,
    /// Whether all that was there at the start has been archived, or could not be.
    caught_up: watch::Sender<bool>,
}

/// What the runs before have done.
#[derive(Default)]
struct Progress {
    /// Whether parts that were not finished before the start are gone.
    is_clean: bool,
    /// The profiles of each hour that are archived.
    hours: BTreeMap<Hour, Fingerprint>,
    /// The failures of the last run.
    failures: BTreeSet<String>,
}

/// Number and ids of the profiles of an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fingerprint {
    profiles: usize,
    ids: u128,
}

impl Fingerprint {
    fn new(candidates: &[Candidate]) -> Fingerprint {
        let ids = candidates.iter().fold(0_u128, |sum, candidate| sum.wrapping_add(candidate.id.0));
        Fingerprint { profiles: candidates.len(), ids }
    }
}

impl Archiver {
    /// Archives to an archive until `stop`; nothing runs yet.
    pub fn new(
        settings: Arc<Settings>,
        store: Arc<Store>,
        symbols: Arc<SymbolStore>,
        metrics: Arc<Metrics>,
        archive: Arc<OpenArchive>,
        rhythm: Rhythm,
        stop: CancellationToken,
    ) -> Archiver {
        let (state, progress, compaction) = (Mutex::default(), Mutex::default(), Mutex::default());
        let caught_up = watch::Sender::new(false);
        Archiver { settings, store, symbols, metrics, archive, rhythm, stop, state, progress, compaction, caught_up }
    }

    /// How far the archive is.
    pub fn state(&self) -> ArchiveState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the profiles that retention has deleted, by when each was complete: what is not archived by then is lost.
    pub(crate) fn note_deleted(&self, completed: &[Nanos]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = state.until;
        let missed = completed.iter().filter(|moment| until.is_none_or(|until| **moment >= until)).count() as u64;
        if missed > 0 {
            tracing::warn!("archive: retention deleted {missed} profiles that may not be archived");
        }
        state.missed += missed;
        self.metrics.archive_missed.inc_by(missed);
    }

    /// The archive and its place.
    pub fn archive(&self) -> &OpenArchive {
        &self.archive
    }

    /// Runs at once, and then whenever there may be more to archive, until the server stops.
    pub async fn run(self: Arc<Self>) {
        let mut done = None;
        loop {
            let before = self.rhythm.before(now());
            if done != Some(before) || self.compaction().is_due(before, now()) {
                let has_failed = self.clone().once(before).await;
                done = (!has_failed).then_some(before);
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(self.wait()) => {}
            }
        }
    }

    /// Waits until what was there at the start has been archived, or could not be, for at most a time.
    pub async fn catch_up(&self, most: Duration) {
        let mut caught_up = self.caught_up.subscribe();
        let caught_up = tokio::time::timeout(most, caught_up.wait_for(|caught_up| *caught_up));
        tokio::select! {
            () = self.stop.cancelled() => {}
            done = caught_up => {
                if done.is_err() {
                    let seconds = most.as_secs();
                    tracing::warn!("archive: not all is archived {seconds} s after the start; retention begins");
                }
            }
        }
    }

    /// The time until there may be something to do.
    fn wait(&self) -> Duration {
        let now = now();
        let again = self.compaction().again().map(|again| again.0.saturating_sub(now.0));
        let again = again.map(|left| Duration::from_nanos(u64::try_from(left).unwrap_or_default()));
        self.rhythm.wait(now).min(again.unwrap_or(LOOK)).min(LOOK)
    }

    fn compaction(&self) -> MutexGuard<'_, Compaction> {
        self.compaction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One run; whether something failed.
    async fn once(self: Arc<Self>, before: Nanos) -> bool {
        let own = Arc::clone(&self);
        let (sender, receiver) = oneshot::channel();
        let archiving = move || {
            let thread = rustix::thread::gettid();
            if let Err(error) = rustix::process::setpriority_process(Some(thread), NICE) {
                tracing::warn!("the archive is written at the priority of everything else: {error}");
            }
            let exported = own.archive_before(before);
            // Whoever waits for the end of the run may open the store anew.
            drop(own);
            // The receiver is gone only when the server is.
            let _ = sender.send(exported);
        };
        // A thread of its own, since others must not inherit its priority.
        let spawned = std::thread::Builder::new().name("archive".to_owned()).spawn(archiving);
        let exported = match spawned {
            Ok(_) => self.ended(receiver).await.unwrap_or_else(|_| Exported {
                failed: vec!["a run ended by a defect; the log has the place".to_owned()],
                ..Exported::default()
            }),
            Err(error) => Exported { failed: vec![format!("start a thread: {error}")], ..Exported::default() },
        };
        self.note(&exported)
    }

    /// What a run has done once it ends. When the server stops it ends by itself, but not while it waits for a bucket.
    async fn ended(&self, mut run: oneshot::Receiver<Exported>) -> std::result::Result<Exported, RecvError> {
        let stopped = async {
            self.stop.cancelled().await;
            tokio::time::sleep(END).await;
        };
        tokio::select! {
            exported = &mut run => return exported,
            () = stopped => self.archive.known.archive.objects().stop(),
        }
        run.await
    }

    /// Archives what is missing, hour by hour, oldest first, and compacts the archive if that is due.
    fn archive_before(&self, before: Nanos) -> Exported {
        let mut exported = Exported::default();
        if let Err(error) = self.archive_hours(before, &mut exported)
            && !self.stop.is_cancelled()
        {
            exported.failed.push(chain(&error));
        }
        self.caught_up.send_replace(true);
        // Readers list the parts anew from now on, not when the compaction is done.
        if exported.parts > 0 {
            self.archive.known.changed();
        }
        if let Err(error) = self.compact(before) {
            exported.failed.push(format!("compaction: {}", chain(&error)));
        }
        exported
    }

    /// Compacts the archive if that is due. The lock is not held meanwhile, for minutes, since [`Archiver::run`] needs
    /// it.
    fn compact(&self, before: Nanos) -> Result<()> {
        let mut compaction = self.compaction().clone();
        if self.stop.is_cancelled() || !compaction.is_due(before, now()) {
            return Ok(());
        }
        let limits = compaction::limits(&self.settings.config());
        let mut names = UploadedNames::new(&self.symbols);
        let is_stopped = || self.stop.is_cancelled();
        let done = compaction.run(&self.archive.known.archive, before, &limits, &mut names, &is_stopped);
        *self.compaction() = compaction;
        if let Some(done) = done? {
            self.metrics.archive_compacted_parts.inc_by(done.replaced);
            self.metrics.archive_dropped_parts.inc_by(done.dropped);
            self.archive.known.changed();
        }
        Ok(())
    }

    fn archive_hours(&self, before: Nanos, exported: &mut Exported) -> Result<()> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let OpenArchive { known, writer, .. } = &*self.archive;
        let archive = &known.archive;
        if !progress.is_clean {
            remove_unfinished(archive, *writer)?;
            progress.is_clean = true;
        }
        let go_on = || self.go_on();
        let exporter = Exporter {
            store: &self.store,
            archive,
            writer: *writer,
            limits: PART,
            go_on: &go_on,
            faulty: &BTreeSet::new(),
        };
        let mut from = compaction::first_kept(&self.settings.config(), now());
        let (mut failed_hours, mut has_failed) = (0, false);
        while let Some(hour) = next_hour(&self.store, from, Some(before))? {
            self.until(hour.start(), has_failed);
            from = Some(hour.end());
            let candidates = profiles_of(&self.store, hour, Some(before))?;
            let fingerprint = Fingerprint::new(&candidates);
            if progress.hours.get(&hour) == Some(&fingerprint) {
                continue;
            }
            let failed = exported.failed.len();
            let (profiles, parts, bytes) = (exported.written.profiles, exported.parts, exported.written.bytes);
            let archived = exporter.hour(hour, candidates, exported);
            self.metrics.archived.inc_by(exported.written.profiles - profiles);
            self.metrics.archived_parts.inc_by(exported.parts - parts);
            self.metrics.archived_bytes.inc_by(exported.written.bytes - bytes);
            match archived {
                Ok(()) if exported.failed.len() == failed => drop(progress.hours.insert(hour, fingerprint)),
                Ok(()) => {}
                Err(_) if self.stop.is_cancelled() => return Ok(()),
                Err(error) => {
                    (has_failed, failed_hours) = (true, failed_hours + 1);
                    exported.failed.push(format!("{hour}: {}", chain(&error)));
                    if failed_hours == FAILED_HOURS_MAX {
                        return Ok(());
                    }
                    continue;
                }
            }
            failed_hours = 0;
        }
        self.until(before, has_failed);
        // Hours that retention has emptied.
        let oldest = next_hour(&self.store, None, None)?;
        progress.hours.retain(|hour, _| oldest.is_some_and(|oldest| *hour >= oldest));
        Ok(())
    }

    /// Errs when the server stops or the disk of an archive in a folder is full.
    fn go_on(&self) -> Result<()> {
        let refused = |why: String| Err(Error::Setup { what: "archive", why });
        if self.stop.is_cancelled() {
            return refused("the server is stopping".to_owned());
        }
        let Place::Folder(folder) = &self.archive.place else { return Ok(()) };
        let least = self.settings.config().data_free_bytes_min;
        let free = Folder::open_through_links(folder)
            .and_then(|folder| folder.free_bytes())
            .map_err(procprof_archive::Error::from)?;
        if free < least {
            return refused(format!("{} MiB are free, and data_free_bytes_min is {}", free >> 20, least >> 20));
        }
        Ok(())
    }

    /// Notes that everything before a moment is archived, unless something before it could not be. What arrives late
    /// does not take it back.
    fn until(&self, moment: Nanos, has_failed: bool) {
        if !has_failed {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let until = state.until.map_or(moment, |until| until.max(moment));
            state.until = Some(until);
            self.metrics.archived_until(until);
        }
    }

    /// Notes and logs the result of a run, each cause once; whether something failed.
    fn note(&self, exported: &Exported) -> bool {
        let failures: BTreeSet<String> = exported.failed.iter().cloned().collect();
        self.metrics.archive_failures.inc_by(exported.failed.len() as u64);
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<&String> = failures.difference(&progress.failures).collect();
        for failure in new.iter().take(LOGGED_MAX) {
            tracing::error!("archive: {failure}");
        }
        if new.len() > LOGGED_MAX {
            tracing::error!("archive: {} more failures", new.len() - LOGGED_MAX);
        }
        if exported.parts > 0 {
            let Exported { written, parts, .. } = exported;
            tracing::debug!("archive: {} profiles in {} bytes, {parts} parts", written.profiles, written.bytes);
        }
        progress.failures = failures;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ran = Some(Timestamp::now());
        state.failed = exported.failed.len() as u64;
        state.error = exported.failed.first().cloned();
        !exported.failed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_archived_five_minutes_after_its_end() {
        let hour = Hour(489_910);
        let at = |seconds: i64| Nanos(hour.start().0 + seconds * 1_000_000_000);
        let wait = |seconds| Rhythm::Hourly.wait(at(seconds)).as_secs();
        assert_eq!((Rhythm::Hourly.before(at(0)), wait(0)), (Hour(hour.0 - 1).start(), 300));
        assert_eq!((Rhythm::Hourly.before(at(299)), wait(299)), (Hour(hour.0 - 1).start(), 1));
        assert_eq!((Rhythm::Hourly.before(at(300)), wait(300)), (hour.start(), 3600));
        let demo = Rhythm::Every(Duration::from_secs(30));
        assert_eq!((demo.before(at(65)), demo.wait(at(65)).as_secs()), (at(30), 25));
        assert_eq!((demo.before(at(60)), demo.wait(at(60)).as_secs()), (at(30), 30));
    }
}
