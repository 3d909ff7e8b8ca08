//! One profile, or one short text, from a URL that a person typed: nothing is known of the process behind it.
//!
//! The [`Target`] gives credentials, TLS options and limits; its kind, addresses and routes do not count.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use procprof_profile::ProfileType;
use procprof_profile::format::Decoded;
use reqwest::{Method, Response};

use crate::collect::{not_sent, refuse_failure};
use crate::{CollectError, HttpClient, Instance, ProfileUrl, Progress, Result, Target, Watch, body, decode_answer};

/// A profile from a URL.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// As it was sent, in whatever format.
    pub bytes: Bytes,
    /// The same, decoded.
    pub decoded: Decoded,
    /// The requested URL, without secrets.
    pub url: String,
    /// The process that answered, as far as known.
    pub instance: Instance,
}

/// Gets a profile of any type from `url`, within `limit`; `seconds` is how long the process is known to take, for the
/// watch alone.
///
/// Redirects are followed as in [`collect`](crate::collect()): three, to the same host and port.
///
/// # Errors
/// [`CollectError`]; what does not decode as a profile is [`CollectError::NotAProfile`].
pub async fn fetch(
    client: &HttpClient,
    target: &Target,
    url: &ProfileUrl,
    seconds: u32,
    limit: Duration,
    watch: &Watch,
) -> Result<Fetched> {
    let shown = url.to_string();
    let get = async {
        let began = tokio::time::Instant::now();
        let instance = Instance::read(client, target, &url.base()).await;
        watch.report(Progress::Sampling { seconds });
        let read = async {
            let response = send(client, target, Method::GET, url).await?;
            body::read(response, &shown, target.max_bytes, watch).await
        };
        let timeout = |_| Err(CollectError::Timeout { url: shown.clone(), after: limit });
        match tokio::time::timeout_at(began + limit, read).await.unwrap_or_else(timeout) {
            Ok(bytes) => Ok((instance, bytes)),
            Err(error) => Err(instance.explained(error).await),
        }
    };
    let (instance, bytes) = tokio::select! {
        biased;
        () = watch.cancel.cancelled() => return Err(CollectError::Cancelled { url: shown }),
        got = get => got?,
    };
    watch.report(Progress::Checking);
    let (origin, unpacked) = (shown.clone(), target.max_bytes.saturating_mul(4));
    // A thread of its own: decoding a large heap profile takes a second.
    let checked = tokio::task::spawn_blocking(move || {
        let decoded = decode_answer(&bytes, &ProfileType::Other(String::new()), unpacked)
            .map_err(|unfit| unfit.error(&origin, &bytes))?;
        Ok((Bytes::from(bytes), decoded))
    });
    // The task fails only if the runtime is going down.
    let (bytes, decoded) = checked.await.unwrap_or_else(|_| Err(CollectError::Cancelled { url: shown.clone() }))?;
    Ok(Fetched { bytes, decoded, url: shown, instance })
}

/// Gets a text of at most `bytes` from `url`, within `limit`: pages about the process.
///
/// # Errors
/// [`CollectError`].
pub async fn fetch_text(
    client: &HttpClient,
    target: &Target,
    url: &ProfileUrl,
    bytes: u64,
    limit: Duration,
) -> Result<String> {
    text(client, target, Method::GET, url, bytes, limit).await
}

/// Posts an empty body to `url`, as switches require, and gets a text of at most `bytes`, within `limit`.
///
/// # Errors
/// [`CollectError`].
pub async fn post_text(
    client: &HttpClient,
    target: &Target,
    url: &ProfileUrl,
    bytes: u64,
    limit: Duration,
) -> Result<String> {
    text(client, target, Method::POST, url, bytes, limit).await
}

/// Posts JSON to `url` and gets at most `bytes`, within `limit`.
///
/// # Errors
/// [`CollectError`].
pub async fn post_bytes(
    client: &HttpClient,
    target: &Target,
    url: &ProfileUrl,
    json: Vec<u8>,
    bytes: u64,
    limit: Duration,
) -> Result<Vec<u8>> {
    let shown = url.to_string();
    let get = async {
        let request =
            client.request(target, Method::POST, url.url())?.header(CONTENT_TYPE, "application/json").body(json);
        let response = request.send().await.map_err(|error| not_sent(error, &shown, target.timeouts.connect))?;
        body::read(refuse_failure(response, &shown).await?, &shown, bytes, &Watch::default()).await
    };
    tokio::time::timeout(limit, get)
        .await
        .unwrap_or_else(|_| Err(CollectError::Timeout { url: shown.clone(), after: limit }))
}

async fn text(
    client: &HttpClient,
    target: &Target,
    method: Method,
    url: &ProfileUrl,
    bytes: u64,
    limit: Duration,
) -> Result<String> {
    let got = fetch_bytes(client, target, method, url, bytes, limit, &Watch::default()).await?;
    Ok(String::from_utf8_lossy(&got).into_owned())
}

/// Gets at most `bytes` from `url`, within `limit`, in whatever format.
pub(crate) async fn fetch_bytes(
    client: &HttpClient,
    target: &Target,
    method: Method,
    url: &ProfileUrl,
    bytes: u64,
    limit: Duration,
    watch: &Watch,
) -> Result<Vec<u8>> {
    let shown = url.to_string();
    let get = async {
        let response = send(client, target, method, url).await?;
        body::read(response, &shown, bytes, watch).await
    };
    tokio::time::timeout(limit, get)
        .await
        .unwrap_or_else(|_| Err(CollectError::Timeout { url: shown.clone(), after: limit }))
}

/// The URL to which `url` redirects, found by `HEAD`; itself when it does not, or when that can't be found out.
///
/// A `POST` that is redirected arrives without its body at many servers, so redirections are found first.
pub async fn resolve(client: &HttpClient, target: &Target, url: &ProfileUrl, limit: Duration) -> ProfileUrl {
    let probe = async {
        let response = client.request(target, Method::HEAD, url.url()).ok()?.send().await.ok()?;
        Some(ProfileUrl::from_url(response.url().clone()))
    };
    tokio::time::timeout(limit, probe).await.ok().flatten().unwrap_or_else(|| url.clone())
}

async fn send(client: &HttpClient, target: &Target, method: Method, url: &ProfileUrl) -> Result<Response> {
    let shown = url.to_string();
    let request = client.request(target, method, url.url())?;
    let response = request.send().await.map_err(|error| not_sent(error, &shown, target.timeouts.connect))?;
    refuse_failure(response, &shown).await
}
