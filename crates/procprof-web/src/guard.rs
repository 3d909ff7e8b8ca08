//! The checks of every request: host, origin, credentials and role; and the headers every answer carries.
//!
//! A page on another site can make a browser send requests here. It cannot read answers as long as the `Host` by which
//! it reached the server is refused, and it cannot change anything as long as its `Origin` is. Resources that it has
//! the browser load (pictures, scripts, fetches) are refused by the browser's own header, `Sec-Fetch-Site`, so that
//! their sizes and times reveal nothing and they cost no work; links from anywhere are followed.

use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use procprof_core::Printable;
use procprof_core::auth::{Credentials, Principal, Refusal, UserRole};
use procprof_core::config::Network;
use procprof_core::connection_slots::Activity;

use super::base_path::with_base;
use super::listen::{ClientAddress, peer};
use super::pages;
use super::policy::harden;
use super::problem::Problem;
use super::route::Access;
use crate::Web;

/// The outermost layer: no panic gets out, problems become pages for people, every answer has the safe headers.
pub(crate) async fn outer(State(web): State<Arc<Web>>, mut request: Request, next: Next) -> Response {
    let wants_page = wants_page(&request);
    let peer = client_address(peer(request.extensions()), request.headers(), &web.config().trusted_proxies);
    request.extensions_mut().insert(ClientAddress(peer));
    let checked = check_host(&web, &request).and_then(|()| check_origin(&request));
    if let Err(problem) = &checked {
        web.audit.refusal(peer, Printable(&problem.message));
    }
    let mut response = match checked {
        Ok(()) => AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
            web.metrics.panics.inc();
            Problem::internal("a part of the server failed; the log has the place").into_response()
        }),
        Err(problem) => problem.into_response(),
    };
    if wants_page && let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let page = Html(with_base(&web.config().base_path, &pages::problem(&problem).into_string()));
        let headers = response.headers().clone();
        let status = response.status();
        response = (status, page).into_response();
        for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER, header::CACHE_CONTROL] {
            if let Some(value) = headers.get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
    }
    web.metrics.responses(response.status().as_u16());
    harden(response.headers_mut());
    response
}

/// The address of the client: the other end of the connection, or, if that is a proxy that is trusted, the last address
/// in `X-Forwarded-For` that is no such proxy. Clients can write what they like before what the first trusted proxy has
/// added, so nothing further left is read.
fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let values = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let forwarded: Vec<&str> = values.flat_map(|value| value.split(',')).collect();
    let mut client = peer;
    for text in forwarded.iter().rev() {
        let is_trusted = trusted.iter().any(|network| network.contains(client));
        let Some(address) = forwarded_address(text.trim()).filter(|_| is_trusted) else { break };
        client = address;
    }
    client
}

/// An address, which some proxies write with its port.
fn forwarded_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// Whether the client is a browser: then a problem is shown as a page.
fn wants_page(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    accept.contains("text/html") && !request.uri().path().starts_with("/api/")
}

/// The name a request was addressed to, without the port; `None` where none is given, or several.
pub(super) fn host_name(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        return None;
    }
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

/// Whether a host name is accepted as this server's.
pub(crate) fn known_host(name: &str, bound: SocketAddr, allowed: &[String], machine: &str) -> bool {
    if allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
        return true;
    }
    // No name server of others can make a numeric address point at us.
    if let Ok(address) = name.parse::<IpAddr>() {
        return address.is_loopback() || address == bound.ip() || bound.ip().is_unspecified();
    }
    name == "localhost"
        || name.ends_with(".localhost")
        || (!bound.ip().is_loopback() && name.eq_ignore_ascii_case(machine))
}

fn check_host(web: &Web, request: &Request) -> Result<(), Problem> {
    let refused = |name: &str| {
        Problem::forbidden(format!(
            "host {name:?} is not a name of this server; allowed_hosts in the configuration adds names"
        ))
    };
    let name = host_name(request.headers(), request.uri())
        .ok_or_else(|| Problem::bad_request("the request needs one Host header"))?;
    let config = web.config();
    match known_host(&name, web.settings.bound, &config.allowed_hosts, &web.settings.machine) {
        true => Ok(()),
        false => Err(refused(&name.chars().take(100).collect::<String>())),
    }
}

/// Whether answering a GET takes a capture: the server's own pprof endpoints, which tools fetch by GET.
fn captures(path: &str) -> bool {
    path.starts_with("/debug/pprof/") || path.starts_with("/pprof/")
}

/// A page on another site can make a browser GET what it can't read; one that takes a capture is refused.
fn check_capture(request: &Request) -> Result<(), Problem> {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let is_foreign = match text("sec-fetch-site") {
        Some(site) => !matches!(site, "same-origin" | "none"),
        // Browsers leave it out where the address is neither HTTPS nor this machine; all of them call themselves so,
        // and no tool does.
        None => text("user-agent").is_some_and(|agent| agent.starts_with("Mozilla/")) && !refers_to_us(request),
    };
    match is_foreign {
        true => Err(Problem::forbidden(
            "this request takes a capture and comes from another site; ask with go tool pprof or curl",
        )),
        false => Ok(()),
    }
}

