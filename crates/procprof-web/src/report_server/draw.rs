//! Makes reports: a few at a time, off the threads that answer, and kept while there is room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use procprof_report::{Budget, Options, Report, Top};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Pairs, View};
use crate::problem::{ApiResult, Problem};

/// Reports made at a time.
const AT_ONCE: usize = 2;
/// Reports kept, and their bytes at most.
const KEPT_MAX: usize = 32;
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Bytes of a report, and of any one table made for it: more would be of no use in a browser.
const REPORT_BYTES_MAX: u64 = 512 << 20;
const TABLE_BYTES_MAX: u64 = 2 << 30;

/// The reports made so far.
pub(super) struct Drawings {
    slots: Semaphore,
    kept: Mutex<VecDeque<(String, Bytes)>>,
}

impl Default for Drawings {
    fn default() -> Self {
        Drawings { slots: Semaphore::new(AT_ONCE), kept: Mutex::default() }
    }
}

impl Drawings {
    fn get(&self, question: &str) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == question).map(|(_, bytes)| bytes.clone())
    }

    /// Keeps it, and lets go of what was kept longest until all fit.
    fn keep(&self, question: String, bytes: Bytes) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((question, bytes));
        while kept.len() > KEPT_MAX || kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > KEPT_BYTES_MAX {
            kept.pop_front();
        }
    }
}

/// The report with these options.
pub(super) async fn report(view: &Arc<View>, report: &'static Report, pairs: &Pairs) -> ApiResult<Bytes> {
    let options = options(pairs)?;
    let question = super::address("", report.name, pairs);
    if let Some(bytes) = view.drawings.get(&question) {
        return Ok(bytes);
    }
    let made = apart(view, move |view, stop| {
        let viewer = &view.viewer;
        let options = Options { budget: budget(stop), ..options };
        let sources = (viewer.sources)(report, &viewer.profile, &options)?;
        report.render(&viewer.profile, &options, &sources)
    });
    let bytes = Bytes::from(made.await?);
    view.drawings.keep(question, bytes.clone());
    Ok(bytes)
}

/// The rows of `top` with these options.
pub(super) async fn top(view: &Arc<View>, pairs: &Pairs) -> ApiResult<Top> {
    let options = options(pairs)?;
    apart(view, move |view, stop| {
        procprof_report::top(&view.viewer.profile, &Options { budget: budget(stop), ..options })
    })
    .await
}

/// The lines that describe the profile.
pub(super) async fn about(view: &Arc<View>, pairs: &Pairs) -> ApiResult<Vec<String>> {
    let options = options(pairs)?;
    apart(view, move |view, stop| {
        procprof_report::about(&view.viewer.profile, &Options { budget: budget(stop), ..options })
    })
    .await
}

pub(super) fn options(pairs: &Pairs) -> ApiResult<Options> {
    let pairs = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Options::parse(pairs).map_err(|error| Problem::bad_request(error.to_string()))
}

pub(super) fn budget(stop: CancellationToken) -> Budget {
    Budget::new(REPORT_BYTES_MAX, TABLE_BYTES_MAX).until(move || stop.is_cancelled())
}

/// Does the work on a thread of its own when it is its turn; it is stopped when its client no longer waits.
pub(super) async fn apart<T: Send + 'static>(
    view: &Arc<View>,
    work: impl FnOnce(&View, CancellationToken) -> procprof_report::Result<T> + Send + 'static,
) -> ApiResult<T> {
    let _slot = view.drawings.slots.acquire().await.map_err(|_| Problem::busy("the viewer is stopping"))?;
    let (own, stop) = (Arc::clone(view), CancellationToken::new());
    let _stops = stop.clone().drop_guard();
    let done = tokio::task::spawn_blocking(move || work(&own, stop)).await;
    let done = done.map_err(|_| Problem::internal("a report failed; the terminal has the place"))?;
    done.map_err(|error| Problem::bad_request(error.to_string()))
}
