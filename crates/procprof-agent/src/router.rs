//! The endpoints as an axum `Router`.
//!
//! An answer is made on the runtime's blocking threads, at most [`MAX_ANSWERS`] at once, so a capture of minutes takes
//! no worker. A client that leaves ends its capture. Nothing is streamed: a capture's answer begins when its seconds
//! are over, so layers that time requests out have to leave it that long; put them on other routes.

use crate::agent::Agent;
use crate::endpoints::{ENDPOINTS, MAX_BODY};
use crate::request::{Method, Request, Response};
use crate::site::Site;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request as AxumRequest};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use axum::response::Response as AxumResponse;
use axum::routing::any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Requests answered at once by one router; more are refused.
const MAX_ANSWERS: usize = 16;

/// Headers by which a proxy names its client.
const FORWARDED: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

const LOOPBACK_ONLY: &str = "these endpoints are for this machine only: set Config::token, or serve with \
     into_make_service_with_connect_info::<SocketAddr>() and ask on loopback, or guard an open_router() by a layer";

/// All [`ENDPOINTS`] for an axum server, to be merged or nested anywhere; give it to `Router::merge` or `Router::nest`.
///
/// Without [`Config::token`](crate::Config::token) only clients on this machine are answered, by names of this machine
/// and without a proxy between. For that the server has to provide their addresses
/// (`into_make_service_with_connect_info::<SocketAddr>()`), else every request is refused. With a token every request
/// must carry it.
///
/// ```
/// let agent = procprof_agent::start(procprof_agent::Config::default())?;
/// let service: axum::Router = axum::Router::new().merge(procprof_agent::router(agent));
/// # drop(service);
/// # Ok::<(), procprof_agent::Error>(())
/// ```
pub fn router<S: Clone + Send + Sync + 'static>(agent: Agent) -> Router<S> {
    let admission = if agent.has_token() { Admission::Token } else { Admission::Loopback };
    routes(agent, admission)
}

/// As [`router`], for any client that reaches it: a layer of the service decides which ones may.
pub fn open_router<S: Clone + Send + Sync + 'static>(agent: Agent) -> Router<S> {
    routes(agent, Admission::Layer)
}

/// How clients are admitted; a token is required in addition wherever one is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Token,
    Loopback,
    Layer,
}

fn routes<S: Clone + Send + Sync + 'static>(agent: Agent, admission: Admission) -> Router<S> {
    let service = Arc::new(Service { agent, admission, answering: AtomicUsize::new(0) });
    let route = |router: Router<S>, path| {
        let service = Arc::clone(&service);
        router.route(path, any(move |request: AxumRequest| answer(service, request)))
    };
    ENDPOINTS.iter().map(|endpoint| endpoint.path).chain(["/debug/pprof"]).fold(Router::new(), route)
}

#[derive(Debug)]
struct Service {
    agent: Agent,
    admission: Admission,
    answering: AtomicUsize,
}

async fn answer(service: Arc<Service>, request: AxumRequest) -> AxumResponse {
    let (parts, body) = request.into_parts();
    let is_head = parts.method == axum::http::Method::HEAD;
    let answered = match service.admit(&parts) {
        Ok(()) => respond(service, parts, body).await,
        Err(refusal) => refusal,
    };
    into_axum(answered, is_head)
}

async fn respond(service: Arc<Service>, parts: Parts, body: Body) -> Response {
    let Some(turn) = Turn::take(Arc::clone(&service)) else {
        return Response::text(503, format!("{MAX_ANSWERS} requests are being answered already"));
    };
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return Response::text(413, format!("a body of more than {MAX_BODY} bytes, or one that ended early"));
    };
    let waits = Arc::new(AtomicBool::new(true));
    let _left = Leaves(Arc::clone(&waits));
    let made = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let client = client(&parts).map_or_else(|| "a client".to_owned(), |address| address.to_string());
        service.agent.handle(&Request {
            method: Method::from_name(parts.method.as_str()),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            body: &body,
            authorization: text(&parts.headers, "authorization"),
            client: &client,
            waits: Some(&|| waits.load(Ordering::Relaxed)),
        })
    });
    // The task fails only if the agent panicked, which is reported on standard error, or the runtime ends.
    made.await.unwrap_or_else(|_| Response::text(500, "the answer was not finished"))
}

impl Service {
    fn admit(&self, parts: &Parts) -> Result<(), Response> {
        let only_this_machine = self.admission == Admission::Loopback;
        let host = text(&parts.headers, "host").or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
        Site { host, origin: text(&parts.headers, "origin") }.check(only_this_machine)?;
        let is_forwarded = FORWARDED.iter().any(|name| parts.headers.contains_key(*name));
        let is_here = !is_forwarded && client(parts).is_some_and(|address| address.ip().to_canonical().is_loopback());
        if only_this_machine && !is_here {
            return Err(Response::text(403, LOOPBACK_ONLY));
        }
        Ok(())
    }
}

/// The client's address, where the server provides it.
fn client(parts: &Parts) -> Option<SocketAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| *address)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn into_axum(answered: Response, is_head: bool) -> AxumResponse {
    let length = answered.body.len();
    let mut response = AxumResponse::new(if is_head { Body::empty() } else { Body::from(answered.body) });
    *response.status_mut() = StatusCode::from_u16(answered.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answered.content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_head {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    for (name, value) in answered.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    response
}

/// One of the answers that may be made at once.
struct Turn(Arc<Service>);

impl Turn {
    fn take(service: Arc<Service>) -> Option<Self> {
        let before = service.answering.fetch_add(1, Ordering::SeqCst);
        // Counted out again by the drop where it is one too many.
        let turn = Self(service);
        (before < MAX_ANSWERS).then_some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Marks the client as gone when the request's future is dropped.
struct Leaves(Arc<AtomicBool>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