/// Whether a request comes from a page of its own host.
fn refers_to_us(request: &Request) -> bool {
    let text = |name: header::HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let own = request.uri().authority().map(|authority| authority.as_str()).or_else(|| text(header::HOST));
    let from = text(header::REFERER)
        .and_then(|referer| referer.split_once("://"))
        .map(|(_, rest)| rest.split('/').next().unwrap_or(rest));
    from.zip(own).is_some_and(|(from, own)| from.eq_ignore_ascii_case(own))
}

/// Rejects resources that another site's page has a browser load, unless the user navigates there. Tools and old
/// browsers send none of these headers.
fn check_load(request: &Request) -> Result<(), Problem> {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let Some(site) = text("sec-fetch-site") else { return Ok(()) };
    // A frame is a place to go, too: our own sandboxed ones have no site, and who may frame our pages is in their
    // policy.
    let is_embedded = matches!(text("sec-fetch-dest"), Some("object" | "embed"));
    let is_visit = *request.method() == Method::GET && text("sec-fetch-mode") == Some("navigate") && !is_embedded;
    match matches!(site, "same-origin" | "none") || is_visit {
        true => Ok(()),
        false => Err(Problem::forbidden(
            "a page of another site loads this, and only this server's own may; open the address itself",
        )),
    }
}

/// Requests that change something come from our own pages or from no page at all, and so do those for parts of a page.
fn check_origin(request: &Request) -> Result<(), Problem> {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return if captures(request.uri().path()) { check_capture(request) } else { check_load(request) };
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

/// The state of a route's access check.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) web: Arc<Web>,
    pub(crate) access: Access,
}

/// Admits the principals that the route's access allows; the principal is attached to the request.
pub(crate) async fn admit(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if gate.access == Access::Public {
        return next.run(request).await;
    }
    let (peer, credentials) = (peer(request.extensions()), credentials(request.headers()));
    let name: String =
        credentials.as_ref().map(|credentials| credentials.name.chars().take(64).collect()).unwrap_or_default();
    let principal = match gate.web.authenticator.enter(credentials, peer).await {
        Ok(principal) => principal,
        Err(refusal) => {
            let problem = refused(&gate.web, refusal);
            // A browser sends its first request without credentials.
            if refusal != Refusal::Missing {
                gate.web.audit.refusal(peer, format_args!("HTTP login of '{}': {}", Printable(&name), problem.message));
            }
            return problem.into_response();
        }
    };
    if let Err(needed) = permitted(gate.access, &principal) {
        let why = match principal.role {
            UserRole::Push => format!("{} may only push; this needs {needed}", principal.name),
            role => format!("{} is a {role}; this needs {needed}", principal.name),
        };
        gate.web.audit.refusal(peer, format_args!("{} {}: {why}", request.method(), Printable(request.uri().path())));
        return Problem::forbidden(why).into_response();
    }
    if let Some(activity) = request.extensions().get::<Arc<Activity>>() {
        activity.know();
    }
    request.extensions_mut().insert(principal);
    next.run(request).await
}

/// Whether a user may use a route; the error names a role that may.
fn permitted(access: Access, principal: &Principal) -> Result<(), &'static str> {
    match access {
        Access::Push if !principal.pushes() => Err("an operator or a token of the role push"),
        Access::Viewer if !principal.reads() => Err("a viewer or an operator"),
        Access::Operator if !principal.operates() => Err("an operator"),
        Access::Public | Access::Push | Access::Viewer | Access::Operator => Ok(()),
    }
}

fn refused(web: &Web, refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Missing => Problem::unauthorized(),
        Refusal::Wrong => {
            web.metrics.auth_failures.inc();
            Problem { message: "wrong name or password".to_owned(), ..Problem::unauthorized() }
        }
        Refusal::TooMany => {
            web.metrics.auth_failures.inc();
            let problem = Problem::busy("too many wrong passwords for this name or from this address; wait a minute");
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

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_trusted_proxies_name_the_client() {
        let trusted = ["10.0.0.0/8", "::1"].map(|text| text.parse().unwrap());
        for (peer, forwarded, client) in [
            ("192.0.2.1", &["203.0.113.5"][..], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.5"], "203.0.113.5"),
            ("::ffff:10.0.0.1", &["203.0.113.5:4711"], "203.0.113.5"),
            ("::1", &["[2001:db8::5]:80"], "2001:db8::5"),
            ("10.0.0.1", &["6.6.6.6, 203.0.113.5", "10.0.0.2,10.0.0.3"], "203.0.113.5"),
            ("10.0.0.1", &["6.6.6.6, 203.0.113.5"], "203.0.113.5"),
            ("10.0.0.1", &["203.0.113.5, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["10.0.0.9"], "10.0.0.9"),
        ] {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append("x-forwarded-for", HeaderValue::from_static(value));
            }
            let found = client_address(peer.parse().unwrap(), &headers, &trusted);
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{peer} {forwarded:?}");
        }
    }
}
