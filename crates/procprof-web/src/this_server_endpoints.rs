//! The server's own pprof endpoints, answered by the agent inside it.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{Redirect, Response};
use procprof_agent::Method as AgentMethod;

use super::problem::{ApiResult, Problem};
use crate::Web;
use crate::caller::Caller;

/// Largest body, in bytes: addresses to be named.
const BODY_MAX: usize = 4 << 20;

/// Addresses people type lead to the index.
pub(super) async fn to_index() -> Redirect {
    Redirect::to("/debug/pprof/")
}

pub(super) async fn answer(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    request: Request,
) -> ApiResult<Response> {
    let (parts, body) = request.into_parts();
    let too_long = |_| {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("the body has more than {BODY_MAX} bytes"))
    };
    let body = to_bytes(body, BODY_MAX).await.map_err(too_long)?;
    let agent = web.agent.clone();
    let head = parts.method == Method::HEAD;
    // A capture holds a thread for its seconds; the agent limits how many there are.
    let answered = tokio::task::spawn_blocking(move || {
        agent.handle(&procprof_agent::Request {
            method: AgentMethod::from_name(parts.method.as_str()),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or(""),
            body: &body,
            authorization: None,
            client: &principal.name,
            waits: None,
        })
    });
    let answered = answered.await.map_err(|_| Problem::internal("the agent failed; the log has the place"))?;
    let length = answered.body.len();
    let mut response = Response::new(if head { Body::empty() } else { Body::from(answered.body) });
    *response.status_mut() = StatusCode::from_u16(answered.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answered.content_type));
    if head {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    for (name, value) in &answered.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(*name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    Ok(response)
}
