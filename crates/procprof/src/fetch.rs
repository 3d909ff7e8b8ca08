//! Profiles and names from running processes whose addresses were typed on the command line: several at once, a bar for
//! each.

mod keep;
mod remote;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::MultiProgress;
use procprof_collect::{
    CollectError, Fetched, HttpClient, ProfileUrl, SymbolLimits, Watch, fetch, fetch_symbols_at, fetch_text, resolve,
};
use procprof_profile::Addr;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

pub(crate) use keep::write_new;
pub(crate) use remote::{Remote, TlsFiles};

use crate::progress::Bar;

/// Most processes that are queried at a time.
const AT_ONCE_MAX: usize = 32;
/// Largest text about a process, in bytes.
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// Longest wait for one.
const TEXT_TIME: Duration = Duration::from_secs(20);

/// A profile to get.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Which, and from where.
    pub(crate) remote: Remote,
    /// How long the process is expected to take, in seconds; 0 if unknown.
    pub(crate) seconds: u32,
    /// Longest wait for the whole answer.
    pub(crate) limit: Duration,
}

/// Fetches profiles and names from processes.
pub(crate) struct Fetcher {
    runtime: Runtime,
    client: Arc<HttpClient>,
}

impl Fetcher {
    /// One without connections.
    pub(crate) fn new() -> Result<Fetcher> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
        Ok(Fetcher { runtime, client: Arc::new(HttpClient::new()) })
    }

    /// The answers, in the order of the questions.
    pub(crate) fn get_all(&self, questions: &[Question]) -> Vec<Result<Fetched, CollectError>> {
        questions
            .chunks(AT_ONCE_MAX)
            .flat_map(|chunk| self.runtime.block_on(get_at_once(&self.client, chunk)))
            .collect()
    }

    /// A short text from `url`, at the same process.
    pub(crate) fn text(&self, remote: &Remote, url: &ProfileUrl) -> Result<String, CollectError> {
        self.runtime.block_on(fetch_text(&self.client, &remote.target, url, TEXT_BYTES_MAX, TEXT_TIME))
    }

    /// The URL to which `url` redirects.
    pub(crate) fn resolve(&self, remote: &Remote, url: &ProfileUrl) -> ProfileUrl {
        self.runtime.block_on(resolve(&self.client, &remote.target, url, TEXT_TIME))
    }

    /// The names on the symbol page at `url` for addresses of the process; unknown ones are left out.
    pub(crate) fn names(
        &self,
        remote: &Remote,
        url: &ProfileUrl,
        addresses: &[Addr],
    ) -> Result<Vec<(Addr, String)>, CollectError> {
        let (limits, watch) = (SymbolLimits::default(), Watch::default());
        let fetched = fetch_symbols_at(&self.client, &remote.target, url, addresses, &limits, &watch);
        let symbols = self.runtime.block_on(fetched)?;
        if symbols.requested < addresses.len() {
            eprintln!(
                "{url}: only {} of {} addresses were requested within the limits",
                symbols.requested,
                addresses.len()
            );
        }
        Ok(symbols.names.into_iter().collect())
    }
}

async fn get_at_once(client: &Arc<HttpClient>, questions: &[Question]) -> Vec<Result<Fetched, CollectError>> {
    let bars = MultiProgress::new();
    let mut tasks = JoinSet::new();
    for (index, question) in questions.iter().cloned().enumerate() {
        let bar = Bar::below(&bars, &question.remote.host());
        let client = Arc::clone(client);
        tasks.spawn(async move {
            let watch = Watch { progress: Some(bar.listener()), ..Watch::default() };
            let Remote { url, target } = &question.remote;
            (index, fetch(&client, target, url, question.seconds, question.limit, &watch).await)
        });
    }
    let cancelled = |question: &Question| Err(CollectError::Cancelled { url: question.remote.url.to_string() });
    // A task that panicked has reported it; its answer stays "cancelled".
    let mut answers: Vec<_> = questions.iter().map(cancelled).collect();
    while let Some(task) = tasks.join_next().await {
        if let Ok((index, answer)) = task {
            answers[index] = answer;
        }
    }
    answers
}
