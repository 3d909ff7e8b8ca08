//! Retention as a task of its own: whatever else fails, old profiles go.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use procprof_store::RetentionLimits;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::config::Config;
use crate::ingest::now;

/// What the last run did.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastRun {
    pub(crate) at: Option<Timestamp>,
    pub(crate) deleted: u64,
    pub(crate) deleted_bytes: u64,
    pub(crate) error: Option<String>,
}

/// What is remembered of runs.
#[derive(Default)]
pub(crate) struct Retention(Mutex<LastRun>);

impl Retention {
    pub(crate) fn last(&self) -> LastRun {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, last: LastRun) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = last;
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

/// Runs at once and then at each interval, until `stop`.
pub(crate) async fn run(app: Arc<App>, stop: CancellationToken) {
    loop {
        once(&app).await;
        let interval = Duration::from_secs(app.config().retention_interval_seconds);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

/// One run.
pub(crate) async fn once(app: &Arc<App>) {
    let (store, limits) = (Arc::clone(&app.store), limits(&app.config()));
    let Ok(retained) = tokio::task::spawn_blocking(move || store.retain(&limits, now())).await else { return };
    let mut last = LastRun { at: Some(Timestamp::now()), ..LastRun::default() };
    match retained {
        Ok(retained) => {
            last.deleted = retained.profiles.len() as u64;
            last.deleted_bytes = retained.bytes;
            app.metrics.retained_away.inc_by(last.deleted);
            app.metrics.retained_away_bytes.inc_by(last.deleted_bytes);
        }
        Err(error) => {
            let why = crate::http::chain(&error);
            if app.retention.last().error.as_ref() != Some(&why) {
                tracing::error!("retention: {why}");
            }
            last.error = Some(why);
        }
    }
    app.retention.set(last);
}
