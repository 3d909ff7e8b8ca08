//! Renders reports: bounded, one at a time for the same question, kept in the store's cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, Shared};
use procprof_profile::ProfileId;
use procprof_profile::format::{self, Limits};
use procprof_report::{Options, Report};
use procprof_store::{CacheKey, Entry, Format, Store};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::http::Problem;
use crate::ingest::now;
use crate::sources;
use crate::symbols::Wanted;

/// Renderings running or waiting at a time; more are refused.
const WAITING_MAX: usize = 64;
/// Longest question, in bytes.
const OPTIONS_MAX: usize = 8192;

type Rendering = Shared<BoxFuture<'static, Result<Bytes, Problem>>>;

/// The renderings under way.
pub(crate) struct Renders {
    under_way: Mutex<HashMap<(ProfileId, String), Rendering>>,
    slots: Arc<Semaphore>,
}

impl Renders {
    pub(crate) fn new(concurrency: u64) -> Renders {
        let permits = usize::try_from(concurrency).unwrap_or(1).max(1);
        Renders { under_way: Mutex::default(), slots: Arc::new(Semaphore::new(permits)) }
    }
}

/// The report of a stored profile.
///
/// # Errors
/// Options that do not fit (400), too many renderings (429), one that takes too long (503; it goes on, and a later request finds it done).
pub(crate) async fn render(app: &Arc<App>, entry: &Entry, report: &'static Report, pairs: &[(&str, &str)]) -> Result<Bytes, Problem> {
    if entry.format != Format::Pprof {
        return Err(Problem::bad_request("this page was made elsewhere; it can only be shown as it is"));
    }
    let options = Options::parse(pairs.iter().copied()).map_err(|error| Problem::bad_request(error.to_string()))?;
    let what = question(entry, report, pairs)?;
    let rendering = match begin(app, entry, report, options, what)? {
        Begun::Cached(bytes) => return Ok(bytes),
        Begun::Running(rendering) => rendering,
    };
    let patience = Duration::from_secs(app.config().render_seconds_max);
    tokio::time::timeout(patience, rendering).await.unwrap_or_else(|_| {
        let status = axum::http::StatusCode::SERVICE_UNAVAILABLE;
        let message = format!("the report is not ready after {} s; it is still being made, so ask again", patience.as_secs());
        Err(Problem { retry_after: Some(5), ..Problem::new(status, "still_rendering", message) })
    })
}

/// Whether a report of a profile stays what it is for ever: nothing more can be named in it, and no source files are shown.
pub(crate) fn is_final(entry: &Entry, report: &Report) -> bool {
    Wanted::of(&entry.meta).is_empty() && report.name != "list"
}

/// Everything that decides what a report looks like. A profile that got names meanwhile has another size.
fn question(entry: &Entry, report: &Report, pairs: &[(&str, &str)]) -> Result<String, Problem> {
    let mut what = format!("{} {} {}", env!("CARGO_PKG_VERSION"), entry.bytes, report.name);
    for (key, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        what.push_str(&format!("\n{}={value}", key.escape_default()));
    }
    if what.len() > OPTIONS_MAX {
        return Err(Problem::bad_request("the options are too long"));
    }
    Ok(what)
}

enum Begun {
    Cached(Bytes),
    Running(Rendering),
}

fn begin(app: &Arc<App>, entry: &Entry, report: &'static Report, options: Options, what: String) -> Result<Begun, Problem> {
    let key = (entry.id, what);
    let mut under_way = app.renders.under_way.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = under_way.get(&key) {
        return Ok(Begun::Running(running.clone()));
    }
    if let Some(bytes) = app.store.cache_get(&cache_key(entry, &key.1)) {
        return Ok(Begun::Cached(Bytes::from(bytes)));
    }
    if under_way.len() >= WAITING_MAX {
        app.metrics.refuse("renders");
        return Err(Problem::busy(format!("{WAITING_MAX} reports are being made; try again in a moment")));
    }
    let slots = Arc::clone(&app.renders.slots);
    let (own, entry, what) = (Arc::clone(app), entry.clone(), key.1.clone());
    // A task of its own: it goes on when the reader goes away.
    let task = tokio::spawn(async move {
        let made = match slots.acquire_owned().await {
            Ok(_slot) => {
                let (store, entry, what, config) = (Arc::clone(&own.store), entry.clone(), what.clone(), own.config());
                let made = tokio::task::spawn_blocking(move || make(&store, &config.source_roots, &entry, report, &options, &what)).await;
                made.unwrap_or_else(|_| Err(Problem::internal("a report failed; the log has the place")))
            }
            Err(_) => Err(Problem::busy("the server is stopping")),
        };
        own.metrics.renders.inc();
        own.renders.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&(entry.id, what));
        made
    });
    let rendering = async move { task.await.unwrap_or_else(|_| Err(Problem::internal("a report failed; the log has the place"))) };
    let rendering = rendering.boxed().shared();
    under_way.insert(key, rendering.clone());
    Ok(Begun::Running(rendering))
}

fn cache_key<'a>(entry: &Entry, what: &'a str) -> CacheKey<'a> {
    CacheKey { node: Some(entry.node), profile: Some(entry.id), what }
}

fn make(store: &Store, roots: &[String], entry: &Entry, report: &Report, options: &Options, what: &str) -> Result<Bytes, Problem> {
    let bytes = store.open_bytes(entry.id)?;
    let unreadable = |error: procprof_profile::Error| Problem::internal(format!("profile {}: {error}", entry.id));
    let profile = format::decode(&bytes, &Limits::default()).map_err(unreadable)?.profile;
    let sources = sources::read(roots, report, &profile, options).map_err(|error| Problem::bad_request(error.to_string()))?;
    let made = report.render(&profile, options, &sources).map_err(|error| Problem::bad_request(error.to_string()))?;
    // Source files change without the server's knowing.
    let shows_sources = !(sources.files.is_empty() && sources.missing.is_empty());
    if !shows_sources && let Err(error) = store.cache_put(&cache_key(entry, what), &made, now()) {
        tracing::warn!("cache: {}", crate::http::chain(&error));
    }
    Ok(Bytes::from(made))
}
