//! The HTTP connections: one reqwest client for each set of TLS options and connect time-out, made when first needed.
//!
//! No proxy is used and no connection is kept for the next request: a capture a minute gains nothing from it, and a
//! connection that breaks then always means this capture.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION};
use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Identity, Method, RequestBuilder, Url};

use crate::trust::{read_pem, trust_only};
use crate::{ClientCertificate, CollectError, Result, Target, Tls};

/// Redirects followed, to the same host and port only.
const MAX_REDIRECTS: usize = 3;

/// Makes connections; shared by all targets. A changed CA file takes effect with a new `Client`.
#[derive(Debug, Default)]
pub struct HttpClient {
    clients: Mutex<HashMap<(Trust, Duration), reqwest::Client>>,
}

/// The trusted certificates: for plain HTTP none are loaded, so that a machine without certificates can still collect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Trust {
    Plain,
    Tls(Tls),
}

impl HttpClient {
    /// A client without connections.
    pub fn new() -> HttpClient {
        HttpClient::default()
    }

    /// A request to `url` with the target's credentials.
    pub(crate) fn request(&self, target: &Target, method: Method, url: Url) -> Result<RequestBuilder> {
        let trust = if url.scheme() == "https" { Trust::Tls(target.tls.clone()) } else { Trust::Plain };
        let client = self.client(trust, target.timeouts.connect)?;
        let mut builder = client.request(method, url).header(ACCEPT, "*/*").header(ACCEPT_ENCODING, "gzip");
        for header in &target.headers {
            let (name, value) = header.parts();
            builder = builder.header(name, value);
        }
        if let Some(authorization) = target.authorization()? {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        Ok(builder)
    }

    fn client(&self, trust: Trust, connect: Duration) -> Result<reqwest::Client> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(trust.clone(), connect)) {
            return Ok(client.clone());
        }
        let client = build(&trust, connect)?;
        clients.insert((trust, connect), client.clone());
        Ok(client)
    }
}

fn build(trust: &Trust, connect: Duration) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .connect_timeout(connect)
        .pool_max_idle_per_host(0)
        .referer(false)
        .user_agent(concat!("procprof/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(redirect));
    builder = match trust {
        Trust::Plain => builder.tls_certs_only([]),
        Trust::Tls(Tls { insecure: true, .. }) => builder.tls_danger_accept_invalid_certs(true),
        Trust::Tls(Tls { ca_file: Some(path), client, .. }) => {
            builder.tls_backend_preconfigured(trust_only(path, &read_pem(path)?, client.as_ref())?)
        }
        Trust::Tls(_) => builder,
    };
    if let Trust::Tls(Tls { client: Some(client), ca_file, insecure }) = trust
        && (ca_file.is_none() || *insecure)
    {
        builder = builder.identity(identity(client)?);
    }
    builder.build().map_err(|error| CollectError::target("tls", format!("{trust:?}"), cause(&error)))
}

fn identity(client: &ClientCertificate) -> Result<Identity> {
    let mut pem = read_pem(&client.key_file)?;
    pem.push(b'\n');
    pem.extend(read_pem(&client.cert_file)?);
    let wrong = |error: reqwest::Error| CollectError::CaFile { path: client.cert_file.clone(), why: cause(&error) };
    Identity::from_pem(&pem).map_err(wrong)
}

fn redirect(attempt: Attempt<'_>) -> Action {
    let Some(first) = attempt.previous().first() else {
        return attempt.stop();
    };
    let place = |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
    if place(first) != place(attempt.url()) {
        return attempt.error("to another host or port");
    }
    if attempt.previous().len() > MAX_REDIRECTS {
        return attempt.error(format!("more than {MAX_REDIRECTS} redirects"));
    }
    attempt.follow()
}

/// The innermost cause of an error. reqwest's own texts only name the step that failed, which the caller has already.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
