//! The user that a request comes from, as the gate let them in.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use procprof_core::auth::Principal;
use procprof_core::shares::Requester;

use super::listen::peer;
use super::problem::Problem;

/// A request's user.
pub(crate) struct Caller(pub(crate) Principal);

/// A request's user as a requester of shares: of reports, uploads and the like.
pub(crate) struct ShareRequester(pub(crate) Requester);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Caller, Response> {
        parts.extensions.get().cloned().map(Caller).ok_or_else(|| Problem::unauthorized().into_response())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ShareRequester {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ShareRequester, Response> {
        let Caller(principal) = Caller::from_request_parts(parts, state).await?;
        Ok(ShareRequester(Requester::new(&principal, peer(&parts.extensions))))
    }
}
