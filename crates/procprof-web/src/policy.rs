//! The headers that keep pages to themselves.

use axum::http::{HeaderMap, HeaderValue, header};

/// The policy of our own pages.
const OWN_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     frame-ancestors 'none'; frame-src 'self'; base-uri 'none'; form-action 'self'";

/// The policy of pages and pictures with their own scripts: our single-file ones, and those of other origin.
pub(crate) const SANDBOX_POLICY: &str = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
     frame-ancestors 'self'";

/// Sets the headers that keep pages to themselves, where a handler has not.
pub(crate) fn harden(headers: &mut HeaderMap) {
    let mut set = |name: header::HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(header::CONTENT_SECURITY_POLICY, OWN_POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // For browsers and loads that do not name the site they come from.
    set(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    // Stricter policies make browsers send `Origin: null` with our own forms.
    set(header::REFERRER_POLICY, "same-origin");
    set(header::CACHE_CONTROL, "no-store");
}
