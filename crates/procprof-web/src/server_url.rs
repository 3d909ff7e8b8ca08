//! The URL by which the client of a request reaches this server, for commands on pages and in answers.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

use procprof_profile::ProfileId;

use crate::Web;

/// The path of a profile's page, below the path of a proxy.
pub(crate) fn profile_path(web: &Web, id: ProfileId) -> String {
    format!("{}/p/{id}", web.config().base_path)
}

/// `http://HOST:PORT` and the path of a proxy, as the request was addressed; its host was checked before.
pub(crate) struct ServerUrl(pub(crate) String);

impl FromRequestParts<Arc<Web>> for ServerUrl {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<ServerUrl, Self::Rejection> {
        let header = || parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
        let host = parts.uri.authority().map(|authority| authority.as_str().to_owned()).or_else(header);
        let scheme = if web.config().tls_cert.is_some() { "https" } else { "http" };
        let host = host.unwrap_or_else(|| web.settings.bound.to_string());
        Ok(ServerUrl(format!("{scheme}://{host}{}", web.config().base_path)))
    }
}
