//! What every request passes: host, origin, credentials and role; and the headers every answer carries.
//!
//! A page on another site can make a browser send requests here. It cannot read answers as long as the `Host` it resolved to us by is refused,
//! and it cannot change anything as long as its `Origin` is.

use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;

use super::listen::Peer;
use super::pages;
use super::problem::Problem;
use super::route::Access;
use crate::app::App;
use crate::auth::{Credentials, Principal, Refusal, UserRole};

/// The policy of our own pages.
pub(crate) const OWN_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     frame-ancestors 'none'; frame-src 'self'; base-uri 'none'; form-action 'self'";

/// The policy of pages and pictures that hold their own scripts: ours that stand alone, and those made elsewhere.
pub(crate) const SANDBOX_POLICY: &str = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
     frame-ancestors 'self'";

/// The outermost layer: no panic gets out, problems become pages for people, every answer has the safe headers.
pub(crate) async fn outer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let wants_page = wants_page(&request);
    let checked = check_host(&app, &request).and_then(|()| check_origin(&request));
    let mut response = match checked {
        Ok(()) => AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
            app.metrics.panics.inc();
            Problem::internal("a part of the server failed; the log has the place").into_response()
        }),
        Err(problem) => problem.into_response(),
    };
    if wants_page && let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let page = pages::problem(&problem);
        let headers = response.headers().clone();
        let status = response.status();
        response = (status, page).into_response();
        for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER, header::CACHE_CONTROL] {
            if let Some(value) = headers.get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
    }
    app.metrics.responses(response.status().as_u16());
    harden(response.headers_mut());
    response
}

/// Sets the headers that keep pages to themselves, where a handler has not.
pub(super) fn harden(headers: &mut HeaderMap) {
    let mut set = |name: header::HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(header::CONTENT_SECURITY_POLICY, OWN_POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Stricter policies make browsers send `Origin: null` with our own forms.
    set(header::REFERRER_POLICY, "same-origin");
    set(header::CACHE_CONTROL, "no-store");
}

/// Whether a person with a browser asks: then a problem is shown as a page.
fn wants_page(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    accept.contains("text/html") && !request.uri().path().starts_with("/api/")
}

/// The name a request was addressed to, without the port.
pub(super) fn host_name(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let authority = match uri.authority() {
        Some(authority) => authority.as_str().to_owned(),
        None => headers.get(header::HOST)?.to_str().ok()?.to_owned(),
    };
    let name = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => authority.split(':').next()?,
    };
    Some(name.trim_end_matches('.').to_ascii_lowercase())
}

/// Whether a name may stand for this server.
pub(crate) fn known_host(name: &str, bound: SocketAddr, allowed: &[String], machine: &str) -> bool {
    if allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
        return true;
    }
    // A number cannot be pointed at us by somebody else's name server.
    if let Ok(address) = name.parse::<IpAddr>() {
        return address.is_loopback() || address == bound.ip() || bound.ip().is_unspecified();
    }
    name == "localhost" || name.ends_with(".localhost") || (!bound.ip().is_loopback() && name.eq_ignore_ascii_case(machine))
}

fn check_host(app: &App, request: &Request) -> Result<(), Problem> {
    let refused = |name: &str| {
        Problem::forbidden(format!("host {name:?} is not a name of this server; allowed_hosts in the configuration adds names"))
    };
    let name = host_name(request.headers(), request.uri()).ok_or_else(|| refused(""))?;
    let config = app.config();
    match known_host(&name, app.bound, &config.allowed_hosts, &app.machine) {
        true => Ok(()),
        false => Err(refused(&name.chars().take(100).collect::<String>())),
    }
}

/// Requests that change something come from our own pages or from no page at all.
fn check_origin(request: &Request) -> Result<(), Problem> {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let headers = request.headers();
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text(header::HeaderName::from_static("sec-fetch-site"))
        && !matches!(site, "same-origin" | "none")
    {
        return Err(Problem::forbidden("this request comes from another site"));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let own = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => text(header::HOST).unwrap_or(""),
    };
    let from = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    match from {
        Some(authority) if authority.eq_ignore_ascii_case(own) => Ok(()),
        _ => Err(Problem::forbidden("this request comes from another origin")),
    }
}

/// What a route's gate needs to know.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    pub(crate) access: Access,
}

/// Lets in whom the route's access allows; the principal travels with the request.
pub(crate) async fn admit(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if gate.access == Access::Public {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0.ip());
    let principal = match gate.app.door.enter(credentials(request.headers()), peer).await {
        Ok(principal) => principal,
        Err(refusal) => return refused(&gate.app, refusal).into_response(),
    };
    if gate.access == Access::Operator && principal.role != UserRole::Operator {
        return Problem::forbidden(format!("{} is a viewer; this needs an operator", principal.name)).into_response();
    }
    request.extensions_mut().insert(principal);
    next.run(request).await
}

fn refused(app: &App, refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Missing => Problem::unauthorized(),
        Refusal::Wrong => {
            app.metrics.auth_failures.inc();
            Problem { message: "wrong name or password".to_owned(), ..Problem::unauthorized() }
        }
        Refusal::TooMany => {
            app.metrics.auth_failures.inc();
            let problem = Problem::busy("too many wrong passwords from this address; wait a minute");
            Problem { code: "too_many_failures", retry_after: Some(60), ..problem }
        }
    }
}

/// `Basic base64(name:password)` or `Bearer name.password`.
pub(crate) fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    let (name, password) = if scheme.eq_ignore_ascii_case("basic") {
        let decoded = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
        let (name, password) = decoded.split_once(':')?;
        (name.to_owned(), password.to_owned())
    } else if scheme.eq_ignore_ascii_case("bearer") {
        let (name, password) = rest.trim().split_once('.')?;
        (name.to_owned(), password.to_owned())
    } else {
        return None;
    };
    Some(Credentials { name, password })
}

impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Principal, Response> {
        parts.extensions.get::<Principal>().cloned().ok_or_else(|| Problem::unauthorized().into_response())
    }
}
