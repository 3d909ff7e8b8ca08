//! Bodies that report whether their exchange waits for its client: one that sends or reads nothing for too long is
//! closed.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use procprof_core::connection_slots::Exchange;

/// Bytes given to the connection at a time: progress is seen even of a client that takes minutes for a large answer.
const PIECE: usize = 64 << 10;

/// A request's body; its exchange waits for the client while more is expected of it.
pub(super) fn request(body: Incoming, exchange: &Arc<Exchange>) -> Body {
    Body::new(PacedRequest { body, exchange: Arc::downgrade(exchange) })
}

/// An answer's body; its exchange waits for the client from one piece to the next, and is over with it.
pub(super) fn answer(body: Body, exchange: Arc<Exchange>) -> Body {
    exchange.waits(true);
    Body::new(PacedResponse { body, rest: Bytes::new(), exchange })
}

struct PacedRequest {
    body: Incoming,
    exchange: Weak<Exchange>,
}

impl PacedRequest {
    fn waits(&self, waits: bool) {
        match self.exchange.upgrade() {
            Some(exchange) if waits => exchange.still_waits(),
            Some(exchange) => exchange.waits(false),
            None => {}
        }
    }
}

impl HttpBody for PacedRequest {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.waits(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for PacedRequest {
    fn drop(&mut self) {
        self.waits(false);
    }
}

struct PacedResponse {
    body: Body,
    /// Of the last frame, what has not been given on yet.
    rest: Bytes,
    exchange: Arc<Exchange>,
}

impl PacedResponse {
    fn piece(&mut self) -> Option<Result<Frame<Bytes>, axum::Error>> {
        let length = self.rest.len().min(PIECE);
        self.exchange.waits(true);
        Some(Ok(Frame::data(self.rest.split_to(length))))
    }
}

impl HttpBody for PacedResponse {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(self.piece());
        }
        // What makes the body is at work until the next frame is there.
        self.exchange.waits(false);
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.exchange.waits(true);
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => {
                self.rest = data;
                Poll::Ready(self.piece())
            }
            Some(Ok(Err(trailers))) => Poll::Ready(Some(Ok(trailers))),
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper().and_then(|upper| upper.checked_add(rest)) {
            hint.set_upper(upper);
        }
        hint
    }
}
