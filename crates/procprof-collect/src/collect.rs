//! One capture from request to checked profile.

use std::time::Duration;

use bytes::Bytes;
use procprof_profile::format::Decoded;
use procprof_profile::{Nanos, ProfileType};
use reqwest::{Method, Response, Url};

use crate::address::{ProfileUrl, shown};
use crate::client::cause;
use crate::clock::now;
use crate::{
    BaseUrl, CollectError, HttpClient, Instance, Progress, Request, Result, Target, Watch, body, decode_answer, sniff,
};

/// An answer that came whole from a process that did not restart, not yet looked at.
#[derive(Clone, Debug)]
pub struct Received {
    /// As the process sent it.
    pub bytes: Bytes,
    /// The requested type.
    pub profile_type: ProfileType,
    /// Length of the capture; 0 for a moment.
    pub seconds: u32,
    /// The answer's `Content-Type`.
    pub content_type: Option<String>,
    /// When the request was sent (UTC).
    pub started: Nanos,
    /// When the answer was complete (UTC).
    pub finished: Nanos,
    /// The requested URL, without secrets.
    pub url: String,
    /// The process that answered, as far as known.
    pub instance: Instance,
}

/// A checked profile and what is known of its making.
#[derive(Clone, Debug)]
pub struct Collected {
    /// The profile as the process sent it, in whatever format.
    pub bytes: Bytes,
    /// The same, decoded.
    pub decoded: Decoded,
    /// The requested type.
    pub profile_type: ProfileType,
    /// Length of the capture; 0 for a moment.
    pub seconds: u32,
    /// The answer's `Content-Type`.
    pub content_type: Option<String>,
    /// When the request was sent (UTC).
    pub started: Nanos,
    /// When the answer was complete (UTC).
    pub finished: Nanos,
    /// The requested URL, without secrets.
    pub url: String,
    /// The process that answered, as far as known.
    pub instance: Instance,
}

/// Collects one profile: [`receive`], and decodes it here.
///
/// Returns only bytes that decode as a profile of the requested type. Decoding takes at most a stated multiple of the
/// unpacked size ([`procprof_profile::format::MEMORY_MULTIPLE`]), and that is at most four times the target's limit; a
/// caller that cannot spare so much decodes elsewhere ([`decode_answer`](crate::decode_answer)).
///
/// # Errors
/// [`CollectError`]; those of the request itself ([`CollectError::Unsupported`], [`CollectError::Request`]) before
/// anything is sent.
pub async fn collect(client: &HttpClient, target: &Target, request: &Request, watch: &Watch) -> Result<Collected> {
    let received = receive(client, target, request, watch).await?;
    watch.report(Progress::Checking);
    let (bytes, requested, limit) =
        (received.bytes.clone(), request.profile_type.clone(), target.max_bytes.saturating_mul(4));
    // A thread of its own: decoding a large heap profile takes a second.
    let checked = tokio::task::spawn_blocking(move || decode_answer(&bytes, &requested, limit)).await;
    // The task fails only if the runtime is going down.
    let checked = checked.map_err(|_| CollectError::Cancelled { url: received.url.clone() })?;
    let decoded = checked.map_err(|unfit| unfit.error(&received.url, &received.bytes))?;
    let Received { bytes, profile_type, seconds, content_type, started, finished, url, instance } = received;
    Ok(Collected { bytes, decoded, profile_type, seconds, content_type, started, finished, url, instance })
}

/// Gets one answer.
///
/// Waits 1.01 times the seconds of the capture plus the target's margin, for the head of the answer less where the
/// capture has a length; follows three redirects to the same host and port, takes no more than the target's limit, and
/// only from a process that did not restart.
///
/// # Errors
/// As [`collect`].
pub async fn receive(client: &HttpClient, target: &Target, request: &Request, watch: &Watch) -> Result<Received> {
    let plan = target.plan(request)?;
    let mut first_error = None;
    for url in plan.urls {
        let capture = Capture {
            client,
            target,
            request,
            watch,
            base: ProfileUrl::from_url(url.clone()).base(),
            shown: shown(&url),
            seconds: plan.seconds,
        };
        match capture.run(url).await {
            Err(error) if error.try_elsewhere() => first_error = first_error.or(Some(error)),
            result => return result,
        }
    }
    let unsupported =
        || CollectError::Unsupported { kind: target.endpoints.name, profile_type: request.profile_type.clone() };
    Err(first_error.unwrap_or_else(unsupported))
}

