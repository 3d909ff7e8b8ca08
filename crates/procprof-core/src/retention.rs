//! Retention as a task of its own: whatever else fails, old profiles go.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use procprof_store::{Clock, RetentionLimits, Store};
use tokio_util::sync::CancellationToken;

use crate::archiving::Archiver;
use crate::clock::now;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// The result of the last run.
#[derive(Clone, Debug, Default)]
pub struct LastRun {
    /// When it ended; `None` before the first.
    pub at: Option<Timestamp>,
    /// Profiles it deleted.
    pub deleted: u64,
    /// Their size.
    pub deleted_bytes: u64,
    /// Why it could not.
    pub error: Option<String>,
}

/// Deletes old profiles.
pub struct Retention {
    settings: Arc<Settings>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    archiver: Option<Arc<Archiver>>,
    last: Mutex<LastRun>,
}

impl Retention {
    /// Deletes by the limits of the configuration; nothing runs yet.
    pub fn new(
        settings: Arc<Settings>,
        store: Arc<Store>,
        metrics: Arc<Metrics>,
        archiver: Option<Arc<Archiver>>,
    ) -> Retention {
        Retention { settings, store, metrics, archiver, last: Mutex::default() }
    }

    /// The result of the last run.
    pub fn last(&self) -> LastRun {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, last: LastRun) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    /// Runs at once and then at each interval, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            self.once().await;
            let interval = Duration::from_secs(self.settings.config().retention_interval_seconds);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
        }
    }

    /// One run.
    pub(crate) async fn once(&self) {
        let (store, limits) = (Arc::clone(&self.store), limits(&self.settings.config()));
        let Ok(retained) = tokio::task::spawn_blocking(move || store.retain_by(&limits, &Clock::read(now()))).await
        else {
            return;
        };
        let mut last = LastRun { at: Some(Timestamp::now()), ..LastRun::default() };
        match retained {
            Ok((retained, set_by)) => {
                if set_by != 0 {
                    let seconds = set_by / 1_000_000_000;
                    tracing::warn!("the clock was set by {seconds} s; retention goes by the time that passed");
                }
                last.deleted = retained.profiles.len() as u64;
                last.deleted_bytes = retained.bytes;
                self.metrics.retained_away.inc_by(last.deleted);
                self.metrics.retained_away_bytes.inc_by(last.deleted_bytes);
                if let Some(archiver) = &self.archiver {
                    archiver.note_deleted(&retained.completed);
                }
            }
            Err(error) => {
                let why = crate::error::chain(&error);
                if self.last().error.as_ref() != Some(&why) {
                    tracing::error!("retention: {why}");
                }
                last.error = Some(why);
            }
        }
        self.set(last);
    }
}

/// The limits as configured.
pub(crate) fn limits(config: &Config) -> RetentionLimits {
    RetentionLimits {
        retained_days: config.proc_profile_file_retained_days,
        retained_size_bytes: config.proc_profile_file_retained_size_bytes,
        data_bytes_max: config.data_bytes_max,
        free_bytes_min: config.data_free_bytes_min,
    }
}
