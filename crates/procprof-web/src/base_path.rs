//! The server below a path of a proxy: requests lose the path, and links of pages and redirections get it.
//!
//! Pages are written as if they were at the root, so that none can forget it: every link of a page of ours begins an
//! attribute with `"/`, which text cannot contain, since quotes in it are escaped.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::policy::SANDBOX_POLICY;
use super::problem::Problem;
use crate::Web;

/// Attributes that hold addresses.
const ATTRIBUTES: [&str; 4] = ["href=\"/", "src=\"/", "action=\"/", "formaction=\"/"];
/// The attribute that leads on to another page.
const REFRESH: &str = " content=\"0;url=/";
/// The block of addresses that the script of the viewer reads.
const DATA: &str = "<script type=\"application/json\"";
/// Largest page whose links are changed, in bytes.
const PAGE_MAX: u64 = 64 << 20;

/// The router below `base`, which is empty or begins with a slash and ends without one. A proxy may remove the path or
/// leave it.
pub(super) fn below(base: &str, router: Router) -> Router {
    if base.is_empty() {
        return router;
    }
    let base: Arc<str> = base.into();
    Router::new().fallback(move |request: Request| {
        let (base, router) = (Arc::clone(&base), router.clone());
        async move {
            match stripped(&base, request) {
                Ok(request) => router.oneshot(request).await.into_response(),
                Err(redirect) => redirect.into_response(),
            }
        }
    })
}

/// The request without the path; the path alone leads to the first page.
fn stripped(base: &str, mut request: Request) -> Result<Request, Redirect> {
    let whole = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let Some(rest) = whole.strip_prefix(base) else { return Ok(request) };
    match rest.as_bytes().first() {
        None => Err(Redirect::to(&format!("{base}/"))),
        Some(b'/') => {
            let mut parts = request.uri().clone().into_parts();
            parts.path_and_query = rest.parse().ok();
            if let Ok(uri) = Uri::from_parts(parts) {
                *request.uri_mut() = uri;
            }
            Ok(request)
        }
        Some(_) => Ok(request),
    }
}

/// Puts the path before the links of pages of ours, and before where redirections lead.
pub(super) async fn relink(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let base = &web.config().base_path;
    if base.is_empty() {
        return response;
    }
    relinked(base, response).await.unwrap_or_else(IntoResponse::into_response)
}

async fn relinked(base: &str, mut response: Response) -> Result<Response, Problem> {
    let place = response
        .headers()
        .get(header::LOCATION)
        .and_then(|place| place.to_str().ok())
        .filter(|place| place.starts_with('/'));
    if let Some(place) = place.map(|place| format!("{base}{place}")).and_then(|place| HeaderValue::try_from(place).ok())
    {
        response.headers_mut().insert(header::LOCATION, place);
    }
    let is_whole = axum::body::HttpBody::size_hint(response.body()).exact().is_some_and(|length| length <= PAGE_MAX);
    if !is_own_page(response.headers()) || !is_whole {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|error| Problem::internal(error.to_string()))?.to_bytes();
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(match std::str::from_utf8(&bytes) {
        Ok(page) => Response::from_parts(parts, Body::from(with_base(base, page))),
        Err(_) => Response::from_parts(parts, Body::from(bytes)),
    })
}

/// Whether an answer is a page of ours: those of other origin, and single-file pages, have a policy of their own.
fn is_own_page(headers: &HeaderMap) -> bool {
    let is_html =
        headers.get(header::CONTENT_TYPE).is_some_and(|media_type| media_type.as_bytes().starts_with(b"text/html"));
    is_html
        && headers
            .get(header::CONTENT_SECURITY_POLICY)
            .is_none_or(|policy| policy.as_bytes() != SANDBOX_POLICY.as_bytes())
}

/// A page with the path before its addresses.
pub(super) fn with_base(base: &str, page: &str) -> String {
    if base.is_empty() {
        return page.to_owned();
    }
    let mut out = String::with_capacity(page.len() + page.len() / 16);
    let mut rest = page;
    while let Some(at) = rest.find("=\"/").map(|at| at + 2) {
        let is_link = ATTRIBUTES.iter().any(|attribute| rest[..=at].ends_with(&format!(" {attribute}")));
        let is_outside = rest[at..].starts_with("//");
        out.push_str(&rest[..at]);
        if is_link && !is_outside {
            out.push_str(base);
        }
        rest = &rest[at..];
        // At least the slash, so that this comes to an end.
        out.push('/');
        rest = &rest[1..];
    }
    out.push_str(rest);
    data(base, out.replace(REFRESH, &format!(" content=\"0;url={base}/")))
}

/// The same in the block of addresses, whose JSON has no spaces.
fn data(base: &str, page: String) -> String {
    let Some(start) = page.find(DATA) else { return page };
    let end = page[start..].find("</script>").map_or(page.len(), |end| start + end);
    let block = page[start..end].replace("\":\"/", &format!("\":\"{base}/"));
    format!("{}{block}{}", &page[..start], &page[end..])
}

#[cfg(test)]
mod tests {
    use super::with_base;

    #[test]
    fn only_links_of_the_page_get_the_path() {
        for (page, linked) in [
            ("<a href=\"/p/1\">", "<a href=\"/x/p/1\">"),
            ("<a class=\"a\" href=\"/\"><img src=\"/i\">", "<a class=\"a\" href=\"/x/\"><img src=\"/x/i\">"),
            ("<form action=\"/a\"><button formaction=\"/b\">", "<form action=\"/x/a\"><button formaction=\"/x/b\">"),
            ("<meta content=\"0;url=/p/1\">", "<meta content=\"0;url=/x/p/1\">"),
            ("<a href=\"https://example.org/\">", "<a href=\"https://example.org/\">"),
            ("<a href=\"//example.org/\">", "<a href=\"//example.org/\">"),
            ("<code title=\"/usr/bin/x\">href=&quot;/p</code>", "<code title=\"/usr/bin/x\">href=&quot;/p</code>"),
            (
                "<script type=\"application/json\" id=\"viewer-config\">{\"tree\":\"/p/1/tree\",\"x\":\"a\"}</script>{\"tree\":\"/p\"}",
                "<script type=\"application/json\" id=\"viewer-config\">{\"tree\":\"/x/p/1/tree\",\"x\":\"a\"}</script>{\"tree\":\"/p\"}",
            ),
            ("", ""),
        ] {
            assert_eq!(with_base("/x", page), linked);
            assert_eq!(with_base("", page), page);
        }
    }
}
