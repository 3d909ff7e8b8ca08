//! Bodies that are uploaded: one that does not move is ended, so that it gives back the share it holds.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::BodyExt;
use procprof_core::shares::UploadPace;
use tokio::time::{Instant, timeout_at};

use crate::problem::{ApiResult, Problem};

/// Time that an upload, or one frame of a push, has to arrive.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A body that is being received.
pub(crate) struct Upload {
    body: Body,
    what: &'static str,
    pace: UploadPace,
    until: Instant,
}

impl Upload {
    /// A body that begins now; `what` it is, for messages.
    pub(crate) fn new(body: Body, what: &'static str) -> Upload {
        Upload { body, what, pace: UploadPace::begin(), until: Instant::now() + PATIENCE }
    }

    /// Begins the time anew: the next part of the body is a unit of its own.
    pub(crate) fn begin_part(&mut self) {
        (self.pace, self.until) = (UploadPace::begin(), Instant::now() + PATIENCE);
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// The body broke off, or is too slow.
    pub(crate) async fn piece(&mut self) -> ApiResult<Option<Bytes>> {
        loop {
            let next = timeout_at(self.pace.deadline().min(self.until), self.body.frame()).await;
            let Some(frame) = next.map_err(|_| self.too_slow())? else { return Ok(None) };
            let frame = frame.map_err(|error| Problem::bad_request(format!("the body broke off: {error}")))?;
            if let Ok(piece) = frame.into_data() {
                self.pace.advance(piece.len() as u64);
                return Ok(Some(piece));
            }
        }
    }

    fn too_slow(&self) -> Problem {
        let why = format!(
            "{} came too slowly: {}, or took more than {} s",
            self.what,
            UploadPace::rule(),
            PATIENCE.as_secs()
        );
        Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", why)
    }
}
