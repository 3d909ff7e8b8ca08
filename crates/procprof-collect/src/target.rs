//! One process to collect from: where it is, how to be let in, and within which limits.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use http::{HeaderName, HeaderValue};
use procprof_profile::ProfileType;
use reqwest::Url;

use crate::route::{HttpEndpoint, HttpService, Route, Window};
use crate::{BaseUrl, CollectError, Endpoints, MAX_SECONDS, ProfileUrl, Request, Result};

/// brpc's port on a StarRocks backend.
const BRPC_PORT: u16 = 8060;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// How to be let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// HTTP Basic.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A bearer token.
    Bearer(Secret),
}

/// A header sent with every request; its value is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

/// How the other side's certificate is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// PEM file of the only certificates to trust, authorities' or the server's own; without it, the system's
    /// authorities.
    pub ca_file: Option<PathBuf>,
    /// Accept any certificate. Only for nodes it was switched on for by name.
    pub insecure: bool,
    /// Our client certificate, for servers that request one.
    pub client: Option<ClientCertificate>,
}

/// Our own certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    /// PEM file of the certificate and those it depends on.
    pub cert_file: PathBuf,
    /// PEM file of its key.
    pub key_file: PathBuf,
}

/// How long is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection, TLS included.
    pub connect: Duration,
    /// For the head of the answer beyond 1.01 times the seconds of the capture, where it has a length: the process is
    /// silent while it samples, and has no reason to be so for long afterwards. What is of a moment may be gathered for
    /// as long as `margin`.
    pub answer: Duration,
    /// For the whole answer beyond 1.01 times the seconds of the capture.
    pub margin: Duration,
}

impl Default for Timeouts {
    /// 5 s to connect, 30 s to begin the answer, 60 s margin.
    fn default() -> Self {
        Timeouts { connect: Duration::from_secs(5), answer: Duration::from_secs(30), margin: Duration::from_secs(60) }
    }
}

/// One process to collect from.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its endpoints.
    pub endpoints: &'static Endpoints,
    /// Its web service.
    pub http: BaseUrl,
    /// Its brpc service; without it, port 8060 of the same host.
    pub brpc: Option<BaseUrl>,
    /// URLs by profile type, instead of the route's own; see [`Endpoints::urls_instead`].
    pub urls: BTreeMap<ProfileType, ProfileUrl>,
    /// TLS options.
    pub tls: Tls,
    /// Sent with every request.
    pub headers: Vec<Header>,
    /// Sent with every request.
    pub auth: Auth,
    /// How long is waited.
    pub timeouts: Timeouts,
    /// Largest answer, in bytes, as sent and after unpacking `Content-Encoding`. The profile inside may unpack to four
    /// times as much.
    pub max_bytes: u64,
}

/// The URLs and window one request leads to.
pub(crate) struct Plan {
    pub(crate) urls: Vec<Url>,
    /// Length of the capture; 0 for a moment.
    pub(crate) seconds: u32,
}

impl Target {
    /// A target with no credentials, default time-outs and a limit of 256 MiB.
    pub fn new(endpoints: &'static Endpoints, http: BaseUrl) -> Target {
        Target {
            endpoints,
            http,
            brpc: None,
            urls: BTreeMap::new(),
            tls: Tls::default(),
            headers: Vec::new(),
            auth: Auth::None,
            timeouts: Timeouts::default(),
            max_bytes: 256 << 20,
        }
    }

    /// The types that can be collected from it: those of its routes that have a place, and those of its URLs, which may
    /// be all.
    pub fn profile_types(&self) -> Vec<ProfileType> {
        let placed =
            self.endpoints.routes.iter().filter(|route| !route.endpoints.is_empty() && !self.has_urls_instead());
        let mut types: Vec<ProfileType> = placed.map(|route| route.offer.profile_type.clone()).collect();
        let further: Vec<ProfileType> =
            self.urls.keys().filter(|profile_type| !types.contains(profile_type)).cloned().collect();
        types.extend(further);
        types
    }

    /// How long a capture of `request` takes before the process answers; 0 for a moment.
    ///
    /// # Errors
    /// [`CollectError::Unsupported`] and [`CollectError::Request`].
    pub fn capture_seconds(&self, request: &Request) -> Result<u32> {
        self.plan(request).map(|plan| plan.seconds)
    }

    fn has_urls_instead(&self) -> bool {
        self.endpoints.urls_instead && !self.urls.is_empty()
    }

    /// The base of one of its services.
    pub(crate) fn base(&self, service: HttpService) -> Result<BaseUrl> {
        match (service, &self.brpc) {
            (HttpService::Http, _) => Ok(self.http.clone()),
            (HttpService::Brpc, Some(brpc)) => Ok(brpc.clone()),
            (HttpService::Brpc, None) => self.http.at_port(BRPC_PORT),
        }
    }

    /// Time to wait for an answer to a capture of `seconds`.
    pub(crate) fn total_timeout(&self, seconds: u32) -> Duration {
        Duration::from_millis(u64::from(seconds) * 1010) + self.timeouts.margin
    }

