//! Queries a process for the names of its own addresses, at `/pprof/symbol`. Opt-in: an older StarRocks backend crashed
//! on it.
//!
//! ```text
//! GET  /pprof/symbol               num_symbols: 1
//! POST /pprof/symbol 0x4005d0+…    0x4005d0<TAB>main
//! ```
//! `num_symbols: 0` means the process has none; any other number only means that it has some.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use procprof_profile::Addr;
use reqwest::{Method, Url};

use crate::address::shown;
use crate::collect::{not_sent, refuse_failure};
use crate::{CollectError, HttpClient, ProfileUrl, Result, Target, Watch, body};

/// Bytes of names kept; once they are reached no further request is sent.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// Bounds of the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolLimits {
    /// Addresses in one request.
    pub batch: usize,
    /// Addresses in all; the rest stays unnamed.
    pub addresses: usize,
    /// Bytes of one answer.
    pub answer_bytes: u64,
    /// Time for one answer.
    pub answer_time: Duration,
    /// Time for all.
    pub total_time: Duration,
}

impl Default for SymbolLimits {
    /// 2,000 addresses a request and 200,000 in all, 16 MiB and 20 s an answer, 120 s in all.
    fn default() -> Self {
        SymbolLimits {
            batch: 2_000,
            addresses: 200_000,
            answer_bytes: 16 << 20,
            answer_time: Duration::from_secs(20),
            total_time: Duration::from_secs(120),
        }
    }
}

/// The names a process gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Name by requested address; inlined functions follow the one they are inlined into, after `--`. Unknown addresses
    /// are missing.
    pub names: BTreeMap<Addr, String>,
    /// Addresses that were requested; fewer than given when a limit was hit.
    pub requested: usize,
}

/// Queries the target's symbol page for names of `addresses`, which should be without repetitions.
///
/// # Errors
/// [`CollectError`] of the first request that fails; [`CollectError::Unsupported`] never. When the time for all runs
/// out or 64 MiB of names have come, the names so far are returned with a smaller [`Symbols::requested`].
pub async fn fetch_symbols(
    client: &HttpClient,
    target: &Target,
    addresses: &[Addr],
    limits: &SymbolLimits,
    watch: &Watch,
) -> Result<Symbols> {
    let place = target.endpoints.symbols;
    let url = target.base(place.service)?.join(place.path);
    let page = Page { client, target, limits, watch, shown: shown(&url), url };
    let answer = page.ask(Method::GET, String::new()).await?;
    if !has_symbols(&answer) {
        return Ok(Symbols::default());
    }
    page.names(addresses).await
}

/// Queries the symbol page at `url`, whatever `num_symbols` it reports, for names of `addresses`; the target gives
/// credentials and TLS options.
///
/// # Errors
/// As [`fetch_symbols`].
pub async fn fetch_symbols_at(
    client: &HttpClient,
    target: &Target,
    url: &ProfileUrl,
    addresses: &[Addr],
    limits: &SymbolLimits,
    watch: &Watch,
) -> Result<Symbols> {
    Page { client, target, limits, watch, shown: url.to_string(), url: url.url() }.names(addresses).await
}

impl Symbols {
    /// Keeps the names of an answer for the addresses `requested`, and none for other addresses; returns their bytes.
    fn keep(&mut self, requested: &[Addr], answer: &str) -> usize {
        let requested: HashSet<Addr> = requested.iter().copied().collect();
        let mut bytes = 0;
        for (address, name) in parse_names(answer).filter(|(address, _)| requested.contains(address)) {
            bytes += name.len();
            self.names.insert(address, name);
        }
        bytes
    }
}

struct Page<'a> {
    client: &'a HttpClient,
    target: &'a Target,
    limits: &'a SymbolLimits,
    watch: &'a Watch,
    shown: String,
    url: Url,
}

impl Page<'_> {
    async fn names(&self, addresses: &[Addr]) -> Result<Symbols> {
        let deadline = tokio::time::Instant::now() + self.limits.total_time;
        let mut symbols = Symbols::default();
        let wanted = &addresses[..addresses.len().min(self.limits.addresses)];
        let mut names_bytes = 0;
        for batch in wanted.chunks(self.limits.batch.max(1)) {
            let query: Vec<String> = batch.iter().map(|address| format!("{address:#x}")).collect();
            let Ok(answer) = tokio::time::timeout_at(deadline, self.ask(Method::POST, query.join("+"))).await else {
                break;
            };
            symbols.requested += batch.len();
            names_bytes += symbols.keep(batch, &answer?);
            if names_bytes >= NAMES_BYTES_MAX {
                break;
            }
        }
        Ok(symbols)
    }

    async fn ask(&self, method: Method, query: String) -> Result<String> {
        let timeout = || CollectError::Timeout { url: self.shown.clone(), after: self.limits.answer_time };
        tokio::select! {
            biased;
            () = self.watch.cancel.cancelled() => Err(CollectError::Cancelled { url: self.shown.clone() }),
            answer = tokio::time::timeout(self.limits.answer_time, self.send(method, query)) => answer.map_err(|_| timeout())?,
        }
    }

    async fn send(&self, method: Method, query: String) -> Result<String> {
        let request = self.client.request(self.target, method, self.url.clone())?.body(query);
        let response =
            request.send().await.map_err(|error| not_sent(error, &self.shown, self.target.timeouts.connect))?;
        let response = refuse_failure(response, &self.shown).await?;
        let answer = body::read(response, &self.shown, self.limits.answer_bytes, &Watch::default()).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn has_symbols(text: &str) -> bool {
    let count = text.lines().find_map(|line| line.trim().strip_prefix("num_symbols:"));
    count.is_some_and(|count| count.trim().parse::<u64>().is_ok_and(|count| count > 0))
}

/// Lines `0xADDR<white space>name`; a line that is none is passed over, and so is an address for a name.
fn parse_names(text: &str) -> impl Iterator<Item = (Addr, String)> {
    text.lines().filter_map(|line| {
        let (address, name) = line.trim().split_once(char::is_whitespace)?;
        let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
        let name = name.trim();
        let is_name = !name.is_empty() && !name.starts_with("0x") && name != "??";
        is_name.then(|| (Addr(address), name.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_symbol_page() {
        assert!(has_symbols("num_symbols: 1\n"));
        assert!(!has_symbols("num_symbols: 0\n") && !has_symbols("<html>"));
        let names: Vec<_> = parse_names("0x00004005d0\tmain\n0x7f a b(int)--c\n0x1\t0x1\nnoise\n0x2\t??\n").collect();
        assert_eq!(names, [(Addr(0x4005d0), "main".to_owned()), (Addr(0x7f), "a b(int)--c".to_owned())]);
    }

    #[test]
    fn unrequested_names_are_not_kept() {
        let mut symbols = Symbols::default();
        assert_eq!(symbols.keep(&[Addr(1), Addr(3)], "0x1 main\n0x2 uninvited\n"), 4);
        assert_eq!(symbols.names.into_iter().collect::<Vec<_>>(), [(Addr(1), "main".to_owned())]);
    }
}