/// One request to one URL.
struct Capture<'a> {
    client: &'a HttpClient,
    target: &'a Target,
    request: &'a Request,
    watch: &'a Watch,
    base: BaseUrl,
    shown: String,
    seconds: u32,
}

impl Capture<'_> {
    async fn run(&self, url: Url) -> Result<Received> {
        tokio::select! {
            biased;
            () = self.watch.cancel.cancelled() => Err(CollectError::Cancelled { url: self.shown.clone() }),
            result = self.between_probes(url) => result,
        }
    }

    async fn between_probes(&self, url: Url) -> Result<Received> {
        let instance = Instance::read(self.client, self.target, &self.base).await;
        let limit = self.target.total_timeout(self.seconds);
        let started = now();
        let fetched = tokio::time::timeout(limit, self.fetch(url)).await;
        let finished = now();
        let fetched = fetched.unwrap_or_else(|_| Err(CollectError::Timeout { url: self.shown.clone(), after: limit }));
        let restart = match &fetched {
            Ok(_) | Err(CollectError::Timeout { .. }) => instance.changed(self.client, self.target, &self.base).await,
            Err(CollectError::Broken { .. }) => instance.ended().await,
            Err(_) => None,
        };
        if let Some(why) = restart {
            return Err(CollectError::Restarted { url: self.shown.clone(), why });
        }
        let (bytes, content_type) = match fetched {
            Ok(fetched) => fetched,
            Err(error) => return Err(instance.explained(error).await),
        };
        let (profile_type, url, seconds) = (self.request.profile_type.clone(), self.shown.clone(), self.seconds);
        Ok(Received { bytes: bytes.into(), profile_type, seconds, content_type, started, finished, url, instance })
    }

    async fn fetch(&self, url: Url) -> Result<(Vec<u8>, Option<String>)> {
        let request = self.client.request(self.target, Method::GET, url)?;
        self.watch.report(Progress::Sampling { seconds: self.seconds });
        let head = self.target.answer_timeout(self.seconds);
        let response = tokio::time::timeout(head, request.send()).await;
        let response = response.map_err(|_| CollectError::Timeout { url: self.shown.clone(), after: head })?;
        let response = response.map_err(|error| not_sent(error, &self.shown, self.target.timeouts.connect))?;
        let response = refuse_failure(response, &self.shown).await?;
        let content_type = body::content_type(&response);
        let bytes = body::read(response, &self.shown, self.target.max_bytes, self.watch).await?;
        Ok((bytes, content_type))
    }
}

/// The answer if its status is a success, else the error it means.
pub(crate) async fn refuse_failure(response: Response, url: &str) -> Result<Response> {
    let status = response.status().as_u16();
    if response.status().is_success() {
        return Ok(response);
    }
    let retry_after = response.headers().get(http::header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.trim().parse::<u32>().ok());
    let retry_after = retry_after.map(|seconds| Nanos(now().0.saturating_add(i64::from(seconds) * 1_000_000_000)));
    let message = tokio::time::timeout(Duration::from_secs(3), body::read_message(response)).await.unwrap_or_default();
    Err(sniff::of_status(url, status, &message, retry_after).unwrap_or_else(|| CollectError::Refused {
        url: url.to_owned(),
        status,
        message: String::new(),
    }))
}

/// Why a request got no answer at all.
pub(crate) fn not_sent(error: reqwest::Error, url: &str, connect: Duration) -> CollectError {
    let (is_redirect, is_timeout, is_connect) = (error.is_redirect(), error.is_timeout(), error.is_connect());
    let (url, why) = (url.to_owned(), cause(&error.without_url()));
    if is_redirect {
        return CollectError::Redirect { url, why };
    }
    if is_connect && is_timeout {
        return CollectError::Connect { url, why: format!("no answer within {:.1} s", connect.as_secs_f64()) };
    }
    if is_connect {
        return CollectError::Connect { url, why };
    }
    CollectError::Broken { url, received: 0, why }
}
