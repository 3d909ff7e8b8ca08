//! Answers with reports and stored files: media type, policy, file name, compression.

use std::io::Write;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::guard::SANDBOX_POLICY;
use super::problem::{Answer, Problem};

/// Smaller answers are not worth compressing.
const COMPRESS_MIN: usize = 4 << 10;

/// An answer with bytes.
pub(crate) struct Document {
    pub(crate) bytes: Bytes,
    pub(crate) media_type: &'static str,
    /// Name to save it under; shown in the browser if there is none.
    pub(crate) file_name: Option<String>,
    /// Whether it stays what it is for ever.
    pub(crate) unchanging: bool,
}

impl Document {
    /// The response. Pages and pictures bring their own scripts, so they are shut off from everything else of ours.
    pub(crate) async fn answer(self, request: &HeaderMap) -> Answer<Response> {
        let compress = self.bytes.len() >= COMPRESS_MIN && takes_gzip(request) && is_text(self.media_type);
        let body = if compress { gzip(self.bytes).await? } else { self.bytes };
        let mut response = Response::new(Body::from(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if compress {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if self.media_type.starts_with("image/svg") || self.media_type.starts_with("text/html") {
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX_POLICY));
        }
        if self.unchanging {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600"));
        }
        if let Some(name) = self.file_name {
            // Names in the store are letters, digits, `_`, `-` and `.`, so they need no escaping.
            let value = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")).map_err(|_| Problem::internal("a file name"))?;
            headers.insert(header::CONTENT_DISPOSITION, value);
        }
        Ok(response)
    }
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/") || media_type.starts_with("image/svg") || media_type.starts_with("application/json")
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("");
    accepted.split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim() == "gzip" && weight.trim() != "q=0"
    })
}

async fn gzip(bytes: Bytes) -> Answer<Bytes> {
    let work = move || {
        let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
        encoder.write_all(&bytes)?;
        encoder.finish()
    };
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(error.to_string()))?;
    done.map(Bytes::from).map_err(|error| Problem::internal(error.to_string()))
}
