//! An answer that is an error: status, a code for machines, a sentence for people; a problem document (RFC 9457) or a
//! page.
//!
//! Beside the document's own members there is `code`, which does not change between versions, and `error`, the same
//! sentence as `detail`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::Markup;
use procprof_core::captures::HeapError;
use procprof_core::chain;
use procprof_core::render::RenderError;
use procprof_core::renewed::ReadError;
use procprof_profile::{ParseProfileIdError, ParseProfileTypeError};
use schemars::JsonSchema;
use serde::Serialize;

/// Result of a handler.
pub(crate) type ApiResult<T> = std::result::Result<T, Problem>;

/// Why a request is refused or fails.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Seconds after which to come again.
    pub(crate) retry_after: Option<u64>,
    /// What a page of the problem shows to mend it, such as a form.
    pub(crate) form: Option<Markup>,
}

/// A problem document (RFC 9457).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemDocument<'a> {
    title: &'static str,
    status: u16,
    detail: &'a str,
    /// For programs; it does not change between versions.
    code: &'static str,
    /// As `detail`.
    error: &'a str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, code, message: message.into(), retry_after: None, form: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn busy(message: impl Into<String>) -> Problem {
        Problem { retry_after: Some(5), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "busy", message) }
    }

    pub(crate) fn unauthorized() -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "name and password are needed")
    }

    /// Something of ours failed; the sentence goes to the log, too.
    pub(crate) fn internal(message: impl Into<String>) -> Problem {
        let message = message.into();
        tracing::error!("{message}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let problem = ProblemDocument {
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.message,
            code: self.code,
            error: &self.message,
        };
        let mut response = (self.status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"procprof\", charset=\"UTF-8\""),
            );
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Read by the layer that shows problems to people as a page.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<procprof_store::Error> for Problem {
    fn from(error: procprof_store::Error) -> Problem {
        Problem::from(&error)
    }
}

impl From<&procprof_store::Error> for Problem {
    fn from(error: &procprof_store::Error) -> Problem {
        use procprof_store::Error as Store;
        match error {
            Store::NotFound { .. } => Problem::not_found(error.to_string()),
            Store::Gone { .. } => Problem::new(StatusCode::GONE, "gone", error.to_string()),
            Store::Exists { .. } | Store::Pinned { .. } => Problem::conflict(error.to_string()),
            Store::PinsFull { .. } => Problem::new(StatusCode::CONFLICT, "pins_full", error.to_string()),
            Store::Argument { .. } => Problem::bad_request(error.to_string()),
            Store::TooLarge { .. } => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error.to_string()),
            Store::DiskFull { .. } => Problem::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", error.to_string()),
            _ => Problem::internal(chain(error)),
        }
    }
}

impl From<RenderError> for Problem {
    fn from(error: RenderError) -> Problem {
        let message = error.to_string();
        let unavailable = |code| Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, message.clone());
        match error {
            RenderError::Question(_) => Problem::bad_request(message),
            RenderError::TooLarge { .. } => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "report_too_large", message),
            RenderError::Busy(_) => Problem::busy(message),
            RenderError::StillRendering { .. } => Problem { retry_after: Some(5), ..unavailable("still_rendering") },
            RenderError::TooLong { .. } => unavailable("render_stopped"),
            RenderError::Store(error) => Problem::from(&*error),
            RenderError::Unavailable(_) => Problem { retry_after: Some(5), ..unavailable("unavailable") },
            RenderError::Internal(_) => Problem::internal(message),
            RenderError::Stopping => unavailable("stopping"),
        }
    }
}

impl From<HeapError> for Problem {
    fn from(error: HeapError) -> Problem {
        let message = error.to_string();
        match error {
            HeapError::Refused(_) => Problem::new(StatusCode::CONFLICT, "heap_refused", message),
            HeapError::Failed(_) => Problem::new(StatusCode::BAD_GATEWAY, "node_failed", message),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Problem {
        match error {
            ReadError::Store(error) => error.into(),
            ReadError::Stopping => Problem::internal(error.to_string()),
        }
    }
}

impl From<ParseProfileTypeError> for Problem {
    fn from(error: ParseProfileTypeError) -> Problem {
        Problem::bad_request(error.to_string())
    }
}

impl From<ParseProfileIdError> for Problem {
    fn from(error: ParseProfileIdError) -> Problem {
        Problem::bad_request(error.to_string())
    }
}
