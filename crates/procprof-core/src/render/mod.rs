//! Renders reports: bounded in bytes, memory and time, one at a time for the same question, kept in the store's cache.
//!
//! A requester (a user, or an address where there are no users) has a part of the slots and a quarter of the queue, so
//! that others' reports are made meanwhile. A report that takes too long is stopped from within; so are all when the
//! server stops.

mod error;
mod range;
mod subject;
mod sums;
mod trees;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, Shared};
use procprof_profile::ProfileId;
use procprof_report::{Budget, Error, Options, Report};
use procprof_store::{CacheKey, Entry, Store};
use tokio_util::sync::CancellationToken;

use crate::archiving::KnownParts;
use crate::clock::now;
pub use error::RenderError;
pub use range::{Coverage, ProfileRange, RangeSum, stored_in_range};
pub use subject::{SUMMED_BYTES_MAX, SUMMED_MAX, Subject};
pub use sums::{FunctionsRead, Grouping, KnownProfiles, RangeProfile, RangeProfiles, SummedRange};
pub use trees::{AskedTree, KeptTrees, Side, TreeSource};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::servers::Servers;
use crate::settings::Settings;
use crate::shared_bytes::SharedBytes;
use crate::shares::{NoShare, Requester};
use crate::source_files;
use crate::turns::{Turn, Turns};
use subject::difference;
use trees::Trees;

/// Reports running or waiting at a time; more are refused.
const WAITING_MAX: u64 = 64;
/// Longest question, in bytes.
const OPTIONS_MAX: usize = 8192;
/// Time that a stopped report has to return its error.
const GRACE: Duration = Duration::from_secs(5);

type Rendering = Shared<BoxFuture<'static, Result<Bytes, RenderError>>>;

/// Renders reports of stored profiles.
pub struct Renderer {
    settings: Arc<Settings>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    /// `None` without an archive.
    archive: Option<Arc<KnownParts>>,
    /// Those of the archive.
    servers: Option<Arc<Servers>>,
    under_way: Mutex<HashMap<(Option<ProfileId>, String), Rendering>>,
    /// Cached reports and stored files that are being sent.
    shared: SharedBytes,
    trees: Trees,
    turns: Turns,
    /// Those of questions about trees that are there.
    answers: Turns,
}

impl Renderer {
    /// A renderer of what is in the store, and in the archive if there is one; nothing is rendered after `stop`.
    pub fn new(
        settings: Arc<Settings>,
        store: Arc<Store>,
        archive: Option<Arc<KnownParts>>,
        servers: Option<Arc<Servers>>,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
    ) -> Renderer {
        let concurrency = settings.config().render_concurrency_max;
        let [turns, answers] = [concurrency; 2].map(|slots| Turns::new(slots, WAITING_MAX));
        Renderer {
            settings,
            store,
            archive,
            servers,
            metrics,
            stop,
            under_way: Mutex::default(),
            shared: SharedBytes::default(),
            trees: Trees::default(),
            turns,
            answers,
        }
    }

    /// Finds the profiles of a range in the archive, in the store and at other servers; `None` without an archive.
    ///
    /// # Errors
    /// [`RenderError::Question`] for more profiles than can be summed; when store or archive cannot be read.
    pub async fn find_range(&self, range: ProfileRange) -> Result<Option<RangeSum>, RenderError> {
        let Some(known) = self.archive.clone() else { return Ok(None) };
        let (store, servers) = (Arc::clone(&self.store), self.servers.clone());
        let elsewhere = match &servers {
            Some(servers) => servers.elsewhere(&range.question()).await,
            None => Vec::new(),
        };
        let found =
            tokio::task::spawn_blocking(move || RangeSum::find(&store, Some(known), range, servers, elsewhere)).await;
        found.unwrap_or_else(|_| Err(failed())).map(Some)
    }

