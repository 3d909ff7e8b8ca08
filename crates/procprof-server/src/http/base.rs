//! The address by which whoever asks reaches this server: what commands on pages and in answers are written with.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

use crate::app::App;

/// `http://HOST:PORT`, as the request was addressed; its host was checked before.
pub(in crate::http) struct Base(pub(in crate::http) String);

impl FromRequestParts<Arc<App>> for Base {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Base, Self::Rejection> {
        let header = || parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
        let host = parts.uri.authority().map(|authority| authority.as_str().to_owned()).or_else(header);
        let scheme = if app.config().tls_cert.is_some() { "https" } else { "http" };
        Ok(Base(format!("{scheme}://{}", host.unwrap_or_else(|| app.bound.to_string()))))
    }
}