    /// Time to wait for the head of an answer to a capture of `seconds`.
    pub(crate) fn answer_timeout(&self, seconds: u32) -> Duration {
        match seconds {
            0 => self.total_timeout(0),
            seconds => {
                Duration::from_millis(u64::from(seconds) * 1010) + self.timeouts.answer.min(self.timeouts.margin)
            }
        }
    }

    /// Checks the request against its route and spells out the URLs to try, in order.
    pub(crate) fn plan(&self, request: &Request) -> Result<Plan> {
        let route = self.endpoints.route(&request.profile_type);
        let seconds = window_seconds(request, route)?;
        if request.frequency.is_some_and(|frequency| !(1..=10_000).contains(&frequency)) {
            return Err(wrong(request, "frequency must be 1 to 10000 per second"));
        }
        let unsupported =
            || CollectError::Unsupported { kind: self.endpoints.name, profile_type: request.profile_type.clone() };
        let mut urls = match (self.urls.get(&request.profile_type), route) {
            (Some(url), _) => vec![url.url()],
            (None, Some(_)) if self.has_urls_instead() => return Err(unsupported()),
            (None, Some(route)) => self.place_urls(route.endpoints)?,
            (None, None) => return Err(unsupported()),
        };
        if urls.is_empty() {
            return Err(unsupported());
        }
        for url in &mut urls {
            let takes_frequency = route.is_some_and(|route| route.offer.takes_frequency);
            add_query(url, seconds, request.frequency.filter(|_| takes_frequency));
        }
        Ok(Plan { urls, seconds })
    }

    fn place_urls(&self, places: &[HttpEndpoint]) -> Result<Vec<Url>> {
        places.iter().map(|place| Ok(self.base(place.service)?.join(place.path))).collect()
    }

    /// The `Authorization` header, if any.
    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>> {
        let text = match &self.auth {
            Auth::None => return Ok(None),
            Auth::Basic { user, password } => {
                if user.contains(':') {
                    return Err(CollectError::target("user", user.clone(), "expected no colon"));
                }
                let pair = format!("{user}:{}", password.0);
                format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
            }
            Auth::Bearer(token) => format!("Bearer {}", token.0),
        };
        let wrong = |_| CollectError::target("token", "(hidden)", "holds a character no header can");
        let mut value = HeaderValue::try_from(text).map_err(wrong)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// The seconds to request, by the rules of the route's window. A type without a route is of a moment unless seconds are
/// given.
fn window_seconds(request: &Request, route: Option<&Route>) -> Result<u32> {
    let seconds = request.seconds.unwrap_or(route.map_or(0, |route| route.offer.schedule.seconds));
    if seconds > MAX_SECONDS {
        return Err(wrong(request, format!("{seconds} seconds pass the limit of {MAX_SECONDS}")));
    }
    match route.map_or(Window::MomentOrDelta, |route| route.offer.window) {
        Window::Seconds if seconds == 0 => Err(wrong(request, "seconds must be 1 or more")),
        Window::Moment if seconds != 0 => Err(wrong(request, "is of a moment and takes no seconds")),
        _ => Ok(seconds),
    }
}

/// Adds the parameters of the request. A configured URL's own `seconds` is replaced, since time-outs follow the
/// request.
fn add_query(url: &mut Url, seconds: u32, frequency: Option<u32>) {
    let mut set = |key: &str, value: u32| {
        let others: Vec<(String, String)> = url.query_pairs().into_owned().filter(|(other, _)| other != key).collect();
        url.query_pairs_mut().clear().extend_pairs(others).append_pair(key, &value.to_string());
    };
    if seconds > 0 {
        set("seconds", seconds);
    }
    if let Some(frequency) = frequency {
        set("frequency", frequency);
    }
}

fn wrong(request: &Request, why: impl Into<String>) -> CollectError {
    CollectError::Request { profile_type: request.profile_type.clone(), why: why.into() }
}

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Header {
    /// A header by name and value.
    ///
    /// # Errors
    /// [`CollectError::Target`] for a name or value HTTP does not allow, and for names the connection needs itself.
    pub fn new(name: &str, value: &str) -> Result<Header> {
        let bad_name = |why: &str| CollectError::target("header", name, why);
        let parsed = HeaderName::try_from(name).map_err(|_| bad_name("not a header name"))?;
        let own = [
            http::header::HOST,
            http::header::CONTENT_LENGTH,
            http::header::TRANSFER_ENCODING,
            http::header::CONNECTION,
        ];
        if own.contains(&parsed) {
            return Err(bad_name("is set by the connection itself"));
        }
        let mut value =
            HeaderValue::try_from(value).map_err(|_| bad_name("its value holds a character no header can"))?;
        value.set_sensitive(true);
        Ok(Header { name: parsed, value })
    }

    pub(crate) fn parts(&self) -> (HeaderName, HeaderValue) {
        (self.name.clone(), self.value.clone())
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

#[cfg(test)]
mod tests;