    /// The stored file itself, in memory once for all who read it at a time.
    ///
    /// # Errors
    /// The store's.
    pub fn stored_file(&self, entry: &Entry) -> procprof_store::Result<Bytes> {
        // A file that got names meanwhile has another size.
        let key = (Some(entry.id), format!("{} {}", entry.file_name, entry.bytes));
        Ok(self.shared.get(key, || self.store.open_bytes(entry.id).map(Some))?.unwrap_or_default())
    }

    /// The report of a subject.
    ///
    /// # Errors
    /// See [`RenderError`].
    pub async fn render(
        self: &Arc<Self>,
        subject: &Subject,
        report: &'static Report,
        pairs: &[(&str, &str)],
        requester: &Requester,
    ) -> Result<Bytes, RenderError> {
        subject.check()?;
        let options =
            Options::parse(pairs.iter().copied()).map_err(|error| RenderError::Question(error.to_string()))?;
        let what = format!("{} {} {}{}", env!("CARGO_PKG_VERSION"), subject.key(), report.name, options_text(pairs)?);
        match self.begin(subject, report, options, what, requester)? {
            Begun::Cached(bytes) => Ok(bytes),
            Begun::Running(rendering) => self.patiently(rendering).await,
        }
    }

    /// Waits as long as a report may take.
    async fn patiently<T>(&self, made: impl Future<Output = Result<T, RenderError>>) -> Result<T, RenderError> {
        let patience = Duration::from_secs(self.settings.config().render_seconds_max);
        tokio::time::timeout(patience + GRACE, made)
            .await
            .unwrap_or_else(|_| Err(RenderError::StillRendering { seconds: patience.as_secs() }))
    }

    fn begin(
        self: &Arc<Self>,
        subject: &Subject,
        report: &'static Report,
        options: Options,
        what: String,
        requester: &Requester,
    ) -> Result<Begun, RenderError> {
        let key = (subject.owner().map(|entry| entry.id), what);
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = under_way.get(&key) {
            return Ok(Begun::Running(running.clone()));
        }
        let cached =
            self.shared.get(key.clone(), || Ok::<_, RenderError>(self.store.cache_get(&cache_key(subject, &key.1))))?;
        if let Some(bytes) = cached {
            return Ok(Begun::Cached(bytes));
        }
        let turn = self.enter(&self.turns, requester)?;
        let (own, subject, own_key) = (Arc::clone(self), subject.clone(), key.clone());
        // A task of its own: it goes on when the requester goes away.
        let task = tokio::spawn(async move {
            let making = Making { limited: own.limited(report.name), report, options };
            let (store, what) = (Arc::clone(&own.store), own_key.1.clone());
            let made = own.in_turn(turn, move || making.make(&store, &subject, &what)).await;
            own.metrics.renders.inc();
            own.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&own_key);
            made
        });
        let rendering = async move { task.await.unwrap_or_else(|_| Err(failed())) }.boxed().shared();
        under_way.insert(key, rendering.clone());
        Ok(Begun::Running(rendering))
    }

    /// Enters the queue; an error if as many reports as may be are under way, of this kind or of this requester.
    fn enter(&self, turns: &Turns, requester: &Requester) -> Result<Turn, RenderError> {
        turns.enter(requester).map_err(|full| {
            self.metrics.refuse("renders");
            RenderError::Busy(match full {
                NoShare::Own { limit } => format!(
                    "{limit} reports are being made for you, a quarter of the {WAITING_MAX} at a time; try again in a \
                     moment"
                ),
                NoShare::Pool { limit, .. } => format!("{limit} reports are being made; try again in a moment"),
            })
        })
    }

    /// Does the work off the threads that answer, when it is the requester's turn.
    async fn in_turn<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce() -> Result<T, RenderError> + Send + 'static,
    ) -> Result<T, RenderError> {
        let slot = tokio::select! {
            () = self.stop.cancelled() => None,
            slot = turn.slot() => slot,
        };
        let Some(slot) = slot else { return Err(RenderError::Stopping) };
        let made = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            work()
        });
        made.await.unwrap_or_else(|_| Err(failed()))
    }

    fn limited(&self, what: &'static str) -> Limited {
        Limited { config: self.settings.config(), stop: self.stop.clone(), end: OnceLock::new(), what }
    }
}

fn failed() -> RenderError {
    RenderError::Internal("a report failed; the log has the place".to_owned())
}

/// Whether a report of a subject stays what it is for ever: nothing more can be named in it, and no source files are
/// shown.
pub fn is_final(subject: &Subject, report: &Report) -> bool {
    subject.is_final() && !report.takes_sources()
}

/// The options as a text that is another one for other options.
fn options_text(pairs: &[(&str, &str)]) -> Result<String, RenderError> {
    let given = pairs.iter().filter(|(_, value)| !value.is_empty());
    let text: String = given.map(|(key, value)| format!("\n{}={value}", key.escape_default())).collect();
    if text.len() > OPTIONS_MAX {
        return Err(RenderError::Question("the options are too long".to_owned()));
    }
    Ok(text)
}

enum Begun {
    Cached(Bytes),
    Running(Rendering),
}

fn cache_key<'a>(subject: &Subject, what: &'a str) -> CacheKey<'a> {
    let owner = subject.owner();
    CacheKey { node: owner.map(|entry| entry.node), profile: owner.map(|entry| entry.id), what }
}

/// One rendering.
struct Making {
    limited: Limited,
    report: &'static Report,
    options: Options,
}

impl Making {
    fn make(mut self, store: &Store, subject: &Subject, what: &str) -> Result<Bytes, RenderError> {
        self.options.budget = self.limited.budget();
        let profile = match subject.load(store, &|| self.limited.go_on())? {
            (profile, None) => profile,
            (profile, Some(base)) => difference(profile, base, self.options.normalize)?,
        };
        let Making { limited, report, options } = &self;
        let sources = source_files::read(&limited.config.source_roots, report, &profile, options)
            .map_err(|error| limited.error(&error))?;
        let mut made = Vec::new();
        let written = report.write(std::borrow::Cow::Owned(profile), options, &sources, &mut made);
        written.map_err(|error| limited.error(&error))?;
        // Source files change without notice to the server.
        let shows_sources = !(sources.files.is_empty() && sources.missing.is_empty());
        if !shows_sources && let Err(error) = store.cache_put(&cache_key(subject, what), &made, now()) {
            tracing::warn!("cache: {}", crate::error::chain(&error));
        }
        Ok(Bytes::from(made))
    }
}

/// The limits of one piece of work, and its errors in the words of the configuration.
struct Limited {
    config: Arc<Config>,
    stop: CancellationToken,
    /// The moment at which it is stopped, once it has begun.
    end: OnceLock<Instant>,
    /// Its name.
    what: &'static str,
}

impl Limited {
    /// The limits; the time counts from the first call.
    fn budget(&self) -> Budget {
        let (stop, end) = (self.stop.clone(), self.end());
        budget(&self.config).until(move || stop.is_cancelled() || Instant::now() >= end)
    }

    fn end(&self) -> Instant {
        *self.end.get_or_init(|| Instant::now() + Duration::from_secs(self.config.render_seconds_max))
    }

    /// Errs when it is to stop.
    fn go_on(&self) -> Result<(), RenderError> {
        let is_over = self.stop.is_cancelled() || Instant::now() >= self.end();
        if is_over { Err(self.error(&Error::Stopped)) } else { Ok(()) }
    }

    fn error(&self, error: &Error) -> RenderError {
        match error {
            Error::Stopped if self.stop.is_cancelled() => RenderError::Stopping,
            Error::Stopped => RenderError::TooLong { report: self.what, seconds: self.config.render_seconds_max },
            Error::OutputLimit { .. } => RenderError::TooLarge { why: error.to_string(), key: "render_bytes_max" },
            Error::MemoryLimit { .. } => {
                RenderError::TooLarge { why: error.to_string(), key: "render_memory_bytes_max" }
            }
            error => RenderError::Question(error.to_string()),
        }
    }
}

/// What a report may take by the configuration, but for time.
pub fn budget(config: &Config) -> Budget {
    Budget::new(config.render_bytes_max, config.render_memory_bytes_max)
}
